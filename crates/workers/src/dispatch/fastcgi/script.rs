//! Finds the script that serves a path, by the conventions of PHP's servers; only scripts beneath the site's root.
//!
//! 1. A part of the path that ends in `.php` and names a file: that script; the rest is `PATH_INFO`. So `/a.php/b` runs `a.php`, and `/upload.jpg/x.php` runs
//!    nothing of that name, because there is no such file: an upload is never code.
//! 2. A directory with an `index.php`: that one. Without a trailing slash, the client is redirected to the address with it.
//! 3. Everything else: the site's entry, the *front controller*, which finds the path in `REQUEST_URI`. A site without one has nothing there.
//!
//! Rewrites in `.htaccess` files that lead to scripts come first ([`AccessGuard::rewrite`]).
//!
//! Files are looked up as [`keepwarm_serve::Folder`] does: no link and no `..` leads out of the root. Results are cached for a moment (`path_cache`).

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keepwarm_http1::percent_decode;
use keepwarm_net::now;
use keepwarm_serve::{AccessGuard, FileLookup, Folder, RewrittenQuery, file_name};

use super::path_cache::PathCache;

/// The script that a directory's address runs.
const INDEX: &[u8] = b"index.php";
/// What makes a name a script's. Not `.PHP`, `.phtml` or `.phar`: those are nobody's address.
const ENDING: &[u8] = b".php";

/// A site of scripts.
#[derive(Debug)]
pub struct ScriptRoot {
    folder: Folder,
    /// What lies there and is not run.
    guard: AccessGuard,
    /// The front controller, relative to the root, if the site has one.
    entry: Option<Vec<u8>>,
    path_cache: PathCache,
    /// It was said that a link leads out of the root.
    said: AtomicBool,
}

impl PartialEq for ScriptRoot {
    /// Compares directory and entry; cached lookups do not matter.
    fn eq(&self, other: &Self) -> bool {
        (&self.folder, &self.entry) == (&other.folder, &other.entry)
    }
}

impl Eq for ScriptRoot {}

/// A script and how it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script {
    /// Relative to the root: `blog/index.php`.
    pub(super) name: Vec<u8>,
    /// What follows it in the path, decoded: empty, or with a slash in front.
    pub(super) path_info: Vec<u8>,
    /// What a rewrite has made of the query; `None`: it is the client's.
    pub(super) query: Option<RewrittenQuery>,
}

/// The result of looking up a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScriptLookup {
    Script(Arc<Script>),
    /// A directory, requested without a trailing slash.
    NeedsSlash,
    /// A script that is not run for clients.
    Hidden,
    /// No script, and the site has no front controller.
    Nothing,
}

impl ScriptRoot {
    /// The site whose front controller is the file `entry`; its directory is the root. A directory is the root of a site without one.
    ///
    /// # Errors
    /// The path has no file name.
    pub fn of_entry(entry: &Path) -> io::Result<Self> {
        let path = without_parents(&std::path::absolute(entry)?);
        let (folder, entry) = match (path.parent(), path.file_name()) {
            _ if path.is_dir() => (path.as_path(), None),
            (Some(folder), Some(name)) => (folder, Some(name.as_bytes().to_vec())),
            _ => return Err(io::Error::other("the entry is not a file")),
        };
        let folder = Folder::new(folder);
        Ok(Self {
            guard: AccessGuard::new(folder.clone()),
            folder,
            entry,
            path_cache: PathCache::default(),
            said: AtomicBool::new(false),
        })
    }

    /// The root, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What serves a normalized path, without the prefix of its route.
    pub(super) async fn resolve(&self, path: &[u8]) -> io::Result<ScriptLookup> {
        if let Some(resolved) = self.path_cache.find(path, now()) {
            return Ok(resolved);
        }
        let resolved = match self.guard.rewrite(path).await? {
            None => self.look(path).await?,
            Some((path, query)) => self.look(&path).await?.with_query(query),
        };
        self.path_cache.note(path, &resolved, now());
        Ok(resolved)
    }

    async fn look(&self, path: &[u8]) -> io::Result<ScriptLookup> {
        for end in script_ends(path) {
            let (front, rest) = path.split_at_checked(end).unwrap_or((path, b""));
            let Some(name) = file_name(front) else { break };
            match self.folder.open(&name).await? {
                FileLookup::File(_) if self.guard.hides(&name).await? => return Ok(ScriptLookup::Hidden),
                FileLookup::File(_) => {
                    let mut scratch = Vec::new();
                    let path_info = percent_decode(rest, &mut scratch).to_vec();
                    return Ok(ScriptLookup::script(name, path_info));
                }
                FileLookup::Outside => self.say_outside(&name),
                FileLookup::Folder | FileLookup::Nothing | FileLookup::Denied => {}
            }
        }
        if let Some(found) = self.index_of(path).await? {
            return Ok(found);
        }
        let entry = self.entry.clone();
        Ok(entry.map_or(ScriptLookup::Nothing, |entry| ScriptLookup::script(entry, Vec::new())))
    }

