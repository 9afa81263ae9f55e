use std::time::Duration;

use super::*;

fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
    fields
}

fn auth() -> AuthRequest {
    let settings = AuthSettings {
        path: "/verify".to_owned(),
        headers: vec!["X-Auth-*".to_owned(), "Authorization".to_owned()],
        user_header: Some("Remote-User".to_owned()),
        response_headers: vec!["Set-Cookie".to_owned(), "X-*".to_owned()],
        passes_ambiguous_paths: false,
        limits: FetchLimits { time: Duration::from_secs(1), body: 10, reads_success: false },
    };
    let response = crate::FixedResponse::new(200, None, &[], "").expect("a response");
    let nowhere = crate::responses::CheckedResponse { response, path: crate::PathPattern::Any };
    AuthRequest::new("auth".into(), Arc::new(nowhere), false, settings, Vec::new())
}

fn decided(status: u16, lines: &[(&str, &str)]) -> Decision {
    auth().decide(FetchedResponse { status, fields: fields(lines), body: Vec::new() })
}

#[test]
fn only_a_2xx_lets_a_request_in() {
    for (status, expected) in [
        (200, "allowed"),
        (204, "allowed"),
        (299, "allowed"),
        (302, "denied"),
        (304, "error"),
        (401, "denied"),
        (403, "denied"),
        (418, "denied"),
        (500, "error"),
        (503, "error"),
        (600, "error"),
        (999, "error"),
    ] {
        assert_eq!(decided(status, &[]).name(), expected, "{status}");
    }
}

#[test]
fn a_user_who_is_not_certain_is_a_fault() {
    let user = |lines: &[(&str, &str)]| match decided(200, lines) {
        Decision::Allowed(allowed) => Some(allowed.user.map(|user| user.to_string())),
        _ => None,
    };
    assert_eq!(user(&[("Remote-User", "jo")]), Some(Some("jo".to_owned())));
    assert_eq!(user(&[("Remote-User", "")]), Some(None));
    assert_eq!(user(&[]), Some(None));
    assert_eq!(user(&[("Remote-User", "jo"), ("remote-user", "root")]), None);
    let mut latin = Fields::new();
    latin.push(b"remote-user", b"j\xf6");
    let response = FetchedResponse { status: 200, fields: latin, body: Vec::new() };
    assert_eq!(auth().decide(response).name(), "error");
}

#[test]
fn each_header_is_copied_once() {
    let lines = [
        ("X-Auth-Groups", "a"),
        ("Set-Cookie", "a=b"),
        ("x-auth-groups", "b"),
        ("X_Auth_Groups", "root"),
        ("Authorization", "Bearer x"),
        ("Remote-User", "jo"),
    ];
    let Decision::Allowed(Permission { fields: copied, .. }) = decided(200, &lines) else { panic!("denied") };
    let expected = [("x-auth-groups", "a, b"), ("authorization", "Bearer x"), ("remote-user", "jo")];
    assert_eq!(copied, fields(&expected));
}

#[test]
fn the_client_gets_what_is_for_it_line_by_line() {
    let lines = [
        ("Set-Cookie", "a=1"),
        ("Remote-User", "jo"),
        ("Set-Cookie", "b=2"),
        ("X-Accel-Redirect", "/x"),
        ("X-Sendfile", "/x"),
        ("X-Session", "new"),
    ];
    let Decision::Allowed(allowed) = decided(200, &lines) else { panic!("denied") };
    assert_eq!(
        allowed.for_client,
        fields(&[("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-session", "new")])
    );
}

#[test]
fn credentials_are_not_taken_from_the_request_to_the_service() {
    let auth = auth();
    let names: Vec<&str> = auth.identity_headers().collect();
    assert_eq!(names, ["X-Auth-*", "Remote-User"]);
    assert!(auth.withheld.matches(b"authorization"), "the target does not get the client's");
}
