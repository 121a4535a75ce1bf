//! `ensile inspect` and `ensile verify` of an archive: its epochs, and missing or damaged files. The module also has
//! `ensile restore-archive`, which makes a database from an archive.
//!
//! Exit codes: 0 for a whole archive or a finished restore; 1 if the archive is damaged; 2 if the check failed, or
//! nothing was restored.
//!
//! Neighbours: [`ensile::folder`] reads; this module prints.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use ensile::Error;
use ensile::folder::{self, ArchiveFacts, ArchivedGeneration, Damage, EpochSpan, RestoredFromArchive};
use ensile::receipt::Epoch;
use ensile_durability::DurabilityError;
use serde_json::{Value, json};

use super::copy_progress::with_progress;
use super::figures::{MEGABYTE, format_bytes, format_epoch_range};
use super::json::{damage_json, list_of};
use super::output::{CommandEnd, DAMAGED, not_made, show, show_json, unless_failed};

/// `ensile restore-archive`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// Folder of the archive
    archive: PathBuf,
    /// Folder of the new database: an empty folder, or a new path
    folder: PathBuf,
    /// Epoch at whose end the archived database had the state to restore; the epoch must have been durable and must
    /// count
    #[arg(long, value_name = "EPOCH", value_parser = RangedU64ValueParser::<u64>::new().range(..Epoch::MAX.number()))]
    to_epoch: u64,
    /// Limit of writing, in MB a second; reading has a limit of the same size [default: no limit]
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    rate_mb: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Makes a database from an archive.
pub(crate) fn restore(arguments: &RestoreArguments) -> CommandEnd {
    let RestoreArguments { archive, folder, to_epoch, rate_mb, json } = arguments;
    let rate = rate_mb.map(|rate| rate * MEGABYTE);
    let to = Epoch::new(*to_epoch);
    let outcome = with_progress(|watch| folder::restore_from_archive_with(archive, folder, to, rate, watch));
    let restored = outcome.map_err(|error| {
        let code = not_made(archive, &error);
        let is_damaged = || folder::inspect_archive(archive).is_ok_and(|found| !found.damage.is_empty());
        match error {
            // A missing file may be present and damaged.
            Error::Storage(why)
                if matches!(why.cause(), DurabilityError::NotInArchive { .. }) && is_damaged() =>
            {
                ExitCode::from(DAMAGED)
            }
            _ => code,
        }
    })?;
    let RestoredFromArchive { database, parent, epoch, durable, entries, bytes, .. } = restored;
    if *json {
        show_json(&json!({
            "folder": folder, "database": database, "parent": parent, "epoch": epoch.number(),
            "durable": durable.number(), "log_entries": entries, "bytes_written": bytes,
        }));
    } else {
        show(&format!(
            "{}: is now database {database}, as database {parent} was at the end of epoch {to_epoch}; the archive goes up to \
             epoch {}; {entries} entries, {}\n",
            folder.display(),
            durable.number(),
            format_bytes(bytes)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the findings. Exit code 1 if a file of the archive is damaged.
pub(super) fn print(folder: &Path, found: ensile::Result<ArchiveFacts>, is_json: bool) -> CommandEnd {
    let found = unless_failed(folder, found)?;
    if is_json {
        show_json(&json!({ "folder": folder, "archive": archive_json(&found) }));
    } else {
        show(&archive_lines(folder, &found));
    }
    Ok(if found.damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn archive_lines(folder: &Path, found: &ArchiveFacts) -> String {
    let mut text = format!("{}: the archive of database {}\n", folder.display(), found.database);
    for generation in &found.generations {
        let ArchivedGeneration { number, first, durable, logs, files, bytes, entries, lacks, .. } =
            generation;
        let epochs = durable.map_or_else(
            || format!("from epoch {}, not ended", first.number()),
            |durable| format_epoch_range(*first, durable),
        );
        let _ = writeln!(
            text,
            "  generation {number}: {epochs}, {logs} logs; {files} files, {entries} entries, {}",
            format_bytes(*bytes)
        );
        for lacked in lacks {
            let _ = writeln!(text, "    {lacked}");
        }
    }
    for Damage { file, offset, detail, .. } in &found.damage {
        let _ = writeln!(text, "  DAMAGED: {file} at byte {offset}: {detail}");
    }
    for file in &found.unfinished {
        let _ = writeln!(text, "  {file}: is being copied, or a kill has left it; it says nothing");
    }
    if found.ranges.is_empty() {
        text.push_str("nothing can be restored from it yet\n");
    }
    for EpochSpan { after, to } in &found.ranges {
        let _ = writeln!(
            text,
            "a backup of an epoch from {} on can be brought to any epoch up to {} that counted",
            after.number(),
            to.number()
        );
    }
    text
}

fn archive_json(found: &ArchiveFacts) -> Value {
    let generation = |of: &ArchivedGeneration| {
        json!({
            "number": of.number, "first": of.first.number(), "durable": of.durable.map(|durable| durable.number()),
            "logs": of.logs, "files": of.files, "bytes": of.bytes, "entries": of.entries, "lacks": of.lacks,
        })
    };
    let range = |of: &EpochSpan| json!([of.after.number(), of.to.number()]);
    json!({
        "database": found.database, "from": found.from.number(),
        "generations": list_of(&found.generations, generation), "ranges": list_of(&found.ranges, range),
        "unfinished": found.unfinished, "damage": damage_json(&found.damage),
    })
}
