//! `keepwarm profile`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;

use super::InstanceSelector;
use crate::profile::{HERTZ, SECONDS};

pub(super) const ABOUT: &str = "Show where an app's time goes: a flame graph of its requests

The workers of the app note where each request is, 100 times a second, in the functions of the app's own language. They keep serving; nothing is restarted. \
Each stack begins with the route and the phase of its request. Orange computes, blue waits.

Prints the time of each route and the functions with the most time of their own, and writes the graph. Ctrl-C ends the profile early and keeps what there is.

Exit status: 0 written, 1 there is nothing to write (no samples, no such app, no worker that can be profiled), 2 the command line is wrong.";

#[derive(Debug, Args)]
pub(crate) struct Profile {
    /// App to profile
    #[arg(value_name = "APP")]
    pub(crate) app: String,
    /// Seconds to profile, 1 to 600
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = within(SECONDS))]
    pub(crate) seconds: u32,
    /// Samples a second, 10 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = within(HERTZ))]
    pub(crate) hz: u32,
    /// Route to profile, by its pattern in the configuration
    #[arg(
        long,
        value_name = "PATTERN",
        help = "Route to profile, by its pattern in the configuration, as `/search/*` [default: all]"
    )]
    pub(crate) route: Option<String>,
    /// File for the flame graph (SVG)
    #[arg(long, value_name = "FILE", help = "File for the flame graph (SVG) [default: profile-APP.svg]")]
    pub(crate) output: Option<PathBuf>,
    /// File for the stacks: a line for each, with its number of samples, as `flamegraph.pl` reads them
    #[arg(long, value_name = "FILE")]
    pub(crate) collapsed: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}

fn within(range: RangeInclusive<u32>) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*range.start())..=i64::from(*range.end()))
}
