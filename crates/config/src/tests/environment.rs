//! Variables, placeholders, includes, and the command line.

use super::memory_sources::{MemorySources, ROOT};
use crate::{Action, AppKind, Bind, Config, Program, Target, Workers, load};

const WHOLE: &str =
    "[listen.public]\nbind = \"127.0.0.1:8080\"\n\n[app.my-shop]\nentry = \"shop:app\"\nworkers = 2\n";

fn world(variables: &[(&str, &str)]) -> MemorySources {
    let mut world = MemorySources::of(WHOLE);
    for (name, value) in variables {
        world.env.insert((*name).to_owned(), (*value).to_owned());
    }
    world
}

fn config(world: &MemorySources) -> Config {
    load(world, ROOT).unwrap_or_else(|report| panic!("{report}")).0
}

#[test]
fn variables_override_the_file() {
    let config = config(&world(&[
        ("KEEPWARM_SERVER__THREADS", "3"),
        ("KEEPWARM_APP__MY_SHOP__WORKERS", "7"),
        ("KEEPWARM_APP__MY_SHOP__ENV__DATABASE_URL", "8080"),
        ("KEEPWARM_APP__MY_SHOP__OPTIONS", "[\"-X\", \"dev\"]"),
        ("KEEPWARM_LISTEN__PUBLIC__BIND", "127.0.0.1:1234"),
        ("KEEPWARM_SERVER__LIMITS__BODY", "1_000"),
        ("KEEPWARM_SERVER__LOG", "{ level = \"warn\" }"),
        // Not overrides: a variable of the wire, and one of a door.
        ("KEEPWARM_FD", "3"),
        ("KEEPWARM_UPSTREAM_A__B", "http://127.0.0.1:1"),
    ]));
    assert_eq!(config.server.threads, Some(3));
    assert_eq!(config.server.limits.body, Some(1000));
    assert_eq!(config.server.log.level, crate::LogLevel::Warn);
    let app = config.app("my-shop").expect("the app of the file");
    assert_eq!(app.workers, Workers::Fixed(7));
    assert_eq!(app.env.get("DATABASE_URL").map(String::as_str), Some("8080"));
    assert_eq!(app.options, ["-X", "dev"]);
    assert_eq!(config.listeners[0].bind, [Bind::Tcp("127.0.0.1:1234".parse().unwrap())]);
    assert_eq!(config.listeners[0].limits.body, Some(1000));
}

#[test]
fn a_wrong_variable_is_named() {
    let report = load(&world(&[("KEEPWARM_APP__MY_SHOP__WORKERS", "many")]), ROOT).unwrap_err().to_string();
    assert!(report.starts_with("$KEEPWARM_APP__MY_SHOP__WORKERS: error: `app.my-shop.workers`"), "{report}");
    assert!(report.contains("KEEPWARM_APP__MY_SHOP__WORKERS=many"), "{report}");
    let report = load(&world(&[("KEEPWARM_SERVER__THREDS", "2")]), ROOT).unwrap_err().to_string();
    assert!(report.contains("did you mean `threads`"), "{report}");
}

/// A variable can hold the whole table: it was looked at only where a file had it.
#[test]
fn a_limit_of_the_process_is_refused_for_a_listener_wherever_it_stands() {
    for key in ["connections", "spill", "spill_memory", "compression_memory"] {
        let table = format!("{{ {key} = 100000 }}");
        let name = format!("KEEPWARM_LISTEN__PUBLIC__LIMITS__{}", key.to_uppercase());
        for variable in [("KEEPWARM_LISTEN__PUBLIC__LIMITS", table.as_str()), (&name, "100000")] {
            let report = load(&world(&[variable]), ROOT).unwrap_err().to_string();
            let message = format!("`listen.public.limits.{key}` is a limit of the whole process");
            assert!(report.contains(&message), "{variable:?}: {report}");
        }
    }
}

