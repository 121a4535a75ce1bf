//! Adoption that reports lost results: results of a process-safe process that only its own folder proves.
//!
//! In an unclosed process-safe life's own folder and boot, an adoption recovers the entries beyond D that an open would
//! recover, because an open may send the user to adoption after the loss of a folder's mark. In a copy, D is final: the
//! next open removes the buffers. So an adoption first reads the folder, and asks for consent.
//!
//! Invariants: B4: a returned result is given up only with the user's consent. B5: recovered entries are synced first.
//!
//! Neighbours: [`super::validator`] judges; `store::adoption` has the locks, and changes the folder. The `ensile`
//! command calls.

use std::sync::Arc;

use ensile_disk::Disk;

use super::judge::{Judge, NullState};
use crate::files::manifest::Manifest;
use crate::store::Adopted;
use crate::store::adoption::{self as copies, LeftToAdopt};
use crate::{DurabilityError, Result};

/// Losses that an adoption accepts only on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdoptOptions {
    /// Results that an unclosed process-safe life had returned and no log proves: in mapped buffers, and behind marks.
    pub without_buffers: bool,
}

/// Turns a copied folder into a database of its own, without an archive: the archive stays the original's.
///
/// In the folder and the boot of a process-safe life, the adoption first recovers every entry that an open would
/// recover: the folder may have lost only a mark. [`Adopted::taken_entries`] counts these entries.
///
/// # Errors
/// [`DurabilityError::InUse`] while the database, or a database that shares its files, is open;
/// [`DurabilityError::ForeignFolder`] if a link leads to a folder of the original; [`DurabilityError::Config`] if the
/// files are hard links; [`DurabilityError::WouldLose`] if an unclosed process-safe life has returned more than the
/// folder proves; [`DurabilityError::Unfinished`]; errors of an open for a damaged manifest and for missing folders.
/// After an error the folder is unchanged, except that recovered entries stand in the logs, as after an open.
pub fn adopt(disk: &Arc<dyn Disk>) -> Result<Adopted> {
    adopt_with(disk, AdoptOptions::default())
}

/// As [`adopt`], but accepts the losses in `options`: [`Adopted::not_proven`] reports the lost results.
///
/// # Errors
/// As for [`adopt`], without [`DurabilityError::WouldLose`] if `options` accept the loss.
pub fn adopt_with(disk: &Arc<dyn Disk>, options: AdoptOptions) -> Result<Adopted> {
    copies::adopt(disk, |disk, manifest| {
        let left = take(disk, manifest)?;
        match left.not_proven {
            Some(lost) if !lost.is_taken() && !options.without_buffers => {
                let folder = disk.folder_place("")?.into();
                Err(DurabilityError::WouldLose { folder, left: Box::new(lost) })
            }
            _ => Ok(left),
        }
    })
}

/// Recovers the entries of a process-safe life that an open would recover, and reports the results without proof.
fn take(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<LeftToAdopt> {
    let Some(open) = manifest.generations.last() else { return Ok(LeftToAdopt::default()) };
    // After an adoption the open generation has the original's identity, and its buffers count for nothing.
    if manifest.mapped.is_none() || open.database != manifest.identity {
        return Ok(LeftToAdopt::default());
    }
    assert_eq!(open.durable, None, "B4: mapped buffers are those of an open generation");
    let look = || {
        let mut judge = Judge::of_newest(disk, manifest);
        judge.run_to_end(&NullState(open.entries)).map(|()| judge)
    };
    let mut judge = look()?;
    let mut taken_entries = 0;
    if let Some(missing) = judge.missing.take() {
        assert!(judge.examination().is_whole(), "L5: what is damaged is judged before anything is written");
        let high = missing.high();
        taken_entries = missing.entries();
        missing.write(&**disk, &judge.open_chains)?;
        judge = look()?;
        let found = judge.examination();
        assert!(!found.is_whole() || found.durable_epoch == Some(high), "B5: D covers all that counts");
    }
    Ok(LeftToAdopt { not_proven: judge.examination().not_proven.clone(), taken_entries })
}
