//! A Procfile: its `web:` line is what serves.

use crate::framework::PROCFILE;
use crate::{Candidate, Evidence, Project, Start};

const FILE: &str = "Procfile";

/// The command of the line `web:`, as it names applications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebCommand {
    command: String,
    /// The target that it gives to a server which Keepwarm replaces.
    target: Option<String>,
}

impl WebCommand {
    /// Whether it starts this application.
    pub(crate) fn names(&self, candidate: &Candidate) -> bool {
        match &candidate.start {
            _ if candidate.framework.slug == PROCFILE.slug => false,
            Start::Entry(entry) => self.names_target(entry),
            Start::Command { words, .. } => {
                self.command == words.join(" ")
                    || matches!(self.command.as_str(), "npm start" | "npm run start")
            }
            Start::Files(_) => false,
        }
    }

    /// Whether it starts the application of this target.
    pub(crate) fn names_target(&self, entry: &str) -> bool {
        self.target.as_deref().is_some_and(|target| is_same(entry, target))
    }
}

/// `shop.wsgi:application` is `shop.wsgi`, and `create_app()` is what a server calls `create_app`.
fn is_same(entry: &str, target: &str) -> bool {
    let parts = |text: &str| {
        let (module, name) = text.split_once(':').unwrap_or((text, ""));
        (module.trim_end_matches(".py").replace('/', "."), name.trim_end_matches("()").to_owned())
    };
    let ((module, name), (other, other_name)) = (parts(entry), parts(target));
    module == other && (name == other_name || other_name.is_empty())
}

fn line(project: &Project) -> Option<Evidence> {
    project.line(FILE, |line| line.trim_start().starts_with("web:"))
}

pub(crate) fn web(project: &Project) -> Option<WebCommand> {
    let text = project.text(FILE)?;
    let command = text.lines().find_map(|line| line.trim_start().strip_prefix("web:"))?.trim().to_owned();
    let target = target(&command);
    Some(WebCommand { command, target })
}

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    let (Some(line), Some(web)) = (line(project), web(project)) else { return Vec::new() };
    if web.command.is_empty() {
        return Vec::new();
    }
    let start = match &web.target {
        Some(target) => Start::Entry(target.clone()),
        None => Start::Command { words: words(&web.command), build: None },
    };
    vec![Candidate::new(&PROCFILE, start, vec![line])]
}

/// A line of a Procfile that serves no requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its name; `release` is a command before each release.
    pub name: String,
    /// Its command, as words.
    pub words: Vec<String>,
    /// Where it is, as `Procfile:2`.
    pub place: String,
}

/// The lines but `web` of the Procfile beside an application. The first of a name counts.
#[must_use]
pub fn processes(project: &Project, of: &Candidate) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    for (number, line) in project.inner(&of.directory).text(FILE).unwrap_or_default().lines().enumerate() {
        let Some((name, command)) = line.trim().split_once(':') else { continue };
        let words = words(command.trim());
        if is_name(name)
            && name != "web"
            && !words.is_empty()
            && !found.iter().any(|known| known.name == name)
        {
            found.push(Process { name: name.to_owned(), words, place: format!("{FILE}:{}", number + 1) });
        }
    }
    found
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// The words of a command; a shell runs one that needs it, and is replaced by it where it is a single command.
fn words(command: &str) -> Vec<String> {
    let has_variables = command.split(' ').next().is_some_and(|word| word.contains('='));
    let command = if has_variables { format!("env {command}") } else { command.to_owned() };
    let is_single = !command.contains(['&', '|', ';', '(', '`'])
        && !["cd ", "exec ", "export ", "test ", "[ ", "if "].iter().any(|start| command.starts_with(start));
    if !is_single || command.contains(['$', '<', '>', '"', '\'', '*', '\\', '~']) {
        let command = if is_single { format!("exec {command}") } else { command };
        return vec!["sh".to_owned(), "-c".to_owned(), command];
    }
    command.split_whitespace().map(str::to_owned).collect()
}

/// Options of these servers that take a value as the next word.
const WITH_VALUE: &[&str] = &[
    "-w",
    "-b",
    "-k",
    "-c",
    "-t",
    "-p",
    "-e",
    "-C",
    "-E",
    "-o",
    "-s",
    "--workers",
    "--bind",
    "--worker-class",
    "--config",
    "--timeout",
    "--port",
    "--host",
    "--threads",
    "--log-level",
    "--log-file",
    "--access-logfile",
    "--error-logfile",
    "--access-log",
    "--interface",
    "--loop",
    "--http",
    "--env-file",
    "--log-config",
    "--max-requests",
    "--max-requests-jitter",
    "--graceful-timeout",
    "--keep-alive",
    "--name",
    "--pid",
    "--root-path",
    "--env",
    "--chdir",
    "--app-dir",
    "--worker-connections",
    "--worker-tmp-dir",
];

