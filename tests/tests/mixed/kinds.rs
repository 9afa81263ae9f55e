//! The kinds of applications, and how they differ.

use std::process::Command;

use keepwarm_tests::oracle::Rules;
use keepwarm_tests::tools::run_ok;

use crate::{KEPT, LONG};

pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Keys of the application.
    app: String,
    /// A part of its workers' command lines, and how many there are.
    pub(crate) process: &'static str,
    pub(crate) processes: usize,
    pub(crate) rules: Rules,
    /// The result of a request that calls `exit`.
    pub(crate) exit: Exit,
    /// An exception in the middle of a response cuts it; a classic script's response is then what it has printed.
    pub(crate) late_is_cut: bool,
    /// It reads forms with files.
    pub(crate) forms: bool,
    /// Connections to its workers that stay open.
    pub(crate) kept_connections: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It gets 500, and the process goes when its replacement is there.
    Replaced,
    /// It gets a response with what had been printed.
    Responded,
    /// It loses its process, and its response.
    Lost,
}

impl Kind {
    pub(crate) fn config(&self) -> String {
        format!(
            "[server]\nlog = {{ file = \"@DIR@/log\" }}\nshutdown_grace = \"30s\"\n\
             [listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = {{ file = \"@DIR@/access\" }}\nlimits = {{ idle_timeout = \"1h\" }}\n\
             [[listen.main.route]]\napp = \"app\"\n{}\n\
             env = {{ DIR = \"@DIR@\" }}\nqueue_timeout = \"80s\"\nstart_retries = 1000\n",
            self.app
        )
    }
}

fn on_the_wire(name: &'static str, process: &'static str, processes: usize, keys: &str) -> Kind {
    Kind {
        name,
        app: format!("[app.app]\ndirectory = \"@APPS@\"\nworkers = {processes}\n{keys}"),
        process,
        processes,
        rules: Rules::WIRE,
        exit: Exit::Replaced,
        late_is_cut: true,
        forms: false,
        kept_connections: 0,
    }
}

fn python(name: &'static str, processes: usize, keys: &str) -> Kind {
    on_the_wire(name, "-m keepwarm", processes, &format!("interpreter = \"@PYTHON@\"\n{keys}"))
}

/// One worker: it is given requests ahead.
pub(crate) fn wsgi() -> Kind {
    python("wsgi", 1, "entry = \"trouble_app:application\"")
}

pub(crate) fn wsgi_with_threads() -> Kind {
    python("wsgi_with_threads", 2, "entry = \"trouble_app:application\"\nthreads = 4")
}

pub(crate) fn asgi() -> Kind {
    python("asgi", 2, "entry = \"trouble_app:asgi\"")
}

pub(crate) fn rack() -> Kind {
    Kind { forms: true, ..on_the_wire("rack", "trouble.ru", 1, "entry = \"trouble.ru\"") }
}

/// Without forms: a thread that kills the process leaves the files behind that Rack has made for the forms of the others.
pub(crate) fn rack_with_threads() -> Kind {
    on_the_wire("rack_with_threads", "trouble.ru", 2, "entry = \"trouble.ru\"\nthreads = 4")
}

pub(crate) fn php() -> Kind {
    let keys = "entry = \"trouble_site/warm.php\"\nkind = \"php\"";
    Kind { exit: Exit::Responded, forms: true, ..on_the_wire("php", "warm.php", 1, keys) }
}

fn classic(name: &'static str, process: &'static str, processes: usize, interpreter: &str) -> Kind {
    let app = format!(
        "try_files = \"@APPS@/trouble_site\"\n[app.app]\nkind = \"fastcgi\"\nentry = \"index.php\"\ndirectory = \"@APPS@/trouble_site\"\n\
         interpreter = \"{interpreter}\"\nworkers = 2"
    );
    Kind {
        app,
        rules: Rules::SERVER,
        exit: Exit::Responded,
        late_is_cut: false,
        forms: true,
        kept_connections: KEPT,
        ..on_the_wire(name, process, processes, "")
    }
}

pub(crate) fn php_cgi() -> Kind {
    classic("php_cgi", "php-cgi", 2, "php-cgi")
}

/// The php-fpm of this machine: Debian names it after its version. One process keeps the others.
pub(crate) fn php_fpm() -> Kind {
    let found = run_ok(Command::new("sh").arg("-c").arg("ls /usr/sbin/php-fpm* | sort | tail -n 1"), LONG);
    classic("php_fpm", "php-fpm", 3, found.trim())
}

pub(crate) fn node() -> Kind {
    let keys = "kind = \"http\"\ncommand = [\"node\", \"@APPS@/trouble_app.js\"]";
    Kind {
        rules: Rules::SERVER,
        exit: Exit::Lost,
        kept_connections: KEPT,
        ..on_the_wire("node", "trouble_app.js", 2, keys)
    }
}
