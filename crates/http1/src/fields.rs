//! Storage of field lines in two flat buffers.

use std::fmt;

use crate::bytes::{lower_tchar, members};

/// Field lines in the order they came: one buffer of bytes and one of spans, both reused from message to message.
///
/// Names are lower-case always. Values that come from a decoder have no whitespace around them.
#[derive(Clone, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// One bit for each hash of a name: shows that no name repeats without comparing names, for nearly every message.
    seen_hashes: u64,
    repeats: bool,
}

impl Fields {
    /// Without fields; allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the fields, keeps the storage.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.seen_hashes = 0;
        self.repeats = false;
    }

    /// The number of field lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of storage that this holds, to account for an idle connection.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// Appends a line; the name is lower-cased. Neither is checked.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend(name.iter().map(u8::to_ascii_lowercase));
        self.bytes.extend_from_slice(value);
        self.add(at, name.len(), at + name.len(), value.len());
    }

    /// The lines, as `(name, value)`.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.spans.iter().map(|span| (self.name(span), self.value(span)))
    }

    /// The value of the first line of that name.
    #[must_use]
    pub fn first(&self, lower_name: &str) -> Option<&[u8]> {
        self.iter().find(|(name, _)| *name == lower_name.as_bytes()).map(|(_, value)| value)
    }

    /// The values of all lines of that name.
    pub fn all<'a>(&'a self, lower_name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let name = lower_name.as_bytes();
        self.spans.iter().filter(move |span| self.name(span) == name).map(|span| self.value(span))
    }

    /// Lets `edit` change each value of that name in place, and return its new length, at most the old one.
    pub fn edit_values(&mut self, lower_name: &str, mut edit: impl FnMut(&mut [u8]) -> usize) {
        for index in 0..self.spans.len() {
            let Some(span) = self.spans.get(index).copied() else { continue };
            if self.name(&span) != lower_name.as_bytes() {
                continue;
            }
            let (at, len) = (span.value as usize, span.value_len as usize);
            let shorter = self.bytes.get_mut(at..at + len).map_or(0, &mut edit).min(len);
            if let Some(span) = self.spans.get_mut(index) {
                // No greater than it was.
                span.value_len = shorter as u32;
            }
        }
    }

    /// Keeps the lines whose names `keep` approves.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let bytes = &self.bytes;
        let name = |span: &Span| bytes.get(span.name as usize..(span.name + span.name_len) as usize);
        self.spans.retain(|span| keep(name(span).unwrap_or_default()));
    }

    /// Whether the comma-separated lists of that name have this member, in any case.
    #[must_use]
    pub fn has_token(&self, lower_name: &str, token: &str) -> bool {
        self.all(lower_name).flat_map(members).any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
    }

    /// Whether any name occurs more than once.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.repeats
    }

    /// Copies a block of field lines in, to be split by [`Fields::add`]. Returns its offset.
    pub(crate) fn push_block(&mut self, block: &[u8]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(block);
        at
    }

    /// Lower-cases the token at that offset of the buffer in place, and returns its length.
    pub(crate) fn lowercase_token(&mut self, at: usize) -> usize {
        let rest = self.bytes.get_mut(at..).unwrap_or_default();
        let mut len = 0;
        for byte in rest {
            let Some(lower) = lower_tchar(*byte) else { break };
            *byte = lower;
            len += 1;
        }
        len
    }

    /// Adds a line whose bytes are in the buffer already, its name in lower case.
    pub(crate) fn add(&mut self, name: usize, name_len: usize, value: usize, value_len: usize) {
        // A head of 4 GiB is past every limit, so that offsets fit.
        let span = Span {
            name: name as u32,
            name_len: name_len as u32,
            value: value as u32,
            value_len: value_len as u32,
        };
        self.detect_repeat(&span);
        self.spans.push(span);
    }

    /// Extends the last value up to `end`, with spaces in place of the bytes between: the meaning of a folded line (RFC 9112 §5.2).
    ///
    /// ```text
    /// a: b\r\n  c\r\n   ->   a: b    c\r\n
    ///    ^                      ^----^
    /// ```
    pub(crate) fn extend_last(&mut self, content: usize, end: usize) {
        let Some(last) = self.spans.last_mut() else { return };
        let value = last.value as usize;
        if last.value_len == 0 {
            last.value = content as u32;
            last.value_len = (end - content) as u32;
            return;
        }
        if end > content {
            if let Some(gap) = self.bytes.get_mut(value + last.value_len as usize..content) {
                gap.fill(b' ');
            }
            last.value_len = (end - value) as u32;
        }
    }

    fn detect_repeat(&mut self, span: &Span) {
        if self.repeats {
            return;
        }
        let name = self.name(span);
        let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return };
        let hash = name.len() ^ usize::from(first) << 1 ^ usize::from(last) << 3;
        let bit = 1 << ((hash ^ hash >> 5) & 63);
        if self.seen_hashes & bit != 0 {
            self.repeats = self.spans.iter().any(|other| self.name(other) == name);
        }
        self.seen_hashes |= bit;
    }

    fn name(&self, span: &Span) -> &[u8] {
        self.slice(span.name, span.name_len)
    }

    fn value(&self, span: &Span) -> &[u8] {
        self.slice(span.value, span.value_len)
    }

    fn slice(&self, at: u32, len: u32) -> &[u8] {
        // Spans lie inside the buffer by construction.
        self.bytes.get(at as usize..at as usize + len as usize).unwrap_or_default()
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(n, v)| (n.escape_ascii().to_string(), v.escape_ascii().to_string())))
            .finish()
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields {}

/// Position of a line's name and value in the buffer.
#[derive(Copy, Clone)]
struct Span {
    name: u32,
    name_len: u32,
    value: u32,
    value_len: u32,
}

#[cfg(test)]
mod tests;
