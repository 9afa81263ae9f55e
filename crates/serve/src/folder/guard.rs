//! The files that a PHP site hides although they are in the served directory: copies that editors and people leave, Composer's files, and files that an
//! `.htaccess` denies. Both the file server and the script runner ask it. The script runner also asks where an `.htaccess` rewrites a path.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keepwarm_net::disk;
use tokio::time::Instant;

use super::htaccess::Rules;
use super::rewrite::{Address, PassResult, RewrittenQuery, SiteFiles, path_of};
use super::{FileLookup, Folder, file_name};

/// How long a read result stays valid.
const FRESH: Duration = Duration::from_secs(5);
/// Directories to remember; the number is arbitrary.
const MAX_FOLDERS: usize = 4_096;
/// Bytes to read of an `.htaccess`. A longer one denies everything: its end might deny anything.
const MAX_LENGTH: usize = 256 * 1024;
const HTACCESS: &[u8] = b".htaccess";
/// Passes of the rewrite rules over a path; as Apache's `LimitInternalRecursion`.
const MAX_PASSES: usize = 10;

/// Decides what is hidden beneath one directory.
#[derive(Debug)]
pub struct AccessGuard {
    folder: Folder,
    /// Its path as text, for conditions of rewrites.
    root: String,
    serves_vendor: bool,
    seen: Mutex<HtaccessCache>,
}

/// The `.htaccess` rules of a directory when they were read, by the directory's name.
type HtaccessCache = HashMap<Box<[u8]>, (Instant, Option<Arc<Rules>>)>;

impl AccessGuard {
    /// For a site whose root is `folder`.
    #[must_use]
    pub fn new(folder: Folder) -> Self {
        let root = folder.path().to_string_lossy().trim_end_matches('/').to_owned();
        Self { folder, root, serves_vendor: false, seen: Mutex::default() }
    }

    /// Composer's `vendor/` files are served.
    #[must_use]
    pub fn with_vendor(self) -> Self {
        Self { serves_vendor: true, ..self }
    }

