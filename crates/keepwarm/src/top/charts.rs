//! Charts of the last five minutes: columns of block characters, the highest second of each. Four lines of them where there is room, else two charts in each of
//! two lines, and none on a small screen.

use ratatui_core::style::{Modifier, Style};
use serde_json::json;

use super::draw::Canvas;
use super::history::{History, Point};
use crate::status::table::{Color, time};

/// From an eighth of a cell to all of it.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Lines of the screen from which there are charts, and from which they are tall. The list keeps ten lines and more.
const LEAST: u16 = 20;
const TALL: u16 = 34;
/// Lines of a tall chart.
const HEIGHT: usize = 4;
/// Columns for a value.
const VALUE: usize = 7;

struct Chart {
    title: &'static str,
    value: fn(&Point) -> f64,
    show: fn(f64) -> String,
    /// The scale ends there if all values are lower.
    least: f64,
    /// What is above 0 is bad.
    is_bad: bool,
}

const CHARTS: [Chart; 4] = [
    Chart { title: "REQ/S", value: |point| point.rate, show: rate, least: 1.0, is_bad: false },
    Chart { title: "P99", value: |point| point.p99, show: seconds, least: 0.001, is_bad: false },
    Chart { title: "QUEUE", value: |point| point.queue, show: count, least: 1.0, is_bad: false },
    Chart { title: "5XX/S", value: |point| point.errors, show: rate, least: 1.0, is_bad: true },
];

fn rate(value: f64) -> String {
    format!("{value:.1}")
}

fn count(value: f64) -> String {
    format!("{value:.0}")
}

fn seconds(value: f64) -> String {
    time(&json!(value))
}

/// `-` where nothing was measured.
fn shown(chart: &Chart, value: f64) -> String {
    if value.is_nan() { "-".to_owned() } else { (chart.show)(value) }
}

pub(super) fn draw(history: &History, canvas: &mut Canvas<'_>) {
    let width = usize::from(canvas.area.width);
    match canvas.area.height {
        ..LEAST => {}
        LEAST..TALL => {
            for pair in CHARTS.chunks(2) {
                draw_line(pair, history, width, canvas);
            }
        }
        TALL.. => draw_tall(history, width, canvas),
    }
}

/// `REQ/S ▁▂▅▇  41.3`, and another beside it.
fn draw_line(charts: &[Chart], history: &History, width: usize, canvas: &mut Canvas<'_>) {
    let each = (width + 2) / charts.len();
    for (at, chart) in charts.iter().enumerate() {
        let (column, title) = (at * each, chart.title.len() + 1);
        let Some(bars) = each.checked_sub(title.max(6) + 1 + VALUE + 2).filter(|bars| *bars > 0) else {
            continue;
        };
        let newest = history.newest().map_or(f64::NAN, chart.value);
        let (values, highest) = scaled(chart, history, bars);
        canvas.put(column, chart.title, canvas.dim());
        let lines = bars_of(&values, 1);
        canvas.put(
            column + title.max(6),
            lines.first().map_or("", String::as_str),
            style(chart, highest, canvas),
        );
        canvas.put(
            column + title.max(6) + bars + 1,
            &format!("{:>VALUE$}", shown(chart, newest)),
            Style::default(),
        );
    }
    canvas.next_line();
}

/// A title with the newest and the highest value, and bars beneath.
fn draw_tall(history: &History, width: usize, canvas: &mut Canvas<'_>) {
    let each = (width + 2) / CHARTS.len();
    let bars = each.saturating_sub(2);
    let charts: Vec<_> = CHARTS.iter().map(|chart| (chart, scaled(chart, history, bars))).collect();
    for (at, (chart, (_, highest))) in charts.iter().enumerate() {
        let newest = shown(chart, history.newest().map_or(f64::NAN, chart.value));
        canvas.put(at * each, chart.title, canvas.dim());
        canvas.put(at * each + 6, &newest, Style::default().add_modifier(Modifier::BOLD));
        let most = format!("max {}", shown(chart, *highest));
        let column = (at * each + bars).saturating_sub(most.chars().count());
        if column > at * each + 6 + newest.chars().count() {
            canvas.put(column, &most, canvas.dim());
        }
    }
    canvas.next_line();
    let lines: Vec<_> = charts.iter().map(|(_, (values, _))| bars_of(values, HEIGHT)).collect();
    for line in 0..HEIGHT {
        for (at, ((chart, (_, highest)), lines)) in charts.iter().zip(&lines).enumerate() {
            let text = lines.get(line).map_or("", String::as_str);
            canvas.put(at * each, text, style(chart, *highest, canvas));
        }
        canvas.next_line();
    }
}

fn style(chart: &Chart, highest: f64, canvas: &Canvas<'_>) -> Style {
    canvas.style((chart.is_bad && highest > 0.0).then_some(Color::Red))
}

/// Values as parts of the scale, and the highest value.
fn scaled(chart: &Chart, history: &History, columns: usize) -> (Vec<f64>, f64) {
    let values = history.highest(columns, chart.value);
    let highest = values.iter().copied().fold(f64::NAN, f64::max);
    let top = highest.max(chart.least);
    (values.into_iter().map(|value| value / top).collect(), highest)
}

/// Lines from the top, of a column for each part from 0 to 1. What was measured is seen, also 0.
fn bars_of(parts: &[f64], height: usize) -> Vec<String> {
    let eighths = |part: &f64| match part.is_nan() {
        true => 0,
        false => ((part.clamp(0.0, 1.0) * (height * BLOCKS.len()) as f64).round() as usize).max(1),
    };
    let cell = |filled: usize, below: usize| match filled.saturating_sub(below) {
        0 => ' ',
        filled => BLOCKS.get(filled - 1).copied().unwrap_or('█'),
    };
    let line = |line: usize| {
        let below = (height - 1 - line) * BLOCKS.len();
        parts.iter().map(|part| cell(eighths(part), below)).collect()
    };
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values_and_gaps_are_empty() {
        assert_eq!(bars_of(&[f64::NAN, 0.0, 0.25, 0.5, 1.0, 7.0], 1), [" ▁▂▄██"]);
        assert_eq!(bars_of(&[0.5, 0.75, 1.0, f64::NAN, 0.0], 2), [" ▄█  ", "███ ▁"]);
        assert_eq!(bars_of(&[], 2), ["", ""]);
    }
}
