//! Reaching the server, before anything is examined: its addresses, a connection, the first answer, redirects.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustls::ALL_VERSIONS;

use crate::budget::Budget;
use crate::examine::Watcher;
use crate::finding::Finding;
use crate::patient::{Patient, ask};
use crate::server::Server;
use crate::settings::Settings;
use crate::target::Target;
use crate::wire::{Answer, Failure, Line, Trust, client_config};

/// Redirects that are followed, at most: what `curl` follows by default is 50, what any sound site needs is two.
const REDIRECTS: usize = 5;

/// The server, and where the redirects led to it.
pub(crate) struct Reached {
    pub(crate) patient: Patient,
    /// The URLs that redirected, first first.
    pub(crate) redirected: Vec<Target>,
}

/// Goes to the server.
///
/// # Errors
/// Why there is nothing to examine, with the evidence.
pub(crate) async fn reach(
    target: &Target,
    settings: &Settings,
    watcher: &Arc<dyn Watcher>,
) -> Result<Reached, Finding> {
    let mut redirected: Vec<Target> = Vec::new();
    let mut now = target.clone();
    loop {
        let patient = visit(&now, settings, watcher).await.map_err(|failure| unreachable(&now, &failure))?;
        if !patient.first.is_complete() {
            return Err(unanswered(&now, &patient.first));
        }
        let Some(next) = redirect(&now, &patient.first) else {
            return Ok(Reached { patient, redirected });
        };
        redirected.push(now);
        if redirected.contains(&next) || redirected.len() > REDIRECTS {
            return Err(circle(&redirected, &next));
        }
        now = next;
    }
}

async fn visit(target: &Target, settings: &Settings, watcher: &Arc<dyn Watcher>) -> Result<Patient, Failure> {
    let addresses = addresses(target, settings).await?;
    let tls = match target.is_encrypted() {
        true => {
            let trust = Trust {
                insecure: settings.insecure,
                versions: ALL_VERSIONS,
                alpn: vec![b"http/1.1".to_vec()],
            };
            Some(client_config(&trust)?)
        }
        false => None,
    };
    let budget = Budget::new(settings.rate);
    let mut failure = None;
    for (index, &address) in addresses.iter().enumerate() {
        let tls_here = tls.clone().map(|config| (target.host.as_str(), config));
        let permit = budget.connection().await;
        let opened = Line::open(address, tls_here, settings.timeout, 0, Arc::clone(watcher), permit).await;
        let mut line = match opened {
            Ok(line) => line,
            Err(error) => {
                failure.get_or_insert(error);
                continue;
            }
        };
        let request = ask(target, settings, &settings.method);
        budget.request().await;
        line.begin(&request);
        // Whatever it says to half of a request is an answer, too.
        let _ = line.send(&request.bytes()).await;
        let first = line.answer(settings.timeout).await;
        drop(line);
        let mut addresses = addresses.clone();
        addresses.swap(0, index);
        return Ok(Patient {
            target: target.clone(),
            settings: settings.clone(),
            addresses,
            server: first.head.as_ref().map_or(Server::Unknown, Server::recognise),
            first,
            budget,
            tls,
            watcher: Arc::clone(watcher),
            lines: AtomicU64::new(0),
        });
    }
    Err(failure.unwrap_or_else(|| Failure::Resolve {
        host: target.host.clone(),
        why: "it has no address".to_owned(),
    }))
}

