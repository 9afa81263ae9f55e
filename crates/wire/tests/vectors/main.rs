//! Runs every vector of `spec/vectors`, which adapters run too.

#[cfg(test)]
mod frames;
#[cfg(test)]
mod json;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod worker_twin;
