//! HTTPS from a domain name alone, and with a local authority for development.

use std::path::{Path, PathBuf};
use std::process::Command;

use keepwarm_tests::tools::{run_ok, script};
use keepwarm_tests::{BOUND, Server, keepwarm};

const DOMAIN_ALONE: &str = r#"
[acme]
directory = "https://127.0.0.1:1/directory"
storage = "@DIR@/acme"

[listen.public]
domains = ["shop.test", "bücher.test"]
[[listen.public.route]]
respond = { status = 200, body = "hello" }
"#;

/// A server in a network of its own, where ports 80 and 443 are free.
fn start_alone(config: &str, before: &str) -> Server {
    Server::start_as(config, |folder: &Path| -> PathBuf {
        let file = folder.join("alone");
        let inside = format!("ip link set lo up && {before} exec {} \"$@\"", keepwarm().display());
        script(&file, &format!("#!/bin/sh\nexec unshare --net sh -c '{inside}' sh \"$@\"\n"));
        file
    })
}

/// What curl gets in the network of the server.
fn curl(server: &Server, args: &[&str]) -> String {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", server.pid()));
    run_ok(command.args(["curl", "--silent", "--show-error", "--include", "--insecure"]).args(args), BOUND)
}

#[test]
fn a_domain_name_is_all_that_a_configuration_needs() {
    let server = start_alone(DOMAIN_ALONE, "");
    let https = ["--resolve", "shop.test:443:127.0.0.1", "https://shop.test/"];
    let response = curl(&server, &https);
    assert!(response.starts_with("HTTP/2 200") && response.ends_with("hello"), "{response}");
    let response =
        curl(&server, &["--resolve", "xn--bcher-kva.test:443:[::1]", "https://xn--bcher-kva.test/"]);
    assert!(response.starts_with("HTTP/2 200"), "{response}");
    for address in ["127.0.0.1", "[::1]"] {
        let response = curl(&server, &["--header", "Host: shop.test", &format!("http://{address}/a?b")]);
        assert!(response.starts_with("HTTP/1.1 308"), "{response}");
        assert!(response.contains("Location: https://shop.test/a?b\r\n"), "{response}");
    }
    let response = curl(&server, &["http://[::1]:80/"]);
    assert!(response.contains("Location: https://[::1]/\r\n"), "{response}");
}

#[test]
fn a_machine_without_ipv6_serves_ipv4() {
    let server = start_alone(DOMAIN_ALONE, "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 &&");
    let response = curl(&server, &["--resolve", "shop.test:443:127.0.0.1", "https://shop.test/"]);
    assert!(response.starts_with("HTTP/2 200"), "{response}");
}

/// The local authority is made once, and everything it signs is accepted by who trusts it.
#[test]
fn a_local_authority_signs_for_development() {
    let state = std::env::temp_dir().join(format!("keepwarm-tls-dev-{}", std::process::id()));
    let text = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
host = "shop.test"
respond = { status = 200, body = "shop" }
[[listen.main.route]]
respond = { status = 200, body = "hello" }
"#;
    let start = || {
        Server::start_with(text, |command| {
            command.arg("--tls-dev").env("STATE_DIRECTORY", &state);
        })
    };
    let server = start();
    let ca = state.join("local-authority/ca.pem");
    server.wait_for_log(&format!("curl --cacert {}", ca.display()), BOUND);
    let ask = |server: &Server, host: &str| {
        let port = server.address().port();
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--cacert"]).arg(&ca);
        command.args(["--resolve", &format!("{host}:{port}:127.0.0.1"), &format!("https://{host}:{port}/")]);
        run_ok(&mut command, BOUND)
    };
    for (host, body) in [("localhost", "hello"), ("shop.test", "shop")] {
        let response = ask(&server, host);
        assert!(response.starts_with("HTTP/2 200") && response.ends_with(body), "{host}: {response}");
    }
    let authority = std::fs::read(&ca).unwrap();
    drop(server);
    let server = start();
    assert_eq!(std::fs::read(&ca).unwrap(), authority);
    assert!(ask(&server, "localhost").starts_with("HTTP/2 200"));
    drop(server);
    std::fs::remove_dir_all(&state).unwrap();
}
