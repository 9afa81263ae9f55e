//! Real peers as clients: the tools of the articles, and the proxies that stand in front.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use keepwarm_tests::daemon::Daemon;
use keepwarm_tests::{ASGI, Client, Server, WSGI, get, tools};

const FIXED: &str = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\nrespond = { status = 200, body = \"pong\" }\n";
const BOUND: Duration = Duration::from_secs(20);

fn servers() -> &'static [(&'static str, Server); 3] {
    static SERVERS: OnceLock<[(&str, Server); 3]> = OnceLock::new();
    SERVERS.get_or_init(|| {
        [
            ("fixed", Server::start(FIXED)),
            ("wsgi", Server::start(WSGI).warm("/pong")),
            ("asgi", Server::start(ASGI).warm("/pong")),
        ]
    })
}

/// The number behind `label` in what a tool printed.
#[track_caller]
fn number(text: &str, label: &str) -> f64 {
    let line =
        text.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("no {label:?} in\n{text}"));
    let rest = &line[line.find(label).expect("found") + label.len()..];
    let digits: String = rest
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    digits.parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn ab_without_keep_alive_never_waits() {
    // Incident 1: 0.18 requests a second.
    for (kind, server) in servers() {
        for path in ["/list", "/short", "/pong"] {
            let url = server.url(path);
            let printed = tools::run_ok(
                Command::new("ab").args(["-q", "-n", "300", "-c", "10", "-s", "5", &url]),
                BOUND,
            );
            assert_eq!(number(&printed, "Complete requests:"), 300.0, "{kind}{path}\n{printed}");
            assert_eq!(number(&printed, "Failed requests:"), 0.0, "{kind}{path}\n{printed}");
            assert!(!printed.contains("Non-2xx"), "{kind}{path}\n{printed}");
            assert!(number(&printed, "100% ") < 2000.0, "{kind}{path}: the longest request\n{printed}");
        }
    }
}

#[test]
fn ab_with_keep_alive_keeps_every_connection() {
    for (kind, server) in servers() {
        let url = server.url("/list");
        let printed = tools::run_ok(
            Command::new("ab").args(["-q", "-k", "-n", "300", "-c", "4", "-s", "5", &url]),
            BOUND,
        );
        assert_eq!(number(&printed, "Complete requests:"), 300.0, "{kind}\n{printed}");
        assert_eq!(number(&printed, "Keep-Alive requests:"), 300.0, "{kind}\n{printed}");
        assert_eq!(number(&printed, "Failed requests:"), 0.0, "{kind}\n{printed}");
    }
}

fn curl(args: &[&str], url: &str) -> (String, Duration) {
    let begun = Instant::now();
    let mut command = Command::new("curl");
    command
        .args(["-sS", "--noproxy", "*", "-m", "10", "-w", "\n%{http_code} %{num_connects}"])
        .args(args)
        .arg(url);
    (tools::run_ok(&mut command, BOUND), begun.elapsed())
}

#[test]
fn curl_with_http_1_0() {
    for (kind, server) in servers() {
        for path in ["/pong", "/short", "/silent", "/list"] {
            let (printed, took) = curl(&["--http1.0"], &server.url(path));
            assert!(printed.ends_with("200 1"), "{kind}{path}: {printed}");
            assert!(took < Duration::from_secs(8), "{kind}{path}: {took:?}");
        }
    }
}

