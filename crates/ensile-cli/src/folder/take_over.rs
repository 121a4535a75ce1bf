//! The command `ensile take-over`, and the output of `ensile objects take-over`.
//!
//! Exit codes: 0 taken over; 1 an object in the store is damaged (the text says if the store is claimed); 2 not taken
//! over; 3 taken over, and the other machine had made more durable than it had shipped.
//!
//! Neighbours: [`ensile::folder`] takes over.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use ensile::Error;
use ensile::folder::{self, SharedFolder, SharedStore, TakeOverReport};
use ensile_durability::DurabilityError;
use ensile_objects::folder::EntryKind;
use serde_json::json;

use super::figures::{MEGABYTE, format_bytes};
use super::output::{CommandEnd, DAMAGED, LACKS_RESULTS, report_failure, show, show_json};

/// `ensile take-over`, and `ensile objects take-over`.
#[derive(Debug, Args)]
pub(crate) struct TakeOverArguments {
    /// The shared folder
    pub(crate) store: PathBuf,
    /// The folder to take over into: empty, or not there
    pub(crate) folder: PathBuf,
    /// Fetch and read so many MB a second at most, up to the claim [default: no limit]
    #[arg(long, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    pub(crate) rate_mb: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Takes a database over.
pub(crate) fn run(arguments: &TakeOverArguments) -> CommandEnd {
    let TakeOverArguments { store, folder, rate_mb, .. } = arguments;
    let taken = SharedFolder::open(store).and_then(|shared| {
        let shared: Arc<dyn SharedStore> = Arc::new(shared);
        folder::take_over(&shared, folder, rate_mb.map(|rate| rate * MEGABYTE))
    });
    report_take_over(arguments, taken)
}

/// Prints the outcome of a take-over.
pub(crate) fn report_take_over(
    TakeOverArguments { store, folder, json: is_json, .. }: &TakeOverArguments,
    taken: Result<TakeOverReport, Error>,
) -> CommandEnd {
    let report = taken.map_err(|error| {
        let code = report_failure(store, &error.to_string());
        match error {
            Error::Storage(why) if matches!(why.cause(), DurabilityError::SharedDamaged { .. }) => {
                ExitCode::from(DAMAGED)
            }
            _ => code,
        }
    })?;
    let code = match report.durable {
        Some(durable) if report.epoch < durable => ExitCode::from(LACKS_RESULTS),
        _ => ExitCode::SUCCESS,
    };
    if *is_json {
        show_json(&json!({
            "folder": folder, "database": report.database, "parent": report.parent, "term": report.term,
            "manifest": report.manifest, "epoch": report.epoch.number(),
            "durable": report.durable.map(|durable| durable.number()), "application": report.application,
            "files": report.files, "bytes": report.bytes,
        }));
        return Ok(code);
    }
    let application = match &report.application {
        Some(name) => format!("  application: {name}, as it was when this was shipped\n"),
        None if report.entries == EntryKind::Operations => {
            "  application: it had no name when this was shipped\n".to_owned()
        }
        None => String::new(),
    };
    let durable = match report.durable {
        Some(durable) => {
            format!("entries up to epoch {} were durable there when this was shipped", durable.number())
        }
        None => "an older version shipped this, and did not record its durable epoch".to_owned(),
    };
    show(&format!(
        "{}: database {}, taken over from {} in term {}\n  complete up to the end of epoch {}; {durable}; commits of \
         {} in later epochs are not here\n{application}  {} files; {} fetched, compared and read\n",
        folder.display(),
        report.database,
        report.parent,
        report.term,
        report.epoch.number(),
        report.parent,
        report.files,
        format_bytes(report.bytes)
    ));
    Ok(code)
}
