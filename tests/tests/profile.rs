//! `keepwarm profile`: where the time of real workers goes, by route.

use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, get, keepwarm, tools};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

/// Computes on each path, and waits below `/search`. The response says for how long, in microseconds.
const PYTHON: (&str, &str) = (
    "profiled.py",
    "
import os, time
def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))
def wait(seconds):
    time.sleep(seconds)
def application(environ, start_response):
    path = environ['PATH_INFO']
    begun = time.monotonic()
    if path == '/hang':
        wait(60)
    elif path != '/':
        compute(0.03)
    computed = time.monotonic()
    if path.startswith('/search'):
        wait(0.06)
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'%d %d' % ((computed - begun) * 1e6, (time.monotonic() - computed) * 1e6)]
",
);

const RUBY: (&str, &str) = (
    "config.ru",
    "
def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
def compute(seconds)
  ends = cpu + seconds
  1000.times.sum while cpu < ends
end
def wait(seconds)
  sleep seconds
end
run(lambda do |env|
  path = env['PATH_INFO']
  now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond) }
  begun = now.call
  compute 0.03 unless path == '/'
  computed = now.call
  wait 0.06 if path.start_with?('/search')
  [200, {}, [\"#{computed - begun} #{now.call - computed}\"]]
end)
",
);

/// It waits with a time limit, which signals would begin again.
const PHP: (&str, &str) = (
    "index.php",
    "<?php
function cpu() {
    $usage = getrusage();
    return $usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'] + ($usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']) / 1e6;
}
function compute($seconds) {
    for ($end = cpu() + $seconds; cpu() < $end;) {
        array_sum(range(1, 1000));
    }
}
function wait($seconds) {
    [$here, $there] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    stream_set_timeout($here, 0, (int) ($seconds * 1e6));
    fread($here, 1);
    fclose($there);
}
return function (Keepwarm\\Request $request) {
    if ($request->path === '/sleep') {
        $begun = hrtime(true);
        usleep(50_000);
        return (string) intdiv(hrtime(true) - $begun, 1000);
    }
    $begun = hrtime(true);
    if ($request->path !== '/') {
        compute(0.03);
    }
    $computed = hrtime(true);
    if (str_starts_with($request->path, '/search')) {
        wait(0.06);
    }
    return intdiv($computed - $begun, 1000) . ' ' . intdiv(hrtime(true) - $computed, 1000);
};
",
);

