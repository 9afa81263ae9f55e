//! What the screen shows, and what keys change.

use std::time::{Duration, Instant};

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;

use super::history::History;
use super::lists::{Row, Tab};

/// Snapshots come each second; a process without them for this long does not turn.
const SILENT: Duration = Duration::from_secs(5);

/// What comes from the instance.
#[derive(Debug)]
pub(super) enum Update {
    Snapshot(Value),
    /// The stream has ended, or there is none: why.
    Gone(String),
}

/// Whether the program continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continue {
    Yes,
    No,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) snapshot: Value,
    /// When the last snapshot came; before the first, when the screen began.
    last: Instant,
    /// Since when, and why, no snapshot comes.
    gone: Option<(Instant, String)>,
    pub(super) tab: Tab,
    /// The column by which each list is sorted.
    order: [Option<usize>; Tab::ALL.len()],
    pub(super) selected: usize,
    pub(super) filter: String,
    /// Keys are text for the filter.
    pub(super) is_typing: bool,
    pub(super) shows_help: bool,
    pub(super) shows_charts: bool,
    pub(super) history: History,
    /// Rows that fitted when it was last drawn.
    pub(super) page: usize,
}

impl Screen {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            snapshot: Value::Null,
            last: now,
            gone: None,
            tab: Tab::Apps,
            order: Tab::ALL.map(Tab::first_order),
            selected: 0,
            filter: String::new(),
            is_typing: false,
            shows_help: false,
            shows_charts: true,
            history: History::default(),
            page: 1,
        }
    }

    pub(super) fn handle_update(&mut self, update: Update, now: Instant) {
        match update {
            Update::Snapshot(snapshot) => {
                self.history.handle_snapshot(&snapshot);
                self.snapshot = snapshot;
                self.last = now;
                self.gone = None;
            }
            Update::Gone(why) => {
                let since = self.gone.as_ref().map_or(now, |(since, _)| *since);
                self.gone = Some((since, why));
            }
        }
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Continue {
        if key.kind == KeyEventKind::Release {
            return Continue::Yes;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if matches!(key.code, KeyCode::Char('c' | 'd')) { Continue::No } else { Continue::Yes };
        }
        match self.is_typing {
            true => self.type_filter(key.code),
            false => return self.command(key.code),
        }
        Continue::Yes
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    fn command(&mut self, key: KeyCode) -> Continue {
        match key {
            KeyCode::Char('q' | 'Q') => return Continue::No,
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?') => self.shows_help = !self.shows_help,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('c') => self.shows_charts = !self.shows_charts,
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Tab | KeyCode::Right => self.show_tab(1),
            KeyCode::BackTab | KeyCode::Left => self.show_tab(Tab::ALL.len() - 1),
            KeyCode::Down => self.selected = self.selected.saturating_add(1),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = self.selected.saturating_add(self.page),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(self.page),
            KeyCode::Home => self.selected = 0,
            // Drawing bounds it.
            KeyCode::End => self.selected = usize::MAX,
            #[cfg(feature = "fault-injection")]
            KeyCode::Char('!') => panic!("as the key wants it"),
            _ => {}
        }
        Continue::Yes
    }

    fn show_tab(&mut self, steps: usize) {
        let next = (self.tab as usize + steps) % Tab::ALL.len();
        self.tab = Tab::ALL.get(next).copied().unwrap_or(Tab::Apps);
        self.selected = 0;
    }

    /// The column by which this list is sorted; `None`: as the configuration has it.
    pub(super) fn order(&self) -> Option<usize> {
        self.order.get(self.tab as usize).copied().flatten()
    }

    fn sort_by_next(&mut self) {
        let next = self.order().map_or(0, |column| column + 1);
        if let Some(order) = self.order.get_mut(self.tab as usize) {
            *order = (next < self.tab.columns().len()).then_some(next);
        }
        self.selected = 0;
    }

    /// The rows of the list that match the filter, in order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = self.tab.rows(&self.snapshot);
        if !self.filter.is_empty() {
            let wanted = self.filter.to_lowercase();
            rows.retain(|row| row.iter().any(|cell| cell.text.to_lowercase().contains(&wanted)));
        }
        if let Some(column) = self.order() {
            rows.sort_by(|a, b| match (a.get(column), b.get(column)) {
                (Some(a), Some(b)) => match (a.number, b.number) {
                    (Some(a), Some(b)) => b.total_cmp(&a),
                    _ => a.text.cmp(&b.text),
                },
                _ => std::cmp::Ordering::Equal,
            });
        }
        rows
    }

    /// How long no snapshot has come, with the reason.
    pub(super) fn outage(&self, now: Instant) -> Option<(Duration, &str)> {
        let age = now.saturating_duration_since(self.last);
        let silent = (age >= SILENT).then_some((age, "the process does not respond"));
        let gone = self.gone.as_ref();
        gone.map(|(since, why)| (now.saturating_duration_since(*since), &**why)).or(silent)
    }
}
