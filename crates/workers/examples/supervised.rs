//! The binary that the supervisor's tests start workers, guardians and whole supervisors with.
//!
//! `supervised __launch ...` and `supervised __guardian` are what Keepwarm's own binary does with them; `supervised COMMAND...`
//! keeps one worker with that command until it is killed, prints `ready` when the worker is, and what the worker prints after
//! `stdout: `.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is this program's way to fail")]

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

use keepwarm_workers::supervisor::{
    AppSpec, GUARDIAN, LAUNCH, Options, Supervisor, guardian_main, launcher_main,
};

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/supervisor/fake.rs"]
mod fake;

fn main() {
    let mut args = std::env::args_os().skip(1);
    let first = args.next().expect("a command");
    if first == LAUNCH {
        launcher_main(args);
    }
    if first == GUARDIAN {
        guardian_main();
    }
    supervise(std::iter::once(first).chain(args).collect());
}

fn supervise(command: Vec<OsString>) {
    fake::record_to(|record| {
        if let Some(stream) = record.field("stream") {
            // Nobody reads any more: the test has seen enough.
            let _ = writeln!(std::io::stdout(), "{stream}: {}", record.message());
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let links = Arc::new(fake::FakeLinks::default());
        let spec = AppSpec::new("app", command);
        let supervisor =
            Supervisor::start(vec![spec], links, Options::default()).await.expect("a supervisor");
        assert_eq!(supervisor.wait_first_boot().await, []);
        writeln!(std::io::stdout(), "ready").expect("a reader");
        std::future::pending::<()>().await;
    });
}
