//! Property: the coding of a response is one that its client accepts and wants most (RFC 9110 §12.5.3), and tags of compressed responses are weak, valid, and restored in conditions so that they match what they matched before (§8.8.3, §13.1.2).
//!
//! The model reads the grammar of the RFC and nothing of ours; where a field is not of the grammar, only panics count.
#![no_main]

use keepwarm_policy::compression::{
    AcceptEncoding, Coding, coded_etag, has_coded_etag, is_coded_etag_of, restore_etags,
};
use libfuzzer_sys::fuzz_target;

// `Accept-Encoding` in lines, a list of entity tags, a tag: separated by NUL.
fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (accept, list, tag) = (part(), part(), part());
    check_negotiation(&accept.split(|&byte| byte == b'\n').collect::<Vec<_>>());
    check_list(list, tag);
    check_tag(tag);
});

/// A member of `Accept-Encoding`: a name in lower case, and its weight in thousandths.
type Member = (String, u16);

fn check_negotiation(lines: &[&[u8]]) {
    let accept = AcceptEncoding::parse(lines.iter().copied());
    let Some(members) = lines.iter().map(|line| members(line)).collect::<Option<Vec<_>>>() else {
        let _ = accept.best(&Coding::ALL);
        return;
    };
    let members: Vec<Member> = members.concat();
    // The RFC does not say what the second of two members means.
    if members
        .iter()
        .enumerate()
        .any(|(index, (name, _))| members[..index].iter().any(|(one, _)| one == name))
    {
        return;
    }
    let listed = |name: &str| members.iter().find(|(one, _)| one == name).map(|(_, weight)| *weight);
    // "*" matches every coding that is not listed. A coding that nothing lists is not acceptable, except identity.
    let weight = |name: &str| listed(name).or(listed("*")).unwrap_or(0);
    assert_eq!(accept.refuses_identity(), listed("identity").or(listed("*")) == Some(0));
    for offered in [
        &[Coding::Zstd, Coding::Brotli, Coding::Gzip][..],
        &[Coding::Gzip, Coding::Brotli],
        &[Coding::Brotli],
        &[],
    ] {
        let most = offered.iter().map(|coding| weight(coding.name())).max().unwrap_or(0);
        // Wanted less than any coding that is acceptable, unless it is listed.
        let identity = weight("identity");
        let expected = offered.iter().copied().find(|coding| most > 0 && weight(coding.name()) == most);
        assert_eq!(accept.best(offered), expected.filter(|_| most >= identity), "{members:?}");
        for coding in offered {
            assert_eq!(accept.accepts(*coding), weight(coding.name()) > 0, "{members:?}");
        }
    }
}

/// The members of a line: `#( codings [ weight ] )`; `None`: it is not of that form.
fn members(line: &[u8]) -> Option<Vec<Member>> {
    let mut members = Vec::new();
    for member in std::str::from_utf8(line).ok()?.split(',') {
        let member = member.trim_matches([' ', '\t']);
        // RFC 9110 §5.6.1.2: empty members are ignored.
        if member.is_empty() {
            continue;
        }
        let (name, weight) = match member.split_once(';') {
            None => (member, 1000),
            Some((name, weight)) => {
                let weight = weight.trim_start_matches([' ', '\t']);
                let value = weight.strip_prefix("q=").or(weight.strip_prefix("Q="))?;
                (name.trim_end_matches([' ', '\t']), thousandths(value)?)
            }
        };
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return None;
        }
        // RFC 9110 §8.4.1.3: recipients take "x-gzip" for "gzip".
        let name = match name.to_ascii_lowercase() {
            name if name == "x-gzip" => "gzip".to_owned(),
            name => name,
        };
        members.push((name, weight));
    }
    Some(members)
}

/// `qvalue` (RFC 9110 §12.4.2).
fn thousandths(value: &str) -> Option<u16> {
    let (whole, digits) = value.split_once('.').unwrap_or((value, ""));
    let is_valid = digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let fraction: u16 = format!("{digits:0<3}").parse().ok().filter(|_| is_valid)?;
    match whole {
        "0" => Some(fraction),
        "1" if fraction == 0 => Some(1000),
        _ => None,
    }
}

