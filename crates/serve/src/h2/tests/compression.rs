//! Responses of routes that compress.

use super::*;

use std::io::Read;

use crate::Compression;

fn line(number: usize) -> String {
    format!("line {number} of a text that repeats itself\n")
}

const LINES: usize = 20_000;

/// A text of 20,000 lines, flushed now and then; with a query shorter than it says.
pub(super) async fn compressed(exchange: &mut Exchange<'_>) {
    exchange.request_mut().set_compression(Some(&Arc::new(Compression::default())));
    let is_short = exchange.request().head.query().is_some();
    let length = is_short.then_some(100_000_000);
    exchange.head(200, length, false, [(&b"content-type"[..], &b"text/plain"[..])].into_iter()).unwrap();
    for number in 0..LINES {
        exchange.data(line(number).as_bytes());
        if number % 1000 == 0 && poll_fn(|cx| exchange.poll_flush(cx)).await.is_err() {
            return exchange.abort("gone");
        }
    }
    exchange.end_with_trailers([(&b"x-lines"[..], &b"20000"[..])].into_iter());
}

async fn ask(
    client: &mut SendRequest<Bytes>,
    target: &str,
    coding: &'static str,
) -> Result<TestResponse, h2::Error> {
    let mut asked = request(Method::GET, target);
    asked.headers_mut().insert("accept-encoding", http::HeaderValue::from_static(coding));
    asked.headers_mut().insert("te", http::HeaderValue::from_static("trailers"));
    let (response, _) = client.send_request(asked, true)?;
    whole(response).await
}

#[tokio::test]
async fn a_body_is_compressed_and_keeps_its_trailers() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        let response = ask(&mut client, "/compressed", "gzip").await.unwrap();
        assert_eq!(response.headers["content-encoding"], "gzip");
        assert_eq!(response.headers["vary"], "Accept-Encoding");
        assert!(!response.headers.contains_key("content-length"));
        assert_eq!(response.trailers.unwrap()["x-lines"], "20000");
        let mut text = String::new();
        flate2::read::GzDecoder::new(response.body.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, (0..LINES).map(line).collect::<String>());
        let plain = ask(&mut client, "/compressed", "identity").await.unwrap();
        assert_eq!(plain.body, text.as_bytes());
        assert_eq!(plain.headers["vary"], "Accept-Encoding");
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_too_short_is_reset() {
    run(async {
        let listening = listening(ConnectionLimits::default());
        let mut client = client(listening.address).await;
        for coding in ["gzip", "br", "zstd"] {
            let cut = ask(&mut client, "/compressed?short", coding).await;
            assert_eq!(
                cut.err().and_then(|error| error.reason()),
                Some(h2::Reason::INTERNAL_ERROR),
                "{coding}"
            );
        }
    })
    .await;
}
