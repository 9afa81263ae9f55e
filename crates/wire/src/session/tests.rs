//! Cases beyond the transcripts of `spec/vectors`: Keepwarm's own calls.

mod model;

use super::*;
use crate::frame::{Growth, Response, ToWorker, message_cost};

/// 64 KiB: a quarter is 16,384.
const CONFIG: SessionConfig = SessionConfig { stream_credit: 65_536, connection_credit: 131_072 };

fn hello(streams: u32) -> FromWorker<'static> {
    FromWorker::Hello(Hello {
        version: VERSION,
        streams,
        stream_credit: 65_536,
        connection_credit: 131_072,
        about: Strings::default(),
    })
}

fn ready(streams: u32) -> Session {
    let mut session = Session::new(CONFIG);
    assert!(matches!(session.handle_frame(hello(streams)), Ok(SessionEvent::Hello(_))));
    session
}

fn response(stream: u32, status: u16, end: bool) -> FromWorker<'static> {
    FromWorker::Response(Response {
        stream,
        status,
        fields: Strings::default(),
        body: b"",
        end,
        close: false,
    })
}

fn data(stream: u32, bytes: &[u8]) -> FromWorker<'_> {
    FromWorker::Data { stream, bytes, end: false }
}

/// The CREDIT frames in `out`, which is emptied.
fn credits(out: &mut Vec<u8>) -> Vec<(u32, u32)> {
    let bytes = std::mem::take(out);
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while let Some((frame, used)) = ToWorker::decode(rest).unwrap() {
        let ToWorker::Credit { stream, amount } = frame else { panic!("{frame:?}") };
        found.push((stream, amount));
        rest = &rest[used..];
    }
    assert!(rest.is_empty());
    found
}

/// Spec §3: `ahead` adds slots to a worker of one stream, and to no other.
#[test]
fn requests_may_wait_behind_the_one_in_work() {
    let cases =
        [(1, "3", 4), (1, "0", 1), (1, "16", 17), (1, "17", 1), (1, "-1", 1), (1, "many", 1), (2, "3", 2)];
    for (streams, ahead, places) in cases {
        let mut bytes = Vec::new();
        let said = Hello {
            version: VERSION,
            streams,
            stream_credit: 65_536,
            connection_credit: 131_072,
            about: Strings::default(),
        };
        crate::encode::encode_hello(&mut bytes, &said, [(&b"ahead"[..], ahead.as_bytes())]).unwrap();
        let (frame, _) = FromWorker::decode(&bytes).unwrap().unwrap();
        let mut session = Session::new(CONFIG);
        session.handle_frame(frame).unwrap();
        assert_eq!(session.free_places(), places, "{streams} streams, ahead {ahead:?}");
    }
}

#[test]
fn nothing_opens_before_hello() {
    let mut session = Session::new(CONFIG);
    assert!(!session.is_ready());
    assert_eq!((session.free_places(), session.open()), (0, None));
    assert!(!session.ping([0; 8], &mut Vec::new()), "a worker that loads cannot respond");
    session.handle_frame(hello(2)).unwrap();
    assert!(session.is_ready());
    assert_eq!(
        (session.free_places(), session.open(), session.open(), session.open()),
        (2, Some(1), Some(2), None)
    );
}

#[test]
fn welcome_says_what_was_configured() {
    let mut out = Vec::new();
    let config = SessionConfig { stream_credit: 1, connection_credit: u32::MAX };
    Session::new(config).welcome([(&b"app"[..], &b"shop"[..])], &mut out).unwrap();
    let Ok(Some((ToWorker::Welcome(welcome), _))) = ToWorker::decode(&out) else { panic!() };
    assert_eq!((welcome.version_min, welcome.version_max), (1, 1));
    // Brought within the limits of spec §3.
    assert_eq!((welcome.stream_credit, welcome.connection_credit), (MIN_INITIAL_CREDIT, MAX_CREDIT));
    assert_eq!(welcome.about.pairs().next(), Some((&b"app"[..], &b"shop"[..])));
    let nul = Session::new(config).welcome([(&b"app"[..], &b"\0"[..])], &mut out);
    assert_eq!(nul, Err(EncodeError::Nul));
}

