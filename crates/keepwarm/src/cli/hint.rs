//! What to write in place of an option that other servers have, and of a command without its `--`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of other servers, and what says the same here.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["--listen", "--address", "-b", "-l", "-S"], "--bind HOST:PORT, for example --bind 127.0.0.1:80"),
    (&["--processes", "--worker-processes", "-w"], "--workers N"),
    (&["--dev", "--autoreload"], "--watch"),
    (&["--conf", "--configuration", "-c", "-C"], "--config FILE"),
    (&["--check-config", "--test", "--validate", "-t"], "--dry-run"),
    (&["--threads"], "`threads = N` of [app.NAME] in keepwarm.toml (see `keepwarm explain app.threads`)"),
    (
        &["--timeout"],
        "`request_timeout` of [app.NAME] in keepwarm.toml (see `keepwarm explain app.request_timeout`)",
    ),
    (
        &["--chdir", "--app-dir", "--directory"],
        "`directory` of [app.NAME] in keepwarm.toml, or start Keepwarm in that directory",
    ),
    (&["--pid", "--pidfile", "--pid-file"], "`pid_file` of [server] in keepwarm.toml"),
    (&["--user", "--group", "-u", "-g"], "`user` and `group` of [app.NAME] in keepwarm.toml"),
    (&["--daemon", "--daemonize", "-D"], "a service manager: docs/operate/systemd.md"),
];

/// A better message than clap's for `keepwarm run` with an argument it does not take; `None` where clap's is as good.
pub(super) fn of(error: &clap::Error, arguments: &[String]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument || arguments.get(1).is_none_or(|command| command != "run") {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    if unknown.starts_with('-') {
        let (_, here) = ELSEWHERE.iter().find(|(names, _)| names.contains(&unknown.as_str()))?;
        return Some(format!("`{unknown}` is not an option of `keepwarm run`; use {here}"));
    }
    // `keepwarm run node server.js`: from the first word that is not an option, it is a command.
    let rest = arguments.get(2..)?;
    let command = rest.iter().position(|word| !word.starts_with('-')).and_then(|first| rest.get(first..))?;
    Some(format!(
        "`keepwarm run` takes one target; to run a command, put `--` before it: keepwarm run -- {}",
        command.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Cli;

    fn hint(line: &str) -> Option<String> {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        super::of(&Cli::try_parse_from(&arguments).unwrap_err(), &arguments)
    }

    #[test]
    fn a_command_wants_its_dashes() {
        assert_eq!(
            hint("keepwarm run node server.js").as_deref(),
            Some(
                "`keepwarm run` takes one target; to run a command, put `--` before it: keepwarm run -- node server.js"
            )
        );
    }

    #[test]
    fn options_of_other_servers_are_known() {
        for (line, here) in [
            ("keepwarm run -b :80 app:app", "--bind"),
            ("keepwarm run app:app --listen 80", "--bind"),
            ("keepwarm run app:app --autoreload", "--watch"),
            ("keepwarm run app:app -w 4", "--workers"),
            ("keepwarm run -c keepwarm.toml", "--config"),
        ] {
            let hint = hint(line).unwrap_or_else(|| panic!("{line} has no hint"));
            assert!(hint.contains(here), "{line}: {hint}");
        }
    }

    #[test]
    fn other_mistakes_are_claps() {
        for line in ["keepwarm run app:app --workrs 4", "keepwarm reload --port 80", "keepwarm serve"] {
            assert_eq!(hint(line), None, "{line}");
        }
    }
}