fn config(app: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/search/*\"\napp = \"shop\"\n\
         [[listen.main.route]]\napp = \"shop\"\n[app.shop]\n{app}\n"
    )
}

/// An app of this language, with these keys.
fn start((file, code): (&str, &str), app: &str) -> Server {
    Server::start_with(&config(app), |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        std::fs::write(folder.join(file), code).expect("written");
    })
    .warm("/")
}

fn python(workers: u32) -> Server {
    let keys = format!("entry = \"profiled:application\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}");
    start(PYTHON, &keys)
}

fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(keepwarm());
    command.arg("profile").args(arguments).current_dir(server.folder());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the responses below `/search` said: microseconds.
#[derive(Default)]
struct Times {
    computed: AtomicU64,
    waited: AtomicU64,
}

impl Times {
    fn add(&self, response: &str) {
        let (computed, waited) = response.split_once(' ').expect("two numbers");
        self.computed.fetch_add(computed.parse().expect("a number"), Ordering::Relaxed);
        self.waited.fetch_add(waited.parse().expect("a number"), Ordering::Relaxed);
    }
}

/// Does something while clients request these paths, one after the other and each its own.
fn under_load<T>(server: &Server, paths: &[&str], action: impl FnOnce() -> T) -> (T, Times) {
    let over = AtomicBool::new(false);
    let times = Times::default();
    let done = std::thread::scope(|scope| {
        for path in paths {
            scope.spawn(|| {
                let mut client = server.client().patient(LONG);
                while !over.load(Ordering::Relaxed) {
                    let response = client.ask(get(path));
                    assert_eq!(response.status, 200);
                    if path.starts_with("/search") {
                        times.add(&response.text());
                    }
                }
            });
        }
        let _over = Over(&over);
        action()
    });
    (done, times)
}

/// Ends the load, also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A profile that was taken: its stacks, what was printed, and what the app said.
struct Profiled {
    stacks: BTreeMap<String, u64>,
    said: String,
    times: Times,
}

fn profiled(server: &Server, paths: &[&str], arguments: &[&str]) -> Profiled {
    let all = [&["shop", "--seconds", "2", "--collapsed", "stacks"], arguments].concat();
    let (output, times) = under_load(server, paths, || tools::run(&mut command(server, &all), LONG));
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stderr), server.log());
    let written = std::fs::read_to_string(server.folder().join("stacks")).expect("stacks");
    let stacks = written.lines().map(|line| line.rsplit_once(' ').expect("a count"));
    let stacks = stacks.map(|(stack, count)| (stack.to_owned(), count.parse().expect("a number"))).collect();
    Profiled { stacks, said: text(&output.stdout) + &text(&output.stderr), times }
}

/// Samples of the stacks with these parts, each the beginning of a frame, in this order.
fn samples(stacks: &BTreeMap<String, u64>, parts: &[&str]) -> u64 {
    let has = |stack: &str| {
        let mut frames = stack.split(';');
        parts.iter().all(|part| frames.any(|frame| frame.starts_with(part)))
    };
    stacks.iter().filter(|(stack, _)| has(stack)).map(|(_, count)| count).sum()
}

impl Profiled {
    fn count(&self, parts: &[&str]) -> u64 {
        samples(&self.stacks, parts)
    }

    /// As many samples as the app said that it took: within a factor of two, as the load begins before the profile and ends after it.
    #[track_caller]
    fn is_about(&self, samples: u64, microseconds: &AtomicU64) {
        let wanted = microseconds.load(Ordering::Relaxed) / 10_000;
        let stacks = &self.stacks;
        assert!(samples < wanted * 3 / 2 && wanted < samples * 2, "{samples} and not {wanted}: {stacks:#?}");
    }

    /// Of an app that does as [`PYTHON`] does.
    #[track_caller]
    fn tells_computing_from_waiting(&self) {
        self.is_about(self.count(&["GET /search/*", "app", "compute"]), &self.times.computed);
        self.is_about(self.count(&["GET /search/*", "app", "wait"]), &self.times.waited);
        let stacks = &self.stacks;
        let waiting = |name| self.count(&[name, "(waiting)"]) as f64 / self.count(&[name]) as f64;
        assert!(waiting("compute") < 0.5 && waiting("wait") > 0.5, "{stacks:#?}");
        assert!(self.count(&["GET /*", "app", "compute"]) > 0, "{stacks:#?}");
        assert_eq!(self.count(&["GET /*", "wait"]), 0, "{stacks:#?}");
    }
}

#[test]
fn what_computes_and_what_waits_stand_below_their_route() {
    let server = python(2);
    let profile = profiled(&server, &["/search/a", "/b"], &[]);
    profile.tells_computing_from_waiting();
    let said = profile.said;
    for part in ["GET /search/*", "GET /*", "waits  wait (profiled.py:", "computes  compute (profiled.py:"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let graph = std::fs::read_to_string(server.folder().join("profile-shop.svg")).expect("a graph");
    assert!(graph.contains("<title>GET /search/*: ") && graph.contains(">compute (profiled.py:"), "{graph}");
}

#[test]
fn ruby_is_profiled() {
    let server = start(RUBY, "entry = \"config.ru\"\nworkers = 2");
    let profile = profiled(&server, &["/search/a", "/b"], &[]);
    profile.tells_computing_from_waiting();
    assert!(profile.said.contains("times (config.ru)"), "{}", profile.said);
}

/// What a thread computes between two moments at which it gives up Ruby's lock has no stack, and is not a wait.
#[test]
fn threads_of_ruby_are_profiled() {
    let server = start(RUBY, "entry = \"config.ru\"\nworkers = 1\nthreads = 2");
    let profile = profiled(&server, &["/search/a", "/search/b"], &[]);
    let count = |parts: &[&str]| profile.count(parts);
    let computed =
        count(&["GET /search/*", "app", "compute"]) + count(&["GET /search/*", "app", "(held Ruby"]);
    assert!(computed > 20, "{:#?}", profile.stacks);
    assert!(count(&["GET /search/*", "app", "wait", "(waiting)"]) > 20, "{:#?}", profile.stacks);
}

#[test]
fn php_is_profiled() {
    let server = start(PHP, "entry = \"index.php\"\nworkers = 2");
    let profile = profiled(&server, &["/search/a", "/b"], &[]);
    profile.tells_computing_from_waiting();
    let said = profile.said;
    assert!(said.contains("compute (index.php)") && said.contains("wait (index.php)"), "{said}");
}

/// `usleep()` ends early at a signal. One that was sent just before it may still come: on a machine as busy as with tests, now and then.
#[test]
fn sleeps_of_php_are_left_alone() {
    let server = start(PHP, "entry = \"index.php\"\nworkers = 1");
    let mut child = spawn(&server, &["shop", "--seconds", "2"]);
    let mut client = server.client().patient(LONG);
    let (mut sleeps, mut short) = (0, 0);
    while child.try_wait().expect("a child").is_none() {
        let slept: u32 = client.ask(get("/sleep")).text().parse().expect("microseconds");
        sleeps += 1;
        short += u32::from(slept < 50_000);
    }
    assert!(short * 5 < sleeps, "{short} of {sleeps}");
}

#[test]
fn a_route_is_profiled_alone() {
    let server = python(2);
    let Profiled { stacks, .. } =
        profiled(&server, &["/search/a", "/b"], &["--route", "/search/*", "--output", "graph"]);
    assert!(samples(&stacks, &["GET /search/*", "app", "compute"]) > 0, "{stacks:#?}");
    assert!(stacks.keys().all(|stack| stack.starts_with("GET /search/*;")), "{stacks:#?}");
    assert!(server.folder().join("graph").exists());
}

#[test]
fn a_worker_has_no_thread_more_and_no_timer() {
    let server = python(1);
    let worker = *server.workers().first().expect("a worker");
    let threads = || std::fs::read_dir(format!("/proc/{worker}/task")).expect("a process").count();
    let timers = || std::fs::read_to_string(format!("/proc/{worker}/timers")).unwrap_or_default();
    let files = || std::fs::read_dir(format!("/proc/{worker}/fd")).expect("a process").count();
    let before = (threads(), timers(), files());
    assert_eq!((before.0, before.1.as_str()), (1, ""));
    profiled(&server, &["/b"], &[]);
    // It reads that the profile is over when its last request is.
    wait_until("the worker is as it was", LONG, || (threads(), timers(), files()) == before);
    assert_eq!(server.workers(), [worker], "it was not replaced");
}

#[test]
fn ctrl_c_ends_it_early_and_keeps_what_there_is() {
    let server = python(1);
    let begun = Instant::now();
    let mut child = spawn(&server, &["shop", "--seconds", "600", "--collapsed", "stacks"]);
    let (status, _) = under_load(&server, &["/b"], || {
        wait_for_profile(&server);
        std::thread::sleep(Duration::from_millis(500)); // of samples: nothing tells of one
        keepwarm_tests::process::signal(child.id(), Signal::INT);
        child.wait().expect("it ends")
    });
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() < LONG);
    let stacks = std::fs::read_to_string(server.folder().join("stacks")).expect("stacks");
    assert!(stacks.contains("compute (profiled.py:"), "{stacks}");
    // It has ended for the instance, too.
    profiled(&server, &["/b"], &[]);
}

fn spawn(server: &Server, arguments: &[&str]) -> Child {
    command(server, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// Until a second profile is refused for it, and not for its route.
fn wait_for_profile(server: &Server) {
    wait_until("a profile is under way", LONG, || {
        let output = tools::run(&mut command(server, &["shop", "--route", "/none"]), LONG);
        text(&output.stderr).contains("app shop is already being profiled")
    });
}

#[test]
fn one_worker_that_is_replaced_loses_its_own_samples_only() {
    let server = python(2);
    let before = server.workers();
    let mut child = command(&server, &["shop", "--seconds", "4", "--collapsed", "stacks"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    under_load(&server, &["/b", "/c"], || {
        wait_for_profile(&server);
        let recycled = tools::run(
            Command::new(keepwarm()).args(["recycle", "shop/1"]).current_dir(server.folder()),
            LONG,
        );
        assert!(recycled.status.success(), "{}", text(&recycled.stderr));
        wait_until("it is replaced", LONG, || server.workers().iter().any(|worker| !before.contains(worker)));
        child.wait().expect("it ends");
    });
    let output = child.wait_with_output().expect("it has ended");
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("1 worker exited or was replaced during the profile"), "{said}");
    let stacks = std::fs::read_to_string(server.folder().join("stacks")).expect("stacks");
    assert!(stacks.contains("compute (profiled.py:"), "{stacks}");
}

#[track_caller]
fn refused(server: &Server, arguments: &[&str], status: i32, parts: &[&str]) -> Output {
    let output = tools::run(&mut command(server, arguments), LONG);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    output
}

#[test]
fn what_cannot_be_profiled_is_said_at_once() {
    let server = python(1);
    let begun = Instant::now();
    refused(&server, &["shp"], 1, &["there is no app \"shp\" (there are: shop); did you mean `shop`?"]);
    refused(
        &server,
        &["shop", "--route", "/serch/*"],
        1,
        &["app shop has no route \"/serch/*\"", "did you mean `/search/*`?"],
    );
    refused(&server, &["shop", "--output", "none/graph.svg"], 1, &["there is no directory none"]);
    refused(&server, &["shop", "--output", "."], 1, &["is a directory"]);
    for bad in [["--seconds", "0"], ["--seconds", "601"], ["--hz", "9"], ["--hz", "1001"], ["--hz", "x"]] {
        refused(&server, &["shop", bad[0], bad[1]], 2, &["invalid value"]);
    }
    refused(&server, &[], 2, &["<APP>"]);
    assert!(begun.elapsed() < LONG, "none of them took its ten seconds");
    refused(&server, &["shop", "--seconds", "1"], 1, &["no samples: app shop worked on no request"]);
    assert!(!server.folder().join("profile-shop.svg").exists());
}

#[test]
fn a_server_without_an_adapter_is_named() {
    let code = (
        "server.py",
        "import http.server, os\nhttp.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()\n",
    );
    let server = start(code, "kind = \"http\"\ncommand = [\"@PYTHON@\", \"server.py\"]\nworkers = 1");
    refused(&server, &["shop"], 1, &["app shop is a server of its own (kind http or fastcgi)"]);
}

#[test]
fn an_adapter_without_profiles_is_named() {
    let server = start(
        ("none", ""),
        "command = [\"@PYTHON@\", \"@APPS@/liar.py\", \"1\"]\nkind = \"wsgi\"\nworkers = 1",
    );
    refused(&server, &["shop"], 1, &["adapter liar/1 has no profiles", "`keepwarm restart shop`"]);
}

#[test]
fn an_app_without_workers_says_so() {
    let keys = "entry = \"profiled:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\nstart_retries = 0";
    let server = start(PYTHON, keys);
    let folder = server.folder();
    std::fs::write(folder.join("profiled.py"), "raise SystemExit(1)\n").expect("written");
    let worker = *server.workers().first().expect("a worker");
    keepwarm_tests::process::signal(worker, Signal::KILL);
    wait_until("the app has no worker", LONG, || {
        let output = tools::run(&mut command(&server, &["shop", "--seconds", "1"]), LONG);
        text(&output.stderr).contains("app shop has no worker that is ready")
    });
}

/// A request that takes longer than the profile is in it, and its worker is not waited for.
#[test]
fn a_request_that_hangs_is_shown() {
    let server = python(1);
    let mut client = server.client();
    client.send(get("/hang"));
    let output =
        tools::run(&mut command(&server, &["shop", "--seconds", "1", "--collapsed", "stacks"]), LONG);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stacks = std::fs::read_to_string(server.folder().join("stacks")).expect("stacks");
    let begin = "GET /*;app;application (profiled.py:";
    let is_wait = |stack: &str| {
        stack.starts_with(begin) && stack.contains(");wait (profiled.py:") && stack.contains(";(waiting) ")
    };
    assert!(stacks.lines().any(is_wait), "{stacks}");
}
