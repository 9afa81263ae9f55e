//! WebSockets of clients that do not read.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::io::AsyncReadExt;

use super::*;
use crate::{Message, WebSocketLimits};

/// Accepts a WebSocket and waits for its messages; notes how much is ever unsent.
struct WebSocketReader(Arc<AtomicUsize>);

impl ExchangeScript for WebSocketReader {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            exchange.accept_websocket(std::iter::empty(), WebSocketLimits::default()).unwrap();
            let message = poll_fn(|cx| {
                let message = exchange.poll_message(cx);
                self.0.fetch_max(exchange.unsent(), Ordering::Relaxed);
                match exchange.poll_flush(cx) {
                    Poll::Ready(Err(gone)) if message.is_pending() => Poll::Ready(Err(gone)),
                    _ => message,
                }
            });
            let enough = Message::Part { text: true, bytes: b"enough".to_vec(), end: true };
            assert_eq!(message.await, Ok(enough));
        })
    }
}

const PINGS: usize = 20_000;

/// Each gets its response once it reads. Until then, its bytes wait in its own socket.
#[tokio::test]
async fn pings_of_a_client_that_does_not_read_are_not_held_in_memory() {
    let most = Arc::new(AtomicUsize::new(0));
    run(async {
        let mut client = connect(WebSocketReader(Arc::clone(&most)), ConnectionLimits::default());
        let opening = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        write(&mut client, opening).await;
        while client.read_u8().await.unwrap() != b'\n' || client.read_u8().await.unwrap() != b'\r' {}
        assert_eq!(client.read_u8().await.unwrap(), b'\n');
        let (mut reader, mut writer) = tokio::io::split(client);
        let sending = tokio::task::spawn_local(async move {
            // A key of zeros masks nothing.
            let ping = [&[0x89, 0x80 | 100, 0, 0, 0, 0], [b'p'; 100].as_slice()].concat();
            for _ in 0..PINGS {
                writer.write_all(&ping).await.unwrap();
            }
            writer.write_all(b"\x81\x86\0\0\0\0enough").await.unwrap();
            writer
        });
        // Longer than every buffer takes to fill.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!sending.is_finished());
        let mut pong = [0; 102];
        for _ in 0..PINGS {
            reader.read_exact(&mut pong).await.unwrap();
            assert_eq!(pong[..2], [0x8a, 100]);
        }
        drop(sending.await.unwrap());
    })
    .await;
    let most = most.load(Ordering::Relaxed);
    assert!(most < 64 * 1024, "{most} bytes were held");
}
