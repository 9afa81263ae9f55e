//! Redirects: whether they are followed, and what is reported about them.

use std::fmt::Write as _;

use crate::client::Response;
use crate::finding::Finding;
use crate::settings::Settings;
use crate::target::Target;

const ID: &str = "reach.redirects";

/// Fields that are meant for one server, and are not shown to another that it names: as `curl` does.
const SECRETS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// The redirect in a response, if any.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Nothing: it is the response.
    None,
    /// To there.
    To(Target),
    /// To somewhere that cannot be examined, so that this response is.
    Elsewhere(Finding),
}

/// Where the response says to go.
pub(super) fn of(target: &Target, response: &Response) -> Redirect {
    let Some(status @ (301 | 302 | 303 | 307 | 308)) = response.status() else { return Redirect::None };
    let Some(location) = response.field("location") else {
        let evidence = format!("{target}: {status} without a Location header: no client can follow it");
        return Redirect::Elsewhere(mended(Finding::warning(ID, evidence)));
    };
    match resolve(target, &escape(&location)) {
        Ok(next) => Redirect::To(next),
        Err(_) if has_other_scheme(&location) => Redirect::Elsewhere(Finding::good(
            ID,
            format!(
                "{target}: {status} to {}, which is not HTTP; this response was checked",
                shown(&location)
            ),
        )),
        Err(why) => {
            let evidence =
                format!("{target}: {status} to \"{}\", which no client can follow ({why})", shown(&location));
            Redirect::Elsewhere(mended(Finding::bad(ID, evidence)))
        }
    }
}

/// RFC 3986 §5.2, without the dots: a server that is redirected to sees to those by itself.
fn resolve(target: &Target, location: &str) -> Result<Target, String> {
    let path = match location {
        whole if whole.contains("://") && !whole.starts_with(['/', '?', '#']) => {
            // `unix:` is for the command line, not for servers that redirect.
            let parsed = Target::parse(whole).map_err(|why| why.to_string())?;
            return if parsed.socket.is_none() { Ok(parsed) } else { Err("not a valid URL".to_owned()) };
        }
        network if network.starts_with("//") => {
            return Target::parse(&format!("{}:{network}", target.scheme.name()))
                .map_err(|why| why.to_string());
        }
        other if has_other_scheme(other) => return Err("not http or https".to_owned()),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        "" => target.path.clone(),
        query if query.starts_with('?') => {
            format!("{}{query}", target.path.split('?').next().unwrap_or("/"))
        }
        fragment if fragment.starts_with('#') => target.path.clone(),
        relative => {
            let base = target.path.split('?').next().unwrap_or("/");
            let directory = base.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{directory}/{relative}")
        }
    };
    target.with_path(&path).map_err(|why| why.to_string())
}

/// Whether it is a URL of something else than HTTP (RFC 3986 §3.1).
fn has_other_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|char: char| char.is_ascii_alphabetic())
        && scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char));
    is_scheme && !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str())
}

/// Escapes characters that should have been escaped, as browsers do.
fn escape(location: &str) -> String {
    let mut escaped = String::new();
    for byte in location.trim().bytes() {
        match byte {
            b' ' | 0x80.. => {
                // Into a string nothing fails.
                let _ = write!(escaped, "%{byte:02X}");
            }
            _ => escaped.push(char::from(byte)),
        }
    }
    escaped
}

fn shown(location: &str) -> String {
    location.chars().take(100).collect::<String>().escape_debug().to_string()
}

fn mended(finding: Finding) -> Finding {
    finding.with_fix("Have the app send a Location with a valid URL or path.")
}

/// From now on another server is asked.
pub(super) fn keep_secrets(settings: &mut Settings) {
    settings.headers.retain(|(name, _)| {
        !SECRETS.contains(&name.to_ascii_lowercase().as_str()) && !name.eq_ignore_ascii_case("host")
    });
}