#[test]
fn ids_end_at_the_last_u32() {
    let mut session = ready(2);
    session.next = u64::from(u32::MAX);
    assert!(!session.is_exhausted());
    assert_eq!(session.open(), Some(u32::MAX));
    assert!(session.is_exhausted());
    assert_eq!((session.open(), session.free_places()), (None, 0));
    assert!(session.handle_frame(response(u32::MAX, 200, true)).is_ok());
    assert!(session.is_over(u32::MAX));
}

#[test]
fn nothing_opens_while_either_drains() {
    let mut out = Vec::new();
    let mut session = ready(2);
    assert_eq!(session.open(), Some(1));
    session.drain(&mut out);
    session.drain(&mut out);
    assert_eq!(ToWorker::decode(&out), Ok(Some((ToWorker::Drain, out.len()))), "once");
    assert_eq!((session.is_draining(), session.open()), (true, None));
    assert!(session.handle_frame(response(1, 200, true)).is_ok(), "what is open goes on");

    let mut session = ready(2);
    assert_eq!(session.handle_frame(FromWorker::Drain), Ok(SessionEvent::Drain));
    assert_eq!((session.is_draining(), session.open()), (true, None));
}

#[test]
fn credit_comes_back_when_a_quarter_is_together() {
    let (mut session, mut out) = (ready(1), Vec::new());
    let stream = session.open().unwrap();
    session.handle_frame(response(stream, 200, false)).unwrap();
    session.handle_frame(data(stream, &[0; 20_000])).unwrap();
    session.release(stream, 16_383, &mut out);
    assert_eq!(credits(&mut out), []);
    session.release(stream, 1, &mut out);
    assert_eq!(credits(&mut out), [(stream, 16_384)]);
    session.handle_frame(data(stream, &[0; 30_000])).unwrap();
    session.release(stream, 33_616, &mut out);
    assert_eq!(credits(&mut out), [(stream, 33_616), (0, 50_000)]);
}

/// Spec §6: the bytes of streams that are over MUST be given back, in steps of at most a half.
#[test]
fn credit_is_withheld_when_it_is_used_up_and_no_open_stream_has_it() {
    let mut session = ready(100);
    // 131,072 in all, 65,536 each.
    let streams = [(); 3].map(|()| session.open().unwrap());
    session.spent(streams[0], 65_536);
    assert!(!session.is_credit_withheld(), "there is some left");
    session.spent(streams[1], 65_536 - 10);
    assert!(!session.is_credit_withheld(), "both streams are open, and may be read");
    session.handle_frame(response(streams[0], 200, true)).unwrap();
    assert!(!session.is_credit_withheld(), "a half may be on its way");
    // Bytes that cross the end of their stream count for the connection only.
    session.handle_frame(response(streams[1], 200, true)).unwrap();
    assert!(session.is_credit_withheld(), "nobody has it");
    session.handle_frame(FromWorker::Credit { stream: 0, amount: 40 }).unwrap();
    assert!(session.is_credit_withheld(), "nothing can be sent with 50 bytes of it");
    session.handle_frame(FromWorker::Credit { stream: 0, amount: 65_536 }).unwrap();
    assert!(!session.is_credit_withheld());
    // A stream that was reset belongs to the worker until it ends it.
    session.spent(streams[2], 65_536);
    let mut out = Vec::new();
    session.reset(streams[2], ResetCode::CANCELLED, "", &mut out);
    assert!(!session.is_credit_withheld());
    let ended = FromWorker::Reset { stream: streams[2], code: ResetCode::CANCELLED, reason: "" };
    session.handle_frame(ended).unwrap();
    assert!(session.is_credit_withheld());
    assert!(!Session::new(CONFIG).is_credit_withheld(), "before HELLO there is none");
}

