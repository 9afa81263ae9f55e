//! Rate limits over real sockets: a handler behind a limit on a data plane, and a real redis-server where counts are shared.

#[cfg(test)]
mod harness;
#[cfg(test)]
mod local;
#[cfg(test)]
mod redis_server;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod trouble;
