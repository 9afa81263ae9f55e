//! What holds against a real authority.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keepwarm_acme::{ChallengeKind, ExternalAccount, NameState, Storage};
use keepwarm_tests::pebble::{Pebble, PebbleSettings};

use crate::responder::Responder;
use crate::site::{LONG, Site, authority};

#[tokio::test]
async fn each_challenge_obtains_a_certificate() {
    for (kind, name) in
        [(ChallengeKind::Http01, "http.shop.test"), (ChallengeKind::TlsAlpn01, "tls.shop.test")]
    {
        let pebble = Pebble::start(PebbleSettings::default());
        let mut site = Site::new(&pebble, &[kind]);
        let _responder = Responder::start(&pebble, &site.challenges).await;
        site.start(&[name]);
        assert_eq!(site.status(name).state, NameState::SelfSigned, "until then there is one of our own");
        let certificate = site.issued(name).await;
        assert_eq!(certificate.facts.names, [name]);
        assert!(certificate.facts.issuer.contains("Pebble"), "{:?}", certificate.facts);
        let status = site.wait_status(name, |status| status.obtained == 1).await;
        assert_eq!((status.failures, status.error), (0, None));
        assert!(site.challenges.is_empty(), "the response is withdrawn");
        let left = certificate.facts.validity.end.duration_since(status.next.unwrap()).unwrap();
        assert!(left > Duration::from_secs(3600), "it is renewed in time: {left:?}");
    }
}

#[tokio::test]
async fn names_do_not_wait_for_one_another_and_what_succeeds_is_kept() {
    let pebble = Pebble::start(PebbleSettings { blocked: &["blocked.test"], ..PebbleSettings::default() });
    let mut site = Site::new(&pebble, &[ChallengeKind::Http01]);
    let _responder = Responder::start(&pebble, &site.challenges).await;
    site.start(&["a.shop.test", "blocked.test", "b.shop.test"]);
    for name in ["a.shop.test", "b.shop.test"] {
        site.issued(name).await;
    }
    let failed = site.wait_status("blocked.test", |status| status.failures == 1).await;
    assert!(failed.error.as_ref().unwrap().contains("issues no certificate for this name"), "{failed:?}");
    let wait = failed.next.unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(wait > Duration::from_secs(100), "{wait:?}");
    // Another process has those that succeeded, and knows of the failure.
    let again = Site::new(&pebble, &[ChallengeKind::Http01]);
    let storage = Storage::open(&again.settings.storage, &authority(&pebble)).unwrap();
    for name in ["a.shop.test", "b.shop.test"] {
        assert!(storage.certificate(name).unwrap().is_some());
    }
    let mut again = again;
    again.start(&["blocked.test", "a.shop.test"]);
    again.issued("a.shop.test").await;
    assert_eq!(
        again.wait_status("blocked.test", |status| status.failures == 1).await.failed,
        0,
        "a restart is no reason to try again"
    );
}

#[tokio::test]
async fn rejected_nonces_only_cost_time() {
    let pebble = Pebble::start(PebbleSettings { bad_nonces: 30, ..PebbleSettings::default() });
    let mut site = Site::new(&pebble, &[ChallengeKind::Http01]);
    let _responder = Responder::start(&pebble, &site.challenges).await;
    site.start(&["a.shop.test", "b.shop.test", "c.shop.test"]);
    for name in ["a.shop.test", "b.shop.test", "c.shop.test"] {
        site.issued(name).await;
    }
}

#[tokio::test]
async fn an_authority_that_is_down_is_waited_for() {
    let mut pebble = Pebble::prepare(PebbleSettings::default());
    let mut site = Site::new(&pebble, &[ChallengeKind::Http01]);
    site.start(&["a.shop.test"]);
    let status = site.wait_status("a.shop.test", |status| status.failures == 1).await;
    assert!(status.error.as_ref().unwrap().contains("cannot connect"), "{status:?}");
    let wait = status.next.unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(wait < Duration::from_secs(15), "nothing was ordered, so it is tried soon: {wait:?}");
    assert!(site.sink.installed.lock().unwrap()[0].1.is_self_signed());
    pebble.run();
    let _responder = Responder::start(&pebble, &site.challenges).await;
    site.issued("a.shop.test").await;
}

#[tokio::test]
async fn an_order_under_way_is_continued_by_the_next_process() {
    let pebble = Pebble::start(PebbleSettings::default());
    let mut site = Site::new(&pebble, &[ChallengeKind::Http01]);
    // The authority's question is accepted, and has no response yet.
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", pebble.http_port())).await.unwrap();
    site.start(&["a.shop.test"]);
    let (question, _) = tokio::time::timeout(LONG, silent.accept()).await.unwrap().unwrap();
    let order = pebble.saved_order("a.shop.test");
    // The process ends. Its successor finds the order.
    site.acme = None;
    let mut next = Site::new(&pebble, &[ChallengeKind::Http01]);
    next.start(&["a.shop.test"]);
    next.wait_challenge().await;
    assert_eq!(pebble.saved_order("a.shop.test"), order, "no other order was placed");
    let _responder = Responder::start_on(silent, Some(question), &next.challenges);
    let certificate = next.issued("a.shop.test").await;
    assert_eq!(certificate.facts.names, ["a.shop.test"]);
}

