//! Variables in redirects, headers and rewrites: a client's text stays inside the place where it goes.

use std::sync::OnceLock;

use keepwarm_tests::{Response, Server, get};

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"

[[listen.main.route]]
path = "/old/*"
redirect = { to = "/new/$1$query", status = 301 }

[[listen.main.route]]
path = "/p*"
redirect = "/$1"

[[listen.main.route]]
path = "~^/item/([0-9]+)-([^/]*)$"
redirect = { to = "https://$host_name:8443/show?id=$1&name=$2&from=$arg_from", status = 302 }

[[listen.main.route]]
path = "/tenant/*/x"
redirect = { to = "https://$1.example.com/", status = 303 }

[[listen.main.route]]
path = "/values"
respond = { body = "values", headers = { X-Kept = "1", X-Gone = "1" } }
[listen.main.route.headers]
set = { X-Client = "$client $method $scheme", X-Arg = "[$arg_a]", X-Header = "$header_x_in", X-Cookie = "$cookie_c", X-Dollar = "$$1" }
add = { X-Kept = "2" }
if_missing = { X-Kept = "no", X-Missing = "yes" }
remove = ["X-Gone"]

[[listen.main.route]]
path = "/refused/*"
max_body = 1
app = "app"
headers = { set = { X-Part = "$1" } }

[[listen.main.route]]
path = "/in/*"
rewrite = "/echo?part=$1"
app = "app"

[[listen.main.route]]
path = "/same/*"
rewrite = "/$1"
app = "app"
[listen.main.route.request_headers]
set = { X-Identity = "edge $host_name" }
add = { X-List = "edge" }
if_missing = { X-Default = "edge" }
remove = ["X-Secret"]

[[listen.main.route]]
path = "/dir/*"
rewrite = "/any/$arg_name"
app = "app"

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

fn ask(target: &str, fields: &str) -> Response {
    server().ask(format!("GET {target} HTTP/1.1\r\nHost: shop.example:8080\r\n{fields}\r\n"))
}

#[test]
fn a_redirect_keeps_a_clients_text_in_its_part_of_the_url() {
    let cases = [
        ("/old/a/b%20c?x=1", 301, "/new/a/b%20c?x=1"),
        ("/old/", 301, "/new/"),
        ("/page", 307, "/age"),
        // Each would be another host.
        ("/p/evil.example", 307, "/evil.example"),
        ("/p//evil.example", 307, "/evil.example"),
        ("/p\\evil.example", 307, "/%5Cevil.example"),
        ("/item/7-a", 302, "https://shop.example:8443/show?id=7&name=a&from="),
        (
            "/item/7-a?from=x%26y%3D%23/",
            302,
            "https://shop.example:8443/show?id=7&name=a&from=x%26y%3D%23%2F",
        ),
        ("/item/7-a&id=8+;c", 302, "https://shop.example:8443/show?id=7&name=a%26id%3D8%2B%3Bc&from="),
        (
            "/item/7-a?from=%0d%0aSet-Cookie:x",
            302,
            "https://shop.example:8443/show?id=7&name=a&from=%0D%0ASet-Cookie%3Ax",
        ),
        ("/tenant/a/x", 303, "https://a.example.com/"),
    ];
    for (target, status, location) in cases {
        let response = ask(target, "");
        assert_eq!((response.status, response.field("location")), (status, Some(location)), "{target}");
    }
}

#[test]
fn headers_have_values_of_the_request_and_no_line_of_the_client() {
    let response = ask("/values?a=1%0d%0aX-Evil:%201&a=2", "X-In: in\r\nCookie: b=1; c=2\r\n");
    let value = |name: &str| response.field(name).unwrap_or("-").to_owned();
    assert_eq!(value("x-client"), "127.0.0.1 GET http");
    assert_eq!(value("x-arg"), "[1  X-Evil: 1]");
    assert_eq!(value("x-evil"), "-");
    assert_eq!(value("x-header"), "in");
    assert_eq!(value("x-cookie"), "2");
    assert_eq!(value("x-dollar"), "$1");
    assert_eq!(value("x-gone"), "-");
    assert_eq!(value("x-missing"), "yes");
    assert_eq!(response.all("x-kept"), ["1", "2"]);
    // Absent values are empty.
    assert_eq!(ask("/values", "").field("x-arg"), Some("[]"));
}

/// Rules hold for error responses of the route as well.
#[test]
fn an_error_response_has_the_headers_too() {
    let refused = server().ask("POST /refused/a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!((refused.status, refused.field("x-part")), (413, Some("a/b")));
}

#[test]
fn an_app_gets_the_rewritten_path() {
    let seen = ask("/in/a/b?x=1", "").json();
    assert_eq!((&seen["PATH_INFO"], &seen["QUERY_STRING"]), (&"/echo".into(), &"part=a/b".into()));
    // A path's text adds no argument.
    let seen = ask("/in/a&part=b", "").json();
    assert_eq!(seen["QUERY_STRING"], "part=a%26part%3Db");
    let seen = ask("/same/echo?x=1", "").json();
    assert_eq!((&seen["PATH_INFO"], &seen["QUERY_STRING"]), (&"/echo".into(), &"x=1".into()));
    assert_eq!(seen["REQUEST_METHOD"], "GET");
    let body = server().ask("POST /same/digest HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").json();
    assert_eq!(body["length"], 3, "a rewrite keeps the body");
}

#[test]
fn a_rewrite_does_not_climb() {
    for name in ["..", ".", "../x", "%2e%2e", "a/../../b", "..%5cx", "..;/x", "%2e%2e%2fx"] {
        assert_eq!(ask(&format!("/dir/x?name={name}"), "").status, 400, "{name}");
    }
    let seen = ask("/dir/x?name=a/b..c", "").json();
    assert_eq!(seen["PATH_INFO"], "/any/a/b..c");
}

#[test]
fn an_app_gets_the_routes_headers_whatever_the_client_sends() {
    let fields = "X-Identity: client\r\nX-Identity: twice\r\nX-Secret: 1\r\nX-List: client\r\nConnection: X-Identity, X-List\r\n";
    let seen = ask("/same/echo", fields).json();
    assert_eq!(seen["HTTP_X_IDENTITY"], "edge shop.example");
    assert_eq!(seen["HTTP_X_LIST"], "client, edge");
    assert_eq!(seen["HTTP_X_DEFAULT"], "edge");
    assert!(seen["HTTP_X_SECRET"].is_null(), "{seen}");
    assert_eq!(ask("/same/echo", "X-Default: client\r\n").json()["HTTP_X_DEFAULT"], "client");
}

/// The rules of one request do not stay for the next on the connection.
#[test]
fn rules_end_with_their_request() {
    let mut client = server().client();
    client.send(get("/same/echo"));
    assert_eq!(client.response("GET").json()["HTTP_X_IDENTITY"], "edge test.example");
    client.send("GET /in/x HTTP/1.1\r\nHost: a\r\nX-Secret: 1\r\n\r\n");
    let seen = client.response("GET").json();
    assert!(seen["HTTP_X_IDENTITY"].is_null() && seen["HTTP_X_SECRET"] == "1", "{seen}");
}
