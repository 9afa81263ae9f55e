//! Limits on a client: sizes, times and counts.

use super::*;
use crate::BodyError;

/// Accepts bodies of up to 10 bytes; with a query, waits for the first byte before it requests the body.
pub(super) async fn limited(exchange: &mut Exchange<'_>) {
    exchange.limit_body(Some(10));
    if exchange.request().head.query().is_some() {
        poll_fn(|cx| exchange.poll_body_begun(cx)).await;
    }
    let mut body = Vec::new();
    let status = loop {
        match poll_fn(|cx| exchange.poll_body(cx, &mut body, 1024)).await {
            Ok(BodyProgress::Done) => break 200,
            Ok(BodyProgress::More) => {}
            Err(error) => {
                // A further read meets the same error, never an end.
                let again = poll_fn(|cx| exchange.poll_body(cx, &mut body, 1024)).await;
                assert_eq!(again, Err(error));
                break error.refusal().map_or(500, |refusal| refusal.status);
            }
        }
    };
    exchange.head(status, Some(body.len() as u64), false, std::iter::empty()).unwrap();
    exchange.data(&body);
    exchange.end();
}

#[tokio::test]
async fn a_body_that_is_too_large_is_413_and_never_an_empty_one() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        for target in ["/limited", "/limited?begun"] {
            for expectation in [true, false] {
                let mut asked = request(Method::POST, target);
                if expectation {
                    asked.headers_mut().insert("expect", "100-continue".parse().unwrap());
                }
                // Head and body come in one piece: the client does not wait.
                let (response, mut send) = client.send_request(asked, false).unwrap();
                send.send_data(Bytes::from_static(&[b'x'; 20]), true).unwrap();
                let response = whole(response).await.unwrap();
                assert_eq!(
                    (response.status, response.body.as_slice()),
                    (BodyError::TooLarge { limit: 1 }.refusal().unwrap().status, &b""[..]),
                    "{target}, expectation {expectation}"
                );
            }
        }
    })
    .await;
}

/// A client that sends requests faster than it reads responses gets its share, and no more.
#[tokio::test]
async fn a_client_that_pipelines_does_not_hold_the_thread() {
    run(async {
        const REQUESTS: usize = 2000;
        let listening = listening(ConnectionLimits::default());
        let (mut from, mut to) = TcpStream::connect(listening.address).await.unwrap().into_split();
        let requests = "GET /fields HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS);
        tokio::task::spawn_local(async move { to.write_all(requests.as_bytes()).await.map(|()| to) });
        tokio::task::spawn_local(async move { from.read_to_end(&mut Vec::new()).await });
        let (mut served, mut most) = (0, 0);
        while served < REQUESTS {
            tokio::task::yield_now().await;
            let now = listening.app.finished.lock().unwrap().len();
            (served, most) = (now, most.max(now - served));
        }
        assert!(most <= 200, "{most} requests were answered in one turn");
    })
    .await;
}

#[tokio::test]
async fn many_new_connections_do_not_hold_the_thread() {
    run(async {
        const CLIENTS: usize = 400;
        let listening = listening(ConnectionLimits::default());
        let connect = || std::net::TcpStream::connect(listening.address).unwrap();
        let clients: Vec<_> = (0..CLIENTS).map(|_| connect()).collect();
        let (mut accepted, mut most) = (0, 0);
        while accepted < CLIENTS {
            tokio::task::yield_now().await;
            let now = listening.open.count();
            (accepted, most) = (now, most.max(now - accepted));
        }
        assert!(most <= 200, "{most} connections were accepted in one turn");
        drop(clients);
    })
    .await;
}

/// Writes to a new connection, and reads until it ends: returns the bytes and the duration.
async fn until_closed(address: SocketAddr, bytes: &[u8]) -> (Vec<u8>, Duration) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let (mut all, begin) = (Vec::new(), tokio::time::Instant::now());
    let _ = stream.read_to_end(&mut all).await;
    (all, begin.elapsed())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The code of a GOAWAY that is the last frame.
fn goodbye(frames: &[u8]) -> Option<u32> {
    let (_, last) = frames.split_at_checked(frames.len().checked_sub(17)?)?;
    (last[..4] == [0, 0, 8, 7]).then(|| u32::from_be_bytes(last[13..].try_into().unwrap()))
}

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const ENHANCE_YOUR_CALM: Option<u32> = Some(11);

