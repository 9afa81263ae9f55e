//! The edge over real sockets: an [`keepwarm_edge::Edge`] on a data plane, and clients that speak bytes.

#[cfg(test)]
mod access;
#[cfg(test)]
mod apps;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod fixed;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod log;
