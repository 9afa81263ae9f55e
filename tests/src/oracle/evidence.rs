//! Reads what the clients saw, what the application wrote down and what the logs say, and reports contradictions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::{ExpectedResponse, ObservedRequest, Outcome};

/// All that is known when everything is over.
pub struct Evidence {
    seen: Vec<ObservedRequest>,
    rules: Rules,
    /// The application's record, by the request's name: how often it was begun, and how often its response was made.
    book: HashMap<u64, (usize, usize)>,
    /// The lines of the access log, by the request's name.
    access: HashMap<u64, Vec<Access>>,
    /// The records of the log that name a request, by its id.
    records: HashMap<String, Vec<String>>,
}

/// A line of the access log.
#[derive(Debug, Clone)]
struct Access {
    status: String,
    reason: String,
    id: String,
    seconds: f64,
}

pub struct Report {
    /// One sentence for each rule that was broken.
    pub faults: Vec<String>,
    pub responded: usize,
    pub summary: String,
}

/// Why a request may be refused, or lose its worker: `docs/operate/requests.md`.
const REFUSED: [&str; 4] = ["queue_full", "queue_timeout", "route_quarantined", "worker_refused"];
const LATE: [&str; 1] = ["request_timeout"];
/// `drain_timeout` of the applications, in seconds.
const DRAIN_TIMEOUT: f64 = 10.0;
/// A body up to this has come whole before an early response's connection closes; a longer one may take more time than that waits, and can cost the client the response
/// (`spec/http.md` §1).
const LINGER_MAX: usize = 64 * 1024;

/// Other results of a request, and why, by the kind of its application: reasons as they stand in the access log.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// It lost its worker.
    pub lost: &'static [&'static str],
    /// Its application failed in the middle of the response.
    pub failed: &'static [&'static str],
    /// Whether a record says that a request which may have been begun was retried on a worker.
    pub retried: fn(&str) -> bool,
}

impl Rules {
    /// For an application on the worker wire.
    pub const WIRE: Self = Self {
        lost: &["worker_died", "worker_timed_out", "worker_memory"],
        failed: &["app_error"],
        retried: |record| record.contains("retried on another worker") && record.contains("its worker died"),
    };

    /// For an application that is a server by itself, or runs behind one (HTTP, FastCGI).
    pub const SERVER: Self = Self {
        lost: &["worker_died", "closed_without_response", "truncated"],
        failed: &["truncated"],
        retried: |record| {
            record.contains("request retried")
                && ["closed_without_response", "closed_idle", "worker_died"]
                    .iter()
                    .any(|why| record.contains(why))
        },
    };
}

