//! Servers that close, reset, or answer something else than HTTP.

use keepwarm_doctor::Verdict;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::server::{ANSWER, check, every_probe_spoke, found, hold, request, serve, settings, together};

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
                found(&it, "reach.answer", Verdict::Bad, "reset without an answer");
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
                found(&it, "reach.answer", Verdict::Bad, "without an answer after");
            }
            _ => every_probe_spoke(&it),
        }
    }
}

#[tokio::test]
async fn it_closes_in_every_place_of_an_answer() {
    let answers: [&[u8]; 2] = [
        ANSWER,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\npong\n\r\n0\r\nX: y\r\n\r\n",
    ];
    for answer in answers {
        for end in 0..answer.len() {
            let address = serve(0, move |mut stream| async move {
                request(&mut stream).await?;
                stream.write_all(&answer[..end]).await
            })
            .await;
            let it = check(&format!("http://{address}/"), &settings()).await;
            assert_eq!(it.verdict(), Verdict::Bad, "cut at {end}");
            let id = it.examined[0].findings[0].id;
            let begun = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4 <= end;
            assert_eq!(id, if begun { "framing.answer" } else { "reach.answer" }, "cut at {end}: {it:#?}");
        }
    }
}

#[tokio::test]
async fn it_closes_or_resets_in_some_places_after_a_good_beginning() {
    let places = [0, 10, 40, ANSWER.len() - 2];
    together(places.into_iter().flat_map(|end| [(end, false), (end, true)]).map(
        |(end, resets)| async move {
            let address = serve(1, move |mut stream| async move {
                request(&mut stream).await?;
                stream.write_all(&ANSWER[..end]).await?;
                if resets { reset(stream) } else { Ok(()) }
            })
            .await;
            every_probe_spoke(&check(&format!("http://{address}/"), &settings()).await);
        },
    ))
    .await;
}

#[tokio::test]
async fn it_answers_garbage() {
    let cases = [
        (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "reach.answer", "beginning with \"SSH-2.0"),
        (b"\0\0\0\0\0\0\0\0\r\n\r\n", "reach.answer", "\\x00"),
        (b"\r\n\r\n\r\n\r\n", "reach.answer", "no valid answer"),
        (b"HTTP/2 200 OK\r\n\r\n", "reach.answer", "HTTP/2"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "framing.answer", "2x0"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "framing.answer", "-1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "framing.answer", "6"),
        (b"HTTP/1.1 200 OK\r\nno field\r\n\r\n", "framing.answer", "no field"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "framing.answer", "chunked"),
        (b"<html>hello</html>\r\n\r\n", "reach.answer", "<html>"),
        (b"220 mail.example ESMTP\r\n", "reach.answer", "ESMTP"),
        (&[0xff; 64], "reach.answer", "\\xff"),
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
