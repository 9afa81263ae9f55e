use super::*;

/// The records of these lines, when nothing pauses.
fn records(text: &str) -> Vec<(Level, String)> {
    let mut found = Vec::new();
    let mut records = RecordAssembler::default();
    let mut each = |level, text: &[u8]| found.push((level, String::from_utf8_lossy(text).into_owned()));
    for line in text.lines() {
        records.push_line(line.as_bytes(), &mut each);
    }
    records.flush(&mut each);
    found
}

/// The text is one record of this level, also between other prints.
fn is_one(level: Level, text: &str) {
    assert_eq!(records(text), [(level, text.to_owned())]);
    let between = records(&format!("before\n{text}\nafter\n"));
    let expected =
        [(Level::INFO, "before".to_owned()), (level, text.to_owned()), (Level::INFO, "after".to_owned())];
    assert_eq!(between, expected);
}

#[test]
fn a_traceback_of_python_is_one_record() {
    is_one(
        Level::ERROR,
        "Traceback (most recent call last):\n  File \"shop.py\", line 3, in pay\n    raise ValueError(card)\n    ^^^^^\nValueError: no such card",
    );
    is_one(
        Level::ERROR,
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n\
         Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nOSError: gone\n\nThe above exception was the direct cause of the following exception:\n\n\
         Traceback (most recent call last):\n  File \"a.py\", line 9, in g\nRuntimeError: in vain\n  with more of it",
    );
}

#[test]
fn a_syntax_error_of_python_is_one_record() {
    is_one(
        Level::ERROR,
        "  File \"shop.py\", line 4\n    x = 1 +\n           ^\nSyntaxError: invalid syntax",
    );
    is_one(
        Level::ERROR,
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    import shop\n  File \"shop.py\", line 4\n    x = 1 +\n           ^\nSyntaxError: invalid syntax",
    );
}

#[test]
fn a_logged_exception_of_python_is_one_record() {
    is_one(
        Level::ERROR,
        "ERROR:shop:cannot pay\nTraceback (most recent call last):\n  File \"shop.py\", line 3, in pay\nValueError: no such card",
    );
    let plain =
        records("paid\nTraceback (most recent call last):\n  File \"shop.py\", line 3\nValueError: x");
    assert_eq!(plain.len(), 2, "a line that says nothing of an error stands for itself");
}

#[test]
fn a_group_of_exceptions_is_one_record() {
    is_one(
        Level::ERROR,
        "ERROR:shop:cannot pay\n  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1, in f\n  | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: 1",
    );
}

#[test]
fn a_group_of_exceptions_is_joined_to_others() {
    let group = "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1, in f\n  | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: 1\n    +------------------------------------";
    let cause = "\n\nThe above exception was the direct cause of the following exception:\n\n";
    let other = "Traceback (most recent call last):\n  File \"a.py\", line 9, in g\nRuntimeError: all";
    is_one(Level::ERROR, group);
    is_one(Level::ERROR, &format!("ERROR:root:cannot\n{group}{cause}{other}"));
    is_one(Level::ERROR, &format!("{other}{cause}{group}"));
}

#[test]
fn a_report_of_asyncio_is_one_record() {
    let trace =
        "Traceback (most recent call last):\n  File \"shop.py\", line 3, in pay\nValueError: no such card";
    for said in ["Task exception was never retrieved", "ERROR:asyncio:Task exception was never retrieved"] {
        is_one(Level::ERROR, &format!("{said}\nfuture: <Task finished name='Task-2'>\n{trace}"));
        let place = "source_traceback: Object created at (most recent call last):\n  File \"shop.py\", line 9, in main";
        is_one(Level::ERROR, &format!("{said}\nfuture: <Task finished name='Task-2'>\n{place}\n{trace}"));
    }
    is_one(Level::ERROR, &format!("Exception in callback pay()\nhandle: <Handle pay()>\n{trace}"));
    is_one(Level::ERROR, "Task was destroyed but it is pending!\ntask: <Task pending name='Task-2'>");
    is_one(Level::ERROR, "Unclosed client session\nclient_session: <aiohttp.client.ClientSession object>");
    is_one(Level::ERROR, &format!("Exception in thread Thread-1 (pay):\n{trace}"));
    assert_eq!(records("done\ntask: buy milk").len(), 2, "an app prints such lines, too");
}

