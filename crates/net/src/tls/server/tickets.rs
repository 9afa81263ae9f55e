//! Session tickets (RFC 8446 §4.6.1, RFC 5077): keys that all listeners and threads share, and that rotate.
//!
//! The state of a session is in its ticket, so a ticket is good on any thread, after a reload, and in a process that took over with the keys.
//! A key decrypts the TLS 1.2 sessions that it resumed: keys live for hours, in memory only.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;

use super::ClientAuth;

/// A key encrypts new tickets for this long.
const ROTATION: Duration = Duration::from_secs(6 * 3600);
/// A ticket can be used for this long. nginx keeps sessions for 5 minutes by default, OpenSSL for 2 hours, Go for 7 days.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Bytes of the name of a key, in front of each ticket.
const NAME: usize = 16;
/// Bytes of a key.
const SECRET: usize = 32;

/// A key as one process passes it to the next.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketSecret {
    /// Its name.
    pub name: [u8; NAME],
    /// Itself.
    pub secret: [u8; SECRET],
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketSecret").field("created", &self.created).finish_non_exhaustive()
    }
}

struct TicketKey {
    secret: TicketSecret,
    aead: RandomizedNonceKey,
}

/// The keys of the process, the newest first.
pub struct TicketKeys {
    keys: ArcSwap<Vec<Arc<TicketKey>>>,
}

impl TicketKeys {
    /// With the keys of the process before, as far as they are still good.
    pub fn new(inherited: Vec<TicketSecret>) -> Self {
        let mut keys: Vec<_> = inherited.into_iter().filter_map(TicketKey::new).map(Arc::new).collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.secret.created));
        Self { keys: ArcSwap::from_pointee(keys) }
    }

    /// The keys, for the next process.
    pub fn secrets(&self) -> Vec<TicketSecret> {
        self.keys.load().iter().map(|key| key.secret.clone()).collect()
    }

    /// The key of new tickets. Two threads that find it too old make two: both stay, and one is the newest.
    fn newest(&self, now: u64) -> Option<Arc<TicketKey>> {
        if let Some(newest) = self.keys.load().first()
            && newest.age(now) < ROTATION
        {
            return Some(Arc::clone(newest));
        }
        let fresh = Arc::new(TicketKey::generate(now)?);
        self.keys.rcu(|keys| {
            let good = keys.iter().filter(|key| key.age(now) < ROTATION + LIFETIME);
            std::iter::once(&fresh).chain(good).cloned().collect::<Vec<_>>()
        });
        Some(fresh)
    }

    fn seal(&self, plain: &[u8], context: &[u8], now: u64) -> Option<Vec<u8>> {
        let key = self.newest(now)?;
        let mut sealed = plain.to_vec();
        let nonce = key.aead.seal_in_place_append_tag(Aad::from(context), &mut sealed).ok()?;
        let mut ticket = Vec::with_capacity(NAME + NONCE_LEN + sealed.len());
        ticket.extend_from_slice(&key.secret.name);
        ticket.extend_from_slice(nonce.as_ref());
        ticket.extend_from_slice(&sealed);
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], context: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let keys = self.keys.load();
        let key = keys.iter().find(|key| key.secret.name == *name)?;
        if key.age(now) >= ROTATION + LIFETIME {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = key.aead.open_in_place(nonce, Aad::from(context), &mut sealed).ok()?.len();
        sealed.truncate(plain);
        Some(sealed)
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

impl TicketKey {
    fn new(secret: TicketSecret) -> Option<Self> {
        let aead = RandomizedNonceKey::new(&AES_256_GCM, &secret.secret).ok()?;
        Some(Self { secret, aead })
    }

    fn generate(now: u64) -> Option<Self> {
        let (mut name, mut secret) = ([0; NAME], [0; SECRET]);
        aws_lc_rs::rand::fill(&mut name).ok()?;
        aws_lc_rs::rand::fill(&mut secret).ok()?;
        Self::new(TicketSecret { name, secret, created: now })
    }

    /// A clock that was set back makes no key younger than new.
    fn age(&self, now: u64) -> Duration {
        Duration::from_secs(now.saturating_sub(self.secret.created))
    }
}

/// The tickets of a listener: good only where clients are authenticated alike. A ticket carries the client's certificate, so one of a listener
/// that requires none, or trusts other authorities, must not open this one (as CVE-2025-23419 of nginx).
#[derive(Debug)]
pub(super) struct Tickets {
    keys: Arc<TicketKeys>,
    context: Vec<u8>,
}

impl Tickets {
    pub(super) fn new(keys: &Arc<TicketKeys>, auth: Option<&ClientAuth>) -> Self {
        let context = auth.map_or_else(Vec::new, |auth| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &auth.ca.text);
            let mut context = [&[u8::from(auth.required)], digest.as_ref()].concat();
            // A resumed session is not verified again: with other lists, nobody resumes one.
            if let Some(crl) = &auth.crl {
                context.extend(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &crl.text).as_ref());
            }
            context
        });
        Self { keys: Arc::clone(keys), context }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME.as_secs() as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys.seal(plain, &self.context, seconds())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.keys.open(cipher, &self.context, seconds())
    }
}

/// Since 1970: the same for every process.
fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    #[test]
    fn a_ticket_opens_until_its_key_is_too_old() {
        let keys = TicketKeys::new(Vec::new());
        let ticket = keys.seal(b"state", b"", DAY).unwrap();
        assert_eq!(keys.open(&ticket, b"", DAY).unwrap(), b"state");
        let last = DAY + (ROTATION + LIFETIME).as_secs() - 1;
        assert!(keys.seal(b"other", b"", last).is_some(), "a key of its own time");
        assert_eq!(keys.open(&ticket, b"", last).unwrap(), b"state");
        assert!(keys.open(&ticket, b"", last + 1).is_none());
        assert_ne!(keys.secrets()[0].created, DAY);
        let later = keys.seal(b"third", b"", last + ROTATION.as_secs()).unwrap();
        assert_eq!(keys.secrets().len(), 2, "the first is forgotten");
        assert_eq!(keys.open(&later, b"", last + ROTATION.as_secs()).unwrap(), b"third");
    }

    #[test]
    fn a_ticket_opens_in_the_process_that_inherits_the_keys() {
        let keys = TicketKeys::new(Vec::new());
        let ticket = keys.seal(b"state", b"", DAY).unwrap();
        let next = TicketKeys::new(keys.secrets());
        assert_eq!(next.open(&ticket, b"", DAY).unwrap(), b"state");
        assert!(TicketKeys::new(Vec::new()).open(&ticket, b"", DAY).is_none());
    }

    #[test]
    fn a_ticket_of_a_listener_with_other_clients_is_none() {
        let keys = TicketKeys::new(Vec::new());
        let ticket = keys.seal(b"state", b"", DAY).unwrap();
        assert!(keys.open(&ticket, b"required", DAY).is_none());
    }

    #[test]
    fn what_is_no_ticket_opens_nothing() {
        let keys = TicketKeys::new(Vec::new());
        let ticket = keys.seal(b"state", b"", DAY).unwrap();
        for length in 0..ticket.len() {
            assert!(keys.open(&ticket[..length], b"", DAY).is_none(), "{length}");
        }
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert!(keys.open(&changed, b"", DAY).is_none(), "{at}");
        }
    }
}
