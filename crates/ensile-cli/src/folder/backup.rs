//! `ensile backup` and `ensile restore`: copies of a database that may be open, and new databases from the copies.
//!
//! Exit codes: 0 for a finished copy, 1 if the source is damaged, 2 if no copy was made. 3 for a finished copy that
//! lacks commits: commits that were durable when the copy began, although no earlier epoch was asked for, or commits
//! that a killed process-safe life had returned.
//!
//! Neighbours: [`ensile::folder`] copies and verifies; this module prints the outcome; `copy_progress` prints the
//! progress.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use ensile::folder::{self, CopyOptions, CopyReport};
use ensile::receipt::Epoch;
use ensile_objects::folder as objects;
use serde_json::json;

use super::copy_progress::with_progress;
use super::figures::{MEGABYTE, format_bytes, format_epoch_list};
use super::json::not_proven_json;
use super::output::{CommandEnd, LACKS_RESULTS, not_made, of_objects, report_failure, show, show_json};

/// `ensile backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// Folder of a database or of objects
    folder: PathBuf,
    /// Folder of the backup: an earlier backup of this database, an empty folder, or a new path
    backup: PathBuf,
    /// Number of states that the backup keeps, including the newest; `ensile restore --at` restores any of them
    /// [default: as many as the backup has, at least one]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    keep: Option<usize>,
    /// Limit of reading and writing, in MB a second [default: no limit]
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    rate_mb: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// `ensile restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreBackupArguments {
    /// Folder of the backup
    backup: PathBuf,
    /// Folder of the new database: an empty folder, or a new path
    folder: PathBuf,
    /// Epoch of the state to restore; `ensile backup` prints the kept epochs [default: the newest]
    #[arg(long, value_name = "EPOCH", value_parser = RangedU64ValueParser::<u64>::new().range(..Epoch::MAX.number()))]
    at: Option<u64>,
    /// Restore the exact state at the end of this epoch. A backup that is a copy of files goes back to the end of its
    /// checkpoint; --archive goes on from the state of any backup. If the epoch cannot be restored, the error lists the
    /// epochs that can
    #[arg(long, value_name = "EPOCH", conflicts_with = "at",
          value_parser = RangedU64ValueParser::<u64>::new().range(..Epoch::MAX.number()))]
    to_epoch: Option<u64>,
    /// Folder of the database's archive; `ensile inspect` prints its epochs
    #[arg(long, requires = "to_epoch")]
    archive: Option<PathBuf>,
    /// Limit of reading and writing, in MB a second [default: no limit]
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    rate_mb: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Backs a database up.
pub(crate) fn backup(arguments: &BackupArguments) -> CommandEnd {
    let BackupArguments { folder, backup, keep, rate_mb, json } = arguments;
    let options = CopyOptions { bytes_per_second: rate_mb.map(|rate| rate * MEGABYTE), keep: *keep };
    let outcome = with_progress(|watch| match holds_objects(folder) {
        true => objects::backup(folder, backup, options, watch).map_err(of_objects),
        false => folder::backup(folder, backup, options, watch),
    });
    let report = outcome.map_err(|error| not_made(folder, &error))?;
    report_copy(backup, &report, *json, "a backup of");
    Ok(copy_exit_code(&report))
}

/// Makes a new database from a backup.
pub(crate) fn restore(arguments: &RestoreBackupArguments) -> CommandEnd {
    let RestoreBackupArguments { backup, folder, at, to_epoch, archive, rate_mb, json } = arguments;
    let (at, to_epoch) = (at.map(Epoch::new), to_epoch.map(Epoch::new));
    let rate = rate_mb.map(|rate| rate * MEGABYTE);
    let are_objects = holds_objects(backup);
    if archive.is_some() && are_objects {
        return Err(report_failure(backup, "it is a backup of objects, and those have no archive"));
    }
    let outcome = with_progress(|watch| match to_epoch {
        Some(to) if are_objects => {
            objects::restore_to_epoch(backup, folder, to, rate, watch).map_err(of_objects)
        }
        None if are_objects => objects::restore(backup, folder, at, rate, watch).map_err(of_objects),
        Some(to) => folder::restore_to_epoch(backup, archive.as_deref(), folder, to, rate, watch),
        None => folder::restore_with(backup, folder, at, rate, watch),
    });
    let report = outcome.map_err(|error| not_made(backup, &error))?;
    report_copy(folder, &report, *json, "restored from");
    // The caller asked for the smaller epoch.
    Ok(if at.or(to_epoch).is_some() { ExitCode::SUCCESS } else { copy_exit_code(&report) })
}

/// Exit code of a finished copy. A script that removes the source after exit code 3 would lose results.
fn copy_exit_code(report: &CopyReport) -> ExitCode {
    let lacks_results = report.epoch < report.durable || report.not_proven.is_some();
    if lacks_results { ExitCode::from(LACKS_RESULTS) } else { ExitCode::SUCCESS }
}

/// True if the folder holds objects, and no database. False for an unreadable folder, because the copy will refuse it.
fn holds_objects(folder: &Path) -> bool {
    objects::holds_objects(folder).unwrap_or(false)
}

/// Prints the outcome of a copy.
fn report_copy(folder: &Path, report: &CopyReport, is_json: bool, what: &str) {
    if is_json {
        let numbers = |epochs: &[Epoch]| epochs.iter().map(|epoch| epoch.number()).collect::<Vec<_>>();
        let (kept, dropped) = (numbers(&report.kept), numbers(&report.dropped));
        show_json(&json!({
            "folder": folder, "database": report.database, "parent": report.parent, "epoch": report.epoch.number(),
            "durable": report.durable.number(),
            "entries": report.entries, "pages": report.pages, "pages_written": report.pages_written,
            "bytes": report.bytes, "bytes_written": report.bytes_written, "log_entries": report.log_entries,
            "overruns": report.overruns, "kept": kept, "dropped": dropped,
            "not_proven": report.not_proven.as_ref().map(not_proven_json),
        }));
        return;
    }
    let mut text = format!(
        "{}: database {}, {what} {} at the end of epoch {}; epoch {} was durable there when the copy began; {} of {} \
         written, verified\n",
        folder.display(),
        report.database,
        report.parent,
        report.epoch.number(),
        report.durable.number(),
        format_bytes(report.bytes_written),
        format_bytes(report.bytes)
    );
    if report.kept.len() > 1 {
        text +=
            &format!("it keeps the states at the end of the epochs {}\n", format_epoch_list(&report.kept));
    }
    if !report.dropped.is_empty() {
        text += &format!(
            "the backup has dropped the states at the end of the epochs {}: raise --keep to keep more states\n",
            format_epoch_list(&report.dropped)
        );
    }
    if let Some(left) = &report.not_proven {
        text += &format!("perhaps not in the backup: {}. {}\n", left.loss(), left.what_to_do());
    }
    show(&text);
}
