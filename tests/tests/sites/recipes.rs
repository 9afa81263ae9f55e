//! The recipes of `docs/recipes` for sites that Debian packages, with the files that the pages show.

use std::fs;
use std::path::Path;
use std::process::Command;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::{free_port, run_ok};
use keepwarm_tests::{Server, keepwarm, recipe};
use serde_json::Value;

use crate::mariadb::MariaDb;
use crate::wordpress::{create_database, wp_config};
use crate::{PASSWORD, PATIENCE, PIXEL, copy_site, mediawiki};

/// A server with the configuration of a page, once `prepare` has put its other files into the directory.
fn start(config: &str, prepare: impl FnOnce(&Path)) -> Server {
    let server = Server::spawn(config, |command| {
        prepare(command.get_current_dir().expect("a folder"));
        command.env("KEEPWARM_SERVER__USER", "root");
    });
    server.listening()
}

fn php(folder: &Path) -> Command {
    let mut php = Command::new("php");
    php.current_dir(folder);
    php
}

/// The status and the page of a host's front page.
fn visit(server: &Server, host: &str, path: &str) -> (u16, String) {
    let mut client = server.client().patient(PATIENCE);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.response("GET");
    (response.status, response.text())
}

/// Creates the network as its page of the administration does.
const CREATE: &str = r#"<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = 'network.example';
function wp_mail() { return true; }
require __DIR__ . '/public/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
require ABSPATH . 'wp-admin/includes/network.php';
wp_install('Main', 'admin', 'a@example.com', false, '', $argv[1]);
foreach ($wpdb->tables('ms_global') as $table => $name) {
    $wpdb->$table = $name;
}
install_network();
$made = populate_network(1, 'network.example', 'a@example.com', 'Network', '/', true);
// A name that leads nowhere here is a warning.
if (is_wp_error($made) && $made->get_error_code() !== 'no_wildcard_dns') {
    exit($made->get_error_message());
}
"#;

/// Adds a site, and gives each a job.
const ADD: &str = r#"<?php
$_SERVER['HTTP_HOST'] = 'network.example';
require __DIR__ . '/public/wp-load.php';
$made = wpmu_create_blog('shop.network.example', '/', 'Shop', 1);
if (is_wp_error($made)) {
    exit($made->get_error_message());
}
foreach (get_sites() as $site) {
    switch_to_blog($site->blog_id);
    wp_schedule_single_event(time(), 'kept_job');
    restore_current_blog();
}
"#;

const JOB: &str = "<?php
add_action('kept_job', fn () => touch(ABSPATH . '../done-' . get_bloginfo('name')));
";

#[test]
fn wordpress_multisite() {
    let port = free_port();
    let page = recipe::page("wordpress-multisite.md").replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
    let files = recipe::files(&page);
    let config = recipe::file_of(&files, "keepwarm.toml");
    assert!(config.contains("\"every 1m\""), "{config}");
    let mut database = None;
    let server = start(&config.replace("\"every 1m\"", "\"every 1s\""), |folder| {
        let site = folder.join("public");
        copy_site("/usr/share/wordpress", &["./wp-config.php"], &site);
        let running = MariaDb::start(&folder.join("db"));
        create_database(&running);
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
        write("public/wp-config.php", &wp_config(&running.socket, ""));
        write("create.php", CREATE);
        let said = run_ok(php(folder).arg("create.php").arg(PASSWORD), PATIENCE);
        assert_eq!(said, "", "the network is created");
        let lines = recipe::file_of(&files, "wp-config.php");
        write("public/wp-config.php", &wp_config(&running.socket, &lines));
        fs::create_dir_all(site.join("wp-content/mu-plugins")).expect("a folder");
        write("public/wp-content/mu-plugins/job.php", JOB);
        write("add.php", ADD);
        assert_eq!(run_ok(php(folder).arg("add.php"), PATIENCE), "", "a site is added");
        write("cron.php", &recipe::file_of(&files, "cron.php"));
        database = Some(running);
    });
    for (host, title) in [("network.example", "<title>Main"), ("shop.network.example", "<title>Shop")] {
        let (status, page) = visit(&server, host, "/");
        assert!(status == 200 && page.contains(title), "{host}: {status}\n{page}");
    }
    assert_eq!(visit(&server, "other.example", "/").0, 404);
    for name in ["Main", "Shop"] {
        let done = server.folder().join(format!("done-{name}"));
        wait_until("each site has done its job", PATIENCE, || done.exists());
    }
    drop(server);
    drop(database);
}

