//! Findings of `keepwarm check`: the sections of `docs/findings/PROBE.md`.

use std::fmt::Write as _;

use keepwarm_doctor::{Probe, fixes};

/// The pages, by name.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/findings.rs"));

/// How a section begins.
const HEADING: &str = "\n## `";

/// Every section: its finding, and its text.
fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES
        .iter()
        .flat_map(|(_, page)| page.split(HEADING).skip(1))
        .filter_map(|section| section.split_once("`\n"))
}

pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    sections().map(|(id, _)| id)
}

/// A finding, as plain text.
pub(super) fn explain(id: &str) -> Option<String> {
    let (_, section) = sections().find(|(found, _)| *found == id)?;
    let mut text = format!("{id}: a finding of `keepwarm check`\n");
    for part in section.trim().split("\n\n") {
        let paragraph = part.replace('\n', " ");
        if let Some(code) = part.strip_prefix("```bash\n") {
            let commands = code.trim_end_matches("```").trim_end();
            commands.lines().for_each(|line| {
                let _ = writeln!(text, "    {line}");
            });
        } else if part.starts_with('|') {
            text.push_str(&table(part));
        } else if let Some((label, rest)) = labelled(&paragraph) {
            match label {
                // The table of the reference, which the paragraph links to.
                "Fix" if rest.starts_with('[') => text.push_str(&fix(id)),
                _ => {
                    let line = format!("  {}: {}", label.to_lowercase(), without_links(rest));
                    let _ = writeln!(text, "{}", line.trim_end());
                }
            }
        } else {
            let _ = writeln!(text, "  {}", without_links(&paragraph));
        }
    }
    Some(text)
}

/// Two columns: a case, and what to do.
fn table(rows: &str) -> String {
    let mut text = String::new();
    for row in rows.lines().skip(2) {
        let cells = row.trim_matches(['|', ' ']).split_once(" | ");
        let (case, fix) = cells.unwrap_or((row, ""));
        let _ = writeln!(text, "    {}: {}", without_links(case), without_links(fix));
    }
    text
}

/// `**Seen**: …`
fn labelled(paragraph: &str) -> Option<(&str, &str)> {
    let (label, rest) = paragraph.strip_prefix("**")?.split_once("**:")?;
    Some((label, rest.trim()))
}

/// A line for each fix, with the servers that it is for.
fn fix(id: &str) -> String {
    let Some(probe) = id.split_once('.').and_then(|(probe, _)| Probe::named(probe)) else {
        return String::new();
    };
    let mut text = String::new();
    for (servers, fix) in fixes(probe, id) {
        let _ = writeln!(text, "  fix ({servers}): {fix}");
    }
    text
}

/// `[text](target)` as `text`.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after.split_once("](").and_then(|(label, tail)| Some((label, tail.split_once(')')?.1)));
        out.push_str(before);
        match link.filter(|(label, _)| !label.contains(']')) {
            Some((label, tail)) => {
                out.push_str(label);
                rest = tail;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_explained_with_its_fixes() {
        let text = explain("expect.once").unwrap();
        assert!(
            text.starts_with("expect.once: a finding of `keepwarm check`\n  seen: There were several"),
            "{text}"
        );
        assert!(text.contains("\n  why it matters: Two hops"), "{text}");
        assert!(text.contains("\n  by hand:\n"), "{text}");
        assert!(text.contains("\n    curl -si -H 'Expect: 100-continue'"), "{text}");
        assert!(text.contains("\n  fix ("), "{text}");
        let text = explain("reach.tls").unwrap();
        assert!(text.contains("\n  fix:\n    the port speaks plaintext: Use `http://`"), "{text}");
        assert!(explain("expect").is_none() && explain("expect.nothing").is_none());
    }

    #[test]
    fn every_finding_is_plain_text() {
        assert!(ids().count() > 50);
        for id in ids() {
            let text = explain(id).unwrap();
            assert!(
                !text.contains("**")
                    && !text.contains("](")
                    && !text.contains("```")
                    && !text.contains("\n  |"),
                "{text}"
            );
            assert!(text.lines().count() >= 3, "{text}");
        }
    }

    #[test]
    fn links_are_their_words() {
        assert_eq!(without_links("see [a](b.md) and [c], [d](e)"), "see a and [c], d");
        assert_eq!(without_links("[x"), "[x");
    }
}
