//! Servers for the tests of probes that look at when, and in how many writes, a response comes.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::scripted::listen;
use crate::target::Target;

/// A server's response to a request.
#[derive(Debug, Clone, Default)]
pub(super) struct MockResponse {
    /// How long it does nothing.
    pub(super) after: Duration,
    /// Its writes, each by itself.
    pub(super) writes: Vec<Vec<u8>>,
    /// Whether it then closes.
    pub(super) closes: bool,
}

impl MockResponse {
    /// These writes.
    pub(super) fn of(writes: &[&str]) -> Self {
        Self { writes: writes.iter().map(|text| text.as_bytes().to_vec()).collect(), ..Self::default() }
    }

    /// Later.
    pub(super) fn after(self, milliseconds: u64) -> Self {
        Self { after: Duration::from_millis(milliseconds), ..self }
    }

    /// And closes.
    pub(super) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }
}

/// A server that responds to each request line this way, with Nagle's algorithm or without. It ends with the test's runtime.
pub(super) async fn serve<F>(nagle: bool, reply: F) -> Target
where
    F: Fn(&str) -> MockResponse + Send + Sync + 'static,
{
    let reply = Arc::new(reply);
    listen(move |stream| {
        let reply = Arc::clone(&reply);
        async move {
            let _ = stream.set_nodelay(!nagle);
            connection(stream, reply.as_ref()).await;
            None
        }
    })
    .await
}

async fn connection(mut stream: TcpStream, reply: &(dyn Fn(&str) -> MockResponse + Send + Sync)) {
    let mut inbox = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        while let Some(end) = inbox.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&inbox[..end]).into_owned();
            inbox.drain(..end + 4);
            let response = reply(head.lines().next().unwrap_or_default());
            tokio::time::sleep(response.after).await;
            for write in &response.writes {
                if stream.write_all(write).await.is_err() {
                    return;
                }
            }
            if response.closes {
                return;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(count) if count > 0 => inbox.extend_from_slice(&chunk[..count]),
            _ => return,
        }
    }
}
