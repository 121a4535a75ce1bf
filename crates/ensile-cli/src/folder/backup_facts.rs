//! Origin of a backup's folder, and the epochs that `ensile restore --to-epoch` can restore: as lines and as JSON.
//!
//! Neighbours: [`ensile::folder`] reads a backup; `verdict` and [`super::inspect`] print the lines.

use std::path::Path;
use std::process::ExitCode;

use ensile::Error;
use ensile::folder::{self, BackupFacts, Examination};
use ensile::receipt::Epoch;
use serde_json::{Value, json};

use super::figures::format_epoch_list;
use super::output::report_failure;

/// Error text for `--archive` without a backup.
pub(crate) const NO_BACKUP: &str = "it is no backup, and --archive says what a backup can be brought to";

/// Line about the origin of a backup's folder. Empty for other folders.
pub(super) fn lines(facts: Option<&BackupFacts>) -> String {
    match facts {
        None => String::new(),
        Some(BackupFacts::Backup { of, epoch, pictures, logged_pictures, files }) => {
            let at = epoch.map_or_else(String::new, |epoch| {
                format!(", as it was at the end of epoch {}", epoch.number())
            });
            let states = |epochs: &[Epoch], one: &str, several: &str| match epochs.len() {
                0 => None,
                1 => Some(one.to_owned()),
                _ => Some(format!("{several} {}", format_epoch_list(epochs))),
            };
            let logged = "pictures and the logs behind them at the epochs";
            let kept = [
                states(pictures, "one picture", "pictures of the epochs"),
                states(logged_pictures, "a picture and the log behind it", logged),
                states(files, "a copy of its files", "copies of its files at the epochs"),
            ];
            let kept: Vec<String> = kept.into_iter().flatten().collect();
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
        (_, Some(_)) => Err(report_failure(folder, NO_BACKUP)),
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
