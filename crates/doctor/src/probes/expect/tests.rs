use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::ask::{EarlyResponse, ExpectExchange, HeadExchange, PlainExchange, UnreadBody};
use super::*;
use crate::probes::scripted::{self, ScriptedConnection, field};
use crate::server::Server;
use crate::settings::Settings;

const MS: Duration = Duration::from_millis(1);

fn plain(status: u16, after: u32) -> PlainExchange {
    PlainExchange { status, after: MS * after }
}

fn asked(status: Option<u16>, after: u32) -> HeadExchange {
    HeadExchange {
        asked: "OPTIONS / HTTP/1.1".to_owned(),
        words: status.map_or("nothing".to_owned(), |status| status.to_string()),
        status,
        hundreds: 0,
        silent: status.is_none(),
        after: MS * after,
    }
}

fn held(first: EarlyResponse, hundreds: usize, then: Option<HeadExchange>) -> ExpectExchange {
    ExpectExchange {
        asked: "OPTIONS / HTTP/1.1".to_owned(),
        method: "OPTIONS".to_owned(),
        first,
        hundreds,
        then,
        unread: None,
    }
}

#[test]
fn a_client_gets_a_word_before_its_body() {
    let last = |status, after| EarlyResponse::Final { status, after: MS * after, closes: true };
    let hundred = |after: u32| EarlyResponse::Continue(MS * after);
    let nothing = EarlyResponse::Nothing(MS * 1200);
    let lost = EarlyResponse::Lost("reset".to_owned());
    let responded = || Some(asked(Some(200), 5));
    let (good, unknown, warning, bad) = (Verdict::Good, Verdict::Unknown, Verdict::Warning, Verdict::Bad);
    let fails = Some("every such POST fails");
    let second = Some("1.00 s on every such POST");
    for (name, first, then, without, verdict, cost) in [
        ("100 at once", hundred(2), responded(), plain(200, 5), good, None),
        ("100 as slow as the app", hundred(600), responded(), plain(200, 500), good, None),
        ("100 once another server kept silent", hundred(256), responded(), plain(200, 5), good, None),
        ("100 late", hundred(600), responded(), plain(200, 5), warning, Some("600 ms on every such POST")),
        ("100, and 405 all the same", hundred(2), Some(asked(Some(405), 2)), plain(405, 5), good, None),
        ("100 past the second", hundred(1100), responded(), plain(200, 5), bad, second),
        ("100 and no end", hundred(2), Some(asked(None, 2000)), plain(200, 5), bad, fails),
        ("100 and an error", hundred(2), Some(asked(Some(500), 2)), plain(200, 5), bad, fails),
        ("decided before", last(200, 2), None, plain(200, 5), good, None),
        ("405 as ever", last(405, 2), None, plain(405, 5), good, None),
        ("400 for the expectation", last(400, 2), None, plain(200, 5), bad, fails),
        ("413 in place of 405", last(413, 2), None, plain(405, 5), warning, None),
        ("too many requests", last(429, 2), None, plain(200, 5), unknown, None),
        ("ignored", nothing.clone(), responded(), plain(200, 5), bad, second),
        ("ignored by a slow app", nothing.clone(), responded(), plain(200, 900), unknown, None),
        ("ignored for good", nothing, Some(asked(None, 2000)), plain(200, 5), bad, fails),
        ("thrown out", lost, None, plain(200, 5), bad, fails),
    ] {
        let finding = rules::continued(&held(first, 1, then), &without);
        assert_eq!((finding.verdict, finding.cost.as_deref()), (verdict, cost), "{name}: {finding:?}");
        assert_eq!(finding.id, "expect.continue");
        if verdict > unknown {
            assert!(fix(finding.id, Server::PhpBuiltIn).is_some_and(|fix| fix.contains("php-fpm")));
        }
    }
    let refused = rules::continued(&held(last(417, 2), 0, None), &plain(200, 5));
    assert_eq!(refused.verdict, warning);
    assert!(refused.cost.is_some_and(|cost| cost.contains("2.00 ms")));
}

#[test]
fn a_late_hundred_is_told_apart_from_none() {
    let late = rules::continued(
        &held(EarlyResponse::Nothing(MS * 1200), 1, Some(asked(Some(200), 5))),
        &plain(200, 5),
    );
    assert_eq!(late.verdict, Verdict::Bad);
    assert!(late.evidence.contains("100, too late, and 200"), "{}", late.evidence);
}

