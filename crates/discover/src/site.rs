//! A static site: a directory with an `index.html`.

use serde_json::Value;

use crate::framework::STATIC;
use crate::{Candidate, Evidence, Project, Start};

/// Where generators put what they make, and where people do.
const DIRECTORIES: [&str; 8] = ["public", "dist", "build", "out", "_site", "site", "www", "htdocs"];

/// What makes a site of the directory whose `index.html` names sources, in `dist`.
const BUNDLERS: [&str; 2] = ["vite", "parcel"];

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    let made = DIRECTORIES.into_iter().find(|directory| project.is_file(&format!("{directory}/index.html")));
    let found = match made {
        Some(directory) => (directory.to_owned(), format!("{directory}/index.html")),
        None if project.is_file("index.html") => (".".to_owned(), "index.html".to_owned()),
        None => return Vec::new(),
    };
    let (directory, index) = found;
    // `URL=templates/login.php`: the page is the door of an application, whose scripts and settings must not be served as files.
    if project.line(&index, |line| line.contains(".php") && !line.contains("://")).is_some() {
        return Vec::new();
    }
    let mut evidence = vec![Evidence::file(&index)];
    if directory == "."
        && let Some(bundler) = bundler(project)
    {
        evidence.extend(project.line_with("package.json", &format!("\"{bundler}\"")));
        let mut found = Candidate::new(&STATIC, Start::Files("dist".to_owned()), evidence);
        found.advice.push(format!("run `npm run build` first: {bundler} makes dist of the sources"));
        return vec![found];
    }
    vec![Candidate::new(&STATIC, Start::Files(directory), evidence)]
}

/// The program that makes the site, if `package.json` names one: what is here are its sources, which no browser understands.
fn bundler(project: &Project) -> Option<&'static str> {
    let package: Value = serde_json::from_str(&project.text("package.json")?).ok()?;
    let is_in = |key: &str, name: &str| package.get(key).and_then(|all| all.get(name)).is_some();
    let depends = |name: &str| is_in("dependencies", name) || is_in("devDependencies", name);
    BUNDLERS.into_iter().find(|bundler| depends(bundler))
}
