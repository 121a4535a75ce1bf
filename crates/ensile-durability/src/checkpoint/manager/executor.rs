//! Actions of checkpoints: this module carries out the actions that `state_machine` decides, and reports the outcomes.
//!
//! Invariants:
//! - K1, N12: e_h is E, read under the lock of the decisions when a part has ended; the e_h of a picture is e_c.
//! - I3: nothing is removed while a reader holds a lease, up to a stated limit.
//!
//! Neighbours: `fuzzy_part_writer` and `picture` write; the store has the manifest, the log removes its files.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::random::Random;
use ensile_epoch::Advance;

use super::{CheckpointStep, Checkpoints, pages_of};
use crate::checkpoint::config::{GIVEN_WHILE_AWAITED, Strategy};
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::fuzzy_part_writer::{FileSetOwner, FuzzyPartWriter};
use crate::checkpoint::orphans::{self, CheckpointFile};
use crate::checkpoint::pages::PictureAttempt;
use crate::checkpoint::part::PartUnderWay;
use crate::checkpoint::picture::picture_part_writer::PicturePartWriter;
use crate::checkpoint::range_partition::{RangeCut, deal, ranges_of};
use crate::checkpoint::slices::{PartSlices, PartStep};
use crate::checkpoint::state_machine::{Action, Circumstances, CutParts, NotInstalled, PartTask, Taken};
use crate::checkpoint::walk::{Slice, Walk};
use crate::files::block::Salt;
use crate::files::block::origin::Origin;
use crate::files::checkpoint::block::CheckpointBlock;
use crate::files::checkpoint::writer::{Beginning, PartShape};
use crate::files::manifest::NotReplaced;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{PageFileName, PartName};
use crate::files::picture::block_writer::BlockWriter;
use crate::files::picture::location::PictureStamp;
use crate::{DurabilityError, Health, Result};

/// Pause between two attempts to remove files that a reader's lease keeps.
const REMOVAL_PAUSE_NANOS: u64 = 1_000_000_000;
/// Divisor of the number of parts for a turn of one range: checkpointers × ranges / 4 parts, of several slices each.
const PARTS_OF_RANGE_SHARE: usize = 4;
/// Longest wait of a checkpointer for bandwidth before the checkpointer checks the rate and the disk again.
const PACED_MAX: Duration = Duration::from_secs(1);
/// Longest wait of a checkpointer of a picture: the versions beside the pages are in memory until then (K3).
const PACED_PICTURE_MAX: Duration = Duration::from_millis(10);
const _: () = assert!(PACED_PICTURE_MAX.as_nanos() < PACED_MAX.as_nanos(), "a picture has more to look for");

impl Checkpoints {
    pub(super) fn carry_out(
        &self,
        checkpointer: usize,
        action: Action,
        seen: &Circumstances,
        part: &mut Option<PartUnderWay>,
        walk: &dyn Walk,
    ) -> CheckpointStep {
        match action {
            Action::Stop(answers) => {
                // No later step frees kept space piece by piece, so all of it is freed now.
                self.store.returned_space().free_all();
                self.send(answers);
                CheckpointStep::Stopped
            }
            Action::Rest => CheckpointStep::Idle,
            Action::Wait => CheckpointStep::Waiting,
            Action::CloseEpoch => self.close_epoch_early(),
            Action::GoOn => CheckpointStep::Worked,
            Action::MakeReserve => {
                self.make_reserve();
                CheckpointStep::Idle
            }
            Action::LookForRoom { bytes } => self.look_for_room(bytes),
            Action::Publish => self.publish_pages(walk),
            Action::Announce => self.announce_freeze(walk),
            Action::Cut(taken) => self.cut(&taken, walk),
            Action::WritePart(task) => self.begin_part(checkpointer, task, part),
            Action::ClosePicture => {
                let closed = self.pictures.close();
                self.machine.lock().record_close(closed);
                CheckpointStep::Worked
            }
            Action::GiveUpReserve => {
                let had_any = self.log.give_up_reserve();
                self.machine.lock().reserve_given_up(had_any, seen);
                CheckpointStep::Worked
            }
            Action::Install(installed) => match self.store.note_in_archive() {
                Ok(()) => self.install(installed, walk),
                Err(error) => self.not_archived(&error),
            },
            Action::Clear(installed) => {
                let again = self.remove_covered(&installed);
                self.make_reserve();
                let answers = self.machine.lock().record_clear(again, self.clock.nanos());
                self.send(answers);
                CheckpointStep::Worked
            }
            Action::RemoveAgain(installed) => {
                let again = self.remove_covered(&installed);
                self.machine.lock().removed_again(again);
                CheckpointStep::Idle
            }
            Action::CleanUp { kept } => self.clean_up(kept),
        }
    }

