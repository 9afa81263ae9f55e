//! Names whose certificates are obtained when their first client requests them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Where handshakes report a name without a certificate, and wait for it.
#[derive(Clone)]
pub struct OnDemandNames(Arc<Request>);

type Request = dyn Fn(&str) -> Option<Pin<Box<dyn Future<Output = bool> + Send>>> + Send + Sync;

impl OnDemandNames {
    /// `request` is called on the threads of the data plane with a DNS name that an authority could issue a certificate for, in lower case. It must not
    /// block. What it returns completes with whether the listener has the certificate now; `None`: it will not.
    pub fn new(
        request: impl Fn(&str) -> Option<Pin<Box<dyn Future<Output = bool> + Send>>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(request))
    }

    /// Waits for the certificate of a name. The caller bounds that.
    pub(in crate::tls) async fn obtain(&self, name: &str) -> bool {
        match (self.0)(name) {
            Some(obtained) => obtained.await,
            None => false,
        }
    }
}

impl PartialEq for OnDemandNames {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OnDemandNames {}

impl fmt::Debug for OnDemandNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDemandNames")
    }
}

/// Whether an authority could issue a certificate for a name: a DNS name of several labels of letters, digits and hyphens (RFC 1123 §2.1, RFC 5280
/// §4.2.1.6), in lower case. No address, no single label, no wildcard.
pub(super) fn is_public_name(name: &str) -> bool {
    /// RFC 1035 §2.3.4, without the length octets of the first and the root label.
    const LONGEST: usize = 253;
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    // A name that ends in digits is read as an address (RFC 3696 §2).
    let is_number = last.bytes().all(|b| b.is_ascii_digit());
    name.len() <= LONGEST && !is_number && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::is_public_name;

    #[test]
    fn only_names_that_an_authority_could_certify_are_reported() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        for good in
            ["shop.example", "a.b.c.example", "xn--bcher-kva.example", "1.example", "a-b.c-d", &longest]
        {
            assert!(is_public_name(good), "{good}");
        }
        for bad in [
            "",
            "localhost",
            "shop.example.",
            ".example",
            "a..b",
            "192.0.2.1",
            "2001:db8::1",
            "example.1",
            "*.shop.example",
            "a_b.example",
            "-a.example",
            "a-.example",
            "Shop.Example",
            "b\u{fc}cher.example",
            "a b.example",
            &format!("{label}a.example"),
            &format!("{longest}a"),
        ] {
            assert!(!is_public_name(bad), "{bad}");
        }
    }
}
