//! `ensile hash-password`: the hash of a password, for a `user` line.
//!
//! Neighbours: `ensile-server` hashes; [`super::settings`] reads the lines.

use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;

use ensile_server::hash_password;

use super::tell;
use crate::folder::output::FAILED;

/// Prints the hash of the first line of standard input.
pub(crate) fn print_hash() -> ExitCode {
    let mut line = Vec::new();
    let read = io::stdin().lock().read_until(b'\n', &mut line).map_err(|error| error.to_string());
    let hashed = read.and_then(|_| hash_password(line.trim_ascii_end()));
    match hashed.and_then(|hash| writeln!(io::stdout(), "{hash}").map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tell(&why);
            ExitCode::from(FAILED)
        }
    }
}
