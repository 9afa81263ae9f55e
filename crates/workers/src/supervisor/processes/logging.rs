//! Records of processes in the log.

use std::time::Duration;

use rustix::process::Signal;

use super::action::ProcessNews;
use crate::supervisor::exit::signal_name;

/// Whose process a record is about.
#[derive(Copy, Clone)]
pub(super) struct Subject<'a> {
    pub(super) process: &'a str,
    pub(super) number: u32,
    pub(super) pid: Option<u32>,
}

/// Logs with the fields of a subject: `log_process!(level, subject, "name", fields…; "message")`.
macro_rules! log_process {
    ($level:ident, $subject:expr, $name:literal, $($rest:tt)+) => {
        tracing::$level!(
            name: $name, target: "keepwarm::supervisor",
            process = %$subject.process, number = $subject.number, pid = $subject.pid, $($rest)+
        )
    };
}

pub(super) fn waiting(process: &str, waits_for: &[String]) {
    tracing::info!(
        name: "process_waiting", target: "keepwarm::supervisor",
        process, waits_for = waits_for.join(", "), "process waits for what it starts after"
    );
}

pub(super) fn started(subject: Subject<'_>) {
    log_process!(info, subject, "process_started", "process started");
}

pub(super) fn stopping(subject: Subject<'_>, signal: i32, why: &str) {
    let signal = name(signal);
    log_process!(
        info,
        subject,
        "process_stopping",
        reason = why,
        "stopping process: {why}; sending {signal}"
    );
}

pub(super) fn killing(subject: Subject<'_>, why: &str) {
    log_process!(warn, subject, "process_killed", reason = why, "killing process and its group: it {why}");
}

pub(super) fn signalled(subject: Subject<'_>, signal: i32) {
    let signal = name(signal);
    log_process!(
        info,
        subject,
        "process_signalled",
        signal,
        "reload: sending {signal} in place of a restart"
    );
}

pub(super) fn news(subject: Subject<'_>, news: &ProcessNews) {
    match news {
        ProcessNews::Ready { took, .. } => {
            log_process!(info, subject, "process_ready", boot_ms = took.as_millis(), "process ready");
        }
        ProcessNews::Stopped { end, .. } => {
            log_process!(info, subject, "process_stopped", "process stopped: {end}");
        }
        ProcessNews::Restarting { reason, failed: true, wait, .. } => log_process!(
            warn,
            subject,
            "process_lost",
            reason,
            wait_ms = wait.as_millis(),
            "process {reason}; the next one starts {}",
            wait_words(*wait)
        ),
        ProcessNews::Restarting { reason, failed: false, wait, .. } => log_process!(
            info,
            subject,
            "process_exited",
            reason,
            wait_ms = wait.as_millis(),
            "process {reason}; the next one starts {}",
            wait_words(*wait)
        ),
        ProcessNews::Finished { reason, failed: true, .. } => {
            log_process!(error, subject, "process_failed", reason, "process {reason}; it is not restarted");
        }
        ProcessNews::Finished { reason, failed: false, .. } => {
            log_process!(info, subject, "process_finished", reason, "process finished: {reason}");
        }
        ProcessNews::Unkillable { .. } => {
            log_process!(
                error,
                subject,
                "process_not_ending",
                "process was killed but does not exit; its successor waits"
            );
        }
        ProcessNews::Abandoned { .. } => log_process!(
            error,
            subject,
            "process_left_behind",
            "process was killed but does not exit; Keepwarm no longer waits for it"
        ),
        ProcessNews::RunEnded { .. } | ProcessNews::RunSkipped { .. } | ProcessNews::RunMissed { .. } => {
            of_schedule(subject, news);
        }
    }
}

fn of_schedule(subject: Subject<'_>, news: &ProcessNews) {
    match news {
        ProcessNews::RunEnded { reason, failed: true, took, .. } => log_process!(
            error,
            subject,
            "run_failed",
            reason,
            took_ms = took.as_millis(),
            "scheduled run failed: {reason}"
        ),
        ProcessNews::RunEnded { reason, failed: false, took, .. } => log_process!(
            info,
            subject,
            "run_finished",
            reason,
            took_ms = took.as_millis(),
            "scheduled run finished: {reason}"
        ),
        ProcessNews::RunSkipped { running, .. } => log_process!(
            warn,
            subject,
            "run_skipped",
            running_ms = running.as_millis(),
            "scheduled run skipped: the one before has not ended"
        ),
        ProcessNews::RunMissed { late } => log_process!(
            warn,
            subject,
            "run_missed",
            late_ms = late.as_millis(),
            "scheduled run left out: its time has passed"
        ),
        _ => {}
    }
}

fn wait_words(wait: Duration) -> String {
    match wait.as_millis() {
        0 => "now".to_owned(),
        millis @ ..1000 => format!("in {millis} ms"),
        millis => format!("in {:.1} s", millis as f64 / 1e3),
    }
}

fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// A signal by its number, which the configuration has checked.
pub(super) fn signal(number: i32) -> Signal {
    Signal::from_named_raw(number).unwrap_or(Signal::TERM)
}
