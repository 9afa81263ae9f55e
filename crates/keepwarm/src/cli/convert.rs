//! The command line of `keepwarm convert`.

use std::path::PathBuf;

use clap::Args;

pub(super) const ABOUT: &str = "\
Convert the configuration of another server to keepwarm.toml

Reads nginx, php-fpm, Apache, Caddy, HAProxy, Envoy, NGINX Unit, RoadRunner, supervisord, Procfiles, and the settings of
gunicorn, uvicorn and Puma. Prints keepwarm.toml, and on standard error a report of what differs and what was dropped.

Exit status: 0 if no access rule, limit, rewrite or certificate was dropped; 1 if one was, or may have been; 2 if
nothing was converted: a syntax error, an unknown file, nothing to serve.";

#[derive(Debug, Clone, Args)]
pub(crate) struct Convert {
    /// Files of one site or machine, such as nginx.conf and the pools of php-fpm
    #[arg(value_name = "FILE", required_unless_present = "command")]
    pub(crate) files: Vec<PathBuf>,
    /// Tool that all files are of, if it is not recognized
    #[arg(long, value_name = "TOOL")]
    pub(crate) from: Option<String>,
    /// File to write, which must not exist
    #[arg(
        long,
        value_name = "FILE",
        help = "File to write, which must not exist [default: standard output]"
    )]
    pub(crate) out: Option<PathBuf>,
    /// Directory that stands for / of the machine whose files these are
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// List every directive in the report
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Command line of gunicorn, uvicorn or Puma to convert
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
