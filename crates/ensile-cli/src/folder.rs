//! `ensile verify` and `ensile inspect` of a database's folder. `objects` validates and repairs folders of objects.
//!
//! Exit codes: 0 whole (torn tails are reported, and are no part of the data), 1 damaged, 2 if damage cannot be told,
//! because something cannot be read.
//!
//! Neighbours: [`ensile::folder`] examines and repairs; this module prints the outcome by `verdict`, `details` and
//! `json`; `changes` prints the log; the other commands of folders have modules of their own; `objects` uses the same
//! texts.

pub(crate) mod adopt;
pub(crate) mod archive;
pub(crate) mod backup;
mod backup_facts;
mod changes;
mod copy_progress;
mod details;
pub(crate) mod figures;
mod json;
pub(crate) mod lease;
pub(crate) mod output;
pub(crate) mod take_over;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ensile::folder::{self, RepairOptions};
use serde_json::{Value, json};

pub(crate) use backup_facts::NO_BACKUP;
use backup_facts::{Reach, reach, reach_json, reach_line};
use changes::HELP as CHANGES;
pub(crate) use details::detail_lines;
use details::table_lines;
pub(crate) use figures::MEGABYTE;
pub(crate) use json::examination;
use json::table;
pub(crate) use lease::{passed_on, run_program};
use output::not_made;
pub(crate) use output::{
    CommandEnd, DAMAGED, exit_code, of_objects, report_failure, show, show_json, unless_failed,
};
pub(crate) use verdict::{after_repair, not_proven, refusal_lines, verdict, what_to_do};

/// `ensile verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Folder of a database, of objects or of an archive
    pub(crate) folder: PathBuf,
    /// Cut damaged data back to the last consistent epoch; a folder `repaired-<n>` keeps a copy of the removed data
    #[arg(long)]
    pub(crate) repair: bool,
    /// Give up the contents of missing log folders; without this option a missing folder counts as a device that is not
    /// mounted
    #[arg(long, requires = "repair")]
    without_missing_folders: bool,
    /// Give up the whole log if no cut of the log helps, and keep the installed picture alone: the state at the end of
    /// the picture's epoch
    #[arg(long, requires = "repair")]
    picture_alone: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

impl VerifyArguments {
    /// Data that a repair may give up.
    pub(crate) fn options(&self) -> RepairOptions {
        let Self { without_missing_folders, picture_alone, .. } = *self;
        RepairOptions { without_missing_folders, picture_alone }
    }
}

/// `ensile inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// Folder of a database, of objects or of an archive
    pub(crate) folder: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the durable changes in the log instead, one JSON object a line, in the order of the TIDs
    #[arg(long, conflicts_with = "json", long_help = CHANGES)]
    pub(crate) changes: bool,
    /// Folder of the archive of a backup's database: print also the epochs that the archive can bring the backup to
    #[arg(long, conflicts_with = "changes")]
    pub(crate) archive: Option<PathBuf>,
}

/// Reads every byte and reports damage; repairs the folder on request.
pub(crate) fn verify(arguments: &VerifyArguments) -> CommandEnd {
    let folder = &arguments.folder;
    if folder::is_archive(folder) {
        return archive::print(folder, folder::verify_archive(folder), arguments.json);
    }
    let found = unless_failed(folder, folder::verify(folder))?;
    if arguments.json {
        show_json(&json!({ "folder": folder, "examination": examination(&found) }));
    } else {
        show(&verdict(folder, &found, Some(arguments)));
    }
    if found.is_whole() || !arguments.repair {
        return Ok(exit_code(&found));
    }
    if let Some(done) = unless_failed(folder, folder::repair_with(folder, arguments.options()))? {
        show(&after_repair(folder, &done, "the database is as it was"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Explains files, epochs and tables.
pub(crate) fn inspect(arguments: &InspectArguments) -> CommandEnd {
    let InspectArguments { folder, archive, .. } = arguments;
    if folder::is_archive(folder) && !arguments.changes {
        if archive.is_some() {
            return Err(report_failure(folder, NO_BACKUP));
        }
        return archive::print(folder, folder::inspect_archive(folder), arguments.json);
    }
    if arguments.changes {
        return changes::print(folder);
    }
    let (found, tables) = unless_failed(folder, folder::inspect(folder))?;
    let reach = reach(folder, &found, archive.as_deref())?;
    if arguments.json {
        let tables: Vec<Value> = tables.iter().map(table).collect();
        let unknown = if let Reach::Unknown(why) = &reach { Some(why.to_string()) } else { None };
        show_json(&json!({
            "folder": folder, "examination": examination(&found), "tables": tables,
            "restorable_epochs": reach_json(&reach), "restorable_unknown": unknown,
        }));
    } else {
        let line = reach_line(&reach, archive.as_deref());
        let verdict = verdict(folder, &found, None);
        show(&(detail_lines(&found, &tables) + &table_lines(&tables) + &verdict + &line));
    }
    match (&reach, archive) {
        // With `--archive` the epochs are the result that the user asked for, so an unknown result is an error.
        (Reach::Unknown(why), Some(archive)) => Err(not_made(archive, why)),
        _ => Ok(exit_code(&found)),
    }
}
