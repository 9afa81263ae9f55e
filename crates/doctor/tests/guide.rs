//! The pages about findings: each finding that the code can make is explained, and none that it cannot; the table of fixes is that of the code.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use keepwarm_doctor::{Probe, fixes};

/// `probe.thing` wherever it stands between two of these marks.
fn ids(text: &str, mark: char) -> BTreeSet<String> {
    let is_id = |word: &&str| {
        word.split_once('.').is_some_and(|(probe, thing)| {
            (Probe::named(probe).is_some() || ["reach", "probe"].contains(&probe))
                && !thing.is_empty()
                && thing
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        })
    };
    text.split(mark).filter(is_id).map(str::to_owned).collect()
}

fn sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(ids(&std::fs::read_to_string(&path).unwrap_or_default(), '"'));
        }
    }
}

fn docs(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)
}

fn made() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

#[test]
fn each_finding_is_explained() {
    let made = made();
    let guide = std::fs::read_to_string(docs("guide/check.md")).expect("the guide");
    let told = ids(&guide, '`');
    let missing: Vec<_> = made.difference(&told).collect();
    let stale: Vec<_> = told.difference(&made).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "not in the guide: {missing:?}; only in the guide: {stale:?}"
    );
    assert!(made.len() > 50, "{made:?}");
}

/// `docs/findings/PROBE.md` has a section for each: the site makes a page of each section.
#[test]
fn each_finding_has_a_section() {
    let mut sections = BTreeSet::new();
    for page in std::fs::read_dir(docs("findings")).expect("docs/findings") {
        let text = std::fs::read_to_string(page.expect("a page").path()).expect("a page");
        let heading = |line: &str| Some(line.strip_prefix("## `")?.strip_suffix('`')?.to_owned());
        sections.extend(text.lines().filter_map(heading));
    }
    let made = made();
    let missing: Vec<_> = made.difference(&sections).collect();
    let stale: Vec<_> = sections.difference(&made).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "without a section: {missing:?}; only a section: {stale:?}"
    );
}

/// A row for each fix.
fn rows(finding: &str) -> String {
    let Some(probe) = finding.split_once('.').and_then(|(probe, _)| Probe::named(probe)) else {
        return String::new();
    };
    let row = |(servers, fix): (String, &str)| format!("| {servers} | {} |\n", fix.replace('|', "\\|"));
    fixes(probe, finding).into_iter().map(row).collect()
}

#[test]
fn the_page_of_fixes_is_that_of_the_code() {
    let mut page = "# Fixes of findings\n\nGenerated from the code by `UPDATE_GOLDEN=1 cargo test -p keepwarm-doctor --test guide`.\n\n\
        `keepwarm check` prints the fix for the server that it recognizes. \
        [Findings](../findings/README.md) explains\neach finding.\n"
        .to_owned();
    for finding in made() {
        let rows = rows(&finding);
        if !rows.is_empty() {
            let _ = write!(page, "\n## `{finding}`\n\n| server | fix |\n|---|---|\n{rows}");
        }
    }
    let file = docs("reference/fixes.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &page).expect("docs/reference/fixes.md");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == page, "docs/reference/fixes.md is not that of the code: UPDATE_GOLDEN=1 writes it");
    assert!(page.matches("\n## ").count() > 50, "{page}");
}
