//! What this crate serves, over real sockets: handlers on a data plane, clients that speak bytes, and real peers behind: servers of the test's own, and a redis-server.

#[cfg(test)]
mod harness;
#[cfg(test)]
mod health;
#[cfg(test)]
mod limited;
#[cfg(test)]
mod origin;
#[cfg(test)]
mod rate_limit_local;
#[cfg(test)]
mod rate_limit_shared;
#[cfg(test)]
mod rate_limit_trouble;
#[cfg(test)]
mod redis_server;
