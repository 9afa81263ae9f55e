//! The histories of `keepwarm why` survive an upgrade, and nothing about them fails one: not another version, not a file that is none.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::service::Service;
use keepwarm_tests::tools::{self, script};
use keepwarm_tests::{Server, keepwarm};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);
const CONFIG: &str = "[server]\npid_file = \"@DIR@/pid\"\nlog = { file = \"@DIR@/log\" }\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
                      [[listen.main.route]]\napp = \"app\"\n[app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\n\
                      interpreter = \"@PYTHON@\"\nworkers = 1\n";
const RELOADED: &str = "reload, generation 2";

/// Observed seconds, and the texts of events.
#[track_caller]
fn history(server: &Server) -> (u64, Vec<String>) {
    let (_, why) = server.why();
    let events = why["events"].as_array().into_iter().flatten();
    let texts = events.map(|event| event["text"].as_str().unwrap_or_default().to_owned()).collect();
    (why["observed_seconds"].as_u64().unwrap_or_default(), texts)
}

/// A service whose history has an event.
fn start() -> Service {
    let service = Service::start(keepwarm(), CONFIG);
    let server = &service.server;
    // A reload before the first sample does not show.
    wait_until("a second is observed", LONG, || history(server).0 >= 1);
    tools::run_ok(Command::new(keepwarm()).arg("reload").current_dir(server.folder()), LONG);
    wait_until("the reload is an event", LONG, || history(server).1.iter().any(|text| text == RELOADED));
    service
}

/// What a process has open.
fn descriptors(pid: u32) -> Vec<String> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect()
}

#[test]
fn an_upgrade_keeps_the_history_and_leaves_no_descriptor() {
    let service = start();
    let mut before = history(&service.server);
    for upgrades in 1..=2 {
        let new = service.upgrade();
        let mut after = (0, Vec::new());
        wait_until("the upgrade is the last event", LONG, || {
            after = history(&service.server);
            after.1.last() == Some(&format!("upgrade, process {new}"))
        });
        assert!(after.0 >= before.0, "{before:?} {after:?}");
        assert_eq!(after.1[..before.1.len()], before.1, "after {upgrades}");
        before = after;
        for pid in [new].into_iter().chain(process::descendants(new)) {
            let open = descriptors(pid);
            assert!(!open.iter().any(|file| file.contains("keepwarm-why")), "{pid}: {open:?}");
        }
    }
    assert!(!service.log().contains("histories"), "{}", service.log());
}

#[test]
fn an_upgrade_that_fails_leaves_the_history_with_the_old_process() {
    let service = start();
    let before = history(&service.server);
    script(&service.binary, "#!/bin/sh\nexit 3\n");
    service.server.signal(Signal::USR2);
    service.wait_for_log("upgrade failed");
    let after = history(&service.server);
    assert!(after.0 >= before.0 && after.1 == before.1, "{before:?} {after:?}");
}

/// Takes over as a new process does that says `ready`, and writes down what comes then.
fn successor(ready: &str) -> String {
    format!(
        "#!/usr/bin/env python3\nimport array, json, os, socket\n\
         old = socket.socket(fileno=0)\n\
         while json.loads(old.recvmsg(65536, 4096)[0])['say'] != 'end':\n    pass\n\
         old.send(b'{ready}')\n\
         say, beside, flags, _ = old.recvmsg(65536, 4096)\n\
         beside = [fd for _, _, fds in beside for fd in array.array('i', fds)]\n\
         files = [os.readlink('/proc/self/fd/%d' % fd) for fd in beside]\n\
         text = json.dumps({{'say': json.loads(say), 'files': files, 'starts': [os.pread(fd, 12, 0).decode() for fd in beside]}})\n\
         open('draft', 'w').write(text)\nos.rename('draft', 'heard')\n"
    )
}

