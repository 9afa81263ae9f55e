//! The conversation of client and app on one WebSocket, drawn from a seed.

use std::time::Duration;

use keepwarm_net::simulation::Rng;

use crate::response::Pace;
use crate::sizes::near_boundary;

/// One WebSocket: what its client does, and what the app.
#[derive(Debug, Clone)]
pub(crate) struct ConversationPlan {
    pub(crate) client: ClientPlan,
    pub(crate) app: AppPlan,
    pub(crate) closer: Closer,
    /// The closer waits until it has all messages of the other side; otherwise it closes after its own last one.
    pub(crate) polite: bool,
}

/// The side that begins the closing handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closer {
    Client,
    App,
    Both,
}

#[derive(Debug, Clone)]
pub(crate) struct MessagePlan {
    pub(crate) text: bool,
    pub(crate) size: usize,
    /// Bytes of a frame, at most.
    pub(crate) piece: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) start: Duration,
    /// Sends its first frames right after the opening, before it is accepted.
    pub(crate) eager: bool,
    /// Bytes in one write, at most.
    pub(crate) write: usize,
    /// After this many bytes...
    pub(crate) every: usize,
    /// ...it pauses this long.
    pub(crate) pause: Duration,
    pub(crate) reads: ReadMode,
    pub(crate) pace: Pace,
    pub(crate) messages: Vec<MessagePlan>,
    /// Before how many of a thousand frames there is a ping, and its bytes.
    pub(crate) pings: (u32, usize),
    /// Pings after the last message.
    pub(crate) flood: usize,
    pub(crate) code: Option<u16>,
    pub(crate) end: ClientEnd,
    pub(crate) offer: Offer,
    /// How many of a thousand messages are compressed where that was negotiated.
    pub(crate) compressed: u32,
}

/// A client's offer of permessage-deflate (RFC 7692 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    None,
    Plain,
    /// As browsers and Python's clients do.
    Window,
    SmallWindows,
    NoTakeover,
    /// The first of two cannot be met.
    Second,
    /// Not valid: declined.
    Invalid,
}

impl Offer {
    const ALL: [Self; 7] = [
        Self::None,
        Self::Plain,
        Self::Window,
        Self::SmallWindows,
        Self::NoTakeover,
        Self::Second,
        Self::Invalid,
    ];

    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Plain => "Sec-WebSocket-Extensions: permessage-deflate\r\n",
            Self::Window => "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
            Self::SmallWindows => {
                "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=9; server_max_window_bits=9\r\n"
            }
            Self::NoTakeover => {
                "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
            }
            Self::Second => {
                "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=8, permessage-deflate; client_no_context_takeover\r\n"
            }
            Self::Invalid => "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=99\r\n",
        }
    }

    /// Whether it is accepted.
    pub(crate) fn is_good(self) -> bool {
        !matches!(self, Self::None | Self::Invalid)
    }

    pub(crate) fn limits_window(self) -> bool {
        matches!(self, Self::Window | Self::SmallWindows)
    }

    /// No context takeover, and the largest window, of what the server sends.
    pub(crate) fn wants_of_server(self) -> (bool, u8) {
        (self == Self::NoTakeover, if self == Self::SmallWindows { 9 } else { 15 })
    }
}

/// When a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    Beside,
    /// When it has sent all of its messages.
    AfterSending,
    /// After this long.
    Later(Duration),
    Never,
}

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// By the closing handshake.
    CloseHandshake,
    /// After this many bytes.
    Resets(usize),
    Drops(usize),
    /// It shuts its writing side after its last message, without a close frame.
    HalfCloses,
    /// It breaks the protocol after its last message.
    Breaks(Violation),
}

/// A violation that a client commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Violation {
    Unmasked,
    Reserved,
    ReservedOnPing,
    NotDeflate,
    Bomb,
    Opcode,
    NotUtf8,
    LongPing,
    Continuation,
    TooLong,
    OneByteClose,
}

impl Violation {
    pub(crate) const ALL: [Self; 11] = [
        Self::Unmasked,
        Self::Reserved,
        Self::ReservedOnPing,
        Self::NotDeflate,
        Self::Bomb,
        Self::Opcode,
        Self::NotUtf8,
        Self::LongPing,
        Self::Continuation,
        Self::TooLong,
        Self::OneByteClose,
    ];

