//! Responses held for slow clients (`spec/http.md` §7) when the disk is full, at the limit of the process, and how a response ends after it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use keepwarm_tests::{ASGI, Client, Failure, Response, Server, WSGI, admin, get, keepwarm, process, tools};

const LARGE: usize = 24 << 20;
const ADMIN: &str = "[admin]\nbind = \"127.0.0.1:0\"\n";
const LONG: Duration = Duration::from_secs(30);
const CUT: &str = "response cut: the part that its client had not read is lost";

fn request(server: &Server, request: impl AsRef<[u8]>) -> Client {
    let mut client = server.client().patient(LONG);
    rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 65_536).expect("SO_RCVBUF");
    client.send(request);
    client
}

/// A client that requests a large response and does not read it.
fn slow_reader(server: &Server) -> Client {
    request(server, get(&format!("/big?bytes={LARGE}")))
}

fn upload(server: &Server, length: usize) -> Response {
    let mut client = server.client().patient(LONG);
    client.send(format!(
        "POST /digest HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\nContent-Length: {length}\r\n\r\n"
    ));
    // A refusal comes while this is sent.
    let _ = client.try_send(&vec![b'x'; length]);
    client.response("POST")
}

/// Keepwarm with a temporary directory of 2 MiB, which its namespace removes when it ends.
fn on_a_small_disk(folder: &Path) -> PathBuf {
    let disk = folder.join("disk");
    std::fs::create_dir(&disk).expect("a folder to mount on");
    let (disk, binary) = (disk.display(), keepwarm().display());
    let mount = format!("mount -t tmpfs -o size=2m tmpfs {disk} && TMPDIR={disk} exec {binary} \"$@\"");
    let file = folder.join("start");
    tools::script(&file, &format!("#!/bin/sh\nexec unshare --mount sh -c '{mount}' start \"$@\"\n"));
    file
}

#[test]
fn a_full_disk_fails_spooled_bodies_only() {
    let config = WSGI.replace("workers = 1", "workers = 4");
    let server = Server::start_as(&format!("{config}{ADMIN}"), on_a_small_disk).warm("/pong");
    let mut readers: Vec<Client> = (0..4).map(|_| slow_reader(&server)).collect();
    process::wait_until("every response is cut", LONG, || server.log().matches(CUT).count() == 4);
    for reader in &mut readers {
        // Never a part that looks like the whole.
        let read = reader.try_response("GET");
        assert!(
            matches!(read, Err(Failure::Cut(_) | Failure::Reset(_))),
            "{:?}",
            read.map(|all| all.body.len())
        );
    }
    assert_eq!(upload(&server, 1 << 20).status, 200, "what was cut is off the disk");
    let refused = upload(&server, 8 << 20);
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (500, Some("spill_failed")));
    let refusals = r#"keepwarm_refusals_total{app="app",reason="spill_failed"}"#;
    assert_eq!(admin::wait_for_metric(&server, refusals, 1.0), 1.0);
    let cut = r#"keepwarm_incomplete_responses_total{app="app",reason="spill_failed"}"#;
    assert_eq!(admin::wait_for_metric(&server, cut, 4.0), 4.0);
    let mut verdict = String::new();
    process::wait_until("`keepwarm why` names the disk", LONG, || {
        let (status, why) = server.why();
        verdict = why.to_string();
        verdict.contains("spill_disk") && status == Some(1)
    });
    assert!(verdict.contains("spill files failed in") && verdict.contains("MiB left"), "{verdict}");
    assert_eq!(server.ask(get("/list")).text(), "pong");
}

/// Keepwarm that may write files of 1 MiB at most: the kernel sends SIGXFSZ, whose default is to end the process.
fn with_small_files(folder: &Path) -> PathBuf {
    let file = folder.join("start");
    tools::script(&file, &format!("#!/bin/sh\nulimit -f 2048\nexec {} \"$@\"\n", keepwarm().display()));
    file
}

#[test]
fn a_file_size_limit_fails_larger_bodies_only() {
    let server = Server::start_as(WSGI, with_small_files).warm("/pong");
    let mut reader = slow_reader(&server);
    server.wait_for_log(CUT, LONG);
    assert!(matches!(reader.try_response("GET"), Err(Failure::Cut(_) | Failure::Reset(_))));
    let refused = upload(&server, 8 << 20);
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (500, Some("spill_failed")));
    assert_eq!(server.ask(get("/list")).text(), "pong");
}

#[test]
fn at_the_limit_responses_wait_for_their_clients_and_large_bodies_are_refused() {
    let config = WSGI.replace("workers = 1", "workers = 5");
    let server = Server::start(&format!("{config}[server.limits]\nspill = \"4MiB\"\n{ADMIN}")).warm("/pong");
    let mut readers: Vec<Client> = (0..4).map(|_| slow_reader(&server)).collect();
    server.wait_for_log("spill limit reached", LONG);
    admin::wait_for_metric(&server, "keepwarm_spill_full_total", 1.0);
    let held = || {
        let all = admin::metrics(&server);
        all[r#"keepwarm_spill_bytes{kind="memory"}"#] + all[r#"keepwarm_spill_bytes{kind="disk"}"#]
    };
    // Each may be on its way over the limit by what one read of it brings.
    assert!(held() < 5e6, "{}", held());
    assert_eq!(upload(&server, 100_000).status, 200, "slow readers leave room");
    let refused = upload(&server, 8 << 20);
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (503, Some("spill_full")));
    for reader in &mut readers {
        let body = reader.response("GET").body;
        assert!(body.len() == LARGE && body.chunks(16).all(|block| block == b"0123456789abcdef"));
    }
    process::wait_until("nothing is held", LONG, || held() == 0.0);
    assert_eq!(upload(&server, 3 << 20).status, 200);
}

#[test]
fn a_response_that_is_kept_ends_with_its_trailers() {
    let server = Server::start(&ASGI.replace("app = \"app\"", "app = \"app\"\nbuffer_response = true"));
    let ask =
        format!("GET /trailers?bytes={LARGE} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    let mut reader = request(&server, ask);
    // The app has ended long before: its response lies in the spool.
    server.wait_for_log("trailers are sent", LONG);
    let response = reader.response("GET");
    assert_eq!((response.body.len(), response.trailers), (LARGE, vec![("x-sum".to_owned(), "7".to_owned())]));
}
