//! Lists the Python adapter's files, so that the binary can carry them.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let adapter = Path::new(&env::var("CARGO_MANIFEST_DIR")?)
        .join("../../adapters/python/src/keepwarm")
        .canonicalize()?;
    println!("cargo::rerun-if-changed={}", adapter.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&adapter)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            println!("cargo::rerun-if-changed={}", path.display());
            names.push(path);
        }
    }
    names.sort();
    let mut list = String::from("&[\n");
    for path in &names {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name that is not UTF-8")?;
        writeln!(list, "    ({name:?}, include_str!({:?})),", path.display().to_string())?;
    }
    list.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("python_adapter.rs"), list)?;
    Ok(())
}