    async fn index_of(&self, path: &[u8]) -> io::Result<Option<ScriptLookup>> {
        let Some(mut name) = file_name(path) else { return Ok(None) };
        let whole = name.is_empty() || name.ends_with(b"/");
        if !whole {
            name.push(b'/');
        }
        name.extend_from_slice(INDEX);
        Ok(match self.folder.open(&name).await? {
            FileLookup::File(_) if self.guard.hides(&name).await? => Some(ScriptLookup::Hidden),
            FileLookup::File(_) if whole => Some(ScriptLookup::script(name, Vec::new())),
            FileLookup::File(_) => Some(ScriptLookup::NeedsSlash),
            FileLookup::Outside => {
                self.say_outside(&name);
                None
            }
            FileLookup::Folder | FileLookup::Nothing | FileLookup::Denied => None,
        })
    }

    /// Once: who laid the site out with links (as packages of distributions do) wonders why its front controller serves everything.
    fn say_outside(&self, name: &[u8]) {
        if !self.said.swap(true, Ordering::Relaxed) {
            let link = self.path().join(std::ffi::OsStr::from_bytes(name));
            let leads_to = link.canonicalize().unwrap_or_default();
            let (script, leads_to) = (link.display(), leads_to.display());
            tracing::warn!(
                name: "script_outside_site",
                %script, %leads_to,
                "script not run: a link leads out of the site; copy its target into the site, or set another directory with `entry` (logged once)"
            );
        }
    }
}

impl ScriptLookup {
    fn script(name: Vec<u8>, path_info: Vec<u8>) -> Self {
        Self::Script(Arc::new(Script { name, path_info, query: None }))
    }

    fn with_query(self, query: RewrittenQuery) -> Self {
        match self {
            Self::Script(script) => {
                let Script { name, path_info, .. } = Arc::unwrap_or_clone(script);
                Self::Script(Arc::new(Script { name, path_info, query: Some(query) }))
            }
            other => other,
        }
    }
}

/// The same file without `..` in its path: PHP takes no `SCRIPT_FILENAME` that has one. Resolved as the kernel does, but no further than the last `..`, so that a
/// link after it can still be moved by a deploy.
fn without_parents(path: &Path) -> PathBuf {
    let parts: Vec<_> = path.components().collect();
    let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) else {
        return path.to_owned();
    };
    let (front, rest) = parts.split_at_checked(last + 1).unwrap_or((&parts, &[]));
    // A missing directory is left as it is: errors then show the configured name.
    match front.iter().collect::<PathBuf>().canonicalize() {
        Ok(folder) => folder.join(rest.iter().collect::<PathBuf>()),
        Err(_) => path.to_owned(),
    }
}

