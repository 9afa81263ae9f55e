//! Applications in Python: Django's `manage.py`, and the modules that make an application.

mod applications;
mod django;
mod module;
mod source;

use crate::project::joined;
use crate::{Candidate, Project, procfile};
use module::Module;

/// Directories beneath the project's that may hold modules: `shop/web/api` is the deepest.
const DEPTH: usize = 3;
/// Files to read; the number is arbitrary.
const MAX_FILES: usize = 500;

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    if let Some(django) = django::find(project) {
        return vec![django];
    }
    applications::find(&modules(project), procfile::web(project).as_ref())
}

/// The modules of a project, without its tests.
fn modules(project: &Project) -> Vec<Module> {
    let mut found = Vec::new();
    collect(project, "", 0, &mut found);
    found
}

fn collect(project: &Project, directory: &str, depth: usize, found: &mut Vec<Module>) {
    for name in project.files(directory) {
        let Some(stem) = name.strip_suffix(".py").filter(|stem| is_source(stem)) else { continue };
        let file = joined(directory, &name);
        if found.len() < MAX_FILES
            && let Some(text) = project.text(&file)
        {
            let package = directory.replace('/', ".");
            let module = match (stem, package.as_str()) {
                ("__init__", _) => package,
                (stem, "") => stem.to_owned(),
                (stem, package) => format!("{package}.{stem}"),
            };
            found.push(Module::read(&file, &module, &text));
        }
    }
    if depth < DEPTH {
        for name in
            project.directories(directory).into_iter().filter(|name| is_part(project, directory, name))
        {
            collect(project, &joined(directory, &name), depth + 1, found);
        }
    }
}

/// Whether imports of the project reach into a directory: it is a package, is named by an import, or has imports of its own that say so. Another one is a
/// project by itself.
fn is_part(project: &Project, directory: &str, name: &str) -> bool {
    let inner = joined(directory, name);
    if project.is_file(&format!("{inner}/__init__.py"))
        || (directory.is_empty() && matches!(name, "src" | "lib" | "python"))
    {
        return true;
    }
    let words = [format!("from {name}."), format!("from {name} import"), format!("import {name}.")];
    let names_it = |line: &str| words.iter().any(|word| line.trim_start().starts_with(word.as_str()));
    let python = |directory: &str| {
        let names = project.files(directory).into_iter().filter(|name| name.ends_with(".py"));
        names.map(|name| joined(directory, &name)).collect::<Vec<_>>()
    };
    let own = python(&inner);
    python(directory).iter().chain(&own).any(|file| project.line(file, names_it).is_some())
        || own.iter().any(|file| project.line(file, |line| line.starts_with("from .")).is_some())
}

/// Not a test, nor what installs or configures something.
fn is_source(stem: &str) -> bool {
    !(stem.starts_with("test_")
        || stem.ends_with("_test")
        || matches!(
            stem,
            "setup" | "conftest" | "noxfile" | "tasks" | "fabfile" | "__main__" | "gunicorn.conf"
        ))
}

/// The targets that a person may mean, for one that does not exist.
pub(crate) fn targets(project: &Project) -> Vec<String> {
    applications::targets(&modules(project))
}

/// Whether this is a name, or names with dots between.
pub(crate) fn is_dotted_name(text: &str) -> bool {
    module::is_dotted(text)
}
