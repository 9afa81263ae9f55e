//! The clients of `examples/back-door`, through a door: each library as it is, with nothing but its address changed.

use std::process::Command;
use std::time::Duration;

use keepwarm_tests::origin::{After, Origin, ok};
use keepwarm_tests::{Server, examples, python, tools};

/// A client boots an interpreter and its library; beside others that takes longer.
const BOUND: Duration = Duration::from_secs(60);

#[test]
fn every_client_calls_through_the_door_over_one_connection() {
    let origin = Origin::start(|request, stream| {
        match request.method() {
            "GET" if request.target() == "/documents?q=warm" => ok(stream, b"found"),
            "POST" if request.target() == "/documents" => ok(stream, &request.body),
            _ => ok(stream, b"not asked for"),
        }
        After::Keep
    });
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n",
        origin.address()
    ));
    let folder = examples().join("back-door");
    let python = python().to_str().expect("a path of text");
    let clients = [
        ["php", "curl.php"],
        ["php", "guzzle.php"],
        ["php", "symfony.php"],
        ["ruby", "faraday.rb"],
        [python, "with_requests.py"],
        [python, "with_requests_https.py"],
        [python, "with_httpx.py"],
        ["node", "fetch.mjs"],
    ];
    for [interpreter, file] in clients {
        let said = tools::run_ok(
            Command::new(interpreter)
                .arg(file)
                .current_dir(&folder)
                .env("KEEPWARM_UPSTREAM_SEARCH", server.url("")),
            BOUND,
        );
        let lines: Vec<String> = said.lines().map(|line| line.replace(' ', "")).collect();
        assert_eq!(lines, ["200found", r#"{"title":"Warm"}"#], "{file}");
    }
    assert_eq!(origin.requests().len(), 2 * clients.len());
    assert!(origin.connections() < clients.len(), "{} connections", origin.connections());
}
