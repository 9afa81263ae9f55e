//! The program around the library.

use std::process::ExitCode;

use clap::Parser;
use keepwarm_simulation::{Options, simulate};

fn main() -> ExitCode {
    simulate(&Options::parse())
}
