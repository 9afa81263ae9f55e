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
    let cases: [(&str, &[&str], &str, &str); 15] = [
        (".", &["config.ru", "Gemfile"], "config.ru", "."),
        (".", &["public/index.php", "index.php"], "public/index.php", "."),
        (".", &["index.php"], "index.php", "."),
        ("blog", &["blog/config.ru"], "config.ru", "blog"),
        ("./blog/", &["blog/config.ru"], "config.ru", "./blog"),
        ("sites/wiki", &["sites/wiki/index.php"], "index.php", "sites/wiki"),
        (".", &["app.py"], ".", "."),
        (".", &["shop/__init__.py"], ".", "."),
        ("src/shop", &["src/shop/__init__.py", "src/shop/wsgi.py"], "src/shop", "."),
        // A site without a front controller.
        (".", &["info.php", "list.php"], ".", "."),
        ("sites/lam", &["sites/lam/index.html", "sites/lam/templates/login.php"], ".", "sites/lam"),
        (".", &["app.py", "info.php"], ".", "."),
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
        // A Python application may have a script beside it.
        let is_site = entry == "." && files.iter().all(|file| !file.ends_with(".py"));
        assert_eq!(app.kind == Some(crate::AppKind::FastCgi), is_site, "{named} {files:?}");
    }
}

/// What an app with this entry is: its kind, and the directory whose files are served beside it.
#[test]
fn an_entry_may_be_a_directory_of_scripts() {
    let of = |files: &[&str], keys: &str| {
        let mut world = folders(files);
        world.files.insert(
            "keepwarm.toml".to_owned(),
            format!("[listen.main]\nbind = \"127.0.0.1:8080\"\n[app.site]\n{keys}\n"),
        );
        let config = crate::load(&world, "keepwarm.toml").map_err(|report| report.to_string());
        config.map(|(config, _)| {
            let files = config.listeners[0].routes[0].try_files.clone();
            (config.apps[0].kind, files.map(|path| path.to_string_lossy().into_owned()))
        })
    };
    let site = Ok((Some(crate::AppKind::FastCgi), Some("./htdocs".to_owned())));
    assert_eq!(of(&["htdocs/info.php"], "entry = 'htdocs'"), site);
    assert_eq!(of(&["htdocs/a/b/info.php"], "entry = 'htdocs'\nkind = 'fastcgi'"), site);
    assert_eq!(of(&["htdocs/info.php"], "entry = 'htdocs'\naddress = '127.0.0.1:9000'"), site);
    // A package of Python that comes with a script.
    assert_eq!(of(&["htdocs/__init__.py", "htdocs/info.php"], "entry = 'htdocs'"), Ok((None, None)));
    let missing = of(&["index.php"], "entry = 'htdocs'\nkind = 'fastcgi'").unwrap_err();
    assert!(missing.contains("does not exist (./htdocs)"), "{missing}");
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