/// An entity tag of the grammar (RFC 9110 §8.8.3): whether it is weak, and its opaque tag with the quotes.
fn entity_tag(tag: &[u8]) -> Option<(bool, &[u8])> {
    let (weak, opaque) = match tag.strip_prefix(b"W/") {
        Some(opaque) => (true, opaque),
        None => (false, tag),
    };
    let inside = opaque.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let is_etagc = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
    inside.iter().all(is_etagc).then_some((weak, opaque))
}

fn check_tag(tag: &[u8]) {
    let Some((weak, _)) = entity_tag(tag) else {
        return Coding::ALL.iter().for_each(|coding| drop(coded_etag(tag, *coding)));
    };
    let coded: Vec<_> = Coding::ALL.iter().filter_map(|coding| coded_etag(tag, *coding)).collect();
    if weak {
        return assert!(coded.is_empty(), "it is weak already");
    }
    assert_eq!(coded.len(), Coding::ALL.len());
    for (index, one) in coded.iter().enumerate() {
        assert_eq!(entity_tag(one).map(|(weak, _)| weak), Some(true), "valid and weak");
        assert!(!coded[..index].contains(one), "each representation has its own");
        assert_eq!(restored(one), tag);
        assert_eq!(is_coded_etag_of(one, tag), Some(one.as_slice()));
    }
}

fn restored(list: &[u8]) -> Vec<u8> {
    let mut restored = list.to_vec();
    let length = restore_etags(&mut restored);
    restored.truncate(length);
    assert!(restored.len() <= list.len());
    restored
}

/// The tags of `#entity-tag`, or `None`. A comma can be in a tag.
fn tags(list: &[u8]) -> Option<Vec<&[u8]>> {
    let mut tags = Vec::new();
    let mut rest = list;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Some(tags);
        }
        let open = rest.iter().position(|&byte| byte == b'"')?;
        let close = open + 1 + rest.get(open + 1..)?.iter().position(|&byte| byte == b'"')?;
        let (tag, after) = rest.split_at(close + 1);
        entity_tag(tag)?;
        tags.push(tag);
        rest = after.trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b",") {
            return None;
        }
    }
}

fn check_list(list: &[u8], tag: &[u8]) {
    let after = restored(list);
    let has = has_coded_etag(list);
    let held = is_coded_etag_of(list, tag);
    // `*` is a condition of its own.
    if list.trim_ascii() == b"*" {
        assert!(!has && held.is_none() && after == list);
    }
    let Some(before) = tags(list) else { return };
    let after = tags(&after).expect("a list stays a list");
    assert_eq!(before.len(), after.len());
    assert!(!has_coded_etag(&after.join(&b", "[..])), "none is left");
    // Each is the tag that it was made of, or as it was.
    let sources = |tag: &[u8], of: &[u8]| {
        Coding::ALL.iter().any(|coding| coded_etag(of, *coding).as_deref() == Some(tag))
    };
    for (one, other) in before.iter().zip(&after) {
        assert!(one == other || sources(one, other), "{}", one.escape_ascii());
    }
    assert_eq!(has, before != after);
    if entity_tag(tag).is_none() {
        return;
    }
    // The weak comparison of `If-None-Match` (RFC 9110 §8.8.3.2).
    let weakly =
        |one: &[u8]| entity_tag(one).map(|(_, opaque)| opaque) == entity_tag(tag).map(|(_, opaque)| opaque);
    let was_made_of_it = before.iter().any(|one| sources(one, tag));
    assert_eq!(held.is_some(), was_made_of_it);
    assert!(held.is_none_or(|held| before.contains(&held)));
    // What a client holds of this tag, coded or not, finds it; and nothing else does, but what is coded.
    if was_made_of_it {
        assert!(after.iter().any(|one| weakly(one)), "not modified");
    }
    for (one, other) in before.iter().zip(&after) {
        assert!(weakly(one) == weakly(other) || one != other);
    }
}
