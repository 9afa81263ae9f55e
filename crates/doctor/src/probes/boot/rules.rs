//! The rules: from times to findings.

use std::time::Duration;

use super::observe::{BootObservation, BootRequest, Samples};
use crate::finding::Finding;
use crate::report::time;

pub(super) const EVERY: &str = "boot.every";
pub(super) const FIRST: &str = "boot.first";

/// A response without work from a warm worker takes less than this, in any language.
const BOOT: Duration = Duration::from_millis(15);

/// Where another response of the same server takes next to nothing, less is suspicious: it is not the machine or the way.
const BOOT_BESIDE: Duration = Duration::from_millis(10);
const NOTHING: Duration = Duration::from_millis(2);

/// Where PHP says that it made the page, less is suspicious: it starts each request with nothing, unless in workers.
const BOOT_OF_PHP: Duration = Duration::from_millis(3);

/// A response this fast was not booted for.
const FREE: Duration = Duration::from_millis(5);

/// The time of a warm worker for a page that does nothing (the article's 0.48 ms), where nothing better is known.
const WARM: Duration = Duration::from_micros(480);

/// No machine is so busy that every one of several responses waits this long for its turn.
const CERTAIN: Duration = Duration::from_millis(40);

/// A boot takes about as long each time; where the median is this many times the minimum, the times measure a busy machine.
const NOISY: f64 = 1.8;

/// Fewest responses that show whether a time is constant.
const SEVERAL: usize = 4;

/// The difference between times on any machine.
const JITTER: Duration = Duration::from_millis(1);

/// A first response this much later than those after it was a start.
const COLD: Duration = Duration::from_millis(500);

/// Does the application boot for each request?
pub(super) fn every(seen: &BootObservation) -> Finding {
    let Some(page) = seen.kind(BootRequest::Page).filter(|page| page.times.len() >= 2) else {
        let why = seen.failure.as_deref().unwrap_or("the page did not return the same status twice");
        return Finding::unknown(EVERY, why);
    };
    let own = seen.own(page);
    let least = seen.suspicious();
    let evidence = seen.words();
    if own < least.max(seen.network / 4) {
        return match page.status {
            401 | 403 | 407 | 429 | 500.. => Finding::unknown(
                EVERY,
                format!(
                    "{evidence}: rejected this fast, perhaps before the application; pass credentials with --header"
                ),
            ),
            _ => Finding::good(EVERY, format!("{evidence}: no sign of a boot")),
        };
    }
    if seen.first < page.least() / 2 {
        let words =
            format!("{evidence}; the very first response took {}: later ones are delayed", time(seen.first));
        return Finding::unknown(EVERY, words);
    }
    if seen.kind(BootRequest::Head).is_some_and(|head| seen.own(head) < FREE.min(least)) {
        // As where a proxy waits for a body whose sender waits for an acknowledgement.
        let words = format!("{evidence}: the head alone is fast, and a boot would delay it, too");
        return Finding::unknown(EVERY, words);
    }
    let by_app = |kind: &&Samples| kind.question != BootRequest::Page && kind.by_app && seen.own(kind) < FREE;
    if let Some(fast) = seen.kinds.iter().find(by_app) {
        let words = format!(
            "{evidence}: {} also comes from the application, and is fast: the time is the page's own",
            fast.asked
        );
        return Finding::good(EVERY, words);
    }
    let idle =
        [BootRequest::Missing, BootRequest::Options].into_iter().filter_map(|question| seen.kind(question));
    let differ = idle.filter(|kind| !kind.is_same_as(page));
    let floor = differ.map(|kind| seen.own(kind)).filter(|own| *own >= least).min();
    // Where every path returns the same page, and none is fast, its constancy has to do.
    if let Some(floor) = floor.or_else(|| seen.constant_floor()) {
        return boots(seen, page, floor.min(own), evidence);
    }
    only_the_page(seen, page, own, evidence)
}

/// Responses that take no work cost as much as `floor`, too.
fn boots(seen: &BootObservation, page: &Samples, floor: Duration, evidence: String) -> Finding {
    let words = format!(
        "{evidence}: no response of the application takes less than {}, whatever is requested, as if it booted each time",
        time(floor)
    );
    if floor < CERTAIN && page.median() > page.least().mul_f64(NOISY) {
        let words = format!("{words}; but the times vary so much that a busy machine may be the only cause");
        return Finding::unknown(EVERY, words);
    }
    let found = match (&seen.hop, floor < BOOT) {
        // The floor may be the way from the cache to the application.
        (Some(hop), _) => Finding::warning(
            EVERY,
            format!("{words} (or the application is far from the proxy that sends {hop})"),
        ),
        (None, true) => Finding::warning(EVERY, words),
        (None, false) => Finding::bad(EVERY, words),
    };
    found.costs(gain(seen, page, floor))
}

