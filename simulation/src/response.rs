//! Reads responses of HTTP/1.1 as strictly as they can be read. Shares no code with Keepwarm.

use std::io;
use std::time::Duration;

use keepwarm_net::simulation::Rng;

use crate::line::Line;

/// How a script reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Bytes at a time.
    pub(crate) piece: usize,
    /// After this many bytes...
    pub(crate) every: usize,
    /// ...it pauses this long.
    pub(crate) pause: Duration,
}

impl Pace {
    /// As fast as it comes.
    pub(crate) const FAST: Self = Self { piece: usize::MAX, every: usize::MAX, pause: Duration::ZERO };

    /// `false`: it was so.
    pub(crate) fn becomes_fast(&mut self) -> bool {
        std::mem::replace(self, Self::FAST).piece < usize::MAX
    }

    /// Any, for about this many bytes: all pauses together stay below a second.
    pub(crate) fn draw(rng: &mut Rng, bytes: usize) -> Self {
        if rng.chance(400) {
            return Self::FAST;
        }
        let pauses = 1 + rng.below(8);
        Self {
            piece: 1 + rng.size(bytes.max(64)).max(bytes / 256),
            every: (bytes / pauses).max(1),
            pause: Duration::from_millis(rng.below(100) as u64),
        }
    }
}

/// A peer's bytes, read at a pace.
pub(crate) struct Reader<'p> {
    peer: &'p dyn Line,
    pace: Pace,
    buffer: Vec<u8>,
    since_pause: usize,
}

/// Why a message is not whole.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Nobody listened.
    Unreached,
    /// The connection ended between messages: the response before announced it.
    Announced,
    /// It ended while nothing of the next request had arrived.
    Idle,
    /// It ended in place of the next message.
    Ended,
    /// The connection ended, or was reset, inside of one.
    Cut(#[expect(dead_code, reason = "read by Debug alone")] &'static str),
    /// This is not a response.
    Wrong(String),
}

/// A response without its body.
#[derive(Debug, Default, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// Whether the connection ends with it.
    pub(crate) fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// A request without its body.
#[derive(Debug, Default, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) is_head: bool,
    pub(crate) expects: bool,
    pub(crate) upgrades: bool,
    pub(crate) head: Head,
}

impl Request {
    pub(crate) fn has_body(&self) -> bool {
        self.head.field("transfer-encoding").is_some()
            || self.head.field("content-length").is_some_and(|length| length != "0")
    }
}

