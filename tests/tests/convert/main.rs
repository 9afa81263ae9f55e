//! `keepwarm convert`: what it writes for every fixture passes `keepwarm run --dry-run`, and serves as the old server did.

mod verify;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::{keepwarm, root, tools};

const BOUND: Duration = Duration::from_secs(60);

/// A directory of its own for a test, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("keepwarm-convert-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The fixtures of the crate that have a result.
fn fixtures() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for tool in fs::read_dir(root().join("crates/convert/tests/fixtures")).expect("fixtures") {
        let fixtures = fs::read_dir(tool.expect("an entry").path()).expect("fixtures of a tool");
        all.extend(fixtures.map(|fixture| fixture.expect("an entry").path()));
    }
    all.retain(|path| path.join("keepwarm.toml").exists());
    all.sort();
    all
}

/// A machine for a configuration: its directories, files, certificates, users and programs.
struct Machine {
    directory: Directory,
    cert: String,
    key: String,
}

/// Keys whose values are directories.
const DIRECTORIES: [&str; 3] = ["files", "try_files", "directory"];
/// Keys whose values are files.
const FILES: [&str; 11] = [
    "cert",
    "key",
    "ca",
    "client_ca",
    "entry",
    "file",
    "env_file",
    "interpreter",
    "command",
    "puma_config",
    "pid_file",
];

impl Machine {
    fn new(name: &str) -> Machine {
        let authority = Authority::default();
        let identity = authority.identity(&["example.com"]);
        Machine { directory: Directory::new(name), cert: identity.cert, key: identity.key }
    }

