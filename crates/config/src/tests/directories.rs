//! The app that `keepwarm run DIRECTORY` detects.

use super::environment::{golden, target};
use super::memory_sources::MemorySources;
use crate::{Config, Target};

/// A world with these files, and the directories that they are in.
fn folders(files: &[&str]) -> MemorySources {
    let mut world = MemorySources::default();
    world.directories.insert(".".to_owned());
    for file in files {
        world.files.insert((*file).to_owned(), "<?php return fn () => 1;".to_owned());
        let above = file.match_indices('/').map(|(at, _)| file[..at].to_owned());
        world.directories.extend(above);
    }
    world
}

#[test]
fn a_directory_is_the_application_that_it_has() {
    // The target, the files; the entry, and the directory of the app.
    let cases: [(&str, &[&str], &str, &str); 12] = [
        (".", &["config.ru", "Gemfile"], "config.ru", "."),
        (".", &["public/index.php", "index.php"], "public/index.php", "."),
        (".", &["index.php"], "index.php", "."),
        ("blog", &["blog/config.ru"], "config.ru", "blog"),
        ("./blog/", &["blog/config.ru"], "config.ru", "./blog"),
        ("sites/wiki", &["sites/wiki/index.php"], "index.php", "sites/wiki"),
        (".", &["app.py"], ".", "."),
        (".", &["shop/__init__.py"], ".", "."),
        ("src/shop", &["src/shop/__init__.py", "src/shop/wsgi.py"], "src/shop", "."),
        // A name that a Python module has means the module.
        ("blog", &["blog.py", "blog/config.ru"], "blog", "."),
        ("blog", &["blog/__init__.py", "blog/config.ru"], "blog", "."),
        ("public/index.php", &["public/index.php", "config.ru"], "public/index.php", "."),
    ];
    for (named, files, entry, directory) in cases {
        let config = Config::for_target(&folders(files), &target(named)).map_err(|report| report.to_string());
        let app = config.unwrap_or_else(|report| panic!("{named} {files:?}: {report}")).0.apps.remove(0);
        assert_eq!(app.program, crate::Program::Entry(entry.to_owned()), "{named} {files:?}");
        assert_eq!(app.directory.to_str(), Some(directory), "{named} {files:?}");
    }
}

#[test]
fn the_sources_of_a_directory_are_watched_by_its_language() {
    for (file, glob) in [("config.ru", "**/*.rb"), ("index.php", "**/*.php"), ("app.py", "**/*.py")] {
        let target = Target { watch: true, ..target(".") };
        let config = Config::for_target(&folders(&[file]), &target).unwrap().0;
        assert_eq!(config.apps[0].watch[0], glob);
    }
}

#[test]
fn a_directory_without_one_application_is_refused() {
    let report = |files: &[&str], named: &str| {
        Config::for_target(&folders(files), &target(named)).unwrap_err().to_string()
    };
    golden(&report(&["README.md", "docs/index.md"], "."), "target-directory-none");
    golden(&report(&["config.ru", "public/index.php", "app.py"], "."), "target-directory-several");
    golden(&report(&["blog/config.ru", "blog/index.php"], "blog/"), "target-directory-named");
}
