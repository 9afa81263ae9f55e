//! Plans of clients of HTTP/2.

use std::time::Duration;

use keepwarm_net::simulation::{Rng, Settings};

use crate::client::{BodyPlan, RequestPlan};
use crate::frames::FramePlan;
use crate::front;
use crate::http2_client::{ClientPlan, StreamPlan, StreamReset};
use crate::pipe::{Cut, PipePlan};
use crate::response::Pace;
use crate::sizes::near_boundary;
use crate::worker::{self, BodyRead, ResponsePlan};

/// The settings that clients are drawn from.
pub(super) struct Draw {
    pub(super) settings: Settings,
    pub(super) clean: bool,
    pub(super) most: usize,
    pub(super) quick: bool,
    pub(super) may_send_first: bool,
    pub(super) max_body: Option<u64>,
}

impl Draw {
    pub(super) fn client(&self, rng: &mut Rng) -> (ClientPlan, Vec<ResponsePlan>) {
        let many = self.most > 1000 && rng.chance(200);
        let count = 1 + if many { rng.below(40) } else { rng.below(6) };
        let most = self.most / (count / 2).max(1);
        let pairs: Vec<_> = (0..count).map(|_| self.stream(rng, most)).collect();
        let sent: usize = pairs.iter().map(|(stream, _)| 200 + stream.request.body.size()).sum();
        let got: usize = pairs.iter().map(|(_, response)| 200 + response.body).sum();
        let (streams, responses): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let frames = self.frames(rng, &streams);
        // Each window update takes its time. A client that keeps to the rules opens its windows by more than a few bytes: a connection on which hundreds of
        // updates come for a byte each is ended as misuse (CVE-2019-9511).
        let rounds = if self.quick && frames.late.is_zero() { 300 } else { 60 };
        let largest = responses.iter().map(|response| response.body).max().unwrap_or(0);
        let least = if self.clean { 1000 } else { 1 };
        let window =
            |rng: &mut Rng, sizes: &[u32]| (*rng.pick(sizes)).max((largest / rounds) as u32).max(least);
        let (window, becomes) = match rng.chance(150) {
            true => (0, Some(window(rng, &[1, 100, 65_535]))),
            false => (
                window(rng, &[1, 16, 1000, 16_384, 65_535, 1 << 20]),
                rng.chance(100).then(|| window(rng, &[1, 1000, 65_535])),
            ),
        };
        let mut plan = ClientPlan {
            scheme: "http",
            start: Duration::from_millis(rng.size(100) as u64),
            window,
            becomes: becomes.map(|size| (Duration::from_millis(*rng.pick(&[0, 1, 50, 500])), size)),
            connection_window: *rng.pick(&[65_535, 65_535, 1 << 20, 16 << 20]),
            frames,
            pipe: self.pipe(rng, sent, got),
            streams,
        };
        if self.clean && plan.frames.goaway.is_some() {
            // Behind GOAWAY the server waits for the client's end only while that gets something every 2 s.
            plan.pipe.stall = None;
        }
        (plan, responses)
    }

    fn stream(&self, rng: &mut Rng, most: usize) -> (StreamPlan, ResponsePlan) {
        let mut request = front::request(rng, most);
        let response = front::response(rng, self.clean, (&self.settings, most));
        // A short body in one frame, which may come before it is requested.
        let at_once = request.has_body() && rng.chance(200);
        if at_once {
            let size = 1 + rng.below(most.min(1000));
            request.body = BodyPlan::Chunked { size, chunk: size, trailers: 0 };
        }
        let (sent, got) = (request.body.size(), response.body);
        let is_allowed = self.max_body.is_none_or(|most| sent as u64 <= most);
        // A body that is not read, or is refused, is accepted up to the window.
        let is_taken = (is_allowed && response.reads != BodyRead::Never) || sent < 64 * 1024;
        let abandon = rng.chance(if self.clean { 80 } else { 200 }).then(|| {
            let point = match rng.below(3) {
                0 if request.has_body() => StreamReset::Sent(rng.below(sent + 1)),
                1 => StreamReset::Head,
                _ => StreamReset::Received(rng.below(got + 1)),
            };
            (point, rng.chance(500))
        });
        let plan = StreamPlan {
            start: Duration::from_millis(*rng.pick(&[0, 0, 0, 1, 30, 300])),
            writes: if at_once { Pace::FAST } else { Pace::draw(rng, sent) },
            reads: Pace::draw(rng, got),
            sends_first: self.may_send_first && is_taken && rng.chance(300),
            waits: !at_once && rng.chance(600),
            abandon,
            request,
        };
        (plan, response)
    }

