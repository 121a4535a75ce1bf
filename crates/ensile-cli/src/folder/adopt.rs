//! `ensile adopt` gives a copied folder a new identity.
//!
//! Neighbours: [`ensile::folder`] adopts; this module prints the outcome.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ensile::folder::{self, AdoptOptions};

use super::output::{CommandEnd, show, unless_failed};

/// `ensile adopt`.
#[derive(Debug, Args)]
pub(crate) struct AdoptArguments {
    /// Folder of a database or of objects
    folder: PathBuf,
    /// Give up results that an unclosed process-safe process had returned and that a copy does not prove: entries in
    /// mapped buffers, and log entries behind the last marks. Without this option such a folder is not adopted, and the
    /// error names the loss
    #[arg(long)]
    without_buffers: bool,
}

pub(crate) fn adopt(AdoptArguments { folder, without_buffers }: &AdoptArguments) -> CommandEnd {
    let options = AdoptOptions { without_buffers: *without_buffers };
    let adopted = unless_failed(folder, folder::adopt_with(folder, options))?;
    show(&format!(
        "{}: is now database {}, a copy of {}\n",
        folder.display(),
        adopted.database,
        adopted.parent
    ));
    if adopted.taken_entries > 0 {
        show(&format!(
            "it was the folder that a process-safe life left: {} entries of its mapped buffers are in the log now\n",
            adopted.taken_entries
        ));
    }
    match adopted.not_proven {
        Some(left) if left.is_taken() => show(&format!("not proven: {left}\n")),
        // The user has agreed to the loss, so the line leaves the remedy out.
        Some(left) => show(&format!("given up: {}\n", left.loss())),
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}
