//! Traces, metrics and logs in a real OpenTelemetry collector (`tests/apps/otel_collector`): what it understood comes back as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use keepwarm_tests::daemon::Daemon;
use keepwarm_tests::origin::{After, Origin, ok};
use keepwarm_tests::otlp::Collector;
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::{free_port, go_program};
use keepwarm_tests::{Server, admin, get};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// A collector that sends everything on to `sink`, and its port.
fn start(sink: &Origin) -> (Daemon, u16) {
    let port = free_port();
    let config = format!(
        "receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: \"127.0.0.1:{port}\" }} }} }} }}\n\
         exporters: {{ otlphttp: {{ endpoint: \"http://{}\", encoding: json, compression: none }} }}\n\
         service: {{ pipelines: {{ traces: {{ receivers: [otlp], exporters: [otlphttp] }}, metrics: {{ receivers: [otlp], exporters: [otlphttp] }}, logs: {{ receivers: [otlp], exporters: [otlphttp] }} }} }}\n",
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
    for request in sink.requests().iter().filter(|request| request.target() == "/v1/traces") {
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

/// The newest metrics that came to the sink, by name.
fn metrics(sink: &Origin) -> BTreeMap<String, Value> {
    let requests = sink.requests();
    let newest = requests.iter().rev().find(|request| request.target() == "/v1/metrics");
    let Some(request) = newest else { return BTreeMap::new() };
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let scopes =
        list(&body["resourceMetrics"]).into_iter().flat_map(|resource| list(&resource["scopeMetrics"]));
    let all = scopes.flat_map(|scope| list(&scope["metrics"]));
    all.map(|metric| (metric["name"].as_str().expect("a name").to_owned(), metric)).collect()
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

/// What `/metrics` has, and nothing else: the same names once a collector gives them to Prometheus, and the same values.
#[test]
fn a_collector_understands_every_metric() {
    let sink = sink();
    let (_collector, port) = start(&sink);
    let server = Server::start(&format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/fixed\"\nrespond = 204\n\
         [[listen.main.route]]\napp = \"app\"\n[app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [upstream.collector]\nurl = \"http://127.0.0.1:{port}\"\n[otlp]\nupstream = \"collector\"\n[otlp.metrics]\ninterval = \"100ms\"\n[otlp.traces]\ninterval = \"20ms\"\n",
    ));
    for path in ["/fixed", "/fixed", "/a"] {
        assert!(server.ask(get(path)).status < 500);
    }
    let points = |name: &str, kind: &str| list(&metrics(&sink)[name][kind]["dataPoints"]);
    let fixed = |points: Vec<Value>, code: Option<&str>| {
        points.into_iter().find(|point| {
            let attribute = |name| attribute(&point["attributes"], name);
            attribute("route").as_deref() == Some("/fixed")
                && (code.is_none() || attribute("code").as_deref() == code)
        })
    };
    wait_until("the requests arrive", LONG, || {
        metrics(&sink).contains_key("keepwarm_request_app")
            && fixed(points("keepwarm_requests", "sum"), Some("2xx"))
                .is_some_and(|point| point["asInt"] == "2")
    });
    let all = metrics(&sink);
    let sum = &all["keepwarm_requests"]["sum"];
    assert_eq!((&sum["isMonotonic"], &sum["aggregationTemporality"]), (&true.into(), &2.into()));
    let duration = &all["keepwarm_request_duration"];
    assert_eq!(duration["unit"], "s");
    let point = fixed(list(&duration["histogram"]["dataPoints"]), None).expect("a histogram of the route");
    assert_eq!((point["count"].as_str(), list(&point["bucketCounts"]).len()), (Some("2"), 17), "{point}");
    let trace =
        list(&point["exemplars"]).first().and_then(|exemplar| exemplar["traceId"].as_str().map(str::len));
    assert_eq!(trace, Some(32), "{point}");
    // The names and kinds of the text format.
    let text =
        admin::get(&server, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n").text();
    let scraped: BTreeSet<(String, String)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    let sent = || -> BTreeSet<(String, String)> {
        let named = |(name, metric): (String, Value)| {
            let unit = match metric["unit"].as_str() {
                Some("s") => "_seconds",
                Some("By") => "_bytes",
                _ => "",
            };
            let kind = [("sum", "counter"), ("gauge", "gauge"), ("histogram", "histogram")];
            let kind = kind.iter().find(|(member, _)| metric.get(*member).is_some()).expect("a kind").1;
            (format!("{name}{unit}"), kind.to_owned())
        };
        metrics(&sink).into_iter().map(named).collect()
    };
    wait_until("all are sent", LONG, || sent() == scraped);
}

#[test]
fn a_collector_understands_every_record_of_the_log() {
    let sink = sink();
    let (_collector, port) = start(&sink);
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[app.app]\nentry = \"failing_app:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [upstream.collector]\nurl = \"http://127.0.0.1:{port}\"\n[otlp]\nupstream = \"collector\"\nservice_name = \"shop\"\n[otlp.logs]\ninterval = \"20ms\"\n",
    );
    let server = Server::spawn(&config, |command| {
        let file = command.get_current_dir().expect("a folder").join("failing_app.py");
        let app = "def application(environ, start_response):\n    raise ValueError('no such card')\n";
        std::fs::write(file, app).expect("written");
    })
    .listening();
    assert_eq!(server.ask(get("/")).status, 500);
    let records = || -> Vec<(Value, Value)> {
        let requests = sink.requests();
        let of_logs = requests.iter().filter(|request| request.target() == "/v1/logs");
        let bodies = of_logs.map(|request| serde_json::from_slice::<Value>(&request.body).expect("JSON"));
        bodies
            .flat_map(|body| list(&body["resourceLogs"]))
            .flat_map(|resource| {
                let attributes = resource["resource"]["attributes"].clone();
                let scopes = list(&resource["scopeLogs"]).into_iter();
                let records = scopes.flat_map(|scope| list(&scope["logRecords"]));
                records.map(|record| (record, attributes.clone())).collect::<Vec<_>>()
            })
            .collect()
    };
    let traceback = || {
        let has_it = |record: &Value| {
            record["body"]["stringValue"].as_str().is_some_and(|body| body.contains("no such card"))
        };
        records().into_iter().find(|(record, _)| has_it(record))
    };
    wait_until("the traceback arrives", LONG, || traceback().is_some());
    let (record, resource) = traceback().expect("it stays");
    assert_eq!(attribute(&resource, "service.name").as_deref(), Some("shop"));
    assert_eq!(record["severityText"], "ERROR", "{record}");
    assert_eq!(record["severityNumber"], 17);
    assert_eq!(record["eventName"], "app_output");
    assert_eq!(attribute(&record["attributes"], "keepwarm.app").as_deref(), Some("app"));
    assert_eq!(attribute(&record["attributes"], "log.iostream").as_deref(), Some("stderr"));
    assert!(!server.log().contains("did not accept"), "{}", server.log());
}

/// What was counted since the last interval is sent at the end.
#[test]
fn the_last_metrics_are_sent_at_the_end() {
    let collector = Collector::start();
    let server = Server::start(&format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ respond = 204 }}]\n[upstream.collector]\nurl = \"http://{}\"\n\
         [otlp]\nupstream = \"collector\"\n[otlp.metrics]\ninterval = \"1h\"\n",
        collector.address()
    ));
    server.ask(get("/"));
    assert!(collector.requests().is_empty());
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    let got = collector.requests();
    let [got] = got.as_slice() else { panic!("{got:?}") };
    assert_eq!((got.method(), got.target()), ("POST", "/v1/metrics"));
    assert!(!server.log().contains("telemetry"), "{}", server.log());
}
