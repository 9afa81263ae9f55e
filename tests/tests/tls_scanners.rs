//! What the usual scanners of TLS find with the default profile: nothing above "low". And what Keepwarm's own doctor finds.

use std::fs;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::{Server, keepwarm, python, tools};
use serde_json::{Value, json};

/// testssl.sh opens some hundred connections, each by a process of its own, on a machine that runs the other tests too.
const BOUND: Duration = Duration::from_secs(1200);

/// The header is the site's part, which scanners look for as well.
const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
tls = { cert = "@DIR@/shop.pem", key = "@DIR@/shop.key" }
[[listen.main.route]]
respond = { status = 200, body = "hello" }
headers = { set = { "X-Content-Type-Options" = "nosniff" } }
"#;

fn start() -> Server {
    Server::start_with(CONFIG, |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        let authority = Authority::default();
        authority.identity(&["localhost", "127.0.0.1"]).write(folder, "shop");
        fs::write(folder.join("ca.pem"), authority.pem()).expect("written");
    })
}

#[track_caller]
fn read_json(server: &Server, name: &str) -> Value {
    let file = server.folder().join(name);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn testssl_finds_nothing_above_low() {
    let server = start();
    let mut command = Command::new("testssl");
    command.args(["--quiet", "--color", "0", "--warnings", "off", "--jsonfile", "testssl.json"]);
    command.arg(format!("https://{}/", server.address())).current_dir(server.folder());
    let output = tools::run(&mut command, BOUND);
    let printed = String::from_utf8_lossy(&output.stdout);
    let findings = read_json(&server, "testssl.json");
    let findings = findings.as_array().expect("a list");
    // That it did its work: versions, ciphers and faults, each with a verdict.
    let finding = |id: &str| {
        let row = findings.iter().find(|row| row["id"] == id);
        row.unwrap_or_else(|| panic!("no row {id}\n{printed}"))["severity"].clone()
    };
    for id in ["SSLv3", "TLS1_3", "cipherlist_NULL", "heartbleed", "ROBOT", "secure_client_renego", "LUCKY13"]
    {
        assert!(["OK", "INFO"].map(Value::from).contains(&finding(id)), "{id}\n{printed}");
    }
    // The certificate of a test has no authority that anybody knows; `engine_problem` is about this machine's OpenSSL.
    let is_trust =
        |row: &Value| row["id"].as_str().is_some_and(|id| id.starts_with("cert_") || id == "engine_problem");
    // Its client closes after the handshake, and on a busy machine before the ticket of TLS 1.3 has come: then it has no session to resume.
    let has_no_ticket = |row: &Value| {
        row["id"] == "sessionresumption_ticket" && row["finding"] == "check failed because of connect problem"
    };
    let above: Vec<&Value> = findings
        .iter()
        .filter(|row| !has_no_ticket(row))
        .filter(|row| !["OK", "INFO", "LOW", "DEBUG"].map(Value::from).contains(&row["severity"]))
        .filter(|row| !is_trust(row))
        .collect();
    assert!(above.is_empty(), "{above:#?}\n{printed}");
}

#[test]
fn sslyze_finds_nothing() {
    let server = start();
    let mut command = Command::new(python());
    command.args(["-m", "sslyze", "--json_out", "sslyze.json", "--mozilla_config", "intermediate"]);
    command.arg(server.address().to_string()).current_dir(server.folder());
    let output = tools::run(&mut command, BOUND);
    let printed = String::from_utf8_lossy(&output.stdout);
    // Mozilla's profile, except that nobody knows the authority of a test, or how long its certificates are valid.
    let (_, verdict) = printed.split_once("Checking results against Mozilla's").expect("a verdict");
    let faults: Vec<&str> = verdict.lines().filter(|line| line.trim_start().starts_with("* ")).collect();
    let trust = ["certificate_path_validation", "maximum_certificate_lifespan"];
    assert!(faults.iter().all(|line| trust.iter().any(|name| line.contains(name))), "{printed}");
    let report = read_json(&server, "sslyze.json");
    let scan = &report["server_scan_results"][0]["scan_result"];
    for version in ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"] {
        let suites = &scan[format!("{version}_cipher_suites")]["result"];
        assert_eq!(suites["is_tls_version_supported"], false, "{version}: {suites:#}");
    }
    for (check, key, wanted) in [
        ("tls_1_2_cipher_suites", "is_tls_version_supported", json!(true)),
        ("tls_1_3_cipher_suites", "is_tls_version_supported", json!(true)),
        ("heartbleed", "is_vulnerable_to_heartbleed", json!(false)),
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection", json!(false)),
        ("robot", "robot_result", json!("NOT_VULNERABLE_RSA_NOT_SUPPORTED")),
        ("tls_compression", "supports_compression", json!(false)),
        ("tls_fallback_scsv", "supports_fallback_scsv", json!(true)),
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos", json!(false)),
        ("session_renegotiation", "supports_secure_renegotiation", json!(true)),
        ("tls_extended_master_secret", "supports_ems_extension", json!(true)),
    ] {
        assert_eq!(scan[check]["result"][key], wanted, "{check}: {:#}", scan[check]);
    }
}

#[test]
fn the_doctor_finds_nothing_over_tls() {
    let server = start();
    let mut command = Command::new(keepwarm());
    command.args(["check", "--json", "--fail-on", "warning", "--ca"]).arg(server.folder().join("ca.pem"));
    command.arg(format!("https://localhost:{}/", server.address().port()));
    command.args(["--resolve", &format!("localhost:{}:127.0.0.1", server.address().port())]);
    let report = tools::run_ok(&mut command, BOUND);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let verdicts: Vec<&Value> =
        report["probes"].as_array().expect("probes").iter().map(|probe| &probe["verdict"]).collect();
    assert!(verdicts.iter().filter(|verdict| **verdict == "good").count() >= 7, "{report:#}");
}
