//! Real applications from PyPI: the Flask and the Starlette one in `examples/`, through everything they do.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use keepwarm_tests::content::{noise, post, sha256};
use keepwarm_tests::{Client, Failure, Framing, Server, get, websocket};

fn config(entry: &str, folder: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n[app.app]\nentry = \"{entry}\"\n\
         directory = \"@EXAMPLES@/{folder}\"\ninterpreter = \"@PYTHON@\"\nworkers = 2\nenv = {{ COUNT_FILE = \"@DIR@/count\" }}\n"
    )
}

fn flask() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&config("shop.wsgi:application", "wsgi-flask")).warm("/"))
}

fn starlette() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&config("chat.asgi:application", "asgi-starlette")).warm("/"))
}

fn both() -> [(&'static str, &'static Server); 2] {
    [("flask", flask()), ("starlette", starlette())]
}

fn patient(server: &Server) -> Client {
    server.client().patient(Duration::from_secs(15))
}

#[test]
fn pages_and_json() {
    for (name, server) in both() {
        let mut client = server.client();
        let page = client.expect_kept("/");
        assert!(page.field("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{name}");
        assert!(page.text().contains("<h1>"), "{name}");
        let products = client.expect_kept("/products").json();
        assert_eq!(products[1]["name"], "teapot", "{name}");
        assert_eq!(client.ask(get("/nowhere")).status, 404, "{name}");
        assert_eq!(client.ask("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n").status, 405, "{name}");
        client.expect_kept("/");
    }
}

#[test]
fn forms_of_both_kinds() {
    for (name, server) in both() {
        let mut client = server.client();
        let seen = client
            .ask(post(
                "/order",
                "application/x-www-form-urlencoded",
                b"item=kettle&item=cup&note=%C3%A9+a%26b",
            ))
            .json();
        assert_eq!(seen["item"], serde_json::json!(["kettle", "cup"]), "{name}");
        assert_eq!(seen["note"], serde_json::json!(["\u{e9} a&b"]), "{name}");
        let body = "--B\r\nContent-Disposition: form-data; name=\"item\"\r\n\r\nteapot\r\n--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\ntwo\r\nlines\r\n--B--\r\n";
        let seen = client.ask(post("/order", "multipart/form-data; boundary=B", body.as_bytes())).json();
        assert_eq!(seen["item"], serde_json::json!(["teapot"]), "{name}");
        assert_eq!(seen["note"], serde_json::json!(["two\r\nlines"]), "{name}");
    }
}

#[test]
fn uploads_of_several_megabytes_arrive_byte_for_byte() {
    let bytes = noise(6 << 20);
    let digest = sha256("upload", &bytes);
    for (name, server) in both() {
        let mut client = patient(server);
        let seen = client.ask(post("/upload", "application/octet-stream", &bytes)).json();
        assert_eq!((&seen["size"], &seen["sha256"]), (&bytes.len().into(), &digest.clone().into()), "{name}");
        // Chunked, in pieces of all sizes.
        client.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        let (mut rest, mut size) = (bytes.as_slice(), 1);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(size.min(rest.len()));
            client.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            rest = more;
            size = (size * 3 + 1) % 200_003;
        }
        client.send("0\r\n\r\n");
        let seen = client.response("POST").json();
        assert_eq!(
            (&seen["size"], &seen["sha256"]),
            (&bytes.len().into(), &digest.clone().into()),
            "{name}, chunked"
        );
        client.expect_kept("/products");
    }
}

#[test]
fn multipart_uploads() {
    let bytes = noise(2 << 20);
    let digest = sha256("multipart", &bytes);
    for (name, server) in both() {
        let head = "--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--B\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n";
        let body = [head.as_bytes(), &bytes, b"\r\n--B--\r\n"].concat();
        let seen = patient(server).ask(post("/upload", "multipart/form-data; boundary=B", &body)).json();
        let photo = &seen["files"]["photo"];
        assert_eq!(
            (&photo["size"], &photo["sha256"], &photo["filename"]),
            (&bytes.len().into(), &digest.clone().into(), &"a.bin".into()),
            "{name}"
        );
        assert_eq!(seen["fields"]["note"], serde_json::json!(["hello"]), "{name}");
    }
}

#[test]
fn uploads_side_by_side_do_not_mix() {
    for (name, server) in both() {
        std::thread::scope(|scope| {
            for number in 0..6_usize {
                scope.spawn(move || {
                    let bytes = vec![b'a' + number as u8; 300_000 + number];
                    let digest = sha256(&format!("{name}-{number}"), &bytes);
                    let mut client = patient(server);
                    for _ in 0..3 {
                        let seen = client.ask(post("/upload", "application/octet-stream", &bytes)).json();
                        assert_eq!(
                            (&seen["size"], &seen["sha256"]),
                            (&bytes.len().into(), &digest.clone().into()),
                            "{name} {number}"
                        );
                    }
                });
            }
        });
    }
}

