//! The rules: from what was counted to findings.

use std::time::Duration;

use super::observe::{BodyEnd, ROOM, Sample, WriteObservation};
use crate::finding::Finding;
use crate::report::time;

pub(super) const HEAD: &str = "writes.head";
pub(super) const SEGMENTS: &str = "writes.segments";
pub(super) const NAGLE: &str = "writes.nagle";

/// The segment size of a host whose peer announced none (RFC 9293 §3.7.1): segments smaller than this on the average are small writes.
const SMALL: usize = 536;

/// A delayed acknowledgement waits 40 ms on Linux, 200 ms on others, never less than this.
const DELAYED: Duration = Duration::from_millis(30);

/// The saving by immediate acknowledgements that proves that the acknowledgement was the cause.
const SAVED: Duration = Duration::from_millis(25);

/// Does a head that fits one segment leave in one?
pub(super) fn head(seen: &WriteObservation) -> Finding {
    let alone: Vec<&Sample> = seen.heads.iter().filter(|one| !one.more).collect();
    let counted = median(alone.iter().filter_map(|one| one.segments));
    let at_least = median(alone.iter().filter_map(|one| one.at_least));
    let all = || seen.fresh.iter().chain(&seen.late).chain(&seen.at_once).chain(alone.iter().copied());
    let Some(one) = alone.first().copied().or_else(|| all().next()) else {
        return Finding::unknown(HEAD, nothing(seen));
    };
    let needed = one.head.div_ceil(ROOM);
    let or_more = if counted.is_none() { " or more" } else { "" };
    if let Some(counted) = counted.or(at_least).filter(|&counted| counted as usize > excused(one.head)) {
        let evidence = format!(
            "HEAD: the head alone ({} lines, about {} bytes) arrived in {counted} segments{or_more}; {needed} would be enough",
            one.lines, one.head
        );
        return in_pieces(evidence, counted as usize - needed);
    }
    let all: Vec<&Sample> = all().collect();
    if let Some(found) = torn(seen, &all).or_else(|| inferred(seen).filter(|_| counted.is_none())) {
        return found;
    }
    match counted {
        Some(counted) => Finding::good(
            HEAD,
            format!("HEAD: {} lines, about {} bytes, {}", one.lines, one.head, segments_of(counted as usize)),
        ),
        None => Finding::good(
            HEAD,
            format!("{}: in {} responses, the head arrived in one read", seen.asked, all.len()),
        ),
    }
}

/// Segments that a head may take on a path that carries only the least (RFC 9293 §3.7.1).
fn excused(head: usize) -> usize {
    head.div_ceil(SMALL)
}

/// From reads. A segment is read whole, so a read that ends within a head is the end of a segment. Two of them, lest a lost packet was the cause.
fn torn(seen: &WriteObservation, all: &[&Sample]) -> Option<Finding> {
    let torn: Vec<&&Sample> = all.iter().filter(|one| one.head_reads > excused(one.head)).collect();
    let most = torn.iter().max_by_key(|one| one.head_reads).filter(|_| torn.len() >= 2)?;
    let evidence = format!(
        "{}: in {} of {} responses, the head ({} lines, about {} bytes) arrived in up to {} reads, so in at least that number of segments",
        seen.asked,
        torn.len(),
        all.len(),
        most.lines,
        most.head,
        most.head_reads
    );
    Some(in_pieces(evidence, most.head_reads - most.head.div_ceil(ROOM)))
}

/// From sums, where HEAD is of no use: the largest segment was the whole body, or there were as many segments as lines.
fn inferred(seen: &WriteObservation) -> Option<Finding> {
    let count = median(seen.fresh.iter().filter_map(|one| one.segments))? as usize;
    let one = seen.fresh.first().filter(|one| matches!(one.body, BodyEnd::Length | BodyEnd::Close))?;
    let needed = one.head.div_ceil(ROOM);
    let body = one.bytes.saturating_sub(one.head);
    let whole = one.largest == body && count > excused(one.head) + 1;
    let by_line = body < SMALL && one.lines >= 4 && count > one.lines;
    let how = match (whole, by_line) {
        (true, _) => "one of them the body",
        (_, true) => "one line of the head in each",
        _ => return None,
    };
    let evidence =
        format!("{}: {} lines and {body} bytes of body in {count} segments, {how}", seen.asked, one.lines);
    Some(in_pieces(evidence, count - 1 - needed))
}

fn in_pieces(evidence: String, more: usize) -> Finding {
    let s = if more == 1 { "" } else { "s" };
    Finding::bad(HEAD, evidence).costs(format!(
        "{more} unneeded packet{s} on every response, each with a system call and a wake-up of the client; a check that reads once sees only part of the head"
    ))
}

