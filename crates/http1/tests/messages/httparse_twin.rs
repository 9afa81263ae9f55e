//! A widely used tokeniser reads the messages that ours accepted, and finds the same names and values. (Where the two differ, ours is the stricter.)

#![expect(clippy::indexing_slicing, reason = "of our own bytes, within bounds the generator was given")]

use keepwarm_http1::{Event, Limits, RequestDecoder, RequestHead};

#[test]
fn httparse_agrees_on_accepted_messages() {
    let mut accepted = 0;
    for seed in 0..20_000 {
        let bytes = mutated(seed);
        let mut head = RequestHead::default();
        let decoded = RequestDecoder::new(Limits::default()).decode(&bytes, &mut head);
        let Ok(decoded) = decoded else { continue };
        if decoded.event != Event::Head {
            continue;
        }
        accepted += 1;
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut twin = httparse::Request::new(&mut fields);
        let end = match twin.parse(&bytes) {
            Ok(end) => end,
            // It knows only 1.0 and 1.1.
            Err(httparse::Error::Version) => continue,
            // Its targets are text.
            Err(httparse::Error::Token) if str::from_utf8(head.target()).is_err() => continue,
            Err(error) => panic!("{error}, seed {seed}: {}", bytes.escape_ascii()),
        };
        assert_eq!(end, httparse::Status::Complete(decoded.consumed), "seed {seed}");
        assert_eq!(twin.method, Some(head.method.as_str()), "seed {seed}");
        assert_eq!(twin.path.map(str::as_bytes), Some(head.target()), "seed {seed}");
        let theirs = twin.headers.iter().map(|field| (field.name.to_ascii_lowercase(), field.value));
        let ours =
            head.fields.iter().map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value));
        assert!(ours.eq(theirs), "seed {seed}: {}", bytes.escape_ascii());
    }
    assert!(accepted > 2_000, "only {accepted} were accepted: the twins hardly met");
}

const START: &[u8] =
    b"GET /a/b?c=d HTTP/1.1\r\nHost: example.org\r\nX-One: 1\r\nAccept: text/html, */*;q=0.1\r\nX-Empty:\r\nCookie: a=b; c=d\r\n\r\n";

/// A good request with one to three bytes changed, from a seed.
fn mutated(seed: u64) -> Vec<u8> {
    const PIECES: &[u8] = b" \t\r\n:;,\"/?%\\\0\x7f\x80\xffA0";
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bytes = START.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() - 1);
        let piece = PIECES[random.below(PIECES.len())];
        match random.below(3) {
            0 => bytes[at] = piece,
            1 => bytes.insert(at, piece),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

/// xorshift64
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
