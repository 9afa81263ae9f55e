//! The command: asks the instance, waits, and writes what came.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::flame;
use super::request::ProfileRequest;
use crate::find::Instance;
use crate::{cli, complain, exit};

/// How often progress is drawn.
const REDRAW: Duration = Duration::from_millis(250);

/// What the instance responds.
#[derive(Debug)]
struct Profile {
    app: String,
    hertz: u32,
    seconds: f64,
    workers: usize,
    notes: Vec<String>,
    microseconds: BTreeMap<String, u64>,
}

impl Profile {
    /// `None`: something is missing.
    fn of(response: &Value) -> Option<Self> {
        let notes = response.get("notes")?.as_array()?.iter();
        let stacks = response.get("microseconds")?.as_object()?.iter();
        Some(Self {
            app: response.get("app")?.as_str()?.to_owned(),
            hertz: u32::try_from(response.get("hertz")?.as_u64()?).ok()?,
            seconds: response.get("seconds")?.as_f64()?,
            workers: usize::try_from(response.get("workers")?.as_u64()?).ok()?,
            notes: notes.map(|note| note.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            microseconds: stacks
                .map(|(stack, time)| Some((stack.clone(), time.as_u64()?)))
                .collect::<Option<_>>()?,
        })
    }
}

/// Profiles an app. 0: the files are written, 1: there is nothing to write or it could not be had, 2: the command line is wrong.
pub(crate) fn profile(options: &cli::Profile) -> ExitCode {
    let instance = match Instance::meant(&options.selector) {
        Ok(instance) => instance,
        Err(status) => return status,
    };
    match take(options, &instance) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
    }
}

fn take(options: &cli::Profile, instance: &Instance) -> Result<(), String> {
    let request = ProfileRequest {
        app: options.app.clone(),
        seconds: options.seconds,
        hertz: options.hz,
        route: options.route.clone(),
    };
    // Before the profile: nobody should wait ten seconds for a file that cannot be written.
    let graph =
        options.output.clone().unwrap_or_else(|| PathBuf::from(format!("profile-{}.svg", request.app)));
    let files = [Some(graph.as_path()), options.collapsed.as_deref()];
    files.into_iter().flatten().try_for_each(check_directory)?;
    let response = ask(instance, &request)?;
    if response.get("ok") != Some(&Value::Bool(true)) {
        return Err(response.get("message").and_then(Value::as_str).unwrap_or_default().to_owned());
    }
    let profile = Profile::of(&response).ok_or_else(|| {
        format!("process {} sent an unexpected response: is it another version?", instance.pid)
    })?;
    profile.notes.iter().for_each(|note| complain(note));
    let total: u64 = profile.microseconds.values().sum();
    if total == 0 {
        let of_route = options.route.as_ref().map(|route| format!(" of route {route}")).unwrap_or_default();
        return Err(format!(
            "no samples: app {} worked on no request{of_route} in {:.1} s; profile it under load, or for longer (--seconds)",
            profile.app, profile.seconds
        ));
    }
    write(&graph, &flame::svg(&profile.microseconds, &title(&profile, options), &subtitle(&profile, total)))?;
    if let Some(file) = &options.collapsed {
        write(file, &flame::collapsed(&profile.microseconds, profile.hertz))?;
    }
    crate::print(&summary(&profile, total, &graph));
    Ok(())
}