#[test]
fn only_a_new_process_that_reads_histories_gets_them() {
    for (ready, says, files) in [
        ("{\"say\": \"ready\", \"taken\": []}", false, serde_json::json!([])),
        (
            "{\"say\": \"ready\", \"taken\": [], \"histories\": true}",
            true,
            serde_json::json!(["keepwarm-why"]),
        ),
    ] {
        let service = Service::start(keepwarm(), CONFIG);
        script(&service.binary, &successor(ready));
        service.server.signal(Signal::USR2);
        let heard = service.server.folder().join("heard");
        wait_until("it is the service", LONG, || heard.exists());
        let heard: Value = serde_json::from_slice(&std::fs::read(heard).expect("a file")).expect("JSON");
        assert_eq!(heard["say"]["say"], "go", "{heard}");
        assert_eq!(heard["say"]["histories"], says, "{heard}");
        assert_eq!(heard["starts"], files, "{heard}");
        assert!(
            heard["files"]
                .as_array()
                .expect("a list")
                .iter()
                .all(|file| { file.as_str().is_some_and(|file| file.starts_with("/memfd:keepwarm-why")) })
        );
        assert!(service.server.wait_for_exit(LONG).success(), "the old process ends in peace");
        assert!(!service.log().contains("why_histories"), "{}", service.log());
    }
}

/// A new process whose old one is the test, which hands over no listeners.
struct NewProcess {
    child: Child,
    socket: OwnedFd,
    log: std::path::PathBuf,
}

impl NewProcess {
    fn start(name: &str) -> Self {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a pair");
        rustix::net::send(&socket, b"{\"say\": \"end\"}", SendFlags::NOSIGNAL).expect("sent");
        let log = std::env::temp_dir().join(format!("keepwarm-history-{name}-{}", std::process::id()));
        let child = Command::new(keepwarm())
            .args(["run", "wsgi_app:application", "--bind", "127.0.0.1:0"])
            .current_dir(keepwarm_tests::apps())
            .env("KEEPWARM_UPGRADE", std::process::id().to_string())
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("it starts");
        let new = Self { child, socket, log };
        let mut packet = [0; 1024];
        let (length, _) = rustix::net::recv(&new.socket, &mut packet, RecvFlags::empty()).expect("a packet");
        let ready: Value = serde_json::from_slice(&packet[..length]).expect("JSON");
        assert_eq!((&ready["say"], &ready["histories"]), (&"ready".into(), &true.into()), "{}", new.log());
        new
    }

    fn go(&self, say: &str, beside: &[&OwnedFd]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut buffer = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = beside.iter().map(AsFd::as_fd).collect();
        assert!(descriptors.is_empty() || buffer.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&self.socket, &[IoSlice::new(say.as_bytes())], &mut buffer, SendFlags::NOSIGNAL)
            .expect("sent");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for NewProcess {
    fn drop(&mut self) {
        process::signal(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

fn in_memory(bytes: &[u8], seals: SealFlags) -> OwnedFd {
    let file =
        memfd_create("other", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file in memory");
    rustix::io::write(&file, bytes).expect("written");
    fcntl_add_seals(&file, seals).expect("sealed");
    file
}

/// Each is dropped with one log record, and the new process serves.
#[test]
fn what_is_no_history_is_ignored_and_logged() {
    const WITH: &str = "{\"say\": \"go\", \"histories\": true}";
    let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW;
    let head = b"keepwarm-why\x01\0\0\0\0\0\0\0, and not as it should be";
    let (pipe, _open) = rustix::pipe::pipe().expect("a pipe");
    let two = [in_memory(b"", all), in_memory(head, all)];
    let cases: [(&str, &str, Vec<&OwnedFd>, &str); 6] = [
        ("none", "{\"say\": \"go\"}", vec![], "it has passed none"),
        ("unannounced", "{\"say\": \"go\"}", vec![&two[1]], "it has passed none"),
        ("lost", WITH, vec![], "they did not arrive"),
        ("pipe", WITH, vec![&pipe], "not a sealed file in memory"),
        ("truncated", WITH, vec![&two[1]], "incomplete or corrupt"),
        ("two", WITH, vec![&two[0], &two[1]], "not a history"),
    ];
    std::thread::scope(|scope| {
        for (name, say, beside, reason) in &cases {
            scope.spawn(move || {
                let mut new = NewProcess::start(name);
                new.go(say, beside);
                wait_until("a log record", LONG, || {
                    new.log().contains("without the histories of the old process")
                });
                let log = new.log();
                assert!(log.contains(reason), "{name}: {log}");
                assert_eq!(log.matches("histories").count(), 1, "{name}: {log}");
                assert!(new.child.try_wait().expect("it is ours").is_none(), "{name}: {log}");
                let open = descriptors(new.child.id());
                assert!(!open.iter().any(|file| file.contains("memfd:other")), "{name}: {open:?}");
            });
        }
    });
}
