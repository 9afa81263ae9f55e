//! `keepwarm endpoint drain` and `ready`: takes an endpoint of an upstream out of use, and puts it back. One half runs in the command, the other in the Keepwarm
//! that calls the upstream.

use std::process::ExitCode;
use std::sync::Arc;

use keepwarm_egress::{DrainError, Upstream};
use serde_json::{Map, Value, json};

use crate::cli;
use crate::find::Instance;
use crate::status::view::View;

/// Bytes of the names of all that is drained, as an upgrade passes them on: a quarter of a packet.
const MAX_LENGTH: usize = 8 * 1024;

/// Takes an endpoint out of use, or puts it back.
pub(crate) fn endpoint(command: &cli::Endpoint) -> ExitCode {
    let (drain, options) = match command {
        cli::Endpoint::Drain(options) => (true, options),
        cli::Endpoint::Ready(options) => (false, options),
    };
    let request = json!({ "drain": drain, "upstream": options.upstream, "endpoint": options.endpoint });
    Instance::command_and_tell(&options.selector, &format!("endpoint {request}"))
}

/// Why nothing was changed, in words.
#[derive(Debug)]
pub(crate) enum EndpointError {
    /// There is no such upstream or endpoint.
    Unknown(String),
    Refused(String),
}

/// Responds to `endpoint {…}`.
pub(crate) fn respond(view: &View, request: &str) -> Value {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    let name = |member: &str| request.get(member).and_then(Value::as_str).unwrap_or_default();
    let drain = request.get("drain") == Some(&Value::Bool(true));
    match set_drained(view, name("upstream"), name("endpoint"), drain) {
        Ok(message) => json!({ "ok": true, "message": message }),
        Err(EndpointError::Unknown(message) | EndpointError::Refused(message)) => {
            json!({ "ok": false, "message": message })
        }
    }
}

/// Takes an endpoint out of use, or (`false`) puts it back. Returns what happens next.
pub(crate) fn set_drained(
    view: &View,
    upstream: &str,
    endpoint: &str,
    drain: bool,
) -> Result<String, EndpointError> {
    let served = view.served();
    let Some(found) = served.upstreams.iter().find(|it| **it.name() == *upstream) else {
        let known: Vec<&str> = served.upstreams.iter().map(|it| &**it.name()).collect();
        return Err(EndpointError::Unknown(match known.is_empty() {
            true => format!("there is no upstream {upstream:?}: none is configured"),
            false => format!("there is no upstream {upstream:?}; there are: {}", known.join(", ")),
        }));
    };
    if drain && length(&served.upstreams) + upstream.len() + endpoint.len() > MAX_LENGTH {
        let sentence = "too many endpoints are drained: remove them from the configuration, and reload";
        return Err(EndpointError::Refused(sentence.to_owned()));
    }
    let named = format!("endpoint {endpoint} of upstream {upstream}");
    match (found.set_drained(endpoint, drain), drain) {
        (Ok(true), true) => Ok(format!(
            "{named} gets no more calls; `keepwarm endpoint ready {upstream} {endpoint}` undoes it"
        )),
        (Ok(true), false) => Ok(format!("{named} gets calls again")),
        (Ok(false), true) => Ok(format!("{named} was drained already")),
        (Ok(false), false) => Ok(format!("{named} was not drained")),
        (Err(DrainError::Last), _) => Err(EndpointError::Refused(format!(
            "{named} stays in use: no other endpoint would get calls (`keepwarm maintenance` takes an app or a listener out of use)"
        ))),
        (Err(DrainError::Unknown), _) => {
            let known = found.look().endpoints.iter().map(|it| it.name.to_string()).collect::<Vec<_>>();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(EndpointError::Unknown(format!(
                "there is no endpoint {endpoint:?} of upstream {upstream}; there are: {known}"
            )))
        }
    }
}

fn length(upstreams: &[Arc<Upstream>]) -> usize {
    saved(upstreams).to_string().len()
}

/// All that is drained, for the process that takes over: the endpoints' names by upstream.
pub(crate) fn saved(upstreams: &[Arc<Upstream>]) -> Value {
    let drained = upstreams.iter().map(|upstream| (upstream.name().to_string(), upstream.drained()));
    drained
        .filter(|(_, names)| !names.is_empty())
        .map(|(name, names)| (name, json!(names)))
        .collect::<Map<_, _>>()
        .into()
}

/// Takes out of use what the process before has handed over.
pub(crate) fn restore(saved: &Value, upstreams: &[Arc<Upstream>]) {
    for upstream in upstreams {
        let names = saved.get(&**upstream.name()).and_then(Value::as_array).into_iter().flatten();
        upstream.inherit_drained(names.filter_map(Value::as_str).map(str::to_owned));
    }
}
