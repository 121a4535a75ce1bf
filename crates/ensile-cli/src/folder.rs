//! `ensile verify`, `ensile inspect`, `ensile adopt` and `ensile lease` of a database's folder. `objects` validates and
//! repairs folders of objects.
//!
//! Exit codes: 0 whole (torn tails are reported, and are no part of the data), 1 damaged, 2 if damage cannot be told,
//! because something cannot be read.
//!
//! Neighbours: [`ensile::folder`] examines and repairs; this module prints the outcome; `changes` prints the log;
//! `objects` uses the same texts.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) mod archive;
pub(crate) mod backup;
mod changes;
pub(crate) mod lease;
pub(crate) mod take_over;

pub(crate) use lease::passed_on;

use backup::Reach;
use changes::HELP as CHANGES;
use clap::Args;
use ensile::folder::{
    self, AdoptOptions, AgeFacts, CheckpointFacts, Damage, EntryType, Examination, FileFacts, Loss,
    NotProven, NotProvenReason, PageFileFacts, PictureFacts, RangeFacts, Remedy, RememberedStore,
    RepairOptions, Repaired, Role, SectionFacts, TableFacts, Unread,
};
use ensile::receipt::Epoch;
use ensile::recovery::TornTail;
use serde_json::{Value, json};

/// Exit code if something is damaged.
pub(crate) const DAMAGED: u8 = 1;
/// Exit code if damage cannot be told, or if nothing was done.
pub(crate) const FAILED: u8 = 2;
/// Exit code of a finished copy or take-over that lacks durable or returned results (N21, B4).
pub(crate) const LACKS_RESULTS: u8 = 3;
/// Unit of `--rate-mb`, in bytes.
pub(crate) const MEGABYTE: u64 = 1_000_000;

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

/// Error text for `--archive` without a backup.
pub(crate) const NO_BACKUP: &str = "it is no backup, and --archive says what a backup can be brought to";

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

/// Gives a copied folder a new identity.
pub(crate) fn adopt(AdoptArguments { folder, without_buffers }: &AdoptArguments) -> ExitCode {
    match folder::adopt_with(folder, AdoptOptions { without_buffers: *without_buffers }) {
        Ok(adopted) => {
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
            ExitCode::SUCCESS
        }
        Err(error) => report_failure(folder, &error.to_string()),
    }
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
    let reach = match backup::reach(folder, &found, archive.as_deref()) {
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
                "restorable_epochs": backup::reach_json(&reach), "restorable_unknown": unknown,
            })
        ));
    } else {
        let line = backup::reach_line(&reach, archive.as_deref());
        let verdict = verdict(folder, &found, None);
        show(&(detail_lines(&found, &tables) + &table_lines(&tables) + &verdict + &line));
    }
    match (&reach, archive) {
        // With `--archive` the epochs are the result that the user asked for, so an unknown result is an error.
        (Reach::Unknown(why), Some(archive)) => backup::not_made(archive, why),
        _ => exit_code(&found),
    }
}

pub(crate) fn exit_code(found: &Examination) -> ExitCode {
    if found.is_whole() {
        ExitCode::SUCCESS
    } else if found.damage.is_empty() {
        ExitCode::from(FAILED)
    } else {
        ExitCode::from(DAMAGED)
    }
}

/// Writes to standard output. A reader that closes the pipe has seen enough. Any other failure goes to standard error,
/// and changes no exit code.
pub(crate) fn show(text: &str) {
    let mut out = io::stdout().lock();
    let shown = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = shown
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("ensile: standard output: {error}");
    }
}

pub(crate) fn report_failure(folder: &Path, why: &str) -> ExitCode {
    eprintln!("ensile: {}: {why}", folder.display());
    ExitCode::from(FAILED)
}

