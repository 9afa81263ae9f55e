//! The guide explains each finding that the code can make, and none that it cannot.

use std::collections::BTreeSet;
use std::path::Path;

use keepwarm_doctor::Probe;

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

#[test]
fn each_finding_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = BTreeSet::new();
    sources(&root.join("src"), &mut made);
    let guide = std::fs::read_to_string(root.join("../../docs/guide/check.md")).expect("the guide");
    let told = ids(&guide, '`');
    let missing: Vec<_> = made.difference(&told).collect();
    let stale: Vec<_> = told.difference(&made).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "not in the guide: {missing:?}; only in the guide: {stale:?}"
    );
    assert!(made.len() > 50, "{made:?}");
}
