use std::collections::BTreeSet;
use std::ffi::OsString;

use keepwarm_workers::supervisor::Exit;

use crate::harness::{Bench, SERVE, sh, wait_printed};

#[tokio::test]
async fn a_worker_has_four_descriptors_and_the_wire_is_one_of_them() {
    let python = "import os, sys\n\
        wire = int(os.environ['KEEPWARM_FD'])\n\
        fds = []\n\
        for fd in range(1024):\n\
        \x20   try: fds.append(f'{fd}={os.readlink(f\"/proc/self/fd/{fd}\")}')\n\
        \x20   except OSError: pass\n\
        print('wire', wire)\n\
        print('fds', ' '.join(fds), flush=True)\n\
        os.write(wire, b'HELLO')\n\
        os.read(wire, 1)";
    let mut spec = sh("fds", "");
    spec.command = ["python3", "-c", python].map(OsString::from).to_vec();
    // Another worker before and beside it, whose descriptors must not leak into it.
    let mut first = sh("fds-other", SERVE);
    first.workers = 3;
    let bench = Bench::start_ready(vec![first, spec]).await;
    let wire = wait_printed("fds", "wire ").await;
    let fds = wait_printed("fds", "fds ").await;
    let open: BTreeSet<_> = fds.split(' ').map(|fd| fd.split_once('=').unwrap()).collect();
    let numbers: BTreeSet<_> = open.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, BTreeSet::from(["0", "1", "2", &*wire]), "{fds}");
    assert!(open.contains(&("0", "/dev/null")), "{fds}");
    let target = |number: &str| open.iter().find(|(n, _)| *n == number).unwrap().1;
    assert!(target("1").starts_with("pipe:") && target("2").starts_with("pipe:"), "{fds}");
    assert!(target(&wire).starts_with("socket:"), "{fds}");
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_leads_its_own_session_in_its_directory_with_its_environment() {
    let script = format!(
        r#"echo "session $(ps -o sid= -p $$) $$"; echo "dir $(pwd)"; echo "env $KEEPWARM_APP $KEEPWARM_WORKER $ADDED"; {SERVE}"#
    );
    let mut spec = sh("place", &script);
    spec.directory = "/usr".into();
    spec.env = vec![("ADDED".into(), "old".into()), ("ADDED".into(), "new".into())];
    let bench = Bench::start_ready(vec![spec]).await;
    let session = wait_printed("place", "session ").await;
    let mut ids = session.split_whitespace();
    assert_eq!(ids.next(), ids.next(), "{session}");
    assert_eq!(wait_printed("place", "dir ").await, "/usr");
    assert_eq!(wait_printed("place", "env ").await, "place 1 new");
    bench.stop().await;
}

#[tokio::test]
async fn a_command_that_cannot_be_executed_is_one_clear_line() {
    for (app, directory, command, status, line) in [
        (
            "no-command",
            ".",
            "/no/such/program",
            127,
            "keepwarm: cannot execute the command /no/such/program: No such file or directory (os error 2)\n",
        ),
        (
            "no-right",
            ".",
            "/etc/passwd",
            126,
            "keepwarm: cannot execute the command /etc/passwd: Permission denied (os error 13)\n",
        ),
        (
            "no-directory",
            "/no/such/place",
            "true",
            126,
            "keepwarm: cannot enter the directory /no/such/place: No such file or directory (os error 2)\n",
        ),
    ] {
        let mut spec = sh(app, "");
        spec.command = vec![command.into()];
        spec.directory = directory.into();
        let bench = Bench::start(vec![spec]).await;
        let failure = bench.start_failure().await;
        assert_eq!(failure.exit, Some(Exit::Status(status)));
        assert_eq!(String::from_utf8(failure.stderr).unwrap(), line);
        assert_eq!(bench.adopted(app), 1, "not tried again");
        bench.stop().await;
    }
}

#[tokio::test]
async fn an_executable_that_is_not_there_is_an_error_of_the_start() {
    use keepwarm_workers::supervisor::{Options, Supervisor};
    let options = Options { executable: "/no/such/keepwarm".into(), ..Options::default() };
    let links = std::sync::Arc::new(crate::fake::FakeLinks::default());
    let error = Supervisor::start(vec![sh("none", SERVE)], links, options).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
