//! A copy of a request's body, made as it is read.

/// The bytes of a body so far.
#[derive(Debug)]
pub struct BodyCopy {
    bytes: Vec<u8>,
    limit: usize,
    /// There were more than the limit: none are kept.
    is_over: bool,
}

impl BodyCopy {
    /// Copies a body of up to `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, is_over: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > self.limit {
            (self.bytes, self.is_over) = (Vec::new(), true);
        } else if !self.is_over {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The bytes; `None`: there were too many.
    #[must_use]
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.is_over).then_some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_or_there_is_none() {
        for (parts, expected) in [
            (vec![], Some("")),
            (vec!["abc", "", "de"], Some("abcde")),
            (vec!["abc", "def"], None),
            (vec!["abcdef"], None),
            (vec!["abcdef", "g"], None),
        ] {
            let mut copy = BodyCopy::new(5);
            parts.iter().for_each(|part| copy.push(part.as_bytes()));
            assert_eq!(copy.into_bytes().as_deref(), expected.map(str::as_bytes), "{parts:?}");
        }
    }
}
