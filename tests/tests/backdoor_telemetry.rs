//! Telemetry of the back door: metrics, status, access records, `Server-Timing` and traces report what has happened, no more and no less.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keepwarm_tests::origin::{After, Gate, Origin, ok};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::nobody;
use keepwarm_tests::{Server, admin, get_local as get, keepwarm, tools};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// A door to this address and admin; the configuration may go on in the section.
fn door(address: SocketAddr, more: &str) -> Server {
    Server::start(&format!(
        "[server]\nthreads = 1\n[admin]\nbind = \"127.0.0.1:0\"\n[upstream.search]\nurl = \"http://{address}\"\n\
         bind = \"127.0.0.1:0\"\naccess_log = {{ format = \"json\", file = \"@DIR@/calls\" }}\n{more}"
    ))
}

/// This many lines of the access log, in order.
#[track_caller]
fn lines(server: &Server, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(server.folder().join("calls")).unwrap_or_default();
    wait_until("the calls are recorded", LONG, || read().matches('\n').count() >= count);
    let text = read();
    assert_eq!(text.lines().count(), count, "{text}");
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn records(server: &Server, count: usize) -> Vec<Value> {
    let read = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    lines(server, count).iter().map(read).collect()
}

/// The metrics of the upstream, without its label.
fn metrics(server: &Server) -> BTreeMap<String, f64> {
    let of = |(name, value): (String, f64)| {
        name.contains("upstream=\"search\"")
            .then(|| (name.replace("upstream=\"search\"", "").replace("{,", "{").replace("{}", ""), value))
    };
    admin::metrics(server).into_iter().filter_map(of).collect()
}

/// Five calls that end well: four on one connection, and one that is lost on it and made again.
fn five_calls() -> (Origin, Server) {
    let lost = AtomicBool::new(false);
    let origin = Origin::start(move |request, stream| {
        if request.target() == "/lost" && !lost.swap(true, Ordering::SeqCst) {
            return After::Reset;
        }
        ok(stream, &request.body);
        After::Keep
    });
    let server = door(origin.address(), "");
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!(client.ask(get("/a?b=c")).status, 200);
    }
    let put =
        "PUT /put HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nX-Request-Id: of-the-app\r\n\r\n12345";
    assert_eq!(client.ask(put).text(), "12345");
    assert_eq!(client.ask(get("/lost")).status, 200);
    (origin, server)
}

#[test]
fn metrics_count_calls() {
    let (origin, server) = five_calls();
    let address = origin.address();
    let calls =
        format!("keepwarm_upstream_calls_total{{upstream=\"search\",endpoint=\"{address}\",code=\"2xx\"}}");
    assert_eq!(admin::wait_for_metric(&server, &calls, 5.0), 5.0);
    let seen = metrics(&server);
    let endpoint =
        |name: &str, more: &str| format!("keepwarm_upstream_{name}{{endpoint=\"{address}\"{more}}}");
    let upstream = |name: &str, more: &str| match more {
        "" => format!("keepwarm_upstream_{name}"),
        more => format!("keepwarm_upstream_{name}{{{more}}}"),
    };
    for (name, value) in [
        (endpoint("calls_total", ",code=\"5xx\""), 0.0),
        (endpoint("call_connections_total", ",connection=\"reused\""), 3.0),
        (endpoint("call_connections_total", ",connection=\"new\""), 2.0),
        (endpoint("call_duration_seconds_count", ""), 5.0),
        (endpoint("first_byte_seconds_count", ""), 5.0),
        (endpoint("sent_bytes_total", ""), 5.0),
        (endpoint("received_bytes_total", ""), 5.0),
        (endpoint("hedges_total", ""), 0.0),
        (endpoint("endpoint_healthy", ""), 1.0),
        (endpoint("in_flight", ""), 0.0),
        (endpoint("pool_connections", ",state=\"idle\""), 1.0),
        (endpoint("pool_connections", ",state=\"in_use\""), 0.0),
        (endpoint("pool_waiting", ""), 0.0),
        (endpoint("breaker", ",state=\"closed\""), 1.0),
        (endpoint("breaker", ",state=\"open\""), 0.0),
        ("keepwarm_upstream_breaker{endpoint=\"\",state=\"closed\"}".to_owned(), 1.0),
        (upstream("retries_total", "cause=\"closed_idle\""), 1.0),
        (endpoint("lost_total", ",outcome=\"retried\""), 1.0),
        (endpoint("lost_total", ",outcome=\"failed\""), 0.0),
        (endpoint("connects_total", ""), 2.0),
        (endpoint("handshakes_total", ",kind=\"full\""), 0.0),
        (endpoint("handshakes_avoided_total", ""), 0.0),
        (upstream("endpoints", ""), 1.0),
        (upstream("queue_length", ""), 0.0),
    ] {
        assert_eq!(seen.get(&name), Some(&value), "{name}\n{seen:#?}");
    }
    let absent = ["failures_total", "refusals_total"];
    assert!(!seen.keys().any(|name| absent.iter().any(|absent| name.contains(absent))), "{seen:#?}");
}

