//! Files: the target of a `files` route, files that are tried before an app (`try_files`), and files that are sent for an app (`send_files`).
//!
//! GET and HEAD, conditional requests (RFC 9110 §13), ranges (§14), precompressed variants. Directories have an index, and on request a listing. Names: [`keepwarm_serve::file_name`]; opening and reading:
//! [`keepwarm_serve::Folder`]. Scripts are never sent: `wp-config.php` is code with a password in it, and a route that was meant for a PHP app is easily
//! written without one.

mod conditions;
mod fingerprint;
mod listing;
mod name_pattern;
mod options;
mod precompressed;
mod ranges;
mod scripts;
mod send;
mod send_files;
mod site;
#[cfg(test)]
mod tests;
mod transfer;
mod types;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use self::precompressed::VARIANTS;
use crate::refusals;
use http::Method;
use keepwarm_policy::compression::{AcceptEncoding, Coding};
use keepwarm_serve::{
    AccessGuard, Exchange, FileLookup, Folder, FolderListing, Handler, OpenFile, file_name,
};

pub use name_pattern::NamePattern;
pub use options::{FileField, FileOptions, ImmutableNames};
pub use send_files::SendFiles;
pub use site::SiteFiles;
pub use types::of_name as media_type;

/// Serves the files of a directory, and nothing else.
#[derive(Debug, Clone)]
pub struct Files {
    folder: Folder,
    /// How many bytes of the path are not the file's name: the route's prefix.
    prefix: usize,
    /// Decides which files there are not served.
    guard: Option<Arc<AccessGuard>>,
    options: Arc<FileOptions>,
}

/// Serves the files of a directory; all other requests go to the app.
pub struct TryFiles {
    files: Files,
    app: Arc<dyn Handler>,
}

/// The result of looking up a path.
enum PathLookup {
    File(OpenFile, Vec<u8>),
    /// A directory without an index.
    Listing(FolderListing),
    /// A directory with an index or a listing, requested without a trailing slash.
    NeedsSlash,
    Nothing,
    Denied,
    /// A file that is there and is not served.
    Hidden,
    /// The error response is already sent.
    Failed,
}

impl Files {
    /// Serves the files in `folder`. The first `prefix` bytes of a path do not name them; what follows begins with a slash.
    #[must_use]
    pub fn new(folder: PathBuf, prefix: usize) -> Self {
        Self { folder: Folder::new(folder), prefix, guard: None, options: Arc::default() }
    }

    /// The directory is a PHP site: files that its `.htaccess` files deny, copies and Composer's files are not served; those of its `vendor/` only with `serves_vendor`.
    #[must_use]
    pub fn guarded(mut self, serves_vendor: bool) -> Self {
        let guard = AccessGuard::new(self.folder.clone());
        self.guard = Some(Arc::new(if serves_vendor { guard.with_vendor() } else { guard }));
        self
    }

    /// Serves them so.
    #[must_use]
    pub fn with_options(self, options: FileOptions) -> Self {
        Self { options: Arc::new(options), ..self }
    }

    /// Sends the file that the path names. `false`: there is none.
    async fn serve(&self, exchange: &mut Exchange<'_>) -> bool {
        match self.look(exchange).await {
            PathLookup::File(file, name) => {
                self.choose(file, name, exchange).await.run(exchange).await;
            }
            PathLookup::Listing(listing) => {
                let is_top =
                    exchange.request().path().len() == self.prefix.max(exchange.request().mount()) + 1;
                listing::respond(exchange, &listing, is_top);
            }
            PathLookup::NeedsSlash => redirect_to_folder(exchange),
            PathLookup::Denied => refusals::FILE_DENIED.respond(exchange),
            PathLookup::Hidden => refusals::FILE_HIDDEN.respond(exchange),
            PathLookup::Failed => {}
            PathLookup::Nothing => return false,
        }
        true
    }

    async fn look(&self, exchange: &mut Exchange<'_>) -> PathLookup {
        let path = exchange.request().path();
        let rest = path.get(self.prefix.max(exchange.request().mount())..);
        if rest.is_some_and(<[u8]>::is_empty) && self.prefix > 0 {
            return PathLookup::NeedsSlash;
        }
        let Some(mut name) = rest.and_then(file_name) else {
            return PathLookup::Nothing;
        };
        if scripts::holds_source(&name) {
            return PathLookup::Nothing;
        }
        let whole = name.is_empty() || name.ends_with(b"/");
        if !whole {
            match self.open(&name, exchange).await {
                Some(FileLookup::File(file)) => return self.shown(file, name, exchange).await,
                Some(FileLookup::Folder) => name.push(b'/'),
                Some(FileLookup::Nothing | FileLookup::Outside) => return PathLookup::Nothing,
                Some(FileLookup::Denied) => return PathLookup::Denied,
                None => return PathLookup::Failed,
            }
        }
        self.look_in_folder(name, whole, exchange).await
    }

    /// The index of a directory, or its listing. `whole`: its address ends in a slash.
    async fn look_in_folder(
        &self,
        mut name: Vec<u8>,
        whole: bool,
        exchange: &mut Exchange<'_>,
    ) -> PathLookup {
        let length = name.len();
        for index in &self.options.index {
            name.truncate(length);
            name.extend_from_slice(index.as_bytes());
            match self.open(&name, exchange).await {
                Some(FileLookup::File(_)) if !whole => return PathLookup::NeedsSlash,
                Some(FileLookup::File(file)) => return self.shown(file, name, exchange).await,
                Some(FileLookup::Denied) => return PathLookup::Denied,
                Some(FileLookup::Folder | FileLookup::Nothing | FileLookup::Outside) => {}
                None => return PathLookup::Failed,
            }
        }
        name.truncate(length);
        match self.options.listing {
            true => match self.list(&name).await {
                Ok(PathLookup::Listing(_)) if !whole => PathLookup::NeedsSlash,
                Ok(found) => found,
                Err(error) => {
                    fail(exchange, &self.folder, &error);
                    PathLookup::Failed
                }
            },
            false => PathLookup::Nothing,
        }
    }