/// Where the parts of a path that end in `.php` end, in their order.
fn script_ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    path.split(|&byte| byte == b'/').filter_map(move |segment| {
        at += segment.len();
        let end = at;
        at += 1; // the slash
        // `.php` alone is not a script's name.
        (segment.ends_with(ENDING) && segment.len() > ENDING.len()).then_some(end)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicU32;

    use super::*;

    struct TempDirectory(PathBuf);

    impl TempDirectory {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("keepwarm-script-{}-{number}", std::process::id()));
            for folder in ["root/blog", "root/bare", "root/a.php.d", "root/x.php"] {
                std::fs::create_dir_all(path.join(folder)).unwrap();
            }
            for file in [
                "outside.php",
                "root/index.php",
                "root/a.php",
                "root/b c.php",
                "root/upload.jpg",
                "root/blog/index.php",
                "root/blog/p.php",
                "root/a.php.d/z.php",
                "root/x.php/in.php",
                "root/.hidden.php",
                "root/UPPER.PHP",
                "root/p.phtml",
            ] {
                std::fs::write(path.join(file), "<?php").unwrap();
            }
            symlink("../outside.php", path.join("root/out.php")).unwrap();
            symlink("a.php", path.join("root/link.php")).unwrap();
            symlink("upload.jpg", path.join("root/sly.php")).unwrap();
            Self(path)
        }
    }

    impl Drop for TempDirectory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[tokio::test]
    async fn which_script_serves_which_path() {
        let temp = TempDirectory::new();
        let root = ScriptRoot::of_entry(&temp.0.join("root/index.php")).unwrap();
        let front = ("index.php", "");
        for (path, (name, path_info)) in [
            ("/", front),
            ("/index.php", front),
            ("/index.php/Main_Page", ("index.php", "/Main_Page")),
            ("/index.php/a%20b/%2F", ("index.php", "/a b//")),
            ("/a.php", ("a.php", "")),
            ("/a.php/", ("a.php", "/")),
            ("/a.php/b.php/c", ("a.php", "/b.php/c")),
            ("/b%20c.php", ("b c.php", "")),
            ("/blog/", ("blog/index.php", "")),
            ("/blog/p.php/x", ("blog/p.php", "/x")),
            ("/a.php.d/z.php", ("a.php.d/z.php", "")),
            ("/x.php/in.php", ("x.php/in.php", "")),
            ("/link.php", ("link.php", "")),
            ("/any/where", front),
            ("/bare/", front),
            ("/bare", front),
            ("/gone.php", front),
            ("/gone.php/a.php", front),
            // What is not a script of this site.
            ("/upload.jpg", front),
            ("/upload.jpg/x.php", front),
            ("/upload.jpg/.php", front),
            ("/upload.jpg%00.php", front),
            ("/out.php", front),
            ("/out.php/x", front),
            ("/../outside.php", front),
            ("/..%2Foutside.php", front),
            ("/.hidden.php", front),
            ("/UPPER.PHP", front),
            ("/p.phtml", front),
            ("//a.php", front),
            ("/blog//p.php", front),
        ] {
            let expected = ScriptLookup::script(name.as_bytes().to_vec(), path_info.as_bytes().to_vec());
            assert_eq!(root.resolve(path.as_bytes()).await.unwrap(), expected, "{path}");
        }
        assert_eq!(root.resolve(b"/blog").await.unwrap(), ScriptLookup::NeedsSlash);
    }

    /// Looked up again once a second: what has come, gone or been exchanged is noticed then.
    #[tokio::test(start_paused = true)]
    async fn a_script_that_has_come_or_gone_is_noticed_after_a_second() {
        let temp = TempDirectory::new();
        let root = ScriptRoot::of_entry(&temp.0.join("root/index.php")).unwrap();
        let file = temp.0.join("root/new.php");
        let script = |name: &str| ScriptLookup::script(name.as_bytes().to_vec(), Vec::new());
        assert_eq!(root.resolve(b"/new.php").await.unwrap(), script("index.php"));
        std::fs::write(&file, "<?php").unwrap();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(root.resolve(b"/new.php").await.unwrap(), script("new.php"));
        std::fs::remove_file(&file).unwrap();
        symlink("../outside.php", &file).unwrap();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(root.resolve(b"/new.php").await.unwrap(), script("index.php"));
    }

    #[tokio::test]
    async fn a_directory_has_nothing_where_no_script_is() {
        let temp = TempDirectory::new();
        let script = |name: &str| ScriptLookup::script(name.as_bytes().to_vec(), Vec::new());
        let root = ScriptRoot::of_entry(&temp.0.join("root/")).unwrap();
        assert_eq!(root.path(), temp.0.join("root"));
        for (path, expected) in [
            ("/", script("index.php")),
            ("/any/where", ScriptLookup::Nothing),
            ("/gone.php", ScriptLookup::Nothing),
            ("/out.php", ScriptLookup::Nothing),
            ("/bare", ScriptLookup::Nothing),
            ("/a.php", script("a.php")),
            ("/blog", ScriptLookup::NeedsSlash),
            ("/blog/", script("blog/index.php")),
        ] {
            assert_eq!(root.resolve(path.as_bytes()).await.unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn an_entry_above_its_folder_has_no_parents_in_its_path() {
        let temp = TempDirectory::new();
        let folder = temp.0.canonicalize().unwrap();
        let of = |entry: &str| without_parents(&folder.join(entry));
        assert_eq!(of("root/blog/../index.php"), folder.join("root/index.php"));
        assert_eq!(of("root/blog/../../root/a.php"), folder.join("root/a.php"));
        // As the kernel has it: what follows a link is above its target.
        symlink("root/blog", folder.join("current")).unwrap();
        assert_eq!(of("current/../index.php"), folder.join("root/index.php"));
        assert_eq!(of("root/../current/index.php"), folder.join("current/index.php"));
        assert_eq!(of("gone/../index.php"), folder.join("gone/../index.php"));
    }

    #[test]
    fn parts_that_may_be_scripts() {
        let ends = |path: &str| script_ends(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(ends("/a.php/b/c.php"), [6, 14]);
        assert_eq!(ends("/.php/x"), Vec::<usize>::new());
        assert_eq!(ends("/a.phpx/b.php.txt"), Vec::<usize>::new());
        assert_eq!(ends(""), Vec::<usize>::new());
    }
}
