//! Where `keepwarm run TARGET` listens and with how many workers, by its options and by the variables that platforms set.

use super::Run;

/// The variables `PORT` and `WEB_CONCURRENCY`, as far as they apply.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    pub(crate) port: Option<String>,
    pub(crate) web_concurrency: Option<String>,
}

impl Variables {
    /// Those of this process. A setting by `KEEPWARM_…` says the same more precisely, and is left to the configuration.
    pub(crate) fn of_process() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let has_setting = |is: &dyn Fn(&str) -> bool| {
            std::env::vars_os().any(|(name, _)| {
                name.to_str().and_then(|name| name.strip_prefix("KEEPWARM_")).is_some_and(is)
            })
        };
        let is_address = |name: &str| matches!(name, "LISTEN__MAIN__BIND" | "LISTEN__MAIN__DOMAINS");
        let is_count = |name: &str| name.starts_with("APP__") && name.ends_with("__WORKERS");
        Self {
            port: set("PORT").filter(|_| !has_setting(&is_address)),
            web_concurrency: set("WEB_CONCURRENCY").filter(|_| !has_setting(&is_count)),
        }
    }
}

impl Run {
    /// The addresses to listen on; empty: the default.
    ///
    /// `PORT` alone is every network, as gunicorn and Puma have it: a platform that sets it connects from outside.
    ///
    /// # Errors
    /// `PORT` is not a port.
    pub(crate) fn binds(&self, variables: &Variables) -> Result<Vec<String>, String> {
        if !self.bind.is_empty() {
            return Ok(self.bind.clone());
        }
        let has_option = self.port.is_some() || self.host.is_some();
        if !has_option && !self.domain.is_empty() {
            return Ok(Vec::new());
        }
        let by_variable = variables.port.as_deref().filter(|_| self.port.is_none());
        let by_variable = by_variable.map(|text| {
            text.parse::<u16>().map_err(|_| {
                format!(
                    "PORT={text} is not a port number; set it to one from 0 to 65535, unset it, or use --port"
                )
            })
        });
        let by_variable = by_variable.transpose()?;
        let (host, port) = match (self.host.as_deref(), self.port.or(by_variable)) {
            (None, None) => return Ok(Vec::new()),
            (None, Some(port)) if self.port.is_none() => ("0.0.0.0", port),
            (host, port) => (host.unwrap_or("127.0.0.1"), port.unwrap_or(8080)),
        };
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        Ok(vec![if is_bare_ipv6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") }])
    }

    /// The number of workers; `None`: the default.
    ///
    /// # Errors
    /// `WEB_CONCURRENCY` is not a number of workers.
    pub(crate) fn worker_count(&self, variables: &Variables) -> Result<Option<String>, String> {
        let Some(text) = variables.web_concurrency.as_deref().filter(|_| self.workers.is_none()) else {
            return Ok(self.workers.clone());
        };
        match text.parse::<u16>() {
            Ok(1..=1024) => Ok(Some(text.to_owned())),
            _ => Err(format!(
                "WEB_CONCURRENCY={text} is not a number of workers; set it to one from 1 to 1024, unset it, or use --workers"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command};
    use super::{Run, Variables};

    fn run(line: &str) -> Run {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    fn binds(line: &str, port: Option<&str>) -> Result<String, String> {
        let variables = Variables { port: port.map(str::to_owned), web_concurrency: None };
        run(line).binds(&variables).map(|binds| binds.join(" "))
    }

    #[test]
    fn an_address_comes_from_options_or_from_port() {
        for (line, port, expected) in [
            ("keepwarm run app:app", None, ""),
            ("keepwarm run app:app --port 9000", None, "127.0.0.1:9000"),
            ("keepwarm run app:app -p 9000", None, "127.0.0.1:9000"),
            ("keepwarm run app:app --host 0.0.0.0", None, "0.0.0.0:8080"),
            ("keepwarm run app:app --host ::1 --port 0", None, "[::1]:0"),
            ("keepwarm run app:app --host [::1]", None, "[::1]:8080"),
            ("keepwarm run app:app", Some("5000"), "0.0.0.0:5000"),
            ("keepwarm run app:app --host 127.0.0.1", Some("5000"), "127.0.0.1:5000"),
            ("keepwarm run app:app --port 9000", Some("5000"), "127.0.0.1:9000"),
            ("keepwarm run app:app --port 9000", Some("junk"), "127.0.0.1:9000"),
            ("keepwarm run app:app --bind unix:/x", Some("5000"), "unix:/x"),
            ("keepwarm run app:app --domain shop.example", Some("5000"), ""),
        ] {
            assert_eq!(binds(line, port).as_deref(), Ok(expected), "{line} {port:?}");
        }
        for port in ["junk", "65536", "-1", "80 "] {
            let message = binds("keepwarm run app:app", Some(port)).unwrap_err();
            assert!(message.starts_with(&format!("PORT={port} is not a port number; ")), "{message}");
        }
        for line in [
            "keepwarm run a --bind x:1 --port 2",
            "keepwarm run a --bind x:1 --host y",
            "keepwarm run a --port 65536",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn a_number_of_workers_comes_from_the_option_or_from_web_concurrency() {
        let count = |line: &str, value: &str| {
            let variables = Variables { port: None, web_concurrency: Some(value.to_owned()) };
            run(line).worker_count(&variables)
        };
        assert_eq!(count("keepwarm run a", "3"), Ok(Some("3".to_owned())));
        assert_eq!(count("keepwarm run a --workers auto", "3"), Ok(Some("auto".to_owned())));
        assert_eq!(count("keepwarm run a --workers 2", "junk"), Ok(Some("2".to_owned())));
        assert_eq!(run("keepwarm run a").worker_count(&Variables::default()), Ok(None));
        for value in ["junk", "0", "1025", "-1", "2.5"] {
            assert!(
                count("keepwarm run a", value).unwrap_err().starts_with(&format!("WEB_CONCURRENCY={value} "))
            );
        }
    }
}
