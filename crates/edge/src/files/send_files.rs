//! Files that an app names and Keepwarm sends: `X-Accel-Redirect` and `X-Sendfile`.
//!
//! Keepwarm accepts them only from its own workers, only on a route that declares directories for them, and only for files beneath those. So an app can check who may
//! have a file, and is free again before its first byte is sent.

use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use keepwarm_serve::{Exchange, FileLookup, Folder, Handler, SendfileRequest, SendfileTarget, file_name};

use super::send::FileResponse;
use super::{fail, types};
use crate::refusals;

/// An app whose responses may name files.
pub struct SendFiles {
    /// Paths of `X-Accel-Redirect` begin so; longest first.
    folders: Vec<(Vec<u8>, Folder)>,
    app: Arc<dyn Handler>,
}

impl SendFiles {
    /// `folders`: a prefix of `X-Accel-Redirect` that ends in a slash (`/protected/`), and the directory it stands for. `X-Sendfile` names a file beneath any of
    /// the directories by its absolute path.
    #[must_use]
    pub fn new(folders: Vec<(String, PathBuf)>, app: Arc<dyn Handler>) -> Self {
        let mut folders: Vec<(Vec<u8>, Folder)> =
            folders.into_iter().map(|(prefix, path)| (prefix.into_bytes(), Folder::new(path))).collect();
        folders.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self { folders, app }
    }

    async fn send(&self, exchange: &mut Exchange<'_>, handed: SendfileRequest) {
        let Some((folder, name)) = self.place(&handed.name) else {
            return refuse(exchange, &handed.name, "no directory of the route's `send_files` contains it");
        };
        match folder.open(&name).await {
            Ok(FileLookup::File(file)) => {
                let content_type = types::of_name(&name);
                let fields = Some((handed.status, handed.fields));
                let rules = Vec::new();
                FileResponse { file, content_type, coding: None, varies: false, fields, rules }
                    .run(exchange)
                    .await;
            }
            Ok(FileLookup::Folder | FileLookup::Nothing) => {
                refuse(exchange, &handed.name, "there is no such file")
            }
            Ok(FileLookup::Outside) => refuse(exchange, &handed.name, "a link leads out of the directory"),
            Ok(FileLookup::Denied) => refuse(exchange, &handed.name, "no permission to read the file"),
            Err(error) => fail(exchange, folder, &error),
        }
    }

    fn place(&self, name: &SendfileTarget) -> Option<(&Folder, Vec<u8>)> {
        match name {
            SendfileTarget::Path(path) => self.folders.iter().find_map(|(prefix, folder)| {
                let rest = path.strip_prefix(prefix.as_slice())?;
                // With a slash in front, as every path has.
                let name = file_name(&[b"/", rest].concat())?;
                Some((folder, name)).filter(|(_, name)| !name.is_empty())
            }),
            SendfileTarget::File(file) => self.folders.iter().find_map(|(_, folder)| {
                let rest = file.strip_prefix(folder.path().as_os_str().as_bytes())?;
                let name = rest.strip_prefix(b"/").filter(|name| !name.is_empty())?;
                Some((folder, name.to_vec()))
            }),
        }
    }
}

/// The app's mistake: what it names is for the log, not for the client.
fn refuse(exchange: &mut Exchange<'_>, name: &SendfileTarget, why: &str) {
    let (field, name) = match name {
        SendfileTarget::Path(path) => ("X-Accel-Redirect", path),
        SendfileTarget::File(file) => ("X-Sendfile", file),
    };
    let app = exchange.request().notes.target.as_deref();
    tracing::error!(
        name: "sendfile_failed",
        app, field, file = %name.escape_ascii(), why, "the app named a file that cannot be sent"
    );
    refusals::HANDED_FILE.respond(exchange);
}

impl Handler for SendFiles {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            exchange.request_mut().notes.routed.may_hand_files = true;
            self.app.handle(exchange).await;
            if let Some(handed) = exchange.request_mut().notes.routed.handed.take() {
                self.send(exchange, *handed).await;
            }
        })
    }
}
