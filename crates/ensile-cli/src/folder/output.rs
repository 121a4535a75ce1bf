//! Output of the commands: standard output, the line of a failure, and exit codes.
//!
//! Neighbours: every command of [`super`] and of `objects` prints here.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use ensile::Error;
use ensile::folder::Examination;
use ensile_durability::DurabilityError;
use ensile_objects::ObjectsError;
use serde_json::Value;

/// Exit code of a command. The error is the code after a failure that is already printed.
pub(crate) type CommandEnd = Result<ExitCode, ExitCode>;

/// Exit code if something is damaged.
pub(crate) const DAMAGED: u8 = 1;
/// Exit code if the command cannot decide on damage, or has done nothing.
pub(crate) const FAILED: u8 = 2;
/// Exit code of a finished copy or take-over that lacks durable or returned results (N21, B4).
pub(crate) const LACKS_RESULTS: u8 = 3;

pub(crate) fn exit_code(found: &Examination) -> ExitCode {
    if found.is_whole() {
        ExitCode::SUCCESS
    } else if found.damage.is_empty() {
        ExitCode::from(FAILED)
    } else {
        ExitCode::from(DAMAGED)
    }
}

/// Writes to standard output. A closed pipe is no failure, because its reader has seen enough. Any other failure goes
/// to standard error, and changes no exit code.
pub(crate) fn show(text: &str) {
    let mut out = io::stdout().lock();
    let shown = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = shown
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("ensile: standard output: {error}");
    }
}

pub(crate) fn show_json(document: &Value) {
    show(&format!("{document:#}\n"));
}

/// Turns an error of objects into an error of a database.
pub(crate) fn of_objects(error: ObjectsError) -> Error {
    match error {
        ObjectsError::Storage(error) => Error::Storage(error),
        error => Error::Misuse(error.to_string()),
    }
}

/// The value. An error is printed.
pub(crate) fn unless_failed<T>(folder: &Path, outcome: Result<T, impl Display>) -> Result<T, ExitCode> {
    outcome.map_err(|error| report_failure(folder, &error.to_string()))
}

pub(crate) fn report_failure(folder: &Path, why: &str) -> ExitCode {
    eprintln!("ensile: {}: {why}", folder.display());
    ExitCode::from(FAILED)
}

/// Prints the error. The exit code separates damage of the source from other reasons.
pub(crate) fn not_made(folder: &Path, error: &Error) -> ExitCode {
    let code = report_failure(folder, &error.to_string());
    match error {
        Error::Storage(why) if matches!(why.cause(), DurabilityError::Damaged { .. }) => {
            ExitCode::from(DAMAGED)
        }
        _ => code,
    }
}