/// Each endpoint has its own counts of connections.
#[test]
fn connections_are_counted_by_endpoint() {
    let origins = [Origin::fixed("one"), Origin::fixed("two")];
    let endpoints: Vec<String> =
        origins.iter().map(|origin| format!("{{ url = \"http://{}\" }}", origin.address())).collect();
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[admin]\nbind = \"127.0.0.1:0\"\n[upstream.search]\nendpoints = [{}]\n\
         bind = \"127.0.0.1:0\"\nbalance = \"round_robin\"\npool = {{ min_idle = 2 }}\n",
        endpoints.join(", ")
    ));
    for origin in &origins {
        let made = format!(
            "keepwarm_upstream_connects_total{{upstream=\"search\",endpoint=\"{}\"}}",
            origin.address()
        );
        assert_eq!(admin::wait_for_metric(&server, &made, 2.0), 2.0);
    }
    let status =
        admin::wait_for_status(&server, "both", |status| status["upstreams"][0]["connections"]["made"] == 4);
    assert_eq!(status["upstreams"][0]["endpoints"][1]["handshakes"]["full"], 0, "{status:#}");
}

/// A call that is made a second time elsewhere, because the first is slow, is counted where its response comes from.
#[test]
fn a_hedged_call_shows_in_the_metrics() {
    let slow = Origin::start(|_, stream| {
        // Until it is cancelled.
        let _ = stream.read(&mut [0]);
        After::Close
    });
    let quick = Origin::fixed("quick");
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[admin]\nbind = \"127.0.0.1:0\"\n[upstream.search]\nbind = \"127.0.0.1:0\"\n\
         endpoints = [{{ url = \"http://{}\" }}, {{ url = \"http://{}\" }}]\n\
         hedge = {{ after = \"100ms\", budget = \"100%\" }}\nbalance = \"round_robin\"\n",
        slow.address(),
        quick.address()
    ));
    for _ in 0..4 {
        assert_eq!(server.ask(get("/")).text(), "quick");
    }
    let lost = slow.requests().len();
    assert!(lost > 0, "the slow one was asked first, once at least");
    let hedges = |origin: &Origin| {
        format!("keepwarm_upstream_hedges_total{{upstream=\"search\",endpoint=\"{}\"}}", origin.address())
    };
    assert_eq!(admin::wait_for_metric(&server, &hedges(&quick), lost as f64), lost as f64);
    assert_eq!(admin::metrics(&server).get(&hedges(&slow)).copied().unwrap_or_default(), 0.0);
}

