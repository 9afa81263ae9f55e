//! WordPress on a MariaDB of its own.

use std::fs;
use std::path::Path;

use keepwarm_tests::get;

use crate::mariadb::MariaDb;
use crate::{BY_DEFAULT, Browser, PASSWORD, PIXEL, copy_site, start};

#[test]
fn wordpress_on_php_fpm() {
    let mut database = None;
    let server = start(BY_DEFAULT, |folder| {
        let site = folder.join("site");
        copy_site("/usr/share/wordpress", &["./wp-config.php"], &site);
        let running = MariaDb::start(&folder.join("db"));
        create_database(&running);
        fs::write(
            site.join("wp-config.php"),
            wp_config(&running.socket, "define('DISABLE_WP_CRON', true);\n"),
        )
        .expect("written");
        database = Some(running);
    });
    let browser = Browser::new(&server);

    let both = [format!("admin_password={PASSWORD}"), format!("admin_password2={PASSWORD}")];
    let page = browser.open(
        "/wp-admin/install.php?step=2",
        &[
            "-d",
            "weblog_title=Kept",
            "-d",
            "user_name=admin",
            "--data-urlencode",
            &both[0],
            "--data-urlencode",
            &both[1],
            "-d",
            "pw_weak=on",
            "-d",
            "admin_email=a@example.com",
            "-d",
            "blog_public=0",
        ],
    );
    assert!(page.contains("Success!"), "{page}");

    browser.open("/wp-login.php", &[]);
    let password = format!("pwd={PASSWORD}");
    let page = browser.open(
        "/wp-login.php",
        &["-d", "log=admin", "--data-urlencode", &password, "-d", "testcookie=1", "-d", "wp-submit=1"],
    );
    assert!(page.contains("Dashboard"), "{page}");

    // The directory's address without its slash, as people type it.
    assert!(browser.open("/wp-admin", &[]).contains("Dashboard"));
    let nonce = format!("X-WP-Nonce: {}", browser.open("/wp-admin/admin-ajax.php?action=rest-nonce", &[]));
    let post = browser.json(
        "/index.php?rest_route=/wp/v2/posts",
        &[
            "-H",
            &nonce,
            "-d",
            "title=Stalls",
            "-d",
            "status=publish",
            "--data-urlencode",
            "content=<p>The <em>five</em>, gone.</p>",
        ],
    );
    let id = post["id"].as_u64().unwrap_or_else(|| panic!("no post: {post}"));

    let file = server.folder().join("pixel.png");
    fs::write(&file, PIXEL).expect("written");
    let upload = format!("file=@{};type=image/png", file.display());
    let media = browser.json("/index.php?rest_route=/wp/v2/media", &["-H", &nonce, "-F", &upload]);
    let image = media["source_url"].as_str().unwrap_or_else(|| panic!("no upload: {media}")).to_owned();

    let page = browser.open(&format!("/?p={id}"), &[]);
    assert!(page.contains("The <em>five</em>, gone."), "{page}");
    let (_, path) = image.split_once("/wp-content").expect("an address beneath wp-content");
    let read = server.ask(get(&format!("/wp-content{path}")));
    assert_eq!((read.status, read.body.as_slice()), (200, PIXEL), "{image}");
    assert_eq!(
        server.ask(get("/wp-includes/css/dashicons.min.css")).field("content-type"),
        Some("text/css; charset=utf-8")
    );
    for secret in ["/wp-config.php", "/wp-config.php/", "/readme.html/../wp-config.php"] {
        assert!(!server.ask(get(secret)).text().contains("DB_PASSWORD"), "{secret}");
    }
    drop(server);
    drop(database);
}

pub fn create_database(server: &MariaDb) {
    server.run(
        "CREATE DATABASE wp; CREATE USER wp@localhost IDENTIFIED BY 'wp'; GRANT ALL ON wp.* TO wp@localhost",
    );
}

/// `more`: lines before those of WordPress.
pub fn wp_config(socket: &Path, more: &str) -> String {
    let constant = |name: &str, value: &str| format!("define('{name}', {value});\n");
    let host = format!("'localhost:{}'", socket.display());
    let mut text = format!("<?php\n{more}");
    for (name, value) in [
        ("DB_NAME", "'wp'"),
        ("DB_USER", "'wp'"),
        ("DB_PASSWORD", "'wp'"),
        ("DB_HOST", &host),
        ("DB_CHARSET", "'utf8mb4'"),
        ("DB_COLLATE", "''"),
        ("AUTH_KEY", "'a'"),
        ("SECURE_AUTH_KEY", "'b'"),
        ("LOGGED_IN_KEY", "'c'"),
        ("NONCE_KEY", "'d'"),
        // Nothing outside of this machine is asked.
        ("WP_HTTP_BLOCK_EXTERNAL", "true"),
        ("AUTOMATIC_UPDATER_DISABLED", "true"),
    ] {
        text += &constant(name, value);
    }
    text + "$table_prefix = 'wp_';\ndefined('ABSPATH') || define('ABSPATH', __DIR__ . '/');\nrequire_once ABSPATH . 'wp-settings.php';\n"
}