/// Spec §6: otherwise they could be sent endlessly to a peer that does not read.
#[test]
fn an_empty_message_costs_credit_both_ways() {
    let (mut session, mut out) = (ready(1), Vec::new());
    let stream = session.open_websocket().unwrap();
    session.handle_frame(response(stream, 101, false)).unwrap();
    for (number, end) in (0..1024).zip([true, false].into_iter().cycle()) {
        let event = session.handle_frame(FromWorker::Text { stream, bytes: b"", end }).unwrap();
        assert_eq!(event.held(), 64, "message {number}");
        session.spent(stream, message_cost(0));
    }
    assert_eq!((session.send_credit(stream), session.message_credit(stream)), (0, None));
    session.release(stream, 64 * 256, &mut out);
    assert_eq!(credits(&mut out), [(stream, 16_384)]);
    session.handle_frame(FromWorker::Credit { stream, amount: 63 }).unwrap();
    assert_eq!(session.message_credit(stream), None);
    session.handle_frame(FromWorker::Credit { stream, amount: 1 }).unwrap();
    assert_eq!(session.message_credit(stream), Some(64));
    for _ in 0..256 {
        session.handle_frame(FromWorker::Text { stream, bytes: &[0; 64], end: true }).unwrap();
    }
    let fault = session.handle_frame(FromWorker::Text { stream, bytes: b"", end: true }).unwrap_err();
    assert_eq!(fault.kind, FaultKind::CreditSpent);
}

#[test]
fn no_more_is_given_back_than_was_held() {
    let (mut session, mut out) = (ready(1), Vec::new());
    let stream = session.open().unwrap();
    session.handle_frame(response(stream, 200, false)).unwrap();
    session.release(stream, usize::MAX, &mut out);
    session.release(99, 65_536, &mut out);
    assert_eq!(credits(&mut out), []);
    session.handle_frame(data(stream, &[0; 40_000])).unwrap();
    session.release(stream, usize::MAX, &mut out);
    assert_eq!(credits(&mut out), [(stream, 40_000), (0, 40_000)]);
}

#[test]
fn bytes_of_a_stream_that_is_over_go_back_to_the_connection() {
    let (mut session, mut out) = (ready(1), Vec::new());
    let stream = session.open().unwrap();
    session.handle_frame(response(stream, 200, false)).unwrap();
    session.handle_frame(data(stream, &[0; 40_000])).unwrap();
    session.handle_frame(FromWorker::Data { stream, bytes: &[0; 10], end: true }).unwrap();
    assert!(session.is_over(stream));
    session.release(stream, 40_010, &mut out);
    assert_eq!(credits(&mut out), [(0, 40_010)]);
}

#[test]
fn what_a_reset_stream_sends_is_dropped_and_given_back() {
    let (mut session, mut out) = (ready(1), Vec::new());
    let stream = session.open().unwrap();
    session.handle_frame(response(stream, 200, false)).unwrap();
    session.handle_frame(data(stream, &[0; 20_000])).unwrap();
    assert!(session.reset(stream, ResetCode::CANCELLED, "gone", &mut out));
    out.clear();
    let dropped = session.handle_frame(data(stream, &[0; 30_000]));
    assert_eq!(dropped, Ok(SessionEvent::Dropped { stream, bytes: 30_000, over: false }));
    assert_eq!(dropped.map(|event| event.held()), Ok(0));
    // Bytes held by the caller before are its own to release, and only the connection gets them back.
    session.release(stream, 20_000, &mut out);
    assert_eq!(credits(&mut out), [(0, 50_000)]);
    assert_eq!(
        (session.open_streams(), session.open()),
        (1, None),
        "its place is taken until the worker lets go"
    );
    let end = FromWorker::Reset { stream, code: ResetCode::CANCELLED, reason: "" };
    assert_eq!(session.handle_frame(end), Ok(SessionEvent::Dropped { stream, bytes: 0, over: true }));
    assert_eq!((session.open_streams(), session.open()), (0, Some(2)));
}

#[test]
fn a_reset_of_what_is_not_open_writes_nothing() {
    let (mut session, mut out) = (ready(1), Vec::new());
    assert!(!session.reset(1, ResetCode::TIMEOUT, "", &mut out));
    let stream = session.open().unwrap();
    session.handle_frame(response(stream, 200, true)).unwrap();
    assert!(!session.reset(stream, ResetCode::TIMEOUT, "", &mut out));
    assert_eq!(out, b"");
}

