//! House-keeping for the workspace: `cargo xtask tidy` holds the tree to the rules that `CONTRIBUTING.md` states.
//!
//! A rule that no program checks is a wish. The checks read the sources as text and tokens, so they run in a moment
//! and need no other crate to compile.
//!
//! Neighbours: run by `.ci/run`; depends on no crate of the workspace, and none depends on it.
#![forbid(unsafe_code)]

mod lexer;
mod source;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = match arguments.as_slice() {
        [command] if command == "tidy" => None,
        [command, rule] if command == "tidy" => Some(rule.as_str()),
        _ => {
            eprintln!("usage: cargo xtask tidy [RULE]");
            return ExitCode::from(2);
        }
    };
    match tidy::run(&workspace_root(), only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidy could not look at the tree: {error}");
            ExitCode::from(2)
        }
    }
}

/// The folder above this package when cargo runs us, or the current one.
fn workspace_root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|folder| PathBuf::from(folder).parent().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("."))
}
