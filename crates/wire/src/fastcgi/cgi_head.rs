//! The head of a CGI response (RFC 3875 §6): its end, its fields, and the kind of response.

use std::ops::Range;

use memchr::memchr;

use super::fault::CgiFault;

/// The limits of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgiLimits {
    /// Bytes, its line ends included. Bounds memory: a head is held whole.
    pub bytes: usize,
    /// Field lines.
    pub fields: usize,
}

impl Default for CgiLimits {
    /// Twice the limit for a client: scripts set many cookies.
    fn default() -> Self {
        Self { bytes: 64 * 1024, fields: 256 }
    }
}

/// The head of one response as it arrives.
///
/// Lines end in LF or CRLF, as CGI allows (RFC 3875 §6.3.4 leaves the line end to the system), in any mixture. The content of a line must follow HTTP's rules
/// (RFC 9110 §5), because it becomes an HTTP field; obsolete syntax that cannot move a boundary is normalized.
#[derive(Debug)]
pub struct CgiHead {
    limits: CgiLimits,
    bytes: Vec<u8>,
    /// `bytes` has no LF from here on.
    searched: usize,
    /// Start of the line in progress.
    line: usize,
    status: Option<u16>,
    location: Option<usize>,
    fields: Vec<Field>,
    /// The previous line was `Status`, which is not in `fields`.
    after_status: bool,
    mended: CgiNormalizations,
}

/// Faults of syntax that were normalized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgiNormalizations {
    /// A field continued in a second line.
    pub folded: bool,
    /// A space preceded a colon.
    pub space_before_colon: bool,
}

/// A field line: name and value in `bytes`.
type Field = (Range<usize>, Range<usize>);

/// The kind of response (RFC 3875 §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgiResponse<'h> {
    /// A response to the client with this status: a document (§6.2.1) or a redirect (§6.2.3, §6.2.4).
    Client(u16),
    /// An internal redirect to this path and query, instead of the script's response (§6.2.2, "local redirect").
    Local(&'h [u8]),
}

impl CgiHead {
    /// No bytes yet.
    #[must_use]
    pub fn new(limits: CgiLimits) -> Self {
        Self {
            limits,
            bytes: Vec::new(),
            searched: 0,
            line: 0,
            status: None,
            location: None,
            fields: Vec::new(),
            after_status: false,
            mended: CgiNormalizations::default(),
        }
    }

    /// Resets it for the next response, in the same storage.
    pub fn restart(&mut self) {
        self.bytes.clear();
        self.searched = 0;
        self.line = 0;
        self.status = None;
        self.location = None;
        self.fields.clear();
        self.after_status = false;
        self.mended = CgiNormalizations::default();
    }

