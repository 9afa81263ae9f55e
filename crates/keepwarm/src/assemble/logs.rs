//! Logs: what the configuration says of them, opened; and whether that will be possible.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use super::{Maps, matcher, template};
use keepwarm_config::{Config, Listener, LogFormat, LogLevel};
use keepwarm_edge::AccessLog;
use keepwarm_egress::CallLog;
use keepwarm_telemetry::{Format, Output, Sink};
use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Whether the user of this process can write to every log file; creates none. For commands that start nothing.
///
/// # Errors
/// Which file cannot, and why.
pub(crate) fn check_logs(config: &Config) -> Result<(), String> {
    let own = config.server.log.file.as_deref().map(|file| ("server.log".to_owned(), file));
    let listeners =
        config.listeners.iter().map(|listen| (format!("listen.{}", listen.name), &listen.access_log));
    let upstreams =
        config.upstreams.iter().map(|upstream| (format!("upstream.{}", upstream.name), &upstream.access_log));
    let logs = listeners
        .chain(upstreams)
        .filter_map(|(section, log)| Some((format!("{section}.access_log"), log.as_ref()?.file.as_deref()?)));
    own.into_iter().chain(logs).try_for_each(|(section, file)| {
        check_file(file).map_err(|error| format!("{section}: cannot write to {}: {error}", file.display()))
    })
}

fn check_file(file: &Path) -> io::Result<()> {
    let may = |path: &Path, how| accessat(CWD, path, how, AtFlags::EACCESS).map_err(io::Error::from);
    match may(file, Access::WRITE_OK) {
        Ok(()) if file.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
            match std::fs::read_link(file) {
                Ok(target) => check_file(&folder.join(target)),
                // It would be made.
                Err(_) => may(folder, Access::WRITE_OK | Access::EXEC_OK),
            }
        }
        other => other,
    }
}

/// The writer of the log.
#[derive(Debug)]
pub(crate) struct Logging;

impl Logging {
    /// Writes what is still buffered.
    pub(crate) fn finish(self) {
        if !keepwarm_telemetry::flush_all(Duration::from_secs(2)) {
            // Standard error may be closed, too.
            let _ = writeln!(
                io::stderr(),
                "keepwarm: cannot write the last lines of a log: its output accepts nothing"
            );
        }
    }
}

/// A level as `tracing` has it.
pub(crate) fn level(level: LogLevel) -> tracing::Level {
    match level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
        LogLevel::Trace => tracing::Level::TRACE,
    }
}

/// Opens the log.
pub(crate) fn start_logging(config: &Config) -> Result<Logging, String> {
    let log = &config.server.log;
    let output = log.file.clone().map_or(Output::Stderr, Output::File);
    match keepwarm_telemetry::log::init(format(log.format), level(log.level), output) {
        Ok(_) => Ok(Logging),
        Err(error) => Err(format!("cannot open the log {}: {error}", file_name(log.file.as_deref()))),
    }
}

pub(super) fn access_log(listen: &Listener, maps: &Maps) -> Result<Option<AccessLog>, String> {
    let Some(log) = &listen.access_log else { return Ok(None) };
    let (sink, format) = open_log(log)?;
    Ok(Some(AccessLog {
        record: log.record.as_ref().map(|record| template::record(record, maps)),
        conditions: matcher::conditions(&log.conditions)?,
        statuses: log.statuses.iter().map(|range| range.first..=range.last).collect(),
        ..AccessLog::new(sink, format)
    }))
}

/// Where calls of an upstream are recorded, and how.
///
/// # Errors
/// In words: the file cannot be opened.
pub(crate) fn call_log(upstream: &keepwarm_config::Upstream) -> Result<Option<CallLog>, String> {
    let Some(log) = &upstream.access_log else { return Ok(None) };
    open_log(log).map(|(sink, format)| Some(CallLog { sink, format }))
}

/// The same for calls through a forward proxy to hosts that are not an upstream: logged like an upstream's by default, unless the listener keeps no log.
///
/// # Errors
/// In words: standard output cannot be written to.
pub(crate) fn proxy_call_log(listen: &Listener) -> Result<Option<CallLog>, String> {
    if listen.access_log.is_none() {
        return Ok(None);
    }
    let log = keepwarm_config::AccessLog::new(LogFormat::Json);
    open_log(&log).map(|(sink, format)| Some(CallLog { sink, format }))
}

fn open_log(log: &keepwarm_config::AccessLog) -> Result<(Sink, Format), String> {
    let format = format(log.format);
    let output = log.file.clone().map_or(Output::Stdout, Output::File);
    let format = format.on(&output);
    match Sink::open(output, format) {
        Ok(sink) => Ok((sink, format)),
        Err(error) => Err(format!("cannot open the access log {}: {error}", file_name(log.file.as_deref()))),
    }
}

fn format(format: LogFormat) -> Format {
    match format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    }
}

fn file_name(file: Option<&Path>) -> String {
    file.map_or_else(|| "on the terminal".to_owned(), |file| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_is_checked_and_not_made() {
        let folder = std::env::temp_dir().join(format!("keepwarm-logs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (new, old) = (folder.join("new.log"), folder.join("old.log"));
        std::fs::write(&old, "a line\n").unwrap();
        check_file(&new).unwrap();
        check_file(&old).unwrap();
        assert_eq!(check_file(&folder).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(check_file(&folder.join("none/new.log")).unwrap_err().kind(), io::ErrorKind::NotFound);
        let link = folder.join("link.log");
        std::os::unix::fs::symlink("none/new.log", &link).unwrap();
        assert_eq!(check_file(&link).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!new.exists());
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "a line\n");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
