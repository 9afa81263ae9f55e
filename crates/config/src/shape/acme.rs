//! The names of certificates, and the authority that issues them.

use std::net::IpAddr;

use super::list::{EmptyList, ListOf};
use super::net::{a_labels, is_host_name};
use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::model::Secret;

/// `domains`, `acme`: names of certificates, in lower case, IDN names as A-labels.
pub(crate) const CERTIFICATE_NAMES: ListOf<ParsedString<String>> = ListOf {
    one: ParsedString {
        expected: "a domain name",
        type_name: "domain name",
        pattern: Some("^[^*/:@?# ]+$"),
        bare: None,
        read: certificate_name,
    },
    expected: "a domain name, or a list of them",
    type_name: "domain name or list of domain names",
    empty: EmptyList::Rejected(None),
};

fn certificate_name(text: &str) -> Result<String, ValueError> {
    let is = |what: &str| ValueError::new(format!("is `{text}`{what}"));
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':', '?']).next().unwrap_or(rest);
        return Err(is(", a URL").help(format!("write \"{host}\"")));
    }
    if text.starts_with("*.") {
        return Err(is(
            ": an authority issues a wildcard only for the challenge dns-01, which Keepwarm does not have",
        )
        .help("list the names, or obtain the certificate by another program and set `cert` and `key`"));
    }
    let ascii = a_labels(text.trim_end_matches('.'))?;
    if !is_host_name(&ascii) || ascii.contains('_') {
        return Err(is(", which is not a domain name"));
    }
    Ok(ascii)
}

/// `email`
pub(crate) const EMAILS: ListOf<ParsedString<String>> = ListOf {
    one: ParsedString {
        expected: "an e-mail address",
        type_name: "e-mail address",
        pattern: Some("^[^@ ]+@[^@ ]+$"),
        bare: None,
        read: |text| {
            let is_plain = |b: u8| b.is_ascii_graphic() && !b"@,?#<>".contains(&b);
            match text.split_once('@') {
                Some((user, host))
                    if !user.is_empty() && user.bytes().all(is_plain) && is_host_name(host) =>
                {
                    Ok(text.to_owned())
                }
                _ => Err(ValueError::new(format!("is `{text}`, which is not an e-mail address"))),
            }
        },
    },
    expected: "an e-mail address, or a list of them",
    type_name: "e-mail address or list of e-mail addresses",
    empty: EmptyList::Allowed,
};

/// `directory`, `staging`
pub(crate) const DIRECTORY_URL: ParsedString<String> = ParsedString {
    expected: "the URL of a directory (RFC 8555 §7.1.1), which begins with https://",
    type_name: "URL",
    pattern: Some("^https://[^ ]+$"),
    bare: None,
    read: |text| {
        let is = |what: &str| ValueError::new(format!("is `{text}`{what}"));
        let Some(rest) = text.strip_prefix("https://") else {
            return Err(is(": ACME requires https (RFC 8555 §6.1)"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let is_url = text.bytes().all(|b| b.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !is_url {
            return Err(is(", which is not the URL of a directory"));
        }
        Ok(text.to_owned())
    },
};

/// `on_demand`
pub(crate) const PERMISSION_URL: ParsedString<String> = ParsedString {
    expected: "a URL that begins with https://, or with http:// and an address of this machine",
    type_name: "URL",
    pattern: Some("^https?://[^ ]+$"),
    bare: None,
    read: |text| {
        let is = |what: &str| ValueError::new(format!("is `{text}`{what}"));
        let Some((scheme, rest)) =
            text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
        else {
            return Err(is(", which is not the URL of a service"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let is_url = text.bytes().all(|b| b.is_ascii_graphic()) && !text.contains('#');
        let (host, port) = host_and_port(authority);
        if authority.contains('@')
            || !is_url
            || !port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
        {
            return Err(is(", which is not the URL of a service"));
        }
        let address = host.parse::<IpAddr>();
        if address.is_err() && !is_host_name(host) {
            return Err(is(", which has no host"));
        }
        let is_local =
            host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback());
        if scheme == "http" && !is_local {
            return Err(is(": without TLS, others on the path could permit names")
                .help("write https://, or ask a service on 127.0.0.1"));
        }
        Ok(text.to_owned())
    },
};

/// A host without brackets, and a port if there is one.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    }
}

/// `key` of an external account: base64url, as authorities show it.
pub(crate) const EXTERNAL_KEY: ParsedString<Secret> = ParsedString {
    expected: "the key that the authority shows beside the identifier, in base64url",
    type_name: "base64url",
    pattern: Some("^[A-Za-z0-9_+/-]+=*$"),
    bare: None,
    // Messages never quote the value.
    read: |text| {
        let word = text.trim_end_matches('=');
        let is_base64 = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_+/".contains(&b));
        if word.is_empty() || !is_base64 || word.len() % 4 == 1 {
            return Err(ValueError::new("is not in base64url"));
        }
        Ok(Secret::new(word.replace('+', "-").replace('/', "_")))
    },
};

#[cfg(test)]
mod tests {
    use super::{PERMISSION_URL, certificate_name};

    #[test]
    fn a_permission_comes_from_this_machine_or_over_tls() {
        for good in [
            "http://127.0.0.1:8000/ask",
            "http://localhost/ask?key=1",
            "http://[::1]:8000/",
            "https://ask.example",
            "https://192.0.2.1:8443/ask",
        ] {
            assert!((PERMISSION_URL.read)(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:8000",
            "ftp://127.0.0.1/",
            "http://",
            "http://192.0.2.1/ask",
            "http://ask.example/ask",
            "http://localhost.example/",
            "https://user@ask.example/",
            "https://ask.example:0/",
            "https://ask.example:99999/",
            "https://ask.example/#part",
            "https://ask example/",
        ] {
            assert!((PERMISSION_URL.read)(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_become_a_labels() {
        let ok = |text: &str| certificate_name(text).unwrap();
        assert_eq!(ok("Shop.Example"), "shop.example");
        assert_eq!(ok("bücher.example."), "xn--bcher-kva.example");
        assert_eq!(ok("192.0.2.1"), "192.0.2.1");
        for bad in [
            "",
            "*.shop.example",
            "https://shop.example/",
            "shop..example",
            "a b",
            "shop_1.example",
            "-a.example",
        ] {
            assert!(certificate_name(bad).is_err(), "{bad}");
        }
    }
}
