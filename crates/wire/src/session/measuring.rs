//! Measuring what a worker's requests leave behind (spec §11).

use crate::FaultKind;

/// Whether a worker measures, and the GROWTH that may come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measuring {
    /// LEAKS was sent, and not its end.
    is_on: bool,
    /// The response to LEAKS has not come.
    is_beginning: bool,
    /// The last request that was opened while it measured, until its GROWTH comes. After LEAKS with END it may never come.
    request: Option<u32>,
}

impl Measuring {
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether the GROWTH of what is over must come before the next request.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_on && (self.is_beginning || self.request.is_some())
    }

    /// False: it measures, or the response to the last LEAKS is outstanding.
    pub(super) fn begin(&mut self) -> bool {
        let may_begin = !self.is_on && !self.is_beginning;
        if may_begin {
            (self.is_on, self.is_beginning) = (true, true);
        }
        may_begin
    }

    /// False: it does not measure.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.is_on)
    }

    /// A request goes to the worker.
    #[inline]
    pub(super) fn open(&mut self, stream: u32) {
        if self.is_on {
            self.request = Some(stream);
        }
    }

    /// GROWTH of this request has come, which is open or not.
    pub(super) fn take(&mut self, request: u32, is_open: bool) -> Result<(), (FaultKind, u64)> {
        if request == 0 && self.is_beginning {
            // What crossed the last END would have come before.
            *self = Self { is_on: self.is_on, is_beginning: false, request: None };
        } else if self.request == Some(request) && !is_open {
            self.request = None;
        } else {
            return Err((FaultKind::Growth, request.into()));
        }
        Ok(())
    }
}
