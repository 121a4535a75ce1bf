//! `ensile take-over`: a database taken over from a shared store; and what is said of objects that are.
//!
//! Exit codes: 0 taken over, 1 something in the store is damaged (what is said tells whether it is claimed), 2 not
//! taken over.
//!
//! Neighbours: [`ensile::folder`] takes over; here the outcome is put into words.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use ensile::folder::{self, SharedFolder, SharedStore, TakeOverReport};
use ensile::{DurabilityError, Error};
use ensile_objects::folder::EntryKind;

use super::{DAMAGED, MEGABYTE, failed, show, sized};

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
}

/// Takes a database over.
pub(crate) fn run(TakeOverArguments { store, folder, rate_mb }: &TakeOverArguments) -> ExitCode {
    let taken = SharedFolder::open(store).map_err(Error::from).and_then(|shared| {
        let shared: Arc<dyn SharedStore> = Arc::new(shared);
        folder::take_over(&shared, folder, rate_mb.map(|rate| rate * MEGABYTE))
    });
    match taken {
        Ok(report) => ended(folder, &report),
        Err(error) => {
            let is_damage = matches!(error, Error::Durability(DurabilityError::SharedDamaged { .. }));
            not_taken_over(store, &error.to_string(), is_damage)
        }
    }
}

/// Says what it came to.
pub(crate) fn ended(folder: &Path, report: &TakeOverReport) -> ExitCode {
    let application = match &report.application {
        Some(name) => format!("  application: {name}, as it was when this was shipped\n"),
        None if report.entries == EntryKind::Operations => {
            "  application: it had no name when this was shipped\n".to_owned()
        }
        None => String::new(),
    };
    show(&format!(
        "{}: database {}, taken over from {} in term {}\n  complete up to the end of epoch {}: what {} committed in \
         later epochs is not here\n{application}  {} files; {} fetched, compared and read\n",
        folder.display(),
        report.database,
        report.parent,
        report.term,
        report.epoch.number(),
        report.parent,
        report.files,
        sized(report.bytes)
    ));
    ExitCode::SUCCESS
}

/// Says why not.
pub(crate) fn not_taken_over(store: &Path, why: &str, is_damage: bool) -> ExitCode {
    let code = failed(store, why);
    if is_damage { ExitCode::from(DAMAGED) } else { code }
}