#[test]
fn the_status_shows_calls() {
    let (origin, server) = five_calls();
    let status = admin::wait_for_status(&server, "five calls", |status| {
        status["upstreams"][0]["endpoints"][0]["calls"]["total"] == 5
    });
    let upstream = &status["upstreams"][0];
    assert_eq!((&upstream["name"], &upstream["breaker"]), (&"search".into(), &"closed".into()));
    assert_eq!(
        (&upstream["connections"]["made"], &upstream["connections"]["lost_retried"]),
        (&2.into(), &1.into())
    );
    let endpoint = &upstream["endpoints"][0];
    assert_eq!((&endpoint["name"], &endpoint["state"]), (&origin.address().to_string().into(), &"up".into()));
    assert_eq!(
        (&endpoint["reused"], &endpoint["dialled"], &endpoint["in_flight"]),
        (&3.into(), &2.into(), &0.into())
    );
    assert_eq!((&endpoint["calls"]["2xx"], &endpoint["connections"]["idle"]), (&5.into(), &1.into()));
    assert!(endpoint["p50_seconds"].as_f64() <= endpoint["p99_seconds"].as_f64(), "{endpoint}");
    let failure = &endpoint["last_failure"];
    assert_eq!(failure["cause"], "closed_idle");
    let sentence = failure["sentence"].as_str().unwrap_or_default();
    assert!(sentence.starts_with("upstream closed an idle connection after "), "{failure}");

    let output = tools::run(Command::new(keepwarm()).arg("status").current_dir(server.folder()), LONG);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = shown.lines().find(|line| line.starts_with("search ")).unwrap_or_else(|| panic!("{shown}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let address = origin.address().to_string();
    assert_eq!(words[..8], ["search", &address, "up", "5", "0", "0", "60%", "1/1"], "{line}");
    assert!(line.contains("upstream closed an idle connection after ") && line.ends_with(" ago"), "{line}");
}

#[test]
fn each_call_has_a_record() {
    let (origin, server) = five_calls();
    let all = records(&server, 5);
    let reused: Vec<bool> = all.iter().map(|call| call["reused"] == true).collect();
    assert_eq!(reused, [false, true, true, true, false]);
    for call in &all {
        assert_eq!((&call["upstream"], &call["status"]), (&"search".into(), &200.into()), "{call}");
        assert_eq!(call["endpoint"], origin.address().to_string(), "{call}");
        assert_eq!(call["idle_seconds"].is_number(), call["reused"] == true, "{call}");
        let seconds = |name: &str| call[name].as_f64().unwrap_or_else(|| panic!("{name}: {call}"));
        let parts = ["queue_seconds", "connect_seconds", "first_byte_seconds", "body_seconds"].map(seconds);
        assert!(parts.iter().sum::<f64>() <= seconds("seconds") + 1e-5, "{call}");
        assert_eq!((call["request_id"].as_str().map(str::len), &call["reason"]), (Some(32), &Value::Null));
        assert_eq!(call["trace_id"], call["request_id"], "no trace was named: it begins here");
    }
    assert_eq!((&all[0]["method"], &all[0]["target"]), (&"GET".into(), &"/a?b=c".into()));
    let put = &all[3];
    assert_eq!(
        (&put["sent_bytes"], &put["received_bytes"], &put["attempts"]),
        (&5.into(), &5.into(), &1.into())
    );
    assert_eq!((&put["app_request_id"], &put["failures"]), (&"of-the-app".into(), &Value::Null));
    let lost = &all[4];
    assert_eq!(
        (&lost["attempts"], lost["failures"].as_array().map(Vec::len)),
        (&2.into(), Some(1)),
        "{lost}"
    );
    let failure = &lost["failures"][0];
    assert_eq!((&failure["cause"], &failure["endpoint"]), (&"closed_idle".into(), &lost["endpoint"]));
    let sentence = failure["sentence"].as_str().unwrap_or_default();
    assert!(sentence.starts_with("upstream closed an idle connection after "), "{failure}");
}

#[test]
fn failed_and_refused_calls_are_counted_separately() {
    let address = nobody();
    let server = door(
        address,
        "retries = 1\nserver_timing = true\n[upstream.search.breaker]\nfailures = 4\nopen = \"60s\"\nmax_open = \"60s\"\n",
    );
    let mut client = server.client();
    let mut responses = Vec::new();
    for _ in 0..3 {
        let response = client.ask(get("/"));
        let timing = response.field("server-timing").unwrap_or_default();
        let (begin, what) = timing.split_once(";desc=").unwrap_or_default();
        assert!(begin.starts_with("egress;dur="), "{timing}");
        responses.push((response.status, what.trim_matches('"').to_owned()));
    }
    let told = |status, what: &str| (status, what.to_owned());
    assert_eq!(
        responses,
        [told(502, "connect_refused"), told(502, "connect_refused"), told(503, "breaker_open")]
    );
    let refused = "keepwarm_upstream_refusals_total{upstream=\"search\",reason=\"breaker_open\"}";
    admin::wait_for_metric(&server, refused, 1.0);
    let seen = metrics(&server);
    for (name, value) in [
        ("keepwarm_upstream_retries_total{cause=\"connect_refused\"}".to_owned(), 2.0),
        ("keepwarm_upstream_failures_total{cause=\"connect_refused\"}".to_owned(), 2.0),
        ("keepwarm_upstream_refusals_total{reason=\"breaker_open\"}".to_owned(), 1.0),
        ("keepwarm_upstream_breaker{endpoint=\"\",state=\"open\"}".to_owned(), 1.0),
        (format!("keepwarm_upstream_breaker{{endpoint=\"{address}\",state=\"open\"}}"), 1.0),
        (format!("keepwarm_upstream_calls_total{{endpoint=\"{address}\",code=\"5xx\"}}"), 2.0),
        ("keepwarm_upstream_calls_total{endpoint=\"\",code=\"5xx\"}".to_owned(), 1.0),
        (
            format!("keepwarm_upstream_call_connections_total{{endpoint=\"{address}\",connection=\"new\"}}"),
            0.0,
        ),
        (format!("keepwarm_upstream_connects_failed_total{{endpoint=\"{address}\"}}"), 4.0),
    ] {
        assert_eq!(seen.get(&name), Some(&value), "{name}\n{seen:#?}");
    }
    let all = records(&server, 3);
    assert_eq!(
        (&all[0]["status"], &all[0]["attempts"], &all[0]["reason"]),
        (&502.into(), &2.into(), &"connect_refused".into())
    );
    assert_eq!((all[0]["failures"].as_array().map(Vec::len), &all[0]["reused"]), (Some(2), &Value::Null));
    assert_eq!(
        (&all[2]["status"], &all[2]["attempts"], &all[2]["endpoint"]),
        (&503.into(), &0.into(), &Value::Null)
    );
    let endpoint = &admin::status(&server)["upstreams"][0]["endpoints"][0];
    assert_eq!(endpoint["state"], "open");
    assert!(
        endpoint["last_failure"]["sentence"]
            .as_str()
            .is_some_and(|it| it.contains("could not be connected to")),
        "{endpoint}"
    );
}

#[test]
fn calls_refused_by_a_door_are_logged() {
    let origin = Origin::fixed("hello");
    let server = door(origin.address(), "");
    assert_eq!(server.ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
    let record = records(&server, 1).remove(0);
    assert_eq!(
        (&record["status"], &record["attempts"], &record["trace_id"]),
        (&403.into(), &0.into(), &Value::Null)
    );
    let reason = record["reason"].as_str().expect("a reason");
    let refusals = format!("keepwarm_upstream_refusals_total{{upstream=\"search\",reason=\"{reason}\"}}");
    assert_eq!(admin::wait_for_metric(&server, &refusals, 1.0), 1.0);
    assert_eq!(origin.connections(), 0);
}

/// Of a head that could not be read, the method is not known either.
#[test]
fn a_malformed_call_has_no_method() {
    let origin = Origin::fixed("hello");
    let server = door(origin.address(), "");
    assert_eq!(server.ask("POST /a HTTP/1.1\r\n\r\n").status, 400);
    let record = records(&server, 1).remove(0);
    assert_eq!((&record["reason"], &record["method"]), (&"no_host".into(), &Value::Null), "{record}");
    assert_eq!(record["target"], Value::Null, "{record}");
}

/// A tunnel has no bodies, but bytes.
#[test]
fn the_bytes_of_a_tunnel_are_counted() {
    let origin = Origin::start(|_, stream| {
        let mut from_client = [0; 5];
        let _ = stream
            .write_all(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n")
            .and_then(|()| stream.read_exact(&mut from_client))
            .and_then(|()| stream.write_all(b"0123456789"));
        After::Close
    });
    let server = door(origin.address(), "");
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.head("GET").0, 101);
    client.send("hello");
    assert_eq!(client.read_exact(10), b"0123456789");
    let record = records(&server, 1).remove(0);
    assert_eq!((&record["sent_bytes"], &record["received_bytes"]), (&5.into(), &10.into()), "{record}");
    let all = metrics(&server);
    let sum = |name: &str| all.iter().filter(|(key, _)| key.starts_with(name)).map(|(_, value)| value).sum();
    let (sent, received): (f64, f64) =
        (sum("keepwarm_upstream_sent_bytes_total"), sum("keepwarm_upstream_received_bytes_total"));
    assert_eq!((sent, received), (5.0, 10.0));
}

/// The upstream has failed, and its response is cut: Keepwarm has not responded with an error.
#[test]
fn a_response_that_is_cut_is_no_refusal() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        held.wait();
        After::Close
    });
    let server = door(origin.address(), "");
    let mut client = server.client();
    client.send(get("/"));
    assert_eq!(client.head("GET").0, 200);
    gate.open();
    client.read_to_end();
    let record = records(&server, 1).remove(0);
    assert_eq!((&record["status"], &record["reason"]), (&200.into(), &"truncated".into()), "{record}");
    let all = admin::metrics(&server);
    let refusals: Vec<_> = all.iter().filter(|(name, _)| name.contains("refusals_total{")).collect();
    assert!(refusals.is_empty(), "{refusals:?}");
    assert_eq!(all[r#"keepwarm_upstream_failures_total{upstream="search",cause="truncated"}"#], 1.0);
}

#[test]
fn a_call_above_the_rate_is_counted_and_recorded() {
    let origin = Origin::fixed("hello");
    let server = door(
        origin.address(),
        "rate_limit = \"tight\"\n[rate_limit.tight]\nrate = \"1/h\"\nburst = 1\nkey = \"all\"\n",
    );
    let mut client = server.client();
    assert_eq!((client.ask(get("/")).status, client.ask(get("/")).status), (200, 429));
    let refusals = "keepwarm_upstream_refusals_total{upstream=\"search\",reason=\"rate_limited\"}";
    assert_eq!(admin::wait_for_metric(&server, refusals, 1.0), 1.0);
    let record = records(&server, 2).remove(1);
    assert_eq!((&record["status"], &record["reason"]), (&429.into(), &"rate_limited".into()), "{record}");
    assert_eq!((&record["attempts"], &record["endpoint"]), (&0.into(), &Value::Null), "{record}");
}

#[test]
fn server_timing_shows_connection_reuse() {
    let origin = Origin::start(|_, stream| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\nServer-Timing: db;dur=1\r\nContent-Length: 2\r\n\r\nok");
        After::Keep
    });
    let server = door(origin.address(), "server_timing = true\n");
    let mut client = server.client();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let response = client.ask(get("/"));
        let values: Vec<String> = response
            .fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("server-timing"))
            .map(|(_, value)| value.clone())
            .collect();
        assert_eq!(
            (values.len(), values[0].as_str()),
            (2, "db;dur=1"),
            "the upstream's own is passed: {values:?}"
        );
        let rest = values[1].strip_prefix("egress;dur=").unwrap_or_else(|| panic!("{values:?}"));
        let (time, what) = rest.split_once(';').unwrap_or_else(|| panic!("{values:?}"));
        assert!(time.parse::<f64>().is_ok_and(|time| time >= 0.0) && time.contains('.'), "{time}");
        seen.push(what.to_owned());
    }
    assert_eq!(seen, ["desc=\"new\"", "desc=\"reused\""]);
    let quiet = door(origin.address(), "");
    let response = quiet.ask(get("/"));
    assert_eq!(response.field("server-timing"), Some("db;dur=1"));
}