#[test]
fn values_of_placeholders_are_never_shown() {
    for value in ["hunter2", "[\"hunter2\"]", "{ hunter2 = 1 }"] {
        for (section, key) in [
            ("server", "threads"),
            ("server", "shutdown_grace"),
            ("server", "trusted_proxies"),
            ("server.limits", "body"),
            ("server.log", "level"),
            ("listen.public", "bind"),
            ("listen.public", "access_log"),
            ("app.shop", "kind"),
            ("app.shop", "workers"),
            ("upstream.search", "url"),
            ("upstream.search", "endpoints"),
            ("upstream.search", "bind"),
            ("upstream.search", "protocol"),
            ("upstream.search", "retry_budget"),
            ("upstream.search", "hedge"),
            ("upstream.search", "balance"),
            ("upstream.search", "health"),
            ("upstream.search.dns", "resolver"),
            ("upstream.search.outlier", "deviation"),
            ("rate_limit.api", "rate"),
            ("rate_limit.api", "key"),
            ("rate_limit.api", "store"),
        ] {
            let text = format!("[{section}]\n{key} = \"${{SECRET}}\"\n");
            let mut world = MemorySources::of(&text);
            world.env.insert("SECRET".to_owned(), value.to_owned());
            let report = load(&world, ROOT).unwrap_err().to_string();
            assert!(!report.contains("hunter2"), "{report}");
            assert!(report.contains(key), "{report}");
        }
    }
}

#[test]
fn an_app_of_the_command_line_may_have_upstreams() {
    let mut world = MemorySources::default();
    for (name, value) in [
        ("KEEPWARM_UPSTREAM__SEARCH__URL", "http://search.internal"),
        ("KEEPWARM_UPSTREAM__SEARCH__BIND", "127.0.0.1:6102"),
        ("KEEPWARM_UPSTREAM__SEARCH__POOL__MIN_IDLE", "2"),
        ("KEEPWARM_UPSTREAM__SEARCH__HEALTH", "{ path = \"/healthz\" }"),
    ] {
        world.env.insert(name.to_owned(), value.to_owned());
    }
    let (config, warnings) = Config::for_target(&world, &target("shop.wsgi:application")).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.listeners[0].routes[0].action, Action::App("shop".to_owned()));
    let upstream = config.upstream("search").expect("that of the environment");
    assert_eq!(upstream.pool.min_idle, 2);
    assert!(upstream.health.is_some());
    assert_eq!(upstream.variable(), "KEEPWARM_UPSTREAM_SEARCH");
    assert_eq!(upstream.door_url().as_deref(), Some("http://127.0.0.1:6102"));
}

#[test]
fn a_back_door_needs_neither_app_nor_listener() {
    let text = "[upstream.my-search]\nurl = \"https://search.internal\"\nbind = \"unix:/run/search.sock\"\n";
    let config = config(&MemorySources::of(text));
    assert!(config.listeners.is_empty() && config.apps.is_empty());
    let upstream = &config.upstreams[0];
    assert_eq!(upstream.variable(), "KEEPWARM_UPSTREAM_MY_SEARCH");
    assert_eq!(upstream.door_url().as_deref(), Some("unix:/run/search.sock"));
}

#[test]
fn an_upstream_of_a_forward_proxy_is_not_unused() {
    let text = "[listen.proxy]\nbind = \"127.0.0.1:3128\"\nforward_proxy = {}\n\n[upstream.search]\nurl = \"https://search.internal\"\n";
    let (config, warnings) = load(&MemorySources::of(text), ROOT).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(warnings, []);
    assert_eq!(config.listeners[0].routes, []);
}

#[test]
fn a_certificate_that_changes_makes_another_configuration() {
    let text = "[upstream.a]\nurl = \"https://a\"\nbind = \"127.0.0.1:6102\"\nca = \"ca.pem\"\n";
    let mut world = MemorySources::of(text);
    world.files.insert("ca.pem".to_owned(), "-----BEGIN CERTIFICATE-----\none\n".to_owned());
    let before = config(&world);
    assert_eq!(before, config(&world));
    world.files.insert("ca.pem".to_owned(), "-----BEGIN CERTIFICATE-----\ntwo\n".to_owned());
    assert_ne!(before, config(&world), "a reload has to see it");
}

#[test]
fn a_number_may_come_from_a_placeholder() {
    let text = WHOLE.replace("workers = 2", "workers = \"${N}\"\noptions = [\"${UNSET:-x}$${y}\"]");
    let mut world = MemorySources::of(&text);
    world.env.insert("N".to_owned(), "5".to_owned());
    let app = &config(&world).apps[0];
    assert_eq!(app.workers, Workers::Fixed(5));
    assert_eq!(app.options, ["x${y}"]);
}

