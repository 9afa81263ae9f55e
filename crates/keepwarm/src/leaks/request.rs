//! What the command sends to the instance: `leaks REQUESTS SECONDS APP [ROUTE]`.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Requests that are measured. The least has a verdict in it (`totals::ENOUGH`); of more than a few thousand, nothing new comes.
pub(crate) const REQUESTS: RangeInclusive<u32> = 8..=10_000;
/// Seconds that they have to come.
pub(crate) const SECONDS: RangeInclusive<u32> = 1..=3_600;

/// A search, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaksRequest {
    pub(crate) app: String,
    pub(crate) requests: u32,
    pub(crate) seconds: u32,
    /// Only requests of this route.
    pub(crate) route: Option<String>,
}

impl LeaksRequest {
    /// The line for the control socket.
    pub(crate) fn line(&self) -> String {
        let Self { app, requests, seconds, route } = self;
        match route {
            Some(route) => format!("leaks {requests} {seconds} {app} {route}"),
            None => format!("leaks {requests} {seconds} {app}"),
        }
    }

    /// The line without its first word.
    pub(crate) fn parse(rest: &str) -> Option<Self> {
        let mut words = rest.splitn(4, ' ');
        let requests = words.next()?.parse().ok().filter(|requests| REQUESTS.contains(requests))?;
        let seconds = words.next()?.parse().ok().filter(|seconds| SECONDS.contains(seconds))?;
        let app = words.next().filter(|app| !app.is_empty())?.to_owned();
        let route = words.next().filter(|route| !route.is_empty()).map(str::to_owned);
        Some(Self { app, requests, seconds, route })
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Whether a request of this route (`GET /cart`) is meant.
    pub(crate) fn wants(&self, route: &str) -> bool {
        let Some(wanted) = &self.route else { return true };
        route.split_once(' ').is_some_and(|(_, pattern)| pattern == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for route in [None, Some("/search/*".to_owned()), Some("/a b".to_owned())] {
            let request = LeaksRequest { app: "shop".to_owned(), requests: 100, seconds: 60, route };
            let line = request.line();
            assert_eq!(LeaksRequest::parse(line.strip_prefix("leaks ").unwrap()), Some(request));
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_no_request() {
        for rest in [
            "",
            "100",
            "100 60",
            "100 60 ",
            "7 60 shop",
            "10001 60 shop",
            "100 0 shop",
            "100 3601 shop",
            "x 60 shop",
        ] {
            assert_eq!(LeaksRequest::parse(rest), None, "{rest}");
        }
    }

    #[test]
    fn a_route_is_meant_by_its_pattern() {
        let request = LeaksRequest::parse("100 60 shop /cart").unwrap();
        assert!(request.wants("GET /cart") && request.wants("POST /cart"));
        assert!(!request.wants("GET /cart/*") && !request.wants("/cart"));
        assert!(LeaksRequest::parse("100 60 shop").unwrap().wants("GET /*"));
    }
}