    /// Whether the file of that name (relative, as from [`super::file_name`]) is hidden: neither sent nor run.
    ///
    /// # Errors
    /// Those of [`Folder::open`].
    pub async fn hides(&self, name: &[u8]) -> io::Result<bool> {
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        if is_left_behind(last) || self.is_of_composer(name).await? {
            return Ok(true);
        }
        let (mut folder, mut file) = (None, None);
        let ends = std::iter::once(0)
            .chain(name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1));
        for end in ends {
            let Some((above, below)) = name.split_at_checked(end) else { break };
            let Some(rules) = self.rules(above).await? else { continue };
            if rules.forbids(below) || rules.stops(last) {
                return Ok(true);
            }
            for rule in rules.forbidding() {
                let (above, name) = (String::from_utf8_lossy(above), String::from_utf8_lossy(name));
                if rule.forbids(self, &above, &name).await? {
                    return Ok(true);
                }
            }
            folder = rules.of_folder().or(folder);
            file = rules.of_file(last).or(file);
        }
        Ok(file.or(folder).unwrap_or(false))
    }

    /// The result of `.htaccess` rewrites for a normalized path: another path, and the query for its script. `None`: unchanged.
    ///
    /// # Errors
    /// Those of [`Folder::open`].
    pub async fn rewrite(&self, path: &[u8]) -> io::Result<Option<(Vec<u8>, RewrittenQuery)>> {
        let Some(name) = file_name(path).and_then(|name| String::from_utf8(name).ok()) else {
            return Ok(None);
        };
        let mut address = Address { name, query: RewrittenQuery::default() };
        let mut changed = false;
        for _ in 0..MAX_PASSES {
            let Some((above, rules)) = self.rewriting(&address.name).await? else { break };
            let Some(rewriting) = rules.rewriting() else { break };
            let above = address.name.get(..above).unwrap_or_default().to_owned();
            let before = address.clone();
            let pass = rewriting.pass(self, &above, &mut address).await?;
            changed |= address != before;
            if pass != PassResult::Changed {
                break;
            }
        }
        Ok(changed.then(|| (path_of(&address.name), address.query)))
    }

    /// The rules of the deepest directory on the way to `name` that rewrites, and the length of its name.
    async fn rewriting(&self, name: &str) -> io::Result<Option<(usize, Arc<Rules>)>> {
        // Everything leads to the root's `index.php` without rules, too.
        let matters = |rules: &Arc<Rules>| rules.rewriting().is_some_and(|rewriting| rewriting.matters);
        let mut found = self.rules(b"").await?.filter(matters).map(|rules| (0, rules));
        for (slash, _) in name.match_indices('/') {
            let above = name.get(..=slash).unwrap_or_default();
            if !self.is(above, true).await? {
                break;
            }
            if let Some(rules) =
                self.rules(above.as_bytes()).await?.filter(|rules| rules.rewriting().is_some())
            {
                found = Some((above.len(), rules));
            }
        }
        Ok(found)
    }

    /// Its packages are code. A `vendor` that is not Composer's may hold what browsers load.
    async fn is_of_composer(&self, name: &[u8]) -> io::Result<bool> {
        const VENDOR: &[u8] = b"vendor/";
        if self.serves_vendor || !name.starts_with(VENDOR) {
            return Ok(false);
        }
        Ok(!matches!(self.folder.open(b"vendor/autoload.php").await?, FileLookup::Nothing))
    }

    /// The `.htaccess` rules of a directory; `above` is empty, or ends with a slash.
    async fn rules(&self, above: &[u8]) -> io::Result<Option<Arc<Rules>>> {
        let now = keepwarm_net::now();
        if let Some((at, rules)) = self.lock().get(above)
            && now.saturating_duration_since(*at) < FRESH
        {
            return Ok(rules.clone());
        }
        let rules = self.read(above).await?.map(Arc::new);
        let mut seen = self.lock();
        if seen.len() >= MAX_FOLDERS {
            seen.clear();
        }
        seen.insert(above.into(), (now, rules.clone()));
        Ok(rules)
    }

    async fn read(&self, above: &[u8]) -> io::Result<Option<Rules>> {
        let name = [above, HTACCESS].concat();
        let text = match self.folder.open(&name).await? {
            FileLookup::Nothing | FileLookup::Folder => return Ok(None),
            FileLookup::Denied => return Ok(Some(Rules::denying())),
            FileLookup::File(file) => {
                let mut text = Vec::new();
                let mut block = Vec::new();
                while text.len() <= MAX_LENGTH {
                    file.read(&mut block, text.len() as u64, MAX_LENGTH + 1).await?;
                    if block.is_empty() {
                        break;
                    }
                    text.append(&mut block);
                }
                text
            }
            // Distributions keep it in /etc. It is the administrator's, and is only read.
            FileLookup::Outside => {
                let path = self.folder.path().join(std::ffi::OsStr::from_bytes(&name));
                match disk::spawn(move || std::fs::read(path)).await {
                    Ok(text) => text,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(_) => return Ok(Some(Rules::denying())),
                }
            }
        };
        Ok(Some(match text.len() > MAX_LENGTH {
            true => Rules::denying(),
            false => Rules::parse(&String::from_utf8_lossy(&text)),
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HtaccessCache> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SiteFiles for AccessGuard {
    fn root(&self) -> &str {
        &self.root
    }

    async fn is(&self, name: &str, folder: bool) -> io::Result<bool> {
        match self.folder.open(name.as_bytes()).await? {
            FileLookup::File(_) | FileLookup::Denied | FileLookup::Outside => return Ok(!folder),
            FileLookup::Folder => return Ok(folder),
            FileLookup::Nothing if folder => return Ok(false),
            FileLookup::Nothing => {}
        }
        // `index.php/a/b` is the file, as Apache's `REQUEST_FILENAME` has it; what follows is `PATH_INFO`.
        for (at, ending) in name.match_indices(".php/") {
            let script = name.get(..at + ending.len() - 1).unwrap_or_default();
            if let FileLookup::File(_) = self.folder.open(script.as_bytes()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `x.sql~`, `x.bak`, `composer.lock`, and what `keepwarm init` writes beside a site.
fn is_left_behind(last: &[u8]) -> bool {
    const ENDINGS: [&[u8]; 5] = [b"~", b".bak", b".orig", b".swp", b".inc"];
    const COMPOSER: &[u8] = b"composer.";
    let ends = |ending: &[u8]| {
        let at = last.len().checked_sub(ending.len()).and_then(|at| last.get(at..));
        at.is_some_and(|end| end.eq_ignore_ascii_case(ending))
    };
    const OWN: [&[u8]; 4] = [b"keepwarm.toml", b"Containerfile", b"compose.yaml", b".service"];
    ENDINGS.into_iter().chain(OWN).any(ends)
        || last.get(..COMPOSER.len()).is_some_and(|front| front.eq_ignore_ascii_case(COMPOSER))
}
