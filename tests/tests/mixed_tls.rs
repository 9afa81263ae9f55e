//! Requests over TLS, half of them over HTTP/2 and half over HTTP/1.1, while the configuration is reloaded, certificates change, workers are recycled and
//! killed: every request gets its right response, except those that a killed worker had begun, and those that are not safe and that it was given. None of
//! these is begun twice.
//!
//! `MIXED_REQUESTS` sets how many there are (100000 takes minutes), `MIXED_SEED` what they are, as in the suite `mixed`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use keepwarm_tests::certificates::{Authority, TlsClient, TlsRelay};
use keepwarm_tests::http2::{DATA, END_STREAM, HEADERS, Http2, RST_STREAM, frame};
use keepwarm_tests::oracle::{Random, crc32};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Server, admin};
use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// What `http2::block` requests.
const HOST: &str = "a.example";
const LONG: Duration = Duration::from_secs(90);
/// Clients of each protocol.
const CLIENTS: u64 = 3;
/// Rounds of disturbances at least.
const ROUNDS: usize = 3;
/// Requests of a connection, and those of HTTP/2 at once.
const OF_CONNECTION: usize = 60;
const AT_ONCE: u32 = 4;
/// Repeats of a request's name in a large response.
const PARTS: u64 = 12;
const PART: usize = 3_000;

const CONFIG: &str = r#"
[server]
threads = 2
shutdown_grace = "30s"
log = { file = "@DIR@/log" }
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
access_log = { file = "@DIR@/access" }
tls = { cert = "@DIR@/site.pem", key = "@DIR@/site.key" }
[[listen.main.route]]
app = "app"
[app.app]
entry = "trouble_app:asgi"
directory = "@APPS@"
interpreter = "@PYTHON@"
env = { DIR = "@DIR@" }
workers = 2
max_requests = 200
queue_timeout = "80s"
start_retries = 1000
"#;

/// A request, and its right response.
struct Planned {
    id: u64,
    target: String,
    /// Of a POST.
    body: Option<Vec<u8>>,
    expected: String,
}

/// A request, and what its client saw: the status and the body, or none.
struct Seen {
    id: u64,
    is_safe: bool,
    is_right: bool,
    shown: String,
}

impl Planned {
    fn new(id: u64, random: &mut Random) -> Self {
        let (action, body) = match random.below(10) {
            0..3 => {
                let length = random.below(9_000);
                ("upload", Some(random.bytes(length)))
            }
            3 => ("large", None),
            _ => ("work", None),
        };
        let expected = match (action, &body) {
            (_, Some(body)) => format!("{id} {} {}", body.len(), crc32(body)),
            ("large", _) => {
                let name = format!("{id};");
                name.repeat(PART / name.len()).repeat(PARTS as usize)
            }
            _ => id.to_string(),
        };
        let target = format!("/{action}?id={id}&n={PARTS}&ms={}&pause=0", random.below(3));
        Self { id, target, body, expected }
    }

    fn seen(&self, response: Result<(u16, &str), String>) -> Seen {
        let is_right = response == Ok((200, self.expected.as_str()));
        let shown: String = format!("{response:?}").chars().take(120).collect();
        Seen { id: self.id, is_safe: self.body.is_none(), is_right, shown }
    }
}

