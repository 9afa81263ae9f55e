//! A client that still sends, or has stopped sending, gets its response before its connection ends.

use std::future::poll_fn;

use tokio::io::AsyncReadExt;

use super::*;

/// Responds without reading the body.
struct Responses {
    status: u16,
    close: bool,
}

impl ExchangeScript for Responses {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            // Like a handler that waits for an app: the client's end is seen meanwhile.
            let gone = poll_fn(|cx| exchange.poll_gone(cx));
            assert!(tokio::time::timeout(Duration::from_millis(20), gone).await.is_err(), "it waits");
            exchange.head(self.status, Some(0), self.close, std::iter::empty()).unwrap();
            exchange.end();
        })
    }
}

async fn rest(client: &mut Stream) -> String {
    let mut response = Vec::new();
    client.read_to_end(&mut response).await.unwrap();
    String::from_utf8(response).unwrap()
}

/// `printf 'GET ... GET ...' | nc -N`.
#[tokio::test]
async fn a_client_that_ends_behind_several_requests_has_a_response_to_each() {
    run(async {
        let mut client = connect(Responses { status: 204, close: false }, ConnectionLimits::default());
        write(&mut client, b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3).as_slice()).await;
        client.shutdown().await.unwrap();
        let responses = rest(&mut client).await;
        assert_eq!(responses.matches("HTTP/1.1 204").count(), 3, "{responses}");
        assert_eq!(responses.matches("Connection: close").count(), 1, "{responses}");
    })
    .await;
}

/// A reset can destroy a response in flight (RFC 9112 §9.6); an upload is longer than a close once waited for.
#[tokio::test]
async fn an_early_response_waits_for_a_client_that_goes_on_sending() {
    run(async {
        let mut client = connect(Responses { status: 413, close: true }, ConnectionLimits::default());
        let body = vec![b'x'; 1 << 20];
        let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        write(&mut client, head.as_bytes()).await;
        write(&mut client, &body).await;
        client.shutdown().await.unwrap();
        let response = rest(&mut client).await;
        assert!(response.starts_with("HTTP/1.1 413"), "{response}");
    })
    .await;
}
