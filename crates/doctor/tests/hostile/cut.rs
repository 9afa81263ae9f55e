//! Servers that close, reset, or send something else than HTTP.

use keepwarm_doctor::Verdict;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::server::{
    RESPONSE, check, every_probe_spoke, found, hasty, hold, request, serve, settings, together,
};

fn reset(stream: TcpStream) -> std::io::Result<()> {
    stream.set_zero_linger()
}

#[tokio::test]
async fn it_resets_at_once() {
    for well in [0, 1] {
        let address = serve(well, |stream| async move { reset(stream) }).await;
        let it = check(&format!("http://{address}/"), &settings()).await;
        match well {
            0 => {
                found(&it, "reach.response", Verdict::Bad, "reset without a response");
            }
            _ => every_probe_spoke(&it),
        }
    }
}

#[tokio::test]
async fn it_closes_at_once() {
    for well in [0, 1] {
        let address = serve(well, |stream| async move {
            drop(stream);
            Ok(())
        })
        .await;
        let it = check(&format!("http://{address}/"), &settings()).await;
        match well {
            // Whether the request was on its way decides whether the kernel resets.
            0 => {
                found(&it, "reach.response", Verdict::Bad, "without a response after");
            }
            _ => every_probe_spoke(&it),
        }
    }
}

#[tokio::test]
async fn it_closes_in_every_place_of_a_response() {
    let responses: [&[u8]; 2] = [
        RESPONSE,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\npong\n\r\n0\r\nX: y\r\n\r\n",
    ];
    for response in responses {
        for end in 0..response.len() {
            let address = serve(0, move |mut stream| async move {
                request(&mut stream).await?;
                stream.write_all(&response[..end]).await
            })
            .await;
            let it = check(&format!("http://{address}/"), &settings()).await;
            assert_eq!(it.verdict(), Verdict::Bad, "cut at {end}");
            let id = it.results[0].findings[0].id;
            let begun = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4 <= end;
            assert_eq!(
                id,
                if begun { "framing.response" } else { "reach.response" },
                "cut at {end}: {it:#?}"
            );
        }
    }
}

#[tokio::test]
async fn it_closes_or_resets_in_some_places_after_a_good_beginning() {
    let places = [0, 10, 40, RESPONSE.len() - 2];
    together(places.into_iter().flat_map(|end| [(end, false), (end, true)]).map(
        |(end, resets)| async move {
            let address = serve(1, move |mut stream| async move {
                request(&mut stream).await?;
                stream.write_all(&RESPONSE[..end]).await?;
                if resets { reset(stream) } else { Ok(()) }
            })
            .await;
            every_probe_spoke(&check(&format!("http://{address}/"), &settings()).await);
        },
    ))
    .await;
}

#[tokio::test]
async fn it_responds_with_garbage() {
    let cases = [
        (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "reach.response", "beginning with \"SSH-2.0"),
        (b"\0\0\0\0\0\0\0\0\r\n\r\n", "reach.response", "\\x00"),
        (b"\r\n\r\n\r\n\r\n", "reach.response", "no valid response"),
        (b"HTTP/2 200 OK\r\n\r\n", "reach.response", "HTTP/2"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "framing.response", "2x0"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "framing.response", "-1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "framing.response", "6"),
        (b"HTTP/1.1 200 OK\r\nno field\r\n\r\n", "framing.response", "no field"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "framing.response", "chunked"),
        (b"<html>hello</html>\r\n\r\n", "reach.response", "<html>"),
        (b"220 mail.example ESMTP\r\n", "reach.response", "ESMTP"),
        (b"\0\0\0\x04\0\0\0\0\0", "reach.response", "HTTP/2 SETTINGS"),
        (&[0xff; 64], "reach.response", "\\xff"),
    ];
    let ways = [(0, false), (0, true), (1, false)];
    together(cases.into_iter().flat_map(|case| ways.map(|way| (case, way))).map(|(case, way)| async move {
        let ((garbage, id, words), (well, holds)) = (case, way);
        let address = serve(well, move |mut stream| async move {
            request(&mut stream).await?;
            stream.write_all(garbage).await?;
            if holds { hold(stream).await } else { Ok(()) }
        })
        .await;
        let it = check(&format!("http://{address}/"), &settings()).await;
        match way {
            (0, false) => {
                found(&it, id, Verdict::Bad, words);
            }
            // Some of it could go on to be valid, as far as it is known.
            (0, true) => assert_eq!(it.verdict(), Verdict::Bad, "{it:#?}"),
            _ => every_probe_spoke(&it),
        }
    }))
    .await;
}

/// The next of a row of numbers that look random, and are the same each time (Knuth's MMIX).
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// A good response with a few bytes changed, taken out or put in.
fn mutated(state: &mut u64) -> Vec<u8> {
    const LIKELY: &[u8] = b"\r\n :;,0159aZ\0\xff";
    let mut response = RESPONSE.to_vec();
    for _ in 0..1 + next(state) % 3 {
        let at = next(state) % response.len();
        let byte = LIKELY[next(state) % LIKELY.len()];
        match next(state) % 3 {
            0 => response[at] = byte,
            1 => drop(response.remove(at)),
            _ => response.insert(at, byte),
        }
    }
    response
}

#[tokio::test]
async fn it_responds_almost_right() {
    let mut state = 6;
    let responses: Vec<Vec<u8>> = std::iter::repeat_with(|| mutated(&mut state)).take(24).collect();
    together(responses.into_iter().enumerate().map(|(index, response)| async move {
        let shown = response.escape_ascii().to_string();
        // Every third one behaves well first, so that all probes meet it.
        let well = usize::from(index % 3 == 0);
        let address = serve(well, move |mut stream| {
            let response = response.clone();
            async move {
                loop {
                    request(&mut stream).await?;
                    stream.write_all(&response).await?;
                }
            }
        })
        .await;
        let it = check(&format!("http://{address}/"), &hasty()).await;
        assert!(it.results.iter().any(|result| !result.findings.is_empty()), "{shown}");
    }))
    .await;
}