/// A wiki that others take images from, over TLS only.
const OTHER: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
tls = { certificates = [{ cert = "@DIR@/wiki.pem", key = "@DIR@/wiki.key" }] }
[[listen.main.route]]
app = "wiki"
try_files = "public"
[app.wiki]
kind = "fastcgi"
entry = "public/index.php"
workers = 2
"#;

fn other_wiki(authority: &Authority) -> Server {
    start(OTHER, |folder| {
        authority.identity(&["127.0.0.1"]).write(folder, "wiki");
        let site = folder.join("public/w");
        mediawiki::install(&site, &folder.join("data"), "/w");
        append(
            &site.join("LocalSettings.php"),
            "$wgServer = WebRequest::detectServer();\n$wgEnableUploads = true;\n",
        );
        // Scripts are those beneath the directory of the entry script.
        fs::write(folder.join("public/index.php"), "<?php header('Location: /w/index.php');")
            .expect("written");
        let images = folder.join("import");
        fs::create_dir(&images).expect("a folder");
        fs::write(images.join("Pixel.png"), PIXEL).expect("written");
        run_ok(php(&site).arg("maintenance/importImages.php").arg(&images), PATIENCE);
    })
}

fn append(file: &Path, lines: &str) {
    let text = fs::read_to_string(file).expect("a file") + "\n" + lines;
    fs::write(file, text).expect("written");
}

#[test]
fn mediawiki_with_a_back_door() {
    let authority = Authority::default();
    let other = other_wiki(&authority);
    let door = format!("127.0.0.1:{}", free_port());
    let page = recipe::page("mediawiki-back-door.md")
        .replace("127.0.0.1:8081", "127.0.0.1:0")
        .replace("127.0.0.1:6104", &door)
        .replace(
            "\"https://commons.wikimedia.org\"",
            &format!("\"https://{}\"\nca = \"authority.pem\"", other.address()),
        );
    let files = recipe::files(&page);
    let server = start(&recipe::file_of(&files, "keepwarm.toml"), |folder| {
        fs::write(folder.join("authority.pem"), authority.pem()).expect("written");
        let site = folder.join("public");
        mediawiki::install(&site, &folder.join("data"), "");
        append(&site.join("LocalSettings.php"), "$wgServer = WebRequest::detectServer();\n");
        append(&site.join("LocalSettings.php"), &recipe::file_of(&files, "LocalSettings.php"));
    });
    let site = server.folder().join("public");
    let maintain = |script: String| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).current_dir(&site);
        shell.env("KEEPWARM_UPSTREAM_COMMONS", format!("http://{door}"));
        run_ok(&mut shell, PATIENCE)
    };
    for number in 0..3 {
        maintain(format!("echo '[[File:Pixel.png]]' | php maintenance/edit.php 'Page {number}'"));
        let (status, page) = visit(&server, "wiki.example", &format!("/index.php/Page_{number}"));
        assert!(status == 200 && page.contains("<img alt=\"Pixel.png\""), "{status}\n{page}");
    }
    let status =
        run_ok(Command::new(keepwarm()).args(["status", "--json"]).current_dir(server.folder()), PATIENCE);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let endpoint = &status["upstreams"][0]["endpoints"][0];
    let count = |name: &str| endpoint[name].as_u64().expect("a number");
    let (calls, reused) = (count("reused") + count("dialled"), count("reused"));
    assert!(calls >= 3 && reused * 2 >= calls, "{endpoint}");
    wait_until("the jobs are done", PATIENCE, || {
        maintain("php maintenance/showJobs.php".to_owned()).trim() == "0"
    });
}