    /// The server's close code (RFC 6455 §7.4.1), where compression was negotiated or not.
    pub(crate) fn code(self, deflate: bool) -> u16 {
        match self {
            Self::NotDeflate | Self::Bomb if !deflate => 1002,
            Self::NotUtf8 | Self::NotDeflate => 1007,
            Self::TooLong | Self::Bomb => 1009,
            _ => 1002,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AppPlan {
    pub(crate) delay: Duration,
    /// Refuses with this status.
    pub(crate) refuses: Option<u16>,
    pub(crate) messages: Vec<MessagePlan>,
    /// Before each message.
    pub(crate) pause: Duration,
    /// Reads nothing, and so gives no credit, for this long.
    pub(crate) hold: Duration,
    /// After each frame that it reads.
    pub(crate) rest: Duration,
    pub(crate) code: u16,
    pub(crate) fault: AppFault,
}

/// The app's fault, after this many of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppFault {
    None,
    Refuses,
    Resets(usize),
    Dies(usize),
    /// Neither sends, nor reads, nor replies to a close.
    Hangs(usize),
    /// Closes with a code that may not be sent.
    BadCode,
}

/// Largest message of a client; one more byte is too long.
pub(crate) const LONGEST: usize = 1 << 20;

/// All messages of one side: a few of any size, or many small ones.
fn messages(rng: &mut Rng, most: usize) -> Vec<MessagePlan> {
    if rng.chance(80) {
        let (count, size) = (rng.size(2500.min(most)), *rng.pick(&[0, 0, 1, 5]));
        return (0..count).map(|_| MessagePlan { text: true, size, piece: usize::MAX }).collect();
    }
    let mut left = most;
    let count = rng.size(8);
    let draw = |_| {
        let size = near_boundary(rng, left);
        left -= size;
        let piece = match rng.chance(500) {
            true => usize::MAX,
            false => (1 + rng.size(size)).max(size / 100),
        };
        MessagePlan { text: rng.chance(500), size, piece }
    };
    (0..count).map(draw).collect()
}

fn bytes(messages: &[MessagePlan]) -> usize {
    messages.iter().map(|message| message.size + 14).sum()
}

impl ConversationPlan {
    pub(crate) fn draw(rng: &mut Rng, clean: bool, most: usize) -> Self {
        let (up, down) = (messages(rng, most), messages(rng, most));
        let closer = *rng.pick(&[Closer::Client, Closer::App, Closer::Both]);
        let mut client = ClientPlan::draw(rng, clean, up, bytes(&down));
        let app = AppPlan::draw(rng, clean, down);
        if client.reads == ReadMode::Never && matches!(client.end, ClientEnd::Breaks(_)) {
            client.end = ClientEnd::CloseHandshake;
        }
        let mut conversation = Self { client, app, closer, polite: rng.chance(700) };
        if rng.chance(40) {
            conversation.flood_with_pings(most);
        }
        conversation
    }

    /// The app sends a message that the pipe does not hold, and more after it; the client only listens, and not at once.
    pub(crate) fn send_bulk(&mut self, rng: &mut Rng) {
        let Self { client, app, closer, .. } = self;
        let size = rng.between(384 << 10, 640 << 10);
        app.messages = vec![MessagePlan { text: false, size, piece: usize::MAX }];
        app.messages.extend((0..1 + rng.below(3)).map(|_| MessagePlan {
            text: true,
            size: rng.size(2000),
            piece: usize::MAX,
        }));
        (app.refuses, app.pause) = (None, Duration::ZERO);
        client.messages.clear();
        (client.pings, client.flood, client.end) = ((0, 0), 0, ClientEnd::CloseHandshake);
        client.reads = ReadMode::Later(Duration::from_millis(*rng.pick(&[10, 500, 3000])));
        client.pace = Pace::FAST;
        *closer = Closer::App;
    }

    /// The client pings and pings, and never reads a pong.
    fn flood_with_pings(&mut self, most: usize) {
        let Self { client, app, .. } = self;
        client.messages.truncate(2);
        app.messages.truncate(2);
        for message in client.messages.iter_mut().chain(&mut app.messages) {
            message.size = message.size.min(1000);
        }
        (client.reads, client.end) = (ReadMode::Never, ClientEnd::CloseHandshake);
        (client.write, client.every) = (usize::MAX, usize::MAX);
        client.pings.1 = 125;
        client.flood = most * 4 / 131;
        app.refuses = None;
    }

    /// Whether the client is to have all messages in the end.
    pub(crate) fn whole_towards_client(&self) -> bool {
        match self.closer {
            Closer::Client => self.polite,
            Closer::App => true,
            Closer::Both => false,
        }
    }

    /// Whether the app is.
    pub(crate) fn whole_towards_app(&self) -> bool {
        match self.closer {
            Closer::Client => true,
            Closer::App => self.polite,
            Closer::Both => false,
        }
    }
}

impl ClientPlan {
    fn draw(rng: &mut Rng, clean: bool, messages: Vec<MessagePlan>, down: usize) -> Self {
        // With the opening, and the response to it.
        let (up, down) = (bytes(&messages) + 400, down + 300);
        let end = match rng.below(if clean { 16 } else { 8 }) {
            0 => ClientEnd::Resets(rng.below(up)),
            1 => ClientEnd::Drops(rng.below(up)),
            2 => ClientEnd::HalfCloses,
            3 => ClientEnd::Breaks(*rng.pick(&Violation::ALL)),
            _ => ClientEnd::CloseHandshake,
        };
        let reads = match rng.below(10) {
            0 => ReadMode::Never,
            1 | 2 => ReadMode::AfterSending,
            3 | 4 => ReadMode::Later(Duration::from_millis(*rng.pick(&[10, 500, 3000, 7000]))),
            _ => ReadMode::Beside,
        };
        let size = *rng.pick(&[0, 1, 125]);
        let pings = match reads {
            // A client that pings and does not read must not wait until all is sent: pongs need room.
            ReadMode::AfterSending => (if messages.len() < 20 { 200 } else { 0 }, size.min(4)),
            _ => (*rng.pick(&[0, 0, 100, 500]), size),
        };
        let flood = match reads {
            ReadMode::AfterSending => 0,
            _ => *rng.pick(&[0, 0, 0, 1, 30]),
        };
        let frames: usize = messages.iter().map(|message| 1 + message.size / message.piece).sum();
        let pongs = (frames * pings.0 as usize / 1000 + flood) * (pings.1 + 2);
        Self {
            start: Duration::from_millis(rng.size(100) as u64),
            eager: rng.chance(200),
            write: (1 + rng.size(up)).max(up / 300),
            every: (up / (1 + rng.below(8))).max(1),
            pause: Duration::from_millis(*rng.pick(&[0, 0, 1, 100])),
            reads,
            pace: Pace::draw(rng, down + 2 * pongs),
            messages,
            pings,
            flood,
            code: *rng.pick(&[None, Some(1000), Some(1001), Some(4321)]),
            end,
            offer: *rng.pick(&Offer::ALL),
            compressed: *rng.pick(&[1000, 1000, 500]),
        }
    }
}

impl AppPlan {
    fn draw(rng: &mut Rng, clean: bool, messages: Vec<MessagePlan>) -> Self {
        let at = rng.size(messages.len());
        let fault = match rng.below(if clean { 1 } else { 16 }) {
            1 => AppFault::Refuses,
            2 => AppFault::Resets(at),
            3 => AppFault::Dies(at),
            4 => AppFault::Hangs(at),
            5 => AppFault::BadCode,
            _ => AppFault::None,
        };
        let pause = if messages.len() < 20 { *rng.pick(&[0, 0, 0, 1, 50]) } else { 0 };
        Self {
            delay: Duration::from_millis(*rng.pick(&[0, 0, 1, 10, 200])),
            refuses: rng.chance(50).then(|| *rng.pick(&[403, 401, 404])),
            messages,
            pause: Duration::from_millis(pause),
            hold: Duration::from_millis(*rng.pick(&[0, 0, 0, 0, 10, 2500])),
            rest: Duration::from_millis(*rng.pick(&[0, 0, 0, 1])),
            code: *rng.pick(&[1000, 1001, 1011, 3999]),
            fault,
        }
    }
}
