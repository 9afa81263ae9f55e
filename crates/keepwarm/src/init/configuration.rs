//! The text of `keepwarm.toml`: few keys, each with its reason.

use keepwarm_discover::{Framework, Language, Process, Start};

use super::{Plan, toml_string};

pub(super) fn text(plan: &Plan<'_>) -> String {
    let mut out = format!(
        "# Written by `keepwarm init` for {}.\n\
         # `keepwarm run` serves this, `keepwarm run --dry-run` checks it, `keepwarm explain KEY` explains a key.\n\n\
         [listen.public]\n\
         # This machine only; \"0.0.0.0:${{PORT:-8080}}\" is every network. The variable PORT sets another port.\n\
         bind = \"127.0.0.1:${{PORT:-8080}}\"\n",
        origin(plan)
    );
    routes(plan, &mut out);
    if !matches!(plan.chosen.start, Start::Files(_)) {
        app(plan, &mut out);
    }
    processes(plan, &mut out);
    out.push_str(UPSTREAM);
    out
}

/// `Flask (app.py:3)`
fn origin(plan: &Plan<'_>) -> String {
    match plan.chosen.evidence.last() {
        Some(evidence) if evidence.line > 0 => {
            format!("{} ({}:{})", plan.chosen.framework.name, evidence.file, evidence.line)
        }
        Some(evidence) => format!("{} ({})", plan.chosen.framework.name, evidence.file),
        None => plan.chosen.framework.name.to_owned(),
    }
}

fn routes(plan: &Plan<'_>, out: &mut String) {
    if let Start::Files(directory) = &plan.chosen.start {
        out.push_str(&format!(
            "\n# Names that begin with a dot, and this file, are never sent.\n[[listen.public.route]]\nfiles = {}\n",
            toml_string(&plan.path(directory))
        ));
        return;
    }
    for (path, directory) in &plan.chosen.assets {
        // A directory that does not exist yet would be an error.
        let is_there = plan.has(directory);
        let mark = if is_there { "" } else { "# " };
        out.push_str(match is_there {
            true => "\n# Files need no worker.\n",
            false => "\n# Files need no worker: use this route once the directory exists.\n",
        });
        out.push_str(&format!(
            "{mark}[[listen.public.route]]\n{mark}path = {}\n{mark}files = {}\n",
            toml_string(path),
            toml_string(&plan.path(directory))
        ));
    }
    let try_files = plan.chosen.try_files.as_deref();
    // Also where the routes above are comments: with one of them alone, the app would get no requests.
    if !plan.chosen.assets.is_empty() || try_files.is_some() {
        out.push_str(&format!("\n[[listen.public.route]]\napp = {}\n", toml_string(&plan.app)));
    }
    if let Some(directory) = try_files {
        out.push_str(&format!(
            "# A file there is sent without a worker; every other path is the app's.\ntry_files = {}\n",
            toml_string(&plan.path(directory))
        ));
    }
}

fn app(plan: &Plan<'_>, out: &mut String) {
    let chosen = plan.chosen;
    out.push_str(&format!("\n[app.{}]\n", plan.app));
    match &chosen.start {
        Start::Entry(entry) => out.push_str(&format!("entry = {}\n", toml_string(entry))),
        Start::Command { words, .. } => {
            out.push_str(&format!(
                "# Each process gets a port of its own, in PORT.\ncommand = {}\n",
                command(plan, words)
            ));
        }
        Start::Files(_) => {}
    }
    if !chosen.directory.is_empty() {
        out.push_str(&format!("directory = {}\n", toml_string(&chosen.directory)));
    }
    before_start(plan, out);
    out.push_str(workers(chosen.framework));
    if !chosen.env.is_empty() {
        let pairs: Vec<String> =
            chosen.env.iter().map(|(name, value)| format!("{name} = {}", toml_string(value))).collect();
        out.push_str(&format!("env = {{ {} }}\n", pairs.join(", ")));
    }
    out.push_str(
        "# A request that takes longer gets 504, and its worker is replaced.\nrequest_timeout = \"30s\"\n",
    );
    if let Some(glob) = watched(chosen.framework.language) {
        out.push_str(&format!(
            "# For development: replaces the workers when a file changes.\n# watch = [\"{glob}\"]\n"
        ));
    }
}

