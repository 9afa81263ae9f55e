//! Real peers: OpenSSL's server, and nginx.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::kit::Identity;
use super::programs::{Program, folder, nginx};
use super::*;
use crate::Endpoint;

/// Its responses say whether the session was new.
fn openssl(identity: &Identity, version: &str) -> (Program, Endpoint) {
    let folder = folder(Some(identity));
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
    // It stops if nobody reads its output.
    std::thread::spawn(move || lines.for_each(drop));
    (Program { process, folder }, Endpoint::Tcp(address.parse().unwrap()))
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

#[tokio::test]
async fn nginx_keeps_connections_resumes_sessions_and_hears_the_name() {
    run(async {
        let authority = Authority::new();
        for version in ["TLSv1.2", "TLSv1.3"] {
            let directives = format!(
                "ssl_protocols {version}; ssl_session_cache shared:sessions:1m;
                 location /x {{ return 200 \"$ssl_session_reused $ssl_protocol $ssl_server_name $connection_requests\"; }}"
            );
            let (_peer, endpoint) = nginx(Some(&authority.identity("a.test")), "", &directives, LARGE).await;
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
