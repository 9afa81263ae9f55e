//! W3C Trace Context, level 2 (<https://www.w3.org/TR/trace-context-2/>): the trace of a request, parsed from `traceparent` and written for the next hop.

mod random;
mod state;

use crate::RequestId;

pub use random::random;
pub use state::trace_state;

/// `00-` trace id `-` parent id `-` flags: the length of version 00, the version we write.
pub const TRACEPARENT_LEN: usize = 55;
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;
/// The flag of a trace whose id was chosen at random, in its last seven bytes at least (level 2, §3.2.2.5.2).
const RANDOM: u8 = 2;

/// The trace context of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// Its id, in the digits it is written with.
    trace: [u8; 32],
    flags: u8,
    /// The span of the hop before; 0: the trace begins here.
    parent: u64,
}

impl TraceContext {
    /// Parses a `traceparent`. None if it is invalid: then a trace begins here (§4.3).
    #[must_use]
    pub fn parse(field: &[u8]) -> Option<Self> {
        let version = number::<1>(field.get(..2)?)?[0];
        let separators = [2, 35, 52].iter().all(|at| field.get(*at) == Some(&b'-'));
        // Version 00 has this length; a later one may go on, after one more separator (§4.3). 255 is forbidden.
        let whole = match version {
            0 => field.len() == TRACEPARENT_LEN,
            255 => false,
            _ => field.len() == TRACEPARENT_LEN || field.get(TRACEPARENT_LEN) == Some(&b'-'),
        };
        if !separators || !whole {
            return None;
        }
        let trace = id::<32>(field.get(3..35)?)?;
        let parent = u64::from_be_bytes(number(&id::<16>(field.get(36..52)?)?)?);
        let [flags] = number::<1>(field.get(53..55)?)?;
        // Only the flags that this version knows are passed on from a later one.
        Some(Self { trace, flags: flags & (SAMPLED | RANDOM), parent })
    }

    /// The trace that the `traceparent` of a message name. Two name none: they are ambiguous.
    pub fn of_fields<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let first = values.next()?;
        values.next().is_none().then(|| Self::parse(first)).flatten()
    }

    /// A trace that begins with this request, named by its id, and not sampled.
    #[must_use]
    pub fn of(id: RequestId) -> Self {
        Self { trace: id.digits(), flags: 0, parent: 0 }
    }

    /// A trace that begins here, with an id chosen at random. It is not sampled.
    #[must_use]
    pub fn begin() -> Self {
        let mut trace = [0; 32];
        // 0 is invalid (§3.2.2.3).
        let (high, low) = (random(), random().max(1));
        let (front, back) = trace.split_at_mut(16);
        write(&high.to_be_bytes(), front);
        write(&low.to_be_bytes(), back);
        Self { trace, flags: RANDOM, parent: 0 }
    }

    /// The same trace, to be recorded or not.
    #[must_use]
    pub fn sampled(self, is_sampled: bool) -> Self {
        Self { flags: self.flags & !SAMPLED | u8::from(is_sampled), ..self }
    }

    /// The value for a call that this request makes; `span`, any number but 0, names the call.
    #[must_use]
    pub fn call(&self, span: u64) -> [u8; TRACEPARENT_LEN] {
        let mut out = *b"00-00000000000000000000000000000000-0000000000000000-00";
        let (head, rest) = out.split_at_mut(35);
        head.iter_mut().skip(3).zip(self.trace).for_each(|(byte, digit)| *byte = digit);
        write(&span.max(1).to_be_bytes(), rest.get_mut(1..17).unwrap_or_default());
        write(&[self.flags], rest.get_mut(18..).unwrap_or_default());
        out
    }

    /// The digits of the trace's id.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 32] {
        self.trace
    }

    /// The bytes of the trace's id.
    #[must_use]
    pub fn trace_bytes(&self) -> [u8; 16] {
        number(&self.trace).unwrap_or_default()
    }

    /// The span of the hop before; none where the trace begins here.
    #[must_use]
    pub fn parent(&self) -> Option<u64> {
        (self.parent != 0).then_some(self.parent)
    }

    /// Its flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// The digits of an id, which is not 0 (§3.2.2.3, §3.2.2.4).
fn id<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digits: [u8; N] = digits.try_into().ok()?;
    let is_number = digits.iter().all(|byte| digit(*byte).is_some());
    (is_number && digits != [b'0'; N]).then_some(digits)
}

/// `N` bytes in lower-case hexadecimal digits; capitals are forbidden (§3.2.2.3).
fn number<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn write(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_call_inherits_trace_and_flags_and_has_its_own_span() {
        let context = TraceContext::parse(EXAMPLE).unwrap();
        let call = context.call(0x0102_0304_0506_0708);
        assert_eq!(&call, b"00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01");
        assert!(context.is_sampled());
        assert_eq!(&context.trace_id(), b"4bf92f3577b34da6a3ce929d0e0e4736");
        let id = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128;
        assert_eq!(
            (context.trace_bytes(), context.parent()),
            (id.to_be_bytes(), Some(0x00f0_67aa_0ba9_02b7))
        );
    }

    #[test]
    fn the_flag_of_a_random_id_is_passed_on() {
        for (flags, passed) in [("00", "00"), ("01", "01"), ("02", "02"), ("03", "03"), ("ff", "03")] {
            let field = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            let call = TraceContext::parse(field.as_bytes()).unwrap().call(1);
            assert!(call.ends_with(passed.as_bytes()), "{flags}: {}", call.escape_ascii());
        }
    }

    #[test]
    fn a_trace_that_is_begun_has_an_id_of_its_own_and_says_that_it_is_random() {
        let (one, other) = (TraceContext::begin(), TraceContext::begin());
        assert_ne!(one.trace_id(), other.trace_id());
        assert_eq!(one.parent(), None);
        assert!(one.call(1).ends_with(b"-02") && one.sampled(true).call(1).ends_with(b"-03"));
        assert!(!one.sampled(true).sampled(false).is_sampled());
    }

    #[test]
    fn a_malformed_traceparent_begins_a_trace() {
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        ] {
            assert_eq!(TraceContext::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn two_traceparents_name_no_trace() {
        assert!(TraceContext::of_fields([].into_iter()).is_none());
        assert!(TraceContext::of_fields([EXAMPLE].into_iter()).is_some());
        assert!(TraceContext::of_fields([EXAMPLE, EXAMPLE].into_iter()).is_none());
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = b"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fd-more";
        let call = TraceContext::parse(later).unwrap().call(1);
        assert_eq!(&call, b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01");
    }

    #[test]
    fn a_trace_that_begins_here_is_named_by_the_request() {
        let id = RequestId::new(7);
        let context = TraceContext::of(id);
        assert_eq!(context.trace_id(), id.digits());
        assert!(!context.is_sampled());
        assert_eq!(context.parent(), None);
        let call = context.call(0);
        assert_eq!(TraceContext::parse(&call).unwrap().trace_id(), id.digits(), "0 would be no name");
    }
}
