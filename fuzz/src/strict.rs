//! A second reader of HTTP/1.1, written from the ABNF of RFC 9112 and RFC 9110 alone: one function a rule, the whole message in hand, no thought of
//! speed. It shares no code with `keepwarm-http1`, which is its point.
//!
//! Where the RFC leaves a choice it takes the strict one, except for what `spec/http.md` says we take: one empty line before a request, and a length
//! that is repeated. It does not judge targets (a blank ends them) or hosts: they move no boundary.

/// How a reader delimits one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Offset behind its last byte.
    pub end: usize,
    /// Its content, decoded.
    pub body: Vec<u8>,
    /// Its field lines, names in lower case.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why there is no message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// More bytes could make one.
    Incomplete,
    /// No bytes could.
    Malformed,
}

type ParseResult<T> = Result<T, ParseError>;

/// The message that begins at `start`.
pub fn request(bytes: &[u8], start: usize) -> ParseResult<Message> {
    let mut text = Text { bytes, at: start };
    if text.rest().starts_with(b"\r\n") {
        text.crlf()?;
    }
    // request-line = method SP request-target SP HTTP-version
    text.token()?;
    text.literal(b" ")?;
    text.one_or_more(|b| b > 0x20 && b != 0x7f)?;
    text.literal(b" ")?;
    let minor = text.http_version()?;
    text.crlf()?;
    let fields = text.field_lines()?;
    let framing = framing(&fields, minor)?;
    let body = match framing {
        Framing::Chunked => text.chunked_body()?,
        Framing::Length(length) => text.octets(length)?,
        Framing::Neither => Vec::new(),
    };
    Ok(Message { end: text.at, body, fields })
}

/// The response that begins at `start`; `bodiless` when the request or its status allow none. Without framing it goes on to the end of the bytes.
pub fn response(bytes: &[u8], start: usize, bodiless: impl Fn(u16) -> bool) -> ParseResult<(u16, Message)> {
    let mut text = Text { bytes, at: start };
    // status-line = HTTP-version SP status-code SP [ reason-phrase ]
    let minor = text.http_version()?;
    text.literal(b" ")?;
    let mut status = 0;
    for _ in 0..3 {
        status = status * 10 + u16::from(text.when(|b| b.is_ascii_digit())? - b'0');
    }
    text.literal(b" ")?;
    while text.when(|b| b == b'\t' || b == b' ' || b > 0x20 && b != 0x7f).is_ok() {}
    text.crlf()?;
    let fields = text.field_lines()?;
    let informational = (100..200).contains(&status);
    let framing = if informational { Framing::Neither } else { framing(&fields, minor)? };
    let body = match framing {
        _ if informational || bodiless(status) => Vec::new(),
        Framing::Chunked => text.chunked_body()?,
        Framing::Length(length) => text.octets(length)?,
        Framing::Neither => text.octets(text.rest().len() as u128)?,
    };
    Ok((status, Message { end: text.at, body, fields }))
}

enum Framing {
    Chunked,
    Length(u128),
    Neither,
}

/// RFC 9112 §6.3, the strict way at each step.
fn framing(fields: &[(Vec<u8>, Vec<u8>)], minor: u8) -> ParseResult<Framing> {
    let all = |wanted: &[u8]| -> Vec<Vec<u8>> {
        fields.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.clone()).collect()
    };
    let (codings, lengths) = (all(b"transfer-encoding"), all(b"content-length"));
    match (codings.as_slice(), lengths.as_slice()) {
        ([], []) => Ok(Framing::Neither),
        ([], lengths) => {
            let joined = lengths.join(&b',');
            let text = std::str::from_utf8(&joined).map_err(|_| ParseError::Malformed)?;
            let mut members = text.split(',').map(|member| member.trim_matches([' ', '\t']));
            let first = members.next().unwrap_or_default();
            let digits = !first.is_empty() && first.len() <= 19 && first.bytes().all(|b| b.is_ascii_digit());
            if !digits || members.any(|other| other != first) {
                return Err(ParseError::Malformed);
            }
            first.parse().map(Framing::Length).map_err(|_| ParseError::Malformed)
        }
        (codings, []) if minor > 0 => {
            // We know one coding, so that one member is all there can be; empty ones count for nothing (RFC 9110 §5.6.1.2).
            let joined = codings.join(&b',').to_ascii_lowercase();
            let mut members =
                joined.split(|&b| b == b',').map(|member| member.trim_ascii()).filter(|m| !m.is_empty());
            match (members.next(), members.next()) {
                (Some(b"chunked"), None) => Ok(Framing::Chunked),
                _ => Err(ParseError::Malformed),
            }
        }
        _ => Err(ParseError::Malformed),
    }
}

struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Text<'_> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn peek(&self) -> ParseResult<u8> {
        self.rest().first().copied().ok_or(ParseError::Incomplete)
    }

    fn when(&mut self, wanted: impl Fn(u8) -> bool) -> ParseResult<u8> {
        let byte = self.peek()?;
        if !wanted(byte) {
            return Err(ParseError::Malformed);
        }
        self.at += 1;
        Ok(byte)
    }

    fn literal(&mut self, text: &[u8]) -> ParseResult<()> {
        text.iter().try_for_each(|&wanted| self.when(|b| b == wanted).map(drop))
    }

    fn one_or_more(&mut self, wanted: impl Fn(u8) -> bool) -> ParseResult<Vec<u8>> {
        let mut found = vec![self.when(&wanted)?];
        while let Ok(byte) = self.when(&wanted) {
            found.push(byte);
        }
        Ok(found)
    }

    fn crlf(&mut self) -> ParseResult<()> {
        self.literal(b"\r\n")
    }

    /// token = 1*tchar
    fn token(&mut self) -> ParseResult<Vec<u8>> {
        self.one_or_more(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    }

    /// HTTP-version = HTTP-name "/" DIGIT "." DIGIT
    fn http_version(&mut self) -> ParseResult<u8> {
        self.literal(b"HTTP/1.")?;
        Ok(self.when(|b| b.is_ascii_digit())? - b'0')
    }

    fn blanks(&mut self) {
        while self.when(|b| b == b' ' || b == b'\t').is_ok() {}
    }

    /// *( field-line CRLF ) CRLF, where field-line = field-name ":" OWS field-value OWS
    fn field_lines(&mut self) -> ParseResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut fields = Vec::new();
        while self.peek()? != b'\r' {
            let name = self.token()?.to_ascii_lowercase();
            self.literal(b":")?;
            let mut value = Vec::new();
            while let Ok(byte) = self.when(|b| b == b'\t' || b == b' ' || b > 0x20 && b != 0x7f) {
                value.push(byte);
            }
            self.crlf()?;
            let blank = |b: &u8| *b == b' ' || *b == b'\t';
            let start = value.iter().take_while(|b| blank(b)).count();
            let end = value.len() - value.iter().rev().take_while(|b| blank(b)).count();
            fields.push((name, if start < end { value[start..end].to_vec() } else { Vec::new() }));
        }
        self.crlf()?;
        Ok(fields)
    }

    fn octets(&mut self, count: u128) -> ParseResult<Vec<u8>> {
        if (self.rest().len() as u128) < count {
            return Err(ParseError::Incomplete);
        }
        let found = self.rest()[..count as usize].to_vec();
        self.at += found.len();
        Ok(found)
    }

    /// chunked-body = *chunk last-chunk trailer-section CRLF
    fn chunked_body(&mut self) -> ParseResult<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let digits = self.one_or_more(|b| b.is_ascii_hexdigit())?;
            let text = String::from_utf8_lossy(&digits).into_owned();
            let size = u128::from_str_radix(&text, 16).map_err(|_| ParseError::Malformed)?;
            if size > u64::MAX.into() {
                return Err(ParseError::Malformed);
            }
            self.chunk_extensions()?;
            self.crlf()?;
            if size == 0 {
                self.field_lines()?;
                return Ok(body);
            }
            body.extend(self.octets(size)?);
            self.crlf()?;
        }
    }

    /// chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
    fn chunk_extensions(&mut self) -> ParseResult<()> {
        while self.peek()? != b'\r' {
            self.blanks();
            self.literal(b";")?;
            self.blanks();
            self.token()?;
            let name_end = self.at;
            self.blanks();
            if self.peek()? != b'=' {
                self.at = name_end;
                continue;
            }
            self.literal(b"=")?;
            self.blanks();
            if self.peek()? == b'"' { self.quoted_string()? } else { drop(self.token()?) }
        }
        Ok(())
    }

    /// quoted-string = DQUOTE *( qdtext / quoted-pair ) DQUOTE
    fn quoted_string(&mut self) -> ParseResult<()> {
        self.literal(b"\"")?;
        loop {
            match self.when(|b| b == b'\t' || b >= 0x20 && b != 0x7f)? {
                b'"' => return Ok(()),
                b'\\' => drop(self.when(|b| b == b'\t' || b >= 0x20 && b != 0x7f)?),
                _ => {}
            }
        }
    }
}
