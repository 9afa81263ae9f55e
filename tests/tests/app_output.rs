//! The output of apps: a traceback of each language is one record in JSON and unbroken lines in text, with the level of its language.

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
const MANY: &str = "entry = \"many:application\"\ninterpreter = \"@PYTHON@\"\nloop = \"asyncio\"";
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

/// Requests the path in an app, and returns the one record with all of `parts`, in this order.
#[track_caller]
fn one_record(app: &str, path: &str, parts: &[&str]) -> (String, String) {
    let server = Server::start(&config("json", app)).warm("/");
    // Not GET, which is retried with another worker where one dies of it.
    server.ask(format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
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
fn a_python_log_record_with_an_exception_is_one_record() {
    let parts = ["ERROR:root:cannot pay\nTraceback (most recent call last):\n", "\nValueError: no such card"];
    assert_eq!(one_record(PYTHON, "/logged", &parts).0, "error");
}

#[test]
fn an_exception_whose_text_has_lines_is_one_record() {
    let (level, message) = one_record(MANY, "/lines", &["Traceback", "nor any other"]);
    assert_eq!(level, "error");
    assert!(message.ends_with("\nValueError: no such card:\n[INFO] 4711\n\nnor any other"), "{message:?}");
}

#[test]
fn a_logged_exception_is_one_record_in_every_format() {
    let parts = [" cannot pay,\nnor refuse\nTraceback", "\nValueError: first\n[INFO] second\n\nlast of it"];
    let (level, message) = one_record(MANY, "/logged", &parts);
    assert_eq!(level, "error");
    assert!(message.ends_with("last of it"), "{message:?}");
}

#[test]
fn an_exception_of_a_thread_or_of_a_task_is_one_record() {
    let end = "\nValueError: no such card";
    assert_eq!(one_record(MANY, "/thread", &["Exception in thread Thread-", "\nTraceback", end]).0, "error");
    let parts = ["Task exception was never retrieved\nfuture: <Task", ">\nTraceback", end];
    assert_eq!(one_record(MANY, "/task", &parts).0, "error");
}

#[test]
fn a_json_line_keeps_its_level() {
    assert_eq!(one_record(MANY, "/json", &["{\"event\": \"no such card\"", "}"]).0, "error");
}

#[test]
fn a_start_up_that_fails_is_one_record_with_its_cause() {
    let parts = [
        "keepwarm: error: the application raised an exception during startup",
        "\nTraceback",
        "ValueError: no such card\n",
        "direct cause",
        "RuntimeError: in vain\nfor two reasons",
    ];
    assert_eq!(one_record(&format!("{MANY}\nenv = {{ FAIL = \"1\" }}"), "/", &parts).0, "error");
}

#[test]
fn a_start_up_that_must_not_fail_ends_the_boot_with_its_cause() {
    let app = format!("{MANY}\nenv = {{ FAIL = \"1\" }}\nlifespan = \"on\"");
    let server = Server::spawn(&config("text", &app), |_| ());
    assert!(!server.wait_for_exit(LONG).success());
    let log = server.log();
    let end = "\nRuntimeError: in vain\nfor two reasons\nkeepwarm: app \"shop\" could not be started: worker 1 exited with status 1";
    let begin = "keepwarm: error: the application does not support the lifespan protocol";
    let shown = log.split_once(begin).unwrap_or_else(|| panic!("{log}")).1;
    assert!(shown.contains("\nValueError: no such card\n\nThe above") && shown.contains(end), "{log}");
    assert!(!log.contains('\u{1f}'), "the marks of the adapter are not shown: {log:?}");
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
