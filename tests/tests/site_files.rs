//! `files` with variables: a directory for each host, which a client cannot leave.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::OnceLock;

use keepwarm_tests::{Response, Server};

const CONFIG: &str = r#"
[map.site]
source = "$host_name"
values = { "mapped.example" = "a.example", "slash.example" = "a.example/public", "*.dots.example" = ".." }

[listen.main]
bind = "127.0.0.1:0"

[[listen.main.route]]
path = "/args/*"
files = "@DIR@/sites/$arg_site/public"

[[listen.main.route]]
path = "/glued/*"
files = "@DIR@/sites/$arg_a$arg_b"

[[listen.main.route]]
path = "/mapped/*"
files = "@DIR@/sites/$map_site/public"

[[listen.main.route]]
path = "~^/~([^/]*)/(.*)$"
rewrite = "/$2"
files = "@DIR@/sites/$1/public"

[[listen.main.route]]
path = "/list/*"
files = "@DIR@/sites/$host/public"
listing = true

[[listen.main.route]]
files = "@DIR@/sites/$host/public"
"#;

/// Sites beside a secret, and one that a tenant has filled with links.
fn sites(folder: &Path) {
    for site in ["a.example", "b.example", "xn--bcher-kva.example", "[::1]", ".hidden", "spaced name"] {
        let public = folder.join("sites").join(site).join("public");
        fs::create_dir_all(&public).unwrap();
        fs::write(public.join("x.txt"), site).unwrap();
        fs::write(public.join("index.html"), format!("index of {site}")).unwrap();
    }
    fs::write(folder.join("sites/b.example/secret.txt"), "secret").unwrap();
    fs::create_dir_all(folder.join("outside/public")).unwrap();
    fs::write(folder.join("outside/public/x.txt"), "outside").unwrap();
    fs::create_dir_all(folder.join("public")).unwrap();
    fs::write(folder.join("public/x.txt"), "above").unwrap();
    let sites = folder.join("sites");
    symlink("a.example", sites.join("alias.example")).unwrap();
    symlink("../outside", sites.join("out.example")).unwrap();
    symlink(folder.join("outside"), sites.join("absolute.example")).unwrap();
    let evil = sites.join("evil.example");
    fs::create_dir_all(&evil).unwrap();
    symlink("../../public", evil.join("public")).unwrap();
    symlink("../../b.example/secret.txt", sites.join("a.example/public/other.txt")).unwrap();
    symlink("x.txt", sites.join("a.example/public/same.txt")).unwrap();
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        Server::start_with(CONFIG, |command| sites(command.get_current_dir().expect("a folder")))
    })
}

fn ask(host: &str, target: &str) -> Response {
    server().ask(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

#[test]
fn a_host_has_its_directory_in_every_spelling() {
    for (host, site) in [
        ("a.example", "a.example"),
        ("A.EXAMPLE", "a.example"),
        ("a.example:8080", "a.example"),
        ("a.example.", "a.example"),
        ("A.example.:80", "a.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--BCHER-kva.example", "xn--bcher-kva.example"),
        ("[::1]:8080", "[::1]"),
        ("alias.example", "a.example"),
    ] {
        let response = ask(host, "/x.txt");
        assert_eq!((response.status, response.text()), (200, site.to_owned()), "{host}");
        assert_eq!(ask(host, "/").text(), format!("index of {site}"));
    }
}

#[test]
fn an_unknown_host_or_one_that_names_no_directory_is_not_found() {
    for host in [
        "none.example",
        "",
        ".",
        "..",
        "...",
        ".hidden",
        "a.example%2F..%2Fb.example",
        "%61.example",
        "x.txt",
    ] {
        assert_eq!(ask(host, "/x.txt").status, 404, "{host}");
    }
    let long = "a".repeat(300);
    assert_eq!(ask(&long, "/x.txt").status, 404);
    let response = server().ask("GET /x.txt HTTP/1.0\r\n\r\n");
    assert_eq!(response.status, 404, "no host at all");
}

#[test]
fn a_value_is_one_name() {
    assert_eq!(ask("a", "/args/x.txt?site=a.example").text(), "a.example");
    assert_eq!(ask("a", "/args/x.txt?site=spaced+name").text(), "spaced name");
    for site in [
        "",
        ".",
        "..",
        "../outside",
        "a.example/",
        "/",
        "a.example/public/..",
        "a.example%2F",
        "a.example%00",
        "%00",
        "..%00",
        ".hidden",
        "./a.example",
        "a.example%2F..%2Fb.example",
    ] {
        assert_eq!(ask("a", &format!("/args/x.txt?site={site}")).status, 404, "{site}");
    }
    assert_eq!(ask("a", "/args/x.txt").status, 404, "no value at all");
    assert_eq!(ask("a", "/glued/public/x.txt?a=a.exa&b=mple").text(), "a.example");
    for values in ["a=.&b=.", "a=.&b=hidden", "a=a.example", "b=a.example", "a=a.example%2F&b=public"] {
        assert_eq!(ask("a", &format!("/glued/x.txt?{values}")).status, 404, "{values}");
    }
}

#[test]
fn a_map_and_a_part_of_the_path_name_a_directory() {
    assert_eq!(ask("mapped.example", "/mapped/x.txt").text(), "a.example");
    for host in ["slash.example", "x.dots.example", "none.example"] {
        assert_eq!(ask(host, "/mapped/x.txt").status, 404, "{host}");
    }
    assert_eq!(ask("a", "/~b.example/x.txt").text(), "b.example");
    assert_eq!(ask("a", "/~spaced%20name/x.txt").text(), "spaced name");
    for path in ["/~/x.txt", "/~%2E%2E/x.txt", "/~.hidden/x.txt", "/~none/x.txt"] {
        assert_eq!(ask("a", path).status, 404, "{path}");
    }
}

#[test]
fn links_lead_neither_out_of_the_fixed_part_nor_from_one_site_to_another() {
    assert_eq!(ask("a.example", "/same.txt").text(), "a.example", "a link inside");
    for (host, path) in [
        ("out.example", "/x.txt"),
        ("absolute.example", "/x.txt"),
        ("evil.example", "/x.txt"),
        ("a.example", "/other.txt"),
    ] {
        let response = ask(host, path);
        assert_eq!(response.status, 404, "{host}{path}: {}", response.text());
    }
}

#[test]
fn a_listing_is_of_the_hosts_own_directory() {
    let list = |host: &str| {
        server().ask(format!("GET /list/none/ HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n\r\n"))
    };
    assert_eq!(list("a.example").status, 404);
    fs::create_dir_all(server().folder().join("sites/b.example/public/none")).unwrap();
    fs::write(server().folder().join("sites/b.example/public/none/only-b"), "").unwrap();
    assert!(list("b.example").text().contains("only-b"));
    assert_eq!(list("a.example").status, 404);
}
