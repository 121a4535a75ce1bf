//! `ensile backup` and `ensile restore`: copies of a database that may be open, and new databases from the copies. The
//! module also has the lines of `ensile verify` and `ensile inspect` about a backup's folder.
//!
//! Exit codes: 0 for a finished copy, 1 if the source is damaged, 2 if no copy was made. 3 for a finished copy that
//! lacks commits: commits that were durable when the copy began, although no earlier epoch was asked for, or commits
//! that a killed process-safe life had returned.
//!
//! Neighbours: [`ensile::folder`] copies and verifies; this module prints the progress and the outcome.

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use ensile::Error;
use ensile::folder::{self, BackupFacts, CopyOptions, CopyPhase, CopyProgress, CopyReport, Examination};
use ensile::receipt::Epoch;
use ensile_durability::DurabilityError;
use ensile_objects::ObjectsError;
use ensile_objects::folder as objects;
use serde_json::{Value, json};

use super::{DAMAGED, LACKS_RESULTS, MEGABYTE, format_bytes, report_failure, show};

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
pub(crate) fn backup(arguments: &BackupArguments) -> ExitCode {
    let BackupArguments { folder, backup, keep, rate_mb, json } = arguments;
    let options = CopyOptions { bytes_per_second: rate_mb.map(|rate| rate * MEGABYTE), keep: *keep };
    let mut shown = ShownProgress::default();
    let mut watch = |progress: &CopyProgress| shown.show(progress);
    let outcome = if holds_objects(folder) {
        objects::backup(folder, backup, options, &mut watch).map_err(of_objects)
    } else {
        folder::backup(folder, backup, options, &mut watch)
    };
    shown.end();
    match outcome {
        Ok(report) => {
            report_copy(backup, &report, *json, "a backup of");
            copy_exit_code(&report)
        }
        Err(error) => not_made(folder, &error),
    }
}

