//! Repeats the work of one message, for counting its instructions: `keepwarm-bench-micro CASE TIMES`.
//!
//! `bench/micro/run` runs each case twice under valgrind, with two numbers of times, and divides the difference: start-up and warm-up cancel out,
//! and the result does not depend on how busy the machine is.

use std::hint::black_box;
use std::process::ExitCode;

use http::Method;
use keepwarm_edge::{FixedResponse, PathPattern, Route, Site, Target};
use keepwarm_http1::{
    Event, Limits, RequestDecoder, RequestFacts, RequestHead, ResponseFacts, ResponseLength,
    encode_response_head, normalize_path, plan,
};
use keepwarm_wire::encode::RequestWriter;

/// What `wrk` sends.
const SMALL: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// What a browser sends.
const BROWSER: &[u8] = b"GET /shop/items?page=2&sort=price HTTP/1.1\r\n\
Host: shop.example\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-GB,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: https://shop.example/shop/items?page=1&sort=price\r\n\
Connection: keep-alive\r\n\
Cookie: session=6f1c1f0e4b3a4f0f9d0a2b1c; theme=dark; basket=3\r\n\
Upgrade-Insecure-Requests: 1\r\n\
Sec-Fetch-Dest: document\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-Site: same-origin\r\n\
\r\n";

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

type Case = (&'static str, fn(u32));

const CASES: [Case; 12] = [
    ("decode-small", |times| decode(SMALL, times)),
    ("decode-browser", |times| decode(BROWSER, times)),
    ("httparse-small", |times| httparse(SMALL, times)),
    ("httparse-browser", |times| httparse(BROWSER, times)),
    ("normalize-path", normalize),
    ("route-one", |times| route(&[], times)),
    ("route-few", |times| route(&few(4), times)),
    ("route-100", |times| route(&many(100), times)),
    ("route-1000", |times| route(&many(1000), times)),
    ("route-10000", |times| route(&many(10_000), times)),
    ("encode-response", encode_response),
    ("encode-wire-request", encode_wire_request),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, times) = (arguments.next(), arguments.next().and_then(|times| times.parse().ok()));
    let case = CASES.iter().find(|(case, _)| Some(*case) == name.as_deref());
    match (case, times) {
        (Some((_, run)), Some(times)) => {
            run(times);
            ExitCode::SUCCESS
        }
        _ => {
            for (case, _) in CASES {
                println!("{case}");
            }
            ExitCode::from(2)
        }
    }
}

/// A request's head, and the event that it has no body: what the driver asks for each request.
fn decode(input: &[u8], times: u32) {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut head = RequestHead::default();
    for _ in 0..times {
        let decoded = decoder.decode(black_box(input), &mut head);
        assert!(matches!(decoded, Ok(decoded) if decoded.event == Event::Head));
        let decoded = decoder.decode(&[], &mut head);
        assert!(matches!(decoded, Ok(decoded) if decoded.event == Event::End));
        black_box(&head);
    }
}

/// The same bytes through the usual tokeniser, which checks less and decides nothing: the yardstick of `decode`.
fn httparse(input: &[u8], times: u32) {
    for _ in 0..times {
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut fields);
        assert!(matches!(request.parse(black_box(input)), Ok(httparse::Status::Complete(_))));
        black_box(&request);
    }
}

fn normalize(times: u32) {
    let mut scratch = Vec::new();
    for _ in 0..times {
        assert!(black_box(normalize_path(black_box(b"/shop/items/latest"), &mut scratch)).is_ok());
    }
}

/// Finds the route for a path: the last but one of the list's, and a fallback for all paths comes last.
fn route(paths: &[String], times: u32) {
    let mut routes: Vec<Route> =
        paths.iter().map(|path| route_at(PathPattern::Prefix(path.clone()))).collect();
    routes.push(route_at(PathPattern::Any));
    let site = Site::new(routes, Vec::new());
    let path = paths.last().map_or("/shop/items/latest", String::as_str).to_owned() + "latest";
    for _ in 0..times {
        let found = site.route_of(black_box(b"shop.example:8080"), black_box(path.as_bytes()), &Method::GET);
        assert!(black_box(found).is_some());
    }
}

fn route_at(path: PathPattern) -> Route {
    let response = FixedResponse::new(200, None, &[], "").unwrap_or_else(|_| unreachable!("no field"));
    Route { path, ..Route::to(Target::Respond(response)) }
}

fn few(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("/shop{number}/")).collect()
}

/// As the routes of many tenants: a common beginning, then a name.
fn many(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("/tenants/t{number}/")).collect()
}

/// The decision about framing and persistence, and the head of a small response.
fn encode_response(times: u32) {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut head = RequestHead::default();
    assert!(decoder.decode(SMALL, &mut head).is_ok());
    let fields: [(&[u8], &[u8]); 3] =
        [(b"Content-Type", b"text/plain"), (b"Cache-Control", b"no-store"), (b"X-Frame-Options", b"DENY")];
    let mut out = Vec::with_capacity(1024);
    for _ in 0..times {
        out.clear();
        let facts = ResponseFacts {
            status: 200,
            length: ResponseLength::Known(13),
            close: false,
            first_on_connection: false,
            idle_timeout_secs: 75,
            trailers: false,
        };
        let plan = plan(RequestFacts::of(black_box(&head)), black_box(facts));
        encode_response_head(&mut out, 200, &plan, black_box(fields).into_iter(), Some(DATE));
        black_box(&out);
    }
}

/// The browser's request as a frame for a worker.
fn encode_wire_request(times: u32) {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut head = RequestHead::default();
    assert!(decoder.decode(BROWSER, &mut head).is_ok());
    let fixed: [&[u8]; 11] = [
        b"GET",
        b"HTTP/1.1",
        b"http",
        b"/shop/items",
        b"/shop/items",
        b"page=2&sort=price",
        b"",
        b"shop.example",
        b"8080",
        b"127.0.0.1",
        b"52144",
    ];
    let mut out = Vec::with_capacity(4096);
    for _ in 0..times {
        out.clear();
        let mut writer = RequestWriter::begin(&mut out, 1, Some(0));
        for string in fixed {
            writer.string(black_box(string));
        }
        for (name, value) in head.fields.iter() {
            writer.field(name, value);
        }
        assert!(writer.finish(0x01).is_ok());
        black_box(&out);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_works() {
        for (_, run) in super::CASES {
            run(3);
        }
    }
}
