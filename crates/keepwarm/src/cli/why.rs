//! `keepwarm why`.

use clap::Args;

use super::InstanceSelector;

pub(super) const ABOUT: &str = "Say what slows the running instance down, with evidence

Keepwarm compares the last 10 seconds with the hour before and names one cause for each app or upstream that is slow or fails, then the evidence. \
A healthy instance gets one line.

  WHY    the verdict and its evidence
  MEAN   where the time of a request goes, on average over the last 10 seconds
  NOW    the route whose requests hold the most workers
  SINCE  what has happened before: reloads, upgrades, changes of endpoints, breakers
  MEM    the worker that has grown the most in the last hour
  ROUTE  rate and times of each route, and the median of the hour before
  NEXT   what to do, and what will need attention

Exit status: 0 healthy, 1 something is wrong, 2 unknown (no instance responds, or it has no such app).
`keepwarm explain VERDICT` tells when a verdict is given, and why then.";

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// App or upstream to look at
    #[arg(value_name = "APP", help = "App or upstream to look at [default: all]")]
    pub(crate) subject: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) selector: InstanceSelector,
}
