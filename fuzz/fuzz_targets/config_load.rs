//! Property: no text, and no environment, makes reading a configuration panic; what is refused has a reason, and no reason speaks to the terminal.
#![no_main]

use std::collections::BTreeMap;
use std::io;

use keepwarm_config::{Account, Credentials, PathKind, Resource, Sources, explain, load};
use libfuzzer_sys::fuzz_target;

/// The file, an included one behind the first line `---`, and variables in lines `NAME=value` behind the second.
struct World<'a> {
    files: [&'a [u8]; 2],
    env: BTreeMap<String, String>,
}

impl Sources for World<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match path {
            "keepwarm.toml" => Ok(self.files[0].to_vec()),
            "a.toml" | "a.env" | "/a" => Ok(self.files[1].to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn glob(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(vec!["a.toml".to_owned(), "keepwarm.toml".to_owned()])
    }

    fn path_kind(&self, path: &str) -> PathKind {
        match path.len() % 3 {
            0 => PathKind::Missing,
            1 => PathKind::Directory,
            _ => PathKind::File,
        }
    }

    fn user(&self, name: &str) -> Option<Account> {
        name.len().is_multiple_of(2).then(|| Account::from_uid(7))
    }

    fn group(&self, name: &str) -> Option<u32> {
        name.len().is_multiple_of(2).then_some(7)
    }

    fn credentials(&self) -> Credentials {
        Credentials {
            uid: 0,
            gid: 0,
            may_change: self.env.len() % 2 == 0,
            may_signal: self.env.len() % 3 == 0,
        }
    }

    fn may_enter(&self, path: &str, _: &Account) -> bool {
        path.len() % 2 == 0
    }

    fn hard_limit(&self, resource: Resource) -> Option<u64> {
        (resource == Resource::Files).then_some(4096)
    }

    fn certificate(
        &self,
        _: &keepwarm_config::PemFile,
        _: &keepwarm_config::PemFile,
    ) -> Result<keepwarm_config::CertificateSummary, keepwarm_config::CertificateFault> {
        Ok(keepwarm_config::CertificateSummary::default())
    }

    fn env(&self) -> BTreeMap<String, String> {
        self.env.clone()
    }
}

fuzz_target!(|data: &[u8]| {
    let (main, rest) = cut(data);
    let (included, variables) = cut(rest);
    let variables = String::from_utf8_lossy(variables);
    let env = variables.lines().filter_map(|line| line.split_once('='));
    let env = env.map(|(name, value)| (format!("KEEPWARM_{name}"), value.to_owned())).collect();
    match load(&World { files: [main, included], env }, "keepwarm.toml") {
        Ok((config, warnings)) => {
            assert!(
                !config.listeners.is_empty()
                    || config.upstreams.iter().any(|upstream| !upstream.bind.is_empty())
            );
            warnings.iter().for_each(|warning| quiet(&warning.to_string()));
        }
        Err(report) => {
            assert!(!report.problems().is_empty());
            quiet(&report.to_string());
        }
    }
    if let Some(Err(reason)) = variables.lines().next().map(explain) {
        assert!(!reason.is_empty());
    }
});

fn cut(data: &[u8]) -> (&[u8], &[u8]) {
    match data.windows(5).position(|window| window == b"\n---\n") {
        Some(at) => (&data[..at], &data[at + 5..]),
        None => (data, b""),
    }
}

fn quiet(text: &str) {
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}
