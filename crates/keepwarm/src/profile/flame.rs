//! A flame graph: each call is a box as wide as its time, above its caller. Standing SVG without a script: titles of boxes show in browsers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The last part of a stack whose time is spent waiting (`spec/wire.md` §10).
const WAITING: &str = "(waiting)";

/// Sizes, in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const HEAD: f64 = 52.0;
const ROW: f64 = 18.0;
/// A box that is narrower is not drawn: nobody sees it, and files stay small.
const NARROWEST: f64 = 0.2;
/// Of the font, which is monospaced.
const CHARACTER: f64 = 7.3;

/// Stacks as `flamegraph.pl` and its relatives read them: `a;b;c 12`, with the number of samples at this rate.
pub(super) fn collapsed(microseconds: &BTreeMap<String, u64>, hertz: u32) -> String {
    let mut text = String::new();
    for (stack, time) in microseconds {
        let samples = (u128::from(*time) * u128::from(hertz) + 500_000) / 1_000_000;
        if samples > 0 {
            let _ = writeln!(text, "{stack} {samples}");
        }
    }
    text
}

/// A call, with the calls that it makes.
#[derive(Debug, Default)]
struct Call {
    /// Microseconds, in the calls below, too.
    total: u64,
    /// Those of them that were spent waiting.
    waiting: u64,
    calls: BTreeMap<String, Call>,
}

impl Call {
    fn add(&mut self, stack: &str, time: u64) {
        let waiting = stack.ends_with(WAITING);
        let mut call = self;
        call.spend(time, waiting);
        for name in stack.split(';') {
            call = call.calls.entry(name.to_owned()).or_default();
            call.spend(time, waiting);
        }
    }

    fn spend(&mut self, time: u64, waiting: bool) {
        self.total = self.total.saturating_add(time);
        if waiting {
            self.waiting = self.waiting.saturating_add(time);
        }
    }

    fn depth(&self) -> usize {
        1 + self.calls.values().map(Call::depth).max().unwrap_or(0)
    }
}

/// The graph. `title` and `subtitle` stand above it.
pub(super) fn svg(microseconds: &BTreeMap<String, u64>, title: &str, subtitle: &str) -> String {
    let mut root = Call::default();
    microseconds.iter().for_each(|(stack, time)| root.add(stack, *time));
    let height = HEAD + ROW * root.depth() as f64 + MARGIN;
    let mut drawing = Drawing {
        out: String::new(),
        bottom: height - MARGIN - ROW,
        per_microsecond: (WIDTH - 2.0 * MARGIN) / root.total.max(1) as f64,
        whole: root.total.max(1),
    };
    let _ = write!(
        drawing.out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"12\">\n\
         <title>{0}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{0}</text>\n\
         <text x=\"{MARGIN}\" y=\"40\" fill=\"#444\">{1}</text>\n",
        escaped(title),
        escaped(subtitle),
    );
    drawing.call("all", &root, MARGIN, 0);
    drawing.out.push_str("</svg>\n");
    drawing.out
}

struct Drawing {
    out: String,
    /// Where the lowest row begins.
    bottom: f64,
    per_microsecond: f64,
    whole: u64,
}

impl Drawing {
    /// A call and what is above it.
    fn call(&mut self, name: &str, call: &Call, x: f64, level: usize) {
        let width = call.total as f64 * self.per_microsecond;
        if width < NARROWEST {
            return;
        }
        let y = self.bottom - ROW * level as f64;
        let _ = write!(
            self.out,
            "<g><title>{}: {}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"{}\"/>",
            escaped(name),
            self.described(call),
            ROW - 1.0,
            color(name, call),
        );
        if let Some(text) = fitted(name, width) {
            let _ = write!(
                self.out,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 3.0,
                y + 13.0,
                escaped(&text)
            );
        }
        self.out.push_str("</g>\n");
        let mut x = x;
        for (name, call) in &call.calls {
            self.call(name, call, x, level + 1);
            x += call.total as f64 * self.per_microsecond;
        }
    }

    fn described(&self, call: &Call) -> String {
        let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
        format!(
            "{:.2} s, {:.1} % of all, {:.0} % of it waiting",
            call.total as f64 / 1e6,
            percent(call.total, self.whole),
            percent(call.waiting, call.total)
        )
    }
}