/// The `release:` line of a Procfile.
fn before_start(plan: &Plan<'_>, out: &mut String) {
    if let Some(release) = plan.processes.iter().find(|process| process.name == RELEASE) {
        out.push_str(&format!(
            "# From {}: runs at a start and at a reload, before anything is replaced.\nbefore_start = {}\n",
            release.place,
            command(plan, &release.words)
        ));
    }
}

/// The other lines of a Procfile that serve no requests.
fn processes(plan: &Plan<'_>, out: &mut String) {
    let has_app = !matches!(plan.chosen.start, Start::Files(_));
    let others: Vec<&Process> = plan.processes.iter().filter(|process| process.name != RELEASE).collect();
    for (number, process) in others.iter().enumerate() {
        out.push_str(&format!(
            "\n# From {}.\n[process.{}]\ncommand = {}\n",
            process.place,
            process.name,
            command(plan, &process.words)
        ));
        if !plan.chosen.directory.is_empty() {
            out.push_str(&format!("directory = {}\n", toml_string(&plan.chosen.directory)));
        }
        if number == 0 && !has_app {
            before_start(plan, out);
        }
    }
}

/// The name of the line that runs before each release.
const RELEASE: &str = "release";

/// A list of words. Programs of the virtual environment have their path: a command has no rule to find them.
fn command(plan: &Plan<'_>, words: &[String]) -> String {
    let program = words.first().map(|word| program(plan, word));
    let words: Vec<String> =
        program.into_iter().chain(words.iter().skip(1).cloned()).map(|word| toml_string(&word)).collect();
    format!("[{}]", words.join(", "))
}

fn program(plan: &Plan<'_>, word: &str) -> String {
    let name = if word == "python3" { "python" } else { word };
    let own = format!(".venv/bin/{name}");
    if !word.contains('/') && plan.has(&own) { own } else { word.to_owned() }
}

fn workers(framework: &Framework) -> &'static str {
    match framework.language {
        Language::Python if matches!(framework.slug, "mcp" | "shiny") => {
            "# Its sessions are in the memory of the process. More processes need sessions that any of them can serve.\nworkers = 1\n"
        }
        Language::Go | Language::Rust => "# One process uses every core.\nworkers = 1\n",
        Language::Ruby => {
            "# Processes: the number in WEB_CONCURRENCY, else one per core. Without these keys, config/puma.rb decides.\n\
             # workers = \"${WEB_CONCURRENCY:-auto}\"\n\
             # threads = 5\n"
        }
        Language::Node | Language::Deno | Language::Any => {
            "# Processes: the number in WEB_CONCURRENCY, else one. With \"auto\" it is one per core, if the program keeps nothing in its memory.\n\
             workers = \"${WEB_CONCURRENCY:-1}\"\n"
        }
        Language::Python | Language::Php | Language::Files => {
            "# Processes: the number in WEB_CONCURRENCY, else one per core. An app that waits for a database can use more.\n\
             workers = \"${WEB_CONCURRENCY:-auto}\"\n"
        }
    }
}

fn watched(language: Language) -> Option<&'static str> {
    match language {
        Language::Python => Some("**/*.py"),
        Language::Ruby => Some("**/*.rb"),
        Language::Php => Some("**/*.php"),
        Language::Node | Language::Deno => Some("**/*.js"),
        Language::Go | Language::Rust | Language::Any | Language::Files => None,
    }
}

const UPSTREAM: &str = "\n\
    # A service that the app calls: it then calls http://127.0.0.1:6102, also in KEEPWARM_UPSTREAM_SEARCH, and all\n\
    # workers share one pool of connections to the service.\n\
    # [upstream.search]\n\
    # url = \"https://search.example.com\"\n\
    # bind = \"127.0.0.1:6102\"\n";
