//! The back door: calls through a local door to an upstream, in plaintext.

use std::io::{BufReader, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use keepwarm_tests::origin::{After, Origin, ok, read_head};
use keepwarm_tests::{Client, Server, get_local as get};
use rustix::process::Signal;

/// A door to this origin; the configuration may go on in the section.
fn door(origin: &Origin, more: &str) -> Server {
    Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n{more}",
        origin.address()
    ))
}

#[test]
fn calls_of_many_clients_go_over_one_kept_connection() {
    let origin = Origin::fixed("hello");
    let server = door(&origin, "");
    let mut client = server.client();
    for _ in 0..3 {
        let response = client.ask(get("/a?b=c"));
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert!(!response.says_close());
    }
    for _ in 0..3 {
        assert_eq!(server.ask(get("/new")).status, 200);
    }
    assert_eq!(origin.connections(), 1);
    let first = origin.requests().remove(0);
    assert_eq!((first.method(), first.target()), ("GET", "/a?b=c"));
    assert_eq!(first.field("host"), Some(origin.address().to_string().as_str()), "the upstream's own name");
    for absent in ["x-forwarded-for", "forwarded", "via", "connection"] {
        assert_eq!(first.field(absent), None, "{absent}");
    }
}

#[test]
fn bodies_of_every_framing_pass_both_ways() {
    let origin = Origin::start(|request, stream| {
        match request.target() {
            "/chunked" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n3\r\nabc\r\n").unwrap();
                stream.write_all(b"4\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n").unwrap();
            }
            "/close" => {
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil the end").unwrap();
                return After::Close;
            }
            "/none" => stream.write_all(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n").unwrap(),
            _ => ok(stream, &request.body),
        }
        After::Keep
    });
    let server = door(&origin, "");
    let mut client = server.client();
    let posted = client.ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345");
    assert_eq!(posted.text(), "12345");
    let chunks = "4\r\nabcd\r\n2\r\nef\r\n0\r\nX-Sum: 6\r\n\r\n";
    let posted = client
        .ask(format!("PUT /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n{chunks}"));
    assert_eq!(posted.text(), "abcdef");
    let seen = origin.last();
    assert_eq!(seen.field("transfer-encoding"), Some("chunked"));
    assert_eq!(seen.trailers, ["x-sum: 6"]);

    let response =
        client.ask("GET /chunked HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    assert_eq!(response.text(), "abcdefg");
    assert_eq!(response.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    assert_eq!(origin.last().field("te"), Some("trailers"));
    let head = client.ask("HEAD /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.field("content-length"), head.body.len()), (200, Some("0"), 0));
    let unchanged = client.ask(get("/none"));
    assert_eq!(
        (unchanged.status, unchanged.field("content-length")),
        (304, Some("12")),
        "an upstream's is passed"
    );
    let response = client.ask(get("/close"));
    assert_eq!(response.text(), "until the end");
    assert!(!response.says_close(), "its connection is its own business");
    assert_eq!(client.ask(get("/again")).status, 200);
    assert_eq!(origin.connections(), 2);
}

/// RFC 9110 §6.6.2: a sender should announce them, and need not.
#[test]
fn unannounced_trailers_reach_clients_that_accept_them() {
    let origin = Origin::start(|_, stream| {
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n",
            )
            .unwrap();
        After::Keep
    });
    let server = door(&origin, "");
    let mut client = server.client();
    let taken = client.ask("GET / HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    assert_eq!(taken.text(), "abc");
    assert_eq!(taken.trailers, [("x-sum".to_owned(), "6".to_owned())]);
    let not = client.ask(get("/"));
    assert_eq!((not.text().as_str(), not.trailers.len()), ("abc", 0));
}

#[test]
fn informational_responses_are_passed_in_order() {
    let origin = Origin::start(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            .unwrap();
        stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n").unwrap();
        ok(stream, b"done");
        After::Keep
    });
    let server = door(&origin, "");
    let mut client = server.client();
    client.send(get("/"));
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (status, fields) = client.head("GET");
        seen.push((status, fields.iter().find(|(name, _)| name == "link").map(|(_, value)| value.clone())));
    }
    assert_eq!(client.read_exact(4), b"done");
    let link = |link: &str| Some(link.to_owned());
    assert_eq!(seen, [(102, None), (103, link("</a>")), (103, link("</b>")), (200, None)]);
    let old = server.ask("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!((old.status, old.text().as_str()), (200, "done"));
}

#[test]
fn an_upgrade_opens_a_tunnel() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some(head) = read_head(&mut reader) else { return };
        if !head.to_ascii_lowercase().contains("upgrade: echo") {
            return ok(&mut stream, b"not asked");
        }
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhi ")
            .unwrap();
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let server = door(&origin, "");
    let mut client = server.client();
    client
        .send("GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nfirst ");
    let (status, fields) = client.head("GET");
    assert_eq!(status, 101);
    assert!(fields.contains(&("Upgrade".to_owned(), "echo".to_owned())), "{fields:?}");
    client.send("second");
    client.half_close();
    assert_eq!(client.read_to_end().0, b"hi first second");
}

#[test]
fn a_switch_to_a_protocol_that_was_not_offered_opens_no_tunnel() {
    let origin = Origin::start(|request, stream| {
        let named = if request.target() == "/other" { "Upgrade: other\r\n" } else { "" };
        write!(stream, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n{named}\r\n").unwrap();
        After::Keep
    });
    let server = door(&origin, "breaker = \"off\"");
    for path in ["/other", "/nothing"] {
        let mut client = server.client();
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
        ));
        let response = client.response("GET");
        assert_eq!(response.status, 502, "{path}");
        assert!(
            response.text().contains("sent 101 without an upgrade that the request offered"),
            "{}",
            response.text()
        );
    }
}

