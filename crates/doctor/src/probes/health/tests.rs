use std::time::Duration;

use super::rules::OrdinaryResponse;
use super::*;
use crate::probes::scripted::{self, field};

const MS: Duration = Duration::from_millis(1);
const SITE: &str = "shop.example";

fn usual(status: u16, after: u32) -> OrdinaryResponse {
    OrdinaryResponse { status, after: MS * after, elsewhere: None }
}

fn seen(status: Option<u16>, host: Option<&str>) -> CheckResult {
    CheckResult {
        asked: "a check".to_owned(),
        host: host.map(str::to_owned),
        status,
        words: "something".to_owned(),
        silent: status.is_none(),
        ..CheckResult::default()
    }
}

#[test]
fn a_check_that_would_take_out_a_healthy_server_is_told() {
    use Checker::{Envoy, HaProxy, HaProxyDefault, Kubernetes, Nginx};
    let (good, unknown, warning, bad) = (Verdict::Good, Verdict::Unknown, Verdict::Warning, Verdict::Bad);
    let (site, group) = (Some(SITE), Some("backend"));
    for (checker, status, host, usual, verdict) in [
        (HaProxyDefault, Some(200), None, usual(200, 2), good),
        (HaProxyDefault, Some(302), None, usual(200, 2), good),
        (HaProxyDefault, Some(405), None, usual(200, 2), good),
        (HaProxyDefault, Some(501), None, usual(200, 2), good),
        (HaProxyDefault, Some(404), None, usual(200, 2), good),
        (HaProxyDefault, Some(400), None, usual(200, 2), bad),
        (HaProxyDefault, Some(426), None, usual(200, 2), warning),
        (HaProxyDefault, Some(500), None, usual(200, 2), warning),
        (HaProxyDefault, Some(404), None, usual(404, 2), unknown),
        (HaProxy, Some(200), site, usual(200, 2), good),
        (HaProxy, Some(404), site, usual(404, 2), unknown),
        (HaProxy, Some(403), site, usual(404, 2), unknown),
        (HaProxy, Some(403), site, usual(200, 2), warning),
        (HaProxy, Some(429), site, usual(200, 2), unknown),
        (Nginx, Some(404), group, usual(200, 2), good),
        (Nginx, Some(400), group, usual(200, 2), good),
        (Nginx, Some(505), group, usual(200, 2), warning),
        (Nginx, Some(503), group, usual(200, 2), warning),
        (Envoy, Some(204), group, usual(200, 2), good),
        (Envoy, Some(204), group, usual(204, 2), unknown),
        (Envoy, Some(421), group, usual(200, 2), good),
        (Kubernetes, Some(301), Some("192.0.2.1:80"), usual(200, 2), good),
        (Kubernetes, Some(404), Some("192.0.2.1:80"), usual(200, 2), good),
        (Kubernetes, Some(404), site, usual(200, 2), warning),
        (Kubernetes, None, site, usual(200, 2), bad),
        (Kubernetes, None, site, usual(200, 700), unknown),
        (Kubernetes, None, site, usual(200, 1500), warning),
    ] {
        let finding = rules::check(checker, &seen(status, host), usual, SITE);
        assert_eq!(finding.verdict, verdict, "{checker:?} {status:?} {usual:?}: {finding:?}");
        assert_eq!(finding.id, checker.id());
        assert!(fix(finding.id, Server::Unknown).is_some(), "{finding:?}");
    }
    // A site that wants its own name wants it of everybody.
    let strict = OrdinaryResponse { elsewhere: Some(400), ..usual(200, 2) };
    assert_eq!(rules::check(HaProxyDefault, &seen(Some(400), None), strict, SITE).verdict, good);
    let closed = CheckResult { silent: false, ..seen(None, site) };
    assert_eq!(rules::check(HaProxy, &closed, usual(200, 1500), SITE).verdict, bad);
    let unreachable = CheckResult { failure: Some("refused".to_owned()), ..seen(None, site) };
    assert_eq!(rules::check(HaProxy, &unreachable, usual(200, 2), SITE).verdict, unknown);
}

#[test]
fn one_read_must_bring_a_status_line() {
    let whole: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let line: &[u8] = b"HTTP/1.1 200 OK\r\n";
    let piece: &[u8] = b"HTTP/1.1 2";
    for (reads, verdict, part) in [
        (vec![whole, whole], Verdict::Good, "38 bytes, the whole head"),
        (vec![whole, line, b""], Verdict::Good, "17 bytes, the status line"),
        (vec![whole, piece, line], Verdict::Warning, "\"HTTP/1.1 2\""),
        (vec![b"\x15\x03\x01"], Verdict::Warning, "\\x15\\x03\\x01"),
        (vec![b"", b""], Verdict::Unknown, "nothing received"),
        (vec![], Verdict::Unknown, "nothing received"),
    ] {
        let reads: Vec<Vec<u8>> = reads.into_iter().map(<[u8]>::to_vec).collect();
        let finding = rules::one_read("GET / HTTP/1.0", &reads);
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        assert!(finding.evidence.contains(part), "{finding:?}");
    }
}

/// The verdicts that are not good, of a server that does this with each head and returns whether the connection continues.
async fn worse<F>(respond: F) -> Vec<(&'static str, Verdict)>
where
    F: Fn(&str) -> Option<&'static [&'static str]> + Clone + Send + Sync + 'static,
{
    let context = scripted::context(move |mut peer| {
        let respond = respond.clone();
        async move {
            loop {
                let head = peer.head().await?;
                let parts = respond(&head)?;
                for part in parts {
                    peer.say(part).await;
                    tokio::time::sleep(MS * 40).await;
                }
            }
        }
    })
    .await;
    let findings = examine(&context).await;
    assert_eq!(findings.len(), 6);
    let worse = findings.into_iter().filter(|finding| finding.verdict != Verdict::Good);
    worse.map(|finding| (finding.id, finding.verdict)).collect()
}

const OK: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"];

#[tokio::test]
async fn what_checks_meet_is_found() {
    let (well, pieces, lines, hostless, silent) = tokio::join!(
        // Never closes, whatever the version: another probe's.
        worse(|_| Some(OK)),
        worse(|_| Some(&["HTTP", "/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])),
        worse(|_| Some(&["HTTP/1.1 200 OK\r\n", "Content-Length: 0\r\n", "\r\n"])),
        worse(|head| match field(head, "host") {
            Some(_) => Some(OK),
            None => Some(&["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]),
        }),
        worse(|head| match head.contains("kube-probe") {
            true => Some(&[]),
            false => Some(OK),
        }),
    );
    assert_eq!(well, []);
    assert_eq!(pieces, [("health.one_read", Verdict::Warning)]);
    assert_eq!(lines, []);
    assert_eq!(hostless, [("health.haproxy_default", Verdict::Bad)]);
    assert_eq!(silent, [("health.kubernetes", Verdict::Bad)]);
}
