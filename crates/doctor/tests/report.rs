//! Reports, whole, against golden texts. `UPDATE_GOLDEN=1 cargo test -p keepwarm-doctor --test report` rewrites them; read them then.

use std::path::Path;
use std::time::Duration;

use keepwarm_doctor::report::{Style, json, table, text};
use keepwarm_doctor::{Examination, Finding, ProbeResult, Server, Target};

fn result(id: &'static str, title: &'static str, findings: Vec<Finding>) -> ProbeResult {
    ProbeResult { id, title, findings, took: Duration::from_millis(125) }
}

fn with_fix(mut finding: Finding, fix: &str) -> Finding {
    finding.fix = Some(fix.to_owned());
    finding
}

fn target(url: &str) -> Target {
    Target::parse(url).unwrap_or_else(|error| panic!("{error}"))
}

/// A server with something of everything.
fn ill() -> Examination {
    Examination {
        label: None,
        asked: target("http://shop.example/"),
        target: target("https://shop.example/cart?full=1"),
        server: Server::WebRick,
        reached: true,
        results: vec![
            result(
                "reach",
                "reachability",
                vec![Finding::good(
                    "reach.redirects",
                    "one redirect from http://shop.example/ to https://shop.example/cart?full=1, which was checked",
                )],
            ),
            result(
                "persistence",
                "connection keep-alive and close",
                vec![
                    Finding::good(
                        "persistence.http11",
                        "GET /cart?full=1 HTTP/1.1: 200 after 1.20 ms, and the connection serves again",
                    ),
                    Finding::warning(
                        "persistence.requests",
                        "closed after 1 request on a connection, without announcement",
                    )
                    .costs("4.10 ms a request"),
                    with_fix(
                        Finding::bad(
                            "persistence.http10",
                            "GET /cart?full=1 HTTP/1.0: 200 after 1.10 ms, and still open 1.50 s later",
                        )
                        .costs("more than 1.50 s on every request of such a client"),
                        "Close the connection after a response to HTTP/1.0 without keep-alive, and send Connection: close.",
                    ),
                    Finding::unknown("persistence.idle", "not measured without --slow"),
                ],
            ),
            result(
                "expect",
                "response to Expect: 100-continue",
                vec![
                    Finding::good(
                        "expect.continue",
                        "OPTIONS with 14 bytes: 100 after 0.40 ms, 200 after 1.20 ms",
                    ),
                    Finding::good("expect.refused", "OPTIONS with Expect: 417-not: 417 after 0.50 ms"),
                ],
            ),
            result(
                "writes",
                "packets per response",
                vec![Finding::warning(
                    "writes.segments",
                    "a head of 212 bytes and a body of \u{1b}[31m4 bytes in 7 segments",
                )],
            ),
            result(
                "ladder",
                "timeouts of chained servers",
                vec![Finding::unknown("ladder.hops", "one hop only: name the inner servers with --via")],
            ),
        ],
        spent: (12, 31),
        took: Duration::from_millis(2340),
    }
}

/// One that is well, with a name of the caller's.
fn well() -> Examination {
    Examination {
        label: Some("listener public".to_owned()),
        asked: target("http://127.0.0.1:8080/"),
        target: target("http://127.0.0.1:8080/"),
        server: Server::Keepwarm,
        reached: true,
        results: vec![result(
            "expect",
            "response to Expect: 100-continue",
            vec![Finding::good("expect.continue", "OPTIONS with 14 bytes: 100 after 0.40 ms")],
        )],
        spent: (1, 1),
        took: Duration::from_millis(80),
    }
}

/// A target that could not be reached.
fn absent() -> Examination {
    Examination {
        label: None,
        asked: target("http://10.0.0.7/"),
        target: target("http://10.0.0.7/"),
        server: Server::Unknown,
        reached: false,
        results: vec![result(
            "reach",
            "reachability",
            vec![with_fix(
                Finding::bad(
                    "reach.connection",
                    "http://10.0.0.7/: nothing listens on 10.0.0.7:80 (connection refused)",
                ),
                "Start the server, or check the port.",
            )],
        )],
        spent: (0, 0),
        took: Duration::from_millis(1),
    }
}

fn golden(name: &str, got: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let written = std::fs::write(&file, got);
        assert!(written.is_ok(), "{name}: {written:?}");
    }
    let wanted = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(got, wanted, "{name}");
}

#[test]
fn a_report_can_be_pasted_into_a_ticket() {
    let plain = Style::default();
    golden("ill.txt", &text(&ill(), plain));
    golden("ill-all.txt", &text(&ill(), Style { all: true, ..plain }));
    golden("well.txt", &text(&well(), plain));
    golden("absent.txt", &text(&absent(), plain));
}

#[test]
fn colors_change_nothing_else() {
    let painted = text(&ill(), Style { colors: true, all: true });
    assert!(painted.contains("\x1b[31mBAD\x1b[0m"), "{painted}");
    let mut bare = painted;
    for code in [0, 31, 32, 33, 36] {
        bare = bare.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(bare, text(&ill(), Style { colors: false, all: true }));
}

#[test]
fn several_stand_side_by_side() {
    golden("table.txt", &table(&[ill(), well(), absent(), well(), ill()], Style::default()));
}

#[test]
fn machines_get_all_of_it() {
    golden("ill.json", &format!("{:#}\n", json(&ill())));
    golden("absent.json", &format!("{:#}\n", json(&absent())));
}
