//! What apps print: a traceback of each language is one record in JSON and unbroken lines in text, with the level that its language gives it.

use std::time::Duration;

use keepwarm_tests::Server;
use keepwarm_tests::process::wait_until;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

fn config(format: &str, app: &str) -> String {
    format!(
        r#"
[server]
log = {{ format = "{format}" }}
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "shop"
[app.shop]
directory = "@APPS@/failing"
workers = 1
{app}
"#
    )
}

const PYTHON: &str = "entry = \"app:application\"\ninterpreter = \"@PYTHON@\"";
const RUBY: &str = "entry = \"app.ru\"";
const PHP: &str = "entry = \"app.php\"\nkind = \"php\"";
const CLASSIC: &str = "entry = \"index.php\"\nkind = \"fastcgi\"";
const NODE: &str = "command = [\"node\", \"app.js\"]\nkind = \"http\"";

/// The records that the app has printed, once one of them holds `last`: their levels and texts.
fn printed(server: &Server, last: &str) -> Vec<(String, String)> {
    let read = || -> Vec<(String, String)> {
        let records = server.log();
        let records = records.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |record: &Value, key: &str| record[key].as_str().unwrap_or_default().to_owned();
        records
            .filter(|record| record["target"] == "keepwarm::worker")
            .map(|record| (text(&record, "level"), text(&record, "message")))
            .collect()
    };
    wait_until("the app's record", LONG, || read().iter().any(|(_, message)| message.contains(last)));
    read()
}

/// Asks for the path in an app, and gives the one record with all of `parts`, in this order.
#[track_caller]
fn one_record(app: &str, path: &str, parts: &[&str]) -> (String, String) {
    let server = Server::start(&config("json", app)).warm("/");
    server.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    let records = printed(&server, parts.last().expect("a part"));
    let fits = |message: &str| {
        let mut rest = message;
        parts.iter().all(|part| rest.split_once(part).map(|(_, tail)| rest = tail).is_some())
    };
    let found: Vec<_> = records.iter().filter(|(_, message)| fits(message)).cloned().collect();
    let [one] = found.as_slice() else { panic!("one record with {parts:?} in {records:#?}") };
    one.clone()
}

#[test]
fn a_traceback_of_python_with_its_cause_is_one_record() {
    let parts = [
        "Traceback (most recent call last):\n",
        "ValueError: no such card\n\nThe above exception was",
        "\nTraceback",
        "RuntimeError: in vain",
    ];
    let (level, message) = one_record(PYTHON, "/buy", &parts);
    assert_eq!(level, "error");
    assert!(message.starts_with("Traceback") && message.ends_with("RuntimeError: in vain"), "{message}");
}

#[test]
fn what_python_logs_with_an_exception_is_one_record() {
    let parts = ["ERROR:root:cannot pay\nTraceback (most recent call last):\n", "\nValueError: no such card"];
    assert_eq!(one_record(PYTHON, "/logged", &parts).0, "error");
}

#[test]
fn a_backtrace_of_ruby_is_one_record() {
    assert_eq!(one_record(RUBY, "/buy", &["pay': no such card (ArgumentError)\n", "\tfrom "]).0, "error");
    let (level, message) =
        one_record(RUBY, "/logged", &["E, [", "ERROR -- : no such card (ArgumentError)\n", "app.ru:9:in"]);
    assert_eq!(level, "error", "{message}");
}

#[test]
fn an_exception_of_php_is_one_record() {
    for app in [PHP, CLASSIC] {
        let parts = [
            "PHP Fatal error:  Uncaught LogicException: no such card",
            "Stack trace:\n#0 ",
            "Next RuntimeException: in vain",
            "Stack trace:\n#",
            "{main}",
        ];
        assert_eq!(one_record(app, "/buy", &parts).0, "error", "{app}");
    }
    assert_eq!(
        one_record(PHP, "/logged", &["LogicException: no such card", "Stack trace:\n#0 ", "{main}"]).0,
        "error"
    );
}

#[test]
fn an_error_of_node_is_one_record_also_when_it_ends_the_process() {
    assert_eq!(
        one_record(NODE, "/logged", &["TypeError: no such card\n    at ", "code: 'E_CARD'\n}"]).0,
        "error"
    );
    let parts = ["app.js:", "^\n\nTypeError: no such card\n    at ", "code: 'E_CARD'\n}\n\nNode.js v"];
    assert_eq!(one_record(NODE, "/buy", &parts).0, "error");
}

#[test]
fn a_traceback_stays_together_in_text() {
    let server = Server::start(&config("text", PYTHON)).warm("/");
    server.ask("GET /buy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    server.wait_for_log("RuntimeError: in vain", LONG);
    let log = server.log();
    let lines: Vec<_> = log.lines().skip_while(|line| !line.contains("worker=1 Traceback (most")).collect();
    assert!(lines[0].contains(" ERROR app=shop worker=1 Traceback (most recent call last):"), "{}", lines[0]);
    let end =
        lines.iter().position(|line| *line == "    RuntimeError: in vain").expect("the end of the record");
    assert!(
        lines[1..end].iter().all(|line| line.is_empty() || line.starts_with("    ")),
        "{:#?}",
        &lines[..=end]
    );
}
