//! Reloads that move a listener to an address which overlaps the one it has: no client notices.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::tools::free_port;
use keepwarm_tests::{Client, Server, get};

const LONG: Duration = Duration::from_secs(60);

fn config(binds: &str) -> String {
    format!(
        "[server]\nthreads = 2\n[listen.main]\nbind = {binds}\n[[listen.main.route]]\nrespond = {{ status = 200, body = \"pong\" }}\n"
    )
}

fn reload(server: &Server, binds: &str) {
    server.reload_with(&config(binds));
}

fn responds(address: SocketAddr) -> bool {
    Client::connect(address).patient(LONG).ask(get("/")).text() == "pong"
}

#[test]
fn a_listener_moves_between_one_address_and_all_and_no_connection_is_refused() {
    let port = free_port();
    let at = |host: u8| SocketAddr::from(([127, 0, 0, host], port));
    let server = Server::start(&config(&format!("\"127.0.0.1:{port}\"")));
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let caller = std::thread::spawn({
        let (stop, count, address) = (Arc::clone(&stop), Arc::clone(&count), at(1));
        move || {
            while !stop.load(Ordering::SeqCst) {
                assert!(responds(address));
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    for _ in 0..3 {
        assert!(TcpStream::connect(at(2)).is_err());
        reload(&server, &format!("\"0.0.0.0:{port}\""));
        assert!(responds(at(1)) && responds(at(2)));
        reload(&server, &format!("\"127.0.0.1:{port}\""));
        wait_until("the other address is closed", LONG, || TcpStream::connect(at(2)).is_err());
        let before = count.load(Ordering::SeqCst);
        wait_until("calls go on", LONG, || count.load(Ordering::SeqCst) > before + 5 || caller.is_finished());
    }
    stop.store(true, Ordering::SeqCst);
    caller.join().expect("every connection was taken");
}

#[test]
fn a_port_that_the_system_gave_can_be_named_afterwards() {
    let server = Server::start(&config("\"127.0.0.1:0\""));
    let address = server.address();
    reload(&server, &format!("\"{address}\""));
    assert!(responds(address));
    reload(&server, &format!("\"localhost:{}\"", address.port()));
    assert!(responds(address));
}
