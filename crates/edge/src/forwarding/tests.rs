use super::*;

fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
    fields
}

/// 10.0.0.0/8 and 2001:db8::/32 are the proxies; `client scheme host`, `-` for what is not believed.
fn believed(lines: &[(&str, &str)]) -> String {
    let trusted = [
        Cidr::new("10.0.0.0".parse().unwrap(), 8).unwrap(),
        Cidr::new("2001:db8::".parse().unwrap(), 32).unwrap(),
    ];
    let fields = fields(lines);
    let believed = resolve_forwarded(&fields, |address| Cidr::any_contains(&trusted, address));
    let client = believed.client.map_or("-".to_owned(), |client| client.to_string());
    let scheme = believed.scheme.map_or("-", Scheme::as_str);
    let host = believed.host.map_or("-".to_owned(), |host| host.escape_ascii().to_string());
    format!("{client} {scheme} {host}")
}

#[test]
fn the_client_is_the_rightmost_address_that_is_no_proxy() {
    let cases: [(&str, &str); 15] = [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7, 10.0.0.1", "203.0.113.7"),
        ("1.1.1.1, 203.0.113.7, 10.0.0.2,10.0.0.1", "203.0.113.7"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("1.1.1.1, unknown, 10.0.0.2", "10.0.0.2"),
        ("1.1.1.1, unknown", "-"),
        ("1.1.1.1, 203.0.113.7:4711", "203.0.113.7"),
        ("2001:db9::7, 2001:db8::1", "2001:db9::7"),
        ("[2001:db9::7]:80", "2001:db9::7"),
        ("[2001:db9::7]", "2001:db9::7"),
        ("::ffff:203.0.113.7, ::ffff:10.0.0.1", "203.0.113.7"),
        (", 203.0.113.7, ,", "203.0.113.7"),
        ("", "-"),
        ("203.0.113.7.evil", "-"),
        ("203.0.113.7, \u{e9}", "-"),
    ];
    for (value, client) in cases {
        assert_eq!(believed(&[("x-forwarded-for", value)]), format!("{client} - -"), "{value}");
    }
    let lines = [("x-forwarded-for", "1.1.1.1"), ("a", "b"), ("x-forwarded-for", "203.0.113.7, 10.0.0.1")];
    assert_eq!(believed(&lines), "203.0.113.7 - -");
}

#[test]
fn scheme_and_host_are_those_of_the_client_where_that_can_be_told() {
    let with = |hops: &str, proto: &str, host: &str| {
        believed(&[("x-forwarded-for", hops), ("x-forwarded-proto", proto), ("x-forwarded-host", host)])
    };
    assert_eq!(with("203.0.113.7", "https", "a.example"), "203.0.113.7 https a.example");
    assert_eq!(with("203.0.113.7, 10.0.0.1", "https, http", "b.example"), "203.0.113.7 https b.example");
    assert_eq!(with("1.1.1.1, 203.0.113.7, 10.0.0.1", "https, http", "x, c"), "203.0.113.7 http c");
    assert_eq!(with("203.0.113.7", "HTTPS", ""), "203.0.113.7 https -");
    assert_eq!(with("203.0.113.7", "gopher", "h"), "203.0.113.7 - h");
    assert_eq!(believed(&[("x-forwarded-proto", "https")]), "- https -");
    assert_eq!(believed(&[]), "- - -");
}

#[test]
fn the_standard_field_says_the_same_and_yields_to_the_other() {
    let cases = [
        ("for=203.0.113.7", "203.0.113.7 - -"),
        ("For=203.0.113.7;Proto=https;host=a.example", "203.0.113.7 https a.example"),
        (r#"for="[2001:db9::7]:4711";proto=http"#, "2001:db9::7 http -"),
        ("for=1.1.1.1, for=203.0.113.7;proto=https;by=x, for=10.0.0.1;proto=http", "203.0.113.7 https -"),
        ("for=203.0.113.7, for=_hidden;proto=https", "- https -"),
        ("for=unknown", "- - -"),
        (r#"for=203.0.113.7;host="a,b;c\"d""#, r#"203.0.113.7 - a,b;c\"d"#),
        (r#"host="\", for=9.9.9.9, x=";for=203.0.113.7"#, r#"203.0.113.7 - \", for=9.9.9.9, x="#),
        (r#"for="203.0.113.7"#, "- - -"),
        ("", "- - -"),
    ];
    for (value, expected) in cases {
        assert_eq!(believed(&[("forwarded", value)]), expected, "{value}");
    }
    let both = [("forwarded", "for=1.1.1.1;proto=https"), ("x-forwarded-for", "203.0.113.7")];
    assert_eq!(believed(&both), "203.0.113.7 - -");
}
