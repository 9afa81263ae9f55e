use super::*;
use crate::finding::Verdict;
use crate::probes::scripted::{self, ScriptedConnection};
use crate::server::Server;
use crate::settings::Settings;

const MS: Duration = Duration::from_millis(1);
const NAMES: (&str, &str) = ("the app", "the proxy");

fn heard(hints: &[u16], status: Option<u16>) -> InformationalExchange {
    InformationalExchange {
        asked: "GET / HTTP/1.1".to_owned(),
        hints: hints.iter().map(|&hint| (hint, MS * 3)).collect(),
        last: status.map(|status| (status, MS * 50)),
        chunked: true,
        whole: true,
        ..InformationalExchange::default()
    }
}

fn with(trailers: &[&str], announced: &[&str]) -> InformationalExchange {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    InformationalExchange { trailers: owned(trailers), announced: owned(announced), ..heard(&[], Some(200)) }
}

#[test]
fn what_comes_before_the_page() {
    let switched = InformationalExchange { switched: true, ..heard(&[], None) };
    let framed = InformationalExchange { framed_hint: true, ..heard(&[103], Some(200)) };
    for (page, verdict) in [
        (heard(&[], Some(200)), Verdict::Unknown),
        (heard(&[103], None), Verdict::Unknown),
        (heard(&[103], Some(200)), Verdict::Good),
        (heard(&[102, 103, 103], Some(200)), Verdict::Good),
        (heard(&[102], Some(200)), Verdict::Good),
        (heard(&[100], Some(200)), Verdict::Warning),
        (framed, Verdict::Warning),
        (switched.clone(), Verdict::Bad),
    ] {
        let finding = rules::early_hints(&page);
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        assert!(fix(finding.id, Server::Unknown).is_some());
    }
    assert!(rules::early_hints(&heard(&[103], Some(200))).evidence.contains("47.0 ms earlier"));

    for (old, verdict) in [
        (heard(&[], Some(200)), Verdict::Good),
        (heard(&[], None), Verdict::Unknown),
        (heard(&[103], Some(200)), Verdict::Bad),
        (heard(&[100], None), Verdict::Bad),
        (switched.clone(), Verdict::Bad),
    ] {
        assert_eq!(rules::http10(&old).verdict, verdict, "{old:?}");
    }
    for (response, verdict) in [
        (heard(&[], Some(200)), Verdict::Good),
        (heard(&[], Some(400)), Verdict::Good),
        (heard(&[], None), Verdict::Unknown),
        (switched, Verdict::Bad),
    ] {
        assert_eq!(rules::upgrade(&response).verdict, verdict, "{response:?}");
    }
}

#[test]
fn what_comes_behind_the_page() {
    let endless = InformationalExchange { whole: false, ..with(&[], &["digest"]) };
    let framed = InformationalExchange { chunked: false, ..with(&[], &["digest"]) };
    for (page, verdict) in [
        (with(&[], &[]), Verdict::Unknown),
        (heard(&[], None), Verdict::Unknown),
        (endless, Verdict::Unknown),
        (with(&[], &["digest"]), Verdict::Warning),
        (framed, Verdict::Warning),
        (with(&["digest"], &["digest"]), Verdict::Good),
        (with(&["digest"], &[]), Verdict::Good),
        (with(&["digest", "content-length"], &[]), Verdict::Bad),
        (with(&["set-cookie"], &[]), Verdict::Bad),
        (with(&["expires"], &["expires"]), Verdict::Warning),
    ] {
        let finding = rules::trailers(&page);
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        assert!(fix(finding.id, Server::Nginx).is_some());
    }
    let names = |block: &[u8]| trailer_names(block).join(" ");
    assert_eq!(names(b"0\r\nA: b\r\nContent-Length: 5\r\n\r\n"), "a content-length");
    assert_eq!(names(b"0;x=\"a:b\"\r\n\r\n"), "");
    assert_eq!(names(b"A: b\r\n\r\n"), "a");
}

#[test]
fn what_a_hop_passes() {
    for (inner, outer, verdict) in [
        (heard(&[103, 103], Some(200)), heard(&[103, 103], Some(200)), Verdict::Good),
        (heard(&[103], Some(200)), heard(&[102, 103], Some(200)), Verdict::Good),
        (heard(&[103, 103], Some(200)), heard(&[103], Some(200)), Verdict::Warning),
        (heard(&[102, 103], Some(200)), heard(&[103, 102], Some(200)), Verdict::Warning),
        (heard(&[103], Some(200)), heard(&[], Some(200)), Verdict::Warning),
        (heard(&[], Some(200)), heard(&[], Some(200)), Verdict::Unknown),
        (heard(&[103], Some(200)), heard(&[], None), Verdict::Unknown),
    ] {
        let finding = rules::via_hints(&inner, &outer, NAMES);
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        if verdict == Verdict::Warning {
            assert!(finding.cost.is_some_and(|cost| cost.starts_with("47.0 ms")));
        }
    }
    let held = InformationalExchange { hints: vec![(103, MS * 49)], ..heard(&[], Some(200)) };
    let finding = rules::via_hints(&heard(&[103], Some(200)), &held, NAMES);
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.cost.is_some_and(|cost| cost.starts_with("46.0 ms")));
    let merged = InformationalExchange { names: vec!["digest".to_owned()], ..with(&[], &[]) };
    for (inner, outer, verdict) in [
        (with(&[], &[]), with(&[], &[]), Verdict::Unknown),
        (with(&["digest"], &[]), with(&["digest"], &[]), Verdict::Good),
        (with(&["digest", "expires"], &[]), with(&["digest"], &[]), Verdict::Good),
        (with(&["digest"], &[]), with(&[], &[]), Verdict::Warning),
        (with(&["digest"], &[]), merged, Verdict::Bad),
        (with(&["digest"], &[]), heard(&[], None), Verdict::Unknown),
    ] {
        let finding = rules::via_trailers(&inner, &outer, NAMES);
        assert_eq!(finding.verdict, verdict, "{finding:?}");
    }
}