#[test]
fn a_response_that_comes_early_reaches_a_client_that_still_sends() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        read_head(&mut reader).unwrap();
        stream
            .write_all(
                b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbig!",
            )
            .unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = reader.read(&mut [0; 1]);
    });
    let server = door(&origin, "");
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\nbegin");
    let response = client.response("POST");
    assert_eq!((response.status, response.text().as_str()), (413, "big!"));
    assert!(response.says_close());
}

#[test]
fn large_bodies_pass_both_ways_with_back_pressure() {
    const SIZE: usize = 64 << 20;
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::with_capacity(1 << 16, stream.try_clone().unwrap());
        while let Some(head) = read_head(&mut reader) {
            if head.starts_with("POST") {
                let mut left = SIZE;
                let mut block = vec![0; 1 << 16];
                while left > 0 {
                    left -= match reader.read(&mut block) {
                        Ok(got @ 1..) => got,
                        _ => return,
                    };
                }
                ok(&mut stream, b"all");
                continue;
            }
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
            let block = vec![b'x'; 1 << 16];
            for _ in 0..SIZE >> 16 {
                if stream.write_all(&block).is_err() {
                    return;
                }
            }
        }
    });
    let server = door(&origin, "");
    let mut client = server.client().patient(Duration::from_secs(60));
    client.send(get("/"));
    let (status, _) = client.head("GET");
    assert_eq!(status, 200);
    // It does not read: the bytes held in between are limited.
    let before = memory(server.pid());
    std::thread::sleep(Duration::from_millis(300));
    let grown = memory(server.pid()).saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more for a response that nobody takes");
    assert_eq!(client.read_exact(SIZE).len(), SIZE);
    let mut posting = server.client().patient(Duration::from_secs(60));
    posting.send(format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {SIZE}\r\n\r\n"));
    let block = vec![b'y'; 1 << 20];
    for _ in 0..SIZE >> 20 {
        posting.send(&block);
    }
    assert_eq!(posting.response("POST").text(), "all");
}

/// Bytes of memory that are its own.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_door_responds_to_expectations_at_once_and_forwards_without() {
    let origin = Origin::start(|request, stream| {
        ok(stream, &request.body);
        After::Keep
    });
    let server = door(&origin, "");
    for length in [5, 100_000] {
        let mut client = server.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        ));
        assert_eq!(client.head("POST").0, 100);
        client.send(vec![b'z'; length]);
        assert_eq!(client.response("POST").body.len(), length);
        assert_eq!(origin.last().field("expect"), None);
    }
    let server = door(&origin, "expect = \"forward\"\n");
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.head("POST").0, 100);
    client.send("abc");
    assert_eq!(client.response("POST").text(), "abc");
    assert_eq!(origin.last().field("expect"), Some("100-continue"));
}

