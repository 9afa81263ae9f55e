//! `keepwarm maintenance`: the command, and what the running instance does for it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keepwarm_edge::{Cidr, Maintenance, MaintenanceScope, media_type};
use keepwarm_serve::ErrorPage;
use serde_json::{Value, json};

use crate::find::Instance;
use crate::status::view::View;
use crate::{cli, complain, exit};

/// Bytes of a page: it is held in memory, and written whole.
const MAX_PAGE: u64 = 1 << 20;
/// Bytes of all that is under maintenance, as an upgrade passes it on: half of a packet.
const MAX_LENGTH: usize = 16 * 1024;

/// Begins or ends maintenance of a running instance.
pub(crate) fn maintenance(command: &cli::Maintenance) -> ExitCode {
    let (selector, request) = match command {
        cli::Maintenance::On(options) => (&options.selector, begin_request(options)),
        cli::Maintenance::Off { subject, selector } => (selector, Ok(end_request(subject))),
    };
    match request {
        Ok(request) => Instance::command_and_tell(selector, &format!("maintenance {request}")),
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::USAGE)
        }
    }
}

fn begin_request(options: &cli::MaintenanceOn) -> Result<Value, String> {
    if let Some(wrong) = options.allow.iter().find(|address| block(address).is_none()) {
        return Err(format!("--allow {wrong}: not an address such as 203.0.113.7 or 10.0.0.0/8"));
    }
    // The instance may have been started in another directory.
    let page = options.page.as_deref().map(std::path::absolute).transpose();
    let page = page.map_err(|error| format!("--page: {error}"))?;
    Ok(json!({
        "on": true,
        "scope": scope_json(&options.subject),
        "message": options.message,
        "page": page,
        "allow": options.allow,
        "retry_after": options.retry_after,
    }))
}

fn end_request(subject: &cli::MaintenanceSubject) -> Value {
    json!({ "on": false, "scope": scope_json(subject) })
}

fn scope_json(subject: &cli::MaintenanceSubject) -> Value {
    match (&subject.app, &subject.listener) {
        (Some(app), _) => json!({ "app": app }),
        (None, Some(listener)) => json!({ "listener": listener }),
        (None, None) => json!({}),
    }
}

/// Responds to `maintenance {…}`.
pub(crate) fn respond(view: &View, request: &str) -> Value {
    match perform(view, request) {
        Ok(message) => json!({ "ok": true, "message": message }),
        Err(message) => json!({ "ok": false, "message": message }),
    }
}

fn perform(view: &View, request: &str) -> Result<String, String> {
    let request: Value = serde_json::from_str(request).map_err(|error| error.to_string())?;
    let scope = scope(&request);
    if request.get("on") != Some(&Value::Bool(true)) {
        let all = scope == MaintenanceScope::All;
        let ended = Maintenance::end(Some(&scope).filter(|_| !all));
        let of = describe(&scope);
        if ended == 0 {
            return Ok(format!("{of} was not under maintenance"));
        }
        tracing::info!(name: "maintenance_ended", of, "maintenance ended");
        return Ok(format!("maintenance of {of} ended"));
    }
    let served = view.served();
    let (kind, name, known) = match &scope {
        MaintenanceScope::All => ("", "", true),
        MaintenanceScope::App(name) => ("app", name.as_str(), served.apps.iter().any(|(app, _)| app == name)),
        MaintenanceScope::Listener(name) => {
            ("listener", name.as_str(), served.listeners.iter().any(|(listener, _)| listener == name))
        }
    };
    if !known {
        return Err(format!("there is no {kind} {name:?}; `keepwarm status` lists them"));
    }
    let begun = Maintenance { since: SystemTime::now(), ..read(&request)? };
    let others: Vec<Value> =
        Maintenance::all().iter().filter(|other| other.scope != scope).map(as_json).collect();
    if json!([others, as_json(&begun)]).to_string().len() > MAX_LENGTH {
        return Err("too much is under maintenance: shorten --message or --allow".to_owned());
    }
    begun.begin();
    let of = describe(&scope);
    tracing::info!(name: "maintenance_begun", of, "maintenance began: new requests get 503");
    Ok(format!("{of} is under maintenance; `keepwarm maintenance off` ends it"))
}

