//! `keepwarm top`: the snapshots of the running instance on a screen. `source` reads them, `screen` is what is shown and what keys change, `lists` are the
//! rows, `history` is what `charts` draws, `draw` makes cells of all of it, `terminal` takes the terminal and restores it.

mod charts;
mod draw;
mod history;
mod lists;
mod screen;
mod source;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui_crossterm::crossterm::event::{self, Event};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::screen::{Continue, Screen};
use self::terminal::TakenTerminal;
use crate::find::Instance;
use crate::{cli, complain, exit};

/// How often the age of an outage is drawn.
const REDRAW: Duration = Duration::from_secs(1);

/// Shows what the instance does, until a key or a signal ends it.
pub(crate) fn top(options: &cli::Top) -> ExitCode {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        complain(
            "keepwarm top needs a terminal for its input and its output; use `keepwarm why --json`, `keepwarm status --json` or \
             `GET /events` of [admin] elsewhere",
        );
        return ExitCode::from(exit::USAGE);
    }
    // Before the terminal is taken: an error is a line.
    let instance = match Instance::meant(&options.selector) {
        Ok(instance) => instance,
        Err(status) => return status,
    };
    let outcome = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(show(&options.selector, instance)),
        Err(error) => Err(format!("cannot start: {error}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Returns with the terminal restored.
async fn show(selector: &cli::InstanceSelector, instance: Instance) -> Result<(), String> {
    let in_words = |error: std::io::Error| format!("cannot use the terminal: {error}");
    let mut signals = Signals::take().map_err(in_words)?;
    let mut terminal = TakenTerminal::take().map_err(in_words)?;
    let mut keys = keys();
    let (updates, mut updated) = mpsc::channel(1);
    let source = source::run(selector, instance, &updates);
    tokio::pin!(source);
    let mut screen = Screen::new(Instant::now());
    let colors = crate::wants_colors();
    loop {
        terminal
            .draw(|area, buffer| draw::draw(&mut screen, area, buffer, colors, Instant::now()))
            .map_err(in_words)?;
        tokio::select! {
            update = updated.recv() => match update {
                Some(update) => screen.handle_update(update, Instant::now()),
                None => return Ok(()),
            },
            refused = &mut source => return Err(refused),
            key = keys.recv() => match key {
                Some(Event::Key(key)) if screen.handle_key(key) == Continue::No => return Ok(()),
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(()),
            },
            () = tokio::time::sleep(REDRAW) => {}
            () = signals.recv() => return Ok(()),
        }
    }
}

/// Keys and changes of size. The thread ends with the process: a read cannot be called off.
fn keys() -> mpsc::UnboundedReceiver<Event> {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    keys
}

/// Signals that would end the process with the terminal as it is.
struct Signals([Signal; 4]);

impl Signals {
    fn take() -> std::io::Result<Self> {
        let kinds =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
        let [terminate, interrupt, hangup, quit] = kinds.map(signal);
        Ok(Self([terminate?, interrupt?, hangup?, quit?]))
    }

    async fn recv(&mut self) {
        let [terminate, interrupt, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}