#[test]
fn a_traceback_of_loguru_is_one_record() {
    is_one(
        Level::ERROR,
        "2026-01-01 00:00:00.117 | ERROR    | __main__:<module>:49 - oops\nTraceback (most recent call last):\n\n> File \"shop.py\", line 48, in <module>\n    pay()\n    └ <function pay>\n\n  \
         File \"shop.py\", line 3, in pay\n    raise ValueError(\"no such card\")\n\nValueError: no such card",
    );
}

#[test]
fn a_traceback_that_rich_has_drawn_is_one_record() {
    let drawn = "╭────── Traceback (most recent call last) ──────╮\n│ /srv/shop.py:54 in <module>                  │\n│                                              │\n╰──────────────────────────────────────────────╯\nValueError: no such card";
    is_one(Level::ERROR, drawn);
    is_one(Level::ERROR, &format!("2026-01-01 00:00:00 [error    ] failed     card=3\n{drawn}"));
}

#[test]
fn a_multi_line_exception_is_one_record() {
    let trace = "Traceback (most recent call last):\n  File \"shop.py\", line 3, in pay";
    is_one(
        Level::ERROR,
        &format!(
            "{trace}\nsqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: x\n[SQL: SELECT * from x]\n[parameters: (1,)]\n(Background on this error at: https://sqlalche.me/e/20/e3q8)"
        ),
    );
    is_one(
        Level::ERROR,
        &format!(
            "ERROR:root:failed\n{trace}\npydantic_core._pydantic_core.ValidationError: 2 validation errors for Card\nnumber\n  Input should be a valid integer\n    For further information visit https://errors.pydantic.dev\nowner.0.name\n  Field required"
        ),
    );
}

#[test]
fn the_stack_info_of_logging_is_in_its_record() {
    is_one(
        Level::ERROR,
        "ERROR:root:x\nStack (most recent call last):\n  File \"shop.py\", line 69, in <module>",
    );
}

#[test]
fn a_fatal_error_of_python_is_one_record() {
    is_one(
        Level::ERROR,
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f39a0474b80 (most recent call first):\n  File \"shop.py\", line 519 in pay\n\nThread 0x00007f39a0474b81 (most recent call first):\n  File \"shop.py\", line 9 in wait\n\nExtension modules: numpy.core (total: 1)",
    );
}

#[test]
fn marked_lines_are_one_record_regardless_of_content() {
    let found = records(
        "before\nTraceback (most recent call last):\x1f\nValueError: two\x1f\n\x1f\nlines\x1f\n[INFO] three\n  after",
    );
    let whole = "Traceback (most recent call last):\nValueError: two\n\nlines\n[INFO] three";
    let expected = [(Level::INFO, "before"), (Level::ERROR, whole), (Level::INFO, "  after")];
    assert_eq!(found, expected.map(|(level, text)| (level, text.to_owned())));
    let trace = "\x1f\nTraceback (most recent call last):\x1f\nValueError: x";
    let ruby = records(
        "shop.rb:3:in `pay': no such card:\x1f\nnor any other (RuntimeError)\x1f\n\tfrom shop.rb:9:in `buy'",
    );
    assert_eq!((ruby.len(), ruby[0].0), (1, Level::ERROR));
    for (first, level) in [
        ("00:00:01 cannot pay", Level::ERROR),
        ("INFO:shop:tried", Level::INFO),
        ("WARNING:shop:tried", Level::WARN),
    ] {
        let found = records(&format!("{first}{trace}"));
        assert_eq!((found.len(), found[0].0), (1, level), "{first}");
    }
    let long = records(&"x\x1f\n".repeat(RECORD_MAX));
    assert!(long.len() > 1 && long.iter().all(|it| it.1.len() <= RECORD_MAX));
}

#[test]
fn an_uncaught_exception_of_php_is_one_record() {
    is_one(
        Level::ERROR,
        "PHP Fatal error:  Uncaught LogicException: no such card in /srv/shop.php:3\nStack trace:\n#0 /srv/shop.php(9): pay()\n#1 {main}\n\n\
         Next RuntimeError: in vain in /srv/shop.php:5\nStack trace:\n#0 {main}\n  thrown in /srv/shop.php on line 5",
    );
    is_one(
        Level::ERROR,
        "PHP message: PHP Fatal error:  Uncaught LogicException: no such card in /srv/shop.php:3\nStack trace:\n#0 {main}\n\
         Next RuntimeError: in vain in /srv/shop.php:5\nStack trace:\n#0 {main}\n  thrown in /srv/shop.php on line 5",
    );
    is_one(
        Level::ERROR,
        "PHP message: PHP Fatal error:  Uncaught Error: x in a.php:1\nStack trace:\n#0 {main}\n  thrown in a.php on line 1",
    );
}

