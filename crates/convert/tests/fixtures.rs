//! Every fixture gives what its golden files have. `UPDATE_GOLDEN=1` rewrites them.
//!
//! A fixture is a directory TOOL/NAME with the configuration as its tool has it. `input` names the files to give, one a
//! line, and options; without it, all files are given. `keepwarm.toml` and `report.txt`, or `error.txt`, are golden.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

use keepwarm_convert::{Files, Request, Tool, convert};

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut all = Vec::new();
    for tool in fs::read_dir(root).unwrap() {
        all.extend(fs::read_dir(tool.unwrap().path()).unwrap().map(|fixture| fixture.unwrap().path()));
    }
    all.sort();
    all
}

/// The request of a fixture.
fn request(directory: &Path) -> Request {
    let mut request =
        Request { files: Files { root: None, base: directory.to_owned() }, ..Request::default() };
    let Ok(input) = fs::read_to_string(directory.join("input")) else {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| {
            !["keepwarm.toml", "report.txt", "error.txt", ".env"].contains(&name.as_str())
                && directory.join(name).is_file()
        });
        names.sort();
        request.inputs = names.into_iter().map(PathBuf::from).collect();
        return request;
    };
    for line in input.lines() {
        match line.split_once(' ') {
            Some(("--from", tool)) => request.from = Some(Tool::named(tool).unwrap()),
            Some(("--root", root)) => request.files.root = Some(directory.join(root)),
            Some(("--", command)) => request.command = command.split(' ').map(str::to_owned).collect(),
            _ => request.inputs.push(PathBuf::from(line)),
        }
    }
    request
}

#[test]
fn fixtures_give_their_golden_files() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut faults = Vec::new();
    for directory in fixtures() {
        let (golden, stale) = match convert(&request(&directory)) {
            Ok(conversion) => {
                let grave = if conversion.report.is_grave() { "exit status 1\n" } else { "exit status 0\n" };
                let report = format!("{}{grave}", conversion.report.text(true));
                (vec![("keepwarm.toml", conversion.toml), ("report.txt", report)], vec!["error.txt"])
            }
            Err(error) => (vec![("error.txt", format!("{error}\n"))], vec!["keepwarm.toml", "report.txt"]),
        };
        for (name, text) in golden {
            let path = directory.join(name);
            if update {
                fs::write(path, text).unwrap();
            } else if fs::read_to_string(&path).unwrap_or_default() != text {
                faults.push(format!("{} differs; it is now:\n{text}", path.display()));
            }
        }
        for name in stale.iter().map(|name| directory.join(name)).filter(|path| path.exists()) {
            match update {
                true => fs::remove_file(name).unwrap(),
                false => faults.push(format!("{} is not expected any more", name.display())),
            }
        }
    }
    assert!(faults.is_empty(), "{}\nUPDATE_GOLDEN=1 rewrites the files", faults.join("\n"));
}

/// A directive is lost silently if it is in none of the lists.
#[test]
fn every_directive_is_reported() {
    let mut count = 0;
    for directory in fixtures() {
        let Ok(conversion) = convert(&request(&directory)) else { continue };
        let text = conversion.report.text(true);
        for entry in conversion.report.entries() {
            let line = format!("  {}:{}: {}", entry.file, entry.line, entry.text);
            assert!(text.contains(&line), "{}: {line}", directory.display());
            count += 1;
        }
    }
    assert!(count > 500, "{count} directives");
}

#[test]
fn there_are_sixty_fixtures() {
    assert!(fixtures().len() >= 60, "{}", fixtures().len());
}
