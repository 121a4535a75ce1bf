//! `ensile lease` runs a command that reads the files of a database. A lease keeps the files from removal meanwhile.
//!
//! The lease belongs to the `ensile` process and ends with the process. The command does not inherit the lease.
//!
//! Neighbours: [`ensile::folder::lease`] takes the lease.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use clap::Args;
use ensile::folder;

use super::output::{CommandEnd, report_failure, unless_failed};

/// Exit code if the command succeeded but the database removed files during the command.
const OVERRUN: u8 = 3;

/// `ensile lease`.
#[derive(Debug, Args)]
pub(crate) struct LeaseArguments {
    /// The database's folder
    folder: PathBuf,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the command under a lease.
pub(crate) fn run(LeaseArguments { folder, command }: &LeaseArguments) -> CommandEnd {
    let lease = unless_failed(folder, folder::lease(folder))?;
    let Some((program, rest)) = command.split_first() else {
        return Err(report_failure(folder, "no command was given"));
    };
    let status = run_program(folder, Command::new(program).args(rest))?;
    if unless_failed(folder, lease.has_all_names())? {
        return Ok(passed_on(status));
    }
    let why = "files were removed while the command ran, as it took too long or the database was opened or closed: run it again";
    report_failure(folder, why);
    Ok(if status.success() { ExitCode::from(OVERRUN) } else { passed_on(status) })
}

/// Runs a program to its end.
///
/// # Errors
/// The exit code, if the program cannot be run. The error is already printed.
pub(crate) fn run_program(folder: &Path, command: &mut Command) -> Result<ExitStatus, ExitCode> {
    let status = command.status();
    let program = Path::new(command.get_program()).display();
    unless_failed(folder, status.map_err(|error| format!("{program} cannot be run: {error}")))
}

/// The exit code of the command. If a signal ended the command, 128 plus the signal's number, as in a shell.
pub(crate) fn passed_on(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
