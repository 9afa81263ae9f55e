//! Workers die, are replaced, reloaded and stopped, and no request is lost or repeated but what a killed worker held.
//!
//! The applications count: each request carries an id, which they append to a file before they respond.

mod deaths;
mod reload;
mod start;
mod stop;
mod waiting;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use keepwarm_tests::Server;
use keepwarm_tests::load::{self, Outcome};
use keepwarm_tests::process::wait_until;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

fn config(entry: &str, workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"{entry}\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n\
         env = {{ COUNT_FILE = \"@DIR@/count\", FLAG_FILE = \"@DIR@/flag\", GENERATION = \"1\" }}\n{more}\n"
    )
}

fn wsgi(workers: u32, more: &str) -> Server {
    start(&config("wsgi_app:application", workers, more), workers)
}

/// Starts and waits until every worker is there.
#[track_caller]
fn start(config: &str, workers: u32) -> Server {
    let server = Server::start(config).warm("/pong");
    wait_until("all workers run", LONG, || server.workers().len() == workers as usize);
    server
}

fn count_file(server: &Server) -> PathBuf {
    server.folder().join("count")
}

/// How often each line stands in the count file.
fn counts(server: &Server) -> BTreeMap<String, u32> {
    load::counts(&count_file(server))
}

#[track_caller]
fn all_responded_once(server: &Server, outcomes: &[(String, Outcome)]) {
    load::all_responded_once(&counts(server), outcomes);
}
