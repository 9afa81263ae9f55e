//! SIGUSR2: another binary takes over the listening sockets, and no client notices; a binary that cannot take over leaves the old process as it was.

use std::process::Command;
use std::time::{Duration, Instant};

use keepwarm_tests::load::{self, Load, all_responded_once};
use keepwarm_tests::process::{self, alive, wait_until};
use keepwarm_tests::service::Service;
use keepwarm_tests::tools::{self, script};
use keepwarm_tests::{Client, Server, admin, calling_app, get, keepwarm};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

fn config(more: &str) -> String {
    format!(
        "[server]\npid_file = \"@DIR@/pid\"\nlog = {{ file = \"@DIR@/log\" }}\n{more}\n\
         [listen.main]\nbind = [\"127.0.0.1:0\", \"unix:@DIR@/socket\"]\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 2\n\
         env = {{ COUNT_FILE = \"@DIR@/count\" }}\n"
    )
}

#[track_caller]
fn start(more: &str) -> Service {
    Service::start(keepwarm(), &config(more))
}

/// Stops the service and waits until nothing of it is left.
#[track_caller]
fn end(service: &Service) {
    if let Some(pid) = service.pid() {
        process::signal(pid, Signal::TERM);
    }
    wait_until("nothing is left", LONG, || service.processes().is_empty());
    let folder = service.server.folder();
    assert!(!folder.join("pid").exists(), "the pid file");
    assert!(!folder.join("socket").exists(), "the socket");
}

#[test]
fn the_admin_address_is_that_of_the_process_that_serves() {
    let service = start("[admin]\nbind = [\"127.0.0.1:0\", \"unix:@DIR@/admin.sock\"]");
    let address = admin::address(&service.server);
    let socket = service.server.folder().join("admin.sock");
    for _ in 0..2 {
        let new = service.upgrade();
        wait_until("the new process responds, and is ready", LONG, || {
            let status = admin::ask_unix(&socket, "GET", "/status").1;
            let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
            status["pid"] == new && status["ready"] == true
        });
        let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        wait_until("over TCP, too", LONG, || {
            let ready = Client::connect(address).patient(LONG).ask(request);
            (ready.status, ready.text().as_str()) == (200, "ok\n")
        });
    }
    end(&service);
    assert!(!socket.exists(), "the admin socket");
}

/// Both have asked for a free port of the same address.
#[test]
fn the_ports_of_the_admin_address_and_of_a_listener_stay_apart() {
    let service = start("[admin]\nbind = \"127.0.0.1:0\"");
    for _ in 0..2 {
        let new = service.upgrade();
        wait_until("the new process responds", LONG, || admin::status(&service.server)["pid"] == new);
        assert_eq!(service.server.client().patient(LONG).ask(get("/pong")).text(), "pong");
    }
    end(&service);
}

#[test]
fn three_upgrades_in_a_row_under_load_lose_and_repeat_nothing() {
    let service = start("shutdown_grace = \"20s\"");
    let first = service.server.pid();
    let load = Load::new(service.server.address(), "POST");
    let mut seen = vec![first];
    let outcomes = load.while_doing(3, 3, || {
        for _ in 0..3 {
            load.wait_for(60);
            // As a package does it: another file in the same place.
            tools::copy_executable(keepwarm(), &service.binary);
            seen.push(service.upgrade());
            load.wait_for(60);
        }
    });
    all_responded_once(&load::counts(&service.server.folder().join("count")), &outcomes);
    assert_eq!(load.refused(), 0, "connections that nobody took");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4, "four processes, one after the other: {seen:?}");
    assert!(service.server.wait_for_exit(LONG).success(), "the first has ended in peace");
    end(&service);
}

#[test]
fn kept_connections_get_a_response_with_close_from_the_old_process() {
    let service = start("");
    let mut kept = service.server.client().patient(LONG);
    let old = kept.ask(get("/who")).json()["pid"].as_u64();
    service.upgrade();
    let last = kept.ask(get("/who"));
    assert_eq!(last.json()["pid"].as_u64(), old, "a worker of the old one");
    assert!(last.says_close(), "{kept}");
    let mut new = service.server.client().patient(LONG);
    assert_ne!(new.ask(get("/who")).json()["pid"].as_u64(), old);
    drop((kept, new));
    assert!(service.server.wait_for_exit(LONG).success());
    end(&service);
}

