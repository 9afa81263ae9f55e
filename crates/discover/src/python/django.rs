//! A Django project: `manage.py`, the settings it names, and what those name.

use crate::framework::DJANGO;
use crate::{Candidate, Evidence, Project, Start};

const SETTINGS: &str = "DJANGO_SETTINGS_MODULE";

pub(super) fn find(project: &Project) -> Option<Candidate> {
    let settings_line = project.line_with("manage.py", SETTINGS)?;
    let settings = settings_module(&project.text("manage.py")?)?;
    let (entry, mut evidence) = entry(project, &settings);
    evidence.insert(0, settings_line);
    let mut found = Candidate::new(&DJANGO, Start::Entry(entry), evidence);
    match static_root(project, &settings) {
        Some((url, root)) => {
            found.assets.push((url, root));
            found.advice.push("run `python manage.py collectstatic` at each deployment: Django does not serve static files itself".to_owned());
        }
        None => found.advice.push(
            "Django serves no static files in production; set STATIC_ROOT and add a files route (docs/guide/django.md)".to_owned(),
        ),
    }
    Some(found)
}

/// `mysite.settings` of `os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")`.
fn settings_module(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(SETTINGS)?;
    let mut quotes = rest.split(['"', '\'']).skip(1);
    quotes
        .find(|part| part.contains(|c: char| c.is_ascii_alphanumeric()))
        .filter(|name| super::module::is_dotted(name))
        .map(str::to_owned)
}

/// The target, and the lines that say it.
fn entry(project: &Project, settings: &str) -> (String, Vec<Evidence>) {
    let files = settings_files(project, settings);
    let named = |key: &str| {
        let line = |file: &String| {
            project.line(file, |line| line.trim_start().starts_with(key) && line.contains('='))
        };
        let evidence = files.iter().find_map(line)?;
        let value = evidence.text.split(['"', '\'']).nth(1)?;
        let (module, attribute) = value.rsplit_once('.')?;
        Some((format!("{module}:{attribute}"), evidence))
    };
    let uses_asgi = files.iter().find_map(|file| {
        project.line(file, |line| {
            ["\"channels\"", "'channels'", "\"daphne\"", "'daphne'"].iter().any(|name| line.contains(name))
        })
    });
    let asgi = || named("ASGI_APPLICATION").or_else(|| beside(project, settings, "asgi"));
    let wsgi = || named("WSGI_APPLICATION").or_else(|| beside(project, settings, "wsgi"));
    if let Some(line) = uses_asgi
        && let Some((entry, evidence)) = asgi()
    {
        return (entry, vec![line, evidence]);
    }
    match wsgi().or_else(asgi) {
        Some((entry, evidence)) => (entry, vec![evidence]),
        // Its adapter looks further.
        None => ("manage.py".to_owned(), Vec::new()),
    }
}

/// The `wsgi.py` in the package of the settings, or above it: `config.settings.production` is beneath `config/`.
fn beside(project: &Project, settings: &str, name: &str) -> Option<(String, Evidence)> {
    let mut package = settings;
    while let Some((outer, _)) = package.rsplit_once('.') {
        package = outer;
        let file = format!("{}/{name}.py", package.replace('.', "/"));
        if project.is_file(&file) {
            let evidence = project.line_with(&file, "application =").unwrap_or_else(|| Evidence::file(&file));
            return Some((format!("{package}.{name}:application"), evidence));
        }
    }
    let file = format!("{name}.py");
    let evidence = project.line_with(&file, "application =")?;
    Some((format!("{name}:application"), evidence))
}

/// The files of the settings: the module, and where it is in a package those beside it, of which it imports some.
fn settings_files(project: &Project, settings: &str) -> Vec<String> {
    let path = settings.replace('.', "/");
    let mut files = vec![format!("{path}.py")];
    let directory = if project.is_directory(&path) {
        path.clone()
    } else {
        path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned()
    };
    if project.is_directory(&path) || directory.ends_with("settings") {
        let names = project.files(&directory).into_iter().filter(|name| name.ends_with(".py"));
        files.extend(names.map(|name| format!("{directory}/{name}")));
    }
    files.retain(|file| project.is_file(file));
    files
}

/// The path and directory of collected files, where the settings say both in a usual form.
fn static_root(project: &Project, settings: &str) -> Option<(String, String)> {
    let files = settings_files(project, settings);
    let line = |key: &str| files.iter().find_map(|file| project.line(file, |line| line.starts_with(key)));
    let url = line("STATIC_URL")?.text.split(['"', '\'']).nth(1)?.trim_matches('/').to_owned();
    let root = line("STATIC_ROOT")?.text;
    // `BASE_DIR / "public/assets"`, `os.path.join(BASE_DIR, "static")`
    let directory = root.split(['"', '\'']).nth(1)?.trim_matches('/').to_owned();
    let is_plain = |text: &str| !text.is_empty() && !text.contains(['{', '$', ':']) && !text.contains("..");
    let is_relative = root.contains("BASE_DIR") || root.contains("ROOT_DIR");
    (is_plain(&url) && is_plain(&directory) && is_relative).then(|| (format!("/{url}/*"), directory))
}
