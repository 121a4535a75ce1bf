//! Sets `ENSILE_COMMIT` to the commit of the build. Every figure names the commit.
//!
//! Without git, or outside a checkout of Ensile, the commit is `unknown`, and the build succeeds.
//!
//! Neighbours: `machine` writes the commit into every result.

use std::path::Path;
use std::process::Command;

/// Sources of a build, relative to the root of the checkout.
const SOURCES: [&str; 4] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "crates"];
/// Files of git that change at a checkout or a commit.
const STATE: [&str; 2] = ["HEAD", "logs/HEAD"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new("../..");
    println!("cargo::rustc-env=ENSILE_COMMIT={}", commit(root).unwrap_or_else(|| "unknown".to_owned()));
    // The suffix `+changes` depends on every source.
    let own = STATE.iter().filter_map(|name| git(root, &["rev-parse", "--git-path", name]));
    for path in own.chain(SOURCES.map(str::to_owned)).map(|path| root.join(path)) {
        // Cargo would run the script at every build for a missing path.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// The current commit, with the suffix `+changes` if a source differs from the commit.
fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    // The commit of a foreign checkout that contains a copy of Ensile would be meaningless.
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(SOURCES);
    let changes = if git(root, &status)?.is_empty() { "" } else { "+changes" };
    Some(commit + changes)
}

/// Output of git, or `None` if git fails.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