#[test]
fn the_lines_of_an_uncaught_exceptions_text_are_in_its_record() {
    let trace = "Stack trace:\n#0 {main}\n  thrown in /srv/shop.php on line 3";
    is_one(
        Level::ERROR,
        &format!(
            "PHP Fatal error:  Uncaught RuntimeException: no such card:\n[INFO] 4711\n\nnor any other in /srv/shop.php:3\n{trace}"
        ),
    );
    is_one(Level::ERROR, &format!("PHP Fatal error:  Uncaught Error: x in a.php:1\n{trace}"));
}

#[test]
fn an_exception_that_php_has_logged_is_one_record() {
    is_one(
        Level::ERROR,
        "LogicException: no such card in /srv/shop.php:3\nStack trace:\n#0 /srv/shop.php(9): pay()\n#1 {main}",
    );
}

/// Below it is the line of the source that it is about; `from` begins a place of Ruby's, too.
#[test]
fn a_warning_of_python_about_an_import_stays_a_warning() {
    is_one(Level::WARN, "/srv/shop.py:3: DeprecationWarning: card is deprecated\n  from shop import card");
}

#[test]
fn a_backtrace_of_ruby_is_one_record() {
    is_one(
        Level::ERROR,
        "shop.rb:3:in `pay': no such card (ArgumentError)\n\tfrom shop.rb:9:in `buy'\n\tfrom shop.rb:12:in `<main>'",
    );
    is_one(Level::ERROR, "RuntimeError: boom\n\tfrom config.ru:3:in 'block'");
}

#[test]
fn an_error_of_rubys_logger_has_its_further_lines() {
    let found = records(
        "E, [2026-01-01T00:00:00.000000 #12] ERROR -- : [9f] ArgumentError (no such card):\n[9f]\n[9f] app/models/card.rb:3:in `pay'\n\
         I, [2026-01-01T00:00:00.000000 #12]  INFO -- : next\nsold",
    );
    assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), [Level::ERROR, Level::INFO, Level::INFO]);
    assert!(found[0].1.ends_with("card.rb:3:in `pay'"));
}

#[test]
fn an_error_of_node_is_one_record() {
    is_one(
        Level::ERROR,
        "TypeError: no such card\n    at pay (/srv/shop.js:3:9)\n    at /srv/shop.js:12:1 {\n  code: 'E_CARD'\n}",
    );
    is_one(
        Level::ERROR,
        "/srv/shop.js:3\n    throw new TypeError('no such card');\n    ^\n\nTypeError: no such card\n    at pay (/srv/shop.js:3:9)\n\nNode.js v18.19.0",
    );
}

#[test]
fn a_panic_of_go_or_rust_is_one_record() {
    is_one(
        Level::ERROR,
        "panic: no such card\n\ngoroutine 1 [running]:\nmain.pay(...)\n\t/srv/shop.go:3\nmain.main()\n\t/srv/shop.go:9 +0x1d\n\ngoroutine 5 [select]:\nmain.wait()\n\t/srv/shop.go:12",
    );
    let served = "2026/01/01 00:00:00 http: panic serving 192.0.2.1:1234: no such card\ngoroutine 5 [running]:\nnet/http.(*conn).serve.func1()\n\t/usr/lib/go/src/net/http/server.go:1868 +0xb9";
    assert_eq!(records(served), [(Level::ERROR, served.to_owned())]);
    is_one(
        Level::ERROR,
        "thread 'main' panicked at src/main.rs:2:5:\nno such card\nnote: run with `RUST_BACKTRACE=1`",
    );
}

#[test]
fn indented_lines_belong_to_the_line_above() {
    is_one(Level::INFO, "{\n  \"card\": 1\n}");
    assert_eq!(records("one\ntwo\n\nthree").len(), 4, "and an empty line stands for itself");
}

