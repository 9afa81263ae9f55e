//! A Pebble of the test's own, with a name server for which every name is this machine.

use std::fs;
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::process::wait_until;
use crate::tools::{free_port, go_program};

/// What a test wants of it.
#[derive(Debug, Clone, Copy)]
pub struct PebbleSettings {
    /// Names it issues nothing for.
    pub blocked: &'static [&'static str],
    /// Percent of nonces it rejects.
    pub bad_nonces: u32,
    /// Accounts that must be used: key identifier and key in base64url.
    pub external_accounts: &'static [(&'static str, &'static str)],
    pub validity_seconds: u32,
}

impl Default for PebbleSettings {
    fn default() -> Self {
        Self { blocked: &[], bad_nonces: 0, external_accounts: &[], validity_seconds: 90 * 24 * 3600 }
    }
}

/// An authority. Stopped when dropped.
pub struct Pebble {
    folder: PathBuf,
    settings: PebbleSettings,
    ports: [u16; 5],
    children: Vec<Child>,
}

/// For what a busy machine may take.
const START: Duration = Duration::from_secs(60);

impl Pebble {
    pub fn start(settings: PebbleSettings) -> Self {
        let mut pebble = Self::prepare(settings);
        pebble.run();
        pebble
    }

    /// Everything but the processes.
    pub fn prepare(settings: PebbleSettings) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("keepwarm-pebble-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        fs::write(folder.join("cert.pem"), certificate.pem()).unwrap();
        fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        Self { folder, settings, ports: free_ports(), children: Vec::new() }
    }

    pub fn run(&mut self) {
        let [api, management, http, tls, dns] = self.ports;
        let PebbleSettings { blocked, external_accounts, validity_seconds, bad_nonces } = self.settings;
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{api}"), "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": self.folder.join("cert.pem"), "privateKey": self.folder.join("key.pem"),
            "httpPort": http, "tlsPort": tls, "ocspResponderURL": "",
            "externalAccountBindingRequired": !external_accounts.is_empty(),
            "externalAccountMACKeys": external_accounts.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
            "domainBlocklist": blocked, "retryAfter": { "authz": 1, "order": 1 }, "keyAlgorithm": "ecdsa",
            "profiles": { "default": { "description": "for tests", "validityPeriod": validity_seconds } },
        } });
        fs::write(self.folder.join("pebble.json"), config.to_string()).unwrap();
        let dns_port = dns;
        let dns = format!("127.0.0.1:{dns}");
        let mut names = Command::new(go_program("pebble-challtestsrv"));
        names.args(["-dnsserver", &dns, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        names.args([
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
            "-doh",
            "",
            "-management",
            "127.0.0.1:0",
        ]);
        self.children.push(self.spawn(&mut names, "names.log"));
        let mut pebble = Command::new(go_program("pebble"));
        pebble.arg("-strict").arg("-config").arg(self.folder.join("pebble.json")).args(["-dnsserver", &dns]);
        pebble.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", bad_nonces.to_string());
        // Each order is validated.
        pebble.env("PEBBLE_AUTHZREUSE", "0");
        self.children.push(self.spawn(&mut pebble, "pebble.log"));
        self.wait_until_it_listens(dns_port);
        self.wait_until_it_listens(api);
    }

    fn spawn(&self, command: &mut Command, log: &str) -> Child {
        let log = fs::File::create(self.folder.join(log)).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/setup test"))
    }

    fn wait_until_it_listens(&mut self, port: u16) {
        let folder = self.folder.display().to_string();
        let children = &mut self.children;
        wait_until("Pebble listens", START, || {
            let ended = children.iter_mut().any(|child| child.try_wait().unwrap().is_some());
            assert!(!ended, "it has ended; see {folder}");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.ports[0])
    }

    /// The file of the authority of its own server's certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("cert.pem")
    }

    /// Of the test, for storage too.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it looks for responses to `http-01`.
    pub fn http_port(&self) -> u16 {
        self.ports[2]
    }

    /// Where it makes handshakes for `tls-alpn-01`.
    pub fn tls_port(&self) -> u16 {
        self.ports[3]
    }

    pub fn storage_file(&self, file: &str) -> PathBuf {
        self.folder.join("storage").join(format!("localhost-{}-dir", self.ports[0])).join(file)
    }

    pub fn saved_order(&self, name: &str) -> String {
        fs::read_to_string(self.storage_file(&format!("orders/{name}.json"))).expect("a saved order")
    }

    /// As if the wait after a failure were over.
    pub fn allow_attempt(&self, name: &str) {
        let file = self.storage_file(&format!("attempts/{name}.json"));
        let mut attempts: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        attempts["not_before"] = 0.into();
        fs::write(file, attempts.to_string()).unwrap();
    }
}

impl Pebble {
    /// Ends it; its files stay.
    pub fn stop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.children.clear();
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (child, log) in self.children.iter_mut().zip(["names.log", "pebble.log"]) {
                let text = fs::read_to_string(self.folder.join(log)).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(20)..];
                eprintln!("---- {log}; ended: {:?}\n{}", child.try_wait(), last.join("\n"));
            }
        }
        self.stop();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Free for both TCP and UDP, and not given to others before Pebble takes them: one that the system had chosen was, once.
fn free_ports() -> [u16; 5] {
    std::array::from_fn(|_| {
        std::iter::repeat_with(free_port)
            .find(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok())
            .expect("it does not end")
    })
}