impl Evidence {
    pub fn read(folder: &Path, seen: Vec<ObservedRequest>, rules: Rules) -> Self {
        let text = |name: &str| {
            let bytes = std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let mut book: HashMap<u64, (usize, usize)> = HashMap::new();
        for line in text("book").lines() {
            let mut words = line.split(' ');
            let (kind, name) = (words.next().expect("b or e"), words.next().expect("a name"));
            let entry = book.entry(name.parse().expect("a number")).or_default();
            match kind {
                "b" => entry.0 += 1,
                _ => entry.1 += 1,
            }
        }
        let mut access: HashMap<u64, Vec<Access>> = HashMap::new();
        for (name, line) in text("access").lines().filter_map(parse_access_line) {
            access.entry(name).or_default().push(line);
        }
        let mut records: HashMap<String, Vec<String>> = HashMap::new();
        for line in text("log").lines() {
            if let Some(id) = line.split(' ').find_map(|word| word.strip_prefix("id=")) {
                records.entry(id.to_owned()).or_default().push(line.to_owned());
            }
        }
        Self { seen, rules, book, access, records }
    }

    pub fn judge(&self) -> Report {
        let faults = self.seen.iter().filter_map(|seen| {
            let fault = self.fault(seen)?;
            let request = &seen.request;
            let known = format!(
                "begun and responded {:?}, access log {:?}, log {:#?}",
                self.book.get(&request.id),
                self.access.get(&request.id),
                self.access(seen).and_then(|access| self.records.get(&access.id))
            );
            Some(format!(
                "request {} ({} {}): {fault}; seen {:?}, {known}",
                request.id, request.method, request.action, seen.outcome
            ))
        });
        let faults: Vec<String> = faults.take(20).collect();
        let responded = self.seen.iter().filter(|seen| seen.outcome == Outcome::Correct).count();
        Report { faults, responded, summary: self.summary() }
    }

    /// The fault of one request, if any.
    fn fault(&self, seen: &ObservedRequest) -> Option<String> {
        let (begun, made) = self.book.get(&seen.request.id).copied().unwrap_or_default();
        let safe = matches!(seen.request.method, "GET" | "HEAD");
        let retried = self.retried(seen);
        // The rule of rules: once, but for a safe one that was given again after a death.
        let most = if safe { 1 + retried.min(1) } else { 1 };
        if begun > most {
            return Some(format!("it was begun {begun} times, {most} at most was allowed"));
        }
        match &seen.outcome {
            Outcome::Correct if !self.was_made(seen, made) => Some("nobody made this response".to_owned()),
            Outcome::Correct | Outcome::ClientLeft => None,
            Outcome::Status(503) if begun > retried => Some("it was begun, and refused".to_owned()),
            Outcome::Status(503) => self.needs_reason(seen, "503", &REFUSED),
            Outcome::Status(502) => self.needs_reason(seen, "502", self.rules.lost),
            Outcome::Status(504) => self.needs_reason(seen, "504", &LATE),
            Outcome::Status(_) => Some("no rule allows this response".to_owned()),
            Outcome::Cut => self.was_cut(seen),
            Outcome::AfterClose if begun > 0 || self.access(seen).is_some() => {
                Some("it stood behind the end of a connection, and was served".to_owned())
            }
            Outcome::AfterClose => None,
            Outcome::NoResponse if self.was_refused_early(seen) => None,
            // The reset that cuts a response can overtake its head, and one between two reads of it looks the same.
            Outcome::NoResponse if self.was_cut(seen).is_none() => None,
            Outcome::NoResponse => Some("it was lost".to_owned()),
            Outcome::Incorrect(_) => Some("it got another response than its own".to_owned()),
            Outcome::Invalid(_) => Some("it got no response".to_owned()),
        }
    }

    fn was_cut(&self, seen: &ObservedRequest) -> Option<String> {
        let failed = match seen.request.expected {
            ExpectedResponse::Cut => self.rules.failed,
            ExpectedResponse::Response(..) => &[],
        };
        // A stream of a worker that is being replaced has `drain_timeout`.
        let long = self.access(seen).is_some_and(|access| access.seconds >= DRAIN_TIMEOUT);
        let drained: &[&str] = if long { &["draining"] } else { &[] };
        self.needs_reason(seen, "200", &[self.rules.lost, &LATE, failed, drained].concat())
    }

    /// The application reports that it has made this response, except one to a failure.
    fn was_made(&self, seen: &ObservedRequest, made: usize) -> bool {
        let ExpectedResponse::Response(status, _) = seen.request.expected else { return false };
        (made > 0 || status >= 500) && self.said(seen, &status.to_string())
    }

    /// It has this status in the access log, for one of these reasons, which stands in the log, too.
    fn needs_reason(&self, seen: &ObservedRequest, status: &str, allowed: &[&str]) -> Option<String> {
        let Some(access) = self.access(seen).filter(|access| access.status == status) else {
            return Some(format!("the access log does not say {status}, once"));
        };
        if !allowed.contains(&access.reason.as_str()) {
            return Some(format!("{} is no reason for {status}", access.reason));
        }
        let records = self.records.get(&access.id);
        let told = |record: &String| {
            [access.reason.as_str(), "request timed out", "the application failed"]
                .iter()
                .any(|words| record.contains(words))
        };
        match records.is_some_and(|records| records.iter().any(told)) {
            true => None,
            false => Some("the log does not say why".to_owned()),
        }
    }

    /// Its response was sent before its body had come, and the body was too long to be waited for.
    fn was_refused_early(&self, seen: &ObservedRequest) -> bool {
        seen.request.body_length > LINGER_MAX
            && [("503", &REFUSED[..]), ("502", self.rules.lost), ("504", &LATE[..])]
                .into_iter()
                .any(|(status, allowed)| self.needs_reason(seen, status, allowed).is_none())
    }

    fn said(&self, seen: &ObservedRequest, status: &str) -> bool {
        self.access(seen).is_some_and(|access| access.status == status)
    }

    /// Its line in the access log; none when there are several.
    fn access(&self, seen: &ObservedRequest) -> Option<&Access> {
        match self.access.get(&seen.request.id)?.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// How often the log says that it was retried on another worker because its own had died.
    fn retried(&self, seen: &ObservedRequest) -> usize {
        let records = self.access(seen).and_then(|access| self.records.get(&access.id));
        records.map_or(0, |records| records.iter().filter(|record| (self.rules.retried)(record)).count())
    }

    fn summary(&self) -> String {
        let mut tally: BTreeMap<String, usize> = BTreeMap::new();
        for seen in &self.seen {
            let reason = self.access(seen).map_or("-", |access| access.reason.as_str());
            let outcome = match &seen.outcome {
                Outcome::Incorrect(_) => "Wrong".to_owned(),
                Outcome::Invalid(_) => "Bad".to_owned(),
                other => format!("{other:?}"),
            };
            *tally.entry(format!("{outcome} {reason}")).or_default() += 1;
        }
        format!("{} requests: {tally:#?}", self.seen.len())
    }
}

/// The name, status, reason and id of a line of the access log.
fn parse_access_line(line: &str) -> Option<(u64, Access)> {
    let (_, behind) = line.split_once("?id=")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    let name = digits.parse().ok().filter(|&name| name > 0)?;
    let (_, behind) = behind.split_once("\" ")?;
    let status = behind.split(' ').next()?.to_owned();
    let mut last = line.rsplit(' ');
    let (id, reason) = (last.next()?.to_owned(), last.next()?.to_owned());
    // Behind the app and in front of it stands how long it took.
    let seconds = last.nth(1)?.parse().ok()?;
    Some((name, Access { status, reason, id, seconds }))
}