    /// The entries of a directory that requests for them would get.
    async fn list(&self, name: &[u8]) -> std::io::Result<PathLookup> {
        if let Some(guard) = &self.guard
            && guard.hides(name).await?
        {
            return Ok(PathLookup::Hidden);
        }
        let Some(mut listing) = self.folder.list(name).await? else { return Ok(PathLookup::Nothing) };
        listing.entries.retain(|entry| entry.is_folder || !scripts::holds_source(&entry.name));
        if let Some(guard) = &self.guard {
            let mut kept = Vec::with_capacity(listing.entries.len());
            for entry in listing.entries {
                let slash: &[u8] = if entry.is_folder { b"/" } else { b"" };
                if !guard.hides(&[name, &entry.name, slash].concat()).await? {
                    kept.push(entry);
                }
            }
            listing.entries = kept;
        }
        listing::sort(&mut listing.entries);
        Ok(PathLookup::Listing(listing))
    }

    async fn shown(&self, file: OpenFile, name: Vec<u8>, exchange: &mut Exchange<'_>) -> PathLookup {
        let Some(guard) = &self.guard else { return PathLookup::File(file, name) };
        match guard.hides(&name).await {
            Ok(false) => PathLookup::File(file, name),
            Ok(true) => PathLookup::Hidden,
            Err(error) => {
                fail(exchange, &self.folder, &error);
                PathLookup::Failed
            }
        }
    }

    /// The file, or what lies compressed beside it, if anything does and the client takes it.
    async fn choose(
        &self,
        file: OpenFile,
        mut name: Vec<u8>,
        exchange: &Exchange<'_>,
    ) -> send::FileResponse<'_> {
        let content_type = types::of_name(&name);
        let rules = self.options.fields(&name);
        let mut chosen =
            send::FileResponse { file, content_type, coding: None, varies: false, fields: None, rules };
        if !precompressed::is_compressible(content_type) {
            return chosen;
        }
        let request = exchange.request();
        let fields = &request.head.fields;
        let accept = AcceptEncoding::parse(fields.all("accept-encoding"));
        let length = name.len();
        let mut found: Vec<(Coding, OpenFile)> = Vec::new();
        for (coding, ending) in VARIANTS {
            if !precompressed::is_looked_up(coding, &accept, chosen.varies || request.is_compressed()) {
                continue;
            }
            name.truncate(length);
            name.extend_from_slice(ending);
            if let Ok(FileLookup::File(one)) = self.folder.open(&name).await
                && one.is_as_new_as(&chosen.file)
            {
                chosen.varies = true;
                found.push((coding, one));
            }
        }
        let offered: Vec<Coding> = found.iter().rev().map(|(coding, _)| *coding).collect();
        if let Some(best) = accept.best(&offered)
            && let Some((coding, file)) = found.into_iter().find(|(coding, _)| *coding == best)
        {
            (chosen.file, chosen.coding) = (file, Some(coding));
        }
        chosen
    }

    /// `None`: the lookup failed, and an error response was sent.
    async fn open(&self, name: &[u8], exchange: &mut Exchange<'_>) -> Option<FileLookup> {
        match self.folder.open(name).await {
            Ok(found) => Some(found),
            Err(error) => {
                fail(exchange, &self.folder, &error);
                None
            }
        }
    }
}

/// Out of descriptors, a broken disk, a kernel without `openat2`: not the client's fault, and not the file's.
fn fail(exchange: &mut Exchange<'_>, folder: &Folder, error: &std::io::Error) {
    tracing::error!(
        name: "file_open_failed",
        folder = %folder.path().display(), %error, "cannot open a file"
    );
    refusals::FILE_FAILED.respond(exchange);
}

/// Whether files are served for this method.
fn takes(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

impl Handler for Files {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            if !takes(&exchange.request().head.method) {
                refusals::FILE_METHOD.about(&[]).field("Allow", b"GET, HEAD").respond(exchange);
            } else if !self.serve(exchange).await {
                refusals::NO_FILE.respond(exchange);
            }
        })
    }
}

impl TryFiles {
    /// Serves the files of `files`, and passes everything else to `app`.
    #[must_use]
    pub fn new(files: Files, app: Arc<dyn Handler>) -> Self {
        Self { files, app }
    }
}

impl Handler for TryFiles {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            if takes(&exchange.request().head.method) && self.files.serve(exchange).await {
                return;
            }
            self.app.handle(exchange).await;
        })
    }
}

/// `/docs` to `/docs/`, or every relative link of its index would lead elsewhere.
fn redirect_to_folder(exchange: &mut Exchange<'_>) {
    let request = exchange.request();
    let mut location = Vec::with_capacity(64);
    crate::responses::push_path(&mut location, request.path());
    location.push(b'/');
    if let Some(query) = request.head.query() {
        location.push(b'?');
        crate::responses::push_reference(&mut location, query);
    }
    let fields: [(&[u8], &[u8]); 1] = [(b"Location", &location)];
    match exchange.head(301, Some(0), false, fields.into_iter()) {
        Ok(_) => exchange.end(),
        Err(_) => exchange.abort("bad_field_in_response"),
    }
}