/// How its body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl<'p> Reader<'p> {
    pub(crate) fn new(peer: &'p dyn Line, pace: Pace) -> Self {
        Self { peer, pace, buffer: Vec::new(), since_pause: 0 }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        if self.since_pause >= self.pace.every {
            self.since_pause = 0;
            tokio::time::sleep(self.pace.pause).await;
        }
        let got = self.peer.read(&mut self.buffer, self.pace.piece).await?;
        self.since_pause += got;
        Ok(got)
    }

    async fn need_more(&mut self, of: &'static str) -> Result<(), Broken> {
        match self.fill().await {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(Broken::Cut(of)),
        }
    }

    /// The next head, informational ones included.
    pub(crate) async fn head(&mut self) -> Result<Head, Broken> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|at| at == b"\r\n\r\n") {
                let rest = self.buffer.split_off(end + 4);
                let head = std::mem::replace(&mut self.buffer, rest);
                return parse(&head[..end]);
            }
            let nothing = self.buffer.is_empty();
            match self.fill().await {
                Ok(1..) => {}
                Ok(0) | Err(_) if nothing => return Err(Broken::Ended),
                Ok(0) | Err(_) => return Err(Broken::Cut("head")),
            }
        }
    }

    /// The next request's head.
    pub(crate) async fn request(&mut self) -> Result<Request, Broken> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|at| at == b"\r\n\r\n") {
                let rest = self.buffer.split_off(end + 4);
                let head = std::mem::replace(&mut self.buffer, rest);
                return parse_request(&head[..end]);
            }
            let nothing = self.buffer.is_empty();
            match self.fill().await {
                Ok(1..) => {}
                Ok(0) | Err(_) if nothing => return Err(Broken::Ended),
                Ok(0) | Err(_) => return Err(Broken::Cut("head")),
            }
        }
    }

    /// The body after a final head; returns its length. Each piece is shown to `check` with the length before it.
    pub(crate) async fn body(
        &mut self,
        head: &Head,
        bodiless: bool,
        mut check: impl FnMut(usize, &[u8]) -> Result<(), String>,
    ) -> Result<(usize, Vec<(String, String)>), Broken> {
        let mut got = 0;
        match framing(head, bodiless)? {
            Framing::Length(length) => {
                self.exactly(length, &mut got, &mut check, "body").await?;
                Ok((got, Vec::new()))
            }
            Framing::Close => loop {
                let part = std::mem::take(&mut self.buffer);
                check(got, &part).map_err(Broken::Wrong)?;
                got += part.len();
                match self.fill().await {
                    Ok(0) => return Ok((got, Vec::new())),
                    Ok(_) => {}
                    Err(_) => return Err(Broken::Cut("body")),
                }
            },
            Framing::Chunked => loop {
                let line = self.line().await?;
                let size = usize::from_str_radix(&line, 16)
                    .map_err(|_| Broken::Wrong(format!("chunk size {line:?}")))?;
                if size == 0 {
                    let mut trailers = Vec::new();
                    loop {
                        let line = self.line().await?;
                        if line.is_empty() {
                            return Ok((got, trailers));
                        }
                        trailers.push(split(&line)?);
                    }
                }
                self.exactly(size, &mut got, &mut check, "chunk").await?;
                if !self.line().await?.is_empty() {
                    return Err(Broken::Wrong("a chunk that is longer than it says".to_owned()));
                }
            },
        }
    }

    pub(crate) async fn exactly(
        &mut self,
        count: usize,
        got: &mut usize,
        check: &mut impl FnMut(usize, &[u8]) -> Result<(), String>,
        of: &'static str,
    ) -> Result<(), Broken> {
        let mut left = count;
        while left > 0 {
            if self.buffer.is_empty() {
                self.need_more(of).await?;
            }
            let take = left.min(self.buffer.len());
            let part: Vec<u8> = self.buffer.drain(..take).collect();
            check(*got, &part).map_err(Broken::Wrong)?;
            *got += take;
            left -= take;
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<String, Broken> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|at| at == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).take(end).collect();
                return String::from_utf8(line)
                    .map_err(|_| Broken::Wrong("a line that is no text".to_owned()));
            }
            self.need_more("line").await?;
        }
    }

    /// Takes `count` bytes.
    pub(crate) async fn take(&mut self, count: usize, of: &'static str) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::with_capacity(count);
        let mut collect = |_: usize, part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        self.exactly(count, &mut 0, &mut collect, of).await?;
        Ok(bytes)
    }

    /// Whether anything follows; `false`: the connection has ended, or was reset.
    pub(crate) async fn has_more(&mut self) -> bool {
        !self.buffer.is_empty() || matches!(self.fill().await, Ok(1..))
    }

    /// Waits for the end; anything else is wrong.
    pub(crate) async fn end(&mut self) -> Result<(), Broken> {
        loop {
            if !self.buffer.is_empty() {
                return Err(Broken::Wrong(format!("{} bytes behind the last response", self.buffer.len())));
            }
            match self.fill().await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    /// Bytes received that were not requested.
    pub(crate) fn left(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

fn parse(head: &[u8]) -> Result<Head, Broken> {
    let text = std::str::from_utf8(head).map_err(|_| Broken::Wrong("a head that is no text".to_owned()))?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| Broken::Wrong(format!("status line {first:?}")))?;
    let fields = lines.map(split).collect::<Result<_, _>>()?;
    Ok(Head { status, fields })
}

fn parse_request(head: &[u8]) -> Result<Request, Broken> {
    let text = std::str::from_utf8(head).map_err(|_| Broken::Wrong("a head that is no text".to_owned()))?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let fields: Vec<(String, String)> = lines.map(split).collect::<Result<_, _>>()?;
    let mut head = Head { status: 200, fields };
    let expects = head.field("expect").is_some();
    let upgrades = head.field("upgrade").is_some();
    if head.field("transfer-encoding").is_none() && head.field("content-length").is_none() {
        // No body, by the requests' rules.
        head.fields.push(("content-length".to_owned(), "0".to_owned()));
    }
    Ok(Request { path: path.to_owned(), is_head: method == "HEAD", expects, upgrades, head })
}

fn split(line: &str) -> Result<(String, String), Broken> {
    let (name, value) = line
        .split_once(": ")
        .or_else(|| line.split_once(':'))
        .ok_or_else(|| Broken::Wrong(format!("field {line:?}")))?;
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

fn framing(head: &Head, bodiless: bool) -> Result<Framing, Broken> {
    let length = head.field("content-length");
    let chunked = head.field("transfer-encoding");
    if bodiless || matches!(head.status, 100..=199 | 204 | 304) {
        return Ok(Framing::Length(0));
    }
    match (length, chunked) {
        (Some(_), Some(_)) => Err(Broken::Wrong("both framings".to_owned())),
        (Some(length), None) => {
            length.parse().map(Framing::Length).map_err(|_| Broken::Wrong(format!("length {length:?}")))
        }
        (None, Some("chunked")) => Ok(Framing::Chunked),
        (None, Some(other)) => Err(Broken::Wrong(format!("transfer coding {other:?}"))),
        (None, None) => Ok(Framing::Close),
    }
}