#[test]
fn the_unix_socket_goes_over_too() {
    use std::io::{Read, Write};
    let service = start("");
    let path = service.server.folder().join("socket");
    service.upgrade();
    assert!(service.server.wait_for_exit(LONG).success());
    let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("somebody listens");
    stream.write_all(b"GET /pong HTTP/1.0\r\n\r\n").expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    assert!(response.ends_with("pong"), "{response}");
    end(&service);
}

#[test]
fn the_new_process_reloads_and_is_found_by_the_reload_command() {
    let service = start("");
    let new = service.upgrade();
    assert!(service.server.wait_for_exit(LONG).success());
    let mut command = std::process::Command::new(keepwarm());
    command.args(["reload", "--pid-file"]).arg(service.server.folder().join("pid"));
    tools::run_ok(&mut command, LONG);
    assert_eq!(service.pid(), Some(new));
    end(&service);
}

/// Checks the state after an upgrade that failed: the same process serves with the same workers.
#[track_caller]
fn goes_on(service: &Service, workers: &[u32]) {
    assert_eq!(service.pid(), Some(service.server.pid()), "the pid file");
    assert_eq!(service.server.workers(), workers);
    assert_eq!(service.server.client().patient(LONG).ask(get("/pong")).text(), "pong");
    wait_until("no other process", LONG, || {
        service
            .processes()
            .iter()
            .all(|&pid| pid == service.server.pid() || process::children(service.server.pid()).contains(&pid))
    });
}

#[test]
fn a_failed_takeover_leaves_the_old_process_unchanged() {
    let service = start("");
    let workers = service.server.workers();
    for (text, told) in [
        ("#!/bin/sh\nexit 3\n", "the new process exited before it served: exit status: 3"),
        ("not a program\n", "cannot start"),
        ("#!/no/such/interpreter\n", "cannot start"),
    ] {
        script(&service.binary, text);
        service.server.signal(Signal::USR2);
        service.wait_for_log(told);
        goes_on(&service, &workers);
        std::fs::write(service.server.folder().join("log"), "").expect("emptied");
    }
    // And a good one is taken then.
    tools::copy_executable(keepwarm(), &service.binary);
    service.upgrade();
    assert!(service.server.wait_for_exit(LONG).success());
    end(&service);
}

#[test]
fn a_new_process_with_a_broken_configuration_or_app_leaves_the_old_one_as_it_was() {
    let service = start("");
    let workers = service.server.workers();
    for (from, to, told) in [
        ("workers = 2", "wrokers = 2", "wrokers"),
        ("wsgi_app", "broken_app", "app \\\"app\\\" could not be started"),
    ] {
        service.server.configure(&config("").replace(from, to));
        service.server.signal(Signal::USR2);
        service.wait_for_log("the new process gave up");
        service.wait_for_log(told.replace('\\', "").as_str());
        goes_on(&service, &workers);
    }
    service.server.configure(&config(""));
    end(&service);
}

#[test]
fn a_new_process_that_never_serves_is_ended() {
    // Without an app the wait is the ten seconds that a process itself has.
    let service = Service::start(
        keepwarm(),
        "[server]\npid_file = \"@DIR@/pid\"\nlog = { file = \"@DIR@/log\" }\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\nrespond = { status = 200, body = \"pong\" }\n",
    );
    script(&service.binary, "#!/bin/sh\nexec sleep 1000\n");
    service.server.signal(Signal::USR2);
    service.wait_for_log("did not serve within 10s and was stopped");
    goes_on(&service, &[]);
    end(&service);
}

