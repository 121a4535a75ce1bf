//! `ensile lease`: a command that reads a database's files runs while they are kept from being removed.
//!
//! The lease is this process's: it ends with it, and the command does not inherit it.
//!
//! Neighbours: [`ensile::folder::lease`] holds it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use clap::Args;
use ensile::folder;

use super::failed;

/// Exit code where the command succeeded, and files that it may have read were removed meanwhile.
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
pub(crate) fn run(arguments: &LeaseArguments) -> ExitCode {
    let LeaseArguments { folder, command } = arguments;
    let lease = match folder::lease(folder) {
        Ok(lease) => lease,
        Err(error) => return failed(folder, &error.to_string()),
    };
    let Some((program, rest)) = command.split_first() else {
        return failed(folder, "no command was given");
    };
    let status = match Command::new(program).args(rest).status() {
        Ok(status) => status,
        Err(error) => return failed(folder, &format!("{} cannot be run: {error}", program.display())),
    };
    match lease.has_all_names() {
        Ok(true) => {}
        Ok(false) => {
            let why = "files were removed while the command ran, as it took too long or the database was opened or closed: run it again";
            failed(folder, why);
            return if status.success() { ExitCode::from(OVERRUN) } else { passed_on(status) };
        }
        Err(error) => return failed(folder, &error.to_string()),
    }
    passed_on(status)
}

/// The command's; of one that a signal ended what a shell says.
pub(crate) fn passed_on(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