#[test]
fn relative_paths_start_at_the_main_file() {
    let mut world = MemorySources::of("");
    let text = format!("include = [\"conf.d/*.toml\"]\n[server]\npid_file = \"k.pid\"\n{WHOLE}");
    world.files.insert("/etc/keepwarm/keepwarm.toml".to_owned(), text);
    let more =
        "[app.other]\nentry = \"x:y\"\nenv_file = \"other.env\"\n[[listen.public.route]]\napp = \"other\"\n";
    world.files.insert("/etc/keepwarm/conf.d/other.toml".to_owned(), more.to_owned());
    world.files.insert("/etc/keepwarm/other.env".to_owned(), "A=b\n".to_owned());
    world.directories.insert("/etc/keepwarm".to_owned());
    let (config, warnings) =
        load(&world, "/etc/keepwarm/keepwarm.toml").unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(config.server.pid_file.as_deref().unwrap().to_str(), Some("/etc/keepwarm/k.pid"));
    assert_eq!(config.apps[1].env["A"], "b");
    assert_eq!(config.apps[1].directory.to_str(), Some("/etc/keepwarm"));
    assert_eq!(warnings.len(), 1, "my-shop has no route: {warnings:?}");
}

pub(super) fn target(entry: &str) -> Target {
    Target { entry: entry.to_owned(), ..Target::default() }
}

#[test]
fn a_target_needs_no_file() {
    let (config, warnings) =
        Config::for_target(&MemorySources::default(), &target("shop.wsgi:application")).unwrap();
    assert_eq!(warnings, []);
    let app = config.app("shop").expect("named after the target");
    assert_eq!(app.program, Program::Entry("shop.wsgi:application".to_owned()));
    assert_eq!(app.directory.to_str(), Some("."));
    assert_eq!(config.listeners[0].bind, [Bind::Tcp("127.0.0.1:8080".parse().unwrap())]);
    assert_eq!(config.listeners[0].routes[0].action, Action::App("shop".to_owned()));
}

#[test]
fn a_rackup_file_is_a_rack_app() {
    for entry in ["config.ru", "app/shop.rb"] {
        let target = Target { watch: true, ..target(entry) };
        let config = Config::for_target(&MemorySources::default(), &target).unwrap().0;
        assert_eq!(config.apps[0].kind, Some(AppKind::Rack), "{entry}");
        assert_eq!(config.apps[0].watch, ["**/*.rb", "**/*.ru"], "{entry}");
    }
}

#[test]
fn command_line_options_override_variables() {
    let mut world = MemorySources::default();
    for (name, value) in [
        ("KEEPWARM_APP__SHOP__WORKERS", "7"),
        ("KEEPWARM_APP__SHOP__KIND", "asgi"),
        ("KEEPWARM_LISTEN__MAIN__BIND", "127.0.0.1:1"),
    ] {
        world.env.insert(name.to_owned(), value.to_owned());
    }
    let target = Target {
        bind: vec!["127.0.0.1:2".to_owned(), "localhost:3".to_owned()],
        workers: Some("4".to_owned()),
        watch: true,
        ..target("shop:app")
    };
    let config = Config::for_target(&world, &target).unwrap().0;
    assert_eq!(config.apps[0].workers, Workers::Fixed(4));
    assert_eq!(config.apps[0].kind, Some(AppKind::Asgi));
    assert_eq!(config.apps[0].watch, ["**/*.py"]);
    let host = Bind::Host { host: "localhost".to_owned(), port: 3 };
    assert_eq!(config.listeners[0].bind, [Bind::Tcp("127.0.0.1:2".parse().unwrap()), host]);
}

#[test]
fn watch_globs_follow_the_language() {
    let scripts: &[&str] = &["**/*.js", "**/*.mjs", "**/*.cjs", "**/*.ts", "**/*.json"];
    let cases: [(&str, &[&str]); 8] = [
        ("node server.js", scripts),
        ("npm start", scripts),
        ("/usr/bin/env node server", scripts),
        ("python3.11 serve.py", &["**/*.py"]),
        ("bundle exec puma", &["**/*.rb", "**/*.ru"]),
        ("sh -c ./start.php", &["**/*.php"]),
        ("./bin/site --port $PORT", &["bin/site"]),
        ("./serve.py", &["**/*.py", "serve.py"]),
    ];
    for (command, expected) in cases {
        let command = command.split(' ').map(str::to_owned).collect();
        let target = Target { command, watch: true, ..Target::default() };
        let config = Config::for_target(&MemorySources::default(), &target).unwrap().0;
        assert_eq!(config.apps[0].watch, expected, "{:?}", target.command);
    }
}