#[test]
fn the_rest_of_the_verdicts() {
    let usual = Some(200);
    let responded = UnreadBody::Responded;
    for (unread, without, verdict) in [
        (responded(200), None, Verdict::Good),
        (responded(503), None, Verdict::Good),
        (responded(400), None, Verdict::Bad),
        (responded(501), None, Verdict::Bad),
        (responded(400), Some(responded(200)), Verdict::Bad),
        (responded(400), Some(responded(400)), Verdict::Unknown),
        (UnreadBody::Garbled("x".to_owned()), None, Verdict::Bad),
        (UnreadBody::Nothing(MS), None, Verdict::Unknown),
        (UnreadBody::Closed, None, Verdict::Warning),
    ] {
        let finding = rules::unread("OPTIONS", &unread, without.as_ref(), usual);
        assert_eq!(finding.verdict, verdict, "{unread:?} {without:?}: {finding:?}");
    }
    let hundred = |status| HeadExchange { hundreds: 1, ..asked(status, 2) };
    let http10 = |with: &HeadExchange, without: Option<&HeadExchange>| rules::http10(with, without).verdict;
    assert_eq!(http10(&asked(Some(405), 2), None), Verdict::Good);
    assert_eq!(http10(&asked(None, 2), None), Verdict::Unknown);
    assert_eq!(http10(&hundred(Some(200)), Some(&asked(Some(200), 2))), Verdict::Bad);
    assert_eq!(http10(&hundred(Some(200)), Some(&hundred(Some(200)))), Verdict::Unknown);

    let gone = HeadExchange { silent: false, ..asked(None, 2) };
    let ours = plain(200, 2);
    assert_eq!(rules::empty(&asked(Some(400), 2), &ours).verdict, Verdict::Good);
    assert_eq!(rules::empty(&asked(None, 2), &ours).verdict, Verdict::Bad);
    assert_eq!(rules::empty(&asked(None, 2), &plain(200, 1500)).verdict, Verdict::Unknown);
    assert_eq!(rules::empty(&gone, &ours).verdict, Verdict::Unknown);

    for (status, verdict) in [(417, Verdict::Good), (200, Verdict::Good), (500, Verdict::Warning)] {
        assert_eq!(rules::other(&asked(Some(status), 2), &ours).verdict, verdict);
    }
    assert_eq!(rules::other(&gone, &ours).verdict, Verdict::Warning);
    for (hundreds, verdict) in
        [(0, None), (1, Some(Verdict::Good)), (2, Some(Verdict::Bad)), (3, Some(Verdict::Bad))]
    {
        let once = rules::once(&held(EarlyResponse::Continue(MS), hundreds, None));
        assert_eq!(once.map(|finding| finding.verdict), verdict);
    }
}

/// How the server of a test treats the expectation.
#[derive(Clone, Copy, PartialEq)]
enum ExpectBehavior {
    Responses,
    RespondsOld,
    RespondsTwice,
    Ignores,
    Decides,
    DecidesAndMisreads,
    Refuses,
    ClosesUnsaid,
}

