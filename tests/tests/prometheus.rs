//! A real Prometheus scrapes `/metrics`: what `packaging/monitoring` asks for is there, its rules hold, and exemplars lead to traces.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::daemon::Daemon;
use keepwarm_tests::origin::Origin;
use keepwarm_tests::otlp::Collector;
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::{free_port, run_ok};
use keepwarm_tests::{Client, Failure, Server, admin, get, root};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(90);

fn monitoring() -> PathBuf {
    root().join("packaging/monitoring")
}

/// A Prometheus of the test's own.
struct Prometheus {
    _daemon: Daemon,
    address: SocketAddr,
}

impl Prometheus {
    fn scraping(target: SocketAddr) -> Self {
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\n\
             scrape_configs: [{{ job_name: keepwarm, static_configs: [{{ targets: [\"{target}\"] }}] }}]\n"
        );
        let port = free_port();
        let listen = format!("--web.listen-address=127.0.0.1:{port}");
        let arguments = [
            "--config.file=@CONF@",
            "--storage.tsdb.path=@DIR@/data",
            &listen,
            "--enable-feature=exemplar-storage",
        ];
        let daemon = Daemon::start_with("prometheus", &config, &arguments, |folder| {
            std::fs::copy(monitoring().join("rules.yml"), folder.join("rules.yml")).expect("the rules");
        });
        daemon.wait_for_port(port);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until("Prometheus is ready", LONG, || {
            Client::connect(address).ask(get("/-/ready")).status == 200
        });
        Self { _daemon: daemon, address }
    }

    /// What its API returns.
    #[track_caller]
    fn api(&self, path: &str) -> Value {
        let mut client = Client::connect(self.address).patient(LONG);
        let text = client.ask(get(&format!("/api/v1/{path}"))).text();
        let response: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(response["status"], "success", "{path}: {response:#}");
        response["data"].clone()
    }

    #[track_caller]
    fn query(&self, expression: &str) -> Vec<Value> {
        let found = self.api(&format!("query?query={}", encoded(expression)));
        found["result"].as_array().cloned().unwrap_or_default()
    }

    /// The rules that it has loaded.
    #[track_caller]
    fn rules(&self) -> Vec<Value> {
        let groups = self.api("rules")["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The expressions of the dashboard, with its variables filled in.
fn dashboard_expressions() -> Vec<String> {
    let text = std::fs::read_to_string(monitoring().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let notes = dashboard["annotations"]["list"].as_array().unwrap();
    let all = targets.chain(notes).map(|target| target["expr"].as_str().expect("an expression"));
    all.map(|expression| {
        expression
            .replace("$__rate_interval", "1m")
            .replace("\"$job\"", "\"keepwarm\"")
            .replace("\"$instance\"", "\".*\"")
    })
    .collect()
}

/// The metrics that an expression names.
fn metrics(expression: &str) -> BTreeSet<String> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == ':';
    let words = expression.split(|char| !is_name(char));
    let is_metric = |word: &&str| {
        let begins = word.starts_with("keepwarm_") || (word.starts_with("process_") && word.len() > 8);
        begins && !word.contains(':')
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

#[test]
fn the_rules_are_valid_and_fire_when_they_should() {
    let promtool = |arguments: &[&str]| {
        let mut command = Command::new("promtool");
        run_ok(command.args(arguments).current_dir(monitoring()), LONG)
    };
    assert!(promtool(&["check", "rules", "rules.yml"]).contains("SUCCESS"));
    assert!(promtool(&["test", "rules", "rules.test.yml"]).contains("SUCCESS"));
}

/// One of everything that the metrics are about.
fn server(collector: &Collector, origin: &Origin) -> Server {
    let config = format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\npath = \"/search/*\"\nupstream = \"search\"\n[[listen.main.route]]\npath = \"/app/*\"\napp = \"app\"\n[[listen.main.route]]\npath = \"/raise-late\"\napp = \"app\"\n\
         [listen.secure]\nbind = \"unix:@DIR@/secure.sock\"\ntls = {{ cert = \"@DIR@/shop.pem\", key = \"@DIR@/shop.key\" }}\nroute = [{{ respond = 204 }}]\n\
         [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [process.mail]\ncommand = [\"sleep\", \"1000\"]\nuser = \"root\"\n\
         [upstream.search]\nurl = \"http://{}\"\n[upstream.collector]\nurl = \"http://{}\"\n\
         [otlp]\nupstream = \"collector\"\n[otlp.traces]\ninterval = \"20ms\"\n",
        origin.address(),
        collector.address()
    );
    let certificate = Authority::default().identity(&["shop.example"]);
    Server::start_with(&config, |command| {
        certificate.write(command.get_current_dir().expect("a folder"), "shop");
    })
}

/// What causes each count once.
fn cause_everything(server: &Server) {
    for path in ["/app/a", "/search/a", "/missing"] {
        server.ask(get(path));
    }
    // More than waits for its end before it is sent.
    let mut cut = server.client();
    cut.send(get("/raise-late?bytes=1000000"));
    assert!(matches!(cut.try_response("GET"), Err(Failure::Cut(_) | Failure::Reset(_))));
    // A client of HTTP/1.0 that wants no kept connection: a stall that was removed.
    server.ask("GET /app/old HTTP/1.0\r\nHost: localhost\r\n\r\n");
}

#[test]
fn every_metric_of_the_dashboard_and_the_rules_exists() {
    let (collector, origin) = (Collector::start(), Origin::fixed("found"));
    let server = server(&collector, &origin);
    let prometheus = Prometheus::scraping(admin::address(&server));
    let dashboard = dashboard_expressions();
    assert!(dashboard.len() > 30, "{dashboard:?}");
    let rules = prometheus.rules();
    assert!(rules.len() >= 25, "{rules:#?}");
    let rule_expressions = rules.iter().map(|rule| rule["query"].as_str().unwrap().to_owned());
    let named: BTreeSet<String> = dashboard
        .iter()
        .cloned()
        .chain(rule_expressions)
        .flat_map(|expression| metrics(&expression))
        .collect();
    assert!(named.len() > 35, "{named:?}");
    let missing = || {
        // Rates need two samples, so what is counted is caused again.
        cause_everything(&server);
        let known = prometheus.api("label/__name__/values");
        let known: BTreeSet<String> =
            known.as_array().unwrap().iter().filter_map(Value::as_str).map(str::to_owned).collect();
        named.difference(&known).cloned().collect::<Vec<_>>()
    };
    let mut left = Vec::new();
    let all_are_there = || {
        left = missing();
        left.is_empty()
    };
    wait_until("every metric is scraped", LONG, all_are_there);
    wait_until("each panel shows something", LONG, || {
        cause_everything(&server);
        // No endpoint is unhealthy, and nothing was reloaded.
        let may_be_empty =
            |expression: &str| ["endpoint_healthy", "changes("].iter().any(|part| expression.contains(part));
        let is_empty =
            |expression: &&String| prometheus.query(expression).is_empty() && !may_be_empty(expression);
        dashboard.iter().find(is_empty).is_none()
    });
    wait_until("the rules were evaluated", LONG, || {
        let rules = prometheus.rules();
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:#?}");
        rules.iter().all(|rule| rule["health"] == "ok")
    });
    exemplars_lead_to_traces(&prometheus, &collector);
}

/// The trace that a bucket names is one that the collector has.
fn exemplars_lead_to_traces(prometheus: &Prometheus, collector: &Collector) {
    let query = encoded("keepwarm_request_duration_seconds_bucket{app=\"app\"}");
    let mut found = Vec::new();
    wait_until("exemplars are scraped", LONG, || {
        let series = prometheus.api(&format!("query_exemplars?query={query}&start=0&end=4102444800"));
        found = series
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|one| one["exemplars"].as_array().cloned().unwrap())
            .collect();
        !found.is_empty()
    });
    for exemplar in &found {
        let trace = exemplar["labels"]["trace_id"].as_str().expect("a trace");
        let spans = collector.wait_for("the trace", 1, |span| span.trace == trace && span.kind == 2);
        let value: f64 = exemplar["value"].as_str().unwrap().parse().unwrap();
        let took = (spans[0].end - spans[0].start) as f64 / 1e9;
        assert!((took - value).abs() < 1e-6, "{exemplar}\n{spans:#?}");
    }
}
