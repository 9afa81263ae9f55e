//! Connections that are made before a call needs them.

use std::io::{Read, Write};
use std::sync::{Mutex, mpsc};

use keepwarm_tests::Server;
use keepwarm_tests::origin::Origin;

fn config(origin: &Origin, pool: &str) -> String {
    format!(
        "[server]\nthreads = 2\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\npool = {pool}\n",
        origin.address()
    )
}

#[test]
fn min_idle_are_there_before_the_first_call_and_follow_a_reload() {
    let origin = Origin::fixed("hello");
    let server = Server::start(&config(&origin, "{ min_idle = 2, max = 6 }"));
    origin.wait_until("two connections", |origin| origin.open() == 2);
    assert!(origin.requests().is_empty());
    for _ in 0..5 {
        let response = server.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    }
    // One in use leaves one idle, beside which a third is made; no call had to make any.
    assert!(origin.connections() <= 3, "{}", origin.connections());
    server.reload_with(&config(&origin, "{ min_idle = 5, max = 6 }"));
    origin.wait_until("five connections", |origin| origin.open() == 5);
}

/// One for each thread, opened again when it is lost, even without calls.
#[test]
fn min_idle_over_http_2_is_there_again_after_it_was_lost() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::raw(move |connection, mut stream| {
        stream.read_exact(&mut [0; 24]).unwrap();
        // SETTINGS, as a server begins.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        match connection {
            0 | 1 => wait.lock().unwrap().recv().unwrap(),
            _ => while stream.read(&mut [0; 1024]).is_ok_and(|got| got > 0) {},
        }
    });
    let _server = Server::start(&config(&origin, "{ min_idle = 1 }\nprotocol = \"http2\""));
    origin.wait_until("one for each thread", |origin| origin.open() == 2);
    (0..2).for_each(|_| go.send(()).unwrap());
    origin.wait_until("they are there again", |origin| origin.connections() == 4 && origin.open() == 2);
}
