//! `keepwarm convert`: files in, keepwarm.toml and a report out.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use keepwarm_convert::{Files, Request, Tool, Verification, convert as converted, verify};

use crate::cli::Convert;
use crate::{complain, exit, print, print_error};

/// Something was dropped that is, or may be, an access rule, a limit, a rewrite or a certificate.
const DROPPED: u8 = 1;

pub(crate) fn convert(options: &Convert) -> ExitCode {
    let result = match options.verify.as_slice() {
        [old, new] => compare(options, old, new),
        _ => run(options),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::USAGE)
        }
    }
}

fn run(options: &Convert) -> Result<ExitCode, String> {
    let conversion = converted(&request(options)?).map_err(|error| format!("nothing converted: {error}"))?;
    match &options.out {
        Some(path) => write_new(path, &conversion.toml)?,
        None => _ = print(&conversion.toml),
    }
    print_error(conversion.report.text(options.verbose).trim_end());
    if let Some(path) = &options.out {
        print_error(&format!(
            "\nwritten to {0}; check it: keepwarm run --config {0} --dry-run",
            path.display()
        ));
    }
    Ok(if conversion.report.is_grave() { ExitCode::from(DROPPED) } else { ExitCode::SUCCESS })
}

/// The same GETs to two servers.
fn compare(options: &Convert, old: &str, new: &str) -> Result<ExitCode, String> {
    let log = match &options.log {
        None => None,
        Some(path) => {
            let text =
                std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
            Some(String::from_utf8_lossy(&text).into_owned())
        }
    };
    let verification = Verification {
        old: old.to_owned(),
        new: new.to_owned(),
        host: options.host.clone(),
        log,
        max: options.max,
    };
    let differences = verify(&verification).map_err(|error| format!("not verified: {error}"))?;
    print(differences.text().trim_end());
    Ok(if differences.found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DROPPED) })
}

fn request(options: &Convert) -> Result<Request, String> {
    let from = match &options.from {
        None => None,
        Some(name) => Some(Tool::named(name).ok_or_else(|| {
            let names: Vec<&str> = Tool::ALL.iter().map(|(name, _)| *name).collect();
            format!("--from {name}: unknown tool; expected one of {}", names.join(", "))
        })?),
    };
    let base =
        std::env::current_dir().map_err(|error| format!("the working directory cannot be found: {error}"))?;
    let root = match &options.root {
        None => None,
        Some(root) => {
            let fault = |error| format!("--root {}: {error}", root.display());
            Some(root.canonicalize().map_err(fault)?)
        }
    };
    Ok(Request {
        inputs: options.files.clone(),
        from,
        command: options.command.clone(),
        files: Files { root, base },
    })
}

/// An existing file is never overwritten.
fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let fault = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!(
                "{} exists and was not overwritten; remove it, or write to another file with --out",
                path.display()
            )
        }
        _ => format!("{} cannot be written: {error}", path.display()),
    };
    File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(fault)
}
