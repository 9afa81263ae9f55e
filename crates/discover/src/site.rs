//! A static site: a directory with an `index.html`.

use crate::framework::STATIC;
use crate::{Candidate, Evidence, Project, Start};

/// Where generators put what they make, and where people do.
const DIRECTORIES: [&str; 8] = ["public", "dist", "build", "out", "_site", "site", "www", "htdocs"];

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    let made = DIRECTORIES.into_iter().find(|directory| project.is_file(&format!("{directory}/index.html")));
    let found = match made {
        Some(directory) => (directory.to_owned(), format!("{directory}/index.html")),
        None if project.is_file("index.html") => (".".to_owned(), "index.html".to_owned()),
        None => return Vec::new(),
    };
    let (directory, index) = found;
    vec![Candidate::new(&STATIC, Start::Files(directory), vec![Evidence::file(&index)])]
}