#[test]
fn streams_come_as_they_are_made() {
    for (name, server) in both() {
        let mut client = server.client();
        let response = client.ask(get("/stream?parts=1000"));
        let wanted: String = (0..1000).map(|number| format!("line {number}\n")).collect();
        assert!(response.text() == wanted, "{name}");
        // A server that holds lines back does so each time; a machine that is busy lets two come together now and then.
        let came_apart = (0..20).any(|_| {
            client.send(get("/stream?parts=4&pause=0.05"));
            let (status, _) = client.head("GET");
            assert_eq!(status, 200, "{name}");
            let mut arrivals = Vec::new();
            for number in 0..4 {
                client.read_through(format!("line {number}\n").as_bytes());
                arrivals.push(Instant::now());
            }
            client.read_through(b"0\r\n\r\n");
            arrivals.windows(2).all(|pair| pair[1] - pair[0] > Duration::from_millis(25))
        });
        assert!(came_apart, "{name}: two lines came together\n{client}");
        client.expect_kept("/products");
    }
}

#[test]
fn server_sent_events_come_one_by_one() {
    for (name, server) in both() {
        for version in ["1.1", "1.0"] {
            let came_apart = (0..20).any(|_| {
                let mut client = server.client();
                client.send(format!("GET /events?count=3&pause=0.06 HTTP/{version}\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n"));
                let (status, fields) = client.head("GET");
                assert_eq!(status, 200);
                assert!(
                    fields.iter().any(|(field, value)| field.eq_ignore_ascii_case("content-type")
                        && value.starts_with("text/event-stream")),
                    "{name}"
                );
                let mut arrivals = Vec::new();
                for number in 0..3 {
                    client.read_through(format!("data: tick {number}\n\n").as_bytes());
                    arrivals.push(Instant::now());
                }
                arrivals[2] - arrivals[0] > Duration::from_millis(80)
            });
            assert!(came_apart, "{name} {version}: held back");
        }
    }
}

#[test]
fn an_event_stream_whose_client_leaves_frees_its_worker() {
    for (name, server) in both() {
        let mut clients: Vec<Client> = (0..2).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send(get("/events?count=100000&pause=0.02"));
            client.read_through(b"tick 0");
        }
        // Both of Flask's workers are busy with them; then their clients go.
        clients.into_iter().for_each(Client::reset);
        let begun = Instant::now();
        assert_eq!(patient(server).ask(get("/products")).status, 200, "{name}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}: {:?}", begun.elapsed());
    }
}

#[test]
fn several_cookies_stay_several() {
    for (name, server) in both() {
        let response = server.ask("GET /cookies HTTP/1.1\r\nHost: a\r\nCookie: one=1; two=2\r\n\r\n");
        let set = response.all("set-cookie");
        assert_eq!(set.len(), 3, "{name}: {set:?}");
        for (cookie, start) in set.iter().zip(["basket=42", "theme=dark", "seen=yes"]) {
            assert!(cookie.starts_with(start), "{name}: in order: {set:?}");
        }
        let seen = response.json();
        assert_eq!((&seen["one"], &seen["two"]), (&"1".into(), &"2".into()), "{name}");
    }
}

#[test]
fn errors_on_demand() {
    for (name, server) in both() {
        let mark = server.mark();
        let mut client = server.client();
        let response = client.ask(get("/error"));
        assert_eq!(response.status, 500, "{name}");
        server.wait_for_log_after(mark, "an error on demand", Duration::from_secs(20));
        let mut client = server.client();
        client.send(get("/error-late"));
        match client.try_response("GET") {
            Err(Failure::Cut(_) | Failure::Reset(_)) => {}
            Ok(response) if response.status >= 500 => {}
            other => panic!("{name}: a response that is not whole must not look whole: {other:?}\n{client}"),
        }
        server.wait_for_log_after(mark, "an error on demand, late", Duration::from_secs(20));
        // To a 1.0 client, whose body ends with the connection, only a reset shows that it was cut.
        let mut client = server.client();
        client.send("GET /error-late HTTP/1.0\r\nHost: a\r\n\r\n");
        match client.try_response("GET") {
            Err(Failure::Reset(_)) => {}
            Ok(response) if response.status >= 500 => {}
            other => panic!("{name}: {other:?}\n{client}"),
        }
        assert_eq!(server.ask(get("/")).status, 200, "{name}");
    }
}

#[test]
fn large_responses_and_redirects() {
    for (name, server) in both() {
        let mut client = patient(server);
        let response = client.ask(get("/big?bytes=5000000"));
        assert_eq!(response.framing, Framing::Length(5_000_000), "{name}");
        assert!(response.body.chunks(16).all(|block| block == b"0123456789abcdef"), "{name}");
        let moved = client.ask(get("/moved"));
        assert_eq!(moved.status, 303, "{name}");
        assert!(
            moved.field("location").is_some_and(|to| to == "/" || to == "http://test.example/"),
            "{name}: {:?}",
            moved.fields
        );
        client.expect_kept("/");
    }
}

