//! Finds the end of a head or a trailer section, line by line; each byte is searched once, in however many pieces it comes.

use memchr::memchr;

use crate::fault::FaultKind;

/// How far a section at the start of the unconsumed input was searched.
///
/// Holds offsets and counts only, nothing about the content of a line.
#[derive(Copy, Clone, Default, Debug)]
pub(crate) struct LineScan {
    /// Before this offset there is no LF but those that ended `lines`.
    pub(crate) searched: usize,
    /// Where the line in progress begins.
    pub(crate) line_start: usize,
    /// Complete field lines.
    pub(crate) lines: usize,
    /// A line ended with LF alone.
    pub(crate) bare_lf: bool,
}

/// Limits of a section, and the faults for exceeding them.
pub(crate) struct SectionLimits {
    pub(crate) block: usize,
    pub(crate) fields: usize,
    pub(crate) block_fault: FaultKind,
    pub(crate) fields_fault: FaultKind,
    /// Whether LF alone ends a line (RFC 9112 §2.2 lets a recipient take it): only in an upstream's head.
    pub(crate) bare_lf: bool,
}

impl LineScan {
    /// The first line, if it is complete: its length without its end, and the offset after its end. Searches only what is new.
    pub(crate) fn first_line(
        &mut self,
        input: &[u8],
        limit: usize,
        bare_lf: bool,
    ) -> Result<Option<(usize, usize)>, FaultKind> {
        let Some(lf) = self.next_lf(input) else {
            // A trailing CR may be the end of the line: one byte over is not yet too long.
            return if input.len() > limit + 1 { Err(FaultKind::RequestLineTooLong) } else { Ok(None) };
        };
        let (len, has_cr) = line_length(input, 0, lf);
        if len > limit {
            return Err(FaultKind::RequestLineTooLong);
        }
        self.end_line(lf, has_cr, bare_lf)?;
        Ok(Some((len, lf + 1)))
    }

    /// The offset after the empty line that ends the section of field lines which begins at `block`. Searches only what is new.
    ///
    /// The checks run in one order per line, size first, so that a fault does not depend on how the bytes are cut.
    pub(crate) fn block_end(
        &mut self,
        input: &[u8],
        block: usize,
        bounds: &SectionLimits,
    ) -> Result<Option<usize>, FaultKind> {
        self.line_start = self.line_start.max(block);
        while let Some(lf) = self.next_lf(input) {
            let start = self.line_start;
            if lf + 1 - block > bounds.block {
                return Err(bounds.block_fault);
            }
            let (len, has_cr) = line_length(input, start, lf);
            self.end_line(lf, has_cr, bounds.bare_lf)?;
            if len == 0 {
                return Ok(Some(lf + 1));
            }
            self.lines += 1;
            if self.lines > bounds.fields {
                return Err(bounds.fields_fault);
            }
        }
        if input.len() - block.min(input.len()) > bounds.block { Err(bounds.block_fault) } else { Ok(None) }
    }

    /// Whether the block that just ended has no field line.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Whether any byte was searched.
    pub(crate) fn has_begun(&self) -> bool {
        self.searched > 0
    }

    fn next_lf(&mut self, input: &[u8]) -> Option<usize> {
        let unseen = input.get(self.searched..).unwrap_or_default();
        let found = memchr(b'\n', unseen);
        let lf = found.map(|at| self.searched + at);
        self.searched = lf.map_or(input.len().max(self.searched), |lf| lf + 1);
        lf
    }

    fn end_line(&mut self, lf: usize, has_cr: bool, bare_lf: bool) -> Result<(), FaultKind> {
        if !has_cr {
            if !bare_lf {
                return Err(FaultKind::BareLf);
            }
            self.bare_lf = true;
        }
        self.line_start = lf + 1;
        Ok(())
    }
}

/// The line's length without its CRLF or LF, and whether there was a CR.
fn line_length(input: &[u8], start: usize, lf: usize) -> (usize, bool) {
    match input.get(start..lf) {
        Some([line @ .., b'\r']) => (line.len(), true),
        line => (line.unwrap_or_default().len(), false),
    }
}
