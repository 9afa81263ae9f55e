//! Bodies, read by a caller with as little room as possible.

use std::future::poll_fn;
use std::sync::mpsc;

use super::*;
use crate::BodyProgress;

/// Reads a body with this much room at a time, and reports it.
struct BodyReader {
    room: usize,
    report: mpsc::Sender<BodyReport>,
}

#[derive(Debug, PartialEq, Eq)]
struct BodyReport {
    body: Vec<u8>,
    trailers: usize,
    reads: usize,
}

impl ExchangeScript for BodyReader {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let (mut body, mut reads) = (Vec::new(), 0);
            loop {
                reads += 1;
                let before = body.len();
                let progress = poll_fn(|cx| exchange.poll_body(cx, &mut body, self.room)).await.unwrap();
                assert!(body.len() - before <= self.room.max(1));
                if progress == BodyProgress::Done || exchange.body_done() {
                    break;
                }
                assert!(body.len() > before, "{} bytes came, and then neither more nor the end", body.len());
            }
            self.report.send(BodyReport { body, trailers: exchange.trailers().len(), reads }).unwrap();
            exchange.head(204, None, true, std::iter::empty()).unwrap();
            exchange.end();
        })
    }
}

async fn read(room: usize, pieces: &[&[u8]]) -> BodyReport {
    let (report, reported) = mpsc::channel();
    run(async {
        let mut client = connect(BodyReader { room, report }, ConnectionLimits::default());
        write(&mut client, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        for piece in pieces {
            write(&mut client, piece).await;
            tokio::task::yield_now().await;
        }
        let mut response = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut client, &mut response).await.unwrap();
    })
    .await;
    reported.recv().expect("the body was read")
}

/// Framing needs no room: with one byte left of it and `\r\n` next, a reader that sees only one byte would make no progress.
#[tokio::test]
async fn a_chunked_body_is_read_to_its_end_whatever_the_room() {
    let bytes = b"3;ext=1\r\nabc\r\n00000004\r\ndefg\r\n1\r\nh\r\n0\r\nDigest: a-trailer-that-is-longer-than-any-room-here\r\n\r\n";
    for room in 0..=12 {
        for size in [1, 2, bytes.len()] {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            let BodyReport { body, trailers, .. } = read(room, &pieces).await;
            assert_eq!(
                (body.as_slice(), trailers),
                (&b"abcdefgh"[..], 1),
                "room for {room}, cut into {size}"
            );
        }
    }
}

/// Otherwise each body of that size would end with an empty part.
#[tokio::test]
async fn the_end_comes_with_the_bytes_that_fill_the_room() {
    let report = BodyReport { body: b"abcdefgh".to_vec(), trailers: 0, reads: 1 };
    assert_eq!(read(8, &[b"8\r\nabcdefgh\r\n0\r\n\r\n"]).await, report);
}