#[test]
fn workers_get_the_address_of_the_door_and_may_call_it_during_boot() {
    let origin = Origin::fixed("from the service");
    let server = Server::spawn(
        &format!(
            "[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.2:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
             [[listen.main.route]]\napp = \"app\"\n[app.app]\nentry = \"caller:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n",
            origin.address()
        ),
        |command| {
            let folder = command.get_current_dir().expect("a folder").to_owned();
            let caller = "import os, urllib.request\n\
                 door = os.environ['KEEPWARM_UPSTREAM_SEARCH']\n\
                 boot = urllib.request.urlopen(door + '/boot', timeout=10).read()\n\
                 def application(environ, start_response):\n    \
                     body = urllib.request.urlopen(door + '/call', timeout=10).read()\n    \
                     start_response('200 OK', [('Content-Type', 'text/plain')])\n    \
                     return [boot + b', ' + body]\n";
            std::fs::write(folder.join("caller.py"), caller).expect("written");
        },
    );
    let line = server.wait_for_log("listening on http://127.0.0.1:", Duration::from_secs(30));
    let address = line.rsplit("http://").next().unwrap().trim().parse().unwrap();
    let response = Client::connect(address).ask(get("/"));
    assert_eq!(response.text(), "from the service, from the service");
    assert_eq!(origin.connections(), 1, "one connection for boot and call");
}

#[test]
fn a_route_leads_to_an_upstream_with_the_clients_host() {
    let origin = Origin::start(|request, stream| {
        match request.target() {
            "/search/away" => {
                let location =
                    "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(location.as_bytes()).unwrap();
            }
            _ => ok(stream, b"found"),
        }
        After::Keep
    });
    let server = Server::start(&format!(
        "[upstream.search]\nurl = \"http://{}\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\npath = \"/search/*\"\nupstream = \"search\"\n\
         [[listen.main.route]]\nrespond = {{ status = 404 }}\n",
        origin.address()
    ));
    let response =
        server.ask("GET /search/x/../y?q HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n");
    assert_eq!(response.text(), "found");
    let seen = origin.last();
    assert_eq!((seen.target(), seen.field("host")), ("/search/y?q", Some("shop.example")));
    assert_eq!(seen.field("x-forwarded-for"), Some("127.0.0.1"), "a stranger is not believed");
    assert_eq!(server.ask(get("/other")).status, 404);
    let away = server.ask(get("/search/away"));
    assert_eq!(away.field("location"), Some("http://elsewhere/"));
}

/// An upstream may make variables of names (`spec/http.md` §4), and learns that the request was passed on (RFC 9110 §7.6.3).
#[test]
fn a_route_forwards_safe_names_and_its_own_host_unless_configured() {
    let origin = Origin::fixed("found");
    let server = Server::start(&format!(
        "[upstream.search]\nurl = \"http://{}\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\npath = \"/as-it-is/*\"\nupstream = \"search\"\nany_header_names = true\nvia = false\n\
         [[listen.main.route]]\nupstream = \"search\"\n",
        origin.address()
    ));
    let ask = |path: &str, version: &str| {
        let head = format!(
            "GET {path} HTTP/{version}\r\nHost: a\r\nX_User: 1\r\nProxy: evil\r\nVia: 1.1 other\r\n\r\n"
        );
        assert_eq!(server.ask(head).text(), "found");
        let seen = origin.last();
        assert_eq!(seen.field("proxy"), None);
        let head = seen.head.to_ascii_lowercase();
        let via: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("via: ")).collect();
        (seen.field("x_user").map(str::to_owned), via.join(", "))
    };
    assert_eq!(ask("/", "1.1"), (None, "1.1 other, 1.1 keepwarm".to_owned()));
    assert_eq!(ask("/", "1.0"), (None, "1.1 other, 1.0 keepwarm".to_owned()));
    assert_eq!(ask("/as-it-is/", "1.1"), (Some("1".to_owned()), "1.1 other".to_owned()));
}