fn check_directory(file: &Path) -> Result<(), String> {
    let directory =
        file.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match directory.is_dir() {
        true if file.is_dir() => {
            Err(format!("cannot write {}: it is a directory; name a file", file.display()))
        }
        true => Ok(()),
        false => {
            Err(format!("cannot write {}: there is no directory {}", file.display(), directory.display()))
        }
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The response. Ctrl-C closes our side of the connection, which ends the profile: what came until then is the response.
fn ask(instance: &Instance, request: &ProfileRequest) -> Result<Value, String> {
    let in_words = |error: io::Error| format!("process {} did not respond: {error}", instance.pid);
    let stream = instance.open(&request.line()).map_err(in_words)?;
    let ending = stream.try_clone().map_err(in_words)?;
    let reader = std::thread::spawn(move || read(stream));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(in_words)?;
    runtime.block_on(async {
        let begun = Instant::now();
        let mut ended = false;
        while !reader.is_finished() {
            tokio::select! {
                _ = tokio::signal::ctrl_c(), if !ended => {
                    ended = true;
                    // An error: the instance has gone, which the reader finds.
                    let _ = ending.shutdown(Shutdown::Write);
                }
                () = tokio::time::sleep(REDRAW) => show_progress(request, begun),
            }
        }
    });
    clear_progress();
    reader.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(in_words)
}

fn read(stream: UnixStream) -> io::Result<Value> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    match line.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => serde_json::from_str(&line).map_err(io::Error::other),
    }
}

fn show_progress(request: &ProfileRequest, begun: Instant) {
    if io::stderr().is_terminal() {
        let at = begun.elapsed().as_secs_f64().min(request.seconds.into());
        let text = format!("\rprofiling {}: {at:.1} of {} s (Ctrl-C: end now)", request.app, request.seconds);
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

fn clear_progress() {
    if io::stderr().is_terminal() {
        let _ = io::stderr().write_all(b"\r\x1b[K");
    }
}

fn title(profile: &Profile, options: &cli::Profile) -> String {
    let of_route = options.route.as_ref().map(|route| format!(", route {route}")).unwrap_or_default();
    format!("Profile of app {}{of_route}", profile.app)
}

fn subtitle(profile: &Profile, total: u64) -> String {
    format!(
        "{:.1} s, {} samples a second, {} workers: {:.2} s of requests. Width is time; orange computes, blue waits.",
        profile.seconds,
        profile.hertz,
        profile.workers,
        seconds(total)
    )
}

/// The routes, and the functions with the most time of their own.
fn summary(profile: &Profile, total: u64, graph: &Path) -> String {
    const FUNCTIONS: usize = 5;
    let mut routes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut functions: BTreeMap<(&str, bool), u64> = BTreeMap::new();
    for (stack, time) in &profile.microseconds {
        let (calls, waits) =
            stack.strip_suffix(";(waiting)").map_or((stack.as_str(), false), |calls| (calls, true));
        let route = routes.entry(calls.split(';').next().unwrap_or_default()).or_default();
        route.0 += time;
        route.1 += if waits { *time } else { 0 };
        *functions.entry((calls.rsplit(';').next().unwrap_or_default(), waits)).or_default() += time;
    }
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let mut lines = format!("{:>8}  {:>6}  {:>7}  ROUTE\n", "SECONDS", "SHARE", "WAITING");
    for (route, (time, waiting)) in descending(routes, |(time, _)| *time) {
        lines += &format!(
            "{:>8.2}  {:>5.1}%  {:>6.1}%  {}\n",
            seconds(time),
            percent(time, total),
            percent(waiting, time),
            tame(route)
        );
    }
    lines += &format!("\n{:>8}  {:>6}  {:>9}  FUNCTION\n", "SECONDS", "SHARE", "");
    for ((function, waits), time) in descending(functions, |time| *time).into_iter().take(FUNCTIONS) {
        let state = if waits { "waits" } else { "computes" };
        lines += &format!(
            "{:>8.2}  {:>5.1}%  {state:>9}  {}\n",
            seconds(time),
            percent(time, total),
            tame(function)
        );
    }
    lines + &format!("\nflame graph: {}\n", graph.display())
}

fn descending<K: Ord, V>(map: BTreeMap<K, V>, weight: impl Fn(&V) -> u64) -> Vec<(K, V)> {
    let mut list: Vec<_> = map.into_iter().collect();
    list.sort_by_key(|(_, value)| std::cmp::Reverse(weight(value)));
    list
}

/// Names of an app must not steer a terminal.
fn tame(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
