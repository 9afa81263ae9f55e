//! What starts a worker of each kind of app: the interpreter, the adapter's program, the variables it needs.

mod environment;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use keepwarm_config::{App, AppKind, Program, PumaConfig};

use crate::adapter;

/// The command and the variables that start a worker.
pub(crate) struct StartCommand {
    pub(crate) command: Vec<OsString>,
    /// On top of the app's own variables.
    pub(crate) env: Vec<(OsString, OsString)>,
}

/// How a worker of this app is started.
///
/// # Errors
/// The adapter could not be put in its place.
pub(crate) fn start(app: &App) -> io::Result<StartCommand> {
    match app.kind {
        None | Some(AppKind::Wsgi | AppKind::Asgi) => python(app),
        Some(AppKind::Rack) => ruby(app),
        Some(AppKind::Php) => php(app),
        Some(AppKind::FastCgi) => crate::fastcgi::start(app, crate::assemble::most(app)),
        // A program that serves by itself.
        Some(AppKind::Http) => {
            Ok(StartCommand { command: own_command(app).unwrap_or_default(), env: Vec::new() })
        }
    }
}

fn python(app: &App) -> io::Result<StartCommand> {
    let adapter = adapter::PYTHON.folder()?.join("src");
    let others = app.env.get("PYTHONPATH").map(OsString::from).or_else(|| std::env::var_os("PYTHONPATH"));
    let env = vec![("PYTHONPATH".into(), path_before(&adapter, others))];
    if let Some(command) = own_command(app) {
        return Ok(StartCommand { command, env });
    }
    let mut command = vec![interpreter(app).into_os_string()];
    command.extend(app.options.iter().map(OsString::from));
    command.extend(["-m", "keepwarm"].map(OsString::from));
    if let Program::Entry(entry) = &app.program {
        command.push(entry.into());
    }
    if app.preload {
        command.push("--preload".into());
    }
    if let Some(kind) = app.kind {
        command.extend(["--kind", kind.word()].map(OsString::from));
    }
    if app.threads > 1 {
        command.extend(["--threads".into(), app.threads.to_string().into()]);
    }
    if let Some(concurrency) = app.concurrency {
        command.extend(["--streams".into(), concurrency.to_string().into()]);
    }
    for (option, word) in [("--loop", app.event_loop), ("--lifespan", app.lifespan)] {
        command.extend(word.into_iter().flat_map(|word| [option, word]).map(OsString::from));
    }
    Ok(StartCommand { command, env })
}

/// The worker's program finds the bundle of an app with a Gemfile by itself (see `adapters/ruby/exe/keepwarm-worker`).
fn ruby(app: &App) -> io::Result<StartCommand> {
    if let Some(command) = own_command(app) {
        return Ok(StartCommand { command, env: Vec::new() });
    }
    let mut command = vec![interpreter(app).into_os_string()];
    command.extend(app.options.iter().map(OsString::from));
    command.push(adapter::RUBY.folder()?.join("exe/keepwarm-worker").into_os_string());
    if let Program::Entry(entry) = &app.program {
        command.push(entry.into());
    }
    if app.preload {
        command.push("--preload".into());
    }
    if app.threads > 1 {
        command.extend(["--threads".into(), app.threads.to_string().into()]);
    }
    if let PumaConfig::File(file) = &app.puma_config {
        command.extend(["--puma".into(), std::path::absolute(file)?.into_os_string()]);
    }
    Ok(StartCommand { command, env: Vec::new() })
}

/// The functions of the web that do nothing in the command line's PHP: once disabled, the adapter can define them
/// (`adapters/php/src/Web.php` has the same list).
const PHP_FUNCTIONS: &str = "header,header_remove,headers_list,headers_sent,header_register_callback,http_response_code,setcookie,\
    setrawcookie,is_uploaded_file,move_uploaded_file,flush,connection_status,connection_aborted,ob_get_level,ob_end_clean,\
    ob_end_flush,ob_get_clean,ini_set,session_name,filter_input,filter_has_var,filter_input_array,register_shutdown_function,session_write_close,\
    libxml_disable_entity_loader,set_include_path,iconv_set_encoding";

fn php(app: &App) -> io::Result<StartCommand> {
    let adapter = adapter::PHP.folder()?;
    // The adapter's report of leaked state costs milliseconds a request: it is for development.
    let env = match app.watch.is_empty() {
        true => Vec::new(),
        false => vec![("KEEPWARM_WATCH".into(), "1".into())],
    };
    if let Some(command) = own_command(app) {
        return Ok(StartCommand { command, env });
    }
    let mut command = vec![interpreter(app).into_os_string()];
    let functions = format!("disable_functions={PHP_FUNCTIONS}");
    command.extend(["-d", "opcache.enable_cli=1", "-d", functions.as_str()].map(OsString::from));
    command.extend(app.options.iter().map(|option| with_adapter(option, &adapter)));
    command.push(adapter.join("bin/worker.php").into_os_string());
    if let Program::Entry(entry) = &app.program {
        command.push(entry.into());
    }
    Ok(StartCommand { command, env })
}

