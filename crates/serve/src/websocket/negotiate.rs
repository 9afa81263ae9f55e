//! The offer of permessage-deflate, and the response to it (RFC 6455 §9.1, RFC 7692 §5 and §7.1).

/// The negotiated parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compression {
    /// Our compression.
    pub(super) ours: Direction,
    /// The client's compression.
    pub(super) theirs: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Direction {
    /// A message may refer back to earlier ones.
    pub(super) takeover: bool,
    /// The window size: two to this power.
    pub(super) bits: u8,
}

/// The preferred window, in both directions: each WebSocket keeps that much memory. Precedent: Python's `websockets`, and so uvicorn.
const BITS: u8 = 12;
const MAX_BITS: u8 = 15;
/// zlib compresses with no smaller window.
const MIN_BITS: u8 = 9;

/// Finds the first offer, in the client's order of preference, that can be met: returns its parameters, and the value of the response's
/// `Sec-WebSocket-Extensions`. An offer that is invalid, or cannot be met, is declined (RFC 7692 §5.1); none can be met if the field is malformed.
pub(crate) fn negotiate<'v>(values: impl Iterator<Item = &'v [u8]>) -> Option<(Compression, String)> {
    let mut met = None;
    for value in values {
        let mut scan = ExtensionParser(value);
        loop {
            let offer = scan.offer()?;
            if met.is_none() {
                met = offer.and_then(|offer| offer.accept());
            }
            if !scan.takes(b',') {
                break;
            }
        }
        if !scan.0.is_empty() {
            return None;
        }
    }
    met
}

/// One valid offer of permessage-deflate.
#[derive(Debug, Default)]
struct Offer {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    /// `Some(None)`: the client can limit its window, without a value.
    client_max_window_bits: Option<Option<u8>>,
}

impl Offer {
    /// `None`: this parameter makes it invalid (§7.1).
    fn with(mut self, name: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let flag = |seen: &mut bool| !std::mem::replace(seen, true) && value.is_none();
        let valid = match name {
            b"server_no_context_takeover" => flag(&mut self.server_no_context_takeover),
            b"client_no_context_takeover" => flag(&mut self.client_no_context_takeover),
            b"server_max_window_bits" => self.server_max_window_bits.replace(window_bits(value?)?).is_none(),
            b"client_max_window_bits" => {
                let bits = match value {
                    Some(value) => Some(window_bits(value)?),
                    None => None,
                };
                self.client_max_window_bits.replace(bits).is_none()
            }
            _ => false,
        };
        valid.then_some(self)
    }

    fn accept(self) -> Option<(Compression, String)> {
        let ours = Direction {
            takeover: !self.server_no_context_takeover,
            bits: self.server_max_window_bits.unwrap_or(MAX_BITS).min(BITS),
        };
        if ours.bits < MIN_BITS {
            return None;
        }
        let theirs = Direction {
            takeover: !self.client_no_context_takeover,
            bits: match self.client_max_window_bits {
                Some(bits) => bits.unwrap_or(MAX_BITS).min(BITS),
                // It would not understand a limit (§7.1.2.2).
                None => MAX_BITS,
            },
        };
        let mut said = String::from("permessage-deflate");
        if !ours.takeover {
            said.push_str("; server_no_context_takeover");
        }
        if !theirs.takeover {
            said.push_str("; client_no_context_takeover");
        }
        said.push_str(&format!("; server_max_window_bits={}", ours.bits));
        if self.client_max_window_bits.is_some() {
            said.push_str(&format!("; client_max_window_bits={}", theirs.bits));
        }
        Some((Compression { ours, theirs }, said))
    }
}

/// 8 to 15, without a leading zero (§7.1.2).
fn window_bits(value: &[u8]) -> Option<u8> {
    match value {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

/// The rest of a field's value.
struct ExtensionParser<'v>(&'v [u8]);

impl<'v> ExtensionParser<'v> {
    /// The next extension. `None`: the field is malformed; `Some(None)`: another extension, or an invalid offer of this one.
    fn offer(&mut self) -> Option<Option<Offer>> {
        self.blanks();
        // Empty list members are ignored (RFC 9110 §5.6.1).
        if self.0.is_empty() || self.0.starts_with(b",") {
            return Some(None);
        }
        let is_ours = self.token()? == b"permessage-deflate";
        let mut offer = is_ours.then(Offer::default);
        while self.takes(b';') {
            self.blanks();
            let name = self.token()?;
            let mut quoted = Vec::new();
            let value = match self.takes(b'=') {
                true => Some(self.value(&mut quoted)?),
                false => None,
            };
            let value = value.map(|value| value.unwrap_or(&quoted));
            offer = offer.and_then(|offer| offer.with(name, value));
        }
        Some(offer)
    }

    fn blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    fn takes(&mut self, wanted: u8) -> bool {
        self.blanks();
        match self.0 {
            [first, rest @ ..] if *first == wanted => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn token(&mut self) -> Option<&'v [u8]> {
        let length = self.0.iter().take_while(|byte| is_tchar(**byte)).count();
        let (token, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    /// A token, or one in quotes, which is put into `quoted` (`Some(None)`).
    fn value(&mut self, quoted: &mut Vec<u8>) -> Option<Option<&'v [u8]>> {
        self.blanks();
        if !self.takes(b'"') {
            return self.token().map(Some);
        }
        loop {
            let (byte, rest) = match self.0 {
                [b'"', rest @ ..] => {
                    self.0 = rest;
                    return (!quoted.is_empty()).then_some(None);
                }
                [b'\\', byte, rest @ ..] | [byte, rest @ ..] => (*byte, rest),
                [] => return None,
            };
            if !is_tchar(byte) {
                return None;
            }
            quoted.push(byte);
            self.0 = rest;
        }
    }
}

fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
