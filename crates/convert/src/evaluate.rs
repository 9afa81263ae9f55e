//! Settings that are programs: gunicorn.conf.py and puma.rb, run by their own interpreter with a recorder.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::Error;
use crate::files::Files;
use crate::ledger::Ledger;
use crate::model::Model;
use crate::settings::{Setting, Settings, puma, python};

const PYTHON: &str = include_str!("evaluate/recorder.py");
const RUBY: &str = include_str!("evaluate/recorder.rb");

/// A file that takes longer waits for something.
const BOUND: Duration = Duration::from_secs(20);

/// gunicorn.conf.py.
pub(crate) fn gunicorn(
    path: &Path,
    files: &Files,
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let settings = run("python3", PYTHON, path, files, ledger)?;
    let shown = files.shown(path);
    let origin = ledger.open(&shown, 1, &format!("{shown} (run by python3)"));
    ledger.carried(origin);
    let entry = settings.iter().rfind(|(name, ..)| name == "wsgi_app").map(|(_, value, _)| value.text());
    python(entry.as_deref(), &settings, origin, model, ledger);
    Ok(())
}

/// puma.rb.
pub(crate) fn puma_file(
    path: &Path,
    files: &Files,
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let settings = run("ruby", RUBY, path, files, ledger)?;
    let shown = files.shown(path);
    let origin = ledger.open(&shown, 1, &format!("{shown} (run by ruby)"));
    ledger.carried(origin);
    puma(Some(path), &settings, origin, model, ledger);
    Ok(())
}

/// Runs a recorder for a file; it prints a JSON list of `[name, value, line]`.
fn run(
    interpreter: &str,
    recorder: &str,
    path: &Path,
    files: &Files,
    ledger: &mut Ledger,
) -> Result<Settings, Error> {
    let shown = files.shown(path);
    let here = files.here(path);

    let mut child = Command::new(interpreter)
        .arg("-")
        .arg(&here)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Error::new(format!("{shown}: is a program, and {interpreter} cannot be started: {error}"))
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(recorder.as_bytes());
    }
    let begun = Instant::now();
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if begun.elapsed() > BOUND {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::new(format!(
                "{shown}: was run by {interpreter}, and did not end within 20 s"
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child
        .wait_with_output()
        .map_err(|error| Error::new(format!("{shown}: {interpreter} failed: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        // Ruby says first what is wrong, Python last.
        let mut lines = text.trim().lines();
        let said = if interpreter == "ruby" { lines.next() } else { lines.last() };
        let last = said.unwrap_or("").to_owned();
        return Err(Error::new(format!("{shown}: was run by {interpreter}, and failed: {last}")));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // The file may have printed something before.
    let line = text.lines().rfind(|line| line.starts_with('[')).unwrap_or("[]");
    let list: Vec<(String, Json, usize)> = serde_json::from_str(line).map_err(|error| {
        Error::new(format!("{shown}: was run by {interpreter}, and its settings cannot be read: {error}"))
    })?;
    Ok(list
        .into_iter()
        .map(|(name, value, line)| {
            let setting = setting(&value);
            let shown_value = match &setting {
                Setting::Flag(true) if interpreter == "ruby" => String::new(),
                setting => format!(" {}", setting.text()),
            };
            let sign = if interpreter == "ruby" { "" } else { " =" };
            let origin = ledger.open(&shown, line, &format!("{name}{sign}{shown_value}"));
            (name, setting, origin)
        })
        .collect())
}

fn setting(value: &Json) -> Setting {
    match value {
        Json::Null => Setting::None,
        Json::Bool(flag) => Setting::Flag(*flag),
        Json::Number(number) => Setting::Number(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => Setting::Text(text.clone()),
        Json::Array(list) => Setting::List(list.iter().map(|item| setting(item).text()).collect()),
        Json::Object(_) => Setting::Text(value.to_string()),
    }
}
