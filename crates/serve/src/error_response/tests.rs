use super::*;

fn accepted(accept: &[&str]) -> Format {
    Format::accepted(accept.iter().map(|line| line.as_bytes()))
}

#[test]
fn the_format_is_the_one_the_client_wants_most() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
    let cases: [(&[&str], Format); 17] = [
        (&[], Format::Text),
        (&[""], Format::Text),
        (&["*/*"], Format::Text),
        (&["text/*"], Format::Text),
        (&[browser], Format::Html),
        (&["application/json"], Format::Json),
        (&["application/*"], Format::Json),
        (&["application/problem+json"], Format::ProblemJson),
        (&["application/json, text/plain, */*"], Format::Json),
        (&["APPLICATION/JSON;charset=utf-8"], Format::Json),
        (&["application/json;q=0.5, text/html;q=0.9"], Format::Html),
        (&["application/json;q=0.901 , text/html; Q=0.9"], Format::Json),
        (&["text/plain;q=0, */*"], Format::Html),
        (&["text/plain;q=0.1, */*;q=0.2"], Format::Html),
        (&["image/png"], Format::Text),
        (&["image/png", "text/html;q=0.3"], Format::Html),
        (&["text/html;q=0.0, application/json;q=0"], Format::Text),
    ];
    for (accept, expected) in cases {
        assert_eq!(accepted(accept), expected, "{accept:?}");
    }
}

#[test]
fn a_malformed_weight_counts_as_none() {
    for weight in ["", "2", "1.5", "0.1234", "0.x", "-1", "1"] {
        let accept = format!("text/html;q={weight}, application/json;q=0.999");
        assert_eq!(accepted(&[&accept]), Format::Html, "{accept}");
    }
}

const DETAIL: &str = "No route matches <this> & \"that\".";

fn rendered(format: Format) -> String {
    let id = RequestId::new(7).to_string();
    let body = render(format, (404, "no_route", DETAIL), None, RequestId::new(7));
    String::from_utf8(body).unwrap().replace(&id, "ID")
}

#[test]
fn text() {
    assert_eq!(
        rendered(Format::Text),
        "404 Not Found\nNo route matches <this> & \"that\".\nRequest id: ID\n"
    );
}

#[test]
fn html() {
    assert_eq!(
        rendered(Format::Html),
        "<!doctype html>\n\
         <html lang=\"en\"><meta charset=\"utf-8\"><title>404 Not Found</title>\n\
         <h1>404 Not Found</h1>\n\
         <p>No route matches &lt;this&gt; &amp; &quot;that&quot;.</p>\n\
         <p>Request id: <code>ID</code></p>\n\
         </html>\n"
    );
}

#[test]
fn json() {
    let expected = "{\"status\":404,\"title\":\"Not Found\",\"detail\":\"No route matches <this> & \\\"that\\\".\",\
                    \"reason\":\"no_route\",\"request_id\":\"ID\"}\n";
    assert_eq!(rendered(Format::Json), expected);
    assert_eq!(rendered(Format::ProblemJson), expected);
}
