//! The fault of an interpreter with which an app could not be started: too old, of another language, or missing. It is only queried then.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use keepwarm_config::{App, AppKind, Config, Program};
use keepwarm_discover::Project;
use keepwarm_workers::supervisor::StartFailure;

use crate::language::{self, interpreter};
use crate::program_output;
use crate::run_as::{self, UserChoice};

/// How long an interpreter may take to say its version. This number is arbitrary: a hundred times what it takes.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most bytes read of its output, and most bytes shown of that. Both numbers are arbitrary.
const READ: u64 = 4_096;
const SHOWN: usize = 80;

/// The interpreter version that an app requires.
struct Requirement {
    language: &'static str,
    /// The option that makes it print its version.
    flag: &'static str,
    /// The text before its version.
    mark: &'static str,
    least: (u32, u32),
    /// It has to speak FastCGI.
    server: bool,
}

const PHP: Requirement =
    Requirement { language: "PHP", flag: "-v", mark: "PHP ", least: (8, 1), server: false };
const RUBY: Requirement =
    Requirement { language: "Ruby", flag: "-v", mark: "ruby ", least: (3, 0), server: false };
const PYTHON: Requirement =
    Requirement { language: "Python", flag: "-V", mark: "Python ", least: (3, 9), server: false };
/// Classic scripts want what they want: no version is too old for Keepwarm.
const PHP_SERVER: Requirement =
    Requirement { language: "PHP", flag: "-v", mark: "PHP ", least: (0, 0), server: true };

/// Adds to the failure of an app the fault of its interpreter, if that is the cause; else which one it is: a module that is missing there may be installed
/// for another.
pub(crate) async fn explain(failure: &mut StartFailure, config: &Config) {
    let Some(app) = config.app(&failure.app).cloned() else { return };
    let outcome = tokio::task::spawn_blocking(move || {
        complaint(&app).or_else(|| {
            language::describe_interpreter(&app).map(|program| format!("its interpreter is {program}"))
        })
    });
    if let Ok(Some(words)) = outcome.await {
        failure.reason = format!("{}; {words}", failure.reason);
    }
    if is_target_missing(&failure.stderr)
        && let Some(app) = config.app(&failure.app)
        && let Some(near) = nearest_entry(app)
    {
        failure.reason = format!("{}; did you mean `{near}`?", failure.reason);
    }
}

/// Whether the adapter says that what the entry names is not there.
fn is_target_missing(output: &[u8]) -> bool {
    let text = String::from_utf8_lossy(output);
    ["not found for", "not found in", "has no attribute", "has neither"]
        .iter()
        .any(|mark| text.contains(mark))
}

/// The entry that was probably meant, for one that is not there.
pub(crate) fn nearest_entry(app: &App) -> Option<String> {
    let Program::Entry(entry) = &app.program else { return None };
    let directory = match app.directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => app.directory.as_path(),
    };
    keepwarm_discover::nearest_target(&Project::open(directory).ok()?, entry)
}

/// The fault of the app's interpreter, if any. Not where workers run as another user: it might be that user's program, and we may be root.
fn complaint(app: &App) -> Option<String> {
    if runs_as_another(app) || app.address.is_some() || !matches!(app.program, Program::Entry(_)) {
        return None;
    }
    let requirement = match app.kind {
        Some(AppKind::Http) => return None,
        Some(AppKind::FastCgi) => PHP_SERVER,
        Some(AppKind::Php) => PHP,
        Some(AppKind::Rack) => RUBY,
        None | Some(AppKind::Wsgi | AppKind::Asgi) => PYTHON,
    };
    let program = interpreter(app);
    let said = ask(program_output::command(&program, app).envs(&app.env), requirement.flag)?;
    requirement.judge(&said).map(|verdict| format!("{} {verdict}", program.display()))
}

fn runs_as_another(app: &App) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let by_default = || {
        let start = language::start(app);
        start.is_ok_and(|start| matches!(run_as::choose(app, &start), UserChoice::Default(_)))
    };
    app.run_as.as_ref().map_or_else(by_default, |user| user.uid != own)
}

/// The output of a program with `flag`. `None`: it cannot be started, or does not respond.
fn ask(program: &mut Command, flag: &str) -> Option<String> {
    let said = program_output::printed(program.arg(flag).stderr(Stdio::null()), READ, PATIENCE).ok()??;
    Some(String::from_utf8_lossy(&said).into_owned())
}

impl Requirement {
    /// The fault of a program with this output.
    fn judge(&self, said: &str) -> Option<String> {
        let Self { language, flag, least: (major, minor), .. } = self;
        let line = said.lines().next().unwrap_or_default().trim();
        let Some((_, version)) = line.split_once(self.mark) else {
            let shown: String = line.chars().take(SHOWN).flat_map(char::escape_debug).collect();
            let says = if shown.is_empty() { "nothing".to_owned() } else { format!("\"{shown}\"") };
            return Some(format!("is not {language}: with {flag} it prints {says}"));
        };
        let version: String =
            version.chars().take_while(|byte| byte.is_ascii_digit() || *byte == '.').collect();
        let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
        let found = (numbers.next()?, numbers.next().unwrap_or(0));
        if found < self.least {
            return Some(format!("is {language} {version}; {major}.{minor} or later is required"));
        }
        (self.server && line.contains("(cli)")).then(|| {
            "is PHP's command line, which does not support FastCGI; set a php-cgi or a php-fpm".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_interpreters_say_of_themselves() {
        for (requirement, said, verdict) in [
            (&PHP, "PHP 8.2.36 (cli) (built: Nov 18 2026 20:02:04) (NTS)\nCopyright", None),
            (&PHP, "PHP 8.1.0RC1 (cli)", None),
            (&PHP, "PHP 7.4.33 (cli) (built: x)", Some("is PHP 7.4.33; 8.1 or later is required")),
            (&PHP, "PHP 8.0.30", Some("is PHP 8.0.30; 8.1 or later is required")),
            (&PHP, "Python 3.11.7\n", Some("is not PHP: with -v it prints \"Python 3.11.7\"")),
            (&PHP, "", Some("is not PHP: with -v it prints nothing")),
            (&RUBY, "ruby 3.1.2p20 (2022-04-12 revision 4491bb740a) [x86_64-linux-gnu]", None),
            (&RUBY, "jruby 9.4.5.0 (3.1.4) 2023-11-02", None),
            (&RUBY, "ruby 2.7.8p225", Some("is Ruby 2.7.8; 3.0 or later is required")),
            (&PYTHON, "Python 3.11.7", None),
            (&PYTHON, "Python 3.8.10", Some("is Python 3.8.10; 3.9 or later is required")),
            (&PHP_SERVER, "PHP 5.6.40 (cgi-fcgi)", None),
            (&PHP_SERVER, "PHP 8.2.36 (fpm-fcgi) (built: x)", None),
            (
                &PHP_SERVER,
                "PHP 8.2.36 (cli)",
                Some("is PHP's command line, which does not support FastCGI; set a php-cgi or a php-fpm"),
            ),
        ] {
            assert_eq!(requirement.judge(said).as_deref(), verdict, "{said}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_asked_is_not_judged() {
        assert_eq!(ask(&mut Command::new("/nonexistent"), "-v"), None);
        assert_eq!(ask(&mut Command::new("/bin/false"), "-v").as_deref(), Some(""));
    }
}
