//! Property: bytes of either side give the same frames and the same fault however they are cut, every frame is
//! written back as exactly the bytes it came from, and nothing panics.

#![no_main]

use keepwarm_wire::WireFault;
use keepwarm_wire::encode::EncodeError;
use keepwarm_wire::frame::{FromWorker, Strings, ToWorker};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first byte says which side sends, the second how the bytes are cut.
    let [side, cut, input @ ..] = data else { return };
    match side & 1 {
        0 => check::<FromWorker<'_>>(input, *cut),
        _ => check::<ToWorker<'_>>(input, *cut),
    }
});

/// A frame of one side.
trait Frame<'a>: Sized {
    fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, WireFault>;
    fn frame_len(input: &[u8]) -> Result<Option<usize>, WireFault>;
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError>;
    fn strings(&self) -> Option<Strings<'a>>;
}

impl<'a> Frame<'a> for FromWorker<'a> {
    fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, WireFault> {
        FromWorker::decode(input)
    }

    fn frame_len(input: &[u8]) -> Result<Option<usize>, WireFault> {
        FromWorker::frame_len(input)
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        FromWorker::encode(self, out)
    }

    fn strings(&self) -> Option<Strings<'a>> {
        match self {
            Self::Hello(hello) => Some(hello.about),
            Self::Response(response) => Some(response.fields),
            Self::Inform { fields, .. } | Self::Trailers { fields, .. } => Some(*fields),
            _ => None,
        }
    }
}

impl<'a> Frame<'a> for ToWorker<'a> {
    fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, WireFault> {
        ToWorker::decode(input)
    }

    fn frame_len(input: &[u8]) -> Result<Option<usize>, WireFault> {
        ToWorker::frame_len(input)
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        ToWorker::encode(self, out)
    }

    fn strings(&self) -> Option<Strings<'a>> {
        match self {
            Self::Welcome(welcome) => Some(welcome.about),
            Self::Request(request) => {
                let fixed = request.fixed();
                // The user is a pair behind the fields.
                let pairs = request.fields().count() + usize::from(request.user().is_some());
                assert_eq!(11 + 2 * pairs, request.strings.len());
                assert_eq!(request.strings.iter().next(), Some(fixed.method));
                Some(request.strings)
            }
            Self::Trailers { fields, .. } => Some(*fields),
            _ => None,
        }
    }
}

fn check<'a, F: Frame<'a>>(input: &'a [u8], cut: u8) {
    let (mut at, mut ends, mut fault) = (0, Vec::new(), None);
    loop {
        match F::decode(&input[at..]) {
            Ok(None) => break,
            Ok(Some((frame, used))) => {
                check_frame(&frame, &input[at..at + used]);
                at += used;
                ends.push(at);
            }
            Err(seen) => {
                fault = Some(seen);
                break;
            }
        }
    }
    check_cut::<F>(input, cut, &ends, fault);
}

fn check_frame<'a, F: Frame<'a>>(frame: &F, bytes: &'a [u8]) {
    assert_eq!(F::frame_len(bytes), Ok(Some(bytes.len())));
    let mut out = Vec::new();
    assert_eq!(frame.encode(&mut out), Ok(()));
    assert_eq!(out, bytes);
    if let Some(strings) = frame.strings() {
        let parts: Vec<_> = strings.iter().collect();
        assert_eq!(parts.len(), strings.len());
        assert!(parts.iter().all(|part| !part.contains(&0)));
        assert_eq!(parts.join(&0), strings.text());
    }
}

/// Gives the input in pieces to a reader that keeps what is not yet a frame.
fn check_cut<'a, F: Frame<'a>>(input: &'a [u8], cut: u8, ends: &[usize], fault: Option<WireFault>) {
    let (mut start, mut here, mut found, mut step) = (0, 0, 0, u32::from(cut) | 1);
    while here < input.len() {
        step = step.wrapping_mul(0x9e37_79b1).rotate_left(7) | 1; // any numbers will do
        here = input.len().min(here + 1 + (step % 23) as usize);
        loop {
            match F::decode(&input[start..here]) {
                Ok(None) => break,
                Ok(Some((_, used))) => {
                    start += used;
                    assert_eq!(ends.get(found), Some(&start), "another frame than in one piece");
                    found += 1;
                }
                Err(seen) => {
                    assert_eq!((found, Some(seen)), (ends.len(), fault), "another fault than in one piece");
                    return;
                }
            }
        }
    }
    assert_eq!((found, None), (ends.len(), fault), "the fault went unseen in pieces");
}
