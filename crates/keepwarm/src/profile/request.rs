//! What the command sends to the instance: `profile SECONDS HERTZ APP [ROUTE]`.

use std::time::Duration;

/// Seconds of a profile.
pub(crate) const SECONDS: std::ops::RangeInclusive<u32> = 1..=600;
/// Samples a second.
pub(crate) const HERTZ: std::ops::RangeInclusive<u32> = 10..=1000;

/// A profile, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProfileRequest {
    pub(crate) app: String,
    pub(crate) seconds: u32,
    pub(crate) hertz: u32,
    /// Only requests of this route.
    pub(crate) route: Option<String>,
}

impl ProfileRequest {
    /// The line for the control socket.
    pub(crate) fn line(&self) -> String {
        let Self { app, seconds, hertz, route } = self;
        match route {
            Some(route) => format!("profile {seconds} {hertz} {app} {route}"),
            None => format!("profile {seconds} {hertz} {app}"),
        }
    }

    /// The line without its first word.
    pub(crate) fn parse(rest: &str) -> Option<Self> {
        let mut words = rest.splitn(4, ' ');
        let seconds = words.next()?.parse().ok().filter(|seconds| SECONDS.contains(seconds))?;
        let hertz = words.next()?.parse().ok().filter(|hertz| HERTZ.contains(hertz))?;
        let app = words.next().filter(|app| !app.is_empty())?.to_owned();
        let route = words.next().filter(|route| !route.is_empty()).map(str::to_owned);
        Some(Self { app, seconds, hertz, route })
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Between two signals.
    pub(crate) fn period(&self) -> Duration {
        Duration::from_secs(1) / self.hertz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for route in [None, Some("/search/*".to_owned()), Some("/a b".to_owned())] {
            let request = ProfileRequest { app: "shop".to_owned(), seconds: 10, hertz: 100, route };
            assert_eq!(
                ProfileRequest::parse(request.line().strip_prefix("profile ").unwrap()),
                Some(request)
            );
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_no_request() {
        for rest in [
            "",
            "10",
            "10 100",
            "10 100 ",
            "0 100 shop",
            "601 100 shop",
            "10 9 shop",
            "10 1001 shop",
            "x 100 shop",
        ] {
            assert_eq!(ProfileRequest::parse(rest), None, "{rest}");
        }
    }
}
