//! What `keepwarm init` says, and `keepwarm run` where it is given nothing to run.

use std::path::Path;

use keepwarm_discover::{Candidate, Discovery, Evidence, LOOKED_FOR, Project, Start, discover};

use super::Plan;
use super::write::NewFile;

/// The report on files that were written.
pub(super) fn written(root: &Path, plan: &Plan<'_>, others: &[Candidate], files: &[NewFile]) -> String {
    let chosen = plan.chosen;
    let mut out = format!("Found {}{}:\n", chosen.framework.name, place(chosen));
    chosen.evidence.iter().for_each(|evidence| out.push_str(&format!("  {}\n", line(evidence))));
    for other in others {
        out.push_str(&format!(
            "Also here: {} ({}); `--app` chooses it.\n",
            other.framework.name,
            other.start.shown()
        ));
    }
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    out.push_str(&format!("Wrote {}.\n", listed(&names)));
    if !plan.processes.is_empty() {
        let names: Vec<String> =
            plan.processes.iter().map(|process| format!("`{}` ({})", process.name, process.place)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        out.push_str(&format!("It also runs {}.\n", listed(&names)));
    }
    for advice in &chosen.advice {
        out.push_str(&format!("Note: {advice}\n"));
    }
    out.push_str("\nRun it:\n\n");
    out.push_str(&format!("  {}\n", command(root, chosen)));
    let has = |ending: &str| files.iter().find(|file| file.name.ends_with(ending));
    if let Some(unit) = has(".service") {
        let path = plan.root.join(&unit.name);
        out.push_str(&format!("\nAs a service:\n\n  sudo systemctl enable --now {}\n", path.display()));
    }
    match (has("compose.yaml"), has("Containerfile")) {
        (Some(_), _) => {
            out.push_str("\nIn a container (docker works too):\n\n  podman compose up --build\n");
        }
        (None, Some(_)) => {
            out.push_str(&format!(
                "\nIn a container (docker works too):\n\n  {}\n",
                super::container::build_command(plan)
            ));
        }
        (None, None) => {}
    }
    out
}

/// The one command that serves it.
fn command(root: &Path, chosen: &Candidate) -> String {
    let mut steps = Vec::new();
    if root != Path::new(".") {
        steps.push(format!("cd {}", root.display()));
    }
    if let Start::Command { build: Some(build), .. } = &chosen.start {
        steps.push(match chosen.directory.as_str() {
            "" => build.clone(),
            directory => format!("(cd {directory} && {build})"),
        });
    }
    steps.push("keepwarm run".to_owned());
    steps.join(" && ")
}

fn place(candidate: &Candidate) -> String {
    match candidate.first_file() {
        "" => String::new(),
        file => format!(" in {file}"),
    }
}

/// `app.py:3  app = Flask(__name__)`
fn line(evidence: &Evidence) -> String {
    match (evidence.line, evidence.text.as_str()) {
        (0, "") => evidence.file.clone(),
        (0, text) => format!("{}  {text}", evidence.file),
        (number, text) => format!("{}:{number}  {text}", evidence.file),
    }
}

fn listed(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => (*last).to_owned(),
        None => String::new(),
    }
}

/// Equal applications, each with the option that chooses it.
pub(super) fn several(found: &Discovery) -> String {
    let names = found.names();
    let first = names.first().map_or("", String::as_str);
    format!(
        "several applications are here, and no rule puts one before the others; choose with --app:\n{}\nfor example: keepwarm init --app {first}",
        table(found)
    )
}

pub(super) fn unknown_name(name: &str, found: &Discovery) -> String {
    match found {
        Discovery::Nothing => format!("--app {name}: nothing to serve was found here"),
        _ => format!(
            "--app {name}: no application here has that name, or several do; there is:\n{}",
            table(found)
        ),
    }
}

fn table(found: &Discovery) -> String {
    let names = found.names();
    let width = names.iter().map(String::len).max().unwrap_or_default();
    let row = |(name, candidate): (&String, &Candidate)| {
        let evidence = candidate.evidence.first().map(line).unwrap_or_default();
        format!("  --app {name:width$}  {} ({evidence})", candidate.framework.name)
    };
    names.iter().zip(found.all()).map(row).collect::<Vec<_>>().join("\n")
}

/// What was looked for, in vain.
pub(super) fn nothing(project: &Project) -> String {
    let root = std::path::absolute(project.root()).unwrap_or_else(|_| project.root().to_path_buf());
    if let Some(line) = keepwarm_discover::sinatra_without_rackup(project) {
        let file = line.file.trim_end_matches(".rb");
        return format!(
            "{}:{} is a Sinatra application without a config.ru; write one with these two lines:\n  \
             require_relative \"{file}\"\n  run Sinatra::Application",
            line.file, line.line
        );
    }
    let width = LOOKED_FOR.iter().map(|(language, _)| language.len()).max().unwrap_or_default();
    let rows: Vec<String> =
        LOOKED_FOR.iter().map(|(language, files)| format!("  {language:width$}  {files}")).collect();
    format!(
        "nothing to serve was found in {} or one directory below it; looked for:\n{}\nto serve something else: keepwarm run -- COMMAND, or write a \
         keepwarm.toml (docs/guide/configuration.md)",
        root.display(),
        rows.join("\n")
    )
}

/// What `keepwarm run` could run here: a sentence for its error.
pub(crate) fn what_is_here() -> Option<String> {
    let project = Project::open(Path::new(".")).ok()?;
    let found = discover(&project);
    match &found {
        Discovery::Nothing => None,
        Discovery::One { chosen, .. } => {
            let name = format!("found {}{}", chosen.framework.name, place(chosen));
            // What `init` has to write for it first has no target.
            let needs_file = chosen.own_file.is_some() || !chosen.directory.is_empty();
            Some(match (&chosen.start, needs_file) {
                (Start::Files(_), _) | (_, true) => {
                    format!("{name}: run `keepwarm init`, then `keepwarm run`")
                }
                (Start::Command { build: Some(build), .. }, _) => {
                    format!(
                        "{name}: run `{build}`, then `keepwarm run {}`, or `keepwarm init`",
                        chosen.start.shown()
                    )
                }
                (start, _) => format!("{name}: run `keepwarm run {}`, or `keepwarm init`", start.shown()),
            })
        }
        Discovery::Several(all) => {
            let shown: Vec<String> =
                all.iter().map(|one| format!("  {}: {}", one.framework.name, run_line(one))).collect();
            Some(format!("found several applications:\n{}\nor `keepwarm init --app NAME`", shown.join("\n")))
        }
    }
}

fn run_line(candidate: &Candidate) -> String {
    match (&candidate.start, candidate.directory.as_str()) {
        (Start::Files(_), _) => "keepwarm init --app static".to_owned(),
        (start, "") => format!("keepwarm run {}", start.shown()),
        (start, directory) => format!("cd {directory} && keepwarm run {}", start.shown()),
    }
}