/// The response of a test's server.
#[derive(Clone, Copy, PartialEq)]
enum InformationalBehavior {
    Plain,
    Rich,
    RichToAll,
    Upgrades,
    BadTrailer,
    LosesTrailer,
}

async fn habit(mut peer: ScriptedConnection, habit: InformationalBehavior) -> Option<()> {
    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Digest\r\n\r\n2\r\nok\r\n";
    loop {
        let head = peer.head().await?;
        let old = head.lines().next()?.ends_with("HTTP/1.0");
        if matches!(habit, InformationalBehavior::Rich | InformationalBehavior::RichToAll)
            && (!old || habit == InformationalBehavior::RichToAll)
        {
            peer.say("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n").await;
            peer.say("HTTP/1.1 103 Early Hints\r\nLink: </b>; rel=preload\r\n\r\n").await;
        }
        match habit {
            InformationalBehavior::Upgrades if head.contains("Upgrade") => {
                peer.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
                    .await;
            }
            _ if old => peer.ok().await,
            InformationalBehavior::Rich | InformationalBehavior::RichToAll => {
                peer.say(&format!("{CHUNKED}0\r\nX-Digest: 1\r\n\r\n")).await
            }
            InformationalBehavior::BadTrailer => {
                peer.say(&format!("{CHUNKED}0\r\nX-Digest: 1\r\nHost: x\r\n\r\n")).await
            }
            InformationalBehavior::LosesTrailer => peer.say(&format!("{CHUNKED}0\r\n\r\n")).await,
            _ => peer.ok().await,
        }
    }
}

async fn told(
    front: InformationalBehavior,
    behind: Option<InformationalBehavior>,
) -> Vec<(&'static str, Verdict)> {
    let mut via = Vec::new();
    if let Some(behind) = behind {
        via.push(scripted::serve(move |peer| habit(peer, behind)).await);
    }
    let target = scripted::serve(move |peer| habit(peer, front)).await;
    let context = scripted::context_of(&target, Settings { rate: 1000, via, ..Settings::default() }).await;
    let findings = examine(&context).await;
    let told = findings.iter().filter(|finding| finding.verdict != Verdict::Unknown);
    told.map(|finding| (finding.id, finding.verdict)).collect()
}

#[tokio::test]
async fn what_servers_send_is_found() {
    use Verdict::{Bad, Good, Warning};
    let (http10, upgrade) = (("informational.http10", Good), ("informational.upgrade", Good));
    let (hints, trailers) = (("informational.early_hints", Good), ("informational.trailers", Good));
    for (habit, expected) in [
        (InformationalBehavior::Plain, vec![http10, upgrade]),
        (InformationalBehavior::Rich, vec![hints, trailers, http10, upgrade]),
        (InformationalBehavior::RichToAll, vec![hints, trailers, ("informational.http10", Bad), upgrade]),
        (InformationalBehavior::Upgrades, vec![http10, ("informational.upgrade", Bad)]),
        (InformationalBehavior::BadTrailer, vec![("informational.trailers", Bad), http10, upgrade]),
        (
            InformationalBehavior::LosesTrailer,
            vec![("informational.lost_trailers", Warning), http10, upgrade],
        ),
    ] {
        assert_eq!(told(habit, None).await, expected);
    }
}

#[tokio::test]
async fn a_hop_is_compared_with_what_is_behind_it() {
    use Verdict::{Good, Warning};
    let last = |told: Vec<(&'static str, Verdict)>| told.into_iter().skip(2).collect::<Vec<_>>();
    assert_eq!(
        last(told(InformationalBehavior::Plain, Some(InformationalBehavior::Rich)).await),
        [("informational.via_hints", Warning), ("informational.via_trailers", Warning)]
    );
    assert_eq!(
        last(last(told(InformationalBehavior::Rich, Some(InformationalBehavior::Rich)).await)),
        [("informational.via_hints", Good), ("informational.via_trailers", Good)]
    );
}

#[tokio::test]
async fn a_server_behind_that_is_not_there_is_told() {
    let target = scripted::serve(|peer| habit(peer, InformationalBehavior::Plain)).await;
    let nobody = crate::Target::parse("http://127.0.0.1:1/").expect("a URL");
    let settings = Settings { via: vec![nobody], ..Settings::default() };
    let findings = examine(&scripted::context_of(&target, settings).await).await;
    let via = findings.iter().find(|finding| finding.id == "informational.via_hints");
    assert!(via.is_some_and(|via| via.evidence.contains("127.0.0.1:1")), "{findings:?}");
}
