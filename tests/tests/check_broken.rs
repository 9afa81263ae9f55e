//! `keepwarm check` on servers that are broken in exactly one way, from its command line to its exit status. Without the program around it each flaw has its
//! test in `crates/doctor/tests/broken`.

#[expect(dead_code, reason = "the doctor's own tests use all of it")]
#[path = "../../crates/doctor/tests/broken/server/mod.rs"]
mod server;

use std::process::Command;
use std::time::Duration;

use keepwarm_tests::{keepwarm, tools};
use serde_json::Value;

use server::{Flaw, Server};

/// The report, and the exit status of `--fail-on warning`.
fn check(server: &Server, arguments: &[&str]) -> (Value, Option<i32>) {
    let mut command = Command::new(keepwarm());
    command.args(["check", "--json", "--fail-on", "warning", &server.url()]).args(arguments);
    command.args(["--resolve", &format!("localhost:{}:127.0.0.1", server.port())]);
    let file = std::env::temp_dir().join(format!("keepwarm-check-{}.pem", server.port()));
    if let Some(pem) = server.authority() {
        std::fs::write(&file, pem).expect("a file");
        command.arg("--ca").arg(&file);
    }
    let output = tools::run(&mut command, Duration::from_secs(90));
    let _ = std::fs::remove_file(&file);
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|error| panic!("{error}: {output:?}")), output.status.code())
}

/// The ids of the probes with this verdict.
fn those(report: &Value, verdict: &str) -> Vec<String> {
    let probes = report["probes"].as_array().expect("probes");
    let those = probes.iter().filter(|probe| probe["verdict"] == verdict);
    those.map(|probe| probe["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_correct_server_is_all_good_quickly_and_with_few_connections() {
    for flaw in [Flaw::None, Flaw::NoneOverTls] {
        let server = Server::start(flaw);
        let (report, status) = check(&server, &[]);
        assert_eq!(those(&report, "bad"), [""; 0], "{report:#}");
        assert_eq!(those(&report, "warning"), [""; 0], "{report:#}");
        assert_eq!(status, Some(0), "{report:#}");
        assert!(server.most_at_once() <= 8, "{} connections at once", server.most_at_once());
    }
}

#[test]
fn the_one_thing_that_is_wrong_is_found_with_evidence_cost_and_fix() {
    for (flaw, probe, finding) in [
        (Flaw::NeverCloses, "persistence", "persistence.http10"),
        (Flaw::IgnoresExpect, "expect", "expect.continue"),
        (Flaw::LineByLine, "writes", "writes.head"),
        (Flaw::Boots, "boot", "boot.every"),
        (Flaw::NoReuse, "connect", "connect.reuse"),
    ] {
        let server = Server::start(flaw);
        let (report, status) = check(&server, &[]);
        assert_eq!(those(&report, "bad"), [probe], "{flaw:?}: {report:#}");
        assert_eq!(status, Some(1), "{flaw:?}: {report:#}");
        let probes = report["probes"].as_array().expect("probes");
        let findings =
            probes.iter().filter(|one| one["id"] == probe).flat_map(|one| one["findings"].as_array());
        let found = findings.flatten().find(|one| one["id"] == finding && one["verdict"] == "bad");
        let found = found.unwrap_or_else(|| panic!("{flaw:?}: no {finding}: {report:#}"));
        for part in ["evidence", "cost", "fix"] {
            assert!(found[part].as_str().is_some_and(|text| !text.is_empty()), "{flaw:?}, {part}: {found:#}");
        }
    }
}
