//! Files of a directory that depends on the request: `/srv/sites/$host_name/public`.
//!
//! A client chooses the values, so each is one name beneath the fixed part of the path, and nothing else: neither empty nor with a slash or NUL, and no name that
//! begins with a dot. The kernel resolves them beneath the fixed part, and a file beneath the directory that they name ([`Folder::below`]): a link leads neither out
//! of the fixed part nor from one site to another.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use keepwarm_http1::percent_decode;
use keepwarm_serve::{Exchange, Folder, Handler, Request};

use super::Files;
use crate::pattern::{PathPattern, host_of};
use crate::refusals;
use crate::template::{Template, TemplatePiece, Values, Variable};

/// Serves the files of a directory that depends on the request.
#[derive(Debug)]
pub struct SiteFiles {
    /// How files are served.
    files: Files,
    /// The fixed part of the path, which may be created later.
    folder: PathBuf,
    /// The names below it.
    below: Vec<Template>,
    /// The route's, for what its `*` or groups stand for.
    path: PathPattern,
}

impl SiteFiles {
    /// Serves files as `files` does, from the directory `below` in its directory.
    #[must_use]
    pub fn new(files: Files, below: Vec<Template>, path: PathPattern) -> Self {
        Self { folder: files.folder.path().to_owned(), files, below, path }
    }

    /// The request's directory; `None`: its values name none.
    fn folder_of(&self, request: &Request) -> Option<Folder> {
        let captures = match self.below.iter().any(Template::uses_captures) {
            // Of the path that the route was chosen by, before a rewrite.
            true => self.path.captures(path_of(&request.requested_target())),
            false => Vec::new(),
        };
        let mut below = Vec::with_capacity(64);
        for segment in &self.below {
            if !below.is_empty() {
                below.push(b'/');
            }
            push_name(segment, Values { request, captures: &captures }, &mut below)?;
        }
        Some(Folder::below(&self.folder, &below))
    }
}

fn path_of(target: &[u8]) -> &[u8] {
    target.split(|&byte| byte == b'?').next().unwrap_or_default()
}

/// Appends one name. `None`: it is not one.
fn push_name(segment: &Template, values: Values<'_>, below: &mut Vec<u8>) -> Option<()> {
    let begin = below.len();
    for piece in &segment.0 {
        match piece {
            TemplatePiece::Text(text) => below.extend_from_slice(text.as_bytes()),
            TemplatePiece::Variable(variable) => {
                let before = below.len();
                push_value(variable, values, below);
                // `site-` is not the directory of a client without a name.
                if below.len() == before {
                    return None;
                }
            }
        }
    }
    let name = below.get(begin..)?;
    let is_fixed = segment.fixed().is_some();
    let is_name = !name.contains(&b'/') && !name.contains(&0) && (is_fixed || name.first() != Some(&b'.'));
    is_name.then_some(())
}

fn push_value(variable: &Variable, values: Values<'_>, below: &mut Vec<u8>) {
    match variable {
        // One spelling for each host (RFC 3986 §6.2.2.1); its name is in ASCII (RFC 5891 §4.4) and its port is not part of it.
        Variable::Host | Variable::HostName => {
            below.extend(host_of(values.request.head.authority()).to_ascii_lowercase());
        }
        // As the names of files are.
        Variable::Capture(_) => {
            let mut value = Vec::new();
            variable.push(values, &mut value);
            below.extend_from_slice(percent_decode(&value, &mut Vec::new()));
        }
        _ => variable.push(values, below),
    }
}

impl Handler for SiteFiles {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let Some(folder) = self.folder_of(exchange.request()) else {
                return refusals::NO_FILE.respond(exchange);
            };
            Files { folder, ..self.files.clone() }.handle(exchange).await;
        })
    }
}