/// The other side of it: the old process is stuck, and sends nothing.
#[test]
fn a_new_process_without_a_handover_gives_up() {
    let (_silent, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
    let log = std::env::temp_dir().join(format!("keepwarm-told-nothing-{}", std::process::id()));
    let mut new = Command::new(keepwarm())
        .args(["run", "wsgi_app:application", "--bind", "127.0.0.1:0"])
        .current_dir(keepwarm_tests::apps())
        .env("KEEPWARM_UPGRADE", std::process::id().to_string())
        .stdin(theirs)
        .stderr(std::fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    while new.try_wait().expect("it is ours").is_none() && begun.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = new.try_wait().expect("it is ours");
    let _ = new.kill();
    let said = std::fs::read_to_string(&log).expect("what it has said");
    let _ = std::fs::remove_file(&log);
    assert!(ended.is_some_and(|status| !status.success()), "{ended:?}: {said}");
    assert!(said.contains("cannot receive the sockets of the old process"), "{said}");
}

#[test]
fn an_end_during_an_upgrade_ends_both() {
    let service = start("");
    script(&service.binary, "#!/bin/sh\necho $$ > \"$0.pid\"\nexec sleep 1000\n");
    service.server.signal(Signal::USR2);
    let file = service.binary.with_extension("pid");
    let mut new: u32 = 0;
    wait_until("the new process", LONG, || {
        new = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        new > 0
    });
    service.server.signal(Signal::TERM);
    assert!(service.server.wait_for_exit(LONG).success());
    assert!(!service.server.folder().join("pid").exists(), "the pid file");
    wait_until("the new process has ended", LONG, || !alive(new));
}

#[test]
fn a_new_process_that_does_not_end_holds_up_no_signal() {
    let service = start("");
    script(&service.binary, "#!/bin/sh\ntrap '' TERM\necho $$ > \"$0.pid\"\nwhile :; do sleep 1; done\n");
    service.server.signal(Signal::USR2);
    let file = service.binary.with_extension("pid");
    let new = || std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    wait_until("the new process", LONG, || new().is_some());
    let told = Instant::now();
    service.server.signal(Signal::TERM);
    service.wait_for_log("stopping");
    assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
    assert!(service.server.wait_for_exit(LONG).success());
    assert!(!service.server.folder().join("pid").exists(), "the pid file");
    wait_until("the new process has ended", LONG, || !alive(new().expect("it was there")));
}

#[test]
fn a_reload_requested_during_an_upgrade_is_done_by_the_new_process() {
    let service = start("");
    let old = service.server.pid();
    // An incomplete request keeps the old process until it has had the signal, however late that comes.
    let mut held = service.server.client();
    held.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    process::signal(old, Signal::USR2);
    service.wait_for_log("starting a new process to take over");
    process::signal(old, Signal::HUP);
    service.wait_for_successor(old);
    service.wait_for_log("reloaded in");
    drop(held);
    assert!(service.server.wait_for_exit(LONG).success());
    end(&service);
}

#[test]
fn an_app_has_as_many_workers_after_an_upgrade_as_its_load_had_come_to_need() {
    let config = config("").replace("workers = 2", "workers = { min = 1, max = 4, idle = \"10m\" }");
    let service = Service::start(keepwarm(), &config);
    service.server.signal(Signal::TTIN);
    wait_until("two workers", LONG, || service.server.workers().len() == 2);
    let new = service.upgrade();
    let workers =
        || process::descendants(new).into_iter().filter(|&pid| process::command(pid).contains("-m keepwarm"));
    assert_eq!(workers().count(), 2);
    end(&service);
}

#[test]
fn a_door_that_moves_with_an_upgrade_stays_for_the_workers_of_before() {
    let origin = keepwarm_tests::origin::Origin::fixed("from the service");
    let config = |door: &str| {
        config("")
            .replace("wsgi_app", "caller")
            .replace("directory = \"@APPS@\"\n", "")
            .replace("workers = 2", "workers = 1")
            + &format!("[upstream.search]\nurl = \"http://{}\"\nbind = \"{door}\"\n", origin.address())
    };
    let service = Service::start_with(keepwarm(), &config("127.0.0.2:0"), calling_app::write);
    let mut client = service.server.client().patient(LONG);
    client.send(get("/"));
    service.wait_for_log(calling_app::STARTED);
    service.server.configure(&config("127.0.0.3:0"));
    service.upgrade();
    calling_app::release(service.server.folder());
    assert_eq!(client.response("GET").text(), "from the service");
    drop(client);
    assert!(service.server.wait_for_exit(LONG).success());
    end(&service);
}

#[test]
fn a_second_keepwarm_on_the_same_address_names_the_owner() {
    let server = Server::start(keepwarm_tests::WSGI);
    let address = server.address().to_string();
    let second = Server::spawn(&keepwarm_tests::WSGI.replace("127.0.0.1:0", &address), |_| {});
    assert_eq!(second.wait_for_exit(LONG).code(), Some(1));
    let told = format!("the address is in use, by process {} (keepwarm)", server.pid());
    assert!(second.log().contains(&told), "{}", second.log());
    assert_eq!(Client::connect(server.address()).ask(get("/pong")).text(), "pong");
}
