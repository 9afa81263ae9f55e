//! Lists the adapters' files and the pages about findings, so that the binary can carry them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Each adapter: its directory, the parts of it that a worker needs, and the extension of those files.
const ADAPTERS: [(&str, &[&str], &str); 3] =
    [("python", &["src"], "py"), ("php", &["bin", "src"], "php"), ("ruby", &["exe", "lib"], "rb")];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let adapters = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../adapters").canonicalize()?;
    println!("cargo::rerun-if-changed={}", adapters.display());
    for (language, folders, ending) in ADAPTERS {
        let root = adapters.join(language);
        let mut files = Vec::new();
        for folder in folders {
            let folder = root.join(folder);
            if folder.is_dir() {
                println!("cargo::rerun-if-changed={}", folder.display());
                collect(&folder, ending, &mut files)?;
            }
        }
        list(&root, files, &format!("{language}_adapter.rs"))?;
    }
    let findings = adapters.join("../docs/findings").canonicalize()?;
    println!("cargo::rerun-if-changed={}", findings.display());
    let mut pages = Vec::new();
    collect(&findings, "md", &mut pages)?;
    list(&findings, pages, "findings.rs")
}

/// Writes a list of the names and contents of these files beneath a directory.
fn list(root: &Path, mut files: Vec<PathBuf>, into: &str) -> Result<(), Box<dyn std::error::Error>> {
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(root)?.to_str().ok_or("a name that is not UTF-8")?;
        writeln!(list, "    ({name:?}, include_str!({:?})),", file.display().to_string())?;
    }
    list.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join(into), list)?;
    Ok(())
}

/// The source files beneath a directory; a program has no extension (`exe/keepwarm-worker`).
fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, ending, files)?;
        } else if path.extension().is_none_or(|found| found == ending) {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
