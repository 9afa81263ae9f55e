//! Users and the hashes of their passwords.

use super::path::{RELATIVE_PATHS, path_text};
use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::{PasswordHash, Secret};
use crate::raw::Directive;

/// A table of users, each with the hash of a password.
pub(crate) struct UserTable;

/// A file of lines `USER:HASH`, as `htpasswd -B` writes it.
pub(crate) struct UserFile;

const ADVICE: &str = "make one with `keepwarm hash-password`, or with `htpasswd -nB USER`";

impl Describe for UserTable {
    fn description(&self) -> Description {
        Description::new(
            "a table of users, each with the hash of a password (argon2 or bcrypt)",
            "table of strings",
            Json::object([("type", Json::text("object")), ("additionalProperties", Json::of_type("string"))]),
        )
    }
}

impl Shape for UserTable {
    type Out = Vec<PasswordHash>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<PasswordHash>> {
        let table = cx.table(directive)?;
        let mut users = Vec::new();
        for entry in &table.entries {
            let Some(hash) = cx.text(&entry.value) else { continue };
            // Messages never quote the hash, which may be a password.
            match user_fault(&entry.key).or_else(|| hash_fault(&hash.text)) {
                Some(fault) => {
                    let what =
                        format!("has a user `{}` that cannot be used: {fault}", entry.key.escape_debug());
                    cx.wrong(entry.value.span, &what).help(ADVICE).report(cx);
                }
                None => {
                    users.push(PasswordHash { user: entry.key.clone(), hash: Secret::new(hash.text.clone()) })
                }
            }
        }
        Some(users)
    }
}

impl Describe for UserFile {
    fn description(&self) -> Description {
        Description::new(
            "a file of lines USER:HASH that this user can read",
            "path of a file",
            Json::of_type("string"),
        )
    }
}

impl Shape for UserFile {
    type Out = Vec<PasswordHash>;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Vec<PasswordHash>> {
        let path = path_text(directive, cx)?;
        let bytes = match cx.sources.read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let what = format!("cannot be read: {error} ({path})");
                return cx.wrong(directive.span, &what).help(RELATIVE_PATHS).reject(cx);
            }
        };
        match users_of(&String::from_utf8_lossy(&bytes)) {
            Ok(users) if users.is_empty() => {
                cx.wrong(directive.span, &format!("has no user ({path})")).help(ADVICE).reject(cx)
            }
            Ok(users) => Some(users),
            Err((line, fault)) => {
                let what = format!("has a line that cannot be used: {fault} ({path}:{line})");
                cx.wrong(directive.span, &what).help(ADVICE).reject(cx)
            }
        }
    }
}

/// The users of a file, or the number of a line and what is wrong with it.
fn users_of(text: &str) -> Result<Vec<PasswordHash>, (usize, &'static str)> {
    let mut users: Vec<PasswordHash> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = |what| (index + 1, what);
        let (user, hash) = line.split_once(':').ok_or(fault("there is no colon after the user"))?;
        if let Some(what) = user_fault(user).or_else(|| hash_fault(hash)) {
            return Err(fault(what));
        }
        if users.iter().any(|known| known.user == user) {
            return Err(fault("the user has another line before"));
        }
        users.push(PasswordHash { user: user.to_owned(), hash: Secret::new(hash.to_owned()) });
    }
    Ok(users)
}

/// RFC 7617 §2: no colon, no control character.
fn user_fault(user: &str) -> Option<&'static str> {
    match user {
        "" => Some("the name of the user is empty"),
        _ if user.contains(':') => Some("the name of the user contains a colon"),
        _ if user.chars().any(char::is_control) => Some("the name of the user contains control characters"),
        _ => None,
    }
}

