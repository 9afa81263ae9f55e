//! `keepwarm endpoint drain` and `ready`: an endpoint that an operator takes out of use.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::name_server::NameServer;
use keepwarm_tests::origin::{After, Gate, Origin, ok};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::service::Service;
use keepwarm_tests::{Server, admin, get_local as get, keepwarm, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// An upstream of these, called in turn.
fn config(origins: &[&Origin], more: &str) -> String {
    let endpoints: Vec<String> =
        origins.iter().map(|origin| format!("{{ url = \"http://{}\" }}", origin.address())).collect();
    format!(
        "[server]\nthreads = 1\npid_file = \"@DIR@/pid\"\n[admin]\nbind = \"unix:@DIR@/admin.sock\"\n\
         [upstream.search]\nbind = \"127.0.0.1:0\"\nbalance = \"round_robin\"\nendpoints = [{}]\n{more}",
        endpoints.join(", ")
    )
}

fn endpoint(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output =
        tools::run(Command::new(keepwarm()).arg("endpoint").args(arguments).current_dir(folder), LONG);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it exited"), String::from_utf8(text).expect("UTF-8"))
}

#[track_caller]
fn done(folder: &Path, arguments: &[&str]) -> String {
    let (code, text) = endpoint(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// Who responds to ten calls.
fn responders(server: &Server) -> Vec<String> {
    let mut client = server.client();
    let mut names: Vec<String> = (0..10)
        .map(|_| {
            let response = client.ask(get("/"));
            assert_eq!(response.status, 200);
            response.text()
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn shown(folder: &Path) -> Value {
    let output = tools::run(Command::new(keepwarm()).args(["status", "--json"]).current_dir(folder), LONG);
    let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    status["upstreams"][0]["endpoints"].clone()
}

#[test]
fn a_drained_endpoint_finishes_its_call_and_gets_no_other_until_it_is_ready() {
    let gate = Gate::default();
    let held = gate.clone();
    let first = Origin::start(move |request, stream| {
        if request.target() == "/slow" {
            held.wait();
        }
        ok(stream, b"first");
        After::Keep
    });
    let second = Origin::fixed("second");
    let server = Server::start(&config(&[&first, &second], ""));
    assert_eq!(responders(&server), ["first", "second"]);
    // In turn: one of two is at the first.
    let mut slow: Vec<_> = (0..2).map(|_| server.client()).collect();
    for client in &mut slow {
        client.send(get("/slow"));
    }
    first.wait_until("a call is there", |origin| {
        origin.requests().iter().any(|request| request.target() == "/slow")
    });

    let name = format!("http://{}", first.address());
    let name = shown(server.folder())[0]["name"].as_str().map_or(name, str::to_owned);
    let said = done(server.folder(), &["drain", "search", &name]);
    assert!(said.contains("gets no more calls") && said.contains("endpoint ready search"), "{said}");
    let calls = first.requests().len();
    assert_eq!(responders(&server), ["second"]);
    assert_eq!(first.requests().len(), calls);
    let endpoints = shown(server.folder());
    assert_eq!((&endpoints[0]["state"], &endpoints[0]["drained"]), (&"drained".into(), &true.into()));
    assert_eq!((&endpoints[1]["state"], &endpoints[1]["drained"]), (&"up".into(), &false.into()));
    server.wait_for_log("endpoint drained", LONG);
    gate.open();
    let mut ended: Vec<String> = slow.iter_mut().map(|client| client.response("GET").text()).collect();
    ended.sort();
    assert_eq!(ended, ["first", "second"]);
    assert!(done(server.folder(), &["drain", "search", &name]).contains("was drained already"));

    assert!(done(server.folder(), &["ready", "search", &name]).contains("gets calls again"));
    assert_eq!(responders(&server), ["first", "second"]);
    assert!(done(server.folder(), &["ready", "search", &name]).contains("was not drained"));
}

/// Even if the other one is down: where few are usable, all are used, and a drained one is not among them.
#[test]
fn a_drained_endpoint_gets_no_call_where_no_other_is_usable() {
    let first = Origin::fixed("first");
    let second = Origin::start(|_, stream| {
        ok(stream, b"second");
        After::Close
    });
    let server = Server::start(&config(&[&first, &second], "retries = 2\n"));
    let name = shown(server.folder())[0]["name"].as_str().expect("a name").to_owned();
    done(server.folder(), &["drain", "search", &name]);
    drop(second);
    let mut client = server.client();
    for _ in 0..10 {
        assert_eq!(client.ask(get("/")).status / 100, 5);
    }
    assert_eq!(first.requests().len(), 0);
}

#[test]
fn what_cannot_be_drained_is_said_and_nothing_changes() {
    let (first, second) = (Origin::fixed("first"), Origin::fixed("second"));
    let server = Server::start(&config(&[&first, &second], ""));
    let folder = server.folder();
    let [one, other] = [0, 1].map(|at| shown(folder)[at]["name"].as_str().expect("a name").to_owned());
    for (arguments, part) in [
        (["drain", "none", &one], "there is no upstream \"none\"; there are: search"),
        (["drain", "search", "10.9.8.7:80"], &*format!("there are: {one}, {other}")),
        (["ready", "search", ""], "there is no endpoint \"\""),
    ] {
        let (code, text) = endpoint(folder, &arguments);
        assert!(code == 1 && text.contains(part), "{arguments:?}: {code} {text}");
    }
    assert_eq!(endpoint(folder, &["drain", "search"]).0, 2);
    done(folder, &["drain", "search", &one]);
    let (code, text) = endpoint(folder, &["drain", "search", &other]);
    assert!(code == 1 && text.contains("no other endpoint would get calls"), "{code} {text}");
    assert_eq!(responders(&server), ["second"]);
}

#[test]
fn a_reload_and_an_upgrade_do_not_end_it() {
    let (first, second, third) = (Origin::fixed("first"), Origin::fixed("second"), Origin::fixed("third"));
    let more = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\nupstream = \"search\"\n";
    let plain = config(&[&first, &second], more)
        .replace("bind = \"127.0.0.1:0\"\nbalance", "balance")
        .replace("[admin]\nbind = \"unix:@DIR@/admin.sock\"\n", "log = { file = \"@DIR@/log\" }\n");
    let service = Service::start_with(keepwarm(), &plain, |_| {});
    let folder = service.server.folder();
    let name = shown(folder)[0]["name"].as_str().expect("a name").to_owned();
    done(folder, &["drain", "search", &name]);
    let pid = service.upgrade();
    assert_eq!(responders(&service.server), ["second"]);
    assert_eq!(shown(folder)[0]["state"], "drained");

    // Another set of endpoints; then another protocol, for which the upstream is made again.
    let third = format!("{{ url = \"http://{}\" }}, ", third.address());
    let wider = plain.replace("endpoints = [", &format!("endpoints = [{third}"));
    for (generation, config) in
        [wider.clone(), wider.replace("balance =", "protocol = \"http1\"\nbalance =")].iter().enumerate()
    {
        service.server.configure(config);
        process::signal(pid, Signal::HUP);
        wait_until("it has reloaded", LONG, || {
            service.log().matches("reloaded").count() > generation
                && shown(folder).as_array().is_some_and(|all| all.len() == 3)
        });
        assert_eq!(responders(&service.server), ["second", "third"]);
    }
    done(folder, &["ready", "search", &name]);
    assert_eq!(responders(&service.server), ["first", "second", "third"]);
    process::signal(service.pid().expect("a process"), Signal::TERM);
    wait_until("nothing is left", LONG, || service.processes().is_empty());
}

#[test]
fn an_endpoint_that_discovery_finds_again_is_still_drained() {
    let origin = Origin::fixed("here");
    let (one, two) = ("127.0.0.1".parse().expect("an address"), "127.0.0.2".parse().expect("an address"));
    let names = NameServer::start(&[one, two]);
    let server = Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nurl = \"http://search.test:{}\"\nbind = \"127.0.0.1:0\"\n\
         dns = {{ min_ttl = \"100ms\", max_ttl = \"100ms\", resolver = [\"{}\"] }}\n",
        origin.address().port(),
        names.address()
    ));
    let has = |count: usize| {
        wait_until("the endpoints have changed", LONG, || {
            shown(server.folder()).as_array().is_some_and(|all| all.len() == count)
        });
    };
    has(2);
    let drained = shown(server.folder())
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|endpoint| endpoint["name"].as_str())
        .find(|name| name.contains("127.0.0.2"))
        .expect("the second")
        .to_owned();
    done(server.folder(), &["drain", "search", &drained]);
    names.answer_with(Some(&[one]));
    has(1);
    names.answer_with(Some(&[one, two]));
    has(2);
    let state = |endpoint: &Value| endpoint["name"] == *drained && endpoint["state"] == "drained";
    assert!(shown(server.folder()).as_array().is_some_and(|all| all.iter().any(state)));
    assert_eq!(responders(&server), ["here"], "the other one responds alone");
}

#[test]
fn the_admin_interface_drains_too() {
    let (first, second) = (Origin::fixed("first"), Origin::fixed("second"));
    let server = Server::start(&config(&[&first, &second], ""));
    let socket = server.folder().join("admin.sock");
    let name = shown(server.folder())[0]["name"].as_str().expect("a name").to_owned();
    let path = |upstream: &str, name: &str, state: &str| {
        format!("/endpoint?upstream={upstream}&endpoint={name}&state={state}")
    };
    for (path, status) in [
        ("/endpoint".to_owned(), 400),
        (path("search", &name, "gone"), 400),
        (path("none", &name, "drain"), 404),
        (path("search", "x:1", "drain"), 404),
        (path("search", &name, "drain"), 200),
    ] {
        assert_eq!(admin::ask_unix(&socket, "POST", &path).0, status, "{path}");
    }
    assert_eq!(admin::ask_unix(&socket, "GET", &path("search", &name, "ready")).0, 405);
    assert_eq!(responders(&server), ["second"]);
    let other = shown(server.folder())[1]["name"].as_str().expect("a name").to_owned();
    let (status, text) = admin::ask_unix(&socket, "POST", &path("search", &other, "drain"));
    assert!(status == 409 && text.contains("no other endpoint would get calls"), "{status} {text}");
    let escaped = name.replace(':', "%3A").replace('/', "%2F");
    assert_eq!(admin::ask_unix(&socket, "POST", &path("search", &escaped, "ready")).0, 200);
    assert_eq!(responders(&server), ["first", "second"]);
}