#[test]
fn curl_with_a_forced_expectation_does_not_wait_its_second() {
    // Incident 2: exactly one second more.
    let folder = std::env::temp_dir().join(format!("keepwarm-expect-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("body");
    for size in [2_000, 3_000_000] {
        std::fs::write(&file, vec![b'a'; size]).expect("a body");
        for (kind, server) in &servers()[1..] {
            for (path, wanted) in [("/digest", "200 1"), ("/unread", "403 1")] {
                let data = format!("@{}", file.display());
                let (printed, took) = curl(
                    &["--expect100-timeout", "30", "-H", "Expect: 100-continue", "--data-binary", &data],
                    &server.url(path),
                );
                assert!(printed.ends_with(wanted), "{kind}{path} {size}: {printed}");
                assert!(took < Duration::from_secs(20), "{kind}{path} {size}: {took:?}");
            }
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn curl_reuses_its_connection() {
    for (kind, server) in servers() {
        let url = server.url("/list");
        let mut command = Command::new("curl");
        command.args([
            "-sS",
            "--noproxy",
            "*",
            "-m",
            "10",
            "-o",
            "/dev/null",
            "-o",
            "/dev/null",
            "-o",
            "/dev/null",
            "-w",
            "%{num_connects} ",
            &url,
            &url,
            &url,
        ]);
        assert_eq!(tools::run_ok(&mut command, BOUND), "1 0 0 ", "{kind}");
    }
}

#[test]
fn wrk_sees_no_errors() {
    for (kind, server) in servers() {
        let printed = tools::run_ok(
            Command::new("wrk").args(["-t1", "-c16", "-d1s", "--latency", &server.url("/list")]),
            BOUND,
        );
        assert!(!printed.contains("Socket errors") && !printed.contains("Non-2xx"), "{kind}\n{printed}");
        assert!(number(&printed, "Requests/sec:") > 200.0, "{kind}\n{printed}");
    }
}

#[test]
fn nginx_as_a_client() {
    for (kind, server) in servers() {
        let (old, kept) = (tools::free_port(), tools::free_port());
        let upstream = server.address();
        let config = format!(
            "daemon off; worker_processes 1; user root; pid @DIR@/pid; error_log stderr warn;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; client_body_temp_path @DIR@/body; proxy_temp_path @DIR@/proxy; fastcgi_temp_path @DIR@/f; uwsgi_temp_path @DIR@/u; scgi_temp_path @DIR@/s;\n\
             upstream app {{ server {upstream}; keepalive 4; }}\n\
             server {{ listen 127.0.0.1:{old}; location / {{ proxy_pass http://{upstream}; proxy_http_version 1.0; proxy_read_timeout 5s; }} }}\n\
             server {{ listen 127.0.0.1:{kept}; location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_read_timeout 5s; }} }} }}\n"
        );
        let daemon = Daemon::start("nginx", &config, &["-p", "@DIR@", "-c", "@CONF@", "-e", "stderr"]);
        for port in [old, kept] {
            daemon.wait_for_port(port);
            for path in ["/pong", "/list", "/short", "/silent", "/204", "/304"] {
                let begun = Instant::now();
                for _ in 0..5 {
                    let mut client = Client::connect(([127, 0, 0, 1], port).into());
                    let response = client.ask(get(path));
                    let wanted = if *kind == "fixed" {
                        200
                    } else {
                        path.trim_start_matches('/').parse().unwrap_or(200)
                    };
                    assert_eq!(response.status, wanted, "{kind}{path} by {port}");
                }
                assert!(begun.elapsed() < Duration::from_secs(8), "{kind}{path}: {:?}", begun.elapsed());
            }
            if *kind != "fixed" {
                let mut client = Client::connect(([127, 0, 0, 1], port).into());
                let body = "x".repeat(300_000);
                let response = client.ask(format!(
                    "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                ));
                assert_eq!(response.json()["length"], body.len(), "{kind}");
            }
        }
    }
}

#[test]
fn haproxys_check_marks_it_up() {
    // Incident 5: the check read only the first segment, and process_mark healthy servers down.
    for (kind, server) in servers() {
        let port = tools::free_port();
        let config = format!(
            "global\n  stats socket @DIR@/stats level admin\ndefaults\n  mode http\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n  timeout check 5s\n\
             listen front\n  bind 127.0.0.1:{port}\n  option httpchk\n  http-check send meth OPTIONS uri /pong ver HTTP/1.0\n  http-check expect string pong\n\
             \x20 server app {} check inter 100ms rise 2 fall 1\n",
            server.address()
        );
        let daemon = Daemon::start("haproxy", &config, &["-db", "-f", "@CONF@"]);
        daemon.wait_for_port(port);
        let socket = daemon.directory().join("stats");
        let show = || {
            let mut text = String::new();
            if let Ok(mut stats) = UnixStream::connect(&socket) {
                let _ = stats.write_all(b"show stat\n");
                let _ = stats.read_to_string(&mut text);
            }
            text.lines().find(|line| line.starts_with("front,app,")).unwrap_or("").to_owned()
        };
        keepwarm_tests::process::wait_until("the check passes", BOUND, || {
            show().contains("L7OK") && show().contains(",UP,")
        });
        // And it stays so through further checks.
        for _ in 0..15 {
            std::thread::sleep(Duration::from_millis(100));
            let line = show();
            assert!(line.contains("L7OK") && line.contains(",UP,"), "{kind}: {line}");
        }
        for _ in 0..5 {
            let mut client = Client::connect(([127, 0, 0, 1], port).into());
            assert_eq!(client.ask(get("/pong")).text(), "pong", "{kind}");
        }
    }
}

#[test]
fn haproxys_proxy_header_names_the_client() {
    let server = Server::start(
        "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[listen.main]\nbind = \"127.0.0.1:0\"\nproxy_protocol = true\n\
         [[listen.main.route]]\npath = \"/inside\"\nallow = [\"127.0.0.3\"]\nrespond = { status = 200, body = \"inside\" }\n\
         [[listen.main.route]]\nrespond = { status = 200, body = \"pong\" }\n",
    );
    for option in ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id,authority"]
    {
        let port = tools::free_port();
        let config = format!(
            "defaults\n  mode tcp\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n  timeout check 5s\n\
             listen front\n  bind 127.0.0.1:{port}\n  server app {} {option} check check-send-proxy inter 100ms\n",
            server.address()
        );
        let daemon = Daemon::start("haproxy", &config, &["-db", "-f", "@CONF@"]);
        daemon.wait_for_port(port);
        for (from, status) in [("127.0.0.3", "200"), ("127.0.0.4", "403")] {
            let url = format!("http://127.0.0.1:{port}/inside");
            let mut command = Command::new("curl");
            command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "--interface", from, &url]);
            assert_eq!(tools::run_ok(&mut command, BOUND), status, "{option} {from}");
        }
    }
    assert!(!server.log().contains("PROXY"), "{}", server.log());
}

#[test]
fn haproxys_plain_check_without_a_host() {
    let server = &servers()[1].1;
    let mut client = server.client();
    client.send("OPTIONS /pong HTTP/1.0\r\n\r\n");
    assert_eq!(client.response("OPTIONS").text(), "pong");
    client.expect_eof();
}

#[test]
fn pythons_http_client_keeps_its_connection() {
    const SCRIPT: &str = r#"
import http.client, sys
peer = http.client.HTTPConnection(sys.argv[1], timeout=5)
socks = set()
for n in range(5):
    for path in ("/list", "/short", "/pong"):
        peer.request("POST", path, body=(b"x" * 10 for _ in range(3)), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        response = peer.getresponse()
        assert response.read() == b"pong", path
        socks.add(peer.sock.getsockname() if peer.sock else None)
assert len(socks) == 1 and None not in socks, socks
"#;
    // A fixed response does not wait to see how long a chunked body is.
    for (kind, server) in &servers()[1..] {
        let mut command = Command::new(keepwarm_tests::python());
        command.args(["-c", SCRIPT, &server.address().to_string()]);
        let output = tools::run(&mut command, BOUND);
        assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
