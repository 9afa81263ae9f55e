//! How long an idle connection lives: promised by `Keep-Alive: timeout=`, and measured. A server that closes sooner than it promised, or so soon that any client
//! is still about to use the connection, closes under requests (RFC 9112 §9.5, §9.6).

use std::time::Duration;

use super::{ConnectionState, LOOK, SLOW_PATIENCE, Series, light, series};
use crate::client::Response;
use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::report::time;

pub(super) const ID: &str = "persistence.idle";

/// So long an idle connection is watched without `--slow`.
const WATCHED: Duration = Duration::from_millis(1100);

/// An idle timeout below this is within the pause between two clicks, or two calls of a script.
const SHORT: Duration = Duration::from_secs(2);

/// So much sooner than promised is still kept: servers count in whole seconds.
const SLACK: Duration = Duration::from_secs(1);

pub(super) async fn examine(context: &ProbeContext, promised: Option<u64>) -> Finding {
    let watched = if context.settings.slow { SLOW_PATIENCE } else { WATCHED };
    // The promise stands in any response; this one's own counts first.
    match series(context, &[light(context)], |_| false, watched).await {
        Ok(series) => {
            let own = series.last().and_then(|response| response.head.as_ref()?.keep_alive_timeout());
            judge(&series, own.or(promised))
        }
        Err(failure) => Finding::unknown(ID, failure.to_string()),
    }
}

/// It lives as long as promised, and long enough.
fn judge(series: &Series, promised: Option<u64>) -> Finding {
    if !series.last().is_some_and(Response::is_complete) {
        let words = series.last().map(Response::words).unwrap_or_default();
        return Finding::unknown(ID, format!("{}: {words}", series.asked));
    }
    if !series.is_kept() {
        return Finding::good(ID, "the server keeps no connection open, so none is idle");
    }
    let promise = match promised {
        Some(seconds) => format!("Keep-Alive: timeout={seconds}"),
        None => "no timeout is promised".to_owned(),
    };
    let race =
        "a request that is sent as the connection closes is lost: an error, or a retry where one is safe";
    match (series.state, promised.map(Duration::from_secs)) {
        (ConnectionState::Closed(after), _) if after < LOOK => Finding::unknown(
            ID,
            format!("closed {} after the response, before it could be idle", time(after)),
        ),
        (ConnectionState::Closed(after), Some(until)) if after + SLACK < until => {
            Finding::bad(ID, format!("{promise}, but an idle connection is closed after {}", time(after)))
                .costs(race)
        }
        (ConnectionState::Closed(after), _) if after + SLACK / 10 < SHORT => {
            Finding::warning(ID, format!("an idle connection is closed after {} ({promise})", time(after)))
                .costs(race)
        }
        (ConnectionState::Closed(after), _) => {
            Finding::good(ID, format!("an idle connection is closed after {} ({promise})", time(after)))
        }
        (ConnectionState::Open(after), _) => {
            Finding::good(ID, format!("an idle connection is still open after {} ({promise})", time(after)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::probes::persistence::tests::series_of;

    #[test]
    fn an_idle_connection_lives_as_long_as_promised_and_long_enough() {
        let closed = |millis| ConnectionState::Closed(Duration::from_millis(millis));
        for (then, promised, verdict) in [
            (closed(300), Some(75), Verdict::Bad),
            (closed(300), Some(1), Verdict::Warning),
            (closed(1000), None, Verdict::Warning),
            (closed(2000), None, Verdict::Good),
            (closed(5001), Some(5), Verdict::Good),
            (closed(4990), Some(5), Verdict::Good),
            (closed(60_000), Some(75), Verdict::Bad),
            (closed(1), Some(75), Verdict::Unknown),
            (ConnectionState::Open(WATCHED), Some(75), Verdict::Good),
        ] {
            let series = series_of(&[(200, &[("Content-Length", "0")])], then);
            assert_eq!(judge(&series, promised).verdict, verdict, "{then:?} {promised:?}");
        }
        let last = series_of(&[(200, &[("Connection", "close")])], closed(1));
        assert_eq!(judge(&last, None).verdict, Verdict::Good);
    }
}
