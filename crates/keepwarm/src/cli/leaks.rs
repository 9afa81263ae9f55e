//! `keepwarm leaks`.

use std::ops::RangeInclusive;

use clap::Args;

use super::InstanceSelector;
use crate::leaks::{REQUESTS, SECONDS};

pub(super) const ABOUT: &str = "Show what an app keeps between requests, and by which route

One worker of the app counts what it holds after each of its requests: objects by type, the lengths of the containers of its modules and classes, and memory \
by the line that allocated it. What grows in more than half of the requests of a route is kept. The first 3 requests of each route are left out: they fill \
caches. The other workers serve as always. The measured worker takes one request at a time, and each takes longer.

Waits for requests of clients. Ctrl-C ends it early and reports what there is.

Exit status: 0 nothing is kept, 1 it cannot tell (too few requests, no such app, no worker that can be measured), 2 the command line is wrong, 3 something is kept.";

#[derive(Debug, Args)]
pub(crate) struct Leaks {
    /// App to measure
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    /// Requests to measure, 8 to 10000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = within(REQUESTS))]
    pub(crate) requests: u32,
    /// Seconds to wait for them, 1 to 3600
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = within(SECONDS))]
    pub(crate) seconds: u32,
    /// Route to report, by its pattern in the configuration
    #[arg(
        long,
        value_name = "PATTERN",
        help = "Route to report, by its pattern in the configuration, as `/search/*` [default: all]"
    )]
    pub(crate) route: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

fn within(range: RangeInclusive<u32>) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*range.start())..=i64::from(*range.end()))
}
