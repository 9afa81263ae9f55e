//! Frames of HTTP/2 that a library would not send by itself: heads in pieces, padding, priorities, unknown frames, window updates that come late.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use keepwarm_net::simulation::Rng;
use tokio::time::{Instant, Sleep, sleep_until};

/// Changes to the frames that a library sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FramePlan {
    /// Most frames of a head; the `h2` crate takes six.
    pub(crate) heads: usize,
    /// Heads have padding, and say a priority.
    pub(crate) pads: bool,
    /// Bytes of a body in one frame, at most.
    pub(crate) data: usize,
    /// In this many of a thousand cases a frame without effect comes before another.
    pub(crate) strays: u32,
    /// WINDOW_UPDATE comes this much later.
    pub(crate) late: Duration,
    /// GOAWAY without a reason, after this many heads.
    pub(crate) goaway: Option<usize>,
    /// In this many of a thousand cases a frame against the rules comes before another.
    pub(crate) wrong: u32,
}

impl FramePlan {
    /// As they are.
    pub(crate) const PLAIN: Self = Self {
        heads: 1,
        pads: false,
        data: usize::MAX,
        strays: 0,
        late: Duration::ZERO,
        goaway: None,
        wrong: 0,
    };

    /// `false`: they are.
    pub(crate) fn becomes_plain(&mut self) -> bool {
        std::mem::replace(self, Self::PLAIN) != Self::PLAIN
    }
}

/// The frames of one direction.
pub(crate) struct Frames {
    plan: FramePlan,
    rng: Rng,
    /// Bytes of an incomplete frame; of a client the preface first.
    buffer: Vec<u8>,
    preface: usize,
    late: VecDeque<(Instant, Vec<u8>)>,
    timer: Option<Pin<Box<Sleep>>>,
    heads: usize,
    /// Frames that cause useless work: peers accept a limited number.
    chatter: usize,
    in_head: bool,
    /// For a server: SETTINGS_MAX_CONCURRENT_STREAMS of the next SETTINGS. The library would not change it.
    streams: VecDeque<Option<u32>>,
}

