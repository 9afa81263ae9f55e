use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::model::PemFile;
use crate::sources::{
    Account, CertificateFault, CertificateSummary, Credentials, PathKind, Resource, Sources,
};

/// A file system and an environment in memory.
///
/// Golden files describe theirs in comments: `#% env NAME=value`, `#% unprivileged`, and `#% file PATH` with the
/// file's lines behind it, each after `#| `.
#[derive(Debug, Default, Clone)]
pub(super) struct MemorySources {
    pub(super) files: BTreeMap<String, String>,
    pub(super) directories: BTreeSet<String>,
    pub(super) env: BTreeMap<String, String>,
    /// The process is not root.
    pub(super) unprivileged: bool,
}

pub(super) const ROOT: &str = "keepwarm.toml";

impl MemorySources {
    /// The sources of a golden file, which itself is `keepwarm.toml`.
    pub(super) fn of(text: &str) -> MemorySources {
        let mut world = MemorySources::default();
        world.files.insert(ROOT.to_owned(), text.to_owned());
        for directory in [
            ".",
            "/",
            "/root",
            "/run",
            "/srv/shop",
            "/var/lib",
            "/var/log",
            "conf.d",
            "public",
            "public/assets",
            "var/files",
        ] {
            world.directories.insert(directory.to_owned());
        }
        for (path, content) in [
            ("/srv/shop/.venv/bin/python", ""),
            ("errors/404.html", "<h1>Not found</h1>\n"),
            ("errors/5xx.html", "<h1>Sorry</h1>\n"),
            ("/srv/shop/.env", "A=1\n"),
            ("/run/secrets/db", "postgres://shop\n"),
            ("/etc/ssl/internal-ca.pem", "-----BEGIN CERTIFICATE-----\n"),
            ("/etc/ssl/client.pem", "-----BEGIN CERTIFICATE-----\n"),
            ("htpasswd", "alice:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n"),
            ("/etc/ssl/client.key", "-----BEGIN PRIVATE KEY-----\n"),
            ("/etc/ssl/shop.pem", "-----BEGIN CERTIFICATE-----\n"),
            ("/etc/ssl/shop.key", "-----BEGIN PRIVATE KEY-----\n"),
            ("/etc/ssl/shop.ocsp", "0"),
            ("/etc/ssl/revoked.pem", "-----BEGIN X509 CRL-----\n"),
        ] {
            world.files.insert(path.to_owned(), content.to_owned());
        }
        let mut file = None;
        for line in text.lines() {
            if line == "#% unprivileged" {
                world.unprivileged = true;
            } else if let Some(variable) = line.strip_prefix("#% env ") {
                let (name, value) = variable.split_once('=').expect("#% env NAME=value");
                world.env.insert(name.to_owned(), value.to_owned());
            } else if let Some(path) = line.strip_prefix("#% file ") {
                world.files.insert(path.to_owned(), String::new());
                file = Some(path.to_owned());
            } else if let (Some(line), Some(path)) = (line.strip_prefix("#|"), &file) {
                let content = world.files.get_mut(path).expect("inserted above");
                content.push_str(line.strip_prefix(' ').unwrap_or(line));
                content.push('\n');
            }
        }
        world
    }

    /// As [`MemorySources::of`], for a text whose comments may be damaged too.
    pub(super) fn of_mutated(text: &str) -> MemorySources {
        let mut world = MemorySources::of("");
        world.files.insert(ROOT.to_owned(), text.to_owned());
        world
    }
}

impl Sources for MemorySources {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "No such file or directory");
        self.files.get(path).map(|text| text.clone().into_bytes()).ok_or_else(missing)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
        let fits = |path: &&String| path.starts_with(start) && path.ends_with(end);
        // In reverse order, because the crate must sort them.
        Ok(self.files.keys().chain(&self.directories).filter(fits).rev().cloned().collect())
    }

    fn path_kind(&self, path: &str) -> PathKind {
        let path = path.strip_prefix("./").unwrap_or(path);
        let path = path.strip_suffix("/.").unwrap_or(path);
        if self.directories.contains(path) {
            PathKind::Directory
        } else if self.files.contains_key(path) {
            PathKind::File
        } else {
            PathKind::Missing
        }
    }

    fn user(&self, name: &str) -> Option<Account> {
        let (uid, gid) = match name {
            "root" | "0" => (0, 0),
            "shop" | "1000" => (1000, 1000),
            "www" | "33" => (33, 33),
            _ => return None,
        };
        let name = if uid == 1000 { "shop" } else { name };
        Some(Account { name: name.to_owned(), uid, gid, groups: vec![gid], home: "/home".into() })
    }

    fn group(&self, name: &str) -> Option<u32> {
        [("root", 0), ("shop", 1000), ("www", 33)]
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, gid)| *gid)
    }

    fn credentials(&self) -> Credentials {
        match self.unprivileged {
            true => Credentials { uid: 1000, gid: 1000, may_change: false, may_signal: false },
            false => Credentials { uid: 0, gid: 0, may_change: true, may_signal: true },
        }
    }

    fn may_enter(&self, path: &str, user: &Account) -> bool {
        user.uid == 0 || path != "/root"
    }

    fn hard_limit(&self, resource: Resource) -> Option<u64> {
        (self.unprivileged && resource == Resource::Files).then_some(4096)
    }

    /// From lines of `cert`: `names: a.example *.b.example`, `kind: RSA`, `issuer: R3`, `expired: DATE`, `lacks: chain`, `fault: MESSAGE`, `key fault: MESSAGE`.
    fn certificate(&self, cert: &PemFile, _: &PemFile) -> Result<CertificateSummary, CertificateFault> {
        let mut summary = CertificateSummary {
            names: vec!["shop.example".to_owned()],
            key_kind: "ECDSA",
            ..CertificateSummary::default()
        };
        for (key, value) in cert.pem.expose().lines().filter_map(|line| line.split_once(": ")) {
            let value = value.to_owned();
            match key {
                "names" => summary.names = value.split_whitespace().map(str::to_owned).collect(),
                "kind" => summary.key_kind = if value == "RSA" { "RSA" } else { "ECDSA" },
                "issuer" => summary.issuer = value,
                "expired" => summary.expired = Some(value),
                "lacks" => summary.lacks_chain = true,
                "fault" => return Err(CertificateFault { is_of_key: false, message: value }),
                "key fault" => return Err(CertificateFault { is_of_key: true, message: value }),
                _ => {}
            }
        }
        Ok(summary)
    }

    fn env(&self) -> BTreeMap<String, String> {
        self.env.clone()
    }
}
