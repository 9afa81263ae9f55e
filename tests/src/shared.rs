//! One server for each kind of application, started by the first test of a process that needs it, and used by all.

use std::sync::OnceLock;

use crate::{ASGI, FASTCGI, PHP, RACK, Server, WSGI};

pub fn wsgi() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    get(&SERVER, WSGI)
}

pub fn asgi() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    get(&SERVER, ASGI)
}

pub fn rack() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    get(&SERVER, RACK)
}

pub fn php() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    get(&SERVER, PHP)
}

pub fn fastcgi() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    get(&SERVER, FASTCGI)
}

fn get(server: &'static OnceLock<Server>, config: &str) -> &'static Server {
    server.get_or_init(|| Server::start(config).warm("/pong"))
}