/// Does a response take the segments it needs, or few more?
pub(super) fn segments(seen: &WriteObservation) -> Finding {
    // On new connections every write shows; where those could not be counted, on the kept one.
    let samples = [&seen.fresh, &seen.at_once, &seen.late];
    let counted = samples.into_iter().find_map(|of| {
        let count = median(of.iter().filter_map(|one| one.segments))?;
        of.first().map(|one| (count as usize, *one))
    });
    let Some((count, one)) = counted else {
        let reads = samples.into_iter().flatten().map(|one| one.reads).max();
        let words = reads.map(|reads| {
            format!(
                "{}: up to {reads} reads; segments could not be counted, and one read may contain several",
                seen.asked
            )
        });
        return Finding::unknown(SEGMENTS, words.unwrap_or_else(|| nothing(seen)));
    };
    let evidence = format!("{}: {} bytes in {}", seen.asked, one.bytes, segments_of(count));
    let needed = one.bytes.div_ceil(one.room()).max(1);
    let ordinary = needed
        + match one.body {
            BodyEnd::None => 0,
            BodyEnd::Length | BodyEnd::Close => 1,
            // A server that chunks may have meant each of a few pieces to leave at once.
            BodyEnd::Chunked => 6,
        };
    if count <= needed {
        return Finding::good(SEGMENTS, evidence);
    }
    let full = one.bytes / one.room();
    let small = (one.bytes - full * one.room()) / (count - full).max(1);
    if count > ordinary && small < SMALL {
        let words = format!(
            "{evidence}, {} of them with {small} bytes on average; {needed} would be enough",
            count - full
        );
        return Finding::warning(SEGMENTS, words).costs(packets(count - needed));
    }
    if count > ordinary {
        return Finding::good(SEGMENTS, evidence);
    }
    let apart = if one.body == BodyEnd::Chunked { "head and chunks" } else { "head and body" };
    Finding::good(SEGMENTS, format!("{evidence}, {apart} separate; {needed} would be enough"))
        .costs(packets(count - needed))
}

/// Does a write wait for a delayed acknowledgement?
pub(super) fn nagle(seen: &WriteObservation) -> Finding {
    if let Some(found) = waits_for_tickets(seen) {
        return found;
    }
    let (late, at_once) = (pauses(&seen.late), pauses(&seen.at_once));
    let evidence = |words: &str| format!("{} on a persistent connection: {words}", seen.asked);
    let (Some(usual), Some(prompt)) = (median(late.iter().copied()), median(at_once.iter().copied())) else {
        return match seen.fresh.is_empty() {
            true => Finding::unknown(NAGLE, nothing(seen)),
            false => Finding::unknown(
                NAGLE,
                format!(
                    "{}: no connection was kept open; on a new one nothing waits{}",
                    seen.asked,
                    if seen.encrypted {
                        " for an acknowledgement"
                    } else {
                        ", because it is acknowledged at once"
                    }
                ),
            ),
        };
    };
    // All but one of each are on their side: one may have been interrupted.
    let least = second(&late, false);
    let most = second(&at_once, true);
    if least >= DELAYED && least >= most + SAVED {
        let lost = usual.saturating_sub(prompt);
        return Finding::bad(
            NAGLE,
            evidence(&format!(
                "the response pauses for {} when its first part is acknowledged late, as clients do, and for {} when at once ({} of each)",
                time(usual),
                time(prompt),
                late.len()
            )),
        )
        .costs(format!("{} on every such response over a persistent connection", time(lost)));
    }
    if usual >= DELAYED {
        return Finding::good(
            NAGLE,
            evidence(&format!(
                "the response pauses for {} whether it is acknowledged late or at once: the application causes the pause",
                time(usual)
            )),
        );
    }
    Finding::good(
        NAGLE,
        evidence(&format!(
            "no write waits for an acknowledgement: the longest pause within a response is {}",
            time(usual)
        )),
    )
}

/// Whether the first response of a connection takes so much longer than further ones that it may have waited for the acknowledgement of what goes before it.
/// Without TLS nothing does.
pub(super) fn may_wait_for_tickets(seen: &WriteObservation) -> bool {
    let further = median(seen.at_once.iter().map(|one| one.took)).unwrap_or_default();
    let least = second(&durations(&seen.fresh, |one| one.took), false);
    seen.encrypted && least >= DELAYED && least >= further + SAVED
}

/// Does the first response of a connection with TLS wait for the delayed acknowledgement of the tickets before it (RFC 8446 §4.6.1)?
fn waits_for_tickets(seen: &WriteObservation) -> Option<Finding> {
    let (late, prompt) = (durations(&seen.usual, |one| one.took), durations(&seen.prompt, |one| one.took));
    let (usual, quick) = (median(late.iter().copied())?, median(prompt.iter().copied())?);
    if second(&late, false) < DELAYED.max(second(&prompt, true) + SAVED) {
        return None;
    }
    let evidence = format!(
        "{} on a new connection: the response takes {} when the session tickets before it are acknowledged late, as clients do, and {} when at once ({} of each)",
        seen.asked,
        time(usual),
        time(quick),
        prompt.len()
    );
    let lost = usual.saturating_sub(quick);
    Some(
        Finding::bad(NAGLE, evidence)
            .costs(format!("{} on the first response of every connection", time(lost))),
    )
}

fn nothing(seen: &WriteObservation) -> String {
    match &seen.failure {
        Some(why) => format!("{}: {why}", seen.asked),
        None => format!("{}: no complete response to a repeated request", seen.asked),
    }
}

fn packets(more: usize) -> String {
    format!("{more} extra packet{} on every response", if more == 1 { "" } else { "s" })
}

fn segments_of(count: usize) -> String {
    format!("{count} segment{}", if count == 1 { "" } else { "s" })
}

fn pauses(samples: &[Sample]) -> Vec<Duration> {
    durations(samples, |one| one.pause)
}

/// In order.
fn durations(samples: &[Sample], of: fn(&Sample) -> Duration) -> Vec<Duration> {
    let mut durations: Vec<Duration> = samples.iter().map(of).collect();
    durations.sort_unstable();
    durations
}

/// The second from the end; of fewer than three the last.
fn second(sorted: &[Duration], from_above: bool) -> Duration {
    let skip = usize::from(sorted.len() >= 3);
    let one = if from_above { sorted.iter().rev().nth(skip) } else { sorted.get(skip) };
    one.copied().unwrap_or_default()
}

fn median<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
