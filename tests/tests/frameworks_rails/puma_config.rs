//! `config/puma.rb` stands for the keys that an app does not have, and the variables that Puma reads for both.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, admin, apps, get};
use serde_json::Value;

use super::BOUND;

const FILE: &str = r#"
workers 2
threads 1, ENV.fetch("RAILS_MAX_THREADS") { 3 }
preload_app!
environment "staging"
port 3000
frobnicate :twice
on_worker_boot { |index| $hook = "worker #{index}" }
"#;

fn config(more: &str) -> String {
    format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\n\
         [app.shop]\nentry = \"config.ru\"\ndirectory = \"@DIR@/site\"\n{more}\n"
    )
}

fn write(site: &Path, text: &str) {
    std::fs::create_dir_all(site.join("config")).expect("a folder");
    std::fs::write(site.join("config/puma.rb"), text).expect("written");
}

fn start(more: &str, file: Option<&str>) -> Server {
    let server = Server::spawn(&config(more), |command| {
        let folder = command.get_current_dir().expect("a folder").to_owned();
        let site = folder.join("site");
        std::fs::create_dir_all(&site).expect("a folder");
        std::fs::copy(apps().join("puma_config/config.ru"), site.join("config.ru")).expect("copied");
        if let Some(text) = file {
            write(&site, text);
        }
        // Workers of root run as another user, which reads it.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("opened");
        // A setting of Keepwarm's own; others hold secrets.
        command.env("KEEPWARM_SERVER__THREADS", "1");
        for variable in ["WEB_CONCURRENCY", "RAILS_MAX_THREADS", "PUMA_MAX_THREADS", "RACK_ENV", "RAILS_ENV"]
        {
            command.env_remove(variable);
        }
    });
    server.listening()
}

/// The app's view, and how many threads its worker has.
fn seen(server: &Server) -> (Value, u64) {
    let seen = server.ask(get("/")).json();
    let threads = seen["stats"]["max_threads"].as_u64().expect("a number");
    (seen, threads)
}

fn workers(server: &Server) -> u64 {
    admin::status(server)["apps"][0]["workers"]["target"].as_u64().expect("a number")
}

#[test]
fn the_file_stands_for_keys_that_are_not_there_and_a_reload_reads_it_again() {
    let server = start("", Some(FILE));
    let (seen_first, threads) = seen(&server);
    assert_eq!((workers(&server), threads), (2, 3));
    assert_eq!(seen_first["env"], "staging");
    assert!(seen_first["hook"] == "worker 0" || seen_first["hook"] == "worker 1", "{seen_first}");
    for wanted in [
        "by config/puma.rb: workers = 2, threads = 3, preload = true, RACK_ENV = staging, 1 hook",
        "config/puma.rb:6: `port` is not used: write `--bind 0.0.0.0:3000`",
        "config/puma.rb:7: `frobnicate` is not used: unknown directive",
        "template ready",
    ] {
        server.wait_for_log(wanted, BOUND);
    }

    write(&server.folder().join("site"), "workers 1\nthreads 4\nraise 'in the middle'\npreload_app!");
    let mark = server.mark();
    server.reload();
    let (seen_second, threads) = seen(&server);
    assert_eq!((workers(&server), threads, &seen_second["hook"]), (1, 4, &Value::Null));
    assert_eq!(seen_second["env"], "production");
    server.wait_for_log_after(
        mark,
        "config/puma.rb:3: the rest of the file is not used: RuntimeError: in the middle",
        BOUND,
    );
}

#[test]
fn keys_of_the_configuration_go_before_it() {
    let server = start(
        "workers = 1\nthreads = 2\npreload = false\nenv = { RACK_ENV = \"test\", WEB_CONCURRENCY = \"7\" }",
        Some(FILE),
    );
    let (seen, threads) = seen(&server);
    assert_eq!((workers(&server), threads, &seen["env"]), (1, 2, &"test".into()));
    // Hooks have no key.
    assert_eq!(seen["hook"], "worker 0");
    assert!(!server.log().contains("template ready"));
}