    /// Reports that the archive cannot learn of generations that leave the list: nothing is installed (A3).
    fn not_archived(&self, error: &DurabilityError) -> CheckpointStep {
        let why = NotInstalled::OldStands(format!("the archive cannot be written: {error}"));
        let (is_installed, answers) = self.machine.lock().record_install(Err(why), self.clock.nanos());
        assert!(!is_installed, "the older manifest stands");
        self.send(answers);
        CheckpointStep::Worked
    }

    /// Closes the epoch, if its least length has passed.
    fn close_epoch_early(&self) -> CheckpointStep {
        if matches!(self.epochs.try_advance_early(self.clock.nanos()), Advance::Advanced(_)) {
            self.log.wake_loggers();
        }
        CheckpointStep::Waiting
    }

    /// Makes the reserve again, if the reserve was given up and there is space.
    fn make_reserve(&self) {
        if self.store.reserve().is_kept() {
            return;
        }
        // A disk was full, so all kept space is freed at once.
        self.store.returned_space().free_all();
        if let Err(error) = self.store.reserve().make() {
            self.machine.lock().note_error(&error.to_string());
        }
    }

    /// Begins the checkpoint that is due, if about `bytes` bytes fit on the disks. Otherwise puts the checkpoint off.
    fn look_for_room(&self, bytes: u64) -> CheckpointStep {
        let look = || DiskSpace::look(&**self.store.disk(), self.checkpointers.len(), bytes);
        match look().or_else(|why| if self.store.returned_space().free_all() { look() } else { Err(why) }) {
            Ok(disk_space) => {
                let salt = Salt::draw(&mut Random::unpredictable());
                {
                    // E is read under the lock of the demands: the e_l that answers a demand comes after the demand.
                    let mut machine = self.machine.lock();
                    let seen = self.see(&machine);
                    if !machine.begin(disk_space, salt, &seen) {
                        return CheckpointStep::Stopped;
                    }
                    if self.pace.lock().begin() {
                        machine.note_slowed();
                    }
                }
                if self.config.strategy != Strategy::Pictures {
                    // The roll closes files, so that covered entries stand in closed files, which can be removed.
                    self.log.request_roll();
                }
                self.wake_all();
                CheckpointStep::Worked
            }
            Err(why) => {
                let answers = {
                    let mut machine = self.machine.lock();
                    self.pace.lock().drop_next_callers();
                    machine.put_off(why, self.clock.nanos())
                };
                self.send(answers);
                CheckpointStep::Idle
            }
        }
    }

    /// Publishes the pages of a picture: from the freeze on, commits that see the pages leave displaced versions.
    fn publish_pages(&self, walk: &dyn Walk) -> CheckpointStep {
        let pages = match pages_of(walk) {
            Ok(pages) => pages,
            Err(error) => {
                self.machine.lock().cannot_publish(&error.to_string());
                return CheckpointStep::Worked;
            }
        };
        let published = pages.publish_pages(self.config.page_bytes, self.pictures.pages_to_write());
        // `record_publication` runs at once: from here on the pages are ended even if a later call panics.
        let goes_on = self.machine.lock().record_publication(published);
        assert!(published.epoch <= self.epochs.now(), "N1: it is E, read behind the publication");
        if goes_on { CheckpointStep::Worked } else { CheckpointStep::Stopped }
    }

    /// Every commit sees the pages now (N1): carries the marks over to the pages, and announces the picture's freeze.
    fn announce_freeze(&self, walk: &dyn Walk) -> CheckpointStep {
        let published = self.machine.lock().open_pages();
        let (Some(attempt), Some(pages)) = (published, walk.pages()) else {
            // Another thread has ended the pages with the checkpoints.
            return CheckpointStep::Stopped;
        };
        // Before the freeze: no commit of an epoch at or after the freeze may find a page that lacks a mark (N7).
        if let Err(ended) = pages.carry_marks(attempt) {
            self.machine.lock().pages_have_ended(&ended.to_string());
            return CheckpointStep::Worked;
        }
        let freeze = self.epochs.announce_freeze();
        let freeze = freeze.expect("E was two above the freeze before when the pages were published");
        if !self.machine.lock().record_freeze(freeze) {
            return CheckpointStep::Stopped;
        }
        // The roll closes files, so that covered entries stand in closed files, which can be removed.
        self.log.request_roll();
        CheckpointStep::Worked
    }

