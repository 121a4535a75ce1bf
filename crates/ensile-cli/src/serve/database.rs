//! The open of the served database.
//!
//! Invariants:
//! - `appendonly yes` opens process-safe. If the file system cannot, the database is strict, every reply waits until
//!   the reply is durable, and a notice says so.
//! - `appendonly no` opens without a log.
//!
//! Neighbours: [`super::settings`] has the settings; `shown_load` shows the progress.

use std::path::Path;
use std::sync::Arc;

use ensile::{Builder, Database, Durability, Error, Result};
use ensile_durability::DurabilityError;
use ensile_server::LoadProgress;

use super::settings::ServeSettings;
use super::shown_load::ShownLoad;

/// A database that is open, and the notices of its open.
pub(super) struct OpenedDatabase {
    pub(super) db: Database,
    /// True if every reply must wait until the reply is durable.
    pub(super) always_durable: bool,
    /// Notices for people.
    pub(super) notices: Vec<String>,
}

/// Opens the database of the folder, and makes a database in a missing or empty folder.
///
/// # Errors
/// The engine's error, with the remedy.
pub(super) fn open_database(
    settings: &ServeSettings,
    progress: &Arc<LoadProgress>,
) -> Result<OpenedDatabase> {
    let folder = &settings.data;
    let builder = || {
        let builder = Database::builder(folder);
        match settings.memory {
            Some(bytes_max) => builder.memory_bytes_max(bytes_max),
            None => builder,
        }
    };
    let (mut always_durable, mut notices) = (false, Vec::new());
    let db = if settings.appendonly {
        match load(progress, || builder().durability(Durability::Process)) {
            Err(Error::Storage(error)) if is_unsupported(error.cause()) => {
                always_durable = true;
                notices.push(format!(
                    "the file system cannot keep results beyond the death of a process ({error}); so every reply waits until \
                     it is on disk, whatever appendfsync says"
                ));
                load(progress, builder)?
            }
            opened => opened?,
        }
    } else {
        notices.push(
            "nothing is logged: changes since the last checkpoint are lost if this process is killed; BGSAVE makes a \
             checkpoint"
                .to_owned(),
        );
        load(progress, || builder().without_log())?
    };
    notices.extend(recovery_notices(&db, folder));
    Ok(OpenedDatabase { db, always_durable, notices })
}

/// True if the file system cannot do an operation at all.
fn is_unsupported(error: &DurabilityError) -> bool {
    matches!(error, DurabilityError::Disk(error) if error.is_unsupported())
}

/// Opens an existing database and shows the progress, or makes a new database.
fn load(noted: &Arc<LoadProgress>, builder: impl Fn() -> Builder) -> Result<Database> {
    let shown = Arc::new(ShownLoad::default());
    let (show, note) = (Arc::clone(&shown), Arc::clone(noted));
    let loaded = builder().recover(move |progress| {
        note.note(&progress);
        show.show(&progress);
    });
    shown.end();
    match loaded {
        Err(Error::Storage(error)) if matches!(error.cause(), DurabilityError::NoDatabase { .. }) => {
            builder().open()
        }
        loaded => loaded,
    }
}

/// Notices of the recovery: the amount, and results that the folder cannot prove.
fn recovery_notices(db: &Database, folder: &Path) -> Vec<String> {
    let Some(report) = db.recovery_report() else { return Vec::new() };
    let mut notices = Vec::new();
    if report.generation == 1 {
        notices.push(format!("{} is a new database", folder.display()));
    } else {
        let seconds: f64 = report.phases.iter().map(|phase| phase.elapsed.as_secs_f64()).sum();
        notices.push(format!(
            "{} is loaded: {} rows of the checkpoint and {} entries of the log in {seconds:.1} s",
            folder.display(),
            report.checkpoint_entries,
            report.entries
        ));
    }
    notices.extend(report.not_proven.as_ref().map(ToString::to_string));
    notices.extend(db.health().read_only.map(|why| format!("open for reading only: {why}")));
    notices
}
