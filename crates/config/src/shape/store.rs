//! `store`: the store of rate limits.

use std::net::Ipv6Addr;

use super::net::is_host_name;
use super::parsed_string::ParsedString;
use super::value_error::ValueError;
use crate::model::{RateStore, Secret};
use crate::nearest::nearest;

/// `"local"`, or the URL of a Valkey or Redis. It may contain a password, so errors do not quote it.
pub(crate) const STORE: ParsedString<RateStore> = ParsedString {
    expected: "\"local\", \"redis://HOST:PORT/DATABASE\", \"rediss://HOST:PORT/DATABASE\" (TLS) or \"redis+unix:/PATH\"",
    type_name: "\"local\" or URL",
    pattern: Some("^(local|(rediss?|valkeys?)://.+|redis\\+unix:/.+)$"),
    bare: None,
    read: store,
};

fn store(text: &str) -> Result<RateStore, ValueError> {
    if text == "local" {
        return Ok(RateStore::Local);
    }
    let unix = ["redis+unix:", "valkey+unix:", "unix:"].iter().find_map(|scheme| text.strip_prefix(scheme));
    if let Some(path) = unix {
        return unix_store(path);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let error = ValueError::new("is neither \"local\" nor a URL");
        return Err(match nearest(text, ["local"]).is_empty() {
            true => error.help("write the URL with its scheme: \"redis://HOST:6379\""),
            false => error.help("did you mean `local`?"),
        });
    };
    let encrypted = match scheme {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        scheme => {
            let error =
                ValueError::new(format!("has the scheme `{scheme}`, which is not supported for a store"));
            return Err(error.help("write redis:// instead, or rediss:// for TLS"));
        }
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (location, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !database.is_empty() && database.parse::<u16>().is_err() {
        return Err(
            ValueError::new("does not end in a database number").help("leave the number out for database 0")
        );
    }
    // User and password are before the last `@`; characters that are not allowed in a URL must be percent-encoded.
    let (login, address) =
        location.rsplit_once('@').map_or((None, location), |(login, address)| (Some(login), address));
    if login.is_some_and(|login| login.contains(['@', '/', '?', '#', ' '])) {
        return Err(ValueError::new("has characters in the user or password that are not allowed in a URL")
            .help("percent-encode them: `@` is %40, `/` is %2F"));
    }
    let (host, port) = split(address)?;
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let login = login.map_or_else(String::new, |login| format!("{login}@"));
    let number = if database.is_empty() { "0" } else { database };
    let scheme = if encrypted { "rediss" } else { "redis" };
    let url = Secret::new(format!("{scheme}://{login}{address}/{number}"));
    Ok(RateStore::Redis { url, address, tls: encrypted.then_some(host) })
}

fn unix_store(path: &str) -> Result<RateStore, ValueError> {
    let path = path.strip_prefix("//").unwrap_or(path);
    let file = path.split('?').next().unwrap_or(path);
    if !file.starts_with('/') || file.len() < 2 || file.len() > 107 {
        return Err(ValueError::new(
            "is not a Unix socket: an absolute path of at most 107 bytes must follow",
        ));
    }
    let url = Secret::new(format!("redis+unix://{path}"));
    Ok(RateStore::Redis { url, address: format!("unix:{file}"), tls: None })
}

fn split(address: &str) -> Result<(String, u16), ValueError> {
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some("6379"))),
        None => match address.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, Some("6379")),
        },
    };
    let holds = is_host_name(host) || host.parse::<std::net::IpAddr>().is_ok();
    if !holds || (host.contains(':') && host.parse::<Ipv6Addr>().is_err()) {
        return Err(ValueError::new("has no valid host").help("write \"redis://HOST:6379\""));
    }
    match port.and_then(|port| port.parse::<u16>().ok()).filter(|port| *port != 0) {
        Some(port) => Ok((host.to_ascii_lowercase(), port)),
        None => Err(ValueError::new("has a port that is not a number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_read() {
        for (text, url, address) in [
            ("redis://a", "redis://a:6379/0", "a:6379"),
            ("valkey://A:1/", "redis://a:1/0", "a:1"),
            ("redis://:pw@[::1]:2/3", "redis://:pw@[::1]:2/3", "[::1]:2"),
            ("rediss://u:pw@A/1", "rediss://u:pw@a:6379/1", "a:6379"),
            ("valkeys://[::1]", "rediss://[::1]:6379/0", "[::1]:6379"),
            ("redis+unix:/run/redis.sock", "redis+unix:///run/redis.sock", "unix:/run/redis.sock"),
            ("unix:///run/redis.sock?db=1", "redis+unix:///run/redis.sock?db=1", "unix:/run/redis.sock"),
        ] {
            match store(text).ok() {
                Some(RateStore::Redis { url: read, address: at, tls }) => {
                    assert_eq!((read.expose(), at.as_str()), (url, address), "{text}");
                    assert_eq!(tls.is_some(), url.starts_with("rediss:"), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for wrong in [
            "",
            "redis",
            "redis://",
            "redis://a:0",
            "redis://a/b",
            "rediss://",
            "rediss+unix:/run/redis.sock",
            "http://a",
            "redis://a@b@c",
            "unix:x",
        ] {
            assert!(store(wrong).is_err(), "{wrong}");
        }
    }
}