    /// Whether any byte of it has arrived.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Takes the next bytes of STDOUT. `Some`: the head is complete, and this many of them belong to it; the body follows.
    ///
    /// # Errors
    ///
    /// The script's fault. Nothing of the response can be used.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, CgiFault> {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            let part = memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            let room = self.limits.bytes - self.bytes.len();
            if part > room {
                return Err(CgiFault::TooLarge);
            }
            used += part;
            self.bytes.extend_from_slice(rest.get(..part).unwrap_or_default());
            if self.bytes.get(self.searched..).is_none_or(|new| !new.ends_with(b"\n")) {
                self.searched = self.bytes.len();
                return Ok(None);
            }
            self.searched = self.bytes.len();
            if self.take_line()? {
                return Ok(Some(used));
            }
        }
    }

    /// The kind of response, from the complete head.
    #[must_use]
    pub fn response(&self) -> CgiResponse<'_> {
        let location = self.location.and_then(|at| self.fields.get(at)).map(|(_, value)| self.part(value));
        match (self.status, location) {
            (Some(status), _) => CgiResponse::Client(status),
            // A local redirect has no other field; with one, `Location` has its meaning in HTTP.
            (None, Some(local)) if self.fields.len() == 1 && is_local(local) => CgiResponse::Local(local),
            (None, Some(_)) => CgiResponse::Client(302),
            (None, None) => CgiResponse::Client(200),
        }
    }

    /// The faults in the head that were normalized.
    #[must_use]
    pub fn mended(&self) -> CgiNormalizations {
        self.mended
    }

    /// The fields for the client, in order, without `Status`; names as received.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.fields.iter().map(|(name, value)| (self.part(name), self.part(value)))
    }

    /// The value of the first field of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    fn part(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// Parses the line that has just ended. `true`: it was the empty line after the head.
    fn take_line(&mut self) -> Result<bool, CgiFault> {
        let begin = std::mem::replace(&mut self.line, self.bytes.len());
        let line = match self.bytes.get(begin..self.line) {
            Some([line @ .., b'\r', b'\n'] | [line @ .., b'\n']) => line,
            _ => return Err(CgiFault::NotAField), // it has just ended in LF
        };
        match line.first() {
            None => return Ok(true),
            Some(b' ' | b'\t') if !self.fields.is_empty() || self.after_status => {
                let more = value_of(line, 0)?;
                self.unfold(begin + more.start..begin + more.end);
                return Ok(false);
            }
            Some(_) => {}
        }
        let colon = memchr(b':', line).ok_or(CgiFault::NotAField)?;
        let written = line.get(..colon).unwrap_or_default();
        let name = written.trim_ascii_end();
        if name.is_empty() || !name.iter().all(|&byte| is_tchar(byte)) {
            return Err(CgiFault::NotAField);
        }
        let range = value_of(line, colon + 1)?;
        self.mended.space_before_colon |= name.len() < colon;
        self.after_status = name.eq_ignore_ascii_case(b"status");
        if self.after_status {
            let status = parse_status(line.get(range).unwrap_or_default())?;
            return match self.status.replace(status) {
                None => Ok(false),
                Some(_) => Err(CgiFault::TwoStatuses),
            };
        }
        if self.fields.len() == self.limits.fields {
            return Err(CgiFault::TooManyFields);
        }
        if name.eq_ignore_ascii_case(b"location") {
            self.location = Some(self.fields.len());
        }
        let (name_end, start, end) = (begin + name.len(), begin + range.start, begin + range.end);
        self.fields.push((begin..name_end, start..end));
        Ok(false)
    }

    /// These bytes continue the value of the last field, after blanks (RFC 9112 §5.2). A continuation of `Status` belongs to its reason.
    fn unfold(&mut self, more: Range<usize>) {
        self.mended.folded = true;
        if self.after_status || more.is_empty() {
            return;
        }
        let Some((_, value)) = self.fields.last_mut() else { return };
        if Range::is_empty(value) {
            *value = more;
            return;
        }
        if let Some(between) = self.bytes.get_mut(value.end..more.start) {
            between.fill(b' ');
        }
        value.end = more.end;
    }
}

/// `local-pathquery` (RFC 3875 §6.3.2): a path, not `//host`.
fn is_local(location: &[u8]) -> bool {
    matches!(location, [b'/'] | [b'/', b'!'..=b'.' | b'0'.., ..])
}

/// Three digits, and a reason after a blank, which is dropped (RFC 3875 §6.3.3). 1xx is not allowed as a response. Clients treat statuses unknown to RFC 9110 §15 as
/// a 5xx, as from every other kind of app.
fn parse_status(value: &[u8]) -> Result<u16, CgiFault> {
    let (digits, reason) = value.split_first_chunk::<3>().ok_or(CgiFault::Status)?;
    let number = digits.iter().try_fold(0_u16, |number, &digit| match digit {
        b'0'..=b'9' => Some(number * 10 + u16::from(digit - b'0')),
        _ => None,
    });
    match number {
        Some(status @ 200..=999) if matches!(reason.first(), None | Some(b' ')) => Ok(status),
        _ => Err(CgiFault::Status),
    }
}

/// `tchar` (RFC 9110 §5.6.2).
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The range of the value that begins at `at`, without the blanks around it.
fn value_of(line: &[u8], at: usize) -> Result<Range<usize>, CgiFault> {
    let raw = line.get(at..).unwrap_or_default();
    if raw.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err(CgiFault::Value);
    }
    let value = raw.trim_ascii_start(); // of the bytes that it trims, only blanks can occur here
    let start = line.len() - value.len();
    Ok(start..start + value.trim_ascii_end().len())
}