#[test]
fn no_request_is_lost_while_everything_changes() {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (seed, requests) = (number("MIXED_SEED", 20_260_103), number("MIXED_REQUESTS", 800));
    println!("MIXED_SEED={seed} MIXED_REQUESTS={requests} cargo test -p keepwarm-tests --test mixed_tls");
    let authority = Authority::default();
    let server = Server::start_with(CONFIG, |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        authority.identity(&[HOST]).write(folder, "site");
    });
    let mut http2 = authority.client(None);
    http2.alpn_protocols = vec![b"h2".to_vec()];
    let relay = TlsRelay::start(server.address(), HOST, http2);
    let (over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (seen, disturbed) = std::thread::scope(|scope| {
        let disturbed = scope.spawn(|| disturb(&server, &authority, &over, &rounds));
        let clients: Vec<_> = (0..2 * CLIENTS)
            .map(|client| {
                let (server, authority, relay, rounds) = (&server, &authority, &relay, &rounds);
                scope.spawn(move || {
                    let mut random = Random::new(seed, client);
                    let mut all = ((client + 1) * 10_000_000..).map(|id| Planned::new(id, &mut random));
                    let mut seen = Vec::new();
                    while (seen.len() as u64) < requests / (2 * CLIENTS)
                        || rounds.load(Ordering::Relaxed) < ROUNDS
                    {
                        let some: Vec<Planned> = all.by_ref().take(OF_CONNECTION).collect();
                        match client % 2 {
                            0 => seen.extend(over_http1(server, authority, &some)),
                            _ => seen.extend(over_http2(relay, &some)),
                        }
                    }
                    seen
                })
            })
            .collect();
        let seen: Vec<_> = clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        (seen, disturbed.join().expect("the disturbances"))
    });
    let seen: Vec<Seen> = seen.into_iter().flat_map(|client| client.expect("a client")).collect();
    println!(
        "{} requests, {} rounds of disturbances, {} killed",
        seen.len(),
        rounds.into_inner(),
        disturbed.killed.len()
    );
    judge(&server, &seen, &disturbed.killed);
    let certificate =
        TlsClient::connect(server.address(), HOST, authority.client(None)).expect("a session").certificate();
    assert_eq!(certificate, disturbed.certificate, "the last certificate is served");
    let recycled = "keepwarm_worker_recycles_total{app=\"app\",reason=\"requests\"}";
    admin::wait_for_metric(&server, recycled, 1.0);
}

struct Disturbed {
    killed: BTreeSet<u32>,
    certificate: Vec<u8>,
}

