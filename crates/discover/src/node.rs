//! Applications for Node: by `package.json`.

use serde_json::Value;

use crate::framework::{
    ASTRO, EXPRESS, FASTIFY, Framework, HAPI, HONO, KOA, NEST, NEXT, NODE, NUXT, REMIX, SVELTEKIT,
};
use crate::{Candidate, Evidence, Project, Start};

const PACKAGE: &str = "package.json";
/// What makes a server of a SvelteKit or Astro site; without it, the site is files or runs elsewhere.
const SVELTEKIT_SERVER: &str = "@sveltejs/adapter-node";
const ASTRO_SERVER: &str = "@astrojs/node";
/// Frameworks by their package, those that bring others first.
const PACKAGES: &[(&str, &Framework)] = &[
    ("next", &NEXT),
    ("nuxt", &NUXT),
    ("@remix-run/serve", &REMIX),
    ("@react-router/serve", &REMIX),
    (SVELTEKIT_SERVER, &SVELTEKIT),
    (ASTRO_SERVER, &ASTRO),
    ("@nestjs/core", &NEST),
    ("fastify", &FASTIFY),
    ("express", &EXPRESS),
    ("koa", &KOA),
    ("@hapi/hapi", &HAPI),
    ("hono", &HONO),
];
/// Files that a package without a start script is started by.
const USUAL: [&str; 10] = [
    "server.js",
    "app.js",
    "index.js",
    "main.js",
    "server.mjs",
    "index.mjs",
    "src/server.js",
    "src/index.js",
    "src/app.js",
    "dist/index.js",
];
/// Characters that mean something to a shell.
const SHELL: &[char] =
    &['&', '|', ';', '<', '>', '$', '`', '(', ')', '*', '?', '"', '\'', '\\', '~', '#', '='];

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    package(project).into_iter().collect()
}

fn package(project: &Project) -> Option<Candidate> {
    let text = project.text(PACKAGE)?;
    let package: Value = serde_json::from_str(&text).ok()?;
    let depends = |name: &str| {
        let is_in = |key: &str| package.get(key).and_then(|all| all.get(name)).is_some();
        // SvelteKit's own template has it there: it only builds.
        is_in("dependencies") || (name == SVELTEKIT_SERVER && is_in("devDependencies"))
    };
    let framework = PACKAGES.iter().find(|(name, _)| depends(name));
    let start = package.pointer("/scripts/start").and_then(Value::as_str);
    let main = package.get("main").and_then(Value::as_str);
    let (words, mut evidence, file) = command(project, framework.map(|(name, _)| *name), start, main)?;
    if framework.is_none() && is_only_tools(start.unwrap_or_default()) {
        return None;
    }
    if let Some((name, _)) = framework
        && let Some(line) = project.line_with(PACKAGE, &format!("\"{name}\""))
    {
        evidence.insert(0, line);
    }
    let is_server = framework.is_some() || file.as_deref().is_some_and(|file| serves(project, file));
    if !is_server {
        return None;
    }
    let build = package.pointer("/scripts/build").is_some()
        && builds_first(framework.map_or("", |(name, _)| name), file.as_deref());
    let build = build.then(|| "npm run build".to_owned());
    let framework = framework.map_or(&NODE, |(_, framework)| framework);
    let mut found = Candidate::new(framework, Start::Command { words, build }, evidence);
    found.env.push(("NODE_ENV".to_owned(), "production".to_owned()));
    if framework == &SVELTEKIT || framework == &ASTRO {
        // They listen on every network unless this says otherwise.
        found.env.push(("HOST".to_owned(), "127.0.0.1".to_owned()));
    }
    if !project.is_directory("node_modules") {
        found.advice.push("run `npm install` first: there is no node_modules".to_owned());
    }
    if let Some(file) = file
        && let Some(line) = fixed_port(project, &file)
    {
        found.advice.push(format!(
            "{}:{} listens on a fixed port: have it listen on process.env.PORT, since each worker gets a port of its own",
            line.file, line.line
        ));
    }
    Some(found)
}

type Command = (Vec<String>, Vec<Evidence>, Option<String>);

