//! Versions that commits have displaced. A picture's checkpointers take versions, and the heartbeat frees the rest.
//!
//! Invariants:
//! - N9: A take empties the lists of every worker, also of idle workers and of workers whose threads have ended.
//! - K3: An attempt gives way if commits displace more than the limit. No commit waits for the attempt, and no commit
//!   fails. The heartbeat frees versions in steps, because epochs would wait for a long run.
//!
//! Neighbours: `pictures::picture_state` has the lists; `checkpoint::pages` takes versions;
//! `shared_state::garbage_collector` frees the rest in the heartbeat; `database::health` reports the bytes.

use ensile_durability::{PagesEnded, PictureAttempt};

use crate::pictures::pending_removes::{PendingList, PendingRemove};
use crate::pictures::picture_state::Pictures;
use crate::record::blocks::Blocks;
use crate::shared_state::SharedState;

impl SharedState {
    /// Takes versions left to this attempt and frees them, until `put` has no room for a version. Returns true if
    /// versions remain.
    pub(crate) fn take_displaced_until(
        &self,
        attempt: PictureAttempt,
        put: impl FnMut(&PendingRemove) -> bool,
    ) -> Result<bool, PagesEnded> {
        let Some(pictures) = &self.pictures else { unreachable!("nothing is displaced without pictures") };
        let (done, has_more) = pictures.take_until(attempt, |lists| self.take_lists(lists), put)?;
        self.free_displaced(done);
        Ok(has_more)
    }

    /// Takes the lists of all workers since the open (N9).
    fn take_lists(&self, lists: &mut Vec<PendingList>) {
        self.workers.each_worker(|worker| lists.extend(worker.displaced.take()));
    }

    /// Puts aside the lists of workers after the end of a picture with closed pages. The versions are freed in steps.
    pub(crate) fn drop_displaced(&self) {
        let Some(pictures) = &self.pictures else { return };
        let without_room =
            pictures.put_worker_lists_aside(|lists| self.take_lists(lists), || self.epochs.now());
        self.free_displaced(without_room);
    }

    /// Puts aside versions of late commits. True if no late commit remains.
    fn drop_late_versions(&self, pictures: &Pictures) -> bool {
        pictures.put_late_versions_aside(|lists| self.take_lists(lists), || self.epochs.now())
    }

    /// Displaced bytes that are not freed, and the peak of this figure. Neither figure is too high.
    pub(crate) fn displaced_bytes(&self) -> (u64, u64) {
        let Some(pictures) = &self.pictures else { return (0, 0) };
        let now = pictures.waiting_bytes(|| self.workers.sum(|worker| &worker.displaced_bytes));
        (now, pictures.note_waiting_bytes(now))
    }

    /// Frees displaced versions taken out of a list. The peak is noted before, because the displaced bytes are highest
    /// then.
    pub(crate) fn free_displaced(&self, versions: impl IntoIterator<Item = PendingRemove>) {
        let Some(pictures) = &self.pictures else { unreachable!("nothing is displaced without pictures") };
        let mut versions = versions.into_iter().peekable();
        if versions.peek().is_none() {
            return;
        }
        let _noted = self.displaced_bytes();
        pictures.free(versions, || Blocks::new(self.memory.cache()));
    }

    /// Reason to end the picture under way, if commits have displaced more than the limit.
    pub(crate) fn displaced_too_much(&self) -> Option<PagesEnded> {
        let pictures = self.pictures.as_ref().filter(|pictures| pictures.is_under_way())?;
        let ((displaced_bytes, _), displaced_bytes_max) = (self.displaced_bytes(), pictures.bytes_max());
        (displaced_bytes > displaced_bytes_max)
            .then_some(PagesEnded::GaveWay { displaced_bytes, displaced_bytes_max })
    }

    /// Frees some versions of ended pictures. False if no version remains.
    pub(crate) fn free_ended_step(&self) -> bool {
        let Some(pictures) = &self.pictures else { return false };
        let (versions, has_more) = pictures.next_ended();
        if !versions.is_empty() {
            self.free_displaced(versions);
            if !has_more {
                pictures.give_idle_memory_back();
            }
        }
        has_more
    }

    /// Frees all versions of ended pictures.
    pub(crate) fn free_ended(&self) {
        while self.free_ended_step() {}
        // Buffers may remain of a picture that another thread has ended in the meantime.
        self.pictures.iter().for_each(Pictures::give_idle_memory_back);
    }

    /// Frees all versions in lists, and panics if the waiting bytes are not zero afterwards.
    #[cfg(feature = "audit")]
    pub(crate) fn free_all_displaced(&self) {
        let Some(pictures) = &self.pictures else { return };
        self.free_displaced(pictures.take_all(|lists| self.take_lists(lists)));
        while self.free_ended_step() {}
        pictures.give_memory_back();
        pictures.check_all_freed(self.workers.sum(|worker| &worker.displaced_bytes));
    }

    /// Frees maps of former pictures without pins (E3), and versions that came late. A step of the heartbeat.
    pub(crate) fn collect_after_pictures(&self) {
        let Some(pictures) = self.pictures.as_ref().filter(|pictures| pictures.take_remains()) else {
            return;
        };
        let mut is_done = self.drop_late_versions(pictures);
        for (_, table) in self.tables.logged.all_tables() {
            is_done &= table.pages.collect(&self.epochs);
        }
        if !is_done {
            // The next tick looks again.
            pictures.expect_remains();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
