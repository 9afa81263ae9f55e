//! The command line of `keepwarm check`.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use keepwarm_doctor::{Probe, REQUESTS_PER_SECOND};

use super::InstanceSelector;

/// What it does, in full.
pub(super) const ABOUT: &str = "Check any HTTP server for known stalls, by its behavior on the wire. For each probe, the report has a verdict \
    (good, warning, bad, could not tell), the evidence, the cost, and what to do about it.\n\n\
    The check is polite: it first prints how many requests it will send. Unless options say otherwise, it uses safe methods only and sends nothing malformed. It does not need root.";

#[derive(Debug, Args)]
#[command(
    after_help = "`keepwarm check --help` lists the probes, examples and exit statuses.",
    after_long_help = long_help(),
)]
pub(crate) struct Check {
    /// URL to examine; give several to compare them
    #[arg(
        value_name = "URL",
        required_unless_present = "own",
        help = "URL to examine, for example https://shop.example/; give several to compare them"
    )]
    pub(crate) urls: Vec<String>,
    /// Examine the running Keepwarm instead of URLs: its listeners, upstreams and doors (`bind` addresses of upstreams)
    #[arg(long = "self", conflicts_with = "urls")]
    pub(crate) own: bool,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
    /// Print JSON: an object for one URL, an array for several
    #[arg(long)]
    pub(crate) json: bool,
    /// Run only these probes; may be repeated
    #[arg(long, value_name = "PROBE,…", value_delimiter = ',', value_parser = probe(), hide_possible_values = true)]
    pub(crate) only: Vec<Probe>,
    /// Skip these probes; may be repeated
    #[arg(long, value_name = "PROBE,…", value_delimiter = ',', value_parser = probe(), hide_possible_values = true)]
    pub(crate) skip: Vec<Probe>,
    /// Exit with status 1 if a verdict is this bad or worse
    #[arg(long, value_name = "VERDICT", help = "Exit with status 1 if a verdict is this bad or worse")]
    pub(crate) fail_on: Option<FailOn>,
    /// Show all findings, also the good ones, and the traffic on the wire (on standard error)
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Header to send with every request, for example 'Authorization: Bearer x'; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Method of ordinary requests: GET, HEAD, OPTIONS, or POST together with --post
    #[arg(long, value_name = "METHOD", value_parser = ["GET", "HEAD", "OPTIONS", "POST"], hide_possible_values = true)]
    pub(crate) method: Option<String>,
    /// Body to send where a probe needs one: a text, or @FILE
    #[arg(long, value_name = "TEXT|@FILE", value_parser = body)]
    pub(crate) body: Option<Body>,
    /// Use ADDRESS for HOST:PORT instead of resolving the name; may be repeated
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = resolve)]
    pub(crate) resolve: Vec<(String, u16, IpAddr)>,
    /// Accept a certificate that cannot be verified, and report it
    #[arg(long, short = 'k')]
    pub(crate) insecure: bool,
    /// File of certificate authorities (PEM) to trust in addition to the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<String>,
    /// Client certificate (PEM) for a server that requests one; needs --key
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<String>,
    /// Private key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<String>,
    /// Timeout of a single step
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub(crate) timeout: Duration,
    /// Maximum number of requests per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = REQUESTS_PER_SECOND)]
    pub(crate) rate: u32,
    /// Path that may be requested with POST; without it, only safe methods are used
    #[arg(long, value_name = "PATH", value_parser = path)]
    pub(crate) post: Option<String>,
    /// Also measure when an idle connection is closed, which takes minutes
    #[arg(long)]
    pub(crate) slow: bool,
    /// Also send malformed messages, which could harm a fragile server
    #[arg(long)]
    pub(crate) intrusive: bool,
    /// URL that directly reaches a server behind the first one; may be repeated, outermost first
    #[arg(long, value_name = "URL")]
    pub(crate) via: Vec<String>,
}

/// The least verdict that the exit status reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    Warning,
    Bad,
}

/// What `--body` gives.
#[derive(Debug, Clone)]
pub(crate) struct Body(pub(crate) Vec<u8>);

/// The probes, examples, and what the exit status says.
fn long_help() -> String {
    let mut help = String::from("Probes:\n");
    for probe in Probe::ALL {
        let _ = writeln!(help, "  {:<14} {}", probe.id(), probe.title());
    }
    help.push_str(
        "\nExamples:\n  \
         keepwarm check https://shop.example/\n  \
         keepwarm check https://shop.example/ http://10.0.0.7:8080/   a load balancer and the server behind it\n  \
         keepwarm check https://shop.example/ --only expect,writes -v   with the traffic on the wire\n  \
         keepwarm check https://shop.example/ --json --fail-on warning   for CI\n  \
         keepwarm check https://shop.example/ --resolve shop.example:443:10.0.0.7\n  \
         keepwarm check https://shop.example/ --via http://10.0.0.7:8080/   which timeout is longer\n  \
         keepwarm check --self   what this machine's Keepwarm serves and calls\n\n\
         Exit statuses:\n  \
         0  nothing was found that --fail-on selects\n  \
         1  something was found that --fail-on selects\n  \
         2  the command line is wrong\n  \
         3  a server sent no complete response to an ordinary request; --self: no running Keepwarm was found",
    );
    help
}

