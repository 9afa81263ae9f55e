use super::*;

#[test]
fn lookup() {
    let mut fields = Fields::new();
    assert!(fields.is_empty() && fields.capacity() == 0);
    fields.push(b"Accept", b"a, b");
    fields.push(b"X-One", b"");
    fields.push(b"ACCEPT", b"c;q=1 ,\tD");
    assert_eq!(fields.len(), 3);
    assert_eq!(fields.first("accept"), Some(b"a, b".as_slice()));
    assert_eq!(fields.first("x-one"), Some(b"".as_slice()));
    assert_eq!(fields.first("Accept"), None);
    assert_eq!(fields.all("accept").collect::<Vec<_>>(), [b"a, b".as_slice(), b"c;q=1 ,\tD"]);
    for (token, has) in [("a", true), ("B", true), ("d", true), ("c", false), ("c;q=1", true), ("ab", false)]
    {
        assert_eq!(fields.has_token("accept", token), has, "{token}");
    }
    let kept = fields.capacity();
    fields.clear();
    assert!(fields.is_empty() && fields.capacity() == kept && !fields.repeats());
}

/// The bloom bits against a naive search, on names that collide a lot.
#[test]
fn repeats_agrees_with_comparing_every_name() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut repeated = 0;
    for round in 0..2_000 {
        let mut fields = Fields::new();
        let mut names: Vec<String> = Vec::new();
        for _ in 0..round % 12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let name = format!("X-{:x}", state % 64);
            fields.push(name.as_bytes(), b"v");
            names.push(name.to_lowercase());
        }
        let found = fields.repeats();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(found, names.len() < count, "round {round}");
        repeated += usize::from(found);
    }
    assert!((200..1_800).contains(&repeated));
}