#[test]
fn sending_is_bounded_by_stream_and_connection() {
    let mut session = ready(3);
    let streams = [session.open().unwrap(), session.open().unwrap(), session.open().unwrap()];
    assert_eq!(streams.map(|stream| session.send_credit(stream)), [65_536; 3]);
    session.spent(1, 65_536);
    session.spent(2, 65_000);
    assert_eq!(streams.map(|stream| session.send_credit(stream)), [0, 536, 536]);
    session.handle_frame(FromWorker::Credit { stream: 0, amount: 70_000 }).unwrap();
    assert_eq!(streams.map(|stream| session.send_credit(stream)), [0, 536, 65_536]);
    session.handle_frame(FromWorker::Credit { stream: 1, amount: 1 }).unwrap();
    assert_eq!(streams.map(|stream| session.send_credit(stream)), [1, 536, 65_536]);
    assert_eq!((session.send_credit(0), session.send_credit(4)), (0, 0));
}

#[test]
fn what_crosses_the_end_of_a_stream_still_costs_the_connection() {
    let mut session = ready(2);
    assert_eq!((session.open(), session.open()), (Some(1), Some(2)));
    session.handle_frame(response(1, 413, true)).unwrap();
    assert_eq!(session.send_credit(1), 0);
    session.spent(1, 131_000);
    assert_eq!(session.send_credit(2), 72);
}