#[tokio::test(start_paused = true)]
async fn half_of_a_head_is_held_for_the_time_of_a_head() {
    run(async {
        let (head_timeout, idle) = (Duration::from_secs(3), Duration::from_secs(6));
        let limits = ConnectionLimits { head_timeout, idle, ..ConnectionLimits::default() };
        let listening = listening(limits);
        let head = frame(1, 0, 1, &[0x82, 0x87, 0x84]);
        let begun = [keepwarm_net::h2::PREFACE, &SETTINGS].concat();
        let halves: [&[u8]; 4] =
            [&[], &SETTINGS[..5], &[&SETTINGS[..], &head[..11]].concat(), &[&SETTINGS[..], &head].concat()];
        for half in halves {
            let bytes = [keepwarm_net::h2::PREFACE, half].concat();
            let (frames, waited) = until_closed(listening.address, &bytes).await;
            assert_eq!(goodbye(&frames), ENHANCE_YOUR_CALM, "{half:?}");
            assert!((head_timeout..idle).contains(&waited), "{half:?}: {waited:?}");
        }
        // A complete preface may stay idle.
        let (_, waited) = until_closed(listening.address, &begun).await;
        assert!(waited >= idle, "{waited:?}");
    })
    .await;
}

#[tokio::test]
async fn frames_that_are_passed_over_are_counted() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let priority = frame(2, 0, 1, &[0, 0, 0, 0, 16]);
        for each in [priority, frame(0xbe, 0, 0, b"unknown")] {
            let many = [keepwarm_net::h2::PREFACE, &SETTINGS, &each.repeat(1100)].concat();
            let (frames, _) = until_closed(listening.address, &many).await;
            assert_eq!(goodbye(&frames), ENHANCE_YOUR_CALM);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_preface_is_an_error_of_http_2() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let line = keepwarm_net::h2::PREFACE_LINE;
        for rest in ["\r\nSM\r\n\rx", "Host: a\r\n\r\n", "\r\nSM", ""] {
            let bytes = [line, rest.as_bytes()].concat();
            let (frames, waited) = until_closed(listening.address, &bytes).await;
            assert!(frames.starts_with(&SETTINGS), "{rest:?}: {}", frames.escape_ascii());
            assert_eq!(goodbye(&frames), Some(1), "{rest:?}");
            assert!(waited < Duration::from_secs(12));
        }
        // A prefix that may still be a method is HTTP/1.
        let (text, _) = until_closed(listening.address, b"PRI * HTTP/1.1\r\n\r\n").await;
        assert!(text.starts_with(b"HTTP/1.1 "), "{}", text.escape_ascii());
    })
    .await;
}

const HINTS: usize = 10_000;

/// Sends far more informational responses than any client takes, and then a final one.
pub(super) fn hints(exchange: &mut Exchange<'_>) {
    for _ in 0..HINTS {
        exchange.informational(103, [(&b"link"[..], &b"</a.css>; rel=preload; as=style"[..])].into_iter());
    }
    exchange.head(200, Some(0), true, std::iter::empty()).unwrap();
    exchange.end();
}

#[tokio::test]
async fn informational_responses_are_not_kept_without_bound() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        for _ in 0..2 {
            let (mut response, _) = client.send_request(request(Method::GET, "/hints"), true).unwrap();
            let mut hints = 0;
            while poll_fn(|cx| response.poll_informational(cx)).await.is_some() {
                hints += 1;
            }
            assert!((1..200).contains(&hints), "{hints} over HTTP/2");
            assert_eq!(whole(response).await.unwrap().status, 200);
        }
        let asked = b"GET /hints HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let (bytes, _) = until_closed(listening.address, asked).await;
        let text = String::from_utf8(bytes).unwrap();
        let hints = text.matches("HTTP/1.1 103").count();
        assert!((100..HINTS / 2).contains(&hints) && text.contains("HTTP/1.1 200"), "{hints} over HTTP/1.1");
    })
    .await;
}

#[tokio::test]
async fn what_a_client_still_sends_behind_its_last_response_resets_nothing() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut stream = TcpStream::connect(listening.address).await.unwrap();
        let head = frame(1, 5, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'a']);
        let goaway = frame(7, 0, 0, &[0; 8]);
        let window = frame(8, 0, 0, &[0, 0, 0, 9]);
        stream.write_all(&[keepwarm_net::h2::PREFACE, &SETTINGS, &head, &goaway].concat()).await.unwrap();
        until(|| listening.app.finished.lock().unwrap().len() == 1).await;
        for _ in 0..5 {
            // The server has sent everything, and ends.
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.write_all(&window).await.unwrap();
        }
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        assert!(all.windows(5).any(|at| at == b"hello") && goodbye(&all) == Some(0), "{all:?}");
        let begin = tokio::time::Instant::now();
        until(|| listening.open.count() == 0).await;
        assert!(begin.elapsed() < Duration::from_secs(4), "it waits for the client's end for a while only");
    })
    .await;
}
