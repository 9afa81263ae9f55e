//! Offers, and the responses to them.

use crate::websocket::negotiate;

fn said(values: &[&str]) -> Option<String> {
    negotiate(values.iter().map(|value| value.as_bytes())).map(|(_, said)| said)
}

#[test]
fn offers_are_accepted_as_rfc_7692_has_them() {
    for (offer, response) in [
        ("permessage-deflate", "server_max_window_bits=12"),
        (" permessage-deflate ", "server_max_window_bits=12"),
        (
            "permessage-deflate; client_max_window_bits",
            "server_max_window_bits=12; client_max_window_bits=12",
        ),
        (
            "permessage-deflate;client_max_window_bits=15",
            "server_max_window_bits=12; client_max_window_bits=12",
        ),
        (
            "permessage-deflate; client_max_window_bits=8",
            "server_max_window_bits=12; client_max_window_bits=8",
        ),
        (
            "permessage-deflate; client_max_window_bits=\"10\"",
            "server_max_window_bits=12; client_max_window_bits=10",
        ),
        ("permessage-deflate; server_max_window_bits=15", "server_max_window_bits=12"),
        ("permessage-deflate; server_max_window_bits = 9", "server_max_window_bits=9"),
        (
            "permessage-deflate; server_no_context_takeover",
            "server_no_context_takeover; server_max_window_bits=12",
        ),
        (
            "permessage-deflate; client_no_context_takeover; server_no_context_takeover",
            "server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12",
        ),
        // The first that can be met.
        ("x-webkit-deflate-frame, permessage-deflate", "server_max_window_bits=12"),
        ("foo; a=\"b\\c\"; d, , permessage-deflate", "server_max_window_bits=12"),
        (
            "permessage-deflate; server_max_window_bits=8, permessage-deflate; server_max_window_bits=10",
            "server_max_window_bits=10",
        ),
        (
            "permessage-deflate; unknown, permessage-deflate; client_no_context_takeover",
            "client_no_context_takeover; server_max_window_bits=12",
        ),
        (
            "permessage-deflate; server_max_window_bits=11, permessage-deflate; server_max_window_bits=10",
            "server_max_window_bits=11",
        ),
    ] {
        assert_eq!(said(&[offer]), Some(format!("permessage-deflate; {response}")), "{offer}");
    }
    let second = said(&["foo", "permessage-deflate; server_no_context_takeover"]);
    assert!(second.is_some_and(|said| said.contains("server_no_context_takeover")));
}

#[test]
fn offers_that_are_not_valid_or_cannot_be_met_are_declined() {
    for offer in [
        "",
        ",",
        "foo",
        "permessage-deflate2",
        "Permessage-Deflate",
        "permessage-deflate; unknown",
        "permessage-deflate; Server_no_context_takeover",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover=true",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=7",
        // zlib has no window of 256 bytes.
        "permessage-deflate; server_max_window_bits=8",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=09",
        "permessage-deflate; server_max_window_bits=010",
        "permessage-deflate; server_max_window_bits=+9",
        "permessage-deflate; server_max_window_bits=9; server_max_window_bits=9",
        "permessage-deflate; client_max_window_bits=16",
        "permessage-deflate; client_max_window_bits=0",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=9",
        // Malformed: none of it counts.
        "permessage-deflate;",
        "permessage-deflate; ;",
        "permessage-deflate; client_max_window_bits=",
        "permessage-deflate; client_max_window_bits=\"\"",
        "permessage-deflate; client_max_window_bits=\"10",
        "permessage-deflate; client_max_window_bits=\"1 0\"",
        "permessage-deflate client_max_window_bits",
        "permessage-deflate, foo; =a",
        "permessage-deflate, (",
        "permessage-deflate, foo=bar",
        "permessage-deflate\u{7f}",
    ] {
        assert_eq!(said(&[offer]), None, "{offer}");
    }
    assert_eq!(said(&[]), None);
    assert_eq!(said(&["permessage-deflate", "\""]), None);
}
