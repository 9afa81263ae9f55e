//! Screens of every size, of every list, and of much more than fits.

use std::time::{Duration, Instant};

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::super::screen::{Continue, Update};
use super::*;

fn shown(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let now = Instant::now();
    terminal.draw(|frame| draw(screen, frame.area(), frame.buffer_mut(), false, now)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

fn screen(snapshot: Value) -> Screen {
    let mut screen = Screen::new(Instant::now());
    screen.handle_update(Update::Snapshot(snapshot), Instant::now());
    screen
}

fn press(screen: &mut Screen, keys: &[KeyCode]) -> Continue {
    keys.iter().fold(Continue::Yes, |_, key| screen.handle_key(KeyEvent::new(*key, KeyModifiers::NONE)))
}

fn worker(number: usize, state: &str) -> Value {
    json!({ "app": "shop", "number": number, "pid": 4000 + number, "state": state, "age_seconds": 61.0, "requests": number,
            "memory": { "own_bytes": 1_048_576, "shared_bytes": 0 }, "recycle_reason": null,
            "active_requests": [{ "request_id": format!("id{number}"), "method": "GET", "path": "/search/tea", "responding": number == 2,
                "route": "/search/*", "seconds": 0.031 }] })
}

fn endpoint(number: usize) -> Value {
    json!({ "name": format!("10.0.0.{number}:80"), "state": "up", "in_flight": 4, "p50_seconds": 0.001, "p99_seconds": 0.018,
            "calls": { "total": 10, "5xx": 0 }, "connections": { "idle": 3, "in_use": 4 }, "last_failure": null })
}

/// Apps, workers of the first, upstreams with 100 endpoints each.
fn snapshot(apps: usize, workers: usize, upstreams: usize) -> Value {
    let apps = |each: &dyn Fn(usize) -> Value| (0..apps).map(each).collect::<Vec<_>>();
    json!({
        "why": { "healthy": false, "findings": [{
            "id": "upstream_slow", "severity": "fault", "app": null, "upstream": "search", "seconds": 192,
            "evidence": "68 % of the time is spent in calls to upstream \"search\": 860 ms each, usually 40 ms" }],
            "apps": apps(&|at| json!({ "name": format!("app{at}"), "held": 2,
                "now": { "per_second": 12.0, "p50_seconds": 0.9, "p99_seconds": 2.4, "failed": 0.0 } })) },
        "routes": [
            { "app": "shop", "route": "/a", "requests": { "total": 3 }, "now": { "per_second": 1.0, "p99_seconds": 0.2, "failed": 0.0 } },
            { "app": "shop", "route": "/b", "requests": { "total": 9 }, "now": { "per_second": 7.5, "p99_seconds": 0.1, "failed": 0.5 } },
            { "app": null, "route": null, "requests": { "total": 0 }, "now": null }
        ],
        "recent": {
            "slow": [{ "seconds_ago": 9.0, "method": "GET", "path": "/report", "status": 200, "reason": null, "app": "shop", "worker": 3, "route": "/*",
                "seconds": 2.4, "phases": { "read_seconds": 0.0, "queue_seconds": 0.1, "app_seconds": 2.2, "body_seconds": 0.0, "write_seconds": 0.1 },
                "call_count": 3, "call_seconds": 1.9 }],
            "failed": [{ "seconds_ago": 4.0, "method": null, "path": null, "status": null, "reason": "cut", "app": null, "worker": null, "route": null,
                "seconds": 0.1, "phases": null, "call_count": 0, "call_seconds": 0.0 }],
        },
        "now": { "p99_seconds": 2.4 },
        "memory": [{ "app": "shop", "number": 1, "pid": 4001, "change_bytes": -2048 }],
        "status": {
            "version": "0.1.0", "pid": 4117, "uptime_seconds": 11220.0, "ready": true, "generation": 2,
            "apps": apps(&|at| json!({ "name": format!("app{at}"), "failed": null, "workers": { "serving": 4, "target": 4 },
                "queue": 0, "requests": { "total": 100 }, "last_death": null })),
            "workers": (1..=workers).map(|at| worker(at, "ready")).collect::<Vec<_>>(),
            "upstreams": (0..upstreams).map(|at| json!({ "name": format!("up{at}"), "queue": 0,
                "endpoints": (0..100).map(endpoint).collect::<Vec<_>>() })).collect::<Vec<_>>(),
            "listeners": [{ "name": "main", "open_connections": 118, "accepted_connections": 20944, "received_bytes": 1024,
                "sent_bytes": 2048, "addresses": ["https://0.0.0.0:443"] }],
            "certificates": [{ "names": ["shop.example"], "expires": "2027-01-02T00:00:00Z", "expires_in_seconds": 86400,
                "listener": "main", "issuer": "R11", "error": null }],
        },
    })
}

#[test]
fn the_verdict_stands_before_the_lists() {
    let text = shown(&mut screen(snapshot(2, 0, 0)), 80, 24);
    let expected = "\
keepwarm 0.1.0  ready  up 3h07m  process 4117  generation 2
WHY upstream search for 3m12s: 68 % of the time is spent in calls to upstream
\"search\": 860 ms each, usually 40 ms (upstream_slow)
REQ/S                                 -  P99                           █    2.4s
QUEUE                         ▁       0  5XX/S                                 -
 Apps  Workers  Requests  Slow and failed  Routes  Upstreams  Listeners  >
APP   WORKERS  QUEUE  REQ/S  P50    P99   5XX  HELD  REQUESTS  LAST
app0  4/4      0      12.0   900ms  2.4s  0%   2     100       -
app1  4/4      0      12.0   900ms  2.4s  0%   2     100       -";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(text.lines().last(), Some("q quit  Tab list  s sort  / filter  c charts  ? help"));
}

#[test]
fn each_list_has_what_it_is_for() {
    let mut screen = screen(snapshot(1, 2, 1));
    let expected = [
        "app0",
        "shop/1  ready  GET /search/*  31ms  1.0 MiB  -2.0 KiB  1         1m01s  4001",
        "id2      GET /search/tea  responds  31ms  shop/2   /search/*",
        "GET /report         slow    9.0s ago  200     -       2.4s   app 2.2s  3, 1.9s  shop/3  /*",
        "/b     7.5    100ms",
        "up0       10.0.0.0:80   up     4          18ms",
        "main      118   20944     1.0 KiB  2.0 KiB  https://0.0.0.0:443",
        "shop.example  1d00h  2027-01-02  main      R11     -",
    ];
    for expected in expected {
        let text = shown(&mut screen, 120, 24);
        assert!(text.contains(expected), "{expected}\n{text}");
        press(&mut screen, &[KeyCode::Tab]);
    }
    assert!(shown(&mut screen, 120, 24).contains("app0"), "the first list follows the last");
}

/// Columns are left out from the right; names stay.
#[test]
fn forty_columns_and_less_hold_the_names() {
    let mut screen = screen(snapshot(3, 3, 1));
    for name in ["app2", "shop/3", "id3", "GET /report", "/b", "up0", "main", "shop.example"] {
        let text = shown(&mut screen, 40, 20);
        assert!(text.contains(name), "{name}\n{text}");
        for (width, height) in [(1, 1), (2, 50), (200, 1), (10, 3), (39, 7), (400, 200)] {
            shown(&mut screen, width, height);
        }
        press(&mut screen, &[KeyCode::Tab]);
    }
}

#[test]
fn two_hundred_apps_and_thousands_of_rows_stay_within_the_screen() {
    let mut screen = screen(snapshot(200, 2000, 50));
    let begun = Instant::now();
    for (last, tab) in [
        ("app199", "Apps"),
        ("shop/2000", "Workers"),
        ("id2000", "Requests"),
        ("GET /report", "Slow and failed"),
        ("/a", "Routes"),
        ("10.0.0.99:80", "Upstreams"),
    ] {
        let text = shown(&mut screen, 80, 24);
        assert_eq!(text.lines().count(), 24, "{tab}\n{text}");
        press(&mut screen, &[KeyCode::End]);
        let text = shown(&mut screen, 80, 24);
        assert!(text.contains(last), "{tab}\n{text}");
        press(&mut screen, &[KeyCode::PageUp, KeyCode::Up, KeyCode::Home, KeyCode::Up, KeyCode::Tab]);
    }
    // Milliseconds of an optimized build; a minute would be a square of the rows.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn names_with_control_characters_and_html_are_harmless() {
    let mut snapshot = snapshot(1, 1, 0);
    snapshot["status"]["apps"][0]["name"] = "a\u{1b}[2J\r\n\u{202e}<b>".into();
    snapshot["why"]["findings"][0]["evidence"] = "x\u{7}\u{9b}31m".into();
    let mut screen = screen(snapshot);
    let text = shown(&mut screen, 80, 24);
    assert!(text.contains("a?[2J???<b>") && text.contains("x??31m"), "{text}");
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
}

#[test]
fn rows_are_sorted_and_filtered_by_keys() {
    let mut screen = screen(snapshot(1, 12, 0));
    press(&mut screen, &[KeyCode::Tab, KeyCode::Char('/')]);
    press(&mut screen, &"shop/1".chars().map(KeyCode::Char).collect::<Vec<_>>());
    let text = shown(&mut screen, 80, 24);
    assert!(text.contains("/shop/1_") && text.contains("shop/12") && !text.contains("shop/2"), "{text}");
    // While it is typed, q is a letter.
    assert_eq!(press(&mut screen, &[KeyCode::Char('q')]), Continue::Yes);
    assert!(shown(&mut screen, 80, 24).contains("none matches the filter"));
    press(&mut screen, &[KeyCode::Backspace, KeyCode::Enter]);
    for _ in 0..7 {
        press(&mut screen, &[KeyCode::Char('s')]);
    }
    let text = shown(&mut screen, 120, 24);
    let first = text.lines().find(|line| line.contains("shop/1")).unwrap_or_default();
    assert!(first.contains("shop/12"), "the most requests first\n{text}");
    press(&mut screen, &[KeyCode::Esc]);
    assert!(shown(&mut screen, 80, 24).contains("shop/2"));
    assert_eq!(press(&mut screen, &[KeyCode::Char('q')]), Continue::No);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.handle_key(control), Continue::No);
}

#[test]
fn an_outage_is_shown_with_its_age_above_the_last_snapshot() {
    let mut screen = screen(snapshot(1, 0, 0));
    let begun = Instant::now().checked_sub(Duration::from_secs(7)).unwrap();
    screen.handle_update(Update::Gone("process 4117 has ended its stream".to_owned()), begun);
    screen.handle_update(Update::Gone("no Keepwarm of this user is running".to_owned()), Instant::now());
    let text = shown(&mut screen, 80, 24);
    assert!(text.contains("NO SNAPSHOT for 7s: no Keepwarm of this user is running"), "{text}");
    assert!(text.contains("app0"), "{text}");
    screen.handle_update(Update::Snapshot(snapshot(1, 0, 0)), Instant::now());
    assert!(!shown(&mut screen, 80, 24).contains("NO SNAPSHOT"));
    assert!(shown(&mut Screen::new(Instant::now()), 80, 24).contains("waiting for the first snapshot"));
    // It is there, and says nothing.
    let begun = Instant::now().checked_sub(Duration::from_secs(6)).unwrap();
    let mut silent = Screen::new(begun);
    silent.handle_update(Update::Snapshot(snapshot(1, 0, 0)), begun);
    assert!(shown(&mut silent, 80, 24).contains("NO SNAPSHOT for 6s: the process does not respond"));
}

/// A minute with much to do, and one with little, in turns.
fn after_five_minutes() -> Screen {
    let mut screen = Screen::new(Instant::now());
    let mut total = 0;
    for second in 0..300_u32 {
        let mut next = snapshot(2, 0, 0);
        let is_busy = second / 60 % 2 == 0;
        total += if is_busy { 40 } else { 10 };
        next["status"]["uptime_seconds"] = json!(second);
        next["status"]["apps"][0]["queue"] = json!(u32::from(is_busy) * 7);
        next["routes"][0]["requests"] = json!({ "total": total, "5xx": second / 60 });
        screen.handle_update(Update::Snapshot(next), Instant::now());
    }
    screen
}

#[test]
fn charts_fit_the_screen_and_a_key_removes_them() {
    let mut screen = after_five_minutes();
    let text = shown(&mut screen, 80, 24);
    let wave = "█████▂▂▂▂▂█████▂▂▂▂▂█████";
    assert!(text.contains(&format!("REQ/S {wave}    40.0  P99   {}    2.4s", "█".repeat(25))), "{text}");
    assert!(text.contains(&format!("QUEUE {}       7  5XX/S", wave.replace('▂', "▁"))), "{text}");
    let text = shown(&mut screen, 120, 40);
    let lines: Vec<&str> = text.lines().collect();
    let title = lines.iter().position(|line| line.starts_with("REQ/S")).unwrap_or_else(|| panic!("{text}"));
    assert!(lines[title].contains("40.0") && lines[title].contains("max 40.0"), "{text}");
    assert!(lines[title].contains("QUEUE 7") && lines[title].contains("P99   2.4s"), "{text}");
    assert!(lines[title + 1].contains("███ ") && lines[title + 4].contains("████████"), "{text}");
    press(&mut screen, &[KeyCode::Char('c')]);
    assert!(!shown(&mut screen, 120, 40).contains("REQ/S ▂"));
    assert!(!shown(&mut screen, 120, 40).contains("max 40.0"));
    press(&mut screen, &[KeyCode::Char('c')]);
    // A small screen has the lists only.
    assert!(!shown(&mut screen, 80, 19).contains('█'));
    for (width, height) in [(1, 40), (3, 25), (20, 34), (39, 24), (400, 200)] {
        shown(&mut screen, width, height);
    }
}

/// The tab of the list that is shown is always seen.
#[test]
fn tabs_that_do_not_fit_are_left_out_and_the_selected_one_is_there() {
    let mut screen = screen(snapshot(2, 1, 1));
    for tab in Tab::ALL {
        for width in [16, 20, 40, 80, 86] {
            let text = shown(&mut screen, width, 24);
            let has_tab =
                |line: &str| line.starts_with(' ') && line.contains(tab.title().get(..4).unwrap_or_default());
            assert!(text.lines().any(has_tab), "{} in {width}\n{text}", tab.title());
        }
        press(&mut screen, &[KeyCode::Tab]);
    }
    assert!(
        shown(&mut screen, 90, 24).contains(
            " Apps  Workers  Requests  Slow and failed  Routes  Upstreams  Listeners  Certificates"
        )
    );
}
