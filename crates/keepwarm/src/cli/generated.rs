//! What packages have of the command line: manual pages and completions, committed as they are generated from its definitions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;

const ADVICE: &str = "write them with UPDATE_GOLDEN=1 cargo test -p keepwarm --bin keepwarm generated";

#[test]
fn the_manual_is_fresh() {
    let made = std::env::temp_dir().join(format!("keepwarm-manual-test-{}", std::process::id()));
    std::fs::create_dir_all(&made).unwrap();
    clap_mangen::generate_to(Cli::command(), &made).unwrap();
    let pages = files(&made);
    std::fs::remove_dir_all(&made).unwrap();
    assert!(pages.contains_key("keepwarm.1") && pages.contains_key("keepwarm-run.1"));
    compare("docs/man", &pages);
}

#[test]
fn the_completions_are_fresh() {
    let scripts = [(Shell::Bash, "keepwarm.bash"), (Shell::Fish, "keepwarm.fish"), (Shell::Zsh, "_keepwarm")];
    let made = scripts.map(|(shell, name)| {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "keepwarm", &mut script);
        (name.to_owned(), String::from_utf8(script).unwrap())
    });
    compare("packaging/completions", &BTreeMap::from(made));
}

/// The directory of the repository has exactly these files, or is made so.
fn compare(directory: &str, made: &BTreeMap<String, String>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        files(&directory).into_keys().for_each(|old| std::fs::remove_file(directory.join(old)).unwrap());
        std::fs::create_dir_all(&directory).unwrap();
        made.iter().for_each(|(name, text)| std::fs::write(directory.join(name), text).unwrap());
    }
    let committed = files(&directory);
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(made), "{}: {ADVICE}", directory.display());
    for (name, text) in made {
        assert!(
            committed.get(name) == Some(text),
            "{}: out of date: {ADVICE}",
            directory.join(name).display()
        );
    }
}

/// The files of a directory and their texts, by name; none where there is no directory.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (named(path), std::fs::read_to_string(path).unwrap())).collect()
}
