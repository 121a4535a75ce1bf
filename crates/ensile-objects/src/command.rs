//! A check of a folder as a command, for an application's own binary: only the application knows the types of its
//! objects.
//!
//! ```text
//! ensile objects check DIR --program PATH   runs   PATH DIR   which is one line: check_command::<K, T>(args)
//! ```
//! Exit codes: 0 for a sound folder, 1 for a fault, 2 if a folder could not be checked.
//!
//! Neighbours: `collection::check` and `application::check` replay; the `ensile` command runs the binary and passes its
//! verdict on.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::collection::Objects;
use crate::collection::check::FolderCheck;
use crate::collection::persistent::{ObjectKey, Persistent};
use crate::error::ObjectsResult;

/// Exit code for a fault.
const WRONG: u8 = 1;
/// Exit code if a folder could not be checked.
const UNTOLD: u8 = 2;

/// Replays recorded folders against this program, prints the outcome of every folder, and returns the exit code: 0 if
/// all folders are whole and both replays agree, 1 if a folder has a fault, 2 if a folder could not be checked. The
/// arguments are the folders, without the program's own name.
///
/// A whole program, for CI and for `ensile objects check DIR --program PATH`:
/// ```no_run
#[doc = include_str!("price.txt")]
/// fn main() -> std::process::ExitCode {
///     ensile_objects::check_command::<String, Price>(std::env::args_os().skip(1))
/// }
/// ```
pub fn check_command<K: ObjectKey, T: Persistent>(folders: impl IntoIterator<Item = OsString>) -> ExitCode {
    check_folders(folders, |folder| Objects::<K, T>::check(folder))
}

/// As [`check_command`], by a check of the program's own: [`ApplicationLog::check`](crate::ApplicationLog::check) for
/// an application that keeps its own objects.
pub fn check_folders(
    folders: impl IntoIterator<Item = OsString>,
    mut check: impl FnMut(&Path) -> ObjectsResult<FolderCheck>,
) -> ExitCode {
    let folders: Vec<PathBuf> = folders.into_iter().map(PathBuf::from).collect();
    if folders.is_empty() {
        say(&mut io::stderr(), "usage: PROGRAM FOLDER..: replays folders of objects against this program\n");
        return ExitCode::from(UNTOLD);
    }
    let mut worst = 0;
    for folder in folders {
        match check(&folder) {
            Ok(check) => {
                say(&mut io::stdout(), &format!("{}: {check}\n", folder.display()));
                worst = worst.max(u8::from(!check.is_whole()) * WRONG);
            }
            Err(error) => {
                say(&mut io::stderr(), &format!("{}: {error}\n", folder.display()));
                worst = UNTOLD;
            }
        }
    }
    ExitCode::from(worst)
}

/// Prints, and ignores errors: a closed output has no reader.
fn say(out: &mut dyn io::Write, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A line for the folder, and a line for every fault.
impl fmt::Display for FolderCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_whole() { "whole" } else { "NOT as it should be" };
        write!(out, "{state}; {} objects, replayed twice", self.objects)?;
        if let Some(left) = &self.examination.not_proven {
            write!(out, "\n  not proven: {left}")?;
        }
        for damage in &self.examination.damage {
            write!(out, "\n  {} at byte {}: {}", damage.file, damage.offset, damage.detail)?;
        }
        for unread in &self.examination.unread {
            write!(out, "\n  {}: it cannot be read", unread.detail)?;
        }
        for object in &self.poisoned {
            write!(out, "\n  object {object}: an operation on it panics")?;
        }
        if let Some((object, difference)) = &self.difference {
            write!(out, "\n  object {object}: {difference}")?;
        }
        if let Some(error) = &self.not_replayed {
            write!(out, "\n  {error}")?;
        }
        if let Some(why) = &self.not_written {
            write!(out, "\n  no checkpoint can be made of it: {why}")?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