#[test]
fn the_configuration_can_disable_the_file_or_name_another() {
    let server = start("workers = 1\npuma_config = \"none\"", Some(FILE));
    let (none, threads) = seen(&server);
    assert_eq!((threads, &none["hook"], &none["env"]), (1, &Value::Null, &"production".into()));
    assert!(!server.log().contains("puma.rb"), "{}", server.log());

    std::fs::write(server.folder().join("other.rb"), "threads 6").expect("written");
    server.reload_with(&config("workers = 1\npuma_config = \"other.rb\""));
    assert_eq!(seen(&server).1, 6);
}

#[test]
fn pumas_variables_apply_where_no_file_sets_the_key() {
    let server = start("env = { WEB_CONCURRENCY = \"3\", RAILS_MAX_THREADS = \"4\" }", None);
    assert_eq!((workers(&server), seen(&server).1), (3, 4));
    let log = server.log();
    assert!(log.contains("by WEB_CONCURRENCY: workers = 3"), "{log}");
    assert!(log.contains("by RAILS_MAX_THREADS: threads = 4"), "{log}");

    write(&server.folder().join("site"), "threads 2");
    server.reload_with(&config(
        "env = { WEB_CONCURRENCY = \"many\", RAILS_MAX_THREADS = \"4\", PUMA_MAX_THREADS = \"5\" }\nworkers = 1",
    ));
    assert_eq!((workers(&server), seen(&server).1), (1, 2));
    let mark = server.mark();
    server.reload_with(&config(
        "puma_config = \"none\"\nenv = { WEB_CONCURRENCY = \"many\", PUMA_MAX_THREADS = \"5\" }",
    ));
    assert_eq!(seen(&server).1, 5);
    server.wait_for_log_after(
        mark,
        "the variable WEB_CONCURRENCY is not used: \"many\" is not a number",
        BOUND,
    );
}

#[test]
fn development_has_one_worker_by_default() {
    let server = start("env = { RAILS_ENV = \"development\" }", None);
    assert_eq!((workers(&server), &seen(&server).0["env"]), (1, &"development".into()));
    let log = server.log();
    assert!(log.contains("by RAILS_ENV = development: workers = 1"), "{log}");
    server.reload_with(&config("workers = 2\nenv = { RAILS_ENV = \"development\" }"));
    assert_eq!(workers(&server), 2);
}

#[test]
fn the_file_sees_no_setting_of_keepwarms() {
    let server = start("workers = 1", Some("threads ENV.key?('KEEPWARM_SERVER__THREADS') ? 7 : 3"));
    assert_eq!(seen(&server).1, 3);
}

#[test]
fn a_file_that_ends_ruby_is_given_up() {
    let server = start("workers = 1", Some("threads 3\nexit!(1)"));
    assert_eq!(seen(&server).1, 1);
    server.wait_for_log("config/puma.rb is not used: it could not be evaluated", BOUND);
}

#[test]
fn the_admin_address_has_the_stats_of_puma() {
    let server = start("", Some(FILE));
    for _ in 0..3 {
        server.ask(get("/"));
    }
    let stats = || admin::get(&server, "/stats", "").json();
    wait_until("both workers are up, and their requests counted", BOUND, || {
        let stats = stats();
        let requests = |worker: &Value| worker["last_status"]["requests_count"].as_u64();
        let sum: u64 = stats["worker_status"].as_array().into_iter().flatten().filter_map(requests).sum();
        stats["booted_workers"] == 2 && sum == 3
    });
    let stats = stats();
    assert_eq!(
        (&stats["workers"], &stats["old_workers"], &stats["phase"]),
        (&2.into(), &0.into(), &1.into())
    );
    let worker = &stats["worker_status"][0];
    assert_eq!((&worker["index"], &worker["booted"]), (&0.into(), &true.into()));
    let status = &worker["last_status"];
    let numbers = ["backlog", "running", "pool_capacity", "busy_threads", "max_threads"]
        .map(|name| status[name].as_u64().unwrap_or_else(|| panic!("{name}: {stats}")));
    assert_eq!(numbers, [0, 3, 3, 0, 3]);
    for name in ["started_at", "last_checkin"] {
        let time = worker[name].as_str().unwrap_or_default();
        assert!(time.len() == 20 && time.ends_with('Z'), "{name}: {time}");
    }
    assert_eq!(admin::get(&server, "/stats?app=shop", "").status, 200);
    assert_eq!(admin::get(&server, "/stats?app=other", "").status, 404);
}
