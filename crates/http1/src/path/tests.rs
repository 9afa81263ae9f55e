use super::*;

fn normal(raw: &[u8]) -> Result<Vec<u8>, PathFault> {
    let mut scratch = Vec::new();
    normalize_path(raw, &mut scratch).map(<[u8]>::to_vec)
}

#[test]
fn normal_forms() {
    for (raw, expected) in [
        // RFC 3986 §5.2.4's own example, and §5.4's relative ones as far as they are paths.
        ("/a/b/c/./../../g", "/a/g"),
        ("/b/c/.", "/b/c/"),
        ("/b/c/./", "/b/c/"),
        ("/b/c/..", "/b/"),
        ("/b/c/../", "/b/"),
        ("/b/c/../..", "/"),
        ("/b/c/../../../g", "/g"),
        ("/./g", "/g"),
        ("/../g", "/g"),
        ("/g.", "/g."),
        ("/.g", "/.g"),
        ("/g..", "/g.."),
        ("/..g", "/..g"),
        ("/g/./h", "/g/h"),
        ("/g;x=1/../y", "/y"),
        ("/...", "/..."),
        ("/.../x", "/.../x"),
        ("/.", "/"),
        ("/..", "/"),
        ("/./", "/"),
        ("/../../..", "/"),
        // Empty segments are segments.
        ("//", "//"),
        ("//a//b//", "//a//b//"),
        ("/a//../b", "/a/b"),
        ("/a/b//../../c", "/a/c"),
        ("//..", "/"),
        ("//../x", "/x"),
        // Spelled with percent signs.
        ("/a/%2e%2E/b", "/b"),
        ("/a/%2e./b", "/b"),
        ("/a/.%2E", "/"),
        ("/%2e", "/"),
        ("/%2e%2e%2fetc", "/..%2Fetc"),
        ("/%41%7a%30%2D%5f%7E", "/Az0-_~"),
        ("/%2f%3a%c3%a9%20", "/%2F%3A%C3%A9%20"),
        ("/a%2F..%2fb", "/a%2F..%2Fb"),
        ("/%252e%252e", "/%252e%252e"),
        ("/%25", "/%25"),
        ("/..;/a", "/..;/a"),
        ("/a\\..\\b", "/a\\..\\b"),
        ("/%5c..%5C", "/%5C..%5C"),
        ("/|^{}\"`[]", "/|^{}\"`[]"),
        ("*", "*"),
        ("/", "/"),
        ("", ""),
    ] {
        let found = normal(raw.as_bytes());
        assert_eq!(found.as_deref(), Ok(expected.as_bytes()), "{raw}");
        assert_eq!(normal(expected.as_bytes()).as_deref(), Ok(expected.as_bytes()), "{expected} is normal");
    }
}

#[test]
fn a_normal_path_is_not_copied() {
    for raw in [b"/shop/items".as_slice(), b"/.well-known/x", b"/a..b/c.", b"/%20%2F%C3%A9", b"//a//", b"/"] {
        let mut scratch = Vec::new();
        let found = normalize_path(raw, &mut scratch).unwrap();
        assert!(std::ptr::eq(found, raw));
        assert_eq!(scratch.capacity(), 0);
    }
    let mut scratch = Vec::new();
    assert!(
        std::ptr::eq(percent_decode(b"/a+b", &mut scratch), b"/a+b".as_slice()) || scratch.capacity() == 0
    );
}

#[test]
fn faults() {
    for raw in [
        b"/%".as_slice(),
        b"/%4",
        b"/%zz",
        b"/%4z",
        b"/%z4",
        b"/a%",
        b"/%%41",
        b"/%u0041",
        b"/% 41",
        b"/%\xff1",
        b"/a/../%",
    ] {
        assert_eq!(normal(raw), Err(PathFault::BadPercent), "{}", raw.escape_ascii());
    }
    for raw in [b"/%00".as_slice(), b"/a%00.png", b"/../%00"] {
        assert_eq!(normal(raw), Err(PathFault::Nul), "{}", raw.escape_ascii());
    }
    assert_eq!((PathFault::Nul.status(), PathFault::Nul.name()), (400, "nul_in_path"));
}

#[test]
fn decoding() {
    for (path, expected) in [
        (b"/a%2Fb".as_slice(), b"/a/b".as_slice()),
        (b"/%C3%A9", b"/\xc3\xa9"),
        (b"/%252F", b"/%2F"),
        (b"/a+b", b"/a+b"),
        (b"/%", b"/%"),
        (b"", b""),
    ] {
        assert_eq!(percent_decode(path, &mut Vec::new()), expected);
    }
}

/// Every path of up to six pieces from a small alphabet, against the RFC's algorithm as the RFC states it.
#[test]
fn dot_segments_against_the_rfcs_own_steps() {
    const PIECES: [&str; 5] = ["/", ".", "..", "a", "%2e"];
    let mut paths = vec![String::from("/")];
    for _ in 0..6 {
        let longer: Vec<String> =
            paths.iter().flat_map(|path| PIECES.map(|piece| format!("{path}{piece}"))).collect();
        for path in &longer {
            let decoded = path.replace("%2e", ".");
            let found = normal(path.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), rfc_3986_5_2_4(&decoded), "{path}");
        }
        paths = longer;
    }
}

/// 2A to 2E, step by step, on strings.
fn rfc_3986_5_2_4(path: &str) -> String {
    let mut input = path.to_owned();
    let mut output = String::new();
    while !input.is_empty() {
        if let Some(rest) = input.strip_prefix("../").or(input.strip_prefix("./")) {
            input = rest.to_owned();
        } else if let Some(rest) = input.strip_prefix("/./") {
            input = format!("/{rest}");
        } else if input == "/." {
            input = "/".to_owned();
        } else if let Some(rest) = input.strip_prefix("/../") {
            input = format!("/{rest}");
            output.truncate(output.rfind('/').unwrap_or(0));
        } else if input == "/.." {
            input = "/".to_owned();
            output.truncate(output.rfind('/').unwrap_or(0));
        } else if input == "." || input == ".." {
            input.clear();
        } else {
            let end = input[1..].find('/').map_or(input.len(), |at| at + 1);
            output.push_str(&input[..end]);
            input = input[end..].to_owned();
        }
    }
    output
}