#[test]
fn a_refusal_is_believed_only_before_the_work_shows() {
    let refusal = |stream| FromWorker::Reset { stream, code: ResetCode::REFUSED, reason: "" };
    let said: [(&[FromWorker<'_>], bool, bool); 4] = [
        (&[], false, true),
        (&[FromWorker::Want { stream: 1 }], false, false),
        (&[FromWorker::Inform { stream: 1, status: 103, fields: Strings::default() }], false, false),
        (&[response(1, 200, false)], true, false),
    ];
    for (before, has_response, was_unprocessed) in said {
        let mut session = ready(1);
        session.open().unwrap();
        for frame in before {
            session.handle_frame(*frame).unwrap();
        }
        let Ok(SessionEvent::Reset { responded, unprocessed, .. }) = session.handle_frame(refusal(1)) else {
            panic!("{before:?}")
        };
        assert_eq!((responded, unprocessed), (has_response, was_unprocessed), "{before:?}");
    }
    let mut session = ready(1);
    session.open().unwrap();
    let failure = FromWorker::Reset { stream: 1, code: ResetCode::APP_ERROR, reason: "" };
    let Ok(SessionEvent::Reset { unprocessed, .. }) = session.handle_frame(failure) else { panic!() };
    assert!(!unprocessed);
}

#[test]
fn a_request_that_is_answered_elsewhere_frees_its_place() {
    let mut session = ready(1);
    let first = session.open().unwrap();
    assert_eq!(session.open(), None);
    let event = session.handle_frame(FromWorker::Hijack { stream: first }).unwrap();
    assert_eq!((event, event.ended()), (SessionEvent::Hijack { stream: first }, Some(first)));
    assert!(session.is_over(first) && !session.is_open_before(first + 1));
    let second = session.open().unwrap();
    // It is no longer wanted.
    session.reset(second, ResetCode::CANCELLED, "", &mut Vec::new());
    let event = session.handle_frame(FromWorker::Hijack { stream: second }).unwrap();
    assert_eq!(event, SessionEvent::Dropped { stream: second, bytes: 0, over: true });
    let third = session.open().unwrap();
    session.handle_frame(response(third, 200, false)).unwrap();
    let fault = session.handle_frame(FromWorker::Hijack { stream: third }).unwrap_err();
    assert_eq!(fault.kind, FaultKind::SecondResponse);
}

fn growth(request: u32) -> FromWorker<'static> {
    FromWorker::Growth(Growth { request, microseconds: 5, changes: Strings::default() })
}

/// Spec §11: one request at a time, each after the GROWTH of the one before.
#[test]
fn a_worker_that_measures_gets_its_next_request_after_its_growth() {
    let (mut session, mut out) = (ready(3), Vec::new());
    assert!(session.begin_leaks(&mut out) && session.is_measuring());
    assert_eq!(ToWorker::decode(&out), Ok(Some((ToWorker::Leaks { end: false }, out.len()))));
    assert!(!session.begin_leaks(&mut out), "it measures already");
    assert_eq!((session.is_growth_awaited(), session.open()), (true, None));
    assert!(matches!(session.handle_frame(growth(0)), Ok(SessionEvent::Growth(Growth { request: 0, .. }))));
    assert_eq!((session.open(), session.open()), (Some(1), None));
    session.handle_frame(response(1, 200, true)).unwrap();
    assert_eq!((session.is_growth_awaited(), session.open()), (true, None));
    session.handle_frame(growth(1)).unwrap();
    assert_eq!(session.open(), Some(2));
    out.clear();
    assert!(session.end_leaks(&mut out) && !session.is_measuring(), "during a request, too");
    assert_eq!(ToWorker::decode(&out), Ok(Some((ToWorker::Leaks { end: true }, out.len()))));
    assert!(!session.end_leaks(&mut out));
    assert_eq!((session.open(), session.open(), session.open()), (Some(3), Some(4), None));
}

/// The worker may have sent it before it read the END; or may never send it.
#[test]
fn growth_may_cross_the_end_of_measuring() {
    for crosses in [true, false] {
        let (mut session, mut out) = (ready(3), Vec::new());
        session.begin_leaks(&mut out);
        session.handle_frame(growth(0)).unwrap();
        session.open().unwrap();
        session.end_leaks(&mut out);
        assert!(!session.begin_leaks(&mut out), "it has a request");
        session.handle_frame(response(1, 200, true)).unwrap();
        assert_eq!(session.free_places(), 3, "nobody waits for it");
        assert!(session.begin_leaks(&mut out));
        if crosses {
            session.handle_frame(growth(1)).unwrap();
        }
        session.handle_frame(growth(0)).unwrap();
        assert_eq!(session.handle_frame(growth(1)).unwrap_err().kind, FaultKind::Growth);
    }
}

#[test]
fn measuring_begins_at_a_ready_idle_worker_that_has_responded_to_the_last_leaks() {
    let mut out = Vec::new();
    assert!(!Session::new(CONFIG).begin_leaks(&mut out));
    let mut session = ready(2);
    session.open().unwrap();
    assert!(!session.begin_leaks(&mut out));
    session.handle_frame(response(1, 200, true)).unwrap();
    assert!(session.begin_leaks(&mut out) && session.end_leaks(&mut out));
    assert_eq!(session.free_places(), 2);
    assert!(!session.begin_leaks(&mut out), "a second response could not be told from the first");
    session.handle_frame(growth(0)).unwrap();
    session.drain(&mut out);
    out.clear();
    assert!(!session.begin_leaks(&mut out) && out.is_empty());
}

#[test]
fn one_ping_at_a_time() {
    let (mut session, mut out) = (ready(1), Vec::new());
    assert!(session.ping([1; 8], &mut out));
    assert!(session.is_ping_pending());
    assert!(!session.ping([2; 8], &mut out));
    assert_eq!(ToWorker::decode(&out), Ok(Some((ToWorker::Ping { payload: [1; 8] }, out.len()))));
    let pong = FromWorker::Pong { payload: [1; 8] };
    assert_eq!(session.handle_frame(pong), Ok(SessionEvent::Pong { payload: [1; 8] }));
    assert!(!session.is_ping_pending());
}

#[test]
fn a_fault_says_what_was_seen_and_ends_all() {
    let mut session = ready(2);
    session.open().unwrap();
    let fault = session.handle_frame(response(2, 200, true)).unwrap_err();
    assert_eq!(fault.to_string(), "RESPONSE on stream 2: the stream was never opened");
    assert_eq!(session.handle_frame(response(1, 200, true)), Err(fault));
    assert_eq!((session.open(), session.free_places()), (None, 0));
}

#[test]
fn a_thousand_streams_at_once() {
    let mut session = ready(1_000);
    let all: Vec<u32> = std::iter::from_fn(|| session.open()).collect();
    assert_eq!(all, (1..=1_000).collect::<Vec<_>>());
    for stream in all.iter().rev().step_by(2) {
        session.handle_frame(response(*stream, 200, true)).unwrap();
    }
    assert_eq!((session.open_streams(), session.open()), (500, Some(1_001)));
    assert!(all.iter().all(|stream| session.is_over(*stream) == (stream % 2 == 0)));
}

#[test]
fn one_place_is_used_again_and_again_without_growing() {
    let mut session = ready(1);
    let places = session.streams.capacity();
    for id in 1..=10_000 {
        assert_eq!(session.open(), Some(id));
        session.handle_frame(response(id, 200, true)).unwrap();
    }
    assert_eq!(session.streams.capacity(), places);
}