    /// Cuts the state into parts, or deals the state's pages out. Every epoch below e_l is installed (K1, N2, E2).
    fn cut(&self, taken: &Taken, walk: &dyn Walk) -> CheckpointStep {
        let count = self.checkpointers.len();
        let published = self.machine.lock().open_pages();
        let parts = match (published, walk.pages()) {
            (Some(attempt), Some(pages)) => {
                assert!(
                    self.epochs.is_installed_below(self.epochs.newest_freeze()),
                    "N2: E is above the freeze"
                );
                let Some(checkpoint) = self.machine.lock().number_under_way() else {
                    return CheckpointStep::Stopped;
                };
                let (generation, epoch) = (self.generation, self.epochs.newest_freeze().previous());
                self.pictures.begin(PictureStamp { checkpoint, generation, epoch });
                match pages.page_slices(attempt, count) {
                    Ok(parts) => CutParts::whole(parts),
                    Err(ended) => {
                        self.machine.lock().pages_have_ended(&ended.to_string());
                        return CheckpointStep::Worked;
                    }
                }
            }
            _ => cut_walk(taken, count, walk),
        };
        if !self.machine.lock().cut(parts) {
            return CheckpointStep::Stopped;
        }
        self.wake_all();
        CheckpointStep::Worked
    }

    /// Begins this checkpointer's part, and sets `part`. If the files cannot be made, the attempt fails.
    fn begin_part(&self, number: usize, task: PartTask, part: &mut Option<PartUnderWay>) -> CheckpointStep {
        assert!(part.is_none(), "a number has one part at a time");
        assert!(task.low < self.epochs.now(), "K1, N2: the walk begins behind e_l");
        let begun = match task.pages {
            Some(attempt) => self.begin_pages(number, task, attempt),
            None => self.begin_walk(number, task),
        };
        match begun {
            Ok(begun) => *part = Some(begun),
            Err(reason) => self.part_failed(&reason),
        }
        CheckpointStep::Worked
    }

    /// Makes the files of a part of a fuzzy or cycling checkpoint.
    fn begin_walk(&self, checkpointer: usize, task: PartTask) -> Result<PartUnderWay, String> {
        let PartTask { number, low, salt, slices: sets, ticket, disk_space, .. } = task;
        let origin = Origin { identity: self.database, salt, entries: self.entries };
        let beginning = Beginning { number, generation: self.generation, low, origin };
        let owner = FileSetOwner {
            disk: Arc::clone(self.store.disk()),
            checkpointer: checkpointer as u32,
            shape: PartShape { files: self.config.files as u32, sync_bytes: self.config.sync_bytes },
            permit: self.permit.clone(),
            ticket,
            disk_space,
        };
        let work = FuzzyPartWriter::begin(owner, beginning, sets);
        Ok(PartUnderWay::Walk(Box::new(work.map_err(|error| error.to_string())?)))
    }

    /// Begins a part of a picture in the page file of this checkpointer.
    fn begin_pages(
        &self,
        checkpointer: usize,
        task: PartTask,
        attempt: PictureAttempt,
    ) -> Result<PartUnderWay, String> {
        let PartTask { number, low, slices, ticket, disk_space, .. } = task;
        let (stamp, file) = self.pictures.open_page_file(&**self.store.disk(), checkpointer)?;
        assert_eq!((stamp.checkpoint, stamp.epoch.next()), (number, low), "it is of this picture");
        let block = CheckpointBlock::with_permit(self.permit.clone());
        let slices = PartSlices::new(slices.into_iter().flatten().collect(), ticket, disk_space);
        let writer = BlockWriter::new(&file, stamp);
        let work =
            PicturePartWriter::new(slices, attempt, self.entries, writer, self.config.sync_bytes, block);
        Ok(PartUnderWay::Pages(Box::new(work)))
    }