/// Verdict of an examination, and the remedies; `asked` has the repair that the user asked for.
pub(crate) fn verdict(folder: &Path, found: &Examination, asked: Option<&VerifyArguments>) -> String {
    let mut text = String::new();
    let name = folder.display();
    let bytes: u64 = found.files.iter().map(|file| file.bytes).sum();
    let size = format!("{} files, {}", found.files.len(), format_bytes(bytes));
    text += &backup::lines(found.backup.as_ref());
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

/// Unproven results as JSON.
fn not_proven_json(left: &NotProven) -> Value {
    let reason = match left.reason {
        NotProvenReason::Copied => "copied",
        NotProvenReason::OtherBoot => "other_boot",
        NotProvenReason::OtherMount => "other_mount",
        NotProvenReason::NotOpened => "not_opened",
        NotProvenReason::Damaged => "damaged",
        NotProvenReason::UnknownBoot => "unknown_boot",
        NotProvenReason::Changed => "changed",
        _ => "other",
    };
    json!({
        "reason": reason, "left_out": left.is_left_out(), "durable_epoch": left.durable.number(),
        "last_epoch": left.last.number(), "files": left.files, "says": left.to_string(),
    })
}

/// Remedies for damage.
pub(crate) fn what_to_do(folder: &Path, found: &Examination, asked: Option<&VerifyArguments>) -> String {
    let copies = "what to do:\n  put copies of these files in place, from a backup of the same moment\n";
    let remedy = found.remedy.as_ref().map(|remedy| what_helps(folder, remedy, asked));
    copies.to_owned() + &remedy.unwrap_or_default()
}

/// Remedies other than copies of the files.
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

/// Lines about generations, checkpoint and files.
pub(crate) fn detail_lines(found: &Examination, tables: &[TableFacts]) -> String {
    let mut text = String::from("generations (one for each open):\n");
    for generation in &found.generations {
        let epochs = match generation.durable {
            None => format!("from epoch {}", generation.first.number()),
            Some(durable) if durable < generation.first => {
                format!("none before epoch {}", generation.first.number())
            }
            Some(durable) => format_epoch_range(generation.first, durable),
        };
        let state = if generation.is_closed { "closed" } else { "last" };
        let logs = match generation.logs {
            0 => "without a log".to_owned(),
            1 => "in 1 log".to_owned(),
            logs => format!("in {logs} logs"),
        };
        let _ = writeln!(
            text,
            "  {}: {state}, {epochs}, {logs}; {} entries to replay, {} in the checkpoint, {} void",
            generation.number, generation.entries, generation.covered_entries, generation.ignored_entries,
        );
    }
    text += &checkpoint_lines(found, tables);
    text.push_str("files:\n");
    let wide = found.files.iter().map(|file| file.name.len()).max().unwrap_or(0);
    for file in &found.files {
        let FileFacts { name, bytes, entries, epochs, .. } = file;
        let what = role(&file.role);
        let more = epochs.map_or_else(String::new, |(low, high)| {
            format!(", {entries} entries of {}", format_epoch_range(low, high))
        });
        let _ = writeln!(text, "  {name:wide$}  {:>10}  {what}{more}", format_bytes(*bytes));
    }
    text
}

/// A line for each table.
fn table_lines(tables: &[TableFacts]) -> String {
    let mut text = String::from("tables:\n");
    let wide = tables.iter().map(|table| table.name.as_deref().unwrap_or("?").len()).max().unwrap_or(0);
    for table in tables {
        let TableFacts { id, key_type, value_type, value_layout, indexes, rows, bytes, .. } = table;
        let name = table.name.as_deref().unwrap_or("?");
        let indexes =
            if indexes.is_empty() { String::new() } else { format!(", indexes {}", indexes.join(", ")) };
        let images = match table.before_images {
            0 => String::new(),
            images => format!(", {images} before-images in the log"),
        };
        let types = if key_type.is_empty() {
            String::new()
        } else {
            let fields = value_layout.as_ref().map_or_else(String::new, |fields| format!(" {fields}"));
            format!(": {key_type} -> {value_type}{fields}{indexes}")
        };
        let _ = writeln!(
            text,
            "  {id:>4}  {name:wide$}  {rows:>10} rows  {:>10}{types}{images}",
            format_bytes(*bytes)
        );
    }
    text
}

/// Lines about the checkpoint, and about the pages of a picture.
fn checkpoint_lines(found: &Examination, tables: &[TableFacts]) -> String {
    let Some(facts) = &found.checkpoint else { return "checkpoint: none\n".to_owned() };
    let CheckpointFacts { number, low, high, files, entries, bytes, ranges, picture } = facts;
    let shown = match facts.picture_epoch() {
        Some(epoch) => format!("picture at the end of epoch {}", epoch.number()),
        None => format!("entries below epoch {}, valid from epoch {}", low.number(), high.number()),
    };
    let mut text = format!(
        "checkpoint {number}: {shown}; {entries} entries in {files} files, {}\n",
        format_bytes(*bytes)
    );
    ranges.iter().for_each(|range| text += &range_line(range, tables));
    if let Some(picture) = picture {
        let rest =
            if backup::has_older(found.backup.as_ref()) { "free or of older pictures" } else { "free" };
        text += &picture_lines(picture, tables, rest);
    }
    text
}

/// Line about a range of a cycling checkpoint.
fn range_line(range: &RangeFacts, tables: &[TableFacts]) -> String {
    let RangeFacts { start, number, low, high, entries, bytes, .. } = range;
    let named = tables.iter().find(|table| table.id == start.section).and_then(|table| table.name.as_deref());
    let from = if start.key.is_empty() { String::new() } else { format!(" key {}", hex(&start.key)) };
    format!(
        "  from table {} {}{from}: checkpoint {number}, entries below epoch {}, valid from epoch {}; {entries} entries, {}\n",
        start.section,
        named.unwrap_or("?"),
        low.number(),
        high.number(),
        format_bytes(*bytes),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lines about the pages of a picture: by table, by age and by file. `rest` describes the rest of a page file.
fn picture_lines(picture: &PictureFacts, tables: &[TableFacts], rest: &str) -> String {
    let PictureFacts { sections, ages, parts, displaced, files, .. } = picture;
    let (blocks, tails, tail_bytes) =
        (picture.displaced_blocks, picture.displaced_tails, picture.displaced_tail_bytes);
    let mut text = String::new();
    for SectionFacts { section, pages, entries, bytes, used_bytes } in sections {
        let named = tables.iter().find(|table| table.id == *section).and_then(|table| table.name.as_deref());
        let _ = writeln!(
            text,
            "  table {section} {}: {pages} pages, {entries} entries, {}, {} % filled",
            named.unwrap_or("?"),
            format_bytes(*bytes),
            percent(*used_bytes, *bytes),
        );
    }
    for AgeFacts { checkpoint, pages, bytes } in ages {
        let _ = writeln!(text, "  of checkpoint {checkpoint}: {pages} pages, {}", format_bytes(*bytes));
    }
    let _ = writeln!(
        text,
        "  directory in {parts} parts; {displaced} versions beside the pages, in {blocks} blocks and in {tails} tails \
         of pages, {}",
        format_bytes(tail_bytes)
    );
    for PageFileFacts { name, bytes, used_bytes } in files {
        let other = bytes.saturating_sub(*used_bytes);
        let _ = writeln!(text, "  {name}: {}, {} % {rest}", format_bytes(*bytes), percent(other, *bytes));
    }
    text
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

fn role(role: &Role) -> String {
    match role {
        Role::Manifest => "says which of the others count".to_owned(),
        Role::Hint => "a witness of the durable epoch".to_owned(),
        Role::Rates => "what recoveries have cost".to_owned(),
        Role::Reserve => "space for the moment when the disk is full".to_owned(),
        Role::Lock => "the lock's file".to_owned(),
        Role::Folder => "says whose the folder is".to_owned(),
        Role::Log { generation, logger } => format!("log {logger} of generation {generation}"),
        Role::Buffer => "a mapped log buffer, which counts in the boot that wrote it".to_owned(),
        Role::Checkpoint { number } => format!("checkpoint {number}"),
        Role::Discarded(why) => format!("void: {why}; the next open removes it"),
        _ => "not the database's".to_owned(),
    }
}

fn format_epoch_range(low: Epoch, high: Epoch) -> String {
    if low == high {
        format!("epoch {}", low.number())
    } else {
        format!("epochs {} to {}", low.number(), high.number())
    }
}

/// Bytes in a unit that keeps the number short.
pub(crate) fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn epochs_json(epochs: Option<(Epoch, Epoch)>) -> Value {
    epochs.map_or(Value::Null, |(low, high)| json!([low.number(), high.number()]))
}

fn damage_json(damage: &[Damage]) -> Vec<Value> {
    let one =
        |damage: &Damage| json!({ "file": damage.file, "offset": damage.offset, "detail": damage.detail });
    damage.iter().map(one).collect()
}

pub(crate) fn examination(found: &Examination) -> Value {
    let generations: Vec<Value> = found
        .generations
        .iter()
        .map(|generation| {
            json!({
                "number": generation.number, "first": generation.first.number(), "logs": generation.logs,
                "closed": generation.is_closed, "durable": generation.durable.map(Epoch::number),
                "entries": generation.entries, "covered_entries": generation.covered_entries,
                "ignored_entries": generation.ignored_entries,
            })
        })
        .collect();
    let checkpoint = found.checkpoint.as_ref().map(|checkpoint| {
        let picture_epoch = checkpoint.picture_epoch().map(Epoch::number);
        let kind = match picture_epoch {
            Some(_) => "picture",
            None if checkpoint.ranges.is_empty() => "fuzzy",
            None => "cycling",
        };
        json!({
            "number": checkpoint.number, "kind": kind,
            "picture_epoch": picture_epoch, "low": checkpoint.low.number(), "high": checkpoint.high.number(),
            "files": checkpoint.files, "entries": checkpoint.entries, "bytes": checkpoint.bytes,
            "ranges": checkpoint.ranges.iter().map(range).collect::<Vec<_>>(),
            "picture": checkpoint.picture.as_ref().map(picture),
        })
    });
    let files: Vec<Value> = found
        .files
        .iter()
        .map(|file| {
            json!({
                "name": file.name, "role": role(&file.role), "bytes": file.bytes, "whole_bytes": file.whole_bytes,
                "entries": file.entries, "epochs": epochs_json(file.epochs),
            })
        })
        .collect();
    let torn_tails: Vec<Value> = found
        .torn_tails
        .iter()
        .map(|tail| {
            json!({
                "file": tail.file, "offset": tail.offset, "bytes": tail.bytes, "epochs": epochs_json(tail.epochs),
                "detail": tail.detail,
            })
        })
        .collect();
    let unread: Vec<Value> =
        found.unread.iter().map(|unread| json!({ "path": unread.path, "detail": unread.detail })).collect();
    let to_take =
        found.to_take.map(|(entries, epoch)| json!({ "entries": entries, "epoch": epoch.number() }));
    let shared_store = found
        .shared_store
        .as_ref()
        .map(|remembered| json!({ "store": remembered.store, "is_fenced": remembered.is_fenced }));
    json!({
        "whole": found.is_whole(), "refused": found.refused, "shared_store": shared_store, "application": found.application,
        "types": found.types.iter().map(entry_type).collect::<Vec<_>>(),
        "durable_epoch": found.durable_epoch.map(Epoch::number),
        "backup": found.backup.as_ref().map(backup::facts),
        "generations": generations, "checkpoint": checkpoint, "files": files, "torn_tails": torn_tails,
        "unfinished_epochs": epochs_json(found.unfinished_epochs), "unread": unread, "to_take": to_take,
        "not_proven": found.not_proven.as_ref().map(not_proven_json),
        "damage": damage_json(&found.damage), "unneeded": damage_json(&found.unneeded),
        "remedy": found.remedy.as_ref().map(remedy),
    })
}

fn entry_type(found: &EntryType) -> Value {
    json!({
        "role": found.role.name(), "version": found.version, "name": found.name,
        "fingerprint": found.fingerprint.map(|fingerprint| format!("{fingerprint:016x}")),
    })
}

fn remedy(remedy: &Remedy) -> Value {
    match remedy {
        Remedy::Cut(loss) => json!({ "cut": loss_json(loss) }),
        Remedy::Marks(marks) => json!({ "marks": marks }),
        Remedy::PictureAlone { why, loss } => {
            json!({ "picture_alone": { "why": why, "loss": loss_json(loss) } })
        }
        Remedy::Copy(why) => json!({ "copy": why }),
    }
}

fn loss_json(loss: &Loss) -> Value {
    json!({
        "durable_epoch": loss.durable.number(), "epochs": epochs_json(loss.epochs), "entries": loss.entries,
        "unreadable": loss.unreadable, "files": loss.files,
    })
}

fn range(range: &RangeFacts) -> Value {
    json!({
        "table": range.start.section, "key": hex(&range.start.key), "number": range.number,
        "generation": range.generation, "low": range.low.number(), "high": range.high.number(),
        "files": range.files, "entries": range.entries, "bytes": range.bytes,
    })
}

fn picture(picture: &PictureFacts) -> Value {
    let section = |of: &SectionFacts| {
        json!({
            "table": of.section, "pages": of.pages, "entries": of.entries, "bytes": of.bytes,
            "used_bytes": of.used_bytes,
        })
    };
    let age = |of: &AgeFacts| json!({ "checkpoint": of.checkpoint, "pages": of.pages, "bytes": of.bytes });
    let file =
        |of: &PageFileFacts| json!({ "name": of.name, "bytes": of.bytes, "used_bytes": of.used_bytes });
    json!({
        "tables": picture.sections.iter().map(section).collect::<Vec<_>>(),
        "ages": picture.ages.iter().map(age).collect::<Vec<_>>(),
        "parts": picture.parts, "displaced_blocks": picture.displaced_blocks, "displaced": picture.displaced,
        "displaced_tails": picture.displaced_tails, "displaced_tail_bytes": picture.displaced_tail_bytes,
        "files": picture.files.iter().map(file).collect::<Vec<_>>(),
    })
}

fn table(table: &TableFacts) -> Value {
    json!({
        "id": table.id, "name": table.name, "key_type": table.key_type, "value_type": table.value_type,
        "value_fields": table.value_layout, "indexes": table.indexes, "rows": table.rows, "bytes": table.bytes,
        "before_images": table.before_images,
    })
}
