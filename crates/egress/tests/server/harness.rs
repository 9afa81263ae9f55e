//! A handler on a data plane, and a client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use keepwarm_net::{BindAddress, DataPlane, Remote, bind};
use keepwarm_serve::{
    ConnectionLimits, Frontend, ListenerContext, OpenConnections, StopListening, serve, stop_listening,
};

pub(crate) const BOUND: Duration = Duration::from_secs(30);

/// Serves a handler until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    plane: Option<DataPlane>,
    /// Dropped, it would end the listening.
    _stop: StopListening,
}

impl Server {
    pub(crate) fn start(handler: Arc<dyn Frontend>) -> Self {
        let context = Arc::new(ListenerContext {
            handler,
            limits: ConnectionLimits::default(),
            proxy_protocol: None,
            draining: Arc::new(AtomicBool::new(false)),
            open: Arc::new(OpenConnections::new(100)),
            meter: keepwarm_telemetry::meters::listener("main"),
            tls: None,
        });
        let bound = bind(BindAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = bound.address.unwrap();
        let plane = DataPlane::start(1).unwrap();
        let (stop, signal) = stop_listening();
        plane.remotes()[0].spawn(move || serve(bound, context, signal));
        Self { address, plane: Some(plane), _stop: stop }
    }

    /// Its thread.
    pub(crate) fn remote(&self) -> &Remote {
        &self.plane.as_ref().unwrap().remotes()[0]
    }

    /// The response to a request with these further lines.
    pub(crate) fn get(&self, lines: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let host = self.address;
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(plane) = self.plane.take() {
            plane.stop();
        }
    }
}

pub(crate) fn status(response: &str) -> u16 {
    response.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{response:?}"))
}

pub(crate) fn wait_until(mut condition: impl FnMut() -> bool, what: &str) {
    let deadline = Instant::now() + BOUND;
    while !condition() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