    fn frames(&self, rng: &mut Rng, streams: &[StreamPlan]) -> FramePlan {
        if rng.chance(400) {
            return FramePlan::PLAIN;
        }
        let sent: usize = streams.iter().map(|stream| stream.request.body.size()).sum();
        let has_trailers =
            |stream: &StreamPlan| matches!(stream.request.body, BodyPlan::Chunked { trailers: 1.., .. });
        // After the last head: requests under way get a response.
        let at_end = Some(streams.len()).filter(|_| !streams.iter().any(has_trailers));
        let goaway = if self.clean { at_end } else { Some(1 + rng.below(streams.len())) };
        FramePlan {
            heads: *rng.pick(&[1, 2, 5]),
            pads: rng.chance(500),
            // The `h2` crate ends a connection with too many small frames that are still unread.
            data: (*rng.pick(&[1, 100, 4000, usize::MAX])).max(if self.clean { sent / 1000 } else { 1 }),
            strays: *rng.pick(&[0, 100, 500]),
            late: Duration::from_millis(*rng.pick(&[0, 0, 1, 20])),
            goaway: goaway.filter(|_| rng.chance(100)),
            wrong: if !self.clean && rng.chance(200) { 30 } else { 0 },
        }
    }

    fn pipe(&self, rng: &mut Rng, sent: usize, got: usize) -> PipePlan {
        // The middle of the preface, of the first head, of anything.
        let points = [rng.below(26), rng.below(300), rng.below(sent)];
        let cuts = [Cut::Closes, Cut::Resets, Cut::HalfCloses, Cut::Stops];
        let cut = (*rng.pick(&points), cuts[rng.below(if self.clean { 2 } else { 4 })]);
        let longest = if self.clean { 500 } else { 100_000 };
        PipePlan {
            reads: Pace::draw(rng, got),
            writes: Pace::draw(rng, sent),
            cut: rng.chance(if self.clean { 100 } else { 300 }).then_some(cut),
            stall: rng
                .chance(100)
                .then(|| (near_boundary(rng, got), Duration::from_millis(rng.between(1, longest) as u64))),
        }
    }
}

/// The client announces with its only request that no other follows, and takes longer to read the response than the server waits for one that reads nothing.
/// Frames that it sends meanwhile, to make room, must not meet a closed socket.
pub(super) fn part_slowly(rng: &mut Rng, (client, responses): &mut (ClientPlan, Vec<ResponsePlan>)) {
    client.streams.truncate(1);
    responses.truncate(1);
    let (stream, response) = (&mut client.streams[0], &mut responses[0]);
    stream.request =
        RequestPlan { method: "GET", body: BodyPlan::None, expects: false, ..stream.request.clone() };
    (stream.abandon, stream.sends_first, stream.reads) = (None, false, Pace::FAST);
    let body = rng.between(40_000, 60_000);
    *response = ResponsePlan {
        status: 200,
        body,
        frames: response.frames.map(|frames| frames.max(body / 300)),
        fault: worker::Fault::None,
        ..response.clone()
    };
    (client.window, client.becomes, client.connection_window) = (65_535, None, 65_535);
    client.frames = FramePlan { goaway: Some(1), ..FramePlan::PLAIN };
    let (every, pause) = (body / 8, Duration::from_millis(rng.between(300, 1200) as u64));
    client.pipe =
        PipePlan { reads: Pace { piece: every, every, pause }, writes: Pace::FAST, cut: None, stall: None };
}

/// For [`expect_in_a_crowd`].
pub(super) const SMALL_BODY: usize = 64;

/// More clients of an app with one request at a time expect `100 Continue` than it may keep waiting: some send slowly what they may; the bodies of the others, which did
/// not wait and are too large, are here when they are first asked for.
pub(super) fn expect_in_a_crowd(rng: &mut Rng, (client, responses): &mut (ClientPlan, Vec<ResponsePlan>)) {
    for (number, (stream, response)) in client.streams.iter_mut().zip(responses).enumerate() {
        let is_first = number < 2;
        let size = if is_first { 1 + rng.below(SMALL_BODY) } else { rng.between(1, SMALL_BODY * 4) };
        let body = BodyPlan::Chunked { size, chunk: size, trailers: 0 };
        stream.request = RequestPlan { method: "POST", body, expects: true, ..stream.request.clone() };
        (stream.waits, stream.sends_first) = (is_first, false);
        stream.writes = match is_first {
            true => Pace { piece: 1 + size / 4, every: 1 + size / 4, pause: Duration::from_millis(50) },
            false => Pace::FAST,
        };
        if is_first {
            stream.start = Duration::ZERO;
        }
        response.reads = BodyRead::Before;
    }
}
