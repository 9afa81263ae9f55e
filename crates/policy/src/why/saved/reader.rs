//! Numbers, texts and parts of saved histories. Nothing of what is read is trusted: a length is one of bytes that are there.

/// The bytes are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Corrupt;

/// What is left to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// LEB128.
    pub(super) fn number(&mut self) -> Result<u64, Corrupt> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Corrupt)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(Corrupt);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Corrupt)
    }

    /// A number that is at most this.
    pub(super) fn number_to(&mut self, most: usize) -> Result<usize, Corrupt> {
        usize::try_from(self.number()?).ok().filter(|number| *number <= most).ok_or(Corrupt)
    }

    /// Bytes after their length.
    pub(super) fn part(&mut self) -> Result<Self, Corrupt> {
        let length = self.number_to(self.0.len())?;
        let (part, rest) = self.0.split_at_checked(length).ok_or(Corrupt)?;
        self.0 = rest;
        Ok(Self(part))
    }

    pub(super) fn text(&mut self) -> Result<&'b str, Corrupt> {
        std::str::from_utf8(self.part()?.0).map_err(|_| Corrupt)
    }
}
