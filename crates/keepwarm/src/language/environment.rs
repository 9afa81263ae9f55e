//! Which Python runs an app that names none: that of the active virtual environment, of the app's own, or of the one that Keepwarm is installed in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use keepwarm_config::App;

/// `VIRTUAL_ENV`
pub(super) fn active() -> Option<PathBuf> {
    std::env::var_os("VIRTUAL_ENV").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The Python of an app without `interpreter`.
pub(super) fn python(app: &App) -> PathBuf {
    let active = active().map(|folder| folder.join("bin/python"));
    let local = app.directory.join(".venv/bin/python");
    match active {
        Some(active) if active.exists() => active,
        _ if local.exists() => std::path::absolute(&local).unwrap_or(local),
        _ => beside_program().unwrap_or_else(|| "python3".into()),
    }
}

/// The Python of the virtual environment that this program is installed in, as it is started: an installer may have made a link.
fn beside_program() -> Option<PathBuf> {
    let started = std::env::args_os().next().and_then(|name| path_of(&name));
    started.into_iter().chain(std::env::current_exe().ok()).find_map(|program| python_beside(&program))
}

/// Where a program is that was started by this name.
fn path_of(name: &OsStr) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().nth(1).is_some() {
        return Some(name.to_path_buf());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// `python` in the directory of a program, if that is the `bin` of a virtual environment.
///
/// Environments that `uv tool install` and `pipx install` make are left out: they are for the tool alone, and an app's packages are not there. Each tool
/// leaves a file in the environments that it makes. What `uvx --with PACKAGE` makes has none, and has the app's packages.
fn python_beside(program: &Path) -> Option<PathBuf> {
    let bin = std::path::absolute(program).ok()?.parent()?.to_path_buf();
    let environment = bin.parent()?;
    let is_of_tool =
        ["uv-receipt.toml", "pipx_metadata.json"].iter().any(|name| environment.join(name).exists());
    let python = bin.join("python");
    (environment.join("pyvenv.cfg").is_file() && !is_of_tool && python.exists()).then_some(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_beside_the_program_counts_in_a_virtual_environment() {
        let root = std::env::temp_dir().join(format!("keepwarm-environment-{}", std::process::id()));
        let (bin, program) = (root.join("bin"), root.join("bin/keepwarm"));
        std::fs::create_dir_all(&bin).unwrap();
        assert_eq!(python_beside(&program), None, "nothing is there");
        std::fs::write(bin.join("python"), "").unwrap();
        assert_eq!(python_beside(&program), None, "a directory of programs, such as /usr/bin");
        std::fs::write(root.join("pyvenv.cfg"), "").unwrap();
        assert_eq!(python_beside(&program), Some(bin.join("python")));
        for receipt in ["uv-receipt.toml", "pipx_metadata.json"] {
            std::fs::write(root.join(receipt), "").unwrap();
            assert_eq!(python_beside(&program), None, "{receipt}");
            std::fs::remove_file(root.join(receipt)).unwrap();
        }
        std::fs::remove_file(bin.join("python")).unwrap();
        assert_eq!(python_beside(&program), None, "an environment without its Python");
        std::fs::remove_dir_all(root).unwrap();
    }
}