fn probe() -> impl TypedValueParser<Value = Probe> {
    let ids = Probe::ALL.map(|probe| PossibleValue::new(probe.id()).help(probe.title()));
    PossibleValuesParser::new(ids)
        .try_map(|id| Probe::named(&id).ok_or_else(|| format!("unknown probe {id}")))
}

/// Fields that the probes set themselves: one of another hand would spoil what they look at.
const OURS: &[&str] =
    &["connection", "content-length", "expect", "keep-alive", "te", "transfer-encoding", "upgrade"];

fn header(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once(':') else {
        return Err("expected a name, a colon and a value, for example 'Accept-Language: en'".to_owned());
    };
    let value = value.trim_matches([' ', '\t']);
    // RFC 9110 §5.6.2: what a token is made of.
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(format!(
            "{name:?} is not a header name: expected letters, digits and hyphens before the colon"
        ));
    }
    if value.chars().any(|c| c != '\t' && c.is_control()) {
        return Err("a header value must not contain control characters, such as line ends".to_owned());
    }
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) {
        return Err(format!("{name} is a header that the probes set themselves; any other may be given"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn body(text: &str) -> Result<Body, String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(Body(text.as_bytes().to_vec())) };
    std::fs::read(file).map(Body).map_err(|error| format!("cannot read {file}: {error}"))
}

fn resolve(text: &str) -> Result<(String, u16, IpAddr), String> {
    let expected = "expected HOST:PORT:ADDRESS, for example shop.example:443:192.0.2.7";
    let parts: Vec<&str> = text.splitn(3, ':').collect();
    let &[host, port, address] = parts.as_slice() else { return Err(expected.to_owned()) };
    if host.is_empty() {
        return Err(expected.to_owned());
    }
    let port: u16 = port
        .parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("the port {port:?} is not a number from 1 to 65535; {expected}"))?;
    let address = address
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .map_err(|_| format!("{address:?} is not an IPv4 or IPv6 address; {expected}"))?;
    Ok((host.to_owned(), port, address))
}

/// `5s`, `500ms`, `2m`; a number alone is seconds, as with other clients.
fn time(text: &str) -> Result<Duration, String> {
    let expected = "expected a time from 50ms to 10m, for example 500ms, 5s or 2.5";
    let (number, unit) = match text {
        _ if text.ends_with("ms") => (text.trim_end_matches("ms"), 1e-3),
        _ if text.ends_with('s') => (text.trim_end_matches('s'), 1.0),
        _ if text.ends_with('m') => (text.trim_end_matches('m'), 60.0),
        _ => (text, 1.0),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| expected.to_owned())? * unit;
    // NaN lies in no range, either.
    match (0.05..=600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(expected.to_owned()),
    }
}

fn path(text: &str) -> Result<String, String> {
    let valid = text.starts_with('/')
        && !text.contains('#')
        && text.parse::<http::Uri>().is_ok_and(|uri| uri.authority().is_none());
    match valid {
        true => Ok(text.to_owned()),
        false => Err("expected a path that begins with /, for example /api/echo?x=1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_apart() {
        assert_eq!(header("X-A:  b c "), Ok(("X-A".to_owned(), "b c".to_owned())));
        let address: IpAddr = "::1".parse().expect("an address");
        assert_eq!(resolve("shop.example:443:[::1]"), Ok(("shop.example".to_owned(), 443, address)));
        assert_eq!(resolve("shop.example:443:::1"), Ok(("shop.example".to_owned(), 443, address)));
        for (text, milliseconds) in [("500ms", 500), ("5s", 5000), ("2.5", 2500), ("2m", 120_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(path("/a?b=c"), Ok("/a?b=c".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (error, part) in [
            (header("Accept").map(drop), "a colon"),
            (header("A b: c").map(drop), "\"A b\" is not a header name"),
            (header(": c").map(drop), "not a header name"),
            (header("A: b\r\nC: d").map(drop), "control characters"),
            (header("Content-length: 5").map(drop), "set themselves"),
            (resolve("shop.example:443").map(drop), "HOST:PORT:ADDRESS"),
            (resolve("shop.example:x:127.0.0.1").map(drop), "\"x\""),
            (resolve("shop.example:443:localhost").map(drop), "\"localhost\" is not"),
            (time("soon").map(drop), "a time"),
            (time("0").map(drop), "a time"),
            (time("nan").map(drop), "a time"),
            (time("1h").map(drop), "a time"),
            (path("echo").map(drop), "begins with /"),
            (path("http://shop.example/echo").map(drop), "begins with /"),
            (path("/a b").map(drop), "begins with /"),
        ] {
            let error = error.expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
