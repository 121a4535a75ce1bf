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
mod arguments;
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
use ensile::folder;
use serde_json::{Value, json};

pub(crate) use arguments::VerifyArguments;
pub(crate) use backup_facts::NO_BACKUP;
use backup_facts::{Reach, reach, reach_json, reach_line};
use changes::HELP as CHANGES;
pub(crate) use details::detail_lines;
use details::table_lines;
pub(crate) use figures::MEGABYTE;
pub(crate) use json::examination;
use json::table;
pub(crate) use lease::passed_on;
use output::not_made;
pub(crate) use output::{DAMAGED, exit_code, report_failure, show};
pub(crate) use verdict::{after_repair, not_proven, refusal_lines, verdict, what_to_do};

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
pub(crate) fn verify(arguments: &VerifyArguments) -> ExitCode {
    let folder = &arguments.folder;
    if folder::is_archive(folder) {
        return archive::print(folder, folder::verify_archive(folder), arguments.json);
    }
    let found = match folder::verify(folder) {
        Ok(found) => found,
        Err(error) => return report_failure(folder, &error.to_string()),
    };
    if arguments.json {
        show(&format!("{:#}\n", json!({ "folder": folder, "examination": examination(&found) })));
    } else {
        show(&verdict(folder, &found, Some(arguments)));
    }
    if found.is_whole() || !arguments.repair {
        return exit_code(&found);
    }
    match folder::repair_with(folder, arguments.options()) {
        Ok(Some(done)) => {
            show(&after_repair(folder, &done, "the database is as it was"));
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => report_failure(folder, &error.to_string()),
    }
}

/// Explains files, epochs and tables.
pub(crate) fn inspect(arguments: &InspectArguments) -> ExitCode {
    let InspectArguments { folder, archive, .. } = arguments;
    if folder::is_archive(folder) && !arguments.changes {
        if archive.is_some() {
            return report_failure(folder, NO_BACKUP);
        }
        return archive::print(folder, folder::inspect_archive(folder), arguments.json);
    }
    if arguments.changes {
        return changes::print(folder);
    }
    let (found, tables) = match folder::inspect(folder) {
        Ok(found) => found,
        Err(error) => return report_failure(folder, &error.to_string()),
    };
    let reach = match reach(folder, &found, archive.as_deref()) {
        Ok(reach) => reach,
        Err(code) => return code,
    };
    if arguments.json {
        let tables: Vec<Value> = tables.iter().map(table).collect();
        let unknown = if let Reach::Unknown(why) = &reach { Some(why.to_string()) } else { None };
        show(&format!(
            "{:#}\n",
            json!({
                "folder": folder, "examination": examination(&found), "tables": tables,
                "restorable_epochs": reach_json(&reach), "restorable_unknown": unknown,
            })
        ));
    } else {
        let line = reach_line(&reach, archive.as_deref());
        let verdict = verdict(folder, &found, None);
        show(&(detail_lines(&found, &tables) + &table_lines(&tables) + &verdict + &line));
    }
    match (&reach, archive) {
        // With `--archive` the epochs are the result that the user asked for, so an unknown result is an error.
        (Reach::Unknown(why), Some(archive)) => not_made(archive, why),
        _ => exit_code(&found),
    }
}