/// The addresses of the target: those given, an address that stands in the URL, or what the system's resolver says.
async fn addresses(target: &Target, settings: &Settings) -> Result<Vec<SocketAddr>, Failure> {
    let given: Vec<SocketAddr> = settings
        .resolve
        .iter()
        .filter(|(host, port, _)| host.eq_ignore_ascii_case(&target.host) && *port == target.port)
        .map(|(_, port, address)| SocketAddr::new(*address, *port))
        .collect();
    if !given.is_empty() {
        return Ok(given);
    }
    if let Ok(address) = target.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, target.port)]);
    }
    let refuse = |why: String| Failure::Resolve { host: target.host.clone(), why };
    let looking = tokio::net::lookup_host((target.host.as_str(), target.port));
    match tokio::time::timeout(settings.timeout, looking).await {
        Ok(Ok(found)) => {
            let found: Vec<SocketAddr> = found.collect();
            match found.is_empty() {
                true => Err(refuse("it has no address".to_owned())),
                false => Ok(found),
            }
        }
        Ok(Err(error)) => Err(refuse(error.to_string())),
        Err(_) => Err(Failure::TimedOut("resolving the name", settings.timeout)),
    }
}

/// Where the answer says to go; nothing if it is no redirect that a client would follow by itself.
fn redirect(target: &Target, answer: &Answer) -> Option<Target> {
    if !matches!(answer.status()?, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = answer.field("location")?;
    if location.contains("://") {
        return Target::parse(&location).ok();
    }
    let path = match location.as_str() {
        network if network.starts_with("//") => {
            return Target::parse(&format!("{}:{network}", target.scheme.name())).ok();
        }
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        query if query.starts_with('?') => {
            format!("{}{query}", target.path.split('?').next().unwrap_or("/"))
        }
        relative => {
            let base = target.path.split('?').next().unwrap_or("/");
            let directory = base.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{directory}/{relative}")
        }
    };
    Target::parse(&format!("{}://{}{path}", target.scheme.name(), target.authority())).ok()
}

fn unreachable(target: &Target, failure: &Failure) -> Finding {
    let fix = match failure {
        Failure::Resolve { .. } => "Check the name, or pass --resolve HOST:PORT:ADDRESS.",
        Failure::Refused(_) => "Start the server, or check the port.",
        Failure::TimedOut(..) | Failure::Network(_) => {
            "Check that this machine may reach that address (firewall, route), or raise --timeout."
        }
        Failure::Tls(_) => "Mend the certificate or the protocol; --insecure examines the rest all the same.",
        Failure::Lost(_) => "Look into the server's log: it takes connections and drops them.",
    };
    let mut finding = Finding::bad("reach.connection", format!("{target}: {failure}"));
    finding.fix = Some(fix.to_owned());
    finding
}

fn unanswered(target: &Target, answer: &Answer) -> Finding {
    let mut finding = Finding::bad("reach.answer", format!("GET {target} over HTTP/1.1: {}", answer.words()));
    finding.fix = Some(
        "An ordinary request gets no whole answer, so there is nothing to compare with: mend that first."
            .to_owned(),
    );
    finding
}

fn circle(redirected: &[Target], next: &Target) -> Finding {
    let way: Vec<String> = redirected.iter().chain([next]).map(Target::to_string).collect();
    let mut finding =
        Finding::bad("reach.redirects", format!("redirects lead in a circle: {}", way.join(" → ")));
    finding.fix = Some("Have the server, or what stands in front of it, redirect once; behind a proxy that ends TLS, have the app believe X-Forwarded-Proto.".to_owned());
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_taken_relative_to_the_target() {
        let target = Target::parse("http://shop.example:8080/a/b?c=d").expect("a target");
        for (location, whole) in [
            ("https://other.example/x", "https://other.example/x"),
            ("//other.example/x", "http://other.example/x"),
            ("/x?y", "http://shop.example:8080/x?y"),
            ("x", "http://shop.example:8080/a/x"),
            ("?z=1", "http://shop.example:8080/a/b?z=1"),
        ] {
            let answer = crate::wire::Answer::for_tests(302, &[("Location", location)]);
            assert_eq!(redirect(&target, &answer).expect(location).to_string(), whole);
        }
        let answer = crate::wire::Answer::for_tests(304, &[("Location", "/")]);
        assert_eq!(redirect(&target, &answer), None);
    }
}
