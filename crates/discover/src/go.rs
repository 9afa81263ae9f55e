//! Programs in Go: a module with a main package that serves HTTP, or a binary without its source.

use crate::framework::GO;
use crate::project::joined;
use crate::{Candidate, Evidence, Project, Start};

/// Imports of a program that serves.
const SERVERS: [&str; 8] = [
    "\"net/http\"",
    "gin-gonic/gin\"",
    "labstack/echo/v4\"",
    "gofiber/fiber/",
    "go-chi/chi",
    "gorilla/mux\"",
    "valyala/fasthttp\"",
    "connectrpc.com/connect\"",
];

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    let Some(module_line) = project.line("go.mod", |line| line.starts_with("module ")) else {
        return project.files("").into_iter().filter_map(|name| binary(project, &name)).collect();
    };
    let commands = project.directories("cmd").into_iter().map(|name| format!("cmd/{name}"));
    let mains: Vec<(String, Evidence)> = std::iter::once(String::new())
        .chain(commands)
        .filter_map(|directory| Some((directory.clone(), serving_line(project, &directory)?)))
        .collect();
    mains.into_iter().map(|(directory, line)| candidate(project, &module_line, &directory, line)).collect()
}

fn candidate(project: &Project, module: &Evidence, directory: &str, line: Evidence) -> Candidate {
    let name = match directory.rsplit('/').next().unwrap_or_default() {
        "" => module_name(&module.text),
        name => name.to_owned(),
    };
    let package = if directory.is_empty() { ".".to_owned() } else { format!("./{directory}") };
    let binary = format!("./{name}");
    let build = (!project.is_file(&name)).then(|| format!("go build -o {name} {package}"));
    let reads_port = sources(project, directory).iter().any(|file| project.line_with(file, "PORT").is_some());
    let mut found =
        Candidate::new(&GO, Start::Command { words: vec![binary], build }, vec![module.clone(), line]);
    if !reads_port {
        found.advice.push(
            "no file names PORT: have the program listen on 127.0.0.1 and the port in that variable"
                .to_owned(),
        );
    }
    found
}

/// A program that Go's linker has written: ELF, with a note of the owner `Go`.
fn binary(project: &Project, name: &str) -> Option<Candidate> {
    const NOTE: &[u8] = b"\x04\0\0\0";
    const OWNER: &[u8] = b"\x04\0\0\0Go\0\0";
    let head = project.program(name)?;
    let is_go = head.starts_with(b"\x7fELF")
        && head
            .windows(NOTE.len() + 4 + OWNER.len())
            .any(|note| note.starts_with(NOTE) && note.ends_with(OWNER));
    let evidence = Evidence { file: name.to_owned(), line: 0, text: "a program built by Go".to_owned() };
    let start = Start::Command { words: vec![format!("./{name}")], build: None };
    is_go.then(|| Candidate::new(&GO, start, vec![evidence]))
}

/// The last part of a module's path that is not a version.
fn module_name(line: &str) -> String {
    let path = line.trim_start_matches("module ").trim().trim_matches('"');
    let is_version = |part: &&str| {
        part.strip_prefix('v').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let name = path.split('/').rev().find(|part| !is_version(part)).unwrap_or("app");
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = name.chars().filter(is_plain).collect();
    if name.is_empty() { "app".to_owned() } else { name }
}

/// The line that imports a server, in a package `main`.
fn serving_line(project: &Project, directory: &str) -> Option<Evidence> {
    let files = sources(project, directory);
    let is_main = |file: &String| project.line(file, |line| line.trim() == "package main").is_some();
    if !files.iter().any(is_main) {
        return None;
    }
    let imports = |line: &str| {
        SERVERS.iter().any(|server| line.contains(server)) && !line.trim_start().starts_with("//")
    };
    // Without an import of its own, what it calls serves.
    let listens = |line: &str| line.contains("ListenAndServe") || line.contains(".Serve(");
    files.iter().find_map(|file| project.line(file, imports).or_else(|| project.line(file, listens)))
}

fn sources(project: &Project, directory: &str) -> Vec<String> {
    let names = project.files(directory).into_iter();
    names
        .filter(|name| name.ends_with(".go") && !name.ends_with("_test.go"))
        .map(|name| joined(directory, &name))
        .collect()
}
