//! `tests/golden/good/NAME.toml` with the checked values in `NAME.txt`, `tests/golden/bad/NAME.toml` with the report,
//! and `tests/golden/wrong/SECTION.txt` with the report for each key's example of a wrong value. `UPDATE_GOLDEN=1
//! cargo test -p keepwarm-config` rewrites them; read the difference before you commit it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::keys::wrong_values;
use super::memory_sources::{MemorySources, ROOT};
use crate::load;

pub(super) fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(kind)
}

fn updating() -> bool {
    std::env::var("UPDATE_GOLDEN").is_ok_and(|value| value == "1")
}

/// Names and texts of the golden configurations of a kind.
pub(super) fn configurations(kind: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = std::fs::read_dir(folder(kind))
        .expect("the golden folder")
        .map(|entry| entry.expect("an entry of it").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    all.sort();
    assert!(!all.is_empty(), "no golden files of kind {kind}");
    all
}

/// Compares `actual` with the file, or writes the file.
pub(super) fn compare(path: &Path, actual: &str, faults: &mut String) {
    if updating() {
        std::fs::write(path, actual).expect("the golden file can be written");
        return;
    }
    let wanted = std::fs::read_to_string(path).unwrap_or_default();
    if wanted != actual {
        let _ = write!(faults, "\n== {}\n-- wanted\n{wanted}\n-- is\n{actual}\n", path.display());
    }
}

/// Compares `actual`, texts with their names, with a file that has each text after a line `# NAME`, or writes the
/// file. A fault shows only the texts that differ.
pub(super) fn compare_parts(path: &Path, actual: &[(String, String)], faults: &mut String) {
    let text: String = actual.iter().map(|(name, text)| format!("# {name}\n{text}")).collect();
    if updating() {
        std::fs::write(path, text).expect("the golden file can be written");
        return;
    }
    let file = std::fs::read_to_string(path).unwrap_or_default();
    let wanted: BTreeMap<&str, &str> = parts_of(&file).filter_map(|part| part.split_once('\n')).collect();
    let actual: BTreeMap<&str, &str> =
        actual.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    for name in wanted.keys().chain(actual.keys()).collect::<BTreeSet<_>>() {
        let (wanted, actual) = (wanted.get(name), actual.get(name));
        if wanted != actual {
            let [wanted, actual] = [wanted, actual].map(|text| text.map_or("(none)\n", |text| text));
            let _ = write!(faults, "\n== {name} ({})\n-- wanted\n{wanted}-- is\n{actual}", path.display());
        }
    }
}

/// The parts of such a file, each with its name in the first line.
fn parts_of(file: &str) -> impl Iterator<Item = &str> {
    let starts = file.match_indices("# ").map(|(at, _)| at);
    let mut starts: Vec<usize> = starts.filter(|&at| at == 0 || file.as_bytes()[at - 1] == b'\n').collect();
    starts.push(file.len());
    (1..starts.len()).map(move |end| &file[starts[end - 1] + 2..starts[end]])
}

#[test]
fn good_files_become_these_values() {
    let mut faults = String::new();
    for (name, text) in configurations("good") {
        let mut actual = String::new();
        match load(&MemorySources::of(&text), ROOT) {
            Ok((config, warnings)) => {
                for warning in warnings {
                    let _ = writeln!(actual, "{warning}");
                }
                let _ = writeln!(actual, "{config:#?}");
            }
            Err(report) => {
                let _ = write!(faults, "\n== {name} is refused\n{report}");
                continue;
            }
        }
        compare(&folder("good").join(format!("{name}.txt")), &actual, &mut faults);
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn bad_files_get_these_reports() {
    let mut faults = String::new();
    for (name, text) in configurations("bad") {
        match load(&MemorySources::of(&text), ROOT) {
            Ok(_) => {
                let _ = write!(faults, "\n== {name} is accepted");
            }
            Err(report) => {
                compare(&folder("bad").join(format!("{name}.txt")), &report.to_string(), &mut faults);
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn colored_reports_say_the_same() {
    let wrong = wrong_values().into_iter().map(|(info, text)| (info.path, text));
    for (name, text) in configurations("bad").into_iter().chain(wrong) {
        let report = load(&MemorySources::of(&text), ROOT).expect_err("a bad file");
        let mut colored = report.colored(true).to_string();
        assert!(colored.contains("\x1b[1;31m"), "{name}");
        for sequence in ["\x1b[1m", "\x1b[1;31m", "\x1b[1;34m", "\x1b[0m"] {
            colored = colored.replace(sequence, "");
        }
        assert_eq!(colored, report.to_string(), "{name}");
    }
}
