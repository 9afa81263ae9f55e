//! The command: asks the instance, shows its progress, and prints what came.

use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::report::Report;
use super::request::LeaksRequest;
use crate::find::Instance;
use crate::{cli, complain, exit};

/// How often progress is drawn.
const REDRAW: Duration = Duration::from_millis(250);

/// Finds what an app keeps. 0: nothing, 3: something, 1: it cannot be told, 2: the command line is wrong.
pub(crate) fn leaks(options: &cli::Leaks) -> ExitCode {
    let instance = match Instance::meant(&options.selector) {
        Ok(instance) => instance,
        Err(status) => return status,
    };
    match search(options, &instance) {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
    }
}

fn search(options: &cli::Leaks, instance: &Instance) -> Result<u8, String> {
    let request = LeaksRequest {
        app: options.app.clone(),
        requests: options.requests,
        seconds: options.seconds,
        route: options.route.clone(),
    };
    let response = ask(instance, &request)?;
    if response.get("ok") != Some(&Value::Bool(true)) {
        return Err(response.get("message").and_then(Value::as_str).unwrap_or_default().to_owned());
    }
    let report = Report::of(&response).ok_or_else(|| {
        format!("process {} sent an unexpected response: is it another version?", instance.pid)
    })?;
    report.notes.iter().for_each(|note| complain(note));
    if options.json {
        crate::print(&report.json());
    }
    if !report.has_verdict() {
        return Err(report.too_few(&request));
    }
    if !options.json {
        crate::print(&report.text());
    }
    Ok(if report.keeps_something() { exit::KEPT } else { 0 })
}

/// The response. Ctrl-C closes our side of the connection, which ends the search: what came until then is the response.
fn ask(instance: &Instance, request: &LeaksRequest) -> Result<Value, String> {
    let in_words = |error: io::Error| format!("process {} did not respond: {error}", instance.pid);
    let stream = instance.open(&request.line()).map_err(in_words)?;
    let ending = stream.try_clone().map_err(in_words)?;
    let (told, mut progress) = unbounded_channel();
    let reader = std::thread::spawn(move || read(stream, &told));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(in_words)?;
    runtime.block_on(async {
        let mut shown = Shown::new(request);
        let mut ended = false;
        loop {
            tokio::select! {
                line = progress.recv() => match line {
                    Some(line) => shown.take(&line),
                    // The reader has ended.
                    None => break,
                },
                _ = tokio::signal::ctrl_c(), if !ended => {
                    ended = true;
                    // An error: the instance has gone, which the reader finds.
                    let _ = ending.shutdown(Shutdown::Write);
                }
                () = tokio::time::sleep(REDRAW) => shown.draw(),
            }
        }
        shown.clear();
    });
    reader.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(in_words)
}

/// The last line; those before it are of the progress.
fn read(stream: UnixStream, told: &UnboundedSender<Value>) -> io::Result<Value> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let value: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
        if value.get("ok").is_some() {
            return Ok(value);
        }
        // An error: nobody shows it any more.
        let _ = told.send(value);
    }
}

/// What a terminal shows meanwhile.
struct Shown<'r> {
    request: &'r LeaksRequest,
    begun: Instant,
    requests: u64,
    doing: String,
}

impl<'r> Shown<'r> {
    fn new(request: &'r LeaksRequest) -> Self {
        Self { request, begun: Instant::now(), requests: 0, doing: String::new() }
    }

    fn take(&mut self, line: &Value) {
        if line.pointer("/begins/workers").and_then(Value::as_u64) == Some(1) {
            self.clear();
            complain(&format!(
                "app {} has one worker: while it is measured, its requests are served one at a time, and slower",
                self.request.app
            ));
        }
        if let Some(progress) = line.get("progress") {
            self.requests = progress.get("requests").and_then(Value::as_u64).unwrap_or(self.requests);
            self.doing = progress.get("doing").and_then(Value::as_str).unwrap_or_default().to_owned();
        }
    }

    fn draw(&self) {
        if !io::stderr().is_terminal() {
            return;
        }
        let LeaksRequest { app, requests, seconds, .. } = self.request;
        let at = self.begun.elapsed().as_secs().min((*seconds).into());
        let doing = if self.doing.is_empty() { String::new() } else { format!(", {}", self.doing) };
        let text = format!(
            "\r\x1b[Kmeasuring {app}: {} of {requests} requests, {at} of {seconds} s{doing} (Ctrl-C: end now)",
            self.requests
        );
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn clear(&self) {
        if io::stderr().is_terminal() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
