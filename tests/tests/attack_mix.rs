//! All attacks of `tests/apps/attacks` at once, over TLS, from another process: each is cut by its limit and counted, a good client is served meanwhile, and
//! memory has a bound. `bench/load/attack.py` is the same for three minutes, with the default limits and with response times.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keepwarm_tests::certificates::{Authority, TlsClient};
use keepwarm_tests::{Server, admin, apps, process, python, tools};
use serde_json::Value;

const SECONDS: &str = "10";
/// An attack that takes longer is not cut: far above the limits below, on a machine that runs the other tests too.
const PATIENCE: &str = "60";
const BOUND: Duration = Duration::from_secs(240);

/// Short, but not for the good client: a thread makes one step of one handshake in each of its turns, and the first 46 come at once to a debug build.
const LIMITS: &str = r#"head_timeout = "4s", write_timeout = "2s", body_grace = "2s", idle_timeout = "10s""#;
const TLS_LIMITS: &str = r#", handshake_timeout = "5s""#;

/// KiB. There are 46 connections at once; four of them leave responses unread, of up to 4 MiB for each of up to four streams.
const MEMORY: u64 = 64 << 10;

fn start(authority: &Authority) -> Server {
    let site = fs::read_to_string(apps().join("attacks/site.toml")).expect("the site");
    let site = site.replace("@LIMITS@", LIMITS).replace("@TLS_LIMITS@", TLS_LIMITS);
    Server::start_with(&site.replace("@PORT@", "0").replace("@ADMIN@", "0"), |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        authority.identity(&["localhost"]).write(folder, "site");
    })
}

#[test]
fn each_attack_is_cut_and_counted_while_others_are_served() {
    let authority = Authority::default();
    let server = start(&authority);
    let good = || TlsClient::connect(server.address(), "localhost", authority.client(None));
    ask(&mut good().expect("a session"), &server);
    let over = AtomicBool::new(false);
    let before = process::resident_kib(server.pid());
    let (seen, served, most) = std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let (mut kept, mut served) = (good().expect("a session"), 0);
            while !over.load(Ordering::Relaxed) {
                if served % 1000 == 0 {
                    kept = good().expect("another session"); // a connection has `connection_requests`
                }
                ask(&mut kept, &server);
                ask(&mut good().expect("a new session, too"), &server);
                served += 2;
            }
            served
        });
        let most = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = process::resident_kib(server.pid()).max(most);
                // Sampled: memory has no event to wait for.
                std::thread::sleep(Duration::from_millis(20));
            }
            most
        });
        // A failure here must end the others, or the scope waits for them.
        let seen = std::panic::catch_unwind(|| attack(&server));
        over.store(true, Ordering::Relaxed);
        (seen, served.join(), most.join().expect("memory is read"))
    });
    let seen = seen.expect("the attacks ran");
    println!("{seen:#?}\n{} KiB before, {most} at most", before);
    assert!(served.expect("the good client is served") > 20, "the good client was held up");
    assert!(most.saturating_sub(before) < MEMORY, "{before} KiB before, {most} at most");
    let mut expected: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, attack) in &seen {
        let (made, cut) =
            (attack["made"].as_u64().expect("a count"), attack["cut"].as_u64().expect("a count"));
        assert!(made > 0 && made == cut, "{name}: {cut} of {made} were cut\n{seen:#?}");
        if let Some(metric) = attack["metric"].as_str() {
            *expected.entry(metric).or_default() += cut as f64;
        }
    }
    for (metrics, least) in expected {
        process::wait_until(metrics, BOUND, || {
            let all = admin::metrics(&server);
            metrics.split(" + ").filter_map(|metric| all.get(metric)).sum::<f64>() >= least
        });
    }
}

#[track_caller]
fn ask(client: &mut TlsClient, server: &Server) {
    let (status, text) = client
        .ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
    assert!(status == 200 && text.ends_with("hello"), "{text}");
}

/// What became of each attack.
fn attack(server: &Server) -> serde_json::Map<String, Value> {
    let mut command = Command::new(python());
    command.arg(apps().join("attacks/attacks.py"));
    command.args([&server.address().port().to_string(), SECONDS, PATIENCE]);
    let seen: Value = serde_json::from_str(&tools::run_ok(&mut command, BOUND)).expect("JSON");
    seen.as_object().expect("by name").clone()
}