async fn habit(mut peer: ScriptedConnection, habit: ExpectBehavior) -> Option<()> {
    loop {
        let head = peer.head().await?;
        let old = head.lines().next()?.ends_with("HTTP/1.0");
        let expects = field(&head, "expect").is_some_and(|value| value == "100-continue");
        let has_body = field(&head, "content-length").is_some_and(|length| length != "0");
        if !head.starts_with("GET /page ") && !head.starts_with("OPTIONS /page ") {
            peer.say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
            return None;
        }
        if expects && has_body {
            match habit {
                ExpectBehavior::RespondsOld => peer.say("HTTP/1.1 100 Continue\r\n\r\n").await,
                ExpectBehavior::Responses if !old => peer.say("HTTP/1.1 100 Continue\r\n\r\n").await,
                ExpectBehavior::RespondsTwice if !old => {
                    peer.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n").await;
                }
                ExpectBehavior::DecidesAndMisreads if !old => {
                    peer.ok().await;
                    continue;
                }
                ExpectBehavior::Decides => peer.ok().await,
                ExpectBehavior::ClosesUnsaid => {
                    peer.ok().await;
                    return None;
                }
                ExpectBehavior::Refuses => {
                    peer.say("HTTP/1.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
                    return None;
                }
                _ => {}
            }
        }
        peer.body(&head).await?;
        if !(expects && has_body && habit == ExpectBehavior::Decides) {
            peer.ok().await;
        }
        if old {
            return None;
        }
    }
}

#[tokio::test]
async fn what_servers_do_about_the_expectation_is_found() {
    let worse = |findings: Vec<Finding>| -> Vec<(&'static str, Verdict)> {
        let worse = findings.into_iter().filter(|finding| finding.verdict > Verdict::Unknown);
        worse.map(|finding| (finding.id, finding.verdict)).collect()
    };
    let all = [
        (ExpectBehavior::Responses, vec![]),
        (ExpectBehavior::RespondsOld, vec![("expect.http10", Verdict::Bad)]),
        (ExpectBehavior::RespondsTwice, vec![("expect.once", Verdict::Bad)]),
        (ExpectBehavior::Ignores, vec![("expect.continue", Verdict::Bad)]),
        (ExpectBehavior::Decides, vec![]),
        (ExpectBehavior::DecidesAndMisreads, vec![("expect.unread", Verdict::Bad)]),
        (ExpectBehavior::Refuses, vec![("expect.continue", Verdict::Warning)]),
        (ExpectBehavior::ClosesUnsaid, vec![("expect.unread", Verdict::Warning)]),
    ];
    let mut examinations = Vec::new();
    for (one, expected) in all {
        examinations.push(tokio::spawn(async move {
            let context = scripted::context(move |peer| habit(peer, one)).await;
            let findings = examine(&context).await;
            (findings, expected)
        }));
    }
    for examination in examinations {
        let (findings, expected) = examination.await.expect("an examination");
        assert_eq!(worse(findings.clone()), expected, "{findings:#?}");
    }
}

#[tokio::test]
async fn a_path_that_may_be_posted_to_is() {
    let target = scripted::serve(|mut peer: ScriptedConnection| async move {
        loop {
            let head = peer.head().await?;
            match head.lines().next()? {
                "GET /page HTTP/1.1" => peer.ok().await,
                "POST /orders HTTP/1.1" | "POST /orders HTTP/1.0" => {
                    if head.contains("100-continue") {
                        peer.say("HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
                        return None;
                    }
                    let body = peer.body(&head).await?;
                    let status = if body == b"<order/>" { 200 } else { 422 };
                    peer.say(&format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n")).await;
                }
                _ => return None,
            }
        }
    })
    .await;
    let settings = Settings {
        post: Some("/orders".to_owned()),
        body: b"<order/>".to_vec(),
        rate: 1000,
        ..Settings::default()
    };
    let findings = examine(&scripted::context_of(&target, settings).await).await;
    let first = findings.first().expect("a finding");
    assert_eq!((first.id, first.verdict), ("expect.continue", Verdict::Bad), "{findings:#?}");
    assert!(first.evidence.starts_with("POST /orders HTTP/1.1 with a body of 8 bytes"), "{first:?}");
    assert!(first.evidence.ends_with("without Expect: 200"), "{first:?}");
}

#[tokio::test]
async fn a_server_that_responds_to_no_options_at_all_is_not_judged() {
    let context = scripted::context(|mut peer| async move {
        while peer.head().await?.starts_with("GET") {
            peer.ok().await;
        }
        None
    })
    .await;
    let findings = examine(&context).await;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings.first().map(|finding| finding.verdict), Some(Verdict::Unknown));
}

#[tokio::test]
async fn a_reset_now_and_then_is_no_verdict() {
    let resets = Arc::new(AtomicBool::new(false));
    let context = scripted::context(move |mut peer: ScriptedConnection| {
        let resets = Arc::clone(&resets);
        async move {
            loop {
                let head = peer.head().await?;
                let expects = field(&head, "expect") == Some("100-continue");
                if expects && !resets.swap(true, Ordering::Relaxed) {
                    return None;
                }
                if expects && head.contains("HTTP/1.1") {
                    peer.say("HTTP/1.1 100 Continue\r\n\r\n").await;
                }
                peer.body(&head).await?;
                peer.ok().await;
            }
        }
    })
    .await;
    let findings = examine(&context).await;
    assert_eq!(worst(&findings), Verdict::Good, "{findings:#?}");
}
