//! `spec/http.md` §7: slow clients never hold a blocking worker.

use std::time::{Duration, Instant};

use keepwarm_tests::{Client, Server, WSGI, get};

const LARGE: usize = 24 << 20;

fn server() -> Server {
    Server::start(&WSGI.replace("workers = 1", "workers = 4")).warm("/pong")
}

/// The median and the worst of 21 quick requests, each on a connection of its own.
fn quick(server: &Server) -> (Duration, Duration) {
    let mut took: Vec<Duration> = (0..21)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(server.ask(get("/list")).text(), "pong");
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    (took[10], took[20])
}

/// A client that requests a large response and does not read it.
fn slow_reader(server: &Server) -> Client {
    let mut client = server.client().patient(Duration::from_secs(20));
    rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 65_536).expect("SO_RCVBUF");
    client.send(get(&format!("/big?bytes={LARGE}")));
    client
}

/// A client that has sent a head and a part of its body.
fn slow_upload(server: &Server, sent: usize) -> Client {
    let mut client = server.client().patient(Duration::from_secs(10));
    client.send(format!("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent + 10));
    client.send(vec![b'x'; sent]);
    client
}

#[test]
fn four_slow_uploads_and_four_slow_readers_on_four_workers() {
    let server = server();
    let (alone, _) = quick(&server);
    // Small and large parts of a body: in memory and in the spill file.
    let mut uploads: Vec<Client> =
        [0, 10, 70_000, 3 << 20].into_iter().map(|sent| slow_upload(&server, sent)).collect();
    let mut readers: Vec<Client> = (0..4).map(|_| slow_reader(&server)).collect();
    for reader in &mut readers {
        assert_eq!(reader.head("GET").0, 200);
    }
    let (beside, worst) = quick(&server);
    assert!(worst < Duration::from_secs(10), "a fifth client waited {worst:?}");
    // Other load on the machine can only add to it.
    let as_if_alone = |beside: Duration| beside < alone * 4 + Duration::from_millis(20);
    assert!(
        as_if_alone(beside) || (0..10).any(|_| as_if_alone(quick(&server).0)),
        "median {beside:?} beside them, {alone:?} alone"
    );
    for (upload, sent) in uploads.iter_mut().zip([0, 10, 70_000, 3 << 20]) {
        upload.send(b"0123456789");
        let response = upload.response("POST");
        assert_eq!(response.json()["length"], sent + 10, "{upload}");
    }
    for reader in &mut readers {
        let body = reader.read_exact(LARGE);
        assert!(body.chunks(16).all(|block| block == b"0123456789abcdef"));
        reader.expect_kept("/list");
    }
}

/// The last bytes that fit are followed by framing alone, which needs no room: a reader that leaves it no room spins, and holds its thread for ever.
#[test]
fn a_chunked_body_that_just_fits_in_memory_is_read_to_its_end() {
    let server = Server::start(&format!("{}\n[server]\nthreads = 1\n", WSGI)).warm("/pong");
    let mut client = server.client();
    for size in [65_534, 65_535, 65_536, 65_537] {
        for trailers in ["", "Digest: of-no-use\r\n"] {
            let body = "x".repeat(size);
            client.send("POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(format!("{size:x}\r\n{body}\r\n0\r\n{trailers}\r\n"));
            assert_eq!(client.response("POST").json()["length"], size, "with trailers {trailers:?}");
        }
    }
}

#[test]
fn slow_heads_hold_nothing() {
    let server = server();
    let _slow: Vec<Client> = (0..50)
        .map(|_| {
            let mut client = server.client();
            client.send("GET /list HTTP/1.1\r\nHost: a\r\nX-Slow: ");
            client
        })
        .collect();
    let (_, worst) = quick(&server);
    assert!(worst < Duration::from_secs(10), "{worst:?}");
}

#[test]
fn forty_slow_uploads_hold_nothing() {
    let server = server();
    let mut slow: Vec<Client> = (0..40).map(|_| slow_upload(&server, 100)).collect();
    let (_, worst) = quick(&server);
    assert!(worst < Duration::from_secs(10), "{worst:?}");
    for client in &mut slow {
        client.send(b"0123456789");
        assert_eq!(client.response("POST").json()["length"], 110);
    }
}

#[test]
fn a_reader_that_leaves_frees_its_buffers() {
    let server = server();
    for _ in 0..8 {
        let mut reader = slow_reader(&server);
        reader.head("GET");
        reader.reset();
    }
    let (_, worst) = quick(&server);
    assert!(worst < Duration::from_secs(10), "{worst:?}");
    // No spilled response stays behind as an open file.
    keepwarm_tests::process::wait_until("spill files are closed", Duration::from_secs(20), || {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("descriptors");
        let deleted = entries.flatten().filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().contains("(deleted)"))
        });
        deleted.count() == 0
    });
}

#[test]
fn an_upload_that_breaks_off_never_reaches_the_app() {
    let server = server();
    for _ in 0..8 {
        slow_upload(&server, 70_000).reset();
    }
    let (_, worst) = quick(&server);
    assert!(worst < Duration::from_secs(10), "{worst:?}");
}

#[test]
fn a_large_body_that_waited_in_the_queue_is_sent_as_soon_as_a_worker_is_free() {
    // It once stayed in the queue until its queue timeout: nothing woke the task that had to send the bytes beyond the first frame.
    let server = Server::start(WSGI).warm("/pong");
    for length in [1_000, 60_000, 70_000, 300_000, 3 << 20] {
        let mut busy = server.client();
        busy.send(get("/sleep?ms=150"));
        let mut upload = server.client();
        upload.send(format!("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        upload.send(vec![b'x'; length]);
        let begun = Instant::now();
        assert_eq!(upload.response("POST").json()["length"], length, "{upload}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{length}: {:?}", begun.elapsed());
        assert_eq!(busy.response("GET").text(), "pong");
    }
}