/// All that is under maintenance, for the status and for the process that takes over.
pub(crate) fn saved() -> Value {
    Maintenance::all().iter().map(as_json).collect()
}

/// Begins again what the process before has handed over.
pub(crate) fn restore(saved: &Value) {
    for one in saved.as_array().into_iter().flatten() {
        let since = UNIX_EPOCH + Duration::from_secs(one.get("since").and_then(Value::as_u64).unwrap_or(0));
        let restored = read(one).or_else(|error| {
            tracing::warn!(
                name: "maintenance_page_lost",
                %error, "cannot read the maintenance page again: the usual one is sent"
            );
            let mut one = one.clone();
            one.as_object_mut().and_then(|members| members.remove("page"));
            read(&one)
        });
        if let Ok(restored) = restored {
            Maintenance { since, ..restored }.begin();
        }
    }
}

fn as_json(maintenance: &Maintenance) -> Value {
    let since = maintenance.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    json!({
        "scope": match &maintenance.scope {
            MaintenanceScope::All => json!({}),
            MaintenanceScope::App(name) => json!({ "app": name }),
            MaintenanceScope::Listener(name) => json!({ "listener": name }),
        },
        "since": since,
        "message": maintenance.message,
        "page": maintenance.page_file,
        "allow": maintenance.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "retry_after": maintenance.retry_after,
    })
}

fn scope(request: &Value) -> MaintenanceScope {
    let name = |kind: &str| request.get("scope")?.get(kind)?.as_str().map(str::to_owned);
    match (name("app"), name("listener")) {
        (Some(app), _) => MaintenanceScope::App(app),
        (None, Some(listener)) => MaintenanceScope::Listener(listener),
        (None, None) => MaintenanceScope::All,
    }
}

fn describe(scope: &MaintenanceScope) -> String {
    match scope {
        MaintenanceScope::All => "the whole instance".to_owned(),
        MaintenanceScope::App(name) => format!("app {name}"),
        MaintenanceScope::Listener(name) => format!("listener {name}"),
    }
}

/// What begins now, by a request.
fn read(request: &Value) -> Result<Maintenance, String> {
    let text = |member: &str| request.get(member).and_then(Value::as_str);
    let page_file = text("page").map(PathBuf::from);
    let page = page_file.as_deref().map(read_page).transpose()?;
    let allow = request.get("allow").and_then(Value::as_array).into_iter().flatten();
    let seconds = request.get("retry_after").and_then(Value::as_u64).unwrap_or(300);
    Ok(Maintenance {
        scope: scope(request),
        message: text("message").map(str::to_owned),
        page_file,
        page,
        allow: allow.filter_map(|address| block(address.as_str()?)).collect(),
        retry_after: u32::try_from(seconds).unwrap_or(u32::MAX),
        since: UNIX_EPOCH,
    })
}

fn read_page(file: &Path) -> Result<ErrorPage, String> {
    let failed = |why: &dyn std::fmt::Display| format!("cannot read the page {}: {why}", file.display());
    let about = std::fs::metadata(file).map_err(|error| failed(&error))?;
    if !about.is_file() {
        return Err(failed(&"not a file"));
    }
    if about.len() > MAX_PAGE {
        return Err(failed(&"larger than 1 MiB"));
    }
    let body = std::fs::read(file).map_err(|error| failed(&error))?;
    Ok(ErrorPage { content_type: media_type(file.as_os_str().as_encoded_bytes()), body })
}

/// An address, or a block of addresses.
fn block(text: &str) -> Option<Cidr> {
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let address: std::net::IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    Cidr::new(address, prefix.map_or(Some(all), |prefix| prefix.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_addresses() {
        for (text, expected) in [
            ("203.0.113.7", Some("203.0.113.7/32")),
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("::1", Some("::1/128")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("10.0.0.0/33", None),
            ("10.0.0/8", None),
            ("localhost", None),
            ("", None),
        ] {
            assert_eq!(block(text).map(|block| block.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_saved_is_read_as_it_was() {
        let saved = json!({
            "scope": { "app": "shop" }, "since": 7, "message": "Later.", "page": null,
            "allow": ["10.0.0.0/8", "::1/128"], "retry_after": 60,
        });
        let read = Maintenance { since: UNIX_EPOCH + Duration::from_secs(7), ..read(&saved).unwrap() };
        assert_eq!(as_json(&read), saved);
    }
}
