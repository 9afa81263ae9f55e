//! Apache with mod_php: what these sites are written for.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use keepwarm_tests::process::{signal, wait_until};
use keepwarm_tests::tools::{free_port, run_ok};
use rustix::process::Signal;

use crate::PATIENCE;

const CONFIG: &str = r#"
ServerRoot @FOLDER@
ServerName localhost
Listen 127.0.0.1:@PORT@
PidFile @FOLDER@/pid
DefaultRuntimeDir @FOLDER@
ErrorLog @FOLDER@/error.log
@MODULES@
TypesConfig /etc/mime.types
StartServers 2
MaxRequestWorkers 4
@USER@
DocumentRoot @SITE@
DirectoryIndex index.php index.html
<Directory @SITE@>
    AllowOverride All
    Require all granted
</Directory>
<FilesMatch "\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
"#;

/// Ends with its test, however that ends.
pub struct Apache {
    child: Child,
    port: u16,
}

impl Apache {
    /// Serves a copy of the site, in a directory of its own.
    #[track_caller]
    pub fn start(folder: &Path, site: &Path) -> Self {
        let copy = folder.join("site");
        fs::create_dir_all(folder).expect("a folder");
        run_ok(Command::new("cp").arg("-a").arg(site).arg(&copy), PATIENCE);
        let mut user = String::new();
        if rustix::process::geteuid().is_root() {
            run_ok(Command::new("chown").args(["-R", "www-data:www-data"]).arg(&copy), PATIENCE);
            user = "User www-data\nGroup www-data".to_owned();
        }
        let port = free_port();
        let config = CONFIG
            .replace("@FOLDER@", &folder.display().to_string())
            .replace("@SITE@", &copy.display().to_string())
            .replace("@PORT@", &port.to_string())
            .replace("@MODULES@", &modules())
            .replace("@USER@", &user);
        let file = folder.join("apache.conf");
        fs::write(&file, config).expect("written");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "/usr/sbin/apache2", "-D", "FOREGROUND", "-f"])
            .arg(file)
            // When it ends, it ends its process group.
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("setpriv starts");
        wait_until("Apache listens", PATIENCE, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, port }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Those on Debian when `mod_php` is installed, after `a2enmod rewrite`.
fn modules() -> String {
    let folder = Path::new("/usr/lib/apache2/modules");
    let names = [
        "mpm_prefork",
        "authz_core",
        "authz_host",
        "access_compat",
        "alias",
        "dir",
        "env",
        "mime",
        "rewrite",
        "setenvif",
    ];
    let mut lines: String = names
        .iter()
        .map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", folder.display()))
        .collect();
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("apache2 is missing: scripts/setup test installs it").flatten().collect();
    files.retain(|file| file.file_name().to_string_lossy().starts_with("libphp"));
    files.sort_by_key(fs::DirEntry::file_name);
    let php = files.last().expect("libapache2-mod-php is missing: scripts/setup test installs it");
    lines += &format!("LoadModule php_module {}\n", php.path().display());
    lines
}
