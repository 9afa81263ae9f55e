//! Small servers for the tests of probes: each does what its script says with every connection.

use std::future::Future;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::context::ProbeContext;
use crate::examine::{SilentWatcher, Watcher};
use crate::reach::reach;
use crate::settings::Settings;
use crate::target::Target;

/// The server's side of a connection.
pub(super) struct ScriptedConnection {
    stream: TcpStream,
    inbox: Vec<u8>,
}

impl ScriptedConnection {
    /// The next head, as it came; nothing once the client is gone.
    pub(super) async fn head(&mut self) -> Option<String> {
        loop {
            let end = self.inbox.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let head = self.inbox.drain(..end + 4).collect();
                return String::from_utf8(head).ok();
            }
            self.more().await?;
        }
    }

    /// The body that a head announces.
    pub(super) async fn body(&mut self, head: &str) -> Option<Vec<u8>> {
        let length = field(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.inbox.len() < length {
            self.more().await?;
        }
        Some(self.inbox.drain(..length).collect())
    }

    /// Sends it, at once.
    pub(super) async fn say(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).await;
    }

    /// A small response that is kept open behind.
    pub(super) async fn ok(&mut self) {
        self.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    }

    async fn more(&mut self) -> Option<()> {
        let mut chunk = [0; 4096];
        let count = self.stream.read(&mut chunk).await.ok().filter(|&count| count > 0)?;
        self.inbox.extend_from_slice(chunk.get(..count)?);
        Some(())
    }
}

/// The value of a field of a head.
pub(super) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Starts a server, and returns its URL. It ends with the test's runtime.
pub(super) async fn serve<S, F>(script: S) -> Target
where
    S: Fn(ScriptedConnection) -> F + Send + 'static,
    F: Future<Output = Option<()>> + Send + 'static,
{
    listen(move |stream| {
        stream.set_nodelay(true).expect("a socket");
        script(ScriptedConnection { stream, inbox: Vec::new() })
    })
    .await
}

/// The same, with each connection as it comes from the kernel.
pub(super) async fn listen<S, F>(serve: S) -> Target
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = Option<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Target::parse(&format!("http://{address}/page")).expect("a URL")
}

/// Starts a server, and reaches it.
pub(super) async fn context<S, F>(script: S) -> ProbeContext
where
    S: Fn(ScriptedConnection) -> F + Send + 'static,
    F: Future<Output = Option<()>> + Send + 'static,
{
    context_of(&serve(script).await, Settings { rate: 1000, ..Settings::default() }).await
}

/// Reaches a server.
pub(super) async fn context_of(target: &Target, settings: Settings) -> ProbeContext {
    let watcher: Arc<dyn Watcher> = Arc::new(SilentWatcher);
    match reach(target, &settings, &watcher).await {
        Ok(reached) => reached.context,
        Err(unreached) => panic!("{}", unreached.finding.evidence),
    }
}
