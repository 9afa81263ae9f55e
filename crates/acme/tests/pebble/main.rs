//! Against a real ACME authority: Pebble, the one that Let's Encrypt tests clients with (`scripts/setup test` installs it).

#[cfg(test)]
mod responder;
#[cfg(test)]
mod site;
#[cfg(test)]
mod tests;
