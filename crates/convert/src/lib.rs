//! `keepwarm convert`: configurations of other servers to keepwarm.toml and a report.
//!
//! A compiler: a reader for each tool makes the common model (`model`) of sites, apps, processes and upstreams, and says
//! for each directive what became of it (`ledger`); `assemble` makes listeners of sites; `write` makes the text.

mod apache;
mod assemble;
mod caddy;
mod cidr;
mod command;
mod detect;
mod envoy;
mod evaluate;
mod expression;
mod files;
mod fpm;
mod haproxy;
mod ini;
mod ledger;
mod model;
mod nginx;
mod pattern;
mod php;
mod processes;
mod reach;
mod report;
mod roadrunner;
mod settings;
mod shell;
mod table;
mod tree;
mod unit;
mod units;
mod verify;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};

pub use files::Files;
use ledger::Ledger;
pub use ledger::{Entry, Outcome};
use model::Model;
pub use report::Report;
pub use verify::{Differences, Verification, verify};

/// Why nothing was converted: `site.conf:31: …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { message: message.into() }
    }

    /// An error at a line of a file.
    pub(crate) fn at(file: &str, line: usize, message: impl fmt::Display) -> Error {
        Error { message: format!("{file}:{line}: {message}") }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A tool whose configuration can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// nginx: a whole configuration, or a fragment of its `http` block.
    Nginx,
    /// Pools of php-fpm, for the web server of the other files.
    PhpFpm,
    /// supervisord.conf, or a file of its `conf.d`.
    Supervisord,
    /// A Procfile, with the `.env` beside it.
    Procfile,
    /// gunicorn.conf.py, which is run.
    Gunicorn,
    /// config/puma.rb, which is run.
    Puma,
    /// The JSON configuration of NGINX Unit.
    Unit,
    /// .rr.yaml of RoadRunner.
    RoadRunner,
    /// A Caddyfile.
    Caddy,
    /// Apache HTTP Server.
    Apache,
    /// A static configuration of Envoy.
    Envoy,
    /// HAProxy.
    Haproxy,
}

impl Tool {
    /// All tools, each with the name that `--from` takes.
    pub const ALL: [(&'static str, Tool); 12] = [
        ("nginx", Tool::Nginx),
        ("php-fpm", Tool::PhpFpm),
        ("supervisord", Tool::Supervisord),
        ("procfile", Tool::Procfile),
        ("gunicorn", Tool::Gunicorn),
        ("puma", Tool::Puma),
        ("unit", Tool::Unit),
        ("roadrunner", Tool::RoadRunner),
        ("caddy", Tool::Caddy),
        ("apache", Tool::Apache),
        ("envoy", Tool::Envoy),
        ("haproxy", Tool::Haproxy),
    ];

    /// The tool of a name.
    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool)
    }

    /// The name that `--from` takes.
    pub fn name(self) -> &'static str {
        Tool::ALL.iter().find(|(_, tool)| *tool == self).map_or("", |(name, _)| name)
    }
}

/// What to convert.
#[derive(Debug, Default)]
pub struct Request {
    /// The files.
    pub inputs: Vec<PathBuf>,
    /// The tool that all files are of; else each is recognized.
    pub from: Option<Tool>,
    /// A command line of gunicorn, uvicorn and the like, in place of files or beside them.
    pub command: Vec<String>,
    /// Where files are.
    pub files: Files,
}

/// The result.
#[derive(Debug)]
pub struct Conversion {
    /// keepwarm.toml.
    pub toml: String,
    /// What became of the input.
    pub report: Report,
}

