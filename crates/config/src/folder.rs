//! The application of a directory, as in `keepwarm run .` and `entry = "htdocs"`: by the usual files of each language.
//!
//! The adapter finds a Python application, since it can import modules; this only has to detect that there may be one.

use crate::report::Problem;
use crate::sources::{PathKind, Sources};

/// Ruby's, in every framework on Rack.
const RACKUP: &str = "config.ru";
/// PHP's front controllers. `public` comes first: the files around it are not for visitors.
const FRONT_CONTROLLERS: [&str; 2] = ["public/index.php", "index.php"];
/// A site of PHP scripts without a front controller: the directory itself.
const SITE: &str = ".";
/// Those of Python, without their ending (`_FILES` of `adapters/python/src/keepwarm/usual.py`).
const MODULES: [&str; 8] = ["wsgi", "asgi", "manage", "app", "main", "application", "api", "server"];

/// The entry in a directory, and the directory itself as the app's. `None`: the target is not a directory, or has a Python application.
///
/// # Errors
/// The directory has applications of several languages, or of none.
pub(crate) fn entry_in(sources: &dyn Sources, target: &str) -> Result<Option<&'static str>, Box<Problem>> {
    if !is_folder(sources, target) {
        return Ok(None);
    }
    let folder = target.trim_end_matches('/');
    let is_file = |name: &str| sources.path_kind(&format!("{folder}/{name}")) == PathKind::File;
    let ruby = Some(RACKUP).filter(|name| is_file(name));
    let php = FRONT_CONTROLLERS.into_iter().find(|name| is_file(name));
    let python = python(sources, folder);
    match (ruby, php, &python) {
        (Some(entry), None, None) | (None, Some(entry), None) => Ok(Some(entry)),
        (None, None, Some(_)) => Ok(None),
        (None, None, None) if has_package(sources, folder) => Ok(None),
        (None, None, None) if has_scripts(sources, folder) => Ok(Some(SITE)),
        (None, None, None) => Err(Box::new(nothing(folder))),
        _ => Err(Box::new(several(folder, ruby, php, python.as_deref()))),
    }
}

/// Whether a directory is a site of PHP scripts: it has some, and no application of another language.
pub(crate) fn is_site(sources: &dyn Sources, path: &str) -> bool {
    let folder = path.trim_end_matches('/');
    let folder = folder.strip_suffix("/.").unwrap_or(folder);
    sources.path_kind(folder) == PathKind::Directory
        && sources.path_kind(&format!("{folder}/{RACKUP}")) != PathKind::File
        && python(sources, folder).is_none()
        && !has_package(sources, folder)
        && has_scripts(sources, folder)
}

/// Scripts of PHP: in the directory, or one level below a start page.
fn has_scripts(sources: &dyn Sources, folder: &str) -> bool {
    let has = |pattern: &str| {
        let found = sources.glob(&format!("{folder}/{pattern}")).unwrap_or_default();
        found.iter().any(|path| sources.path_kind(path) == PathKind::File)
    };
    let has_page = || sources.path_kind(&format!("{folder}/index.html")) == PathKind::File;
    has("*.php") || (has_page() && has("*/*.php"))
}

/// A path, or a name that no Python module has.
fn is_folder(sources: &dyn Sources, target: &str) -> bool {
    let is_module = || {
        [".py", "/__init__.py"]
            .iter()
            .any(|end| sources.path_kind(&format!("{target}{end}")) == PathKind::File)
    };
    let is_path = target.contains('/') || matches!(target, "." | "..");
    sources.path_kind(target.trim_end_matches('/')) == PathKind::Directory && (is_path || !is_module())
}

/// What looks like a Python application: a usual module, or a package of such a name; the directory itself, if it is a package.
fn python(sources: &dyn Sources, folder: &str) -> Option<String> {
    let modules = MODULES.iter().flat_map(|name| [format!("{name}.py"), format!("{name}/__init__.py")]);
    let mut files = modules.chain(["__init__.py".to_owned()]);
    files.find(|name| sources.path_kind(&format!("{folder}/{name}")) == PathKind::File)
}

/// Whether there is a package of any name, which may be or contain a Python application.
fn has_package(sources: &dyn Sources, folder: &str) -> bool {
    let entries = sources.glob(&format!("{folder}/*")).unwrap_or_default();
    entries.iter().any(|entry| sources.path_kind(&format!("{entry}/__init__.py")) == PathKind::File)
}

fn several(folder: &str, ruby: Option<&str>, php: Option<&str>, python: Option<&str>) -> Problem {
    let found: Vec<(&str, &str)> = [(ruby, "Ruby"), (php, "PHP"), (python, "Python")]
        .into_iter()
        .filter_map(|(file, language)| Some((file?, language)))
        .collect();
    let shown: Vec<String> = found.iter().map(|(file, language)| format!("{file} ({language})")).collect();
    let first = found.first().map_or("", |(file, _)| file);
    let example = if folder == "." { first.to_owned() } else { format!("{folder}/{first}") };
    Problem::new(format!("the directory `{folder}` has several applications: {}", shown.join(", ")))
        .expected(format!("one of them by name, for example `keepwarm run {example}`"))
}

fn nothing(folder: &str) -> Problem {
    let modules: Vec<String> = MODULES.iter().map(|name| format!("{name}.py")).collect();
    Problem::new(format!("the directory `{folder}` has no application")).expected(format!(
        "{RACKUP} (Ruby), {} or another *.php (PHP), or {} or a package (Python)",
        FRONT_CONTROLLERS.join(", "),
        modules.join(", ")
    ))
}