#[test]
fn an_early_response_without_the_body() {
    for (name, server) in both() {
        let mut client = server.client();
        client.send(
            "POST /early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n",
        );
        let response = client.response("POST");
        assert_eq!(response.status, 413, "{name}");
        assert!(response.says_close(), "{name}");
        client.expect_eof();
    }
}

#[test]
fn an_upload_that_is_expected_gets_its_100() {
    let bytes = noise(100_000);
    let digest = sha256("expected", &bytes);
    for (name, server) in both() {
        let mut client = patient(server);
        client.send(format!(
            "POST /upload HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            bytes.len()
        ));
        assert_eq!(client.response("POST").status, 100, "{name}");
        client.send(&bytes);
        assert_eq!(client.response("POST").json()["sha256"], digest.as_str(), "{name}");
        client.expect_kept("/");
    }
}

#[test]
fn the_environment_of_a_request() {
    let request = "GET /whoami?a=1 HTTP/1.1\r\nHost: shop.example:8443\r\nX-Thing: one\r\n\r\n";
    let seen = flask().ask(request).json();
    for (name, value) in [
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", ""),
        ("PATH_INFO", "/whoami"),
        ("QUERY_STRING", "a=1"),
        ("SERVER_NAME", "shop.example"),
        ("SERVER_PORT", "8443"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("wsgi.url_scheme", "http"),
    ] {
        assert_eq!(seen["environ"][name], value, "{name}");
    }
    assert_eq!(seen["headers"]["X-Thing"], "one");
    let seen = starlette().ask(request).json();
    let scope = &seen["scope"];
    assert_eq!(
        (&scope["http_version"], &scope["scheme"], &scope["path"]),
        (&"1.1".into(), &"http".into(), &"/whoami".into())
    );
    assert_eq!(scope["client"][0], "127.0.0.1");
    assert_eq!(seen["headers"]["x-thing"], "one");
    let seen = starlette().ask("GET /whoami HTTP/1.0\r\n\r\n").json();
    assert_eq!(seen["scope"]["http_version"], "1.0");
}

#[test]
fn both_workers_serve() {
    for (name, server) in both() {
        // Held at the same time, they must be two; ASGI takes many on one, so there it is enough that all are served.
        // One after the other would never take less than both times.
        let at_once = (0..10).any(|_| {
            let mut clients: Vec<Client> = (0..2).map(|_| patient(server)).collect();
            let begun = Instant::now();
            for client in &mut clients {
                client.send(get("/slow?seconds=0.3"));
            }
            for client in &mut clients {
                assert_eq!(client.response("GET").status, 200, "{name}");
            }
            begun.elapsed() < Duration::from_millis(580)
        });
        assert!(at_once, "{name}: one after the other");
    }
}

#[test]
fn many_requests_at_once_on_an_asynchronous_application() {
    let mut clients: Vec<Client> = (0..60).map(|_| patient(starlette())).collect();
    let begun = Instant::now();
    for client in &mut clients {
        client.send(get("/slow?seconds=0.4"));
    }
    for client in &mut clients {
        assert_eq!(client.response("GET").status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn the_lifespans_state_reaches_every_request() {
    let first = starlette().ask(get("/state")).json();
    assert!(first["started"].as_f64().is_some_and(|started| started > 1e9), "{first}");
    assert!(first["served"].as_u64() >= Some(1));
}

#[test]
fn websockets_of_starlette() {
    let mut client = starlette().client();
    websocket::open(&mut client, "/echo", "");
    client.send(websocket::frame(0x81, "gr\u{fc}\u{df}e".as_bytes()));
    assert_eq!(websocket::message(&mut client), (1, "gr\u{fc}\u{df}e".as_bytes().to_vec()));
    client.send(websocket::frame(0x82, &[0, 255, 1]));
    assert_eq!(websocket::message(&mut client), (2, vec![0, 255, 1]));
    client.send(websocket::frame(0x81, b"close"));
    let (first, payload) = websocket::read(&mut client);
    assert_eq!(
        (first, &payload[..]),
        (0x88, [&4000_u16.to_be_bytes()[..], b"as you wish"].concat().as_slice())
    );
    let mut client = starlette().client();
    client.send(websocket::opening("/refuse", ""));
    let response = client.response("GET");
    assert_eq!((response.status, response.text().as_str()), (401, "not you\n"));
}

#[test]
fn a_background_task_runs_after_the_response() {
    let server = starlette();
    assert_eq!(
        server.ask("GET /background HTTP/1.1\r\nHost: a\r\nX-Request-Id: background-1\r\n\r\n").text(),
        "later\n"
    );
    let file = server.folder().join("count");
    keepwarm_tests::process::wait_until("the task has run", Duration::from_secs(20), || {
        std::fs::read_to_string(&file).is_ok_and(|lines| !lines.trim().is_empty())
    });
}