/// The target of a server that Keepwarm replaces: `shop.wsgi` of `gunicorn -w 4 shop.wsgi`.
fn target(command: &str) -> Option<String> {
    let mut words =
        command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).skip_while(|word| {
            matches!(
                *word,
                "exec" | "bundle" | "uv" | "poetry" | "pipenv" | "run" | "python" | "python3" | "-m"
            ) || (word.contains('=') && !word.starts_with('-'))
        });
    let program = words.next()?.rsplit('/').next()?;
    let rest: Vec<&str> = words.collect();
    match program {
        "gunicorn" | "uvicorn" | "hypercorn" | "daphne" | "granian" | "waitress-serve" => {
            if rest.iter().any(|word| {
                *word == "--chdir"
                    || *word == "--app-dir"
                    || word.starts_with("--chdir=")
                    || word.starts_with("--app-dir=")
            }) {
                return None;
            }
            let is_factory = rest.contains(&"--factory");
            let target = positional(&rest).find(|word| is_target(word))?;
            Some(if is_factory && !target.ends_with(')') { format!("{target}()") } else { target.to_owned() })
        }
        "puma" | "unicorn" | "rackup" | "thin" | "falcon" | "passenger" => {
            let named = rest.iter().find(|word| word.ends_with(".ru"));
            Some((*named.unwrap_or(&"config.ru")).to_owned())
        }
        "rails" | "bin/rails" if matches!(rest.first(), Some(&"server" | &"s")) => {
            Some("config.ru".to_owned())
        }
        _ => None,
    }
}

/// The words that are neither an option nor an option's value.
fn positional<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let mut takes_value = false;
    words.iter().copied().filter(move |word| {
        let is_value = std::mem::replace(&mut takes_value, WITH_VALUE.contains(word));
        !is_value && !word.starts_with('-')
    })
}

/// `module:name` or `module`, perhaps with a call.
fn is_target(word: &str) -> bool {
    let (module, name) = word.split_once(':').unwrap_or((word, ""));
    super::python::is_dotted_name(module) && name.chars().all(|c| c.is_alphanumeric() || "_.()=,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::{target, words};

    #[test]
    fn targets_of_servers_are_found_among_their_options() {
        for (command, expected) in [
            ("gunicorn shop.wsgi", Some("shop.wsgi")),
            (
                "gunicorn -w 4 -b 0.0.0.0:$PORT shop.wsgi:application --log-file -",
                Some("shop.wsgi:application"),
            ),
            ("exec gunicorn --workers=4 'shop:create_app()'", Some("shop:create_app()")),
            ("uvicorn main:app --host 0.0.0.0 --port ${PORT:-8000}", Some("main:app")),
            ("uvicorn --factory shop.main:create_app", Some("shop.main:create_app()")),
            ("python -m uvicorn main:app", Some("main:app")),
            ("poetry run gunicorn app:app", Some("app:app")),
            ("WEB=1 gunicorn app:app", Some("app:app")),
            ("bundle exec puma -C config/puma.rb", Some("config.ru")),
            ("bundle exec rackup site.ru -p $PORT", Some("site.ru")),
            ("bin/rails server -p $PORT -e $RAILS_ENV", Some("config.ru")),
            ("gunicorn --chdir backend app:app", None),
            ("node server.js", None),
            ("rails db:migrate", None),
            ("gunicorn", None),
            ("", None),
        ] {
            assert_eq!(target(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn a_command_that_needs_a_shell_gets_one() {
        assert_eq!(words("node server.js"), ["node", "server.js"]);
        assert_eq!(words("./bin/serve -p $PORT"), ["sh", "-c", "exec ./bin/serve -p $PORT"]);
        assert_eq!(words("A=1 ./serve"), ["env", "A=1", "./serve"]);
        assert_eq!(words("A=1 ./serve $B"), ["sh", "-c", "exec env A=1 ./serve $B"]);
        // `exec a && b` would never come to `b`.
        assert_eq!(words("./migrate && ./seed"), ["sh", "-c", "./migrate && ./seed"]);
        assert_eq!(words("cd app"), ["sh", "-c", "cd app"]);
    }
}