const HEADER: usize = 9;
const PREFACE: usize = 24;
/// Far below what peers take for misuse.
const CHATTER: usize = 20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// One frame.
fn push(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = payload.len() as u32;
    out.extend_from_slice(&length.to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

impl Frames {
    /// For a client, which begins with its preface.
    pub(crate) fn of_client(plan: FramePlan, seed: u64) -> Self {
        Self {
            plan,
            rng: Rng::new(seed),
            buffer: Vec::new(),
            preface: PREFACE,
            late: VecDeque::new(),
            timer: None,
            heads: 0,
            chatter: 0,
            in_head: false,
            streams: VecDeque::new(),
        }
    }

    /// For a server, whose SETTINGS, the first and the next, announce these limits of streams.
    pub(crate) fn of_server(plan: FramePlan, seed: u64, streams: &[Option<u32>]) -> Self {
        let streams = streams.iter().copied().collect();
        Self { preface: 0, streams, ..Self::of_client(plan, seed) }
    }

    /// Takes bytes of the library, and appends those to send instead.
    pub(crate) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let front = self.preface.min(bytes.len());
        self.preface -= front;
        out.extend_from_slice(&bytes[..front]);
        self.buffer.extend_from_slice(&bytes[front..]);
        while self.buffer.len() >= HEADER {
            let length = u32::from_be_bytes([0, self.buffer[0], self.buffer[1], self.buffer[2]]) as usize;
            if self.buffer.len() < HEADER + length {
                return;
            }
            let rest = self.buffer.split_off(HEADER + length);
            let frame = std::mem::replace(&mut self.buffer, rest);
            self.pass(&frame, out);
        }
    }

    /// Appends what was held back for long enough.
    pub(crate) fn poll_late(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) {
        while let Some((at, _)) = self.late.front() {
            if *at > Instant::now() {
                let at = *at;
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
                timer.as_mut().reset(at);
                if timer.as_mut().poll(cx).is_pending() {
                    return;
                }
            }
            // Never inside of a head, nor of a frame: `out` has whole ones.
            out.extend(self.late.pop_front().map(|(_, frame)| frame).unwrap_or_default());
        }
    }

    fn pass(&mut self, frame: &[u8], out: &mut Vec<u8>) {
        let (header, payload) = frame.split_at(HEADER);
        let (kind, flags) = (header[3], header[4]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        if !self.in_head {
            self.stray(kind, stream, out);
        }
        self.in_head = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS == 0;
        match kind {
            HEADERS if flags & (PADDED | HAS_PRIORITY) == 0 => self.head(flags, stream, payload, out),
            DATA if flags & PADDED == 0 => self.data(flags, stream, payload, out),
            SETTINGS if flags & ACK == 0 => {
                let mut payload = payload.to_vec();
                if let Some(most) = self.streams.pop_front().flatten() {
                    payload.extend_from_slice(&MAX_CONCURRENT_STREAMS.to_be_bytes());
                    payload.extend_from_slice(&most.to_be_bytes());
                }
                push(out, SETTINGS, flags, stream, &payload);
            }
            WINDOW_UPDATE if self.plan.late > Duration::ZERO => {
                self.late.push_back((Instant::now() + self.plan.late, frame.to_vec()));
            }
            _ => out.extend_from_slice(frame),
        }
        if kind == HEADERS {
            self.heads += 1;
            if !self.in_head && self.plan.goaway == Some(self.heads) {
                push(out, GOAWAY, 0, 0, &[0; 8]);
            }
        }
    }

    fn head(&mut self, flags: u8, stream: u32, block: &[u8], out: &mut Vec<u8>) {
        let ends = flags & END_HEADERS;
        let pieces = self.rng.between(1, self.plan.heads.max(1));
        let mut cuts: Vec<usize> = (1..pieces).map(|_| self.rng.below(block.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(block.len());
        let mut at = 0;
        for (number, cut) in cuts.iter().enumerate() {
            let part = &block[at..*cut];
            at = *cut;
            let last = if *cut == block.len() && number + 1 == cuts.len() { ends } else { 0 };
            if number > 0 {
                push(out, CONTINUATION, last, stream, part);
                continue;
            }
            let mut payload = Vec::new();
            let mut flags = flags & END_STREAM | last;
            if self.plan.pads {
                let pad = self.rng.below(40) as u8;
                flags |= PADDED | HAS_PRIORITY;
                // No stream depends on it; a weight.
                payload.extend_from_slice(&[pad, 0, 0, 0, 0, 15]);
                payload.extend_from_slice(part);
                payload.resize(payload.len() + usize::from(pad), 0);
            } else {
                payload.extend_from_slice(part);
            }
            push(out, HEADERS, flags, stream, &payload);
        }
    }

    fn data(&self, flags: u8, stream: u32, bytes: &[u8], out: &mut Vec<u8>) {
        let most = self.plan.data.max(bytes.len() / 100).max(1);
        let mut parts = bytes.chunks(most).peekable();
        if parts.peek().is_none() {
            push(out, DATA, flags, stream, &[]);
        }
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { flags } else { flags & !END_STREAM };
            push(out, DATA, flags, stream, part);
        }
    }

    /// Perhaps a frame that means nothing, or one against the rules.
    fn stray(&mut self, kind: u8, stream: u32, out: &mut Vec<u8>) {
        if self.rng.chance(self.plan.wrong) {
            return self.wrong(stream, out);
        }
        if !self.rng.chance(self.plan.strays) {
            return;
        }
        let about = if stream == 0 { 1 } else { stream };
        match self.rng.below(4) {
            0 => push(out, PRIORITY, 0, about, &[0, 0, 0, 0, 7]),
            1 => {
                let payload = vec![0xaa; self.rng.below(60)];
                push(out, 0x20 + self.rng.below(100) as u8, self.rng.below(256) as u8, stream, &payload);
            }
            _ if self.chatter >= CHATTER => {}
            2 => {
                self.chatter += 1;
                push(out, PING, 0, 0, b"keepwarm");
            }
            _ if kind == DATA => {
                self.chatter += 1;
                push(out, DATA, 0, stream, &[]);
            }
            _ => {}
        }
    }

    fn wrong(&mut self, stream: u32, out: &mut Vec<u8>) {
        let flags = self.rng.below(256) as u8;
        let payload: Vec<u8> = (0..self.rng.size(40)).map(|_| self.rng.next() as u8).collect();
        match self.rng.below(8) {
            0 => push(out, DATA, 0, 0, &payload),
            1 => push(out, PRIORITY, flags, stream, &payload),
            2 => push(out, RST_STREAM, flags, stream, &[0, 0, 0, 8]),
            3 => push(out, SETTINGS, 0, stream, &payload),
            4 => push(out, WINDOW_UPDATE, flags, stream, &[0; 4]),
            5 => push(out, WINDOW_UPDATE, flags, stream, &[0x7f, 0xff, 0xff, 0xff]),
            6 => push(out, CONTINUATION, flags, stream, &payload),
            _ => push(out, GOAWAY, flags, 0, &payload),
        }
    }
}
