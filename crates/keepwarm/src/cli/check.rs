//! The command line of `keepwarm check`.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use keepwarm_doctor::{Probe, REQUESTS_PER_SECOND};

use super::InstanceSelector;

/// What it does, in full.
pub(super) const ABOUT: &str = "Examines any HTTP server for the known stalls, by what is seen on the wire. For each probe the report has a verdict \
    (good, warning, bad, could not tell), the evidence, what it costs, and what to do about it.\n\n\
    It is polite: it says first how much it will ask, uses safe methods only and sends nothing malformed, unless told otherwise. It needs no rights of root.";

#[derive(Debug, Args)]
#[command(
    after_help = "`keepwarm check --help` lists the probes, with examples and exit statuses.",
    after_long_help = long_help(),
)]
pub(crate) struct Check {
    /// What to examine; several are shown side by side
    #[arg(
        value_name = "URL",
        required_unless_present = "own",
        help = "What to examine, for example https://shop.example/; several are shown side by side"
    )]
    pub(crate) urls: Vec<String>,
    /// Examine the running Keepwarm in place of URLs: its listeners, its doors and its upstreams
    #[arg(long = "self", conflicts_with = "urls")]
    pub(crate) own: bool,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
    /// As JSON: an object for one URL, an array for several
    #[arg(long)]
    pub(crate) json: bool,
    /// Only these probes; may be repeated
    #[arg(long, value_name = "PROBE,…", value_delimiter = ',', value_parser = probe(), hide_possible_values = true)]
    pub(crate) only: Vec<Probe>,
    /// All but these probes; may be repeated
    #[arg(long, value_name = "PROBE,…", value_delimiter = ',', value_parser = probe(), hide_possible_values = true)]
    pub(crate) skip: Vec<Probe>,
    /// End with status 1 if anything is as bad as this, or worse
    #[arg(long, value_name = "VERDICT", help = "End with status 1 if anything is as bad as this or worse")]
    pub(crate) fail_on: Option<FailOn>,
    /// Show what goes over the wire (on standard error), and every finding, the good ones too
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// A field to send with every request, for example 'Authorization: Bearer x'; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// The method of ordinary requests: GET, HEAD, OPTIONS, or POST together with --post
    #[arg(long, value_name = "METHOD", value_parser = ["GET", "HEAD", "OPTIONS", "POST"], hide_possible_values = true)]
    pub(crate) method: Option<String>,
    /// What is sent where a probe needs a body: a text, or @FILE
    #[arg(long, value_name = "TEXT|@FILE", value_parser = body)]
    pub(crate) body: Option<Body>,
    /// An address to use in place of what the name resolves to; may be repeated
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = resolve)]
    pub(crate) resolve: Vec<(String, u16, IpAddr)>,
    /// Accept a certificate that cannot be verified, and report it
    #[arg(long, short = 'k')]
    pub(crate) insecure: bool,
    /// A file of authorities (PEM) to believe besides the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<String>,
    /// A client certificate (PEM), with its key, for a server that asks for one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<String>,
    /// The key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<String>,
    /// How long a single step may take
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub(crate) timeout: Duration,
    /// Requests a second, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = REQUESTS_PER_SECOND)]
    pub(crate) rate: u32,
    /// A path that may be asked by POST; without it, only safe methods are used
    #[arg(long, value_name = "PATH", value_parser = path)]
    pub(crate) post: Option<String>,
    /// Also measure what takes minutes: when an idle connection is closed
    #[arg(long)]
    pub(crate) slow: bool,
    /// Also send malformed messages, which could harm a server that is fragile
    #[arg(long)]
    pub(crate) intrusive: bool,
    /// A URL that reaches a server behind the first one directly, outermost first; may be repeated
    #[arg(long, value_name = "URL")]
    pub(crate) via: Vec<String>,
}

/// From which verdict on the exit status tells.
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
         keepwarm check https://shop.example/ http://10.0.0.7:8080/   a balancer and what is behind it\n  \
         keepwarm check https://shop.example/ --only expect,writes -v   with all that goes over the wire\n  \
         keepwarm check https://shop.example/ --json --fail-on warning   for CI\n  \
         keepwarm check https://shop.example/ --resolve shop.example:443:10.0.0.7\n  \
         keepwarm check https://shop.example/ --via http://10.0.0.7:8080/   whose time-out is longer\n  \
         keepwarm check --self   what this machine's Keepwarm serves and calls\n\n\
         Exit statuses:\n  \
         0  examined, and nothing was found that --fail-on asks for\n  \
         1  found what --fail-on asks for\n  \
         2  the command line is wrong\n  \
         3  a server gave no whole response to an ordinary request; --self: no Keepwarm runs",
    );
    help
}

fn probe() -> impl TypedValueParser<Value = Probe> {
    let ids = Probe::ALL.map(|probe| PossibleValue::new(probe.id()).help(probe.title()));
    PossibleValuesParser::new(ids)
        .try_map(|id| Probe::named(&id).ok_or_else(|| format!("there is no probe {id}")))
}

/// Fields that the probes set themselves: one of another hand would spoil what they look at.
const OURS: &[&str] =
    &["connection", "content-length", "expect", "keep-alive", "te", "transfer-encoding", "upgrade"];

fn header(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once(':') else {
        return Err("a name, a colon and a value are expected, for example 'Accept-Language: en'".to_owned());
    };
    let value = value.trim_matches([' ', '\t']);
    // RFC 9110 §5.6.2: what a token is made of.
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(format!(
            "{name:?} is no name of a field: letters, digits and hyphens are expected before the colon"
        ));
    }
    if value.chars().any(|c| c != '\t' && c.is_control()) {
        return Err("a value may hold no control characters, such as line ends".to_owned());
    }
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) {
        return Err(format!("{name} is what the probes set themselves; any other field may be given"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn body(text: &str) -> Result<Body, String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(Body(text.as_bytes().to_vec())) };
    std::fs::read(file).map(Body).map_err(|error| format!("the file {file}: {error}"))
}

fn resolve(text: &str) -> Result<(String, u16, IpAddr), String> {
    let expected = "HOST:PORT:ADDRESS is expected, for example shop.example:443:192.0.2.7";
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
    let expected = "a time from 50ms to 10m is expected, for example 500ms, 5s or 2.5";
    let (number, unit) = match text {
        _ if text.ends_with("ms") => (text.trim_end_matches("ms"), 1e-3),
        _ if text.ends_with('s') => (text.trim_end_matches('s'), 1.0),
        _ if text.ends_with('m') => (text.trim_end_matches('m'), 60.0),
        _ => (text, 1.0),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| expected.to_owned())? * unit;
    // Also what is no number at all lies in no range.
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
        false => Err("a path is expected, which begins with /, for example /api/echo?x=1".to_owned()),
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
            (header("A b: c").map(drop), "\"A b\" is no name"),
            (header(": c").map(drop), "no name"),
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
