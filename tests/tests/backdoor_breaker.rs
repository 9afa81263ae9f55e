//! One fault of an upstream does not refuse other calls: a page that fails, an endpoint that is away for a moment.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keepwarm_tests::origin::{After, Origin, ok};
use keepwarm_tests::tools::nobody;
use keepwarm_tests::{Server, process};

const LONG: Duration = Duration::from_secs(30);

fn door(endpoints: &str) -> Server {
    Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nendpoints = [{endpoints}]\nbind = \"127.0.0.1:0\"\n"
    ))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
}

fn with_a_bad_page() -> Origin {
    Origin::start(|request, stream| {
        match request.target() {
            "/bad" => stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno").unwrap(),
            _ => ok(stream, b"good"),
        }
        After::Keep
    })
}

/// Visitors of a page that fails hammer it; others visit another all the time.
fn assert_others_are_served(server: &Server) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.client();
                while !done.load(Ordering::SeqCst) {
                    assert_eq!(client.ask(get("/bad")).status, 500);
                }
            });
        }
        let mut client = server.client();
        let statuses: Vec<u16> = (0..200).map(|_| client.ask(get("/good")).status).collect();
        done.store(true, Ordering::SeqCst);
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    });
}

#[test]
fn a_page_that_fails_does_not_refuse_other_pages() {
    let origin = with_a_bad_page();
    let server = door(&format!("{{ url = \"http://{}\" }}", origin.address()));
    assert_others_are_served(&server);
    let log = server.log();
    assert!(!log.contains("breaker open"), "there is nowhere else to go\n{log}");
}

#[test]
fn a_page_that_fails_at_two_endpoints_does_not_refuse_other_pages() {
    let (one, two) = (with_a_bad_page(), with_a_bad_page());
    let (one, two) = (one.address(), two.address());
    assert_others_are_served(&door(&format!("{{ url = \"http://{one}\" }}, {{ url = \"http://{two}\" }}")));
}

/// Calls kept away from the first address of a name must not fail at the other, where nothing listens.
#[test]
fn a_second_endpoint_that_is_gone_does_not_fail_calls_diverted_by_a_bad_page() {
    let origin = with_a_bad_page();
    let server = door(&format!(
        "{{ url = \"http://{}\" }}, {{ url = \"http://{}\", priority = 1 }}",
        origin.address(),
        nobody()
    ));
    assert_others_are_served(&server);
}

/// Until it is `away`: then its connections are reset.
fn serve(address: SocketAddr, away: &Arc<AtomicBool>) -> Origin {
    let deadline = std::time::Instant::now() + LONG;
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => {
                let away = Arc::clone(away);
                return Origin::start_on(listener, move |_, stream: &mut TcpStream| {
                    if away.load(Ordering::SeqCst) {
                        return After::Reset;
                    }
                    ok(stream, b"here");
                    After::Keep
                });
            }
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    }
}

/// Ten callers who never pause, and the only endpoint is away for 0.3 s.
#[test]
fn a_restart_under_ten_callers_is_a_delay() {
    let address = nobody();
    let away = Arc::new(AtomicBool::new(false));
    let origin = serve(address, &away);
    let server = door(&format!("{{ url = \"http://{address}\" }}"));
    let (done, served, others) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let mut client = server.client();
                while !done.load(Ordering::SeqCst) {
                    let response = client.ask(get("/"));
                    match response.status {
                        200 => {
                            served.fetch_add(1, Ordering::SeqCst);
                        }
                        status => others.lock().unwrap().push((status, response.text())),
                    }
                }
            });
        }
        let reached = |count: usize| served.load(Ordering::SeqCst) >= count;
        process::wait_until("it is called", LONG, || reached(100));
        away.store(true, Ordering::SeqCst);
        drop(origin);
        // The test is about the length of the outage.
        std::thread::sleep(Duration::from_millis(300));
        let _origin = serve(address, &Arc::default());
        let before = served.load(Ordering::SeqCst);
        process::wait_until("it is called again", LONG, || reached(before + 500));
        done.store(true, Ordering::SeqCst);
    });
    let others = others.into_inner().unwrap();
    assert!(others.len() <= 8, "{others:?}\n{}", server.log());
    let refused = others.iter().filter(|(status, _)| *status == 503).count();
    assert_eq!(refused, 0, "those who wait are served: {others:?}\n{}", server.log());
}
