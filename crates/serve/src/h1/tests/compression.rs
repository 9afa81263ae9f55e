//! A compressed response through a socket that takes little at a time, to a client that reads little at a time.

use std::future::poll_fn;
use std::io::Read;

use tokio::io::AsyncReadExt;

use super::*;
use crate::{Compression, ResponseBuffer};

const PARTS: usize = 300;

fn part(number: usize) -> Vec<u8> {
    // Compresses badly, so that much is written.
    let mut state = number as u32 + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b' ' + (state >> 26) as u8
    };
    (0..1 + number * 7 % 1500).map(|_| next()).collect()
}

/// Sends parts as a source does: as long as there is room, then it flushes. With a path of `/known`, their length is stated.
struct Source;

impl ExchangeScript for Source {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            exchange.request_mut().set_compression(Some(&Arc::new(Compression::default())));
            let length: usize = (0..PARTS).map(|number| part(number).len()).sum();
            let length = (exchange.request().path() == b"/known").then_some(length as u64);
            exchange
                .head(200, length, false, [(&b"content-type"[..], &b"text/plain"[..])].into_iter())
                .unwrap();
            let mut response = ResponseBuffer::new(false);
            for number in 0..PARTS {
                while !poll_fn(|cx| std::task::Poll::Ready(response.poll_room(cx, exchange))).await.unwrap() {
                    poll_fn(|cx| exchange.poll_flush(cx)).await.unwrap();
                }
                response.data(exchange, &part(number));
                if number % 11 == 0 {
                    poll_fn(|cx| exchange.poll_flush(cx)).await.unwrap();
                }
            }
            assert!(response.end(exchange, std::iter::empty()));
        })
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|at| at == b"\r\n").expect("a line");
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        bytes = &bytes[line + 2..];
        if size == 0 {
            assert_eq!(bytes, b"\r\n");
            return body;
        }
        body.extend_from_slice(&bytes[..size]);
        assert_eq!(&bytes[size..size + 2], b"\r\n");
        bytes = &bytes[size + 2..];
    }
}

#[tokio::test]
async fn a_compressed_body_passes_a_narrow_socket_whole() {
    run(async {
        for (path, read) in [("/", 1), ("/", 4096), ("/known", 3), ("/known", 100_000)] {
            let mut client = connect(Source, ConnectionLimits::default());
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
            );
            write(&mut client, request.as_bytes()).await;
            let (mut all, mut some) = (Vec::new(), vec![0; read]);
            loop {
                match client.read(&mut some).await.unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&some[..count]),
                }
            }
            let end = all.windows(4).position(|at| at == b"\r\n\r\n").expect("a head") + 4;
            let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
            assert!(head.contains("content-encoding: gzip") && !head.contains("content-length"), "{head}");
            let mut plain = Vec::new();
            let body = unchunked(&all[end..]);
            flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut plain).unwrap();
            assert_eq!(plain, (0..PARTS).flat_map(part).collect::<Vec<u8>>(), "{path} {read}");
        }
    })
    .await;
}
