use std::time::Duration;

use super::*;
use crate::sink::tests::TempFile;

/// The lines that `act` logs, without their times.
fn logged(format: Format, level: Level, color: bool, act: impl FnOnce()) -> Vec<String> {
    let file = TempFile::new();
    let sink = Sink::open(Output::File(file.path()), format).unwrap();
    let log = LogSubscriber { sink: sink.clone(), format, level: level.into(), color };
    tracing::subscriber::with_default(log, act);
    assert!(sink.flush(Duration::from_secs(10)));
    let time = match format {
        Format::Text => 0..25,
        Format::Json => 8..34,
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
    assert_eq!(logged(Format::Text, Level::INFO, false, report), expected);
}

#[test]
fn lines_of_json() {
    let lines = logged(Format::Json, Level::INFO, false, report);
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
fn a_level_takes_those_above_it_and_a_terminal_gets_colors() {
    let lines = logged(Format::Text, Level::DEBUG, true, report);
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4], "\x1b[2mDEBUG\x1b[0m not at this level");
    assert!(lines[0].starts_with("\x1b[33mWARN \x1b[0m app=shop"), "{}", lines[0]);
    assert!(logged(Format::Text, Level::ERROR, false, report)[0].starts_with("ERROR a"));
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
    let log = logged(Format::Text, Level::INFO, false, || tracing::info!("{}", Chatty));
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
        logged(Format::Text, Level::INFO, false, print),
        [
            "ERROR app=shop worker=2 boom pid=7 stream=stderr",
            "    \tfrom a.rb:1",
            r"    2026-01-01T00:00:00.000Z ERROR forged\x1b[31m",
            "    ",
        ]
    );
    let lines = logged(Format::Json, Level::INFO, false, print);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(r#""level":"error""#), "{}", lines[0]);
    assert!(lines[0].contains(r#""message":"boom\u000a\u0009from a.rb:1\u000a2026-"#), "{}", lines[0]);
}
