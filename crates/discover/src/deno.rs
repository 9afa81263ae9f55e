//! Applications for Deno: a start task, or a main file.

use crate::framework::DENO;
use crate::{Candidate, Evidence, Project, Start};

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    let Some(config) = ["deno.json", "deno.jsonc"].into_iter().find(|name| project.is_file(name)) else {
        return Vec::new();
    };
    let task = project.line(config, |line| line.trim_start().starts_with("\"start\""));
    let main =
        ["main.ts", "server.ts", "main.js", "server.js"].into_iter().find(|name| project.is_file(name));
    let (words, evidence) = match (task, main) {
        (Some(line), _) => (vec!["deno", "task", "start"], line),
        (None, Some(main)) => {
            (vec!["deno", "run", "--allow-net", "--allow-env", "--allow-read", main], Evidence::file(main))
        }
        (None, None) => return Vec::new(),
    };
    let words = words.into_iter().map(str::to_owned).collect();
    let mut found =
        Candidate::new(&DENO, Start::Command { words, build: None }, vec![Evidence::file(config), evidence]);
    found.advice.push("the program must listen on 127.0.0.1 and the port in PORT".to_owned());
    vec![found]
}
