//! Basic authentication (RFC 7617) against hashes of passwords.
//!
//! A hash that withstands guessing takes tens of milliseconds, so it is never computed on a data-plane thread, and a password that was
//! correct is remembered for a minute. The memory holds keyed digests: neither the password nor its hash can be found from them.

mod hashing;
mod remembered;

use std::sync::Arc;

use data_encoding::{BASE64, BASE64_NOPAD};
use keepwarm_serve::{Exchange, FieldPatterns, Request};

pub use self::hashing::hash_password;
use self::hashing::{HashJob, Verdict};
use self::remembered::Remembered;
use crate::refusals;

/// The header that names the user to the app.
pub(crate) const REMOTE_USER: &str = "remote-user";
/// A longer password is wrong: nobody's time is spent on hashing it.
const LONGEST_PASSWORD: usize = 1024;

/// The users of a route.
#[derive(Debug)]
pub struct BasicAuth {
    users: Vec<(String, Arc<str>)>,
    challenge: String,
    /// Request headers that do not reach the app.
    withheld: Arc<FieldPatterns>,
    remembered: Remembered,
}

impl BasicAuth {
    /// `users`: names, and hashes by argon2 or bcrypt; not empty. `realm`: without quotes and backslashes. `forward_credentials`: the
    /// app gets the `Authorization` header.
    #[must_use]
    pub fn new(users: Vec<(String, String)>, realm: &str, forward_credentials: bool) -> Self {
        let credentials = (!forward_credentials).then_some("authorization");
        let withheld = FieldPatterns::new([REMOTE_USER].into_iter().chain(credentials));
        Self {
            users: users.into_iter().map(|(user, hash)| (user, hash.into())).collect(),
            // RFC 7617 §2.1: names and passwords are in UTF-8.
            challenge: format!("Basic realm=\"{realm}\", charset=\"UTF-8\""),
            withheld: Arc::new(withheld),
            remembered: Remembered::default(),
        }
    }

    /// Whether the request is one of a user, whose name it gets; otherwise the response says why.
    pub(crate) async fn admits(&self, exchange: &mut Exchange<'_>) -> bool {
        let Some(credentials) = Credentials::of(exchange.request()) else {
            self.challenge(exchange);
            return false;
        };
        match self.verify(&credentials).await {
            Verdict::Correct => {}
            Verdict::Wrong => {
                self.challenge(exchange);
                return false;
            }
            Verdict::Busy => {
                refusals::AUTH_BUSY.respond(exchange);
                return false;
            }
        }
        let request = exchange.request_mut();
        request.extra_fields.push(REMOTE_USER.as_bytes(), credentials.user.as_bytes());
        request.notes.routed.withheld_fields.push(Arc::clone(&self.withheld));
        request.notes.routed.user = Some(credentials.user.into());
        request.notes.routed.auth_type = "Basic";
        true
    }

    fn challenge(&self, exchange: &mut Exchange<'_>) {
        refusals::UNAUTHORIZED
            .about(&[])
            .field("WWW-Authenticate", self.challenge.as_bytes())
            .respond(exchange);
    }

    async fn verify(&self, credentials: &Credentials) -> Verdict {
        let Credentials { user, password } = credentials;
        if password.len() > LONGEST_PASSWORD {
            return Verdict::Wrong;
        }
        let digest = self.remembered.digest(user, password);
        if self.remembered.contains(&digest) {
            return Verdict::Correct;
        }
        let known = self.users.iter().find(|(name, _)| name == user);
        // An unknown user takes as long as a known one, or names could be found by time.
        let Some((_, hash)) = known.or(self.users.first()) else { return Verdict::Wrong };
        let job = HashJob { hash: Arc::clone(hash), password: password.clone() };
        match hashing::verify(job).await {
            Verdict::Correct if known.is_some() => {
                self.remembered.insert(digest);
                Verdict::Correct
            }
            Verdict::Correct => Verdict::Wrong,
            verdict => verdict,
        }
    }
}

/// A name and a password.
struct Credentials {
    user: String,
    password: Vec<u8>,
}

impl Credentials {
    /// RFC 7617 §2. `None`: there are none, several, or they are malformed.
    fn of(request: &Request) -> Option<Self> {
        let mut fields = request.head.fields.all("authorization");
        let (field, more) = (fields.next()?, fields.next());
        if more.is_some() {
            return None;
        }
        Self::parse(field)
    }

    fn parse(field: &[u8]) -> Option<Self> {
        let (scheme, rest) = field.split_at_checked(b"Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let encoded = rest.trim_ascii();
        let decoded = BASE64.decode(encoded).or_else(|_| BASE64_NOPAD.decode(encoded)).ok()?;
        let colon = memchr::memchr(b':', &decoded)?;
        let (user, password) = decoded.split_at_checked(colon)?;
        let user =
            String::from_utf8(user.to_vec()).ok().filter(|user| !user.chars().any(char::is_control))?;
        // bcrypt ends at a NUL, so that it would compare only what is before it.
        let password = password.get(1..).filter(|password| !password.contains(&0))?;
        Some(Self { user, password: password.to_vec() })
    }
}

#[cfg(test)]
mod tests;
