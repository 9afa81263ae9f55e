//! `map`: variables that are looked up by others, wherever variables go.

use std::sync::OnceLock;
use std::time::Duration;

use keepwarm_tests::{Response, Server};

const CONFIG: &str = r#"
[map.tenant]
source = "$host_name"
default = "none"
values = { "shop.example" = "shop", "*.shop.example" = "sub-$1", "~^www([0-9]+)\\." = "farm-$1" }

[map.moved]
source = "$path"
default = "/home"

[map.moved.values]
"/m/old" = "/new?from=$path"
"/m/far" = "https://other.example/$arg_to"

[map.plan]
source = "$map_tenant:$cookie_plan"
values = { "shop:gold" = "<gold>", "sub-*:*" = "$1 $2" }

[listen.main]
bind = "127.0.0.1:0"
access_log = { format = "mapped $map_tenant $map_plan $target" }

[[listen.main.route]]
path = "/m/*"
redirect = { to = "$map_moved", status = 301 }

[[listen.main.route]]
path = "/host/*"
redirect = "https://$map_tenant.example.com/x"

[[listen.main.route]]
path = "/body"
respond = { body = "<p>$map_plan</p>", content_type = "text/html" }
headers = { set = { X-Tenant = "$map_tenant" } }

[[listen.main.route]]
path = "/app/*"
rewrite = "/echo?tenant=$map_tenant"
app = "app"
[listen.main.route.request_headers]
set = { X-Tenant = "$map_tenant" }

[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(CONFIG))
}

fn ask(host: &str, target: &str, fields: &str) -> Response {
    server().ask(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"))
}

#[test]
fn a_host_is_found_in_every_spelling() {
    for (host, tenant) in [
        ("shop.example", "shop"),
        ("SHOP.example:8080", "shop"),
        ("shop.example.", "shop"),
        ("a.shop.example", "sub-a"),
        ("www12.other.example", "farm-12"),
        ("other.example", "none"),
    ] {
        assert_eq!(ask(host, "/body", "").field("x-tenant"), Some(tenant), "{host}");
        let seen = ask(host, "/app/x", "X-Tenant: forged\r\n").json();
        assert_eq!(
            (&seen["HTTP_X_TENANT"], &seen["QUERY_STRING"]),
            (&tenant.into(), &format!("tenant={tenant}").into())
        );
    }
}

#[test]
fn a_redirect_has_the_text_of_the_map_and_encodes_what_the_client_sent() {
    for (target, location) in [
        ("/m/old", "/new?from=/m/old"),
        ("/m/far?to=a/b%3Fc", "https://other.example/a%2Fb%3Fc"),
        ("/m/else", "/home"),
        ("/host/x", "https://shop.example.com/x"),
    ] {
        assert_eq!(ask("shop.example", target, "").field("location"), Some(location), "{target}");
    }
}

#[test]
fn a_map_can_use_another_and_is_escaped_in_a_body() {
    let body = |host: &str| ask(host, "/body", "Cookie: plan=gold\r\n").text();
    assert_eq!(body("shop.example"), "<p>&lt;gold&gt;</p>");
    assert_eq!(body("a.shop.example"), "<p>a gold</p>");
    assert_eq!(body("none.example"), "<p></p>");
}

#[test]
fn the_access_log_has_it() {
    let server = Server::start(CONFIG);
    server.ask("GET /m/log HTTP/1.1\r\nHost: b.shop.example\r\nCookie: plan=x\r\n\r\n");
    server.wait_for_log("mapped sub-b b x /m/log", Duration::from_secs(5));
}
