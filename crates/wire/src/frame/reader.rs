//! Parses a payload, front to back.

use super::{FrameHeader, MAX_CREDIT, MIN_INITIAL_CREDIT, Sender, Strings};
use crate::{FaultKind, WireFault};

/// The rest of a frame's payload.
pub(super) struct Reader<'a> {
    pub(super) header: FrameHeader,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The frame at the start of `input`, if it is complete, and its whole length.
    #[inline]
    pub(super) fn frame(input: &'a [u8], sender: Sender) -> Result<Option<(Self, usize)>, WireFault> {
        let Some(header) = FrameHeader::decode(input, sender)? else {
            return Ok(None);
        };
        let frame_len = header.frame_len();
        let Some(rest) = input.get(super::HEADER_LEN..frame_len) else {
            return Ok(None);
        };
        Ok(Some((Self { header, rest }, frame_len)))
    }

    pub(super) fn fault(&self, kind: FaultKind, seen: u64) -> WireFault {
        WireFault::new(kind, &self.header, seen)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireFault> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireFault> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireFault> {
        self.take().map(u64::from_be_bytes)
    }

    /// The next `N` bytes.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], WireFault> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.fault(FaultKind::TooShort, self.header.length.into()));
        };
        self.rest = rest;
        Ok(*bytes)
    }

    /// The rest; at most `max` bytes.
    pub(super) fn rest(&mut self, max: usize) -> Result<&'a [u8], WireFault> {
        if self.rest.len() > max {
            return Err(self.fault(FaultKind::TooLong, self.rest.len() as u64));
        }
        Ok(std::mem::take(&mut self.rest))
    }

    /// A string block (spec §2.1).
    #[inline]
    pub(super) fn strings(&mut self) -> Result<Strings<'a>, WireFault> {
        let count = self.u16()?;
        let text_len = self.u32()? as usize;
        let Some((text, rest)) = self.rest.split_at_checked(text_len) else {
            return Err(self.fault(FaultKind::TooShort, self.header.length.into()));
        };
        self.rest = rest;
        Strings::checked(count, text).ok_or_else(|| self.fault(FaultKind::Strings, count.into()))
    }

    /// A string block of names and values.
    pub(super) fn pairs(&mut self) -> Result<Strings<'a>, WireFault> {
        let strings = self.strings()?;
        if strings.len() % 2 != 0 {
            return Err(self.fault(FaultKind::Fields, strings.len() as u64));
        }
        Ok(strings)
    }

    /// A string block of names and values, with nothing after it.
    pub(super) fn last_pairs(&mut self) -> Result<Strings<'a>, WireFault> {
        let strings = self.pairs()?;
        self.rest(0)?;
        Ok(strings)
    }

    /// Code and reason of RESET and CLOSE; the header has limited their length.
    pub(super) fn code_and_reason(&mut self) -> Result<(u16, &'a str), WireFault> {
        let code = self.u16()?;
        let reason = self.rest(super::MAX_RESET_REASON)?;
        match std::str::from_utf8(reason) {
            Ok(reason) => Ok((code, reason)),
            Err(error) => Err(self.fault(FaultKind::Utf8, error.valid_up_to() as u64)),
        }
    }

    /// The amount of a CREDIT frame (spec §6).
    pub(super) fn credit(&mut self) -> Result<u32, WireFault> {
        let amount = self.u32()?;
        if amount == 0 || amount > MAX_CREDIT {
            return Err(self.fault(FaultKind::Credit, amount.into()));
        }
        Ok(amount)
    }

    /// The initial credit of a connection (spec §3).
    pub(super) fn initial_credit(&mut self) -> Result<u32, WireFault> {
        let amount = self.u32()?;
        if !(MIN_INITIAL_CREDIT..=MAX_CREDIT).contains(&amount) {
            return Err(self.fault(FaultKind::Credit, amount.into()));
        }
        Ok(amount)
    }
}