#[test]
fn wrong_command_lines_get_these_reports() {
    let report =
        |target: &Target| Config::for_target(&MemorySources::default(), target).unwrap_err().to_string();
    let wrong =
        Target { bind: vec!["8080".to_owned()], workers: Some("four".to_owned()), ..target("shop:app") };
    golden(&report(&wrong), "target-options");
    golden(&report(&target("server.js")), "target-server");
    golden(&report(&Target::default()), "target-none");
}

#[test]
fn the_kind_of_php_is_detected_from_the_entry() {
    let kind = |text: Option<&str>| {
        let mut world = MemorySources::default();
        for path in ["public/index.php", "./public/index.php"] {
            world.files.extend(text.map(|text| (path.to_owned(), text.to_owned())));
        }
        match Config::for_target(&world, &target("public/index.php")) {
            Ok((config, _)) => config.apps[0].kind.map(|kind| kind.word().to_owned()),
            Err(report) => Some(report.to_string()),
        }
    };
    assert_eq!(kind(Some("<?php return function (array $context) {};")).as_deref(), Some("php"));
    assert_eq!(kind(None).as_deref(), Some("php"), "the worker says that it is not there");
    assert_eq!(kind(Some("<?php echo 1;")).as_deref(), Some("fastcgi"));
}

#[test]
fn a_site_of_scripts_is_served_with_its_files_unless_its_routes_say_otherwise() {
    let mut world = MemorySources::default();
    for path in ["public/index.php", "./public/index.php"] {
        world.files.insert(path.to_owned(), "<?php echo 1;".to_owned());
    }
    let (config, _) = Config::for_target(&world, &target("public/index.php")).expect("a good command line");
    let folder = config.listeners[0].routes[0].try_files.as_deref().expect("a folder");
    assert!(folder.ends_with("public"), "{}", folder.display());
}

#[test]
fn keys_that_do_not_apply_to_php_are_rejected() {
    for key in ["preload = true", "threads = 4", "concurrency = 10", "loop = \"uvloop\"", "lifespan = \"on\""]
    {
        let mut world = MemorySources::of("");
        let text = WHOLE.replace("workers = 2", key).replace("shop:app", "public/index.php");
        world.files.insert(ROOT.to_owned(), text);
        let report = load(&world, ROOT).unwrap_err().to_string();
        assert!(report.contains("does not apply to an app of kind \"php\""), "{key}: {report}");
    }
}

#[test]
fn a_command_of_a_command_line_is_a_server() {
    let command: Vec<String> = ["node", "server.js"].map(str::to_owned).into();
    let target = Target { command: command.clone(), ..Target::default() };
    let (config, warnings) =
        Config::for_target(&MemorySources::default(), &target).expect("a good command line");
    assert!(warnings.is_empty());
    let [app] = &config.apps[..] else { panic!("one app") };
    assert_eq!((app.name.as_str(), app.kind), ("node", Some(crate::AppKind::Http)));
    assert_eq!(app.program, crate::Program::Command(command));
    assert_eq!(app.workers, crate::Workers::Fixed(1), "its sessions may be in its memory");

    let target = Target { workers: Some("auto".to_owned()), ..target };
    let (config, _) = Config::for_target(&MemorySources::default(), &target).expect("a good command line");
    assert_eq!(config.apps[0].workers, crate::Workers::Auto);
}