#[test]
fn a_redirect_to_the_upstream_itself_leads_back_to_the_door() {
    let origin = Origin::start(|request, stream| {
        let host = request.field("host").unwrap();
        let to = match request.target() {
            "/own" => format!("http://{host}/next?a=b"),
            "/root" => format!("http://{host}"),
            "/relative" => "next".to_owned(),
            _ => "http://other.example/next".to_owned(),
        };
        write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").unwrap();
        After::Keep
    });
    let server = door(&origin, "");
    let own = server.address().to_string();
    for (path, to) in [
        ("/own", format!("http://{own}/next?a=b")),
        ("/root", format!("http://{own}/")),
        ("/relative", "next".to_owned()),
        ("/other", "http://other.example/next".to_owned()),
    ] {
        let response = server.ask(format!("GET {path} HTTP/1.1\r\nHost: {own}\r\n\r\n"));
        assert_eq!(response.field("location"), Some(to.as_str()), "{path}");
    }
}

/// An upstream called by another name than its address redirects to that name.
#[test]
fn a_redirect_to_the_host_that_was_sent_leads_back_to_the_door() {
    let origin = Origin::start(|request, stream| {
        let location = format!("http://{}{}", request.field("host").unwrap(), request.target());
        write!(stream, "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").unwrap();
        After::Keep
    });
    for host in ["search.example", "search.example:8080"] {
        let server = door(&origin, &format!("host = \"{host}\""));
        let response = server.ask(get("/there?q"));
        assert_eq!(origin.last().field("host"), Some(host));
        assert_eq!(response.field("location"), Some("http://localhost/there?q"), "{host}");
    }
}

/// The default is to stream, a small body as any other: the upstream may have its say before the end of it.
#[test]
fn a_small_body_that_does_not_come_holds_up_no_response() {
    let origin = Origin::raw(|_, mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some(_) = read_head(&mut reader) else { return };
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            .unwrap();
        let _ = reader.read_to_end(&mut Vec::new());
    });
    let server = door(&origin, "");
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
    let response = client.response("POST");
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
}

/// Its callers are workers, whose names are intended (`spec/http.md` §4).
#[test]
fn a_door_passes_every_name() {
    let origin = Origin::fixed("found");
    let server = door(&origin, "");
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nX_User: 1\r\nX.User: 2\r\nProxy: 3\r\n\r\n";
    assert_eq!(server.ask(head).text(), "found");
    let seen = origin.last();
    for (name, value) in [("x_user", "1"), ("x.user", "2"), ("proxy", "3")] {
        assert_eq!(seen.field(name), Some(value), "{name}");
    }
}

#[test]
fn a_door_is_not_for_pages_of_other_sites() {
    let origin = Origin::fixed("secret");
    let server = door(&origin, "");
    for (fields, reason) in [
        ("Host: rebound.example\r\n", "foreign_host"),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", "foreign_origin"),
        ("Host: localhost\r\nOrigin: null\r\n", "foreign_origin"),
        // An image or a script of a page is requested without `Origin`.
        ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", "foreign_origin"),
        ("Host: localhost\r\nSec-Fetch-Site: same-site\r\n", "foreign_origin"),
    ] {
        let response = server.ask(format!("GET / HTTP/1.1\r\n{fields}Accept: application/json\r\n\r\n"));
        assert_eq!(response.status, 403, "{fields}");
        assert_eq!(response.json()["reason"], reason);
    }
    assert_eq!(origin.connections(), 0);
    for site in ["same-origin", "none"] {
        let response =
            server.ask(format!("GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: {site}\r\n\r\n"));
        assert_eq!(response.status, 200, "{site}");
    }
    assert_eq!(server.ask("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").status, 405);
}

#[test]
fn a_door_may_be_a_unix_socket() {
    let origin = Origin::fixed("hello");
    let server = Server::spawn(
        &format!(
            "[upstream.search]\nurl = \"http://{}\"\nbind = \"unix:@DIR@/search.sock\"\n",
            origin.address()
        ),
        |_| {},
    );
    server.wait_for_log("upstream search on", Duration::from_secs(30));
    let mut stream = std::os::unix::net::UnixStream::connect(server.folder().join("search.sock")).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\nHost: search\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("hello"), "{response}");
}

#[test]
fn an_idle_connection_to_a_door_does_not_hold_up_a_stop() {
    let origin = Origin::fixed("hello");
    let server = door(&origin, "");
    let mut client = server.client();
    assert_eq!(client.ask(get("/")).status, 200);
    let begun = Instant::now();
    server.signal(Signal::TERM);
    client.patient(Duration::from_secs(60)).expect_eof();
    assert!(server.wait_for_exit(Duration::from_secs(60)).success());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}