/// Why a hash is not accepted: only those that cost an attacker much for each guess are.
fn hash_fault(hash: &str) -> Option<&'static str> {
    match hash {
        "" => Some("the hash is empty"),
        _ if hash.starts_with("$argon2") => argon2_fault(hash),
        _ if ["$2a$", "$2b$", "$2y$"].iter().any(|kind| hash.starts_with(kind)) => bcrypt_fault(hash),
        _ if hash.starts_with("$apr1$") || hash.starts_with("$1$") => {
            Some("it is an MD5 hash, of which millions are tried a second")
        }
        _ if hash.starts_with("{SHA}") => Some("it is an unsalted SHA-1 hash, which is found in tables"),
        _ if hash.starts_with("{SSHA}") => Some("it is a SHA-1 hash, of which billions are tried a second"),
        _ if hash.starts_with("$5$") || hash.starts_with("$6$") => {
            Some("it is a hash by SHA-crypt; supported are argon2 and bcrypt")
        }
        _ if hash.len() == 13 && hash.chars().all(|c| c.is_ascii_alphanumeric() || "./".contains(c)) => {
            Some("it is a hash by DES, which uses 8 characters of the password")
        }
        _ => Some("it is not a hash by argon2 or bcrypt; a password itself is never stored"),
    }
}

/// `$2y$10$` and 53 characters. The cost is the binary logarithm of the rounds.
fn bcrypt_fault(hash: &str) -> Option<&'static str> {
    let (cost, rest) = hash.get(4..6).zip(hash.get(6..)).unwrap_or_default();
    let cost: u32 = cost.parse().unwrap_or(0);
    let is_complete = rest.len() == 54
        && rest
            .strip_prefix('$')
            .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/')));
    match cost {
        _ if !is_complete => Some("it is not a complete bcrypt hash of 60 characters"),
        4..=16 => None,
        _ => Some("its cost is not between 4 and 16; from 17 on, a check takes several seconds"),
    }
}

/// `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`. Memory is in KiB.
fn argon2_fault(hash: &str) -> Option<&'static str> {
    let parts: Vec<&str> = hash.split('$').collect();
    let ["", "argon2id" | "argon2i" | "argon2d", "v=19" | "v=16", parameters, salt, output] = parts[..]
    else {
        return Some("it is not a complete argon2 hash ($argon2id$v=19$m=…,t=…,p=…$SALT$HASH)");
    };
    let value = |name: &str| {
        let found = parameters.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0)
    };
    let is_base64 = |text: &str| {
        text.len() >= 11 && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/'))
    };
    match (value("m"), value("t"), value("p")) {
        _ if !is_base64(salt) || !is_base64(output) => Some("its salt or its hash is not in base64"),
        (8..=1_048_576, 1..=64, 1..=16) => None,
        _ => Some("its cost is outside of m=8 to 1048576 (KiB), t=1 to 64, p=1 to 16"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
    const ARGON2: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA";

    #[test]
    fn hashes_that_cost_a_guess_are_accepted_and_no_others() {
        for hash in [BCRYPT, ARGON2, &ARGON2.replace("argon2id", "argon2i"), &BCRYPT.replace("2y", "2b")] {
            assert_eq!(hash_fault(hash), None, "{hash}");
        }
        for (hash, word) in [
            ("", "empty"),
            ("secret", "never stored"),
            ("$apr1$salt$hash", "MD5"),
            ("$1$salt$hash", "MD5"),
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "unsalted"),
            ("{SSHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1"),
            ("$6$salt$hash", "SHA-crypt"),
            ("rqXexS6ZhobKA", "DES"),
            ("$2y$05$short", "60 characters"),
            (&BCRYPT.replace("$05$", "$17$"), "cost"),
            (&BCRYPT.replace("$05$", "$03$"), "cost"),
            (&BCRYPT.replace("$05$", "$xx$"), "cost"),
            (&ARGON2.replace("m=19456", "m=4"), "cost"),
            (&ARGON2.replace("m=19456,t=2,p=1", ""), "cost"),
            ("$argon2id$v=19$m=19456,t=2,p=1$c2FsdA", "complete"),
        ] {
            let fault = hash_fault(hash).unwrap_or_default();
            assert!(fault.contains(word), "{hash}: {fault:?}");
        }
    }

    #[test]
    fn a_file_has_a_user_a_line() {
        let text = format!("# staff\n\nalice:{BCRYPT}\r\nbob:{ARGON2}\n");
        let users = users_of(&text).unwrap();
        assert_eq!(users.iter().map(|user| user.user.as_str()).collect::<Vec<_>>(), ["alice", "bob"]);
        let fault = |text: &str| users_of(text).unwrap_err();
        assert_eq!(fault("alice\n").0, 1);
        assert_eq!(fault(&format!("alice:{BCRYPT}\n\nalice:{ARGON2}")).0, 3);
        assert_eq!(fault("\n:x").1, "the name of the user is empty");
    }
}