/// Converts configurations of other servers.
///
/// # Errors
///
/// A file that cannot be read, a syntax error, a file whose kind is not known, an input without anything to serve or
/// to run.
pub fn convert(request: &Request) -> Result<Conversion, Error> {
    let mut model = Model::default();
    let mut ledger = Ledger::default();
    let files = &request.files;
    let mut of_tool: Vec<(Tool, Vec<PathBuf>)> =
        Tool::ALL.iter().map(|(_, tool)| (*tool, Vec::new())).collect();
    for path in &request.inputs {
        let tool = recognize(path, request)?;
        of_tool
            .iter_mut()
            .filter(|(known, _)| *known == tool)
            .for_each(|(_, paths)| paths.push(path.clone()));
    }
    let mut pools = Vec::new();
    for path in of_tool.iter().filter(|(tool, _)| *tool == Tool::PhpFpm).flat_map(|(_, paths)| paths) {
        fpm::read(path, files, &mut ledger, &mut pools)?;
    }
    for (tool, paths) in of_tool.iter().filter(|(_, paths)| !paths.is_empty()) {
        read(*tool, paths, files, &pools, &mut model, &mut ledger)?;
    }
    if !request.command.is_empty() {
        let origin = ledger.open("command line", 1, &request.command.join(" "));
        command::read(&request.command, origin, &mut model, &mut ledger)?;
    }
    if model.is_empty() {
        return Err(nothing(request, &pools));
    }
    for pool in pools.iter().filter(|pool| !pool.used.get()) {
        ledger.dropped(
            pool.origin,
            "no site of the input uses this pool",
            "give the configuration of its web server as well",
        );
        pool.table.ignore(&mut ledger);
    }
    assemble::assemble(&mut model, &mut ledger);
    Ok(finish(&model, ledger, request))
}

fn recognize(path: &Path, request: &Request) -> Result<Tool, Error> {
    if let Some(tool) = request.from {
        return Ok(tool);
    }
    let text = request.files.read(path)?;
    detect::tool(path, &text).ok_or_else(|| {
        let names: Vec<&str> = Tool::ALL.iter().map(|(name, _)| *name).collect();
        Error::new(format!(
            "{}: it is not known which tool this file is of; say so with --from: {}",
            request.files.shown(path),
            names.join(", ")
        ))
    })
}

fn read(
    tool: Tool,
    paths: &[PathBuf],
    files: &Files,
    pools: &[fpm::Pool],
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    match tool {
        Tool::Nginx => nginx::read(paths, files, pools, model, ledger),
        Tool::PhpFpm => Ok(()),
        Tool::Supervisord => each(paths, |path| processes::supervisord(path, files, model, ledger)),
        Tool::Procfile => each(paths, |path| processes::procfile(path, files, model, ledger)),
        Tool::Gunicorn => each(paths, |path| evaluate::gunicorn(path, files, model, ledger)),
        Tool::Puma => each(paths, |path| evaluate::puma_file(path, files, model, ledger)),
        Tool::Unit => each(paths, |path| unit::read(path, files, model, ledger)),
        Tool::RoadRunner => each(paths, |path| roadrunner::read(path, files, model, ledger)),
        Tool::Haproxy => haproxy::read(paths, files, model, ledger),
        Tool::Caddy => each(paths, |path| caddy::read(path, files, pools, model, ledger)),
        Tool::Envoy => each(paths, |path| envoy::read(path, files, model, ledger)),
        Tool::Apache => apache::read(paths, files, pools, model, ledger),
    }
}

fn each(paths: &[PathBuf], mut read: impl FnMut(&Path) -> Result<(), Error>) -> Result<(), Error> {
    paths.iter().try_for_each(|path| read(path))
}

fn nothing(request: &Request, pools: &[fpm::Pool]) -> Error {
    let names: Vec<String> = request.inputs.iter().map(|path| request.files.shown(path)).collect();
    let todo = match pools.is_empty() {
        true => "give a file that configures a site, an app, a process or an upstream",
        false => "a pool of php-fpm serves no site: give the configuration of its web server as well",
    };
    Error::new(format!("{}: there is nothing to serve or to run; {todo}", names.join(", ")))
}

fn finish(model: &Model, mut ledger: Ledger, request: &Request) -> Conversion {
    for table in [&model.server, &model.admin, &model.acme] {
        table.settle(&mut ledger);
    }
    let sections = [&model.apps, &model.processes, &model.upstreams, &model.rate_limits, &model.maps];
    for section in sections.into_iter().flatten() {
        section.table.settle(&mut ledger);
        section.origin.iter().for_each(|origin| ledger.carried(*origin));
    }
    for origin in
        model.rules.iter().filter(|origin| !ledger.is_settled(**origin)).copied().collect::<Vec<_>>()
    {
        ledger.lost(origin, "no route comes from it", "write a route with it by hand");
    }
    let mut names: Vec<String> = request.inputs.iter().map(|path| request.files.shown(path)).collect();
    if !request.command.is_empty() {
        names.push(format!("-- {}", request.command.join(" ")));
    }
    let title = format!("Made by `keepwarm convert {}`; its report says what differs.", names.join(" "));
    let toml = write::write(model, &ledger, &title);
    Conversion { toml, report: Report::new(ledger.into_entries()) }
}
