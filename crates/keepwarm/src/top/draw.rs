//! The screen as cells of a terminal. Nothing here waits or reads: a snapshot and a size in, cells out.

use std::time::Instant;

use keepwarm_doctor::report::wrapped;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color as TerminalColor, Modifier, Style};
use serde_json::Value;

use super::charts;
use super::lists::{Cell, Row, Tab};
use super::screen::Screen;
use crate::status::table::{Color, at, list, time, words};

/// Findings that are shown: more causes at once are rare, and the lists need the room.
const FINDINGS: usize = 3;
/// Between two columns.
const GAP: usize = 2;
/// A cell that is not the last one is not wider.
const WIDEST: usize = 40;

const HELP: [&str; 13] = [
    "Tab, left, right   next or previous list",
    "up, down           move by a row",
    "PgUp, PgDn         move by a page",
    "Home, End          first or last row",
    "s                  sort by the next column, then as configured",
    "/                  filter rows: type, then Enter; Esc removes it",
    "c                  charts on or off",
    "?                  this help",
    "q, Ctrl-C          quit",
    "",
    "REQ/S, P50 to P99 and 5XX are of the last 10 s; those of",
    "endpoints are since the start. 1 MIN: change of OWN memory.",
    "Charts: the last 5 minutes, the highest second of each column.",
];

/// Draws all of it, in lines of the width of the area.
pub(super) fn draw(screen: &mut Screen, area: Rect, buffer: &mut Buffer, colors: bool, now: Instant) {
    let mut canvas = Canvas { buffer, area, colors, line: area.y };
    heading(screen, &mut canvas, now);
    verdict(&screen.snapshot, &mut canvas);
    if screen.shows_charts && !screen.snapshot.is_null() {
        charts::draw(&screen.history, &mut canvas);
    }
    tabs(screen, &mut canvas);
    match screen.shows_help {
        true => HELP.iter().for_each(|line| canvas.write_line(line, Style::default())),
        false => table(screen, &mut canvas),
    }
    footer(screen, &mut canvas);
}

/// Where the next line goes.
pub(super) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    pub(super) area: Rect,
    colors: bool,
    line: u16,
}

impl Canvas<'_> {
    pub(super) fn dim(&self) -> Style {
        self.style(Some(Color::Dim))
    }

    /// Writes into the line that is next, if there is room for one.
    pub(super) fn put(&mut self, column: usize, text: &str, style: Style) {
        if self.free() > 0 {
            self.write(self.line, column, text, usize::from(self.area.width), style);
        }
    }

    /// That line is complete.
    pub(super) fn next_line(&mut self) {
        if self.free() > 0 {
            self.line += 1;
        }
    }

    pub(super) fn style(&self, color: Option<Color>) -> Style {
        match color {
            Some(Color::Dim) => Style::default().add_modifier(Modifier::DIM),
            Some(color) if self.colors => Style::default().fg(match color {
                Color::Green => TerminalColor::Green,
                Color::Yellow => TerminalColor::Yellow,
                Color::Dim | Color::Red => TerminalColor::Red,
            }),
            _ => Style::default(),
        }
    }

    /// Lines that are free, with one kept for the footer.
    fn free(&self) -> usize {
        usize::from(self.area.bottom().saturating_sub(1).saturating_sub(self.line))
    }

    /// A line, cut at the width; nothing where there is no room.
    fn write_line(&mut self, text: &str, style: Style) {
        if self.free() > 0 {
            self.write(self.line, 0, text, usize::from(self.area.width), style);
            self.line += 1;
        }
    }

    fn write(&mut self, line: u16, column: usize, text: &str, width: usize, style: Style) {
        let Ok(offset) = u16::try_from(column) else { return };
        if line < self.area.bottom() && offset < self.area.width {
            let width = width.min(usize::from(self.area.width - offset));
            self.buffer.set_stringn(self.area.x + offset, line, harmless(text), width, style);
        }
    }
}

/// Without characters that move the cursor or turn the direction of text.
fn harmless(text: &str) -> String {
    let is_harmful = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|letter| if is_harmful(letter) { '?' } else { letter }).collect()
}

fn heading(screen: &Screen, canvas: &mut Canvas<'_>, now: Instant) {
    let status = at(&screen.snapshot, "/status");
    if !status.is_null() {
        let is_ready = at(status, "/ready") == &Value::Bool(true);
        let line = format!(
            "keepwarm {}  {}  up {}  process {}  generation {}",
            words(at(status, "/version")),
            if is_ready { "ready" } else { "not ready" },
            time(at(status, "/uptime_seconds")),
            words(at(status, "/pid")),
            words(at(status, "/generation")),
        );
        canvas.write_line(&line, canvas.style(if is_ready { None } else { Some(Color::Yellow) }));
    }
    if let Some((outage, why)) = screen.outage(now) {
        let text = format!("NO SNAPSHOT for {}s: {why}", outage.as_secs());
        canvas.write_line(&text, canvas.style(Some(Color::Red)));
    } else if status.is_null() {
        canvas.write_line("waiting for the first snapshot", Style::default());
    }
}