/// Only the page is slow, and whether what was fast came from the application is not known.
fn only_the_page(seen: &BootObservation, page: &Samples, own: Duration, evidence: String) -> Finding {
    if !page.is_constant() {
        let words = format!("{evidence}: the time of the page varies, and may be its own work");
        return Finding::unknown(EVERY, words);
    }
    let who = if seen.php { ", and PHP boots for each request unless it runs in workers" } else { "" };
    let words = format!(
        "{evidence}: the page takes the same time again and again, as it would with a boot{who}; the other responses may come from a server in front of the application"
    );
    match own >= BOOT {
        true => Finding::warning(EVERY, words).costs(format!("if it is a boot: {}", gain(seen, page, own))),
        false => Finding::unknown(EVERY, words),
    }
}

/// Was the first response of all slower than those after it?
pub(super) fn first(seen: &BootObservation) -> Finding {
    let Some(page) = seen.kind(BootRequest::Page).filter(|page| page.times.len() >= 2) else {
        return Finding::unknown(FIRST, "there are no later responses to compare the first with");
    };
    let later = page.median();
    let evidence =
        format!("the first response began after {}, later ones after {}", time(seen.first), time(later));
    if seen.first >= later * 5 && seen.first >= later + COLD {
        return Finding::warning(FIRST, evidence).costs(format!(
            "the first client after a start, a pause or a replaced worker waits {}",
            time(seen.first)
        ));
    }
    Finding::good(FIRST, evidence)
}

/// The saving by warm workers.
fn gain(seen: &BootObservation, page: &Samples, floor: Duration) -> String {
    let now = page.median();
    let fast = seen.kinds.iter().map(Samples::median).min().unwrap_or_default();
    let warm = match fast < now / 2 {
        true => fast.max(now.saturating_sub(floor)),
        false => (seen.network + WARM).max(now.saturating_sub(floor)),
    };
    let times = now.as_secs_f64() / warm.as_secs_f64().max(1e-6);
    format!(
        "about {} on every request; from warm workers, the page would take about {} instead of {}, up to {times:.0} times as fast",
        time(now.saturating_sub(warm)),
        time(warm),
        time(now)
    )
}

impl BootObservation {
    fn kind(&self, question: BootRequest) -> Option<&Samples> {
        self.kinds.iter().find(|kind| kind.question == question)
    }

    /// The time that no response beats.
    fn floor(&self) -> Duration {
        self.kinds.iter().map(|kind| self.own(kind)).min().unwrap_or_default()
    }

    /// The same, where the fastest quarter of all responses to at least three questions takes the same time.
    fn constant_floor(&self) -> Option<Duration> {
        let mut all: Vec<Duration> = self.kinds.iter().flat_map(|kind| &kind.times).copied().collect();
        all.sort_unstable();
        let (least, quarter) = (*all.first()?, *all.get(all.len() / 4)?);
        let constant = quarter - least <= quarter / 10 + JITTER;
        (constant && self.kinds.len() >= 3 && self.floor() >= BOOT).then(|| self.floor())
    }

    /// From when on a time is suspicious.
    fn suspicious(&self) -> Duration {
        match (self.php, self.floor() < NOTHING) {
            (true, _) => BOOT_OF_PHP,
            (false, true) => BOOT_BESIDE,
            (false, false) => BOOT,
        }
    }

    /// The least time a response takes, without the round trip.
    fn own(&self, kind: &Samples) -> Duration {
        kind.least().saturating_sub(self.network)
    }

    fn words(&self) -> String {
        let each: Vec<String> = self.kinds.iter().map(Samples::words).collect();
        format!("{} (round trip {})", each.join(", "), time(self.network))
    }
}

impl Samples {
    /// The second least time: the very least may be owed to an interruption of our own between sending and looking.
    fn least(&self) -> Duration {
        let index = usize::from(self.times.len() >= SEVERAL);
        self.times.get(index).copied().unwrap_or_default()
    }

    fn at(&self, quarters: usize) -> Duration {
        let index = (self.times.len() * quarters / 4).min(self.times.len().saturating_sub(1));
        self.times.get(index).copied().unwrap_or_default()
    }

    fn median(&self) -> Duration {
        self.at(2)
    }

    /// Whether the faster half of the times differs by a tenth at most, and a millisecond, as on any machine. Other load on the machine delays the slower half.
    fn is_constant(&self) -> bool {
        let spread = self.median().saturating_sub(self.at(0));
        self.times.len() >= SEVERAL && spread <= self.median() / 10 + JITTER
    }

    /// Whether it is the same response by status and length: one handler for everything.
    fn is_same_as(&self, page: &Self) -> bool {
        let close = match (self.length, page.length) {
            (Some(one), Some(other)) => one.abs_diff(other) <= one.max(other) / 10,
            _ => true,
        };
        self.status == page.status && close
    }

    fn words(&self) -> String {
        let words = format!("{} → {} in {}", self.asked, self.status, time(self.median()));
        match self.question {
            BootRequest::Page => format!("{words} ({} to {})", time(self.at(1)), time(self.at(3))),
            _ => words,
        }
    }
}