/// An `open_basedir` allows the adapter's own files too: no worker could start otherwise.
fn with_adapter(option: &str, adapter: &Path) -> OsString {
    let mut option = OsString::from(option);
    let setting = option.to_str().map_or("", |text| text.strip_prefix("-d").unwrap_or(text).trim_start());
    if setting.strip_prefix("open_basedir=").is_some_and(|folders| !folders.is_empty()) {
        option.push(":");
        option.push(adapter);
    }
    option
}

/// That of a program that needs no adapter of ours to be started with.
fn own_command(app: &App) -> Option<Vec<OsString>> {
    match &app.program {
        Program::Command(command) => Some(command.iter().map(OsString::from).collect()),
        Program::Entry(_) => None,
    }
}

fn path_before(first: &Path, rest: Option<OsString>) -> OsString {
    let mut path = first.as_os_str().to_owned();
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

/// The program that an app of its kind is run by: as configured, else what the language's rules find.
pub(crate) fn interpreter(app: &App) -> PathBuf {
    let Some(interpreter) = &app.interpreter else { return default_interpreter(app) };
    // A path is relative to the configuration, as every other; a worker starts in the app's directory. A name is looked up in PATH.
    match interpreter.components().nth(1) {
        Some(_) => std::path::absolute(interpreter).unwrap_or_else(|_| interpreter.clone()),
        None => interpreter.clone(),
    }
}

fn default_interpreter(app: &App) -> PathBuf {
    match app.kind {
        Some(AppKind::Rack) => "ruby".into(),
        Some(AppKind::Php) => "php".into(),
        Some(AppKind::FastCgi) => crate::fastcgi::default_server(app),
        None | Some(AppKind::Wsgi | AppKind::Asgi | AppKind::Http) => environment::python(app),
    }
}

/// What an app's program is run by, as a person looks for it: the file that a name stands for, and the environment that was meant and is gone.
///
/// `None`: the configuration names a command, or a server that runs already.
pub(crate) fn describe_interpreter(app: &App) -> Option<String> {
    if app.address.is_some() || !matches!(app.program, Program::Entry(_)) {
        return None;
    }
    let program = interpreter(app);
    let path = app.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    let found = match program.components().nth(1) {
        Some(_) => None,
        // A name is looked up where the worker will.
        None => path
            .iter()
            .flat_map(std::env::split_paths)
            .map(|folder| folder.join(&program))
            .find(|file| file.is_file()),
    };
    let shown = found.as_deref().unwrap_or(&program).display();
    Some(match missing_environment(app) {
        Some(folder) => format!("{shown}, because VIRTUAL_ENV={} has no bin/python", folder.display()),
        None => shown.to_string(),
    })
}

/// The virtual environment that is active by `VIRTUAL_ENV` and is not there, where the app would be run by it.
pub(crate) fn missing_environment(app: &App) -> Option<PathBuf> {
    let by_rule =
        app.interpreter.is_none() && app.address.is_none() && matches!(app.program, Program::Entry(_));
    let is_python = matches!(app.kind, None | Some(AppKind::Wsgi | AppKind::Asgi));
    environment::active().filter(|folder| by_rule && is_python && !folder.join("bin/python").exists())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PHP_FUNCTIONS, with_adapter};

    #[test]
    fn an_open_basedir_allows_the_adapters_files() {
        for (option, expected) in [
            ("open_basedir=/site:/tmp", "open_basedir=/site:/tmp:/adapter"),
            ("-dopen_basedir=/site", "-dopen_basedir=/site:/adapter"),
            ("-d open_basedir=/site", "-d open_basedir=/site:/adapter"),
            ("open_basedir=", "open_basedir="),
            ("memory_limit=1G", "memory_limit=1G"),
            ("-d", "-d"),
        ] {
            assert_eq!(with_adapter(option, Path::new("/adapter")), expected);
        }
    }

    #[test]
    fn the_functions_of_the_web_are_those_that_the_adapter_defines() {
        let source = include_str!("../../../adapters/php/src/Web.php");
        let list = source.split_once("FUNCTIONS = [").unwrap().1.split_once("];").unwrap().0;
        let names: Vec<&str> = list.split('\'').skip(1).step_by(2).collect();
        assert_eq!(PHP_FUNCTIONS.split(',').collect::<Vec<_>>(), names);
    }
}
