//! Events of an encrypted connection while it is idle.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use super::kit::{Server, Stream};
use super::*;
use crate::pool::tests::until;

/// A server that responds to one request per connection, and then does what its script says.
fn server_that(
    authority: &Authority,
    version: &[&'static rustls::SupportedProtocolVersion],
    then: fn(&mut Stream),
) -> (Server, std::sync::mpsc::Sender<()>) {
    let (go, wait) = channel();
    let wait: Mutex<Receiver<()>> = Mutex::new(wait);
    let server = start(server(&authority.identity("a.test"), version), move |mut stream| {
        if read_head(&mut stream).is_none() {
            return;
        }
        stream.write_all(HELLO.as_bytes()).unwrap();
        if wait.lock().unwrap().recv().is_ok() {
            then(&mut stream);
        }
        responding(HELLO)(stream);
    });
    (server, go)
}

async fn idle_after(server: &Server, authority: &Authority) -> Arc<Pool<Http1>> {
    let pool: Arc<Pool<Http1>> = Pool::new(PoolSettings::default());
    pool.set_tls(Some(authority.client("a.test")));
    let mut lease = pool.acquire(&server.endpoint, ConnectionNeed::Any).await.unwrap();
    ask(&mut lease).await.unwrap();
    lease.finish();
    assert_eq!(pool.count(&server.endpoint), (1, 1));
    pool
}

#[tokio::test]
async fn a_close_with_or_without_a_notice_and_bytes_nobody_asked_for_end_it() {
    run(async {
        let authority = Authority::new();
        let ends: [fn(&mut Stream); 3] = [
            close_notify,
            |stream| stream.sock.shutdown(std::net::Shutdown::Both).unwrap(),
            |stream| stream.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap(),
        ];
        for version in [V12, V13] {
            for end in ends {
                let (server, go) = server_that(&authority, version, end);
                let pool = idle_after(&server, &authority).await;
                go.send(()).unwrap();
                until(|| pool.count(&server.endpoint) == (0, 0)).await;
            }
        }
    })
    .await;
}

/// Keys change on an idle connection (RFC 8446 §4.6.3): no plaintext arrives.
#[tokio::test]
async fn records_that_are_no_data_are_taken_in_and_are_no_noise() {
    run(async {
        let authority = Authority::new();
        let (server, go) = server_that(&authority, V13, |stream| {
            for _ in 0..3 {
                stream.conn.refresh_traffic_keys().unwrap();
                stream.flush().unwrap();
            }
        });
        let pool = idle_after(&server, &authority).await;
        go.send(()).unwrap();
        let mut lease = pool.acquire(&server.endpoint, ConnectionNeed::Any).await.unwrap();
        assert!(lease.idle().is_some());
        ask(&mut lease).await.unwrap();
        lease.finish();
        assert_eq!(pool.count(&server.endpoint), (1, 1));
        assert_eq!(server.connections(), 1);
    })
    .await;
}

/// A server that sends its tickets only now, in single bytes: not an event.
#[tokio::test]
async fn half_a_record_is_no_noise() {
    run(async {
        let authority = Authority::new();
        let (server, go) = server_that(&authority, V13, |stream| {
            stream.conn.refresh_traffic_keys().unwrap();
            let mut bytes = Vec::new();
            stream.conn.write_tls(&mut bytes).unwrap();
            for byte in bytes {
                stream.sock.write_all(&[byte]).unwrap();
                std::thread::yield_now();
            }
        });
        let pool = idle_after(&server, &authority).await;
        go.send(()).unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
            let mut lease = pool.acquire(&server.endpoint, ConnectionNeed::Any).await.unwrap();
            ask(&mut lease).await.unwrap();
            lease.finish();
        }
        assert_eq!(server.connections(), 1);
    })
    .await;
}

/// What is open stays open when the settings are replaced.
#[tokio::test]
async fn new_settings_are_for_new_connections() {
    run(async {
        let (authority, other) = (Authority::new(), Authority::new());
        let server = start(server(&authority.identity("a.test"), V13), responding(HELLO));
        let pool = idle_after(&server, &authority).await;
        pool.set_tls(Some(other.client("a.test")));
        let mut kept = pool.acquire(&server.endpoint, ConnectionNeed::Any).await.unwrap();
        assert!(kept.idle().is_some());
        ask(&mut kept).await.unwrap();
        let error = pool.acquire(&server.endpoint, ConnectionNeed::New).await.unwrap_err();
        assert_eq!(error.name(), "certificate_unknown_issuer");
        kept.finish();
        assert_eq!(pool.count(&server.endpoint), (1, 1));
    })
    .await;
}
