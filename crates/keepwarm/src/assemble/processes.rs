//! `[process.NAME]` and `before_start` as the supervisor is told about them.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use keepwarm_config::{self as config, App, Bind, Config, Process, Program};
use keepwarm_policy::backoff::BackoffSettings;
use keepwarm_workers::supervisor::{
    AppSpec, Dependency, Execution, ProcessSpec, ReadyCheck, RestartPolicy, RunSchedule, TaskSpec,
};

use super::{DoorVariables, environment, process, specs};
use crate::language::StartCommand;
use crate::run_as::{self, Section, UserChoice};

/// All that is started for a configuration.
#[derive(Debug)]
pub(crate) struct StartPlan {
    pub(crate) apps: Vec<AppSpec>,
    pub(crate) processes: Vec<ProcessSpec>,
    /// What runs before, one after the other.
    pub(crate) before: Vec<TaskSpec>,
}

impl StartPlan {
    /// # Errors
    /// In words.
    pub(crate) fn new(config: &Config, doors: &DoorVariables) -> Result<Self, String> {
        let apps =
            specs(config, doors).map_err(|error: io::Error| format!("cannot unpack an adapter: {error}"))?;
        let processes = config.processes.iter().map(|one| spec(one, doors)).collect::<Result<Vec<_>, _>>()?;
        let app = |spec: &AppSpec| {
            let app = config.app(&spec.name)?;
            let execution = |command: &Vec<String>| Execution {
                command: command.iter().map(OsString::from).collect(),
                directory: spec.directory.clone(),
                env: spec.env.clone(),
                process: spec.process.clone(),
            };
            let section = format!("app.{}", app.name);
            Some(tasks(&section, &app.before_start, app.before_start_timeout, execution))
        };
        let mut before: Vec<TaskSpec> = apps.iter().filter_map(app).flatten().collect();
        for (one, spec) in config.processes.iter().zip(&processes) {
            let execution = |command: &Vec<String>| Execution {
                command: command.iter().map(OsString::from).collect(),
                ..(*spec.execution).clone()
            };
            let section = format!("process.{}", one.name);
            before.extend(tasks(&section, &one.before_start, one.before_start_timeout, execution));
        }
        Ok(Self { apps, processes, before })
    }
}

fn tasks(
    section: &str,
    commands: &[Vec<String>],
    timeout: std::time::Duration,
    execution: impl Fn(&Vec<String>) -> Execution,
) -> Vec<TaskSpec> {
    let task =
        |command| TaskSpec { section: section.into(), execution: Arc::new(execution(command)), timeout };
    commands.iter().map(task).collect()
}

/// How the processes of a section are run.
fn spec(one: &Process, doors: &DoorVariables) -> Result<ProcessSpec, String> {
    let command: Vec<OsString> = one.command.iter().map(OsString::from).collect();
    let start = StartCommand { command: command.clone(), env: Vec::new() };
    let choice = run_as::choose(&as_app(one), &start);
    run_as::announce(Section::Process(&one.name), &choice);
    let user = match &choice {
        UserChoice::Default(account) => Some(account),
        UserChoice::Given | UserChoice::Root(_) => one.run_as.as_ref(),
    };
    let execution = Execution {
        command,
        directory: one.directory.clone(),
        env: environment(user, doors, &one.env),
        process: process(&one.limits, one.umask, user),
    };
    Ok(ProcessSpec {
        name: one.name.as_str().into(),
        execution: Arc::new(execution),
        count: one.count,
        after: one.after.iter().map(dependency).collect(),
        ready: one.ready.as_ref().map(ready_check).transpose()?,
        boot_timeout: one.boot_timeout,
        schedule: one.schedule.as_ref().map(schedule).transpose()?,
        restart: match one.restart {
            config::Restart::Always => RestartPolicy::Always,
            config::Restart::OnFailure => RestartPolicy::OnFailure,
            config::Restart::Never => RestartPolicy::Never,
        },
        exit_codes: one.exit_codes.clone(),
        stop_signal: one.stop_signal.number,
        stop_timeout: one.stop_timeout,
        reload_signal: one.reload_signal.map(|signal| signal.number),
        max_age: one.max_age,
        max_memory: one.max_memory,
        kill_memory: one.kill_memory,
        backoff: BackoffSettings::default(),
    })
}

/// What the choice of a user looks at: an app of its command alone.
fn as_app(one: &Process) -> App {
    App {
        kind: Some(config::AppKind::Http),
        env: one.env.clone(),
        run_as: one.run_as.clone(),
        ..App::new(one.name.clone(), Program::Command(one.command.clone()), one.directory.clone())
    }
}

fn dependency(dependency: &config::Dependency) -> Dependency {
    match dependency {
        config::Dependency::App(name) => Dependency::App(name.as_str().into()),
        config::Dependency::Process(name) => Dependency::Process(name.as_str().into()),
        config::Dependency::Upstream(name) => Dependency::Upstream(name.as_str().into()),
    }
}

fn ready_check(check: &config::ReadyCheck) -> Result<ReadyCheck, String> {
    match check {
        config::ReadyCheck::Prints(text) => Ok(ReadyCheck::Prints(text.as_str().into())),
        config::ReadyCheck::Accepts(Bind::Tcp(address)) => Ok(ReadyCheck::AcceptsTcp(*address)),
        config::ReadyCheck::Accepts(Bind::Unix(path)) => Ok(ReadyCheck::AcceptsUnix(path.clone())),
        config::ReadyCheck::Accepts(Bind::Host { host, .. }) => Err(format!("{host} is not an address")),
    }
}

fn schedule(schedule: &config::Schedule) -> Result<RunSchedule, String> {
    match schedule {
        config::Schedule::Every(interval) => Ok(RunSchedule::Every(*interval)),
        config::Schedule::Cron(pattern) => RunSchedule::cron(pattern),
    }
}

/// The upstreams that processes come after.
pub(crate) fn dependencies(config: &Config) -> impl Iterator<Item = &str> {
    config.processes.iter().flat_map(|one| &one.after).filter_map(|dependency| match dependency {
        config::Dependency::Upstream(name) => Some(name.as_str()),
        config::Dependency::App(_) | config::Dependency::Process(_) => None,
    })
}
