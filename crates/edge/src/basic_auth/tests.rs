use super::*;

/// `secret`, by the least cost.
const BCRYPT: &str = "$2y$04$";

fn credentials(user: &str, password: &[u8]) -> Credentials {
    Credentials { user: user.to_owned(), password: password.to_vec() }
}

fn auth() -> BasicAuth {
    let bcrypt = bcrypt::hash_with_result("secret", 4).unwrap().format_for_version(bcrypt::Version::TwoY);
    assert!(bcrypt.starts_with(BCRYPT));
    // RFC 9106, from the reference implementation: password "password", salt "somesalt".
    let argon2 = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    BasicAuth::new(vec![("alice".into(), bcrypt), ("b\u{f6}b".into(), argon2.into())], "Staging", false)
}

#[tokio::test]
async fn users_are_verified_by_either_hash() {
    let auth = auth();
    for (user, password, verdict) in [
        ("alice", "secret", Verdict::Correct),
        ("alice", "Secret", Verdict::Wrong),
        ("alice", "", Verdict::Wrong),
        ("b\u{f6}b", "password", Verdict::Correct),
        ("b\u{f6}b", "secret", Verdict::Wrong),
        // The password of the user whose hash stands in for an unknown one.
        ("eve", "secret", Verdict::Wrong),
        ("", "", Verdict::Wrong),
    ] {
        assert_eq!(auth.verify(&credentials(user, password.as_bytes())).await, verdict, "{user} {password}");
    }
    let long = vec![b'x'; LONGEST_PASSWORD + 1];
    assert_eq!(auth.verify(&credentials("alice", &long)).await, Verdict::Wrong);
}

#[tokio::test]
async fn only_correct_passwords_are_remembered_and_by_digest() {
    let auth = auth();
    let known = |user: &str, password: &str| {
        auth.remembered.contains(&auth.remembered.digest(user, password.as_bytes()))
    };
    for (user, password) in [("alice", "secret"), ("alice", "wrong"), ("eve", "secret")] {
        auth.verify(&credentials(user, password.as_bytes())).await;
    }
    assert!(known("alice", "secret"));
    assert!(!known("alice", "wrong") && !known("eve", "secret"));
    assert!(!known("alices", "ecret"), "the border between name and password counts");
    assert_ne!(
        auth.remembered.digest("a", b"b"),
        Remembered::default().digest("a", b"b"),
        "a key of its own"
    );
    assert_eq!(format!("{:?}", auth.remembered), "Remembered(...)");
}

#[test]
fn credentials_are_those_of_the_rfc() {
    let parsed = |field: &str| {
        Credentials::parse(field.as_bytes())
            .map(|found| (found.user, String::from_utf8_lossy(&found.password).into_owned()))
    };
    let of = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
    // RFC 7617 §2 and §2.1.
    assert_eq!(parsed("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), of("Aladdin", "open sesame"));
    assert_eq!(parsed("Basic dGVzdDoxMjPCow=="), of("test", "123\u{a3}"));
    assert_eq!(parsed("bAsIc   dGVzdDoxMjPCow=="), of("test", "123\u{a3}"));
    assert_eq!(parsed("Basic dGVzdDoxMjPCow"), of("test", "123\u{a3}"));
    // A colon belongs to the password; both may be empty.
    assert_eq!(parsed("Basic YTpiOmM="), of("a", "b:c"));
    assert_eq!(parsed("Basic Og=="), of("", ""));
    for field in [
        "",
        "Basic",
        "Basic ",
        "Bearer YTpi",
        "Basic YWI=",
        "Basic !!!!",
        "BasicYTpi",
        "Basic YQA6Yg==",
        "Basic YTpiAA==",
    ] {
        assert_eq!(parsed(field), None, "{field}");
    }
}

#[tokio::test]
async fn hashes_that_are_made_can_be_used() {
    for by_bcrypt in [false, true] {
        let hash = hash_password(b"correct horse", by_bcrypt).unwrap();
        assert!(
            hash.starts_with(if by_bcrypt { "$2y$10$" } else { "$argon2id$v=19$m=19456,t=2,p=1$" }),
            "{hash}"
        );
        assert_ne!(hash_password(b"correct horse", by_bcrypt).unwrap(), hash, "a salt of its own");
        let auth = BasicAuth::new(vec![("a".into(), hash)], "x", false);
        assert_eq!(auth.verify(&credentials("a", b"correct horse")).await, Verdict::Correct);
        assert_eq!(auth.verify(&credentials("a", b"correct hors")).await, Verdict::Wrong);
    }
    for password in [b"".as_slice(), b"a\0b", &[b'x'; 2000]] {
        assert!(hash_password(password, false).is_err());
    }
    assert!(hash_password(&[b'x'; 73], true).unwrap_err().contains("72"));
}