/// From orange (all of it computing) to blue (all of it waiting), light enough for black text; each name a little different, and always the same.
fn color(name: &str, call: &Call) -> String {
    let shade = name.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())) % 12;
    let share = call.waiting as f64 / call.total.max(1) as f64;
    let between = |computing: f64, waiting: f64| (computing + (waiting - computing) * share).round();
    let lightness = 66.0 + f64::from(shade);
    // Not through the green between the two hues: what is mixed is grey.
    let saturation = 20.0 + 70.0 * (2.0 * share - 1.0).abs();
    let hue = if share < 0.5 { 28 } else { 212 };
    format!("hsl({hue},{:.0}%,{:.0}%)", saturation, between(lightness, lightness + 4.0))
}

/// As much of a name as has room; `None`: nothing readable has.
fn fitted(name: &str, width: f64) -> Option<String> {
    const LEAST: usize = 3;
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    if room < LEAST {
        return None;
    }
    if name.chars().count() <= room {
        return Some(name.to_owned());
    }
    let beginning: String = name.chars().take(room - 2).collect();
    Some(beginning + "..")
}

/// As text of XML, in which control characters have no place.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(stack, time)| ((*stack).to_owned(), *time)).collect()
    }

    #[test]
    fn collapsed_stacks_have_samples_of_the_rate() {
        let stacks = stacks(&[("a;b", 25_000), ("a;b;c (x.py:1)", 1_000_000), ("a", 4_999), ("z", u64::MAX)]);
        assert_eq!(collapsed(&stacks, 100), "a;b 3\na;b;c (x.py:1) 100\nz 1844674407370955\n");
    }

    #[test]
    fn times_add_up_towards_the_root() {
        let mut root = Call::default();
        for (stack, time) in [("a;b", 1), ("a;b;(waiting)", 2), ("a;c", 4), ("d", 8)] {
            root.add(stack, time);
        }
        assert_eq!((root.total, root.waiting, root.depth()), (15, 2, 4));
        let a = &root.calls["a"];
        assert_eq!((a.total, a.waiting), (7, 2));
        assert_eq!((a.calls["b"].total, a.calls["b"].waiting), (3, 2));
    }

    #[test]
    fn a_box_is_as_wide_as_its_time_and_above_its_caller() {
        let graph = svg(&stacks(&[("left", 3_000_000), ("right;above", 1_000_000)]), "app", "");
        let box_of = |name: &str| {
            let start = graph.find(&format!("<title>{name}:")).unwrap();
            let part = |key: &str| -> f64 {
                let rest = &graph[start..];
                let at = rest.find(&format!(" {key}=\"")).unwrap() + key.len() + 3;
                rest[at..].split('"').next().unwrap().parse().unwrap()
            };
            (part("x"), part("y"), part("width"))
        };
        let (all, left, right, above) = (box_of("all"), box_of("left"), box_of("right"), box_of("above"));
        assert_eq!((left.2, right.2), (all.2 * 0.75, all.2 * 0.25));
        assert_eq!((left.0, right.0, above.0), (all.0, all.0 + left.2, right.0));
        assert!(all.1 - left.1 == ROW && left.1 == right.1 && right.1 - above.1 == ROW);
        assert!(above.1 > HEAD - ROW, "below the head");
    }

    #[test]
    fn what_waits_has_another_color() {
        let graph = svg(&stacks(&[("f", 1), ("g;(waiting)", 1)]), "app", "");
        assert_eq!(graph.matches("hsl(28,90%").count(), 1, "{graph}");
        assert_eq!(graph.matches("hsl(212,90%").count(), 2, "g, and its wait: {graph}");
    }

    #[test]
    fn names_of_an_app_are_text_only() {
        let graph = svg(&stacks(&[("</title><script>\"&\u{1b}", 1)]), "<a>", "\u{0}b");
        assert!(!graph.contains("<script>") && !graph.contains('\u{1b}') && !graph.contains('\u{0}'));
        assert!(graph.contains("&lt;/title&gt;&lt;script&gt;&quot;&amp;?"));
        assert!(graph.contains("<title>&lt;a&gt;</title>"));
    }

    #[test]
    fn names_are_cut_where_there_is_no_room() {
        assert_eq!(fitted("abcdef", 6.0 + 6.0 * CHARACTER + 0.1).as_deref(), Some("abcdef"));
        assert_eq!(fitted("abcdefg", 6.0 + 6.0 * CHARACTER + 0.1).as_deref(), Some("abcd.."));
        assert_eq!(fitted("ü€ghi", 6.0 + 4.0 * CHARACTER + 0.1).as_deref(), Some("ü€.."));
        assert_eq!(fitted("abc", 20.0), None);
    }

    #[test]
    fn an_empty_profile_is_a_graph() {
        assert!(svg(&BTreeMap::new(), "app", "").ends_with("</svg>\n"));
    }
}
