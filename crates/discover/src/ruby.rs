//! Applications in Ruby: what `config.ru` runs.

use crate::framework::{Framework, GRAPE, HANAMI, PADRINO, RACK, RAILS, RODA, SINATRA};
use crate::{Candidate, Evidence, Project, Start};

const RACKUP: &str = "config.ru";
/// Frameworks by the gem that brings them.
const GEMS: &[(&str, &Framework)] =
    &[("hanami", &HANAMI), ("padrino", &PADRINO), ("sinatra", &SINATRA), ("roda", &RODA), ("grape", &GRAPE)];

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    let Some(rackup) = project.there(RACKUP) else { return Vec::new() };
    let entry = Start::Entry(RACKUP.to_owned());
    if let Some(line) = rails(project) {
        let mut found = Candidate::new(&RAILS, entry, vec![line, run_line(project).unwrap_or(rackup)]);
        found.try_files = project.is_directory("public").then(|| "public".to_owned());
        found.assets.push(("/assets/*".to_owned(), "public/assets".to_owned()));
        found.env.push(("RAILS_ENV".to_owned(), "production".to_owned()));
        found.env.push(("RAILS_LOG_TO_STDOUT".to_owned(), "1".to_owned()));
        found.advice.push(
            "run `rails assets:precompile` at each deployment; for development, RAILS_ENV=development"
                .to_owned(),
        );
        return vec![found];
    }
    let shown = GEMS.iter().find_map(|(gem, framework)| Some((*framework, brought(project, gem)?)));
    let (framework, evidence) = match shown {
        Some((framework, line)) => (framework, vec![line, run_line(project).unwrap_or(rackup)]),
        None => (&RACK, vec![run_line(project).unwrap_or(rackup)]),
    };
    vec![Candidate::new(framework, entry, evidence)]
}

fn run_line(project: &Project) -> Option<Evidence> {
    project.line(RACKUP, |line| line.trim_start().starts_with("run "))
}

fn rails(project: &Project) -> Option<Evidence> {
    project
        .line("config/application.rb", |line| is_code(line) && line.contains("Rails::Application"))
        .or_else(|| {
            project.line("config/environment.rb", |line| is_code(line) && line.contains("Rails.application"))
        })
}

fn is_code(line: &str) -> bool {
    !line.trim_start().starts_with('#')
}

/// The line that shows a gem: in the Gemfile, or a `require` in `config.ru` or a file beside it.
fn brought(project: &Project, gem: &str) -> Option<Evidence> {
    let gemfile = |line: &str| {
        let line = line.trim_start();
        line.starts_with("gem ") && line.split(['"', '\'']).nth(1) == Some(gem)
    };
    project.line("Gemfile", gemfile).or_else(|| {
        let requires = |line: &str| {
            let line = line.trim_start();
            let named = line.strip_prefix("require ").and_then(|rest| rest.split(['"', '\'']).nth(1));
            named.is_some_and(|named| {
                named == gem || named.strip_prefix(gem).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let beside = project.files("").into_iter().filter(|name| name.ends_with(".rb"));
        std::iter::once(RACKUP.to_owned()).chain(beside).find_map(|name| project.line(&name, requires))
    })
}

/// Sinatra without `config.ru`: the line, for a message that says what to write.
pub(crate) fn without_rackup(project: &Project) -> Option<Evidence> {
    let names = project.files("").into_iter().filter(|name| name.ends_with(".rb"));
    let requires = |line: &str| matches!(line.trim(), "require 'sinatra'" | "require \"sinatra\"");
    names.into_iter().find_map(|name| project.line(&name, requires))
}
