//! Servers that flood.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keepwarm_doctor::{Examination, Verdict};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::server::{RESPONSE, check, every_probe_spoke, found, hasty, request, serve, together};

/// Most bytes that one connection may take in: the longest response, and the kernel's buffers on the way (6 MB by Linux's defaults, each side).
const MOST: u64 = 64 * 1024 * 1024;

/// The bytes it sends, on and on.
#[derive(Clone, Copy)]
struct Flood {
    /// Whether the request is waited for.
    asked: bool,
    begins: &'static str,
    goes_on: &'static str,
}

/// Examines a server that floods from this connection on, and returns the most that one connection took.
async fn examine(well: usize, flood: Flood) -> (Examination, u64) {
    let most = Arc::new(AtomicU64::new(0));
    let taken = Arc::clone(&most);
    let address = serve(well, move |stream| pour(stream, flood, Arc::clone(&taken))).await;
    let it = check(&format!("http://{address}/"), &hasty()).await;
    (it, most.load(Ordering::Relaxed))
}

async fn pour(mut stream: TcpStream, flood: Flood, most: Arc<AtomicU64>) -> std::io::Result<()> {
    if flood.asked {
        request(&mut stream).await?;
    }
    stream.write_all(flood.begins.as_bytes()).await?;
    let block = flood.goes_on.repeat(16 * 1024 / flood.goes_on.len() + 1);
    let mut sent = 0;
    loop {
        stream.write_all(block.as_bytes()).await?;
        sent += block.len() as u64;
        most.fetch_max(sent, Ordering::Relaxed);
    }
}

async fn expect(flood: Flood, id: &'static str, words: &'static str) {
    together([0, 1].map(|well| async move {
        let (it, most) = examine(well, flood).await;
        assert!(most < MOST, "{most} bytes were taken from one connection");
        match well {
            0 => {
                found(&it, id, Verdict::Bad, words);
            }
            _ => every_probe_spoke(&it),
        }
    }))
    .await;
}

#[tokio::test]
async fn a_line_without_an_end() {
    let flood = Flood { asked: true, begins: "HTTP/1.1 200 ", goes_on: "x" };
    expect(flood, "framing.response", "no valid response (the server sent ").await;
}

#[tokio::test]
async fn a_head_without_an_end() {
    let flood = Flood { asked: true, begins: "HTTP/1.1 200 OK\r\n", goes_on: "X-Flood: yes\r\n" };
    expect(flood, "framing.response", "no valid response").await;
}

#[tokio::test]
async fn informational_responses_without_an_end() {
    let flood = Flood { asked: true, begins: "", goes_on: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" };
    expect(flood, "reach.response", "informational but no final response, and no end").await;
}

#[tokio::test]
async fn a_body_without_an_end() {
    let flood = Flood { asked: true, begins: "HTTP/1.1 200 OK\r\n\r\n", goes_on: "flood " };
    expect(flood, "reach.response", "200, and no end").await;
}

/// It is as long as it says: too long to be read many times, and no fault.
#[tokio::test]
async fn a_large_file() {
    let begins = "HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n";
    let (it, most) = examine(0, Flood { asked: true, begins, goes_on: "file " }).await;
    assert!(most < MOST, "{most} bytes were taken from one connection");
    let finding = found(&it, "reach.response", Verdict::Unknown, "more than this check reads");
    assert!(finding.fix.as_ref().is_some_and(|fix| fix.contains("another path")), "{finding:?}");
}

#[tokio::test]
async fn chunks_without_an_end() {
    let begins = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (it, most) = examine(0, Flood { asked: true, begins, goes_on: "1\r\nx\r\n" }).await;
    assert!(most < MOST, "{most} bytes were taken from one connection");
    found(&it, "reach.response", Verdict::Bad, "200, and no end");
}

#[tokio::test]
async fn a_chunk_extension_without_an_end() {
    let begins = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;";
    let flood = Flood { asked: true, begins, goes_on: "x" };
    expect(flood, "framing.response", "200, then an invalid message").await;
}

#[tokio::test]
async fn trailers_without_an_end() {
    let begins = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    let flood = Flood { asked: true, begins, goes_on: "X-Flood: yes\r\n" };
    expect(flood, "framing.response", "200, then an invalid message").await;
}

#[tokio::test]
async fn bytes_before_anything_was_asked() {
    let flood = Flood { asked: false, begins: "", goes_on: "flood " };
    expect(flood, "reach.response", "beginning with \"flood").await;
}

#[tokio::test]
async fn bytes_after_the_response() {
    let response = std::str::from_utf8(RESPONSE).unwrap();
    let flood = Flood { asked: true, begins: response, goes_on: "flood " };
    let (it, most) = examine(0, flood).await;
    assert!(most < MOST, "{most} bytes were taken from one connection");
    every_probe_spoke(&it);
}
