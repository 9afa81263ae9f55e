//! The text of a systemd unit: docs/operate/systemd.md.

use std::os::unix::fs::MetadataExt;

use super::Plan;
use crate::users;

pub(super) fn text(plan: &Plan<'_>) -> String {
    let program = std::env::current_exe()
        .map_or_else(|_| "/usr/local/bin/keepwarm".to_owned(), |path| path.display().to_string());
    let root = plan.root.display().to_string();
    format!(
        "# Written by `keepwarm init`. docs/operate/systemd.md explains each line.\n\
         [Unit]\n\
         Description={name}, served by Keepwarm\n\
         After=network-online.target\n\
         Wants=network-online.target\n\
         \n\
         [Service]\n\
         # systemd before 253: Type=notify and ExecReload=/bin/kill -HUP $MAINPID\n\
         Type=notify-reload\n\
         NotifyAccess=main\n\
         {user}\
         WorkingDirectory={directory}\n\
         ExecStart={program} run --config {config}\n\
         {environment}\
         # Above boot_timeout and shutdown_grace.\n\
         TimeoutStartSec=120\n\
         TimeoutStopSec=60\n\
         WatchdogSec=10\n\
         # SIGTERM goes to Keepwarm, which lets its workers finish.\n\
         KillMode=mixed\n\
         Restart=on-failure\n\
         LimitNOFILE=65536\n\
         StateDirectory=keepwarm\n\
         # Ports 80 and 443 without root.\n\
         AmbientCapabilities=CAP_NET_BIND_SERVICE\n\
         NoNewPrivileges=yes\n\
         PrivateTmp=yes\n\
         ProtectSystem=full\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        name = plan.app,
        user = user(plan),
        directory = escaped(&root),
        program = quoted(&program),
        config = quoted(&plan.root.join("keepwarm.toml").display().to_string()),
        environment = environment(plan),
    )
}

/// The owner of the directory: what the app writes belongs to that user.
fn user(plan: &Plan<'_>) -> String {
    let owner = std::fs::metadata(plan.root).ok().map(|about| about.uid()).filter(|uid| *uid != 0);
    match owner.and_then(users::name_of) {
        Some(name) => format!("User={name}\n"),
        None => "# As root, workers run as nobody (docs/guide/deploying.md).\n# User=\n".to_owned(),
    }
}

/// The virtual environment that is active now, and which the service would not have.
fn environment(plan: &Plan<'_>) -> String {
    let active = std::env::var("VIRTUAL_ENV").ok().filter(|folder| !folder.is_empty());
    match active {
        Some(folder) if !plan.has(".venv/bin/python") => {
            format!("Environment={}\n", quoted(&format!("VIRTUAL_ENV={folder}")))
        }
        _ => String::new(),
    }
}

/// A word of a command or an assignment (systemd.syntax(7)): `%` is a specifier, `$` a variable.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-.=:+".contains(c);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

/// A value that is the whole line.
fn escaped(path: &str) -> String {
    path.replace('%', "%%")
}
