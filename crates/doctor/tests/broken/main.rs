//! Servers that are broken in exactly one way, each examined as a whole: the doctor finds that one, by the probe that owns it, and calls nothing else bad.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails, and the servers here are asked by nobody but the doctor"
)]

mod server;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use keepwarm_doctor::{CONNECTIONS, Examination, Settings, SilentWatcher, Target, Verdict, examine};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use server::{Flaw, Server};

/// Examinations at once: they wait more than they work, but what one does must not spoil another's times.
static AT_ONCE: Semaphore = Semaphore::const_new(4);

/// How a server is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExamineMode {
    Politely,
    Intrusively,
    /// With `--insecure`.
    Trustingly,
    /// A server with TLS, though the flaw is none of TLS.
    OverTls,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    flaw: Flaw,
    /// The probe that finds it.
    probe: &'static str,
    /// The verdict on it.
    verdict: Verdict,
    mode: ExamineMode,
}

const fn bad(flaw: Flaw, probe: &'static str) -> Case {
    Case { flaw, probe, verdict: Verdict::Bad, mode: ExamineMode::Politely }
}

const fn warning(flaw: Flaw, probe: &'static str) -> Case {
    Case { flaw, probe, verdict: Verdict::Warning, mode: ExamineMode::Politely }
}

const fn intrusive(flaw: Flaw, probe: &'static str) -> Case {
    Case { flaw, probe, verdict: Verdict::Bad, mode: ExamineMode::Intrusively }
}

#[test]
fn a_correct_server_is_all_good() {
    hold(&[
        Case { flaw: Flaw::None, probe: "", verdict: Verdict::Good, mode: ExamineMode::Politely },
        Case { flaw: Flaw::None, probe: "", verdict: Verdict::Good, mode: ExamineMode::Intrusively },
        Case { flaw: Flaw::NoneOverTls, probe: "", verdict: Verdict::Good, mode: ExamineMode::Politely },
    ]);
}

#[test]
fn who_closes() {
    hold(&[
        bad(Flaw::NeverCloses, "persistence"),
        bad(Flaw::AnnouncesCloseAndStays, "persistence"),
        bad(Flaw::AnnouncesKeepAliveAndCloses, "persistence"),
        bad(Flaw::ClosesUnannounced, "persistence"),
        bad(Flaw::ClosesIdleEarly, "persistence"),
        bad(Flaw::HeadWithBody, "persistence"),
        bad(Flaw::NotModifiedWithBody, "persistence"),
        bad(Flaw::ChunkedTo10, "persistence"),
        bad(Flaw::LosesPipelined, "persistence"),
    ]);
}

#[test]
fn expectations() {
    hold(&[
        bad(Flaw::IgnoresExpect, "expect"),
        warning(Flaw::RefusesExpect, "expect"),
        bad(Flaw::ContinueTo10, "expect"),
        bad(Flaw::ContinueTwice, "expect"),
        bad(Flaw::ContinueLate, "expect"),
    ]);
}

#[test]
fn writes() {
    hold(&[
        bad(Flaw::LineByLine, "writes"),
        bad(Flaw::Nagle, "writes"),
        bad(Flaw::NagleAfterTickets, "writes"),
    ]);
}

#[test]
fn boots() {
    hold(&[bad(Flaw::Boots, "boot"), bad(Flaw::BootsForAnything, "boot")]);
}

#[test]
fn connections() {
    hold(&[
        bad(Flaw::NoReuse, "connect"),
        bad(Flaw::Expired, "reach"),
        Case { mode: ExamineMode::Trustingly, ..bad(Flaw::Expired, "connect") },
        warning(Flaw::OnlyTls12, "connect"),
        bad(Flaw::DeadIpv6, "connect"),
        warning(Flaw::LongChain, "connect"),
        bad(Flaw::OtherName, "reach"),
        Case { mode: ExamineMode::Trustingly, ..warning(Flaw::OtherName, "connect") },
    ]);
}

#[test]
fn encryption_hides_no_flaw() {
    let over_tls = |case| Case { mode: ExamineMode::OverTls, ..case };
    hold(&[
        over_tls(bad(Flaw::NeverCloses, "persistence")),
        over_tls(bad(Flaw::ClosesIdleEarly, "persistence")),
        over_tls(bad(Flaw::HeadWithBody, "persistence")),
        over_tls(bad(Flaw::IgnoresExpect, "expect")),
        over_tls(bad(Flaw::LineByLine, "writes")),
        over_tls(bad(Flaw::Nagle, "writes")),
        over_tls(bad(Flaw::Boots, "boot")),
        over_tls(bad(Flaw::OptionsStalls, "health")),
    ]);
}

#[test]
fn messages() {
    hold(&[
        bad(Flaw::LeavesBody, "framing"),
        bad(Flaw::BytesAfterResponse, "framing"),
        bad(Flaw::CloseInSmallLettersOnly, "persistence"),
        bad(Flaw::IgnoresChunked, "framing"),
        bad(Flaw::OneRead, "framing"),
    ]);
}