/// In turn: another certificate and a reload; the death of a worker, until all are there again.
fn disturb(server: &Server, authority: &Authority, over: &AtomicBool, rounds: &AtomicUsize) -> Disturbed {
    let mut disturbed = Disturbed { killed: BTreeSet::new(), certificate: Vec::new() };
    while !over.load(Ordering::Relaxed) {
        let identity = authority.identity(&[HOST]);
        identity.write(server.folder(), "site");
        disturbed.certificate =
            CertificateDer::from_pem_slice(identity.cert.as_bytes()).expect("PEM").to_vec();
        reload(server);
        wait_for_workers(server);
        if let Some(&worker) = server.workers().first() {
            disturbed.killed.insert(worker);
            process::signal(worker, Signal::KILL);
            wait_for_workers(server);
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    disturbed
}

/// The log is a file: `Server::reload` reads standard output.
fn reload(server: &Server) {
    let reloads = || {
        let log = fs::read_to_string(server.folder().join("log")).unwrap_or_default();
        log.matches("reloaded in").count()
    };
    let before = reloads();
    server.signal(Signal::HUP);
    wait_until("the reload is done", LONG, || reloads() > before);
}

fn wait_for_workers(server: &Server) {
    wait_until("two workers are ready", LONG, || {
        admin::metrics(server)["keepwarm_workers{app=\"app\",state=\"ready\"}"] >= 2.0
    });
}

fn over_http1(server: &Server, authority: &Authority, all: &[Planned]) -> Vec<Seen> {
    let connect = || {
        let client = TlsClient::connect(server.address(), HOST, authority.client(None)).expect("a session");
        client.set_read_timeout(LONG);
        client
    };
    let mut client = connect();
    let mut seen = Vec::new();
    for request in all {
        let mut bytes = match &request.body {
            None => format!("GET {} HTTP/1.1\r\nHost: {HOST}\r\n\r\n", request.target).into_bytes(),
            Some(body) => {
                let length = body.len();
                format!(
                    "POST {} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n",
                    request.target
                )
                .into_bytes()
            }
        };
        bytes.extend(request.body.as_deref().unwrap_or_default());
        let response = client.ask(bytes).map_err(|error| error.to_string());
        let closes = response
            .as_ref()
            .map_or(true, |(_, text)| text.to_ascii_lowercase().contains("connection: close"));
        seen.push(
            request.seen(
                response.as_ref().map_err(Clone::clone).map(|(status, text)| {
                    (*status, text.split_once("\r\n\r\n").map_or("", |(_, body)| body))
                }),
            ),
        );
        if closes {
            client = connect();
        }
    }
    seen
}

/// Several at once on one connection.
fn over_http2(relay: &TlsRelay, all: &[Planned]) -> Vec<Seen> {
    let mut client = Http2::connect(relay.address());
    let mut seen = Vec::new();
    let mut stream = 1;
    for some in all.chunks(AT_ONCE as usize) {
        let streams: BTreeMap<u32, &Planned> = (stream..).step_by(2).zip(some).collect();
        stream += 2 * AT_ONCE;
        for (&stream, request) in &streams {
            match &request.body {
                None => client.request(stream, &request.target, &[]),
                Some(body) => {
                    client.head(
                        stream,
                        "POST",
                        &request.target,
                        &[("content-length", &body.len().to_string())],
                    );
                    client.send(&frame(DATA, END_STREAM, stream, body));
                }
            }
        }
        let mut responses: BTreeMap<u32, (u16, Vec<u8>, Option<String>)> = BTreeMap::new();
        while responses.values().filter(|(.., end)| end.is_some()).count() < streams.len() {
            let frame = client.until(|frame| streams.contains_key(&frame.stream));
            let (status, body, end) = responses.entry(frame.stream).or_default();
            match frame.kind {
                HEADERS if *status < 200 => *status = frame.status(),
                DATA => {
                    body.extend(&frame.payload);
                    let got = frame.payload.len() as u32;
                    if got > 0 {
                        client.give(0, got);
                        client.give(frame.stream, got);
                    }
                }
                RST_STREAM => *end = Some(format!("reset with {}", frame.code())),
                _ => {}
            }
            if frame.ends() {
                end.get_or_insert_default();
            }
        }
        for (stream, request) in streams {
            let (status, body, end) = &responses[&stream];
            let text = String::from_utf8_lossy(body);
            seen.push(request.seen(match end.as_deref() {
                Some("") => Ok((*status, &text)),
                other => Err(format!("{status}, {} bytes, {other:?}", body.len())),
            }));
        }
    }
    seen
}

/// Of a request that is not safe, and was given to a worker that died: nobody knows whether it had begun (RFC 9110 §9.2.2).
const DIED: &str = "502, \"502 Bad Gateway\\nThe process that handled this request died.";

/// By the book of the app: which request was begun by which processes.
fn judge(server: &Server, all: &[Seen], killed: &BTreeSet<u32>) {
    let book = fs::read_to_string(server.folder().join("book")).expect("the app's book");
    let mut begun: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for line in book.lines().filter_map(|line| line.strip_prefix("b ")) {
        let (id, process) = line.split_once(' ').expect("an id and a process");
        begun.entry(id.parse().expect("an id")).or_default().push(process.parse().expect("a process"));
    }
    let (mut faults, mut excused) = (Vec::new(), 0);
    for seen in all {
        let by: &[u32] = begun.get(&seen.id).map_or(&[], Vec::as_slice);
        let by_killed = by.iter().any(|process| killed.contains(process));
        let most = if seen.is_safe && by_killed { 2 } else { 1 };
        if by.len() > most || (seen.is_right && by.is_empty()) {
            faults.push(format!("{} was begun by {by:?}, and seen as {}", seen.id, seen.shown));
        } else if !seen.is_right && (by_killed || !seen.is_safe && seen.shown.contains(DIED)) {
            excused += 1;
        } else if !seen.is_right {
            faults.push(format!(
                "{} (safe: {}), begun by {by:?}, was lost: {}",
                seen.id, seen.is_safe, seen.shown
            ));
        }
    }
    println!("{excused} ended with the worker that was killed");
    assert!(faults.is_empty(), "killed: {killed:?}\n{}", faults.join("\n"));
}
