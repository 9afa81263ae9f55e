//! Priorities of responses (RFC 9218), as a client states them in the `priority` field and in PRIORITY_UPDATE frames.

/// What a client said about one response; what it did not say is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrioritySignal {
    /// `u`: 0 (first) to 7 (last).
    pub urgency: Option<u8>,
    /// `i`: a part of it is of use before all of it is there.
    pub incremental: Option<bool>,
}

impl PrioritySignal {
    /// Bytes of a field value that are examined; a longer one is read up to there.
    pub const LONGEST: usize = 60;

    /// Reads a dictionary (RFC 8941 §3.2). A member that is unknown, or has another type or a value out of range, is ignored (RFC 9218 §4).
    pub fn parse(value: &[u8]) -> Self {
        let mut signal = Self::default();
        for member in value.get(..Self::LONGEST).unwrap_or(value).split(|&byte| byte == b',') {
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', urgency @ b'0'..=b'7'] => signal.urgency = Some(urgency - b'0'),
                b"i" | b"i=?1" => signal.incremental = Some(true),
                b"i=?0" => signal.incremental = Some(false),
                _ => {}
            }
        }
        signal
    }

    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_and_what_is_not_one_is_ignored() {
        let read = |text: &str| {
            let PrioritySignal { urgency, incremental } = PrioritySignal::parse(text.as_bytes());
            (urgency, incremental)
        };
        assert_eq!(read("u=1"), (Some(1), None));
        assert_eq!(read("u=0, i"), (Some(0), Some(true)));
        assert_eq!(read("i=?0,u=7"), (Some(7), Some(false)));
        assert_eq!(read("u=5;x=y, i;q"), (Some(5), Some(true)));
        assert_eq!(read("u=1, u=2"), (Some(2), None), "RFC 8941 §3.2: the last one counts");
        for text in ["", "u", "u=8", "u=-1", "u=1.0", "u=\"1\"", "i=1", "I", "U=1", "x=1", ",,", "u=11"] {
            assert_eq!(read(text), (None, None), "{text}");
        }
        assert!(PrioritySignal::parse(&[b','; 9000]).is_empty());
    }
}