#[tokio::test]
async fn a_failed_validation_says_why_and_the_other_challenge_is_next() {
    let pebble = Pebble::start(PebbleSettings::default());
    let mut site = Site::new(&pebble, &[ChallengeKind::TlsAlpn01, ChallengeKind::Http01]);
    // Nobody listens at either port.
    site.start(&["a.shop.test"]);
    let status = site.wait_status("a.shop.test", |status| status.failures == 1).await;
    let error = status.error.unwrap();
    assert!(error.starts_with("validation by tls-alpn-01 failed") && error.contains("port 443"), "{error}");
    assert!(!pebble.storage_file("orders/a.shop.test.json").exists(), "the order is over");
    pebble.allow_attempt("a.shop.test");
    let mut next = Site::new(&pebble, &[ChallengeKind::TlsAlpn01, ChallengeKind::Http01]);
    let _responder = Responder::start_http(&pebble, &next.challenges).await;
    next.start(&["a.shop.test"]);
    next.issued("a.shop.test").await;
}

#[tokio::test]
async fn after_a_failure_the_staging_server_comes_first() {
    let staging = Pebble::start(PebbleSettings { blocked: &["a.shop.test"], ..PebbleSettings::default() });
    let pebble = Pebble::start(PebbleSettings::default());
    let mut site = Site::new(&pebble, &[ChallengeKind::Http01]);
    site.settings.staging = Some(authority(&staging));
    site.start(&["a.shop.test"]);
    site.wait_status("a.shop.test", |status| status.failures == 1).await;
    site.acme = None;
    pebble.allow_attempt("a.shop.test");
    site.start(&["a.shop.test"]);
    let status = site.wait_status("a.shop.test", |status| status.failures == 2).await;
    assert!(status.error.unwrap().contains("issues no certificate"), "the staging server said so");
    assert!(!pebble.storage_file("orders/a.shop.test.json").exists(), "nothing was ordered of the other");
}

#[tokio::test]
async fn an_external_account_is_used_where_it_is_required() {
    let key = b"0123456789abcdef0123456789abcdef";
    let settings = PebbleSettings {
        external_accounts: &[("kid-1", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY")],
        ..PebbleSettings::default()
    };
    let pebble = Pebble::start(settings);
    let mut without = Site::new(&pebble, &[ChallengeKind::Http01]);
    without.start(&["a.shop.test"]);
    let status = without.wait_status("a.shop.test", |status| status.failures == 1).await;
    assert!(status.error.as_ref().unwrap().contains("acme.external_account"), "{status:?}");
    drop(without);
    pebble.allow_attempt("a.shop.test");
    let mut site = Site::new(&pebble, &[ChallengeKind::Http01]);
    site.settings.external_account = Some(ExternalAccount { id: "kid-1".to_owned(), key: key.to_vec() });
    let _responder = Responder::start(&pebble, &site.challenges).await;
    site.start(&["a.shop.test"]);
    site.issued("a.shop.test").await;
}

#[tokio::test]
async fn a_short_lived_certificate_is_renewed_and_replaced() {
    // Valid for 12 s: renewed after 6.
    let pebble = Pebble::start(PebbleSettings { validity_seconds: 12, ..PebbleSettings::default() });
    let mut site = Site::new(&pebble, &[ChallengeKind::Http01]);
    site.settings.profile = Some("default".to_owned());
    let _responder = Responder::start(&pebble, &site.challenges).await;
    site.start(&["a.shop.test"]);
    let first = site.issued("a.shop.test").await;
    site.wait_status("a.shop.test", |status| status.obtained == 2).await;
    let second = site.issued("a.shop.test").await;
    assert_ne!(first.facts.serial, second.facts.serial);
    assert!(second.facts.validity.start > first.facts.validity.start);
}

#[tokio::test]
async fn two_processes_with_one_storage_order_once() {
    let pebble = Pebble::start(PebbleSettings::default());
    let mut one = Site::new(&pebble, &[ChallengeKind::Http01]);
    let mut other = Site::new(&pebble, &[ChallengeKind::Http01]);
    other.challenges = Arc::clone(&one.challenges);
    let _responder = Responder::start(&pebble, &one.challenges).await;
    one.start(&["a.shop.test"]);
    other.start(&["a.shop.test"]);
    let (first, second) = tokio::join!(one.issued("a.shop.test"), other.issued("a.shop.test"));
    assert_eq!(first.facts.serial, second.facts.serial);
    let obtained = one.status("a.shop.test").obtained + other.status("a.shop.test").obtained;
    assert_eq!(obtained, 1);
}
