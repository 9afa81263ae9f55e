//! Connections that are made before a call asks for them.

use std::time::Duration;

use keepwarm_tests::Server;
use keepwarm_tests::origin::Origin;
use rustix::process::Signal;

fn config(origin: &Origin, pool: &str) -> String {
    format!(
        "[server]\nthreads = 2\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\npool = {pool}\n",
        origin.address()
    )
}

#[test]
fn min_idle_are_there_before_the_first_call_and_follow_a_reload() {
    let origin = Origin::fixed("hello");
    let server = Server::start(&config(&origin, "{ min_idle = 2, max = 6 }"));
    origin.wait_until("two connections", |origin| origin.open() == 2);
    assert!(origin.requests().is_empty());
    for _ in 0..5 {
        let answer = server.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    }
    // One in use leaves one idle, beside which a third is made; no call had to make any.
    assert!(origin.connections() <= 3, "{}", origin.connections());
    let mark = server.mark();
    server.configure(&config(&origin, "{ min_idle = 5, max = 6 }"));
    server.signal(Signal::HUP);
    server.wait_for_log_after(mark, "reloaded in", Duration::from_secs(20));
    origin.wait_until("five connections", |origin| origin.open() == 5);
}