#[test]
fn a_call_continues_its_trace_or_begins_one() {
    let origin = Origin::fixed("hello");
    let server = door(origin.address(), "");
    let mut client = server.client();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let named = [
        (format!("Traceparent: {parent}\r\nTracestate: a=1\r\nTracestate: b=2\r\n"), true),
        ("Tracestate: a=1\r\n".to_owned(), false),
        (format!("traceparent: {parent}\r\ntraceparent: {parent}\r\ntracestate: a=1\r\n"), false),
        (format!("traceparent: {}\r\ntracestate: a=1\r\n", parent.to_uppercase()), false),
        (String::new(), false),
    ];
    for (fields, _) in &named {
        assert_eq!(client.ask(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")).status, 200);
    }
    let records = records(&server, named.len());
    let mut spans = Vec::new();
    for ((fields, goes_on), (request, record)) in named.iter().zip(origin.requests().iter().zip(&records)) {
        assert_eq!(request.head.to_lowercase().matches("traceparent:").count(), 1, "{}", request.head);
        let sent = request.field("traceparent").expect("one");
        let parts: Vec<&str> = sent.split('-').collect();
        assert_eq!((parts.len(), parts[0], parts[1].len(), parts[2].len()), (4, "00", 32, 16), "{sent}");
        assert_eq!(record["trace_id"], parts[1], "{fields}");
        assert_eq!(parts[1] == "4bf92f3577b34da6a3ce929d0e0e4736", *goes_on, "{fields}");
        assert_eq!(parts[3], if *goes_on { "01" } else { "00" }, "{fields}");
        assert_eq!(request.head.to_lowercase().contains("tracestate: a=1"), *goes_on, "{}", request.head);
        spans.push(parts[2].to_owned());
    }
    spans.push("00f067aa0ba902b7".to_owned());
    spans.sort_unstable();
    let count = spans.len();
    spans.dedup();
    assert_eq!(spans.len(), count, "each call has a name of its own: {spans:?}");
}

#[test]
fn a_server_that_keeps_no_connection_is_a_stall() {
    let closes = Arc::new(AtomicBool::new(true));
    let closing = Arc::clone(&closes);
    let origin = Origin::start(move |_, stream| {
        if !closing.load(Ordering::SeqCst) {
            ok(stream, b"ok");
            return After::Keep;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        After::Close
    });
    let server = door(origin.address(), "");
    let mut client = server.client();
    for _ in 0..12 {
        assert_eq!(client.ask(get("/")).status, 200);
    }
    let stalls = "keepwarm_stalls_total{app=\"search\",kind=\"handshake_per_call\"}";
    // Calls that come at once need as many connections: it takes more than eight in a row to know.
    assert_eq!(admin::wait_for_metric(&server, stalls, 4.0), 4.0);
    let line = server.wait_for_log("handshake_per_call", LONG);
    assert!(line.contains("search") && line.contains("let its server keep them"), "{line}");
    assert_eq!(server.log().matches("handshake_per_call").count(), 1, "said once");
    closes.store(false, Ordering::SeqCst);
    for _ in 0..12 {
        assert_eq!(client.ask(get("/")).status, 200);
    }
    assert_eq!(records(&server, 24).iter().filter(|call| call["reused"] == true).count(), 11);
    assert_eq!(admin::wait_for_metric(&server, stalls, 5.0), 5.0, "the first of them still had to");
}

#[test]
fn the_access_log_of_an_upstream_can_be_text_and_changes_with_a_reload() {
    let origin = Origin::fixed("hello");
    let config = |log: &str| {
        format!(
            "[server]\nthreads = 1\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\naccess_log = {log}\n",
            origin.address()
        )
    };
    let server = Server::start(&config("{ format = \"text\", file = \"@DIR@/calls\" }"));
    let mut client = server.client();
    client.ask(get("/a?b"));
    let line = lines(&server, 1).remove(0);
    let begin = format!("search {} [", origin.address());
    assert!(
        line.starts_with(&begin)
            && line.contains("] \"GET /a?b\" 200 0 5 0.")
            && line.contains(" new 1 \"-\" - "),
        "{line}"
    );
    server.reload_with(&config("\"off\""));
    assert_eq!(client.ask(get("/unrecorded")).status, 200);
    server.reload_with(&config("{ format = \"text\", file = \"@DIR@/calls\" }"));
    client.ask(get("/last"));
    let all = lines(&server, 2);
    assert!(all[1].contains("GET /last") && all[1].contains(" reused/"), "{all:?}");
}
