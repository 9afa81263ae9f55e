//! Where things are: the binary under test, the interpreter, the test applications.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `keepwarm` binary under test: `KEEPWARM_BIN`, or the workspace's own, built once per test process with the profile of the tests.
pub fn keepwarm() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("KEEPWARM_BIN") {
        Some(path) => PathBuf::from(path),
        None => build("keepwarm", &[]),
    })
}

/// The same program with faults on request, `KEEPWARM_FAULTY_BIN` or built: one crate compiled once more, with the feature `fault-injection`, beside the other. All it depends on is what the other depends on.
pub fn keepwarm_faulty() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("KEEPWARM_FAULTY_BIN") {
        Some(path) => PathBuf::from(path),
        None => build("keepwarm-faulty", &["--features", "fault-injection"]),
    })
}

/// The Python of the examples' virtual environment, or the one on PATH when there is none. `KEEPWARM_PYTHON` names another.
pub fn python() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("KEEPWARM_PYTHON") {
            return PathBuf::from(path);
        }
        let venv = root().join(".venv/bin/python");
        if venv.exists() { venv } else { PathBuf::from("python3") }
    })
}

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a member of a workspace")
}

/// The directory of the test applications (standard library only).
pub fn apps() -> PathBuf {
    root().join("tests/apps")
}

/// The directory of the example applications (from PyPI).
pub fn examples() -> PathBuf {
    root().join("examples")
}

/// Builds the binary beside this test (`target/PROFILE/deps/suite-hash` -> `target/PROFILE/keepwarm`), so that a test never meets a stale one.
fn build(name: &str, features: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let target = profile.parent().expect("target/PROFILE");
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    cargo
        .args(["build", "--quiet", "--locked", "-p", "keepwarm", "--bin", name])
        .args(features)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "cargo build -p keepwarm failed");
    profile.join(name)
}