#[test]
fn levels_of_languages_and_loggers_are_recognized() {
    for (level, line) in [
        (Level::ERROR, "ERROR:root:x"),
        (Level::ERROR, "2026-01-01 00:00:00,123 - shop.cards - ERROR - x"),
        (Level::ERROR, "[2026-01-01 00:00:00 +0000] [12] [CRITICAL] x"),
        (Level::ERROR, "[2026-01-01T00:00:00.0+00:00] app.ERROR: x {\"a\":1} []"),
        (Level::ERROR, "2026-01-01T00:00:00+00:00 [critical] Uncaught x"),
        (Level::WARN, "WARNING: x"),
        (Level::WARN, "[01-Jan-2026 00:00:00 UTC] PHP Warning:  x in a.php on line 3"),
        (Level::WARN, "[01-Jan-2026 00:00:00] WARNING: [pool www] x"),
        (Level::WARN, "W, [2026-01-01T00:00:00.000000 #12]  WARN -- : x"),
        (Level::WARN, "/srv/shop.py:3: DeprecationWarning: x"),
        (Level::WARN, "/srv/shop.rb:3: warning: x"),
        (Level::WARN, "(node:12) ExperimentalWarning: x"),
        (Level::ERROR, "2026-01-01 00:00:00 [error    ] oops                           card=1"),
        (Level::WARN, "2026-01-01 00:00:00 [warning  ] careful"),
        (Level::ERROR, "[2026-01-01 00:00:00,352: ERROR/MainProcess] x"),
        (Level::ERROR, "\u{1b}[31mERROR\u{1b}[0m:    Exception in ASGI application"),
        (Level::WARN, "\u{1b}[1;33mWARNING\u{1b}[0m:  x"),
        (Level::ERROR, r#"{"card": 1, "event": "oops", "level": "error"}"#),
        (Level::WARN, r#"{"asctime": "2026-01-01 00:00:00,566", "levelname":"WARNING", "message": "x"}"#),
        (Level::ERROR, r#"{"level":50,"time":1767225600000,"msg":"x"}"#),
        (Level::INFO, r#"{"level":30,"msg":"ERROR"}"#),
        (Level::INFO, r#"{"event": "an \"level\": \"error\"", "level": "info"}"#),
        (Level::INFO, r#"{"message": "[ERROR] x"}"#),
        (Level::ERROR, "time=2026-01-01T00:00:00Z level=error msg=\"no such card\""),
        (Level::WARN, "lvl=\"warning\" x"),
        (Level::ERROR, "keepwarm: error: x"),
        (Level::WARN, "keepwarm: warning: x"),
        (Level::INFO, "there was no error: x"),
        (Level::INFO, "INFO:     no ERROR here"),
        (Level::INFO, "GET /ERROR HTTP/1.1"),
        (Level::INFO, "DEBUG:root:x"),
        (Level::INFO, "the user's words were long enough before they said ERROR"),
        (Level::INFO, "PHP Notice:  x in a.php on line 3"),
        (Level::INFO, ""),
    ] {
        assert_eq!(level::of(line.as_bytes()), level, "{line}");
    }
}

#[test]
fn no_byte_is_lost_and_records_are_bounded() {
    let parts = [
        "",
        " ",
        "\tfrom x",
        "Traceback (most recent call last):",
        "ValueError: x",
        "  File \"x\"",
        "panic: x",
        "goroutine 1 [running]:",
        "    ^",
        "PHP Fatal error:  x",
        "Stack trace:",
        "#0 x",
        "Next x",
        "E, [x",
        "During handling of the above exception, x",
        "}",
        "thread 'x' panicked at y",
        "plain",
        "  + Exception Group Traceback (most recent call last):",
        "Task exception was never retrieved",
        "future: <Task>",
        "╭── Traceback (most recent call last) ──╮",
        "│ x",
        "╰──",
        "> File \"x\"",
        "Stack (most recent call last):",
        "x.ValidationError: 1 validation error for X",
        "[SQL: x]",
        "Fatal Python error: x",
        "Thread 0x1",
    ];
    let mut seed = 1_u64;
    for _ in 0..2_000 {
        let mut lines = Vec::new();
        for _ in 0..30 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            lines.push(parts[(seed >> 33) as usize % parts.len()]);
        }
        let given: Vec<_> = records(&(lines.join("\n") + "\n")).into_iter().map(|it| it.1).collect();
        assert_eq!(given.join("\n"), lines.join("\n"));
    }
    let long =
        format!("Traceback (most recent call last):\n{}", "  File \"x\", line 1, in f\n".repeat(20_000));
    let found = records(&long);
    assert!(found.len() > 1 && found.iter().all(|it| it.1.len() <= RECORD_MAX));
}
