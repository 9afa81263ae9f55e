//! Programs in Rust: a package that depends on a server.

use crate::framework::RUST;
use crate::{Candidate, Project, Start};

const SERVERS: [&str; 8] = ["axum", "actix-web", "rocket", "warp", "poem", "salvo", "tide", "ntex"];

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    if !project.is_file("src/main.rs") {
        return Vec::new();
    }
    let depends = |line: &str| {
        let name = line.split(['=', '.', ' ']).next().unwrap_or_default().trim_matches('"');
        SERVERS.contains(&name)
    };
    let name = project.line("Cargo.toml", |line| line.replace(' ', "").starts_with("name=\""));
    let (Some(line), Some(name)) = (project.line("Cargo.toml", depends), name) else { return Vec::new() };
    let Some(package) = name.text.split('"').nth(1) else { return Vec::new() };
    let binary = format!("target/release/{package}");
    let build = (!project.is_file(&binary)).then(|| "cargo build --release".to_owned());
    let start = Start::Command { words: vec![binary], build };
    let mut found = Candidate::new(&RUST, start, vec![line, name]);
    if project.line_with("src/main.rs", "PORT").is_none() {
        found.advice.push("src/main.rs does not name PORT: have the program listen on 127.0.0.1 and the port in that variable".to_owned());
    }
    vec![found]
}