    /// Writes the next block of this part, or ends it; gives it up if the attempt has failed or the log has stopped.
    pub(super) fn step_part(
        &self,
        checkpointer: usize,
        part: &mut Option<PartUnderWay>,
        walk: &dyn Walk,
    ) -> CheckpointStep {
        let (is_walking, health) = (self.machine.lock().is_walking(), self.log.health());
        if !is_walking || health.has_ended() {
            *part = None;
            let mut machine = self.machine.lock();
            machine.part_left();
            return if machine.has_ended() { CheckpointStep::Stopped } else { CheckpointStep::Worked };
        }
        let Some(work) = part else { return CheckpointStep::Waiting };
        let checked = work.check_room(&**self.store.disk(), checkpointer);
        let wait = {
            let mut pace = self.pace.lock();
            if matches!(checked, Ok(true)) || matches!(health, Health::Full(_)) {
                // K8: commits wait for the space that the checkpoint frees, or soon will wait.
                pace.lift_rate_limit();
            }
            pace.wait(self.clock.nanos())
        };
        let stepped = checked.and_then(|_| work.step(walk, &self.pictures, wait.is_zero()));
        match stepped {
            // `longest` bounds the wait, because this thread renews the reserved epochs too.
            Ok(None) => {
                let longest = if work.is_of_picture() { PACED_PICTURE_MAX } else { PACED_MAX };
                return CheckpointStep::Paced(wait.min(longest));
            }
            Ok(Some(PartStep::Refused)) => return CheckpointStep::Waiting,
            Ok(Some(PartStep::Written { bytes, entries, is_synced, is_paced })) if entries > 0 => {
                if is_paced {
                    self.pace.lock().spend(bytes);
                }
                if self.log.awaits_log() {
                    work.write_behind(GIVEN_WHILE_AWAITED);
                }
                self.counters.bytes.add(bytes);
                self.counters.entries.add(entries);
                self.counters.syncs.add(u64::from(is_synced));
            }
            Ok(Some(PartStep::Written { .. })) => {}
            Ok(Some(PartStep::Ended)) => self.end_part(checkpointer, part.take()),
            Err(reason) => {
                *part = None;
                self.part_failed(&reason);
            }
        }
        CheckpointStep::Worked
    }

    /// Ends a part whose slices are all walked. E is read under the lock: no part ends after the E that counts (K1).
    fn end_part(&self, checkpointer: usize, part: Option<PartUnderWay>) {
        match part.map(|part| part.end(&self.pictures)).transpose() {
            Ok(written) => {
                let mut machine = self.machine.lock();
                machine.part_ended(checkpointer, written.unwrap_or_default(), self.epochs.now());
            }
            Err(reason) => self.part_failed(&reason),
        }
    }

    /// Reports that this part cannot be written: the attempt fails, and the other checkpointers stop writing.
    fn part_failed(&self, reason: &str) {
        self.machine.lock().part_failed(reason);
        self.wake_all();
    }

    /// Names the checkpoint in the manifest.
    fn install(&self, installed: InstalledCheckpoint, walk: &dyn Walk) -> CheckpointStep {
        let is_durable = self.log.request_marks(installed.durable_min());
        assert!(is_durable, "K1, N12: D has reached e_h");
        let result = self.store.manifest().install(installed.clone());
        let result = match result {
            Ok(()) => {
                let picture = self.machine.lock().published_attempt();
                if let (Some(attempt), Some(pages)) = (picture, walk.pages()) {
                    // Before the next attempt publishes pages (N13).
                    pages.picture_installed(attempt);
                }
                if installed.is_picture() {
                    self.pictures.promote_to_base();
                }
                Ok(installed)
            }
            Err(NotReplaced::OldStands(error)) => Err(NotInstalled::OldStands(error.to_string())),
            Err(NotReplaced::Unknown(error)) => {
                Err(NotInstalled::Unknown(format!("the manifest could not be replaced: {error}")))
            }
        };
        let unknown = match &result {
            Err(NotInstalled::Unknown(reason)) => Some(reason.clone()),
            _ => None,
        };
        if let Ok(installed) = &result {
            self.log.picture_installed(installed.durable_min());
        }
        let (is_installed, answers) = self.machine.lock().record_install(result, self.clock.nanos());
        self.counters.installed.add(u64::from(is_installed));
        if is_installed && !self.log.has_loggers() {
            // After the report: a caller that hears of a durable result finds the picture that holds the result (N18).
            self.log.announce();
        }
        self.send(answers);
        match unknown {
            Some(reason) => {
                self.log.poison(&reason);
                CheckpointStep::Stopped
            }
            None => CheckpointStep::Worked,
        }
    }

