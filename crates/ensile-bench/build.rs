//! Tells the crate which commit it is built of, as `ENSILE_COMMIT`: figures say of which build they are.
//!
//! Where git is not there, or this is no checkout of Ensile, the commit is `unknown`; nothing fails.
//!
//! Neighbours: `machine` writes it into every result.

use std::path::Path;
use std::process::Command;

/// What a build is made of, as seen from the root of the checkout.
const SOURCES: [&str; 4] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "crates"];
/// What of git's changes when another commit is checked out or made.
const STATE: [&str; 2] = ["HEAD", "logs/HEAD"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new("../..");
    println!("cargo::rustc-env=ENSILE_COMMIT={}", commit(root).unwrap_or_else(|| "unknown".to_owned()));
    // What is committed and what is not depends on every source.
    let own = STATE.iter().filter_map(|name| git(root, &["rev-parse", "--git-path", name]));
    for path in own.chain(SOURCES.map(str::to_owned)).map(|path| root.join(path)) {
        // Cargo would run this each time for a path that is not there.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// The commit that is checked out, `+changes` behind it if a source differs from it.
fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    // In a checkout of something else that has a copy of Ensile its commit would say nothing.
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(SOURCES);
    let changes = if git(root, &status)?.is_empty() { "" } else { "+changes" };
    Some(commit + changes)
}

/// What git says, if it can.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
