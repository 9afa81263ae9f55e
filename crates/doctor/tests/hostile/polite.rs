//! The promise to examined servers: up to eight connections at once, and up to `--rate` requests a second.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keepwarm_doctor::{CONNECTIONS, Settings};

use crate::server::{GoodServer, behave, blocking, check, every_probe_spoke, serve, settings};

/// A connection that is counted while it is open.
struct CountedConnection {
    stream: std::net::TcpStream,
    open: Arc<AtomicUsize>,
}

impl Read for CountedConnection {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(into)
    }
}

impl Write for CountedConnection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn no_more_than_eight_connections_are_open_at_once() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let address = serve(0, move |stream| {
        let now = open.fetch_add(1, Ordering::SeqCst) + 1;
        seen.fetch_max(now, Ordering::SeqCst);
        behave(
            CountedConnection { stream: blocking(stream), open: Arc::clone(&open) },
            GoodServer::default(),
        );
        async { Ok(()) }
    })
    .await;
    let it = check(&format!("http://{address}/"), &settings()).await;
    every_probe_spoke(&it);
    // A close takes a moment to be seen over there, longer on a machine that is busy.
    let most = most.load(Ordering::SeqCst);
    assert!(most <= 2 * CONNECTIONS, "{most} connections at once");
}

#[tokio::test]
async fn requests_keep_to_the_rate() {
    const RATE: u32 = 60;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&asked);
    let address = serve(0, move |stream| {
        behave(blocking(stream), GoodServer { asked: Some(Arc::clone(&told)), ..GoodServer::default() });
        async { Ok(()) }
    })
    .await;
    let settings = Settings { rate: RATE, ..settings() };
    let it = check(&format!("http://{address}/"), &settings).await;
    every_probe_spoke(&it);
    let asked = asked.lock().unwrap();
    let (first, last) = (asked.first().expect("requests"), asked.last().expect("requests"));
    let took = last.duration_since(*first) + Duration::from_secs(1) / RATE;
    let rate = asked.len() as f64 / took.as_secs_f64();
    assert!(rate <= f64::from(RATE) * 1.1, "{rate:.0} requests a second, {} in all", asked.len());
    assert!(asked.len() as u64 <= it.spent.1, "{} came and {} were counted", asked.len(), it.spent.1);
}
