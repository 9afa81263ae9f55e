//! Decoding of bodies in every framing (RFC 9112 §6.3), the same for both roles.

use crate::chunked::{Chunked, Step};
use crate::fault::FaultKind;
use crate::field_lines::{self, Syntax};
use crate::fields::Fields;
use crate::hop_by_hop::trailer_allowed;
use crate::limits::Limits;
use crate::lines::{LineScan, SectionLimits};
use crate::{Decoded, Event};

/// The rest of a body.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Body {
    /// Nothing: the next event is `End`.
    Done,
    /// That many bytes, more than zero.
    Length(u64),
    /// Chunks.
    Chunked(Chunked),
    /// The trailer section, after the last chunk.
    Trailers(LineScan),
    /// Everything until the connection ends.
    UntilClose,
}

impl Body {
    pub(crate) fn with_length(length: u64) -> Self {
        if length == 0 { Self::Done } else { Self::Length(length) }
    }

    /// The next event of the body, with at most `room` bytes of data; trailers are left in `trailers`. Framing is read even without room: a caller that
    /// is full still learns that the body has ended.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        room: usize,
        limits: &Limits,
        trailers: &mut Fields,
    ) -> Result<Decoded, FaultKind> {
        match self {
            Self::Done => Ok(Decoded { consumed: 0, event: Event::End }),
            Self::Length(left) => {
                let taken = (input.len().min(room) as u64).min(*left);
                *self = Self::with_length(*left - taken);
                // `taken` is at most the input's length, a usize.
                Ok(data(0, taken as usize))
            }
            Self::UntilClose => Ok(data(0, input.len().min(room))),
            Self::Chunked(chunked) => match chunked.step(input, room, limits.chunk_extensions)? {
                Step::NeedMore { at } => Ok(Decoded { consumed: at, event: Event::NeedMore }),
                Step::Data { start, end } => Ok(data(start, end)),
                Step::LastChunk { at } => {
                    *self = Self::Trailers(LineScan::default());
                    let rest = input.get(at..).unwrap_or_default();
                    let decoded = self.decode_trailers(rest, limits, trailers)?;
                    Ok(Decoded { consumed: at + decoded.consumed, ..decoded })
                }
            },
            Self::Trailers(_) => self.decode_trailers(input, limits, trailers),
        }
    }

    /// The trailer section (RFC 9112 §7.1.2): strict in both roles, because it is framing.
    fn decode_trailers(
        &mut self,
        input: &[u8],
        limits: &Limits,
        trailers: &mut Fields,
    ) -> Result<Decoded, FaultKind> {
        let Self::Trailers(scan) = self else { return Ok(Decoded { consumed: 0, event: Event::NeedMore }) };
        let bounds = SectionLimits {
            block: limits.trailer_block,
            fields: limits.trailer_fields,
            block_fault: FaultKind::TrailersTooLarge,
            fields_fault: FaultKind::TooManyTrailers,
            bare_lf: false,
        };
        let Some(end) = scan.block_end(input, 0, &bounds)? else {
            return Ok(Decoded { consumed: 0, event: Event::NeedMore });
        };
        let has_lines = !scan.is_empty();
        *self = Self::Done;
        if has_lines {
            read_trailers(input.get(..end).unwrap_or_default(), trailers)?;
            if !trailers.is_empty() {
                return Ok(Decoded { consumed: end, event: Event::Trailers });
            }
        }
        Ok(Decoded { consumed: end, event: Event::End })
    }
}

/// Parses the section, and keeps only the names that trailers may have: a trailer that frames, routes or authenticates never changes a decision
/// made on the head (RFC 9110 §6.5.1).
fn read_trailers(block: &[u8], trailers: &mut Fields) -> Result<(), FaultKind> {
    trailers.clear();
    let mut all = Fields::new();
    field_lines::parse(block, &mut all, Syntax::Strict)?;
    for (name, value) in all.iter().filter(|(name, _)| trailer_allowed(name)) {
        trailers.push(name, value);
    }
    Ok(())
}

fn data(start: usize, end: usize) -> Decoded {
    let event = if start == end { Event::NeedMore } else { Event::Data { start, end } };
    Decoded { consumed: end, event }
}
