//! A file as a response.

use std::ops::Range;
use std::time::SystemTime;

use http::Method;
use keepwarm_http1::Fields;
use keepwarm_policy::compression::Coding;
use keepwarm_serve::{Exchange, OpenFile, SendfileField};

use super::conditions::{ConditionResult, Validators};
use super::ranges::{RangeRequest, parse_range};
use super::transfer;
use crate::refusals;

/// A response that sends a file.
pub(super) struct FileResponse<'r> {
    pub(super) file: OpenFile,
    /// Its type, where the fields give none.
    pub(super) content_type: &'static str,
    /// It is compressed so.
    pub(super) coding: Option<Coding>,
    /// It depends on what the client takes.
    pub(super) varies: bool,
    /// What an app has said about it; the status is 200, or these are sent with another as they are.
    pub(super) fields: Option<(u16, Vec<SendfileField>)>,
    /// What the configuration says about it.
    pub(super) rules: Vec<(&'r [u8], &'r [u8])>,
}

/// A part of the file, and the bytes that precede it.
struct RangePart {
    before: Vec<u8>,
    range: Range<u64>,
}

impl FileResponse<'_> {
    /// Sends the response.
    pub(super) async fn run(self, exchange: &mut Exchange<'_>) {
        let validators = Validators::of(&self.file.about, SystemTime::now());
        let conditional = self.fields.as_ref().is_none_or(|(status, _)| *status == 200);
        if !conditional {
            let whole = 0..self.file.len();
            return self.send(exchange, &validators, None, vec![RangePart::plain(whole)]).await;
        }
        let request = exchange.request();
        let (method, fields) = (&request.head.method, &request.head.fields);
        match validators.judge(method, fields) {
            ConditionResult::Send => {}
            ConditionResult::NotModified => return self.say_not_modified(exchange, &validators),
            ConditionResult::Failed => {
                return refusals::PRECONDITION_FAILED.respond(exchange);
            }
        }
        // Only GET has ranges (RFC 9110 §14.2).
        let range = match *method == Method::GET && validators.range_is_current(fields) {
            true => parse_range(fields.first("range"), self.file.len()),
            false => RangeRequest::Whole,
        };
        let length = self.file.len();
        match range {
            RangeRequest::Whole => {
                let whole = 0..length;
                self.send(exchange, &validators, None, vec![RangePart::plain(whole)]).await;
            }
            RangeRequest::Parts(parts) => self.send_parts(exchange, &validators, &parts).await,
            RangeRequest::Nothing => {
                let range = format!("bytes */{length}");
                let message = refusals::RANGE_NOT_SATISFIABLE.about(&[]);
                message
                    .field("Content-Range", range.as_bytes())
                    .field("Accept-Ranges", b"bytes")
                    .respond(exchange);
            }
        }
    }

    /// 206: one part is its bytes, several are a message of their own (RFC 9110 §14.6).
    async fn send_parts(&self, exchange: &mut Exchange<'_>, validators: &Validators, parts: &[Range<u64>]) {
        let length = self.file.len();
        let content_range = |part: &Range<u64>| format!("bytes {}-{}/{length}", part.start, part.end - 1);
        if let [part] = parts {
            let kind = PartialHead { content_range: Some(content_range(part)), content_type: None };
            return self.send(exchange, validators, Some(kind), vec![RangePart::plain(part.clone())]).await;
        }
        let boundary = format!("keepwarm-{:016x}", exchange.request().number() ^ length.rotate_left(32));
        let (_, content_type) = self.content_type();
        let mut all: Vec<RangePart> = Vec::with_capacity(parts.len() + 1);
        for part in parts {
            let mut before = if all.is_empty() { Vec::new() } else { b"\r\n".to_vec() };
            before.extend_from_slice(format!("--{boundary}\r\nContent-Type: ").as_bytes());
            before.extend_from_slice(content_type);
            before
                .extend_from_slice(format!("\r\nContent-Range: {}\r\n\r\n", content_range(part)).as_bytes());
            all.push(RangePart { before, range: part.clone() });
        }
        all.push(RangePart { before: format!("\r\n--{boundary}--\r\n").into_bytes(), range: 0..0 });
        let content_type = format!("multipart/byteranges; boundary={boundary}");
        let kind = PartialHead { content_range: None, content_type: Some(content_type) };
        self.send(exchange, validators, Some(kind), all).await;
    }

    async fn send(
        &self,
        exchange: &mut Exchange<'_>,
        validators: &Validators,
        partial: Option<PartialHead>,
        parts: Vec<RangePart>,
    ) {
        let length: u64 =
            parts.iter().map(|part| part.before.len() as u64 + part.range.end - part.range.start).sum();
        let status = match (&partial, &self.fields) {
            (Some(_), _) => 206,
            (None, Some((status, _))) => *status,
            (None, None) => 200,
        };
        let about_file = self.head_fields(validators, status);
        let multipart = partial.as_ref().and_then(|partial| partial.content_type.as_deref());
        let content_type = match multipart {
            Some(content_type) => (b"content-type".as_slice(), content_type.as_bytes()),
            None => self.content_type(),
        };
        let mut about_part = Fields::new();
        if let Some(range) = partial.as_ref().and_then(|partial| partial.content_range.as_deref()) {
            about_part.push(b"Content-Range", range.as_bytes());
        }
        // As a field, so that HEAD has it as well.
        about_part.push(b"Content-Length", length.to_string().as_bytes());
        let file_fields = about_file.iter().chain([content_type]).chain(about_part.iter());
        if exchange.head(status, None, false, self.app_fields().chain(file_fields)).is_err() {
            return refusals::BAD_FIELD.respond(exchange);
        }
        if !exchange.is_head() {
            for part in &parts {
                exchange.data(&part.before);
                if !transfer::send_range(&self.file, exchange, part.range.clone()).await {
                    return;
                }
            }
        }
        exchange.end();
    }

    /// 304 has the fields of the 200 that a cache needs (RFC 9110 §15.4.5), and no length.
    fn say_not_modified(&self, exchange: &mut Exchange<'_>, validators: &Validators) {
        let fields = self.head_fields(validators, 304);
        match exchange.head(304, None, false, self.app_fields().chain(fields.iter())) {
            Ok(_) => exchange.end(),
            Err(_) => exchange.abort("bad_field_in_response"),
        }
    }

    /// The app's, with their names as it wrote them, and those of the configuration; without their `Content-Type`, which is the file's.
    fn app_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.lines().filter(|(name, _)| !is_content_type(name))
    }

    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let app = self.fields.iter().flat_map(|(_, lines)| lines).map(|(name, value)| (&**name, &**value));
        app.chain(self.rules.iter().copied())
    }

    /// What is said of the file whatever is sent of it.
    fn head_fields(&self, validators: &Validators, status: u16) -> Fields {
        let mut fields = Fields::new();
        if let Some(coding) = self.coding {
            fields.push(b"Content-Encoding", coding.name().as_bytes());
        }
        if self.varies {
            fields.push(b"Vary", b"Accept-Encoding");
        }
        if matches!(status, 200 | 206 | 304) {
            fields.push(b"ETag", validators.etag.as_bytes());
            fields.push(b"Last-Modified", httpdate::fmt_http_date(validators.modified).as_bytes());
            fields.push(b"Accept-Ranges", b"bytes");
        }
        fields
    }

    /// The field with the file's type: as the app says, else as its name says.
    fn content_type(&self) -> (&[u8], &[u8]) {
        let theirs = self.lines().find(|(name, _)| is_content_type(name));
        theirs.unwrap_or((b"content-type", self.content_type.as_bytes()))
    }
}

fn is_content_type(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-type")
}

/// The fields of a 206 response.
struct PartialHead {
    content_range: Option<String>,
    content_type: Option<String>,
}

impl RangePart {
    fn plain(range: Range<u64>) -> Self {
        Self { before: Vec::new(), range }
    }
}
