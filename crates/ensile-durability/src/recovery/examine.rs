//! A folder examined without opening the database: every byte read and judged as an open would, and nothing changed.
//!
//! The judgement is recovery's own (`recovery::judgement`); what differs is that it goes on behind
//! the first finding, looks at blocks that recovery has no use for, and says what each file is.
//!
//! Invariants:
//! - What an open calls damage is in [`Examination::damage`], with the same file and offset. What it cannot read is in
//!   [`Examination::unread`]. Where both are empty, an open succeeds, unless the folder was copied
//!   ([`Examination::refused`]).
//! - Of a backup the older pictures are read too. An open of it would drop them; damage in them is damage all the same,
//!   as a restore could need them.
//! - A repair says that it has repaired once it has examined what it left.
//! - L5: a torn tail is none. Damage in blocks that recovery does not read (of discarded epochs, or covered by the
//!   checkpoint) is listed apart, in [`Examination::unneeded`].
//!
//! Neighbours: `chain`, `verdict`, `load` and `replay` read; `ordered` reads once more, by TIDs; `repair` cuts by what
//! was found; `adopting` asks what it gives up; the engine gives the state that takes the entries, the `ensile` command
//! prints.

mod adopting;
mod cut;
mod facts;
mod judge;
mod left;
mod repair;

use std::ops::ControlFlow;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::Disk;

pub use adopting::{AdoptOptions, adopt, adopt_with};
pub use facts::{
    AgeFacts, BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Loss,
    PageFileFacts, PictureFacts, RangeFacts, Remedy, Repaired, Role, SectionFacts, Unread,
};
pub use repair::{RepairOptions, repair, repair_with};

use super::judgement::Findings as _;
use super::ordered;
use super::unproven::{self, AtOnce};
use crate::store::Hold;
use crate::store::manifest::Manifest;
use crate::store::names::LOCK;
use crate::store::open::lock_existing;
use crate::store::renew_marks::{mark_file, renewable_marks};
use crate::{DurabilityError, Entry, EntryKind, Recoverable, Refused};
use cut::NoRepair;
pub(crate) use judge::Judge;
pub(crate) use left::left_behind;

/// Reads all of a database's folder, which may be read-only and of which other readers may read; entries that count go
/// to `target` as in a recovery, whether or not something else is damaged.
///
/// # Errors
/// [`DurabilityError::InUse`] when a process has the database open; the disk's; [`DurabilityError::NoDatabase`] or
/// [`DurabilityError::NotADatabase`] if there is none; [`DurabilityError::OtherEntries`] if its entries are not of the
/// kind that `target` takes; [`DurabilityError::NotMounted`] or
/// [`DurabilityError::FolderMissing`] if the device of a folder is not there. Damage is no error here, nor is a file
/// that cannot be read: it is in [`Examination::unread`]. A copy can be examined.
pub fn examine(disk: &Arc<dyn Disk>, target: &dyn Recoverable) -> Result<Examination, DurabilityError> {
    let mut refusals = Vec::new();
    let mut note = |why| match why {
        why @ DurabilityError::NotMounted { .. } => Err(why),
        why => {
            refusals.push(why);
            Ok(())
        }
    };
    let locks = lock_existing(&**disk, Hold::Shared, &mut note)?;
    let judged = examine_locked(disk, target);
    // Without a file to lock, another process may have opened the database meanwhile: its changes would look like
    // damage.
    if !locks.has_file() && disk.lock_to_read(LOCK)?.is_some() {
        return Err(DurabilityError::InUse { path: LOCK.into() });
    }
    let (mut found, seen) = judged?;
    for refusal in refusals {
        match refusal {
            why @ DurabilityError::Copied { .. } => found.refused.push(why.to_string()),
            why => found.found(why)?,
        }
    }
    if !found.is_whole() {
        found.durable_epoch = None;
        found.remedy = Some(remedy(&**disk, &found, seen)?);
    }
    assert_eq!(
        found.is_whole(),
        found.remedy.is_none(),
        "damage has a remedy, or a reason why there is none"
    );
    Ok(found)
}

/// What can be done about what was found. A mark that a repair writes anew is no obstacle to a cut.
fn remedy(disk: &dyn Disk, found: &Examination, seen: Epoch) -> Result<Remedy, DurabilityError> {
    assert!(!found.is_whole(), "what is whole is left alone");
    let mut marks = Vec::new();
    if let Ok(Some(manifest)) = Manifest::read(disk) {
        marks = renewable_marks(disk, &manifest)?.iter().map(|folder| mark_file(folder)).collect();
    }
    let is_other = |damage: &&Damage| !marks.contains(&damage.file);
    let others =
        Examination { damage: found.damage.iter().filter(is_other).cloned().collect(), ..found.clone() };
    if others.is_whole() {
        return Ok(Remedy::Marks(marks));
    }
    Ok(match cut::plan(disk, &others, seen) {
        Ok(plan) => Remedy::Cut(plan.loss),
        Err(NoRepair::BelowThePicture(why, plan)) => Remedy::PictureAlone { why, loss: plan.loss },
        Err(NoRepair::Reason(why)) => Remedy::Copy(why),
        Err(NoRepair::Error(error)) => return Err(error),
    })
}

/// As [`examine`], and then, if nothing is damaged, shows the entries that count, of all logs, in the order of their
/// TIDs, until `visit` breaks. They are read a second time for it; held in memory are only those of neighbouring
/// epochs. Entries that the checkpoint covers are not shown: from its first epoch on nothing is missing.
///
/// Where a process ended without a close, what it wrote last may be in the system's cache only. A caller may act on an
/// entry that it is shown, so that is written and synced first, as an open does before it serves anything.
///
/// # Errors
/// As for [`examine`]; those of a file that reads differently the second time, or that cannot be written.
pub fn visit_log(
    disk: &Arc<dyn Disk>,
    target: &dyn Recoverable,
    visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
) -> Result<Examination, DurabilityError> {
    let mut damage = Vec::new();
    let mut note = |why| Damage::of(why).map(|found| damage.push(found));
    let _locks = lock_existing(&**disk, Hold::Exclusive, &mut note)?;
    let mut judge = Judge::new(disk);
    judge.look(target)?;
    judge.found.damage.extend(damage);
    if judge.found.is_whole() {
        judge.open_chains.iter().try_for_each(|chain| unproven::rewrite(&**disk, chain, AtOnce::File))?;
        ordered::visit(&**disk, judge.logs, visit)?;
    }
    Ok(judge.found)
}

/// The same as [`examine`], for a caller that holds the lock; without a remedy. And the largest epoch that anything
/// shows.
fn examine_locked(
    disk: &Arc<dyn Disk>,
    target: &dyn Recoverable,
) -> Result<(Examination, Epoch), DurabilityError> {
    let mut judge = Judge::new(disk);
    judge.look(target)?;
    Ok((judge.found, judge.seen))
}

/// Takes entries of this kind and keeps nothing.
pub(super) struct Nowhere(pub(super) EntryKind);

impl Recoverable for Nowhere {
    fn entries(&self) -> EntryKind {
        self.0
    }

    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

/// Knows what this state knows of entries, and gives it none.
struct Elsewhere<'s>(&'s dyn Recoverable);

impl Recoverable for Elsewhere<'_> {
    fn entries(&self) -> EntryKind {
        self.0.entries()
    }

    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        self.0.checkpoint_key(body)
    }
}
