//! Third-party programs as peers.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::kit::Identity;
use crate::Endpoint;

/// A process, and its own directory; both end with it.
pub(crate) struct Program {
    pub(super) process: Child,
    pub(super) folder: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// With `cert.pem` and `key.pem`, if there is an identity.
pub(super) fn folder(identity: Option<&Identity>) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("keepwarm-net-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    if let Some(identity) = identity {
        std::fs::write(folder.join("cert.pem"), &identity.cert).unwrap();
        std::fs::write(folder.join("key.pem"), &identity.key).unwrap();
    }
    folder
}

/// An nginx that listens on a Unix socket, under TLS if it has an identity, with these parameters of `listen` and these
/// directives in its `server`. `/large` is a file of `large` bytes.
pub(crate) async fn nginx(
    identity: Option<&Identity>,
    listen: &str,
    directives: &str,
    large: usize,
) -> (Program, Endpoint) {
    let folder = folder(identity);
    std::fs::write(folder.join("large"), vec![b'x'; large]).unwrap();
    let (ssl, certificate) = match identity {
        Some(_) => ("ssl", "ssl_certificate cert.pem; ssl_certificate_key key.pem;"),
        None => ("", ""),
    };
    let config = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr crit;
         events {{ worker_connections 64; }}
         http {{
           access_log off; root .; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
           server {{ listen unix:{folder}/socket {ssl} {listen}; {certificate} {directives} location /large {{ }} }}
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
    while endpoint.connect().await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (Program { process, folder }, endpoint)
}