    /// Removes the files of a failed attempt, with numbers above `kept`. No checkpointer writes any more.
    fn clean_up(&self, kept: u64) -> CheckpointStep {
        // No manifest ever listed the attempt's files, so no lease protects them. Older checkpoints may be leased.
        self.remove_leftovers(|part: PartName| part.checkpoint > kept);
        self.abandon_picture();
        // The removal has freed space.
        self.log.wake_loggers();
        self.make_reserve();
        let answers = self.machine.lock().cleaned_up(self.clock.nanos());
        self.send(answers);
        CheckpointStep::Worked
    }

    /// Removes the files that `installed` covers, unless a reader holds a lease (I3). Returns the time of a next try.
    pub(super) fn remove_covered(&self, installed: &InstalledCheckpoint) -> Option<u64> {
        let listed = self.store.manifest().manifest().checkpoint.as_ref().map(InstalledCheckpoint::number);
        assert_eq!(listed, Some(installed.number()), "K1: the manifest names it before anything goes");
        let clearance = match self.store.ask_leases() {
            Ok(Some(clearance)) => clearance,
            Ok(None) => return Some(self.clock.nanos() + REMOVAL_PAUSE_NANOS),
            Err(error) => {
                self.note_removed(Err(error.into()));
                return None;
            }
        };
        self.remove_leftovers(|_: PartName| true);
        self.note_removed(self.pictures.release().map(|()| 0).map_err(Into::into));
        self.remove_leftovers(|_: PageFileName| true);
        let removed = self.log.remove_cleared_below(installed.redo_epoch(), &clearance);
        self.note_removed(removed.map(|removed| removed.files));
        // Files that wait for the archive or the shipper are removed once archived or shipped.
        let waits = self.log.archive_error().is_some() || self.store.hold().is_holding();
        waits.then(|| self.clock.nanos() + REMOVAL_PAUSE_NANOS)
    }

    /// Removes files of kind `F` that the installed checkpoint does not have, and that `is_unneeded` selects.
    pub(super) fn remove_leftovers<F: CheckpointFile>(&self, is_unneeded: impl Fn(F) -> bool) {
        let manifest = self.store.manifest().manifest().clone();
        let removed = orphans::remove(&**self.store.disk(), &manifest, is_unneeded);
        self.note_removed(removed.map(|removed| {
            for (folder, spaces) in removed.spaces {
                self.store.returned_space().keep(&**self.store.disk(), &folder, spaces);
            }
            removed.files
        }));
    }

    /// Frees the space of a failed picture, if any. No manifest reached the picture, so no lease protects the space.
    pub(super) fn abandon_picture(&self) {
        self.note_removed(self.pictures.abandon().map(|()| 0).map_err(Into::into));
        // Page files of earlier processes may be leased.
        self.remove_leftovers(|file| self.pictures.is_own(file));
    }

    /// Counts removed files, or a failed removal.
    fn note_removed(&self, removed: Result<u64>) {
        match removed {
            Ok(count) => self.counters.files_removed.add(count),
            Err(error) => {
                self.counters.removals_failed.add(1);
                self.machine.lock().note_error(&error.to_string());
            }
        }
    }
}

/// Cuts the part of the state that a walk takes into `count` parts, one for each checkpointer (K4).
fn cut_walk(taken: &Taken, count: usize, walk: &dyn Walk) -> CutParts {
    match taken {
        Taken::Whole => CutParts::whole(walk.slices(count)),
        Taken::All { wanted } => {
            let mut cut = RangeCut::new(*wanted as usize);
            walk.measure(&mut cut);
            let starts = cut.starts();
            let parts = deal(slices(walk, count), &ranges_of(&starts), count);
            CutParts { starts, parts }
        }
        // So many slices that each checkpointer has a share of the range's slices.
        Taken::One { of, keys, .. } => {
            let all = slices(walk, (count * of).div_ceil(PARTS_OF_RANGE_SHARE).max(count));
            let parts = deal(all, std::slice::from_ref(keys), count);
            CutParts { starts: Vec::new(), parts }
        }
    }
}

/// The slices of the whole state, cut into about `parts` parts.
fn slices(walk: &dyn Walk, parts: usize) -> Vec<Slice> {
    walk.slices(parts).into_iter().flatten().collect()
}
