//! The world as the configuration may see it: files and the environment.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use keepwarm_config::{
    Account, CertificateFault, CertificateSummary, Credentials, PathKind, PemFile, Resource, Sources,
};

use crate::users;

/// The file system and the environment of this process.
#[derive(Debug)]
pub(crate) struct SystemSources;

impl Sources for SystemSources {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        let directory_shown = if pattern.contains('/') { format!("{directory}/") } else { String::new() };
        let mut found = Vec::new();
        let directory = if directory.is_empty() { "/" } else { directory };
        for entry in std::fs::read_dir(directory)? {
            if let Ok(file) = entry?.file_name().into_string()
                && fits(name.as_bytes(), file.as_bytes())
            {
                found.push(format!("{directory_shown}{file}"));
            }
        }
        Ok(found)
    }

    fn path_kind(&self, path: &str) -> PathKind {
        match std::fs::metadata(Path::new(path)) {
            Ok(about) if about.is_dir() => PathKind::Directory,
            Ok(_) => PathKind::File,
            Err(_) => PathKind::Missing,
        }
    }

    fn user(&self, name: &str) -> Option<Account> {
        users::user(name)
    }

    fn group(&self, name: &str) -> Option<u32> {
        users::group(name)
    }

    fn credentials(&self) -> Credentials {
        users::credentials()
    }

    fn may_enter(&self, path: &str, user: &Account) -> bool {
        users::may_enter(Path::new(path), user)
    }

    fn hard_limit(&self, resource: Resource) -> Option<u64> {
        users::hard_limit(resource)
    }

    fn certificate(&self, cert: &PemFile, key: &PemFile) -> Result<CertificateSummary, CertificateFault> {
        crate::tls::summary(cert, key)
    }

    fn env(&self) -> BTreeMap<String, String> {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }
}

/// `*` is any run of bytes, `?` any one; names that begin with a dot want one in the pattern.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    wild(pattern, name)
}

pub(crate) fn wild(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| wild(rest, name)))
        }
        (Some((b'?', pattern)), Some((_, name))) => wild(pattern, name),
        (Some((byte, pattern)), Some((first, name))) => byte == first && wild(pattern, name),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_files() {
        for (pattern, name, expected) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".hidden.toml", false),
            ("*.toml", "a.toml.bak", false),
            ("?.toml", "ab.toml", false),
            ("a*b*c", "axxbxxc", true),
            (".*", ".x", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
