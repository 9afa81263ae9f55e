//! Where one message ends and the next begins: pipelines, bodies that look like requests, and what an application is tricked into saying.

use std::time::Duration;

use keepwarm_tests::shared::{asgi, wsgi};
use keepwarm_tests::{Client, Failure, Server};

fn both() -> [(&'static str, &'static Server); 2] {
    [("wsgi", wsgi()), ("asgi", asgi())]
}

#[test]
fn two_requests_in_one_segment_are_two_responses_in_order() {
    for (kind, server) in both() {
        let mut client = server.client();
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\noneGET /pong HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response("POST").json()["body"], "one", "{kind}");
        assert_eq!(client.response("GET").text(), "pong", "{kind}");
        client.expect_kept("/pong");
    }
}

#[test]
fn a_long_pipeline_gets_its_responses_in_order() {
    for (kind, server) in both() {
        let mut client = server.client().patient(Duration::from_secs(20));
        let requests: String = (0..200)
            .map(|number| match number % 4 {
                0 => format!("POST /echo?{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
                1 => format!("POST /echo?{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
                2 => format!("GET /echo?{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
                _ => format!("HEAD /echo?{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            })
            .collect();
        client.send(requests);
        for number in 0..200 {
            let method = if number % 4 == 3 { "HEAD" } else { "GET" };
            let response = client.response(method);
            assert_eq!(response.status, 200, "{kind}");
            if method == "HEAD" {
                continue;
            }
            let seen = response.json();
            let query = if kind == "wsgi" { &seen["QUERY_STRING"] } else { &seen["query_string"] };
            assert_eq!(query, &serde_json::Value::from(number.to_string()), "{kind}");
        }
    }
}

#[test]
fn a_pipeline_ends_at_a_request_with_close() {
    for (kind, server) in both() {
        let mut client = server.client();
        client.send(
            "GET /pong HTTP/1.1\r\nHost: a\r\n\r\nGET /pong HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n\
             GET /pong HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        assert!(!client.response("GET").says_close(), "{kind}");
        assert!(client.response("GET").says_close(), "{kind}");
        client.expect_eof();
    }
}

#[test]
fn a_slow_first_response_holds_the_second_back() {
    // One request in work per connection: the quick one gets no response before the slow one.
    let mut client = asgi().client();
    client.send("GET /sleep?ms=80 HTTP/1.1\r\nHost: a\r\n\r\nGET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").text(), "pong");
    assert_eq!(client.response("GET").json()["path"], "/echo");
}

#[test]
fn a_body_is_never_taken_for_a_request() {
    let inner = "GET /nowhere HTTP/1.1\r\nHost: smuggled\r\n\r\n";
    for (kind, server) in both() {
        for request in [
            format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{inner}", inner.len()),
            format!("GET /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{inner}", inner.len()),
            format!("DELETE /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{inner}", inner.len()),
            format!(
                "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{inner}\r\n0\r\n\r\n",
                inner.len()
            ),
            format!(
                "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:X};{inner_free}\r\n{inner}\r\n0\r\n\r\n",
                inner.len(),
                inner_free = "x=y"
            ),
        ] {
            let mut client = server.client();
            client.send(&request);
            assert_eq!(client.response("GET").json()["body"], inner, "{kind}: {request}");
            client.expect_kept("/pong");
        }
    }
}

#[test]
fn the_body_of_a_head_request_is_not_a_request_either() {
    for (kind, server) in both() {
        let mut client = server.client();
        client.send("HEAD /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 43\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: smuggled\r\n\r\n!!");
        assert_eq!(client.response("HEAD").status, 200, "{kind}");
        client.expect_kept("/pong");
    }
}

#[test]
fn trailers_never_become_fields() {
    for (kind, server) in both() {
        let mut client = server.client();
        let response = client.ask(
            "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Admin\r\n\r\n\
             3\r\nabc\r\n0\r\nX-Admin: yes\r\nContent-Length: 50\r\nHost: other\r\n\r\n",
        );
        // Refused or dropped: both keep them out of the head.
        if response.status == 200 {
            assert!(!response.text().to_lowercase().contains("yes"), "{kind}: {}", response.text());
            assert!(!response.text().contains("other"), "{kind}: {}", response.text());
            client.expect_kept("/pong");
        } else {
            assert_eq!(response.status, 400, "{kind}");
            client.expect_eof();
        }
    }
}

#[test]
fn hop_by_hop_fields_of_the_request_do_not_reach_the_app() {
    let request = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Named, Host, Cookie, Authorization, X-Forwarded-For\r\n\
                   X-Named: 1\r\nKeep-Alive: 300\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: h2c\r\n\
                   HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nProxy: http://evil/\r\nCookie: a=1\r\nAuthorization: Basic eA==\r\nX-Kept: 1\r\n\r\n";
    let seen = wsgi().ask(request).json();
    for gone in [
        "HTTP_X_NAMED",
        "HTTP_KEEP_ALIVE",
        "HTTP_PROXY_CONNECTION",
        "HTTP_TE",
        "HTTP_UPGRADE",
        "HTTP_PROXY",
        "HTTP_CONNECTION",
    ] {
        assert!(seen.get(gone).is_none(), "{gone}: {seen}");
    }
    // A Connection field cannot talk the server out of what routes, authenticates or identifies.
    for (name, value) in [
        ("HTTP_HOST", "a"),
        ("HTTP_COOKIE", "a=1"),
        ("HTTP_AUTHORIZATION", "Basic eA=="),
        ("HTTP_X_KEPT", "1"),
    ] {
        assert_eq!(seen[name], value, "{seen}");
    }
    let seen = asgi().ask(request).json();
    let names: Vec<String> = seen["headers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|pair| pair[0].as_str().unwrap_or("").to_owned())
        .collect();
    for gone in ["x-named", "keep-alive", "proxy-connection", "te", "upgrade", "proxy", "connection"] {
        assert!(!names.iter().any(|name| name == gone), "{gone}: {names:?}");
    }
    for kept in ["host", "cookie", "authorization", "x-kept"] {
        assert!(names.iter().any(|name| name == kept), "{kept}: {names:?}");
    }
}

#[test]
fn names_that_alias_in_cgi_are_dropped() {
    let seen = wsgi().ask("GET /echo HTTP/1.1\r\nHost: a\r\nX_User: evil\r\nX.User: evil\r\nContent_Length: 5\r\nX-User: good\r\n\r\n").json();
    assert_eq!(seen["HTTP_X_USER"], "good");
    assert!(!seen.to_string().contains("evil"), "{seen}");
    assert!(seen.get("CONTENT_LENGTH").is_none_or(|length| length == "" || length == "0"), "{seen}");
    let seen = asgi()
        .ask("GET /echo HTTP/1.1\r\nHost: a\r\nX_User: evil\r\nX.User: evil\r\nX-User: good\r\n\r\n")
        .json();
    assert!(seen.to_string().contains("good") && !seen.to_string().contains("evil"), "{seen}");
}

#[test]
fn repeated_fields_are_joined_for_wsgi_and_stay_apart_for_asgi() {
    let request =
        "GET /echo HTTP/1.1\r\nHost: a\r\nX-Many: 1\r\nCookie: a=1\r\nX-Many: 2\r\nCookie: b=2\r\n\r\n";
    let seen = wsgi().ask(request).json();
    assert_eq!(seen["HTTP_X_MANY"].as_str().map(|text| text.replace(' ', "")).as_deref(), Some("1,2"));
    assert_eq!(seen["HTTP_COOKIE"], "a=1; b=2");
    let seen = asgi().ask(request).json();
    let many: Vec<_> = seen["headers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|pair| pair[0] == "x-many")
        .map(|pair| pair[1].clone())
        .collect();
    assert_eq!(many, ["1", "2"]);
}

#[test]
fn an_application_cannot_split_its_response() {
    for (kind, server) in both() {
        for place in ["crlf", "lf", "cr", "nul", "double", "name"] {
            let mut client = server.client();
            let response = client.ask(format!("GET /split?where={place} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert!(matches!(response.status, 500 | 502), "{kind} {place}: {}", response.status);
            for stolen in ["set-cookie", "x-stolen"] {
                assert!(response.field(stolen).is_none(), "{kind} {place}: {:?}", response.fields);
            }
            after(&mut client, response.says_close());
        }
        assert_eq!(server.ask(keepwarm_tests::get("/pong")).text(), "pong", "{kind}: the worker lives");
    }
}

#[test]
fn an_application_cannot_split_its_status_line() {
    let mut client = wsgi().client();
    let response = client.ask("GET /reason-split HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(response.field("x-stolen").is_none(), "{:?}", response.fields);
    after(&mut client, response.says_close());
}

/// The connection is in the state which the response announced.
#[track_caller]
fn after(client: &mut Client, closes: bool) {
    if closes {
        client.expect_eof();
    } else {
        client.expect_kept("/pong");
    }
}

#[test]
fn a_response_shorter_than_its_length_is_never_completed() {
    for path in ["/too-short", "/raise-late"] {
        let mut client = wsgi().client();
        client.send(keepwarm_tests::get(path));
        match client.try_response("GET") {
            Err(Failure::Cut(_) | Failure::Reset(_) | Failure::Closed) => {}
            // The head had not left yet, so that an error could still be sent.
            Ok(response) => assert!(response.status >= 500, "{path}: {response:?}"),
            other => panic!("{path}: {other:?}\n{client}"),
        }
    }
    let mut client = asgi().client();
    client.send(keepwarm_tests::get("/raise-late"));
    match client.try_response("GET") {
        Err(Failure::Cut(_) | Failure::Reset(_) | Failure::Closed) => {}
        Ok(response) => assert!(response.status >= 500, "{response:?}"),
        other => panic!("{other:?}\n{client}"),
    }
}

#[test]
fn a_response_longer_than_its_length_is_cut_there() {
    let mut client = wsgi().client();
    let response = client.ask(keepwarm_tests::get("/too-long"));
    assert_eq!(response.text(), "pong");
    after(&mut client, response.says_close());
}

#[test]
fn bodies_of_204_and_head_responses_are_dropped() {
    for (kind, server) in both() {
        for request in [
            "GET /204-body HTTP/1.1\r\nHost: a\r\n\r\n",
            "HEAD /long HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /205-body HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            let mut client = server.client();
            client.send(format!("{request}GET /pong HTTP/1.1\r\nHost: a\r\n\r\n"));
            let method = &request[..request.find(' ').expect("a request line")];
            client.response(method);
            assert_eq!(client.response("GET").text(), "pong", "{kind}: {request}");
        }
    }
}

#[test]
fn a_client_that_pipelines_behind_a_tunnel_attempt_gets_no_tunnel() {
    // An upgrade to an unknown protocol is ignored, and the next request is a request.
    for (kind, server) in both() {
        let mut client = server.client();
        client.send(
            "GET /pong HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n\
             GET /pong HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        assert_eq!(client.response("GET").status, 200, "{kind}");
        assert_eq!(client.response("GET").status, 200, "{kind}");
    }
}
