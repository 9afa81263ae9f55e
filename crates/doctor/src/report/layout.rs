//! The layout of reports for people: a gutter of labels, wrapped text, colors where they are enabled.

use crate::finding::Verdict;

/// Columns of the labels on the left.
pub(super) const GUTTER: usize = 18;

/// Columns of a line: what tickets and mails show without wrapping once more.
const WIDTH: usize = 100;

/// Whether the report has colors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Colors(pub(super) bool);

impl Colors {
    /// These words in the verdict's color.
    pub(super) fn verdict(self, verdict: Verdict, words: &str) -> String {
        let color = match verdict {
            Verdict::Good => 32,
            Verdict::Unknown => 36,
            Verdict::Warning => 33,
            Verdict::Bad => 31,
        };
        if self.0 { format!("\x1b[{color}m{words}\x1b[0m") } else { words.to_owned() }
    }
}

/// A label, and the text beside it.
pub(super) struct LabelledText<'a> {
    pub(super) label: &'a str,
    /// The label as it is written: painted, perhaps.
    pub(super) shown: String,
    pub(super) text: &'a str,
}

impl LabelledText<'_> {
    pub(super) fn write(&self, out: &mut String) {
        let mut gap = GUTTER.saturating_sub(2 + self.label.chars().count());
        out.push_str("  ");
        out.push_str(&self.shown);
        for line in wrapped(&clean(self.text), WIDTH - GUTTER) {
            out.push_str(&" ".repeat(gap));
            out.push_str(&line);
            out.push('\n');
            gap = GUTTER;
        }
    }
}

/// The text in lines of up to `width` columns. A longer word has a line of its own: a URL that is cut is useless.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Without control characters: what a server says must not steer a terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_stay_whole_and_control_characters_go() {
        assert_eq!(wrapped("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrapped("a https://shop.example/cart b", 5), ["a", "https://shop.example/cart", "b"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(clean("a\x1b[2Jb\r\n"), "a?[2Jb??");
    }
}
