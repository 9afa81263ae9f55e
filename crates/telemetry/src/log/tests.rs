use std::time::Duration;

use super::*;
use crate::sink::tests::TempFile;

/// The lines that `act` logs, without their times.
pub(super) fn logged(format: Format, level: Level, act: impl FnOnce()) -> Vec<String> {
    let file = TempFile::new();
    let sink = Sink::open(Output::File(file.path()), format).unwrap();
    let log = LogSubscriber { sink: sink.clone(), format, level: level.into() };
    tracing::subscriber::with_default(log, act);
    assert!(sink.flush(Duration::from_secs(10)));
    let time = match format {
        Format::Text => 0..25,
        Format::Json => 8..34,
        Format::Terminal { color } => return clocks_removed(&file.read(), color),
    };
    let without_time = |line: &str| {
        let mut line = line.to_owned();
        if line.starts_with("    ") {
            return line;
        }
        assert!(line[time.clone()].contains("T") && line[time.clone()].contains("Z"), "{line}");
        line.replace_range(time.clone(), "");
        line
    };
    file.read().lines().map(without_time).collect()
}

fn report() {
    tracing::warn!(name: "worker_ended", status = 1, after = "3.2 s", app = "shop", worker = 2_u64, "the worker {}", "ended");
    tracing::info!(
        empty = "",
        quoted = "say \"hi\" \\",
        ok = true,
        share = 0.5,
        none = Option::<u64>::None,
        "x"
    );
    tracing::error!(error = %"line\nbreak", "a\x1b[31m message\r\n2026-01-01T00:00:00.000Z ERROR forged");
    tracing::info!(target: "h2::proto", debug = ?Some("é"), "of others");
    tracing::debug!("not at this level");
}

#[test]
fn lines_of_text() {
    let expected = [
        "WARN  app=shop worker=2 the worker ended status=1 after=\"3.2 s\"",
        r#"INFO  x empty="" quoted="say \"hi\" \\" ok=true share=0.5"#,
        r#"ERROR a\x1b[31m message\x0d\n2026-01-01T00:00:00.000Z ERROR forged error="line\nbreak""#,
        r#"INFO  of others debug="Some(\"é\")" target=h2::proto"#,
    ];
    assert_eq!(logged(Format::Text, Level::INFO, report), expected);
}

#[test]
fn lines_of_json() {
    let lines = logged(Format::Json, Level::INFO, report);
    assert_eq!(
        lines[0],
        "{\"time\":,\"level\":\"warn\",\"event\":\"worker_ended\",\"app\":\"shop\",\"worker\":2,\"message\":\"the worker ended\",\
         \"target\":\"keepwarm_telemetry::log::tests\",\"status\":1,\"after\":\"3.2 s\"}"
    );
    let parsed = lines.iter().map(|line| line.replace("{\"time\":,", "{"));
    let parsed: Vec<serde_json::Value> = parsed.map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert_eq!(parsed.len(), 4);
    assert_eq!(parsed[1]["quoted"], "say \"hi\" \\");
    assert_eq!(parsed[1]["event"], serde_json::Value::Null, "one without a name");
    assert_eq!(parsed[1]["share"], 0.5);
    assert_eq!(parsed[2]["message"], "a\x1b[31m message\r\n2026-01-01T00:00:00.000Z ERROR forged");
    assert_eq!(parsed[3]["debug"], "Some(\"é\")");
}

#[test]
fn a_level_takes_those_above_it() {
    let lines = logged(Format::Text, Level::DEBUG, report);
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4], "DEBUG not at this level");
    assert!(logged(Format::Text, Level::ERROR, report)[0].starts_with("ERROR a"));
}

/// The lines after their time of day, of which the form is checked.
fn clocks_removed(text: &str, color: bool) -> Vec<String> {
    let (before, after) = if color { ("\x1b[2m", "\x1b[0m ") } else { ("", " ") };
    let without = |line: &str| {
        let Some(rest) = line.strip_prefix(before).filter(|_| !line.starts_with("         ")) else {
            return line.to_owned();
        };
        let (clock, rest) = rest.split_at(8);
        let digits = clock.split(':').map(|part| part.parse::<u8>().map(|number| (part.len(), number)));
        let digits: Vec<_> = digits.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("{line}"));
        assert!(digits.len() == 3 && digits.iter().all(|(length, _)| *length == 2), "{line}");
        rest.strip_prefix(after).unwrap_or_else(|| panic!("{line}")).to_owned()
    };
    text.lines().map(without).collect()
}

