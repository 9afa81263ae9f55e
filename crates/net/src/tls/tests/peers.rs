//! Real peers: OpenSSL's server, and nginx.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::kit::Identity;
use super::*;
use crate::Endpoint;

/// A process, and a folder of its own; both end with it.
struct Peer {
    process: Child,
    folder: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn folder(identity: &Identity) -> PathBuf {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("keepwarm-tls-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cert.pem"), &identity.cert).unwrap();
    std::fs::write(folder.join("key.pem"), &identity.key).unwrap();
    folder
}

/// Its answers say whether the session was new.
fn openssl(identity: &Identity, version: &str) -> (Peer, Endpoint) {
    let folder = folder(identity);
    let mut process = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-cert", "cert.pem", "-key", "key.pem", version])
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| Some(line.unwrap().strip_prefix("ACCEPT ")?.to_owned())).unwrap();
    // It stops when nobody reads what it says.
    std::thread::spawn(move || lines.for_each(drop));
    (Peer { process, folder }, Endpoint::Tcp(address.parse().unwrap()))
}

#[tokio::test]
async fn openssl_resumes_the_second_session_with_either_version() {
    run(async {
        let authority = Authority::new();
        for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let (_peer, endpoint) = openssl(&authority.identity("a.test"), version);
            let tls = authority.client("a.test");
            for resumed in [false, true, true] {
                let mut client = dial(&endpoint, &tls).await.unwrap();
                assert_eq!(client.transport().handshake().unwrap().resumed, resumed, "{name}");
                let (status, body) = ask(&mut client).await.unwrap();
                let text = String::from_utf8_lossy(&body).into_owned();
                let said = format!("{}, {name}", if resumed { "Reused" } else { "New" });
                assert!(status == 200 && text.contains(&said), "{text}");
            }
        }
    })
    .await;
}

const LARGE: usize = 4 << 20;

fn nginx(identity: &Identity, version: &str) -> (Peer, Endpoint) {
    let folder = folder(identity);
    std::fs::write(folder.join("large"), vec![b'x'; LARGE]).unwrap();
    let config = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr crit;
         events {{ worker_connections 64; }}
         http {{
           access_log off; root .; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
           server {{
             listen unix:{folder}/socket ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem; ssl_protocols {version};
             ssl_session_cache shared:sessions:1m;
             location /x {{ return 200 \"$ssl_session_reused $ssl_protocol $ssl_server_name $connection_requests\"; }}
             location /large {{ }}
           }}
         }}",
        folder = folder.display(),
    );
    std::fs::write(folder.join("nginx.conf"), config).unwrap();
    let process = Command::new("nginx")
        .args(["-p", &format!("{}/", folder.display()), "-c", "nginx.conf", "-e", "stderr"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let endpoint = Endpoint::Unix(folder.join("socket"));
    (Peer { process, folder }, endpoint)
}

#[tokio::test]
async fn nginx_keeps_connections_resumes_sessions_and_hears_the_name() {
    run(async {
        let authority = Authority::new();
        for version in ["TLSv1.2", "TLSv1.3"] {
            let (_peer, endpoint) = nginx(&authority.identity("a.test"), version);
            until_connects(&endpoint).await;
            let tls = authority.client("a.test");
            for reused in [".", "r", "r"] {
                let mut client = dial(&endpoint, &tls).await.unwrap();
                for number in 1..=3 {
                    let (status, body) = ask(&mut client).await.unwrap();
                    let expected = format!("{reused} {version} a.test {number}");
                    assert_eq!((status, String::from_utf8(body).unwrap()), (200, expected));
                }
                let line = RequestLine { method: &Method::GET, target: b"/large", authority: b"a.test" };
                let options = RequestOptions { keep_alive: true, ..RequestOptions::default() };
                client.begin(|codec, out| {
                    codec.encode_head(out, line, std::iter::empty(), RequestBody::None, options)
                });
                client.end(&Fields::new());
                poll_fn(|cx| client.poll_flush(cx)).await;
                assert_eq!(read_body(&mut client).await.unwrap().len(), LARGE);
                assert!(client.is_reusable());
            }
        }
    })
    .await;
}

async fn until_connects(endpoint: &Endpoint) {
    while endpoint.connect().await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
