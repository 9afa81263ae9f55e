//! Responses that are errors: the check continues with them, and says so.

use std::sync::atomic::Ordering;

use crate::context::ProbeContext;
use crate::finding::Finding;

const ID: &str = "reach.response";

/// The ordinary request gets an error: all that follows is about that response.
pub(super) fn of_first(context: &ProbeContext) -> Option<Finding> {
    let status = context.first.status().filter(|status| *status >= 400)?;
    let fix = match status {
        401 | 403 => {
            "Pass what the page requires, for example -H 'Authorization: …' or -H 'Cookie: …'; or check another path."
        }
        404 | 410 => "Check a path that exists.",
        405 => "Check a path that allows this method, or pass --method.",
        407 => "This is a proxy: check a server.",
        429 => "Wait, or exempt this client from the limit, and pass a lower --rate.",
        500.. => "Read the server's log, or check another path.",
        _ => "Check another path, or pass the headers that it requires with -H.",
    };
    let evidence = format!(
        "{} {}: {}; everything below is about this response",
        context.settings.method,
        context.target,
        context.first.words()
    );
    Some(Finding::unknown(ID, evidence).with_fix(fix))
}

/// Later requests got errors that the first one did not get, as of a server that limits its clients.
pub(crate) fn of_later(context: &ProbeContext) -> Option<Finding> {
    let refused = context.refusals.load(Ordering::Relaxed);
    let first = context.first.status().filter(|status| *status < 400)?;
    if refused < FEW {
        return None;
    }
    let evidence = format!(
        "the first request: {first}; {refused} later ones: 429 or 503, as if the server limited this client; they are among the findings below"
    );
    Some(
        Finding::unknown(ID, evidence).with_fix("Pass a lower --rate, or exempt this client from the limit."),
    )
}

/// One or two may have another cause.
const FEW: u32 = 3;
