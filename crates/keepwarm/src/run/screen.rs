//! What a person at a terminal sees of a start and of a stop; other readers get the plain lines of `starting.rs`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use keepwarm_workers::supervisor::{Supervisor, WorkerState};
use tokio::time::Instant;

/// Whether a person reads the first lines.
pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The first lines of a run: what is served, by what, where, by which configuration, and what to do next.
#[derive(Debug, Default)]
pub(super) struct Banner {
    rows: Vec<(&'static str, String)>,
    next: Vec<(String, &'static str)>,
}

impl Banner {
    pub(super) fn row(&mut self, name: &'static str, text: String) {
        self.rows.push((name, text));
    }

    pub(super) fn next(&mut self, command: impl Into<String>, about: &'static str) {
        self.next.push((command.into(), about));
    }

    /// The text, in color or not.
    pub(super) fn text(&self, color: bool) -> String {
        let (bold, dim, end) = if color { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
        let mut out = format!("\n  {bold}keepwarm {}{end}\n\n", env!("CARGO_PKG_VERSION"));
        let width = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let mut before = "";
        for (name, text) in &self.rows {
            // A name stands once over rows of one kind.
            let shown = if *name == before { "" } else { name };
            before = name;
            // Writing into a string cannot fail.
            let _ = writeln!(out, "  {dim}{shown:width$}{end}  {text}");
        }
        let width = self.next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
        out.push('\n');
        for (command, about) in &self.next {
            let _ = writeln!(out, "  {command:width$}  {dim}{about}{end}");
        }
        out.push('\n');
        out
    }
}

/// Reports on a start that takes long, until it is dropped. Does not return.
pub(super) async fn report_progress(supervisor: &Supervisor) {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let begun = Instant::now();
    // Soon at first, then ever more rarely.
    let mut after = Duration::from_secs(2);
    loop {
        tokio::time::sleep_until(begun + after).await;
        let workers = supervisor.snapshot().await.workers;
        let workers =
            workers.iter().map(|worker| (&*worker.app, worker.number, worker.state == WorkerState::Ready));
        for line in progress(workers, begun.elapsed()) {
            crate::print_error(&line);
        }
        after *= 2;
    }
}

/// A line for each app that is not ready: how many of its workers are, and which are still starting.
fn progress<'a>(workers: impl Iterator<Item = (&'a str, u32, bool)>, elapsed: Duration) -> Vec<String> {
    let mut apps: Vec<(&str, usize, Vec<u32>)> = Vec::new();
    for (name, number, is_ready) in workers {
        if apps.last().is_none_or(|(last, ..)| *last != name) {
            apps.push((name, 0, Vec::new()));
        }
        if let Some((_, ready, waiting)) = apps.last_mut() {
            match is_ready {
                true => *ready += 1,
                false => waiting.push(number),
            }
        }
    }
    let slow = apps.into_iter().filter(|(_, _, waiting)| !waiting.is_empty());
    slow.map(|(name, ready, waiting)| {
        let numbers: Vec<String> = waiting.iter().map(|number| format!("{name}/{number}")).collect();
        let shown = match numbers.get(..4) {
            Some(first) if numbers.len() > 4 => {
                format!("{} and {} more", first.join(", "), numbers.len() - 4)
            }
            _ => numbers.join(", "),
        };
        format!(
            "  starting   {name}: {ready} of {} workers ready after {} s; waiting for {shown}",
            ready + waiting.len(),
            elapsed.as_secs()
        )
    })
    .collect()
}

/// Says after a moment what a stop waits for, and how to end it. Does not return.
pub(super) async fn report_stop(connections: impl Fn() -> usize, grace: Duration) {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let open = match connections() {
        0 => "workers that finish their work".to_owned(),
        1 => "1 connection".to_owned(),
        open => format!("{open} connections"),
    };
    let _ = writeln!(
        std::io::stderr().lock(),
        "  stopping   waits for {open}, up to {} s; Ctrl-C again stops at once",
        grace.as_secs()
    );
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_is_a_table() {
        let mut banner = Banner::default();
        banner.row("serving", "shop:app (WSGI)".to_owned());
        banner.row("listening", "http://127.0.0.1:8080".to_owned());
        banner.row("listening", "http://[::1]:8080".to_owned());
        banner.next("keepwarm status", "workers and requests");
        banner.next("Ctrl-C", "stop");
        let expected = format!(
            "\n  keepwarm {}\n\n  serving    shop:app (WSGI)\n  listening  http://127.0.0.1:8080\n             http://[::1]:8080\n\n  \
             keepwarm status  workers and requests\n  Ctrl-C           stop\n\n",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(banner.text(false), expected);
        let colored = banner.text(true);
        assert!(colored.contains("\x1b[2mserving  \x1b[0m  shop:app"), "{colored:?}");
    }

    #[test]
    fn progress_names_what_is_slow() {
        let took = Duration::from_millis(4_200);
        let of = |workers: &[(&'static str, u32, bool)]| progress(workers.iter().copied(), took);
        assert_eq!(
            of(&[("api", 1, true), ("shop", 1, true), ("shop", 2, false), ("shop", 3, false)]),
            ["  starting   shop: 1 of 3 workers ready after 4 s; waiting for shop/2, shop/3"]
        );
        let many: Vec<(&str, u32, bool)> = (1..=9).map(|number| ("shop", number, false)).collect();
        assert_eq!(
            of(&many),
            [
                "  starting   shop: 0 of 9 workers ready after 4 s; waiting for shop/1, shop/2, shop/3, shop/4 and 5 more"
            ]
        );
        assert_eq!(of(&[("shop", 1, true)]), Vec::<String>::new());
        assert_eq!(of(&[]), Vec::<String>::new());
    }
}
