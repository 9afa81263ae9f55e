//! `framing`: message framing per RFC 9112.
//!
//! By default the probe sends only valid, unusual messages: a head in two parts, names in small letters, an unexpected body, the other forms of a target. A
//! server that reads one wrongly fails with some client, some day; a body that is taken for the next request is an attack waiting (§11.2).
//!
//! With `--intrusive` it sends malformed messages, too, each on a connection of its own: which are accepted, and which are read so that a request can hide in
//! another (request smuggling). The hidden request is always an ordinary one for the same page. Bad is accepting what §6.3, §5 and §7 say must be refused; a
//! warning is what they permit and is a risk behind a server that reads it differently.

mod exchange;
mod fixes;
mod malformed;
#[cfg(test)]
mod tests;
mod unusual;

use std::time::{Duration, Instant};

use crate::client::{Request, Response};
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::probes::persistence::{light, turns};

pub(super) use fixes::fix;

/// When this much time is used up, because the page is slow, the rest is not asked.
const ENOUGH: Duration = Duration::from_secs(5);

/// The same where malformed messages are sent, too: `--intrusive` may take time.
const ENOUGH_INTRUSIVE: Duration = Duration::from_secs(30);

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let enough = if context.settings.intrusive { ENOUGH_INTRUSIVE } else { ENOUGH };
    let page = page(context, Instant::now() + enough + turns(context, 60)).await;
    let control = unusual::control(&page).await;
    if control.verdict != Verdict::Good {
        // Every other finding depends on the bytes after a response.
        return vec![control];
    }
    let mut findings = vec![control];
    findings.extend(unusual::examine(&page).await);
    if context.settings.intrusive {
        findings.extend(malformed::examine(&page).await);
    }
    findings
}

/// The page that every request here varies, and is compared with.
struct Page<'p> {
    context: &'p ProbeContext,
    /// The ordinary request.
    request: Request,
    /// The status of the response to it.
    ordinary: Option<u16>,
    /// After this no more is asked.
    until: Instant,
}

async fn page(context: &ProbeContext, until: Instant) -> Page<'_> {
    let request = light(context);
    let ordinary = match request.method() == context.settings.method {
        true => context.first.status(),
        false => context.once(&request).await.ok().and_then(|(_, response)| Response::status(&response)),
    };
    Page { context, request, ordinary, until }
}
