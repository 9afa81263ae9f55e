//! Servers that hang.

use keepwarm_doctor::{Settings, Verdict};
use tokio::io::AsyncWriteExt;
use tokio::time::{Duration, sleep};

use crate::server::{check, every_probe_spoke, found, hasty, hold, request, serve, together};

#[tokio::test]
async fn it_accepts_and_says_nothing() {
    let address = serve(0, hold).await;
    let it = check(&format!("http://{address}/"), &hasty()).await;
    found(&it, "reach.response", Verdict::Bad, "nothing within 60");
}

#[tokio::test]
async fn it_falls_silent_after_its_first_response() {
    let address = serve(1, hold).await;
    let it = check(&format!("http://{address}/"), &hasty()).await;
    found(&it, "reach.gone", Verdict::Bad, "200 after");
    every_probe_spoke(&it);
}

#[tokio::test]
async fn it_sends_half_a_head() {
    together([0, 1].map(|well| async move {
        let address = serve(well, |mut stream| async move {
            request(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").await?;
            hold(stream).await
        })
        .await;
        let it = check(&format!("http://{address}/"), &hasty()).await;
        match well {
            0 => found(&it, "reach.response", Verdict::Bad, "27 bytes without a complete head within"),
            _ => found(&it, "reach.gone", Verdict::Bad, "200 after"),
        };
    }))
    .await;
}

#[tokio::test]
async fn it_trickles() {
    together([0, 1].map(|well| async move {
        let address = serve(well, |mut stream| async move {
            request(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await?;
            loop {
                stream.write_all(b"x").await?;
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let it = check(&format!("http://{address}/"), &hasty()).await;
        match well {
            0 => found(&it, "reach.response", Verdict::Bad, "bytes without a complete head within"),
            _ => found(&it, "reach.gone", Verdict::Bad, "200 after"),
        };
    }))
    .await;
}

#[tokio::test]
async fn its_body_never_ends() {
    let cases = [
        ("Content-Length: 100\r\n\r\npong", "framing.unended", "Content-Length: 100, 4 bytes received"),
        ("Transfer-Encoding: chunked\r\n\r\n4\r\npong\r\n", "framing.unended", "no last chunk"),
        ("X: y\r\n\r\npong", "persistence.unended", "no length, 4 bytes received, and no close"),
    ];
    together(cases.into_iter().flat_map(|case| [(case, 0), (case, 1)]).map(|(case, well)| async move {
        let (head, id, words) = case;
        let address = serve(well, move |mut stream| async move {
            request(&mut stream).await?;
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes()).await?;
            hold(stream).await
        })
        .await;
        let it = check(&format!("http://{address}/"), &hasty()).await;
        match well {
            0 => {
                found(&it, id, Verdict::Bad, words);
            }
            // Responses without a body do end, so it is not gone.
            _ => every_probe_spoke(&it),
        }
    }))
    .await;
}

#[tokio::test]
async fn a_stream_of_events_is_no_fault() {
    let address = serve(0, |mut stream| async move {
        request(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await?;
        hold(stream).await
    })
    .await;
    let it = check(&format!("http://{address}/"), &hasty()).await;
    found(&it, "reach.response", Verdict::Unknown, "a stream that does not end");
}

#[tokio::test]
async fn it_never_reads() {
    let address = serve(1, |stream| async move {
        // Longer than any step; the client goes away before.
        sleep(Duration::from_secs(120)).await;
        drop(stream);
        Ok(())
    })
    .await;
    let settings = Settings { body: vec![b'x'; 16 * 1024 * 1024], ..hasty() };
    let it = check(&format!("http://{address}/"), &settings).await;
    every_probe_spoke(&it);
    found(&it, "reach.gone", Verdict::Bad, "200 after");
}

#[tokio::test]
async fn it_closes_its_side_and_keeps_reading() {
    together([0, 1].map(|well| async move {
        let address = serve(well, |mut stream| async move {
            request(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npong").await?;
            stream.shutdown().await?;
            hold(stream).await
        })
        .await;
        let it = check(&format!("http://{address}/"), &hasty()).await;
        match well {
            0 => {
                found(&it, "framing.response", Verdict::Bad, "Content-Length: 100, 4 bytes received");
            }
            _ => every_probe_spoke(&it),
        }
    }))
    .await;
}
