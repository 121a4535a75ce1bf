//! House-keeping for the workspace: `cargo xtask tidy` holds the tree to the rules of `docs/internals/checks.md`,
//! `cargo xtask planted` plants the bugs of `planted/`, and `cargo xtask install-c` installs the library for C and C++.
//!
//! The checks read the sources as text and tokens, so the checks run in a moment and need no other crate to compile.
//!
//! Neighbours: `.ci/run` runs the command; xtask depends on no crate of the workspace, and no crate depends on xtask.
#![forbid(unsafe_code)]

mod files;
mod install;
mod lexer;
mod planted;
mod source;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["tidy"] => tidy(None),
        ["tidy", rule] => tidy(Some(rule)),
        ["planted", ref arguments @ ..] => plant(arguments),
        ["install-c", prefix] => install_c(prefix),
        _ => {
            eprintln!(
                "usage: cargo xtask tidy [RULE]\n{}\n       cargo xtask install-c PREFIX",
                planted::USAGE
            );
            ExitCode::from(2)
        }
    }
}

fn tidy(only: Option<&str>) -> ExitCode {
    match tidy::run(&workspace_root(), only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidy could not look at the tree: {error}");
            ExitCode::from(2)
        }
    }
}

fn plant(arguments: &[&str]) -> ExitCode {
    match planted::command(&workspace_root(), arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("planted: {error}");
            ExitCode::from(2)
        }
    }
}

fn install_c(prefix: &str) -> ExitCode {
    match install::install_c(&workspace_root(), Path::new(prefix)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("not installed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder above this package if cargo runs xtask, or the current folder.
fn workspace_root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|folder| PathBuf::from(folder).parent().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("."))
}