#[test]
fn lines_for_a_person() {
    let expected = [
        "WARN  shop/2 the worker ended status=1 after=\"3.2 s\"",
        r#"INFO  x empty="" quoted="say \"hi\" \\" ok=true share=0.5"#,
        r#"ERROR a\x1b[31m message\x0d\n2026-01-01T00:00:00.000Z ERROR forged error="line\nbreak""#,
        r#"INFO  of others debug="Some(\"é\")" target=h2::proto"#,
    ];
    assert_eq!(logged(Format::Terminal { color: false }, Level::INFO, report), expected);
    let lines = logged(Format::Terminal { color: true }, Level::DEBUG, report);
    assert_eq!(
        lines[0],
        "\x1b[33mWARN \x1b[0m \x1b[1mshop/2\x1b[0m the worker ended\x1b[2m status=1 after=\"3.2 s\"\x1b[0m"
    );
    assert_eq!(lines[4], "\x1b[2mDEBUG\x1b[0m not at this level");
}

fn print_as_app() {
    let traceback = "Traceback (most recent call last):\n  File \"shop.py\", line 3, in pay\n\nValueError: \x1b[1mno\x1b[0m such card\x1b[2J";
    tracing::error!(target: app_output::TARGET, app = "shop", worker = 2_u64, pid = 7, stream = "stderr", "{traceback}");
    tracing::info!(target: app_output::TARGET, app = "shop", worker = 1_u64, pid = 6, stream = "stdout", "10 items\tsold");
}

#[test]
fn the_lines_of_an_app_are_shown_as_it_wrote_them() {
    let expected = [
        "shop/2 | Traceback (most recent call last):",
        "         shop/2 |   File \"shop.py\", line 3, in pay",
        "         shop/2 |",
        "         shop/2 | ValueError: no such card\\x1b[2J",
        "shop/1 | 10 items\tsold",
    ];
    assert_eq!(logged(Format::Terminal { color: false }, Level::INFO, print_as_app), expected);
    let lines = logged(Format::Terminal { color: true }, Level::INFO, print_as_app);
    assert_eq!(lines[0], "\x1b[31mshop/2 |\x1b[0m Traceback (most recent call last):");
    assert_eq!(
        lines[3],
        "         \x1b[31mshop/2 |\x1b[0m ValueError: \x1b[1mno\x1b[0m such card\\x1b[2J\x1b[0m"
    );
}

#[test]
fn a_value_that_logs_while_it_is_logged_makes_two_lines() {
    struct Chatty;
    impl fmt::Display for Chatty {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            tracing::info!("inner");
            f.write_str("outer")
        }
    }
    // `tracing` itself drops what is logged inside an event for a scoped subscriber; ours must not stop on it.
    let log = logged(Format::Text, Level::INFO, || tracing::info!("{}", Chatty));
    assert_eq!(log.last().map(String::as_str), Some("INFO  outer"));
}

#[test]
fn a_multi_line_output_of_an_app_is_one_record() {
    let print = || {
        crate::app_output::log(
            Level::ERROR,
            crate::app_output::Printer::Worker("shop", 2),
            7,
            "stderr",
            b"boom\n\tfrom a.rb:1\n2026-01-01T00:00:00.000Z ERROR forged\x1b[31m\n",
        )
    };
    assert_eq!(
        logged(Format::Text, Level::INFO, print),
        [
            "ERROR app=shop worker=2 boom pid=7 stream=stderr",
            "    \tfrom a.rb:1",
            r"    2026-01-01T00:00:00.000Z ERROR forged\x1b[31m",
            "    ",
        ]
    );
    let lines = logged(Format::Json, Level::INFO, print);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(r#""level":"error""#), "{}", lines[0]);
    assert!(lines[0].contains(r#""message":"boom\u000a\u0009from a.rb:1\u000a2026-"#), "{}", lines[0]);
}
