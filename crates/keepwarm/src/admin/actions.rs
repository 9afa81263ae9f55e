//! What changes something: `POST /reload`, `POST /recycle`, `POST /endpoint`, and `POST /stack`, for which a worker gets a signal.

use keepwarm_http1::percent_decode;
use keepwarm_serve::Request;
use serde_json::json;
use tokio::sync::oneshot;

use super::AdminService;
use super::response::{Response, TEXT};
use crate::control::{ControlRequest, STOPPING};
use crate::endpoint::{self, EndpointError};
use crate::recycle;
use crate::stack::{self, WorkerError};

impl AdminService {
    /// As `keepwarm reload`.
    pub(super) async fn reload(&self, wants_json: bool) -> Response {
        let (reply, outcome) = oneshot::channel();
        let _ = self.requests.send(ControlRequest::Reload(reply));
        let (status, ok, message) = match outcome.await {
            Ok(Ok(message)) => (200, true, message),
            Ok(Err(message)) => {
                (500, false, format!("reload failed; the previous configuration stays active.\n{message}"))
            }
            Err(_) => (503, false, STOPPING.to_owned()),
        };
        match wants_json {
            true => Response::json(status, &json!({ "ok": ok, "message": message })),
            false => Response::new(status, TEXT, format!("{message}\n")),
        }
    }

    /// The stacks of the worker that the query names.
    pub(super) async fn stack(&self, request: &Request, wants_json: bool) -> Response {
        let Some(worker) = worker_of(request) else { return unnamed("/stack", wants_json) };
        match stack::print(&self.view, &worker).await {
            Ok(printed) if wants_json => {
                Response::json(200, &json!({ "pid": printed.pid, "stack": printed.text }))
            }
            Ok(printed) => Response::new(200, TEXT, printed.text),
            Err(error) => refused(&error, "no_stack", wants_json),
        }
    }

    /// Replaces the worker that the query names; does not wait for that.
    pub(super) async fn recycle(&self, request: &Request, wants_json: bool) -> Response {
        let Some(worker) = worker_of(request) else { return unnamed("/recycle", wants_json) };
        match recycle::replace(&self.view, &worker).await {
            Ok(message) if wants_json => Response::json(202, &json!({ "message": message })),
            Ok(message) => Response::new(202, TEXT, format!("{message}\n")),
            Err(error) => refused(&error, "not_ready", wants_json),
        }
    }

    /// Takes the endpoint that the query names out of use, or puts it back.
    pub(super) fn endpoint(&self, request: &Request, wants_json: bool) -> Response {
        let named = |name: &str| parameter(request.head.query().unwrap_or_default(), name);
        let drain = match named("state").as_deref() {
            Some("drain") => Some(true),
            Some("ready") => Some(false),
            _ => None,
        };
        let (Some(upstream), Some(endpoint), Some(drain)) = (named("upstream"), named("endpoint"), drain)
        else {
            let sentence = "Name the endpoint and its new state: /endpoint?upstream=NAME&endpoint=ADDRESS&state=drain (or ready).";
            return Response::error(400, "no_endpoint", sentence, wants_json);
        };
        match endpoint::set_drained(&self.view, &upstream, &endpoint, drain) {
            Ok(message) if wants_json => Response::json(200, &json!({ "message": message })),
            Ok(message) => Response::new(200, TEXT, format!("{message}\n")),
            Err(EndpointError::Unknown(why)) => Response::error(404, "no_endpoint", &why, wants_json),
            Err(EndpointError::Refused(why)) => Response::error(409, "last_endpoint", &why, wants_json),
        }
    }
}

fn unnamed(path: &str, wants_json: bool) -> Response {
    let sentence = format!("Name the worker: {path}?worker=APP/NUMBER, or its process id.");
    Response::error(400, "no_worker", &sentence, wants_json)
}

fn refused(error: &WorkerError, reason: &str, wants_json: bool) -> Response {
    match error {
        WorkerError::UnknownWorker(why) => Response::error(404, "no_worker", why, wants_json),
        WorkerError::Refused(why) => Response::error(409, reason, why, wants_json),
    }
}

fn worker_of(request: &Request) -> Option<String> {
    parameter(request.head.query().unwrap_or_default(), "worker")
}

/// The value of `name=value` in a query, as a browser encodes it; none if it is empty.
fn parameter(query: &[u8], name: &str) -> Option<String> {
    let mut parts = query.split(|byte| *byte == b'&');
    let value = parts.find_map(|part| part.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    let value = String::from_utf8_lossy(percent_decode(value, &mut Vec::new())).into_owned();
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_worker() {
        for (query, worker) in [
            ("worker=shop/1", Some("shop/1")),
            ("a=b&worker=shop%2F1&c", Some("shop/1")),
            ("worker=17", Some("17")),
            ("worker=", None),
            ("worker", None),
            ("xworker=1", None),
            ("", None),
        ] {
            assert_eq!(parameter(query.as_bytes(), "worker").as_deref(), worker, "{query}");
        }
    }
}