/// The verdict before all else.
fn verdict(snapshot: &Value, canvas: &mut Canvas<'_>) {
    let findings = list(at(snapshot, "/why/findings"));
    if at(snapshot, "/why").is_null() {
        return;
    }
    if findings.is_empty() {
        canvas.write_line("healthy: nothing slows it down", canvas.style(Some(Color::Green)));
    }
    for finding in findings.iter().take(FINDINGS) {
        let subject = match (at(finding, "/app").as_str(), at(finding, "/upstream").as_str()) {
            (Some(app), _) => app.to_owned(),
            (None, Some(upstream)) => format!("upstream {upstream}"),
            (None, None) => "machine".to_owned(),
        };
        let (is_fault, label) = match at(finding, "/severity") == "fault" {
            true => (true, "WHY"),
            false => (false, "NOTE"),
        };
        let text = format!(
            "{label} {subject} for {}: {} ({})",
            time(at(finding, "/seconds")),
            words(at(finding, "/evidence")),
            words(at(finding, "/id")),
        );
        write_wrapped(&text, canvas, canvas.style(Some(if is_fault { Color::Red } else { Color::Yellow })));
    }
    if findings.len() > FINDINGS {
        canvas.write_line(&format!("{} more: keepwarm why", findings.len() - FINDINGS), Style::default());
    }
}

/// Evidence is a sentence: up to three lines.
fn write_wrapped(text: &str, canvas: &mut Canvas<'_>, style: Style) {
    let width = usize::from(canvas.area.width).max(1);
    wrapped(text, width).iter().take(3).for_each(|line| canvas.write_line(line, style));
}

fn tabs(screen: &Screen, canvas: &mut Canvas<'_>) {
    if canvas.free() == 0 {
        return;
    }
    let width = |tab: &Tab| tab.title().len() + 2;
    let total = usize::from(canvas.area.width);
    let selected = screen.tab as usize;
    // Where not all fit: from the first one on with which the one that is shown fits, too.
    let fits = |first: &usize| {
        let before = Tab::ALL.iter().skip(*first).take(selected + 1 - first).map(width).sum::<usize>();
        *first == selected || before <= total
    };
    let first = (0..=selected).find(fits).unwrap_or(selected);
    let mut column = 0;
    for tab in Tab::ALL.iter().skip(first) {
        let is_selected = *tab == screen.tab;
        if !is_selected && column + width(tab) > total {
            // As much as there is room for.
            canvas.put(column, " >", canvas.dim());
            break;
        }
        let style = match is_selected {
            true => Style::default().add_modifier(Modifier::REVERSED),
            false => Style::default(),
        };
        canvas.put(column, &format!(" {} ", tab.title()), style);
        column += width(tab);
    }
    canvas.line += 1;
}

fn table(screen: &mut Screen, canvas: &mut Canvas<'_>) {
    let rows = screen.rows();
    let columns = screen.tab.columns();
    let page = canvas.free().saturating_sub(1).max(1);
    screen.page = page;
    screen.selected = screen.selected.min(rows.len().saturating_sub(1));
    let first = screen.selected / page * page;
    let visible: Vec<&Row> = rows.iter().skip(first).take(page).collect();
    let widths = widths(columns, &visible, usize::from(canvas.area.width));
    let mut column = 0;
    let order = screen.order();
    for (at, (title, width)) in columns.iter().zip(&widths).enumerate() {
        let style = match order == Some(at) {
            true => Style::default().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            false => canvas.style(Some(Color::Dim)),
        };
        if canvas.free() > 0 {
            canvas.write(canvas.line, column, title, *width, style);
        }
        column += width + GAP;
    }
    canvas.line += 1;
    if rows.is_empty() {
        canvas.write_line(
            if screen.filter.is_empty() { "none" } else { "none matches the filter" },
            Style::default(),
        );
    }
    for (at, row) in visible.into_iter().enumerate() {
        if canvas.free() == 0 {
            return;
        }
        write_row(row, &widths, first + at == screen.selected, canvas);
    }
}

fn write_row(row: &[Cell], widths: &[usize], is_selected: bool, canvas: &mut Canvas<'_>) {
    let line = canvas.line;
    let mut column = 0;
    for (cell, width) in row.iter().zip(widths) {
        canvas.write(line, column, &cell.text, *width, canvas.style(cell.color));
        column += width + GAP;
    }
    if is_selected {
        let whole = Rect { y: line, height: 1, ..canvas.area };
        canvas.buffer.set_style(whole, Style::default().add_modifier(Modifier::REVERSED));
    }
    canvas.line += 1;
}

/// The widths of the columns that fit; the last of them gets what is left.
fn widths(columns: &[&str], rows: &[&Row], total: usize) -> Vec<usize> {
    let wanted = |at: usize, title: &str| {
        let cells = rows.iter().filter_map(|row| Some(row.get(at)?.text.chars().count()));
        cells.max().unwrap_or(0).max(title.len())
    };
    let mut widths = Vec::new();
    let mut used = 0;
    for (at, title) in columns.iter().enumerate() {
        let is_last = at + 1 == columns.len();
        // Half of a narrow terminal is for the name.
        let widest = if at == 0 { WIDEST.min(total / 2) } else { WIDEST };
        let wanted = wanted(at, title);
        let width = if is_last { wanted } else { wanted.min(widest) };
        let left = total.saturating_sub(used);
        if at > 0 && (left < title.len() || (left < width && !is_last)) {
            break;
        }
        let width = width.min(left);
        widths.push(width);
        used += width + GAP;
    }
    widths
}

fn footer(screen: &Screen, canvas: &mut Canvas<'_>) {
    let line = canvas.area.bottom().saturating_sub(1);
    let text = match (screen.is_typing, screen.filter.is_empty()) {
        (true, _) => format!("/{}_", screen.filter),
        (false, false) => format!("filter: {}  (Esc removes it)", screen.filter),
        (false, true) => "q quit  Tab list  s sort  / filter  c charts  ? help".to_owned(),
    };
    let style = canvas.style(Some(Color::Dim));
    canvas.write(line, 0, &text, usize::from(canvas.area.width), style);
}

#[cfg(test)]
mod tests;