/// That redirects were followed.
pub(super) fn led(asked: &Target, hops: usize, to: &Target) -> Option<Finding> {
    (hops > 0).then(|| {
        let words = if hops == 1 { "one redirect".to_owned() } else { format!("{hops} redirects") };
        Finding::good(ID, format!("{words} from {asked} to {to}, which was checked"))
    })
}

/// A fault there, with the redirects that led there.
pub(super) fn after(way: &[Target], mut finding: Finding) -> Finding {
    if !way.is_empty() {
        let way: Vec<String> = way.iter().map(Target::to_string).collect();
        finding.evidence = format!("{} (redirected from {})", finding.evidence, way.join(", then from "));
    }
    finding
}

/// Redirects that lead back, or on and on.
pub(super) fn circle(way: &[Target], next: &Target) -> Finding {
    let names: Vec<String> = way.iter().chain([next]).map(Target::to_string).collect();
    let how = if way.contains(next) { "form a circle" } else { "do not end" };
    Finding::bad(ID, format!("redirects {how}: {}", names.join(" → "))).with_fix("Have the server, or the proxy in front of it, redirect only once; behind a proxy that terminates TLS, have the app trust X-Forwarded-Proto.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(target: &Target, location: &str) -> Redirect {
        of(target, &Response::for_tests(302, &[("Location", location)]))
    }

    #[test]
    fn a_location_is_taken_relative_to_the_target() {
        let target = Target::parse("http://shop.example:8080/a/b?c=d").expect("a target");
        for (location, whole) in [
            ("https://other.example/x", "https://other.example/x"),
            ("//other.example/x", "http://other.example/x"),
            ("/x?y", "http://shop.example:8080/x?y"),
            ("/x?to=http://other.example/", "http://shop.example:8080/x?to=http://other.example/"),
            ("x", "http://shop.example:8080/a/x"),
            ("?z=1", "http://shop.example:8080/a/b?z=1"),
            ("#here", "http://shop.example:8080/a/b?c=d"),
            ("/ü x", "http://shop.example:8080/%C3%BC%20x"),
        ] {
            let Redirect::To(next) = to(&target, location) else { panic!("{location}") };
            assert_eq!(next.to_string(), whole);
        }
        let response = Response::for_tests(304, &[("Location", "/")]);
        assert_eq!(of(&target, &response), Redirect::None);
        let socket = Target::parse("unix:/run/app.sock:/a").expect("a target");
        let Redirect::To(next) = to(&socket, "/b") else { panic!("a path is followed") };
        assert_eq!(next.to_string(), "unix:/run/app.sock:/b");
    }

    #[test]
    fn what_cannot_be_followed_is_told() {
        use crate::Verdict::{Bad, Good, Warning};
        let target = Target::parse("http://shop.example/").expect("a target");
        for (location, verdict) in [
            ("http://", Bad),
            ("http://:80:80/", Bad),
            ("http://a b/", Bad),
            ("http://unix:/etc/passwd", Bad),
            ("https://x:99999/", Bad),
            ("shop://callback", Good),
            ("mailto:shop@shop.example", Good),
        ] {
            let Redirect::Elsewhere(finding) = to(&target, location) else { panic!("{location}") };
            assert_eq!(finding.verdict, verdict, "{location}: {}", finding.evidence);
        }
        let Redirect::Elsewhere(finding) = of(&target, &Response::for_tests(301, &[])) else { panic!() };
        assert_eq!(finding.verdict, Warning);
    }

    #[test]
    fn another_server_is_not_told_secrets() {
        let field = |name: &str| (name.to_owned(), "x".to_owned());
        let mut settings = Settings {
            headers: vec![field("Authorization"), field("X-Debug"), field("Cookie"), field("HOST")],
            ..Settings::default()
        };
        keep_secrets(&mut settings);
        assert_eq!(settings.headers, [field("X-Debug")]);
    }
}