/// The command, the lines that say it, and the file that it runs.
fn command(
    project: &Project,
    framework: Option<&str>,
    start: Option<&str>,
    main: Option<&str>,
) -> Option<Command> {
    let line = |part: &str| project.line_with(PACKAGE, part);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match framework {
        // It listens on every network unless -H says otherwise.
        Some("next") => {
            let command = words(&["node_modules/.bin/next", "start", "-H", "127.0.0.1"]);
            return Some((command, Vec::new(), None));
        }
        Some("nuxt") => return Some((words(&["node", ".output/server/index.mjs"]), Vec::new(), None)),
        Some(SVELTEKIT_SERVER) => return Some((words(&["node", "build"]), Vec::new(), None)),
        Some(ASTRO_SERVER) => return Some((words(&["node", "dist/server/entry.mjs"]), Vec::new(), None)),
        _ => {}
    }
    if let Some(start) = start {
        let evidence: Vec<Evidence> = line("\"start\"").into_iter().collect();
        let simple = simple_command(project, start);
        let command = simple.clone().unwrap_or_else(|| words(&["npm", "start"]));
        let file = command.get(1..).into_iter().flatten().find(|word| project.is_file(word)).cloned();
        return Some((command, evidence, file));
    }
    let (file, evidence) = match main.filter(|main| project.is_file(main)) {
        Some(main) => (main.to_owned(), line("\"main\"")),
        None => {
            let usual = USUAL.into_iter().find(|file| project.is_file(file))?;
            (usual.to_owned(), Some(Evidence::file(usual)))
        }
    };
    Some((vec!["node".to_owned(), file.clone()], evidence.into_iter().collect(), Some(file)))
}

/// The words of a script that needs no shell, with its program as a path: nothing stands between Keepwarm's signals and it.
fn simple_command(project: &Project, script: &str) -> Option<Vec<String>> {
    if script.contains(SHELL) {
        return None;
    }
    let mut words: Vec<String> = script.split_whitespace().map(str::to_owned).collect();
    let first = words.first_mut()?;
    if !matches!(first.as_str(), "node" | "nodejs" | "bun") && !first.contains('/') {
        let local = format!("node_modules/.bin/{first}");
        if !project.root().join(&local).exists() && !is_known_program(first) {
            return None;
        }
        *first = local;
    }
    Some(words)
}

/// Programs that a package installs; they are there after `npm install`.
fn is_known_program(name: &str) -> bool {
    matches!(name, "next" | "nest" | "remix-serve" | "react-router-serve" | "fastify" | "tsx" | "ts-node")
}

/// Whether a start script only builds, watches or previews what browsers run.
fn is_only_tools(script: &str) -> bool {
    let program = script.split_whitespace().next().unwrap_or_default();
    matches!(
        program,
        "vite"
            | "react-scripts"
            | "webpack"
            | "parcel"
            | "ng"
            | "vue-cli-service"
            | "gulp"
            | "grunt"
            | "esbuild"
            | "rollup"
            | "expo"
            | "electron"
    )
}

fn serves(project: &Project, file: &str) -> bool {
    let is_line = |line: &str| {
        line.contains(".listen(") || line.contains("createServer(") || line.contains("Bun.serve(")
    };
    project.line(file, is_line).is_some()
}

/// Whether what is started is made by the build script.
fn builds_first(framework: &str, file: Option<&str>) -> bool {
    matches!(
        framework,
        "next"
            | "nuxt"
            | "@remix-run/serve"
            | "@react-router/serve"
            | SVELTEKIT_SERVER
            | ASTRO_SERVER
            | "@nestjs/core"
    ) && file.is_none()
}

/// The line that listens on a number, in a file that does not read `PORT`.
fn fixed_port(project: &Project, file: &str) -> Option<Evidence> {
    if project.text(file)?.contains("PORT") {
        return None;
    }
    let is_fixed = |line: &str| {
        let argument = line.split_once(".listen(").map(|(_, rest)| rest.trim_start());
        argument.is_some_and(|argument| argument.starts_with(|c: char| c.is_ascii_digit()))
    };
    project.line(file, is_fixed)
}