    /// The configuration with the paths of this machine, which are there.
    fn localized(&self, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(&self.line(line));
            out.push('\n');
        }
        out
    }

    fn line(&self, line: &str) -> String {
        let line = match line.split_once(" = \"").filter(|(key, _)| matches!(*key, "user" | "group")) {
            Some(("user", _)) => "user = \"nobody\"".to_owned(),
            Some(_) => "group = \"nogroup\"".to_owned(),
            None => line.to_owned(),
        };
        let line = match line.starts_with("bind = ") {
            true => self.sockets(&line),
            false => line,
        };
        let mut out = String::new();
        let mut rest = line.as_str();
        while let Some(at) = rest.find("\"/") {
            let (before, after) = rest.split_at(at + 1);
            let end = after.find('"').unwrap_or(after.len());
            let (path, behind) = after.split_at(end);
            out.push_str(before);
            match self.kind(before, path) {
                Some(kind) => out.push_str(&self.make(path, kind)),
                None => out.push_str(path),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    /// Sockets to listen on have directories that exist.
    fn sockets(&self, line: &str) -> String {
        for path in line.split('"').filter_map(|text| text.strip_prefix("unix:")) {
            let local = format!("{}{path}", self.directory.0.display());
            fs::create_dir_all(Path::new(&local).parent().expect("a directory")).expect("a directory");
        }
        line.replace("\"unix:/", &format!("\"unix:{}/", self.directory.0.display()))
    }

    /// What a path stands for, by the key before it.
    fn kind(&self, before: &str, path: &str) -> Option<Kind> {
        if before.starts_with("\" = ") {
            // The key was a path itself: `send_files = { "/protected/" = "/srv/files" }`.
            return Some(Kind::Directory);
        }
        let before = before.trim_end_matches('"').trim_end().trim_end_matches('[').trim_end();
        let key = before.strip_suffix('=')?.trim_end();
        let name = key.rsplit([' ', '{', ',']).next().unwrap_or("").trim_matches('"');
        match name {
            name if DIRECTORIES.contains(&name) => Some(Kind::Directory),
            name if FILES.contains(&name) => Some(Kind::File(name.to_owned())),
            name if name.len() == 3 && name.starts_with(['4', '5']) => Some(Kind::File("page".to_owned())),
            _ => {
                assert!(!path.starts_with("/srv") && !path.starts_with("/var/www"), "{before} {path}");
                None
            }
        }
    }

    fn make(&self, path: &str, kind: Kind) -> String {
        let local = format!("{}{path}", self.directory.0.display());
        match kind {
            Kind::Directory => {
                let fixed = local.split("/$").next().unwrap_or(&local);
                fs::create_dir_all(fixed).expect("a directory");
                fs::write(Path::new(fixed).join("config.ru"), "\n").expect("a file");
            }
            Kind::File(name) => {
                let file = Path::new(&local);
                fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
                let text = match name.as_str() {
                    "cert" | "ca" | "client_ca" => format!("{}{}", self.cert, self.key),
                    "key" => format!("{}{}", self.cert, self.key),
                    "entry" if path.ends_with(".php") => "<?php echo 1;\n".to_owned(),
                    "entry" => "run lambda { |env| [200, {}, []] }\n".to_owned(),
                    "env_file" => "A=1\n".to_owned(),
                    "interpreter" | "command" => "#!/bin/sh\nexit 1\n".to_owned(),
                    _ => "alice:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n".to_owned(),
                };
                if !file.is_dir() {
                    fs::write(file, text).expect("a file");
                    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("its mode");
                }
            }
        }
        local
    }

    fn dry_run(&self, toml: &str) -> Output {
        for name in ["public", "bin"] {
            fs::create_dir_all(self.directory.0.join(name)).expect("a directory");
        }
        for name in ["puma.rb", ".env", "config.ru", "worker.php", "bin/worker.php"] {
            fs::write(self.directory.0.join(name), "\n").expect("a file");
        }
        let path = self.directory.0.join("keepwarm.toml");
        fs::write(&path, toml).expect("a configuration");
        // Programs that a command names without a path.
        let bin = self.directory.0.join("bin");
        fs::create_dir_all(&bin).expect("a directory");
        for line in toml.lines().filter(|line| line.starts_with("command = [\"")) {
            let name = line.split('"').nth(1).unwrap_or("");
            if !name.contains('/') {
                fs::write(bin.join(name), "#!/bin/sh\n").expect("a program");
                fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("its mode");
            }
        }
        let search = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(keepwarm());
        command.args(["run", "--dry-run", "--config"]).arg(&path).env("PATH", search);
        // The variables that the input takes from its environment.
        for (_, rest) in toml.match_indices("${").map(|(at, _)| toml.split_at(at + 2)) {
            let name = rest.split(['}', ':']).next().unwrap_or("");
            command.env(name, "value");
        }
        tools::run(&mut command, BOUND)
    }
}

enum Kind {
    Directory,
    File(String),
}

/// `keepwarm convert` of a fixture, as its `input` says.
fn convert(directory: &Path) -> Output {
    let mut command = Command::new(keepwarm());
    command.arg("convert").current_dir(directory);
    match fs::read_to_string(directory.join("input")) {
        Ok(input) => {
            command.args(input.lines().flat_map(|line| line.split(' ')).filter(|word| !word.is_empty()));
        }
        Err(_) => {
            let golden = ["keepwarm.toml", "report.txt", "error.txt", ".env"];
            let mut names: Vec<_> = fs::read_dir(directory)
                .expect("a fixture")
                .map(|entry| entry.expect("an entry"))
                .filter(|entry| entry.path().is_file())
                .map(|entry| entry.file_name().into_string().expect("a name"))
                .filter(|name| !golden.contains(&name.as_str()))
                .collect();
            names.sort();
            command.args(names);
        }
    }
    tools::run(&mut command, BOUND)
}

#[test]
fn the_result_of_every_fixture_is_a_valid_configuration() {
    let mut faults = Vec::new();
    for (number, directory) in fixtures().into_iter().enumerate() {
        let output = convert(&directory);
        let golden = fs::read_to_string(directory.join("keepwarm.toml")).expect("golden");
        let report = fs::read_to_string(directory.join("report.txt")).expect("golden");
        let expected = if report.ends_with("exit status 1\n") { 1 } else { 0 };
        let name = directory.strip_prefix(root()).expect("a fixture").display().to_string();
        assert_eq!(output.status.code(), Some(expected), "{name}: {}", said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), golden, "{name}");
        let machine = Machine::new(&number.to_string());
        let checked = machine.dry_run(&machine.localized(&golden));
        if !checked.status.success() {
            faults.push(format!("{name}: {}", said(&checked)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let directory = Directory::new("existing");
    let (input, out) = (directory.0.join("site.conf"), directory.0.join("keepwarm.toml"));
    fs::write(&input, "server { listen 80; return 204; }\n").expect("a file");
    let run =
        || tools::run(Command::new(keepwarm()).arg("convert").arg(&input).arg("--out").arg(&out), BOUND);
    let first = run();
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    assert!(first.stdout.is_empty());
    let written = fs::read_to_string(&out).expect("the file");
    assert!(written.contains("respond = 204"), "{written}");
    fs::write(&out, "# mine\n").expect("a file");
    let second = run();
    assert_eq!(second.status.code(), Some(2));
    assert!(said(&second).contains("exists and was not overwritten"), "{}", said(&second));
    assert_eq!(fs::read_to_string(&out).expect("the file"), "# mine\n");
}

#[test]
fn a_syntax_error_has_its_line_and_nothing_is_written() {
    let directory = Directory::new("syntax");
    let (input, out) = (directory.0.join("site.conf"), directory.0.join("keepwarm.toml"));
    fs::write(&input, "server {\n  listen 80;\n  root /srv\n}\n").expect("a file");
    let output =
        tools::run(Command::new(keepwarm()).arg("convert").arg(&input).arg("--out").arg(&out), BOUND);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("site.conf:3: expected `;` or `{` after `root`, found `}`"),
        "{}",
        said(&output)
    );
    assert!(!out.exists());
}

/// Configurations that packages of Debian install, which nobody here wrote: for each its name, its files, and what the
/// error says where there is nothing to serve.
const PACKAGED: [(&str, &[&str], Option<&str>); 13] = [
    ("nginx", &["/etc/nginx/nginx.conf"], None),
    ("nginx-site", &["/etc/nginx/sites-available/default", "/etc/php/8.2/fpm/pool.d/www.conf"], None),
    ("php-fpm", &["/etc/php/8.2/fpm/pool.d/www.conf"], Some("a pool of php-fpm serves no site")),
    ("apache2", &["/etc/apache2/apache2.conf"], None),
    ("apache2-ssl", &["/etc/apache2/sites-available/default-ssl.conf"], None),
    ("haproxy", &["/etc/haproxy/haproxy.cfg"], Some("there is no frontend, listen or backend")),
    ("phpmyadmin", &["/etc/phpmyadmin/apache.conf"], None),
    ("roundcube", &["/etc/roundcube/apache.conf"], Some("there is no <VirtualHost>")),
    ("mediawiki", &["/etc/apache2/conf-available/mediawiki.conf"], None),
    ("dokuwiki", &["/etc/apache2/conf-available/dokuwiki.conf"], None),
    ("wordpress-apache", &["/usr/share/doc/wordpress/examples/apache.conf"], None),
    ("redmine-apache", &["/usr/share/doc/redmine/examples/apache2-host.conf"], None),
    ("redmine-nginx", &["/usr/share/doc/redmine/examples/nginx-host.conf"], None),
];

#[test]
fn configurations_of_packages_are_converted() {
    let mut faults = Vec::new();
    for (name, files, error) in PACKAGED {
        let files: Vec<&str> = files.to_vec();
        for file in &files {
            assert!(Path::new(file).exists(), "{file} is not installed: scripts/setup test");
        }
        let output = tools::run(Command::new(keepwarm()).arg("convert").args(&files), BOUND);
        if let Some(error) = error {
            assert_eq!(output.status.code(), Some(2), "{name}: {}", said(&output));
            assert!(said(&output).contains(error), "{name}: {}", said(&output));
            continue;
        }
        if !matches!(output.status.code(), Some(0 | 1)) {
            faults.push(format!("{name}: {}", said(&output)));
            continue;
        }
        let toml = String::from_utf8_lossy(&output.stdout).into_owned();
        let machine = Machine::new(name);
        let checked = machine.dry_run(&machine.localized(&toml));
        if !checked.status.success() {
            faults.push(format!("{name}: {}\n{toml}", said(&checked)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
