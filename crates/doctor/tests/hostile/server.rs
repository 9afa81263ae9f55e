//! A server that misbehaves as configured, connection by connection; and an examination of it.

use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keepwarm_doctor::{Examination, Finding, Settings, SilentWatcher, Target, Verdict, examine};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How long a step may take in these tests.
const STEP: Duration = Duration::from_secs(1);

/// An examination that takes longer than this is called endless: nothing here is about speed, and other suites run beside.
const ENDLESS: Duration = Duration::from_secs(60);

/// The response of a well-behaved server.
pub(crate) const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\npong\n";

/// Behaves well on the first `well` connections, and from then on as `manner` does.
pub(crate) async fn serve<F, Done>(well: usize, manner: F) -> SocketAddr
where
    F: Fn(TcpStream) -> Done + Send + Sync + 'static,
    Done: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let manner = Arc::new(manner);
    tokio::spawn(async move {
        let mut served = 0;
        while let Ok((stream, _)) = listener.accept().await {
            served += 1;
            if served <= well {
                behave(blocking(stream), GoodServer::default());
                continue;
            }
            let manner = Arc::clone(&manner);
            // It does not matter if the client goes away.
            tokio::spawn(async move { manner(stream).await.ok() });
        }
    });
    address
}

/// The same connection, for a thread.
pub(crate) fn blocking(stream: TcpStream) -> std::net::TcpStream {
    let stream = stream.into_std().expect("a socket");
    stream.set_nonblocking(false).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    stream
}

/// How a good server may differ from another.
#[derive(Clone, Default)]
pub(crate) struct GoodServer {
    /// It closes after each response, and announces it.
    pub(crate) closes: bool,
    /// When it had a request.
    pub(crate) asked: Option<Arc<Mutex<Vec<Instant>>>>,
}

/// Responds on one connection as RFC 9112 requires, on a thread of its own, until the client goes away.
pub(crate) fn behave<S: Read + Write + Send + 'static>(stream: S, well: GoodServer) {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        while exchange(&mut stream, &well).unwrap_or(false) {}
    });
}

/// One request and its response; returns whether the connection continues.
fn exchange<S: Read + Write>(stream: &mut BufReader<S>, well: &GoodServer) -> std::io::Result<bool> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Ok(false);
        }
    }
    if let Some(asked) = &well.asked {
        asked.lock().expect("no test fails with it").push(Instant::now());
    }
    let head = head.to_ascii_lowercase();
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.strip_prefix(':')?.trim().to_owned())
    };
    let is_old = head.lines().next().is_some_and(|line| line.ends_with("http/1.0"));
    let (length, chunked) = (field("content-length"), field("transfer-encoding").is_some());
    let wish = field("connection").unwrap_or_default();
    if !is_old && field("expect").is_some() && (chunked || length.as_deref().is_some_and(|it| it != "0")) {
        stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        stream.get_mut().flush()?;
    }
    match chunked {
        true => skip_chunks(stream)?,
        false => skip(stream, length.and_then(|it| it.parse().ok()).unwrap_or(0))?,
    }
    let close = well.closes || wish.contains("close") || (is_old && !wish.contains("keep-alive"));
    let connection = match (close, is_old) {
        (true, _) => "Connection: close\r\n",
        (false, true) => "Connection: keep-alive\r\n",
        (false, false) => "",
    };
    let mut response =
        String::from_utf8_lossy(RESPONSE).replace("Content-Type", &format!("{connection}Content-Type"));
    if head.starts_with("head ") {
        response.truncate(response.len() - 5);
    }
    stream.get_mut().write_all(response.as_bytes())?;
    stream.get_mut().flush()?;
    Ok(!close)
}

fn skip(stream: &mut impl Read, bytes: u64) -> std::io::Result<()> {
    std::io::copy(&mut stream.take(bytes), &mut std::io::sink()).map(drop)
}

fn skip_chunks(stream: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(std::io::Error::other)?;
        if size == 0 {
            break;
        }
        skip(stream, size + 2)?;
    }
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.trim().is_empty() {
            return Ok(());
        }
    }
}

/// The head of a request, with its empty line; what follows it in the same segment is not looked at.
pub(crate) async fn request(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Keeps the connection, and does nothing, until the client is gone.
pub(crate) async fn hold(mut stream: impl AsyncRead + Unpin) -> std::io::Result<()> {
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

pub(crate) fn settings() -> Settings {
    // Requests need not keep their distance to a server of our own.
    Settings { timeout: STEP, rate: 1000, ..Settings::default() }
}

/// For servers that hang: each step of theirs is waited out.
pub(crate) fn hasty() -> Settings {
    Settings { timeout: Duration::from_millis(600), ..settings() }
}

/// Examines with every probe.
pub(crate) async fn check(url: &str, settings: &Settings) -> Examination {
    let target = Target::parse(url).expect("a URL");
    let examining = examine(&target, settings, Arc::new(SilentWatcher));
    tokio::time::timeout(ENDLESS, examining).await.expect("an examination ends")
}

/// Does all of it at once: most of it is waiting.
pub(crate) async fn together<F: Future<Output = ()> + Send + 'static>(all: impl IntoIterator<Item = F>) {
    let mut tasks = JoinSet::new();
    all.into_iter().for_each(|one| drop(tasks.spawn(one)));
    while let Some(done) = tasks.join_next().await {
        if let Err(failed) = done {
            std::panic::resume_unwind(failed.into_panic());
        }
    }
}

/// The finding of this verdict that has these words.
#[track_caller]
pub(crate) fn found<'a>(it: &'a Examination, id: &str, verdict: Verdict, words: &str) -> &'a Finding {
    let all: Vec<&Finding> = it.results.iter().flat_map(|probe| &probe.findings).collect();
    let found = all
        .iter()
        .find(|finding| finding.id == id && finding.verdict == verdict && finding.evidence.contains(words));
    found.unwrap_or_else(|| panic!("no {verdict:?} of {id} with {words:?} in {all:#?}"))
}

/// What stands between a server that misbehaves after its first response and a report: every probe has something to say.
#[track_caller]
pub(crate) fn every_probe_spoke(it: &Examination) {
    for probe in keepwarm_doctor::Probe::ALL {
        let spoke = it.results.iter().any(|result| result.id == probe.id());
        assert!(spoke, "{} is missing in {it:#?}", probe.id());
    }
    assert!(it.results.iter().all(|result| result.findings.iter().all(|one| !one.evidence.is_empty())));
}