/// Makes a new database from a backup.
pub(crate) fn restore(arguments: &RestoreBackupArguments) -> ExitCode {
    let RestoreBackupArguments { backup, folder, at, to_epoch, archive, rate_mb, json } = arguments;
    let (at, rate) = (at.map(Epoch::new), rate_mb.map(|rate| rate * MEGABYTE));
    let mut shown = ShownProgress::default();
    let mut watch = |progress: &CopyProgress| shown.show(progress);
    let outcome = match to_epoch {
        Some(_) if archive.is_some() && holds_objects(backup) => {
            return report_failure(backup, "it is a backup of objects, and those have no archive");
        }
        Some(to) if holds_objects(backup) => {
            objects::restore_to_epoch(backup, folder, Epoch::new(*to), rate, &mut watch).map_err(of_objects)
        }
        None if holds_objects(backup) => {
            objects::restore(backup, folder, at, rate, &mut watch).map_err(of_objects)
        }
        Some(to) => {
            let to = Epoch::new(*to);
            folder::restore_to_epoch(backup, archive.as_deref(), folder, to, rate, &mut watch)
        }
        None => folder::restore_with(backup, folder, at, rate, &mut watch),
    };
    shown.end();
    match outcome {
        Ok(report) => {
            report_copy(folder, &report, *json, "restored from");
            // The caller asked for the smaller epoch.
            if at.or(to_epoch.map(Epoch::new)).is_some() {
                ExitCode::SUCCESS
            } else {
                copy_exit_code(&report)
            }
        }
        Err(error) => not_made(backup, &error),
    }
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

/// Turns an error of objects into an error of a database.
fn of_objects(error: ObjectsError) -> Error {
    match error {
        ObjectsError::Storage(error) => Error::Storage(error),
        error => Error::Misuse(error.to_string()),
    }
}

/// Prints the error. The exit code separates damage of the source from other reasons.
pub(super) fn not_made(folder: &Path, error: &Error) -> ExitCode {
    let code = report_failure(folder, &error.to_string());
    match error {
        Error::Storage(why) if matches!(why.cause(), DurabilityError::Damaged { .. }) => {
            ExitCode::from(DAMAGED)
        }
        _ => code,
    }
}

/// Prints the outcome of a copy.
fn report_copy(folder: &Path, report: &CopyReport, is_json: bool, what: &str) {
    if is_json {
        let numbers = |epochs: &[Epoch]| epochs.iter().map(|epoch| epoch.number()).collect::<Vec<_>>();
        let (kept, dropped) = (numbers(&report.kept), numbers(&report.dropped));
        let report = json!({
            "folder": folder, "database": report.database, "parent": report.parent, "epoch": report.epoch.number(),
            "durable": report.durable.number(),
            "entries": report.entries, "pages": report.pages, "pages_written": report.pages_written,
            "bytes": report.bytes, "bytes_written": report.bytes_written, "log_entries": report.log_entries,
            "overruns": report.overruns, "kept": kept, "dropped": dropped,
            "not_proven": report.not_proven.as_ref().map(super::not_proven_json),
        });
        show(&format!("{report:#}\n"));
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

/// Line about the origin of a backup's folder. Empty for other folders.
pub(super) fn lines(facts: Option<&BackupFacts>) -> String {
    match facts {
        None => String::new(),
        Some(BackupFacts::Backup { of, epoch, pictures, logged_pictures, files }) => {
            let at = epoch.map_or_else(String::new, |epoch| {
                format!(", as it was at the end of epoch {}", epoch.number())
            });
            let kept = [
                match pictures.len() {
                    0 => String::new(),
                    1 => "one picture".to_owned(),
                    _ => format!("pictures of the epochs {}", format_epoch_list(pictures)),
                },
                match logged_pictures.len() {
                    0 => String::new(),
                    1 => "a picture and the log behind it".to_owned(),
                    _ => {
                        format!(
                            "pictures and the logs behind them at the epochs {}",
                            format_epoch_list(logged_pictures)
                        )
                    }
                },
                match files.len() {
                    0 => String::new(),
                    1 => "a copy of its files".to_owned(),
                    _ => format!("copies of its files at the epochs {}", format_epoch_list(files)),
                },
            ];
            let kept: Vec<String> = kept.into_iter().filter(|kept| !kept.is_empty()).collect();
            format!("a backup of database {of}{at}: {}\n", kept.join(", "))
        }
        Some(BackupFacts::Restored { from, epoch }) => {
            let from = from.as_ref().map_or_else(String::new, |from| format!(" from {from}"));
            format!("restored{from}, as that was at the end of epoch {}\n", epoch.number())
        }
    }
}

/// Epochs of a folder that `restore --to-epoch` can restore.
pub(super) enum Reach {
    /// The folder is no backup.
    None,
    /// Spans of epochs, with first and last epoch.
    Spans(Vec<(Epoch, Epoch)>),
    /// The epochs are unknown, for example because the backup was copied.
    Unknown(Box<Error>),
}

/// Epochs of a folder that `restore --to-epoch` can restore, with the archive if given.
///
/// # Errors
/// The exit code, if an archive is given for a folder that is no backup. The error is already printed.
pub(super) fn reach(folder: &Path, found: &Examination, archive: Option<&Path>) -> Result<Reach, ExitCode> {
    match (&found.backup, archive) {
        (Some(BackupFacts::Backup { .. }), _) => Ok(match folder::restorable_epochs(folder, archive) {
            Ok(reach) => Reach::Spans(reach),
            Err(error) => Reach::Unknown(Box::new(error)),
        }),
        (_, Some(_)) => Err(report_failure(folder, super::NO_BACKUP)),
        (_, None) => Ok(Reach::None),
    }
}

/// Line of text for the epochs.
pub(super) fn reach_line(reach: &Reach, archive: Option<&Path>) -> String {
    let reach = match reach {
        Reach::None => return String::new(),
        Reach::Unknown(why) => {
            return format!("the epochs of `ensile restore --to-epoch` are unknown: {why}\n");
        }
        Reach::Spans(spans) => spans,
    };
    let (alone, spans): (Vec<_>, Vec<_>) = reach.iter().copied().partition(|(first, last)| first == last);
    let mut what: Vec<String> = Vec::new();
    if !alone.is_empty() {
        let alone: Vec<Epoch> = alone.into_iter().map(|(epoch, _)| epoch).collect();
        what.push(format!(
            "the end of {} {}",
            if alone.len() == 1 { "epoch" } else { "the epochs" },
            format_epoch_list(&alone)
        ));
    }
    for (first, last) in spans {
        what.push(format!("the end of each epoch from {} to {} that counted", first.number(), last.number()));
    }
    let by = match archive {
        Some(archive) => format!(" with the archive {}", archive.display()),
        None => "; `ensile inspect BACKUP --archive ARCHIVE` lists the epochs with an archive of the log"
            .to_owned(),
    };
    let what = if what.is_empty() { "nothing".to_owned() } else { what.join(", ") };
    format!("`ensile restore --to-epoch` can restore {what}{by}\n")
}

/// The epochs as JSON.
pub(super) fn reach_json(reach: &Reach) -> Value {
    let Reach::Spans(spans) = reach else { return Value::Null };
    spans.iter().map(|(first, last)| json!([first.number(), last.number()])).collect()
}

/// True if the backup has more than one picture.
pub(super) fn has_older(facts: Option<&BackupFacts>) -> bool {
    let Some(BackupFacts::Backup { pictures, logged_pictures, .. }) = facts else { return false };
    pictures.len() + logged_pictures.len() > 1
}

/// The facts of [`lines`] as a JSON object.
pub(super) fn facts(facts: &BackupFacts) -> Value {
    match facts {
        BackupFacts::Backup { of, epoch, pictures, logged_pictures, files } => {
            let numbers = |epochs: &[Epoch]| epochs.iter().map(|epoch| epoch.number()).collect::<Vec<_>>();
            json!({
                "kind": "backup", "of": of, "epoch": epoch.map(Epoch::number), "pictures": numbers(pictures),
                "logged_pictures": numbers(logged_pictures), "files": numbers(files),
            })
        }
        BackupFacts::Restored { from, epoch } => {
            json!({ "kind": "restored", "from": from, "epoch": epoch.number() })
        }
    }
}

fn format_epoch_list(epochs: &[Epoch]) -> String {
    epochs.iter().map(|epoch| epoch.number().to_string()).collect::<Vec<_>>().join(", ")
}

/// Progress of a copy. A terminal shows a line that is overwritten for each percent of a phase. A new beginning of the
/// copy is printed as a line of its own, on a terminal or not.
#[derive(Default)]
pub(super) struct ShownProgress {
    last: Option<(CopyPhase, u64)>,
    overruns: u64,
}

impl ShownProgress {
    pub(super) fn show(&mut self, progress: &CopyProgress) -> ControlFlow<()> {
        if progress.overruns > self.overruns {
            self.overruns = progress.overruns;
            self.end();
            self.last = None;
            // A closed output does not stop the backup.
            let _ = writeln!(
                io::stderr(),
                "ensile: the copy takes longer than the database keeps files for it, and begins again ({} times so far): \
                 raise --rate-mb, or leave it out",
                progress.overruns
            );
        }
        let percent = (progress.bytes * 100).checked_div(progress.bytes_total).unwrap_or(0);
        let now = Some((progress.phase, percent));
        if self.last != now && io::stderr().is_terminal() {
            let what = match progress.phase {
                CopyPhase::Verifying => "verifying",
                CopyPhase::Archive => "taking from the archive",
                _ => "copying",
            };
            // A closed terminal does not stop the backup.
            let _ = write!(
                io::stderr(),
                "\r{what}: {percent:3} % of {}, {} written ",
                format_bytes(progress.bytes_total),
                format_bytes(progress.bytes_written)
            );
            self.last = now;
        }
        ControlFlow::Continue(())
    }

    pub(super) fn end(&self) {
        if self.last.is_some() {
            let _ = writeln!(io::stderr());
        }
    }
}
