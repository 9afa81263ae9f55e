//! The string block (spec §2.1).

use memchr::{Memchr, memchr_iter};
use std::fmt;
use std::iter::FusedIterator;

/// A checked list of strings without NUL, borrowed from a frame.
///
/// Invariant: the text has exactly `count - 1` NULs; with `count` 0 it is empty.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Strings<'a> {
    count: u16,
    text: &'a [u8],
}

impl<'a> Strings<'a> {
    /// A block of `count` strings in `text`, if that count is right.
    #[inline]
    pub(super) fn checked(count: u16, text: &'a [u8]) -> Option<Self> {
        let fits = match count {
            0 => text.is_empty(),
            _ => memchr_iter(0, text).count() == usize::from(count) - 1,
        };
        fits.then_some(Self { count, text })
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The strings, joined by NUL.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The strings, in order.
    pub fn iter(&self) -> StringIter<'a> {
        StringIter { text: self.text, start: 0, left: self.count, nuls: memchr_iter(0, self.text) }
    }

    /// The strings as names and values, in order. A last name without a value (which no decoded frame of names
    /// and values has) is left out.
    pub fn pairs(&self) -> Pairs<'a> {
        Pairs(self.iter())
    }
}

/// The strings of a frame and the bytes after them, in one allocation: for a reader that runs after the input
/// is gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedStrings {
    count: u16,
    /// Offset in `bytes` where the strings end.
    end: usize,
    bytes: Vec<u8>,
}

impl OwnedStrings {
    /// Copies both.
    pub fn new(strings: Strings<'_>, rest: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(strings.text.len() + rest.len());
        bytes.extend_from_slice(strings.text);
        bytes.extend_from_slice(rest);
        Self { count: strings.count, end: strings.text.len(), bytes }
    }

    /// The strings, as they were decoded.
    pub fn strings(&self) -> Strings<'_> {
        Strings { count: self.count, text: self.bytes.get(..self.end).unwrap_or_default() }
    }

    /// The bytes after them.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.end..).unwrap_or_default()
    }
}

impl<'a> IntoIterator for Strings<'a> {
    type Item = &'a [u8];
    type IntoIter = StringIter<'a>;

    fn into_iter(self) -> StringIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Strings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

/// The strings of a block, in order.
#[derive(Debug, Clone)]
pub struct StringIter<'a> {
    text: &'a [u8],
    /// Offset of the next string.
    start: usize,
    left: u16,
    nuls: Memchr<'a>,
}

impl<'a> StringIter<'a> {
    /// The rest, as names and values.
    pub fn pairs(self) -> Pairs<'a> {
        Pairs(self)
    }
}

impl<'a> Iterator for StringIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let end = self.nuls.next().unwrap_or(self.text.len());
        let string = self.text.get(self.start..end).unwrap_or_default();
        self.start = end + 1;
        Some(string)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl ExactSizeIterator for StringIter<'_> {}
impl FusedIterator for StringIter<'_> {}

/// The strings of a block as names and values.
#[derive(Debug, Clone)]
pub struct Pairs<'a>(StringIter<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let pairs = self.0.len() / 2;
        (pairs, Some(pairs))
    }
}

impl ExactSizeIterator for Pairs<'_> {}
impl FusedIterator for Pairs<'_> {}
