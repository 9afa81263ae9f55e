//! Traces in a real OpenTelemetry collector (`tests/apps/otel_collector`): what it understood comes back as JSON.

use std::time::Duration;

use keepwarm_tests::daemon::Daemon;
use keepwarm_tests::origin::{After, Origin, ok};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::{free_port, go_program};
use keepwarm_tests::{Server, get};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// A collector that sends everything on to `sink`, and its port.
fn start(sink: &Origin) -> (Daemon, u16) {
    let port = free_port();
    let config = format!(
        "receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: \"127.0.0.1:{port}\" }} }} }} }}\n\
         exporters: {{ otlphttp: {{ endpoint: \"http://{}\", encoding: json, compression: none }} }}\n\
         service: {{ pipelines: {{ traces: {{ receivers: [otlp], exporters: [otlphttp] }} }} }}\n",
        sink.address()
    );
    let program = go_program("otel-collector");
    let daemon = Daemon::start(program.to_str().expect("UTF-8"), &config, &["--config", "@CONF@"]);
    daemon.wait_for_port(port);
    (daemon, port)
}

/// Where the collector sends what it has understood.
fn sink() -> Origin {
    Origin::start(|_, stream| {
        ok(stream, b"{}");
        After::Keep
    })
}

/// The spans that came to the sink, each with the attributes of its resource.
fn spans(sink: &Origin) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    for request in sink.requests() {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        for resource in list(&body["resourceSpans"]) {
            for scope in list(&resource["scopeSpans"]) {
                assert_eq!(scope["scope"]["name"], "keepwarm");
                let of = |span: Value| (span, resource["resource"]["attributes"].clone());
                all.extend(list(&scope["spans"]).into_iter().map(of));
            }
        }
    }
    all
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// A text, or a number as text (proto3's JSON has 64-bit numbers so).
fn attribute(attributes: &Value, name: &str) -> Option<String> {
    let found = list(attributes).into_iter().find(|attribute| attribute["key"] == name)?;
    let value = &found["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).map(str::to_owned)
}

#[test]
fn a_collector_understands_every_span() {
    let sink = sink();
    let (_collector, port) = start(&sink);
    let origin = Origin::fixed("found");
    let server = Server::start(&format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/search/*\"\nupstream = \"search\"\n\
         [[listen.main.route]]\napp = \"app\"\n[app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [upstream.search]\nurl = \"http://{}\"\n[upstream.collector]\nurl = \"http://127.0.0.1:{}\"\n\
         [otlp]\nupstream = \"collector\"\nservice_name = \"shop\"\n[otlp.traces]\ninterval = \"20ms\"\n",
        origin.address(),
        port
    ));
    assert!(server.ask(get("/missing?a=%C3%BC")).status < 500);
    assert_eq!(server.ask(get("/search/a")).status, 200);
    wait_until("five spans arrive", LONG, || spans(&sink).len() >= 5);
    let all = spans(&sink);
    let with = |kind: i64, name: &str| {
        let is_it = |span: &&(Value, Value)| span.0["kind"] == kind && span.0["name"] == name;
        let found = all.iter().find(is_it);
        found.unwrap_or_else(|| panic!("{kind} {name}\n{all:#?}")).clone()
    };
    let (request, resource) = with(2, "GET /search/*");
    assert_eq!(attribute(&resource, "service.name").as_deref(), Some("shop"));
    assert_eq!(attribute(&resource, "process.pid"), Some(server.pid().to_string()));
    assert_eq!(attribute(&request["attributes"], "url.path").as_deref(), Some("/search/a"));
    assert_eq!(attribute(&request["attributes"], "http.response.status_code").as_deref(), Some("200"));
    let (attempt, _) = with(3, "GET");
    assert_eq!((&attempt["traceId"], &attempt["parentSpanId"]), (&request["traceId"], &request["spanId"]));
    assert_eq!(request["traceId"].as_str().map(str::len), Some(32));
    let sent = origin.last().field("traceparent").map(str::to_owned).expect("a parent");
    assert!(sent.contains(attempt["spanId"].as_str().unwrap()), "{sent}");
    let (app, _) = with(1, "app");
    let (queue, _) = with(1, "queue");
    assert_eq!((&app["traceId"], &app["parentSpanId"]), (&queue["traceId"], &queue["parentSpanId"]));
    let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(&queue, "endTimeUnixNano") <= time(&app, "startTimeUnixNano"), "{queue}\n{app}");
    assert_eq!(request["status"].as_object().map(serde_json::Map::len).unwrap_or(0), 0, "{request}");
    assert!(!server.log().contains("did not accept"), "{}", server.log());
}
