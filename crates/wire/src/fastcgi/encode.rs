//! Appends records to a `Vec<u8>`.

use crate::encode::EncodeError;

use super::record::{FIXED_BODY, HEADER_LEN, MAX_CONTENT, NO_REQUEST, RecordHeader, RecordType};

/// The role of a program that responds to requests (F §6.2).
const RESPONDER: u16 = 1;
/// The server keeps the connection (F §5.1).
const KEEP_CONN: u8 = 1;
/// Lengths above this take four bytes (F §3.4).
const SHORT_LENGTH: usize = 127;

/// Begins a request in the responder role, on a connection that the server keeps (F §5.1). `request` is not 0.
pub fn encode_begin(out: &mut Vec<u8>, request: u16) {
    debug_assert_ne!(request, NO_REQUEST);
    out.extend_from_slice(&RecordHeader::encode(RecordType::BeginRequest, request, FIXED_BODY as u16));
    let [role1, role0] = RESPONDER.to_be_bytes();
    out.extend_from_slice(&[role1, role0, KEEP_CONN, 0, 0, 0, 0, 0]);
}

/// Aborts a request: no response is wanted (F §5.4).
pub fn encode_abort(out: &mut Vec<u8>, request: u16) {
    out.extend_from_slice(&RecordHeader::encode(RecordType::AbortRequest, request, 0));
}

/// Appends bytes of the body, in as many records as needed; none without bytes.
pub fn encode_stdin(out: &mut Vec<u8>, request: u16, bytes: &[u8]) {
    for part in bytes.chunks(MAX_CONTENT) {
        out.extend_from_slice(&RecordHeader::encode(RecordType::Stdin, request, part.len() as u16));
        out.extend_from_slice(part);
    }
}

/// Ends the body: an empty record (F §3.3, "stream").
pub fn encode_stdin_end(out: &mut Vec<u8>, request: u16) {
    out.extend_from_slice(&RecordHeader::encode(RecordType::Stdin, request, 0));
}

/// Queries the server about itself, which every server responds to at once: a check that it is alive (F §4.1).
pub fn encode_get_values(out: &mut Vec<u8>) {
    let mut content = Vec::with_capacity(32);
    push_pair(&mut content, b"FCGI_MPXS_CONNS", b"");
    out.extend_from_slice(&RecordHeader::encode(RecordType::GetValues, NO_REQUEST, content.len() as u16));
    out.extend_from_slice(&content);
}

/// The parameters of a request, as a stream of PARAMS records: [`begin`](Self::begin), any number of [`pair`](Self::pair), [`finish`](Self::finish).
///
/// They are written in place, and a record is closed before a pair that does not fit. A pair may continue in the next record (F §3.3), but PHP
/// parses each record separately, and closes the connection over one that does: so no pair continues, and none is longer than a record.
#[derive(Debug)]
pub struct ParamsWriter<'o> {
    out: &'o mut Vec<u8>,
    request: u16,
    /// Offset of the current record's header.
    header: usize,
    /// A pair was left out.
    too_long: bool,
}

impl<'o> ParamsWriter<'o> {
    /// Begins the stream.
    pub fn begin(out: &'o mut Vec<u8>, request: u16) -> Self {
        let header = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        Self { out, request, header, too_long: false }
    }

    /// One name and its value.
    pub fn pair(&mut self, name: &[u8], value: &[u8]) {
        let begin = self.out.len();
        push_pair(self.out, name, value);
        self.settle(begin);
    }

    /// One name and a value in parts.
    pub fn pair_of(&mut self, name: &[u8], parts: &[&[u8]]) {
        let begin = self.out.len();
        push_length(self.out, name.len());
        push_length(self.out, parts.iter().map(|part| part.len()).sum());
        self.out.extend_from_slice(name);
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
        self.settle(begin);
    }

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLong`]: a pair is longer than a record, and was left out.
    pub fn finish(mut self) -> Result<(), EncodeError> {
        let content = self.content();
        if content > 0 {
            self.seal(content as u16); // at most MAX_CONTENT, see `settle`
            self.header = self.out.len();
            self.out.extend_from_slice(&[0; HEADER_LEN]);
        }
        self.seal(0);
        if self.too_long { Err(EncodeError::TooLong) } else { Ok(()) }
    }

    fn content(&self) -> usize {
        self.out.len() - self.header - HEADER_LEN
    }

    /// If the pair that begins at `begin` does not fit, closes the record before it, and moves the pair after the header of the next.
    fn settle(&mut self, begin: usize) {
        if self.content() <= MAX_CONTENT {
            return;
        }
        if self.out.len() - begin > MAX_CONTENT {
            self.out.truncate(begin);
            self.too_long = true;
            return;
        }
        self.seal((begin - self.header - HEADER_LEN) as u16); // within its limit without the pair
        self.out.splice(begin..begin, [0; HEADER_LEN]);
        self.header = begin;
    }

    fn seal(&mut self, content: u16) {
        let header = RecordHeader::encode(RecordType::Params, self.request, content);
        if let Some(place) = self.out.get_mut(self.header..self.header + HEADER_LEN) {
            place.copy_from_slice(&header);
        }
    }
}

/// A name and a value with their lengths (F §3.4).
fn push_pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    push_length(out, name.len());
    push_length(out, value.len());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if length <= SHORT_LENGTH => out.push(short),
        // A head of 2 GiB exceeds the limits of http1.
        _ => out.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes()),
    }
}