#[test]
fn malformed_messages() {
    hold(&[
        intrusive(Flaw::BothLengths, "framing"),
        intrusive(Flaw::TwoLengths, "framing"),
        Case { verdict: Verdict::Warning, ..intrusive(Flaw::BareLf, "framing") },
        intrusive(Flaw::BlankBeforeColon, "framing"),
        Case { verdict: Verdict::Warning, ..intrusive(Flaw::Folding, "framing") },
        intrusive(Flaw::LaxChunkSize, "framing"),
    ]);
}

#[test]
fn health_checks() {
    hold(&[bad(Flaw::WantsHostOf10, "health"), bad(Flaw::OptionsStalls, "health")]);
}

/// The checks of balancers send no server name (SNI), unless they are configured to.
#[test]
fn health_checks_over_tls_name_no_server() {
    let flaw = Flaw::WantsHostOfNamed;
    hold(&[Case { flaw, probe: "health", verdict: Verdict::Good, mode: ExamineMode::Politely }]);
}

#[test]
fn what_stands_beside_the_response() {
    hold(&[bad(Flaw::ForbiddenTrailers, "informational"), bad(Flaw::HintsTo10, "informational")]);
}

#[test]
fn an_authority_that_nobody_knows_is_named() {
    let server = Server::encrypted(Flaw::NoneOverTls);
    let case =
        Case { flaw: Flaw::NoneOverTls, probe: "reach", verdict: Verdict::Bad, mode: ExamineMode::Politely };
    let settings = Settings { authorities: Vec::new(), ..settings(&server, case) };
    let target = Target::parse(&server.url()).expect("a target");
    let examination = reactor().block_on(examine(&target, &settings, Arc::new(SilentWatcher)));
    assert_eq!(fault(case, &examination), None, "{}", told(&examination));
    assert!(told(&examination).contains("is not a trusted authority here"), "{}", told(&examination));
}

/// Examines them all, and reports those on which the doctor said something else.
fn hold(cases: &[Case]) {
    let wrong: Vec<String> = reactor().block_on(async {
        let running: Vec<_> = cases.iter().copied().map(|case| tokio::spawn(one(case))).collect();
        let mut wrong = Vec::new();
        for one in running {
            wrong.extend(one.await.expect("no panic"));
        }
        wrong
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn reactor() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a reactor")
}

async fn one(case: Case) -> Option<String> {
    let _place = AT_ONCE.acquire().await.expect("never closed");
    let server = match case.mode {
        ExamineMode::OverTls => Server::encrypted(case.flaw),
        _ => Server::start(case.flaw),
    };
    let target = Target::parse(&server.url()).expect("a target");
    let examination = examine(&target, &settings(&server, case), Arc::new(SilentWatcher)).await;
    let most = server.most_at_once();
    assert!(!case.flaw.is_none() || most <= CONNECTIONS, "{most} connections at once");
    fault(case, &examination)
        .map(|why| format!("{:?}, {:?}: {why}\n{}", case.flaw, case.mode, told(&examination)))
}

fn settings(server: &Server, case: Case) -> Settings {
    let mut resolve = vec![("localhost".to_owned(), server.port(), IpAddr::from(Ipv4Addr::LOCALHOST))];
    if case.flaw == Flaw::DeadIpv6 {
        resolve.insert(0, ("localhost".to_owned(), server.port(), IpAddr::from(Ipv6Addr::LOCALHOST)));
    }
    Settings {
        resolve,
        authorities: server.authority().map(authority).into_iter().collect(),
        insecure: case.mode == ExamineMode::Trustingly,
        intrusive: case.mode == ExamineMode::Intrusively,
        timeout: Duration::from_secs(3),
        rate: 400,
        ..Settings::default()
    }
}

fn authority(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

/// The verdict that is wrong, if any.
fn fault(case: Case, examination: &Examination) -> Option<String> {
    for result in &examination.results {
        let verdict = result.verdict();
        let owner = result.id == case.probe;
        let worse = result.findings.iter().filter(|finding| finding.verdict > Verdict::Unknown);
        for finding in worse {
            // A server that is not reached has no measurable cost.
            let costs = result.id != "reach" && finding.verdict == Verdict::Bad;
            if finding.fix.is_none() || finding.cost.is_none() && costs {
                return Some(format!("{} has no fix, or no cost", finding.id));
            }
        }
        if owner && verdict != case.verdict {
            return Some(format!("{} says {}, not {}", case.probe, verdict.name(), case.verdict.name()));
        }
        let most = if case.flaw.is_none() { Verdict::Unknown } else { Verdict::Warning };
        if !owner && verdict > most {
            return Some(format!("{} says {}, and is not concerned", result.id, verdict.name()));
        }
    }
    let found = case.probe.is_empty() || examination.results.iter().any(|one| one.id == case.probe);
    (!found).then(|| format!("there is no probe {}", case.probe))
}

/// Everything that was found.
fn told(examination: &Examination) -> String {
    let findings = examination.results.iter().flat_map(|result| &result.findings);
    let lines: Vec<String> = findings
        .map(|finding| format!("    {:<14} {}: {}", finding.verdict.name(), finding.id, finding.evidence))
        .collect();
    format!("{}\n    in {:.1} s", lines.join("\n"), examination.took.as_secs_f64())
}
