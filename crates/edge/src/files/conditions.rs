//! Validators of a file, and what a conditional request makes of them (RFC 9110 §8.8, §13).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Method;
use keepwarm_http1::Fields;

/// What tells one state of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validators {
    /// Strong: time in nanoseconds and length. With its quotes.
    pub(super) etag: String,
    /// Whole seconds, never later than now (§8.8.2.1).
    pub(super) modified: SystemTime,
    /// The date says no less than the tag: it is older than a second, so that no second change can hide in it (§8.8.2.2).
    date_is_strong: bool,
}

/// The result of evaluating the conditions of a request (RFC 9110 §13.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConditionResult {
    /// They hold, or there are none.
    Send,
    /// 304: the client has it.
    NotModified,
    /// 412: it is not what the client thinks.
    Failed,
}

impl Validators {
    pub(super) fn of(about: &Metadata, now: SystemTime) -> Self {
        Self::new(about.mtime(), about.mtime_nsec(), about.len(), now)
    }

    pub(super) fn new(seconds: i64, nanoseconds: i64, length: u64, now: SystemTime) -> Self {
        // Times before 1970 are a mistake, and not HTTP dates.
        let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let modified = UNIX_EPOCH + since;
        Self {
            etag: format!("\"{seconds:x}.{nanoseconds:x}-{length:x}\""),
            modified: modified.min(now),
            date_is_strong: modified + Duration::from_secs(1) < now,
        }
    }

    /// In the order of RFC 9110 §13.2.2.
    pub(super) fn judge(&self, method: &Method, fields: &Fields) -> ConditionResult {
        // 1. and 2.
        if fields.first("if-match").is_some() {
            if !fields.all("if-match").any(|list| self.is_in(list, Comparison::Strong)) {
                return ConditionResult::Failed;
            }
        } else if let Some(date) = date(fields, "if-unmodified-since")
            && self.modified > date
        {
            return ConditionResult::Failed;
        }
        // 3. and 4.
        if fields.first("if-none-match").is_some() {
            if fields.all("if-none-match").any(|list| self.is_in(list, Comparison::Weak)) {
                return match *method {
                    Method::GET | Method::HEAD => ConditionResult::NotModified,
                    _ => ConditionResult::Failed,
                };
            }
        } else if matches!(*method, Method::GET | Method::HEAD)
            && let Some(date) = date(fields, "if-modified-since")
            && self.modified <= date
        {
            return ConditionResult::NotModified;
        }
        ConditionResult::Send
    }

    /// Whether a range is of the file as it is now (§13.1.5): without `If-Range`, and with one that names this state by a strong validator.
    pub(super) fn range_is_current(&self, fields: &Fields) -> bool {
        match fields.first("if-range") {
            None => true,
            Some(tag) if tag.starts_with(b"\"") => tag == self.etag.as_bytes(),
            Some(_) => {
                self.date_is_strong && date(fields, "if-range").is_some_and(|date| date == self.modified)
            }
        }
    }

    fn is_in(&self, list: &[u8], comparison: Comparison) -> bool {
        if list.trim_ascii() == b"*" {
            return true;
        }
        tags(list)
            .any(|(weak, tag)| !(weak && comparison == Comparison::Strong) && tag == self.etag.as_bytes())
    }
}

/// How tags are compared (§8.8.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// The tags of a list, with their quotes; whether each is weak. Anything else ends the list.
fn tags(list: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = list;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', after @ ..] = rest {
            rest = after;
        }
        let (weak, quoted) = match rest {
            [b'W', b'/', quoted @ ..] => (true, quoted),
            quoted => (false, quoted),
        };
        let inside = quoted.strip_prefix(b"\"")?;
        let end = inside.iter().position(|&byte| byte == b'"')?;
        let (tag, after) = quoted.split_at_checked(end + 2)?;
        rest = after;
        Some((weak, tag))
    })
}

/// A date; one that is none counts for nothing (§13.1.3).
fn date(fields: &Fields, name: &str) -> Option<SystemTime> {
    let text = std::str::from_utf8(fields.first(name)?).ok()?;
    httpdate::parse_http_date(text).ok()
}