/// Compares a report with `tests/golden/bad/NAME.txt`.
pub(super) fn golden(report: &str, name: &str) {
    let mut faults = String::new();
    super::golden::compare(&super::golden::folder("bad").join(format!("{name}.txt")), report, &mut faults);
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn byte_order_marks_and_carriage_returns_are_accepted() {
    let mut world = MemorySources::of("");
    let text = format!("\u{feff}{}", WHOLE.replace('\n', "\r\n"));
    world.files.insert(ROOT.to_owned(), text.replace("workers = 2", "workers = 0"));
    let report = load(&world, ROOT).unwrap_err().to_string();
    assert!(
        report.starts_with("keepwarm.toml:6:11: error: `app.my-shop.workers` is too small\n"),
        "{report}"
    );
    world.files.insert(ROOT.to_owned(), text);
    assert_eq!(config(&world).apps[0].workers, Workers::Fixed(2));
}

#[test]
fn a_report_has_no_control_characters() {
    let text = "\"\\u001b[31m\" = 1\n[listen.\"a\\nb\"]\nbind = \"\\u0007:1\"\n";
    let report = load(&MemorySources::of(text), ROOT).unwrap_err().to_string();
    assert!(!report.chars().any(|c| c.is_control() && c != '\n'), "{report:?}");
    assert!(report.contains("unknown key `\\u{1b}[31m`"), "{report}");
}

#[test]
fn unreadable_files_are_reported() {
    let report = load(&MemorySources::default(), "none.toml").unwrap_err().to_string();
    assert!(report.starts_with("none.toml: error: `none.toml` cannot be read: No such file"), "{report}");

    struct Bytes(MemorySources);
    impl crate::Sources for Bytes {
        fn user(&self, _: &str) -> Option<crate::Account> {
            None
        }

        fn group(&self, _: &str) -> Option<u32> {
            None
        }

        fn certificate(
            &self,
            _: &crate::PemFile,
            _: &crate::PemFile,
        ) -> Result<crate::CertificateSummary, crate::CertificateFault> {
            Ok(crate::CertificateSummary::default())
        }

        fn credentials(&self) -> crate::Credentials {
            crate::Credentials { uid: 0, gid: 0, may_change: true, may_signal: true }
        }

        fn may_enter(&self, _: &str, _: &crate::Account) -> bool {
            true
        }

        fn hard_limit(&self, _: crate::Resource) -> Option<u64> {
            None
        }

        fn read(&self, _: &str) -> std::io::Result<Vec<u8>> {
            Ok(b"[server]\nthreads = \"\xff\"\n".to_vec())
        }
        fn glob(&self, pattern: &str) -> std::io::Result<Vec<String>> {
            self.0.glob(pattern)
        }
        fn path_kind(&self, path: &str) -> crate::PathKind {
            self.0.path_kind(path)
        }
        fn env(&self) -> std::collections::BTreeMap<String, String> {
            self.0.env()
        }
    }
    let report = load(&Bytes(MemorySources::default()), ROOT).unwrap_err().to_string();
    assert!(
        report.starts_with("keepwarm.toml:2:12: error: TOML syntax error: bytes that are not UTF-8\n"),
        "{report}"
    );
}

/// `__` ends the NAME, so the rest of a NAME with `__` is read as a key that does not exist.
#[test]
fn an_ambiguous_variable_gets_the_right_advice() {
    for (variable, read, meant) in [
        ("KEEPWARM_APP__OTHER__SHOP__WORKERS", "app.other.shop.workers", "KEEPWARM_APP__OTHER_SHOP__WORKERS"),
        (
            "KEEPWARM_APP__MY_SHOP__OLD__WORKERS",
            "app.my-shop.old.workers",
            "KEEPWARM_APP__MY_SHOP_OLD__WORKERS",
        ),
        ("KEEPWARM_APP__A___B__ENV__KEY", "app.a._b.env.key", "KEEPWARM_APP__A_B__ENV__KEY"),
        ("KEEPWARM_UPSTREAM__A__B__C__URL", "upstream.a.b.c.url", "KEEPWARM_UPSTREAM__A_B_C__URL"),
        (
            "KEEPWARM_LISTEN__A__B__LIMITS__BODY",
            "listen.a.b.limits.body",
            "KEEPWARM_LISTEN__A_B__LIMITS__BODY",
        ),
    ] {
        let report = load(&world(&[(variable, "1")]), ROOT).unwrap_err().to_string();
        assert_eq!(report.matches("error:").count(), 1, "{report}");
        assert!(
            report.starts_with(&format!("${variable}: error: `{variable}` is read as `{read}`")),
            "{report}"
        );
        assert!(report.contains(&format!("set {meant}\n")), "{report}");
    }
    // Each variable has its own message; other unknown keys keep theirs.
    let both = [("KEEPWARM_APP__OTHER__SHOP__WORKERS", "1"), ("KEEPWARM_APP__OTHER__SHOP__ENTRY", "a:b")];
    let report = load(&world(&both), ROOT).unwrap_err().to_string();
    assert_eq!(report.matches("is read as").count(), 2, "{report}");
    let report = load(&world(&[("KEEPWARM_APP__OTHER__SHOP__FOO", "1")]), ROOT).unwrap_err().to_string();
    assert!(report.contains("so a NAME cannot contain it\n") && !report.contains("; for"), "{report}");
    let report = load(&world(&[("KEEPWARM_APP__MY_SHOP__WRKERS", "1")]), ROOT).unwrap_err().to_string();
    assert!(report.contains("did you mean `workers`"), "{report}");
}
