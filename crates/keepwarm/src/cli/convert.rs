//! The command line of `keepwarm convert`.

use std::path::PathBuf;

use clap::Args;

pub(super) const ABOUT: &str = "\
Convert the configuration of another server to keepwarm.toml

Reads nginx, php-fpm, Apache, Caddy, HAProxy, Envoy, NGINX Unit, RoadRunner, supervisord, Procfiles, and the settings of
gunicorn, uvicorn and Puma. Prints keepwarm.toml, and on standard error a report of what differs and what was dropped.

Exit status: 0 if no access rule, limit, rewrite or certificate was dropped; 1 if one was, or may have been; 2 if
nothing was converted: a syntax error, an unknown file, nothing to serve.

With --verify OLD NEW, requests the same paths of two servers, and compares status, headers and bodies. Exit status: 0 if
nothing differs but what differs between any two servers, 1 if something does, 2 if a server cannot be reached.";

#[derive(Debug, Clone, Args)]
pub(crate) struct Convert {
    /// Files of one site or machine, such as nginx.conf and the pools of php-fpm
    #[arg(value_name = "FILE", required_unless_present_any = ["command", "verify"])]
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
    /// Compare the responses of two servers to the same GETs, in place of converting
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with_all = ["files", "out", "from", "root"])]
    pub(crate) verify: Vec<String>,
    /// With --verify: access log whose GETs are sent, in place of a crawl from the path of OLD
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub(crate) log: Option<PathBuf>,
    /// With --verify: host to request of both servers
    #[arg(
        long,
        value_name = "HOST",
        requires = "verify",
        help = "With --verify: host to request of both servers [default: that of OLD]"
    )]
    pub(crate) host: Option<String>,
    /// With --verify: number of paths to request at most
    #[arg(long, value_name = "N", default_value_t = 500, requires = "verify")]
    pub(crate) max: usize,
    /// Command line of gunicorn, uvicorn or Puma to convert
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
