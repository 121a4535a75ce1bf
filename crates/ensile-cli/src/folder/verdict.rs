//! Verdict of an examination in text, remedies for damage, and the outcome of a repair.
//!
//! Neighbours: [`ensile::folder`] examines and repairs; `objects` prints the same texts.

use std::fmt::Write as _;
use std::path::Path;

use ensile::folder::{Damage, Examination, Loss, Remedy, RememberedStore, Repaired, Unread};
use ensile::recovery::TornTail;

use super::figures::{format_bytes, format_epoch_range};
use super::{VerifyArguments, backup_facts};

/// Verdict of an examination, and the remedies; `asked` has the repair that the user asked for.
pub(crate) fn verdict(folder: &Path, found: &Examination, asked: Option<&VerifyArguments>) -> String {
    let mut text = String::new();
    let name = folder.display();
    let bytes: u64 = found.files.iter().map(|file| file.bytes).sum();
    let size = format!("{} files, {}", found.files.len(), format_bytes(bytes));
    text += &backup_facts::lines(found.backup.as_ref());
    for TornTail { file, offset, bytes, epochs, detail, .. } in &found.torn_tails {
        let of =
            epochs.map_or_else(String::new, |(low, high)| format!(" of {}", format_epoch_range(low, high)));
        let _ = writeln!(
            text,
            "torn tail: {file}, {bytes} bytes from byte {offset}{of} ({detail}): never acknowledged, the next open cuts it"
        );
    }
    if let Some((low, high)) = found.unfinished_epochs {
        let _ = writeln!(
            text,
            "not every log has finished {}: writes of that time, if one lost any, are gone; if a crash took them, none was \
             acknowledged",
            format_epoch_range(low, high)
        );
    }
    text += &not_proven(found);
    for Damage { file, offset, detail, .. } in &found.unneeded {
        let _ = writeln!(
            text,
            "damaged and not needed: {file} at byte {offset}: {detail}; nothing is to be done"
        );
    }
    if found.is_whole() {
        let whole = found.durable_epoch.map_or_else(
            || "nothing was ever written".to_owned(),
            |epoch| format!("whole up to epoch {}", epoch.number()),
        );
        let _ = writeln!(text, "{name}: {whole}; {size}");
        return text + &refusal_lines(found);
    }
    let state = if found.damage.is_empty() { "UNKNOWN, not all of it can be read" } else { "DAMAGED" };
    let _ = writeln!(text, "{name}: {state}; {size}");
    for Unread { detail, .. } in &found.unread {
        let _ = writeln!(text, "  {detail}: whether it is damaged is unknown");
    }
    for Damage { file, offset, detail, .. } in &found.damage {
        let _ = writeln!(text, "  {file} at byte {offset}: {detail}");
    }
    text + &what_to_do(folder, found, asked)
}

/// Shared store that the folder remembers, and reasons for which an open refuses it.
pub(crate) fn refusal_lines(found: &Examination) -> String {
    let mut text = String::new();
    if let Some(RememberedStore { store, is_fenced: false }) = &found.shared_store {
        let _ = writeln!(text, "it ships to the shared store {store}");
    }
    for why in &found.refused {
        let _ = writeln!(text, "an open refuses it: {why}");
    }
    text
}

/// Results of a process-safe process that the next open takes, or that nothing proves.
pub(crate) fn not_proven(found: &Examination) -> String {
    let mut text = String::new();
    if let Some((entries, epoch)) = found.to_take {
        let _ = writeln!(
            text,
            "a process-safe life whose process died: in this boot the next open keeps all up to epoch {}, {entries} entries \
             of which only mapped buffers have",
            epoch.number()
        );
    }
    if let Some(left) = &found.not_proven {
        let _ = writeln!(text, "not proven: {left}");
    }
    text
}

/// Remedies for damage.
pub(crate) fn what_to_do(folder: &Path, found: &Examination, asked: Option<&VerifyArguments>) -> String {
    let copies = "what to do:\n  put copies of these files in place, from a backup of the same moment\n";
    let remedy = found.remedy.as_ref().map(|remedy| what_helps(folder, remedy, asked));
    copies.to_owned() + &remedy.unwrap_or_default()
}

/// Text of the remedies other than copies of the files.
fn what_helps(folder: &Path, remedy: &Remedy, asked: Option<&VerifyArguments>) -> String {
    let name = folder.display();
    let repairs = asked.is_some_and(|asked| asked.repair);
    match remedy {
        Remedy::Cut(loss) if repairs => format!("  or cut, as asked for now: {}\n", given_up(loss)),
        Remedy::Cut(loss) => format!("  or `ensile verify {name} --repair`: {}\n", given_up(loss)),
        Remedy::PictureAlone { why, loss } => {
            let is_asked = asked.is_some_and(|asked| asked.picture_alone);
            let how = match is_asked {
                true => "keep the picture alone, as asked for now".to_owned(),
                false => format!("`ensile verify {name} --repair --picture-alone`"),
            };
            format!("  a cut would not help: {why}\n  or {how}: {}\n", given_up(loss))
        }
        Remedy::Marks(marks) => {
            let marks = marks.join(", ");
            format!("  or `ensile verify {name} --repair`: writes {marks} anew, and loses nothing\n")
        }
        Remedy::Copy(why) => format!("  a cut would not help: {why}\n"),
    }
}

/// Loss that a repair brings.
fn given_up(loss: &Loss) -> String {
    let mut text = match loss_text(loss) {
        None => "keeps everything: it cuts bytes that do not belong there".to_owned(),
        Some(lost) => format!(
            "keeps everything up to epoch {}, gives up {lost}: {} entries that can still be read from logs, and all others; \
             results in these epochs were acknowledged, and would be lost",
            loss.durable.number(),
            loss.entries
        ),
    };
    for (file, from) in &loss.files {
        let _ = match from {
            0 => write!(text, "\n    removes {file}"),
            _ => write!(text, "\n    cuts {file} at byte {from}"),
        };
    }
    text
}

/// Epochs that a repair gives up, and files with unreadable data after these epochs; `None` if nothing is lost.
fn loss_text(loss: &Loss) -> Option<String> {
    let files = loss.unreadable.join(", ");
    match (loss.epochs, files.is_empty()) {
        (None, true) => None,
        (None, false) => Some(format!("what {files} held after it")),
        (Some((low, high)), true) => Some(format_epoch_range(low, high)),
        (Some((low, high)), false) => {
            Some(format!("{} and what else {files} held after it", format_epoch_range(low, high)))
        }
    }
}

/// Outcome of a repair. `what` begins the sentence about the state that remains.
pub(crate) fn after_repair(folder: &Path, done: &Repaired, what: &str) -> String {
    let Repaired { loss, copies, marks } = done;
    let marks: String = marks.iter().map(|mark| format!("{mark} was written anew\n")).collect();
    let Some(copies) = copies else { return marks };
    let state = match loss_text(loss) {
        None => "everything is kept".to_owned(),
        Some(lost) => format!(
            "{what} at the end of epoch {}. Acknowledged results of {lost} are LOST",
            loss.durable.number()
        ),
    };
    format!(
        "{marks}repaired, and read once more from end to end: {state}; what was cut, and the manifest as it was, are in {}\n",
        folder.join(copies).display()
    )
}
