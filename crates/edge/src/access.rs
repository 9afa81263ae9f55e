//! One line of the access log for each request.

use std::time::SystemTime;

use keepwarm_http1::Version;
use keepwarm_net::{Fate, Outcome, Request};
use keepwarm_telemetry::{AccessRecord, Format, RequestId, Sink};

/// Where and how requests are recorded.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Where.
    pub sink: Sink,
    /// How.
    pub format: Format,
}

impl AccessLog {
    pub(crate) fn record(&self, request: &Request, outcome: &Outcome) {
        let head = &request.head;
        let forwarded = request.forwarded.as_ref().map(|forwarded| forwarded.client.to_string());
        let record = AccessRecord {
            time: SystemTime::now(),
            client: forwarded.as_deref().unwrap_or(request.peer.client_text().0),
            method: head.method.as_str(),
            target: head.target(),
            version: match head.version {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
            },
            status: outcome.status,
            body_bytes: outcome.body_bytes,
            elapsed: outcome.elapsed,
            route: request.target.as_deref(),
            id: RequestId::new(request.number),
            reason: reason(request, outcome),
            referer: head.fields.first("referer"),
            user_agent: head.fields.first("user-agent"),
        };
        self.sink.append(|out| record.write(self.format, out));
    }
}

/// Why an answer is not what it might have been: what was noted first, else how it ended.
fn reason(request: &Request, outcome: &Outcome) -> Option<&'static str> {
    request.reason.or(match outcome.fate {
        Fate::Complete => None,
        Fate::Cut => Some("cut"),
        Fate::Gone(gone) => Some(gone.name()),
    })
}
