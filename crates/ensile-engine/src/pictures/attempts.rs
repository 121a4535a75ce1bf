//! The attempts at pictures since the open: the newest attempt, its marks, and the reason for its end.
//!
//! Invariant:
//! - N13: An attempt is over when a newer attempt begins. An attempt without an installed picture hands all marks on to
//!   the next attempt. If the marks of the old attempt are incomplete, and completing them is too early, every page of
//!   the next attempt is marked.
//! - N10, N14: A loaded picture counts as an attempt without an installed picture. Its marks are complete: they come
//!   from load and replay.
//!
//! Neighbours: `picture_state` has the lock of the attempts; `checkpoint::pages` begins and ends attempts.

use ensile_base::Epoch;
use ensile_durability::{PagesEnded, PictureAttempt, WantedPages};

use super::page_map::LOADED;
use super::pending_removes::PageMarks;

/// The attempts at pictures since the open.
#[derive(Debug, Default)]
pub(crate) struct PictureAttempts {
    /// Number of the newest attempt.
    newest: u64,
    /// True from the publication of the attempt's maps to the end of the attempt.
    is_published: bool,
    /// Marks of the previous maps to carry over to the new maps; `None`: all pages are marked.
    carried: Option<PageMarks>,
    /// True if the attempt's maps were published and have all marks.
    has_marks: bool,
    /// First E without a commit on older maps. The marks are carried over by then.
    marks_due: Option<Epoch>,
    /// True if the attempt's picture is installed.
    is_installed: bool,
    /// Number of the last attempt that gave way, and the reason.
    gave_way: Option<(u64, PagesEnded)>,
}

impl PictureAttempts {
    /// Attempts after the load of a picture. The maps are published and have all marks.
    pub(crate) fn behind_load() -> Self {
        Self { newest: LOADED.number(), has_marks: true, ..Self::default() }
    }

    /// Begins an attempt. The attempt before has ended.
    pub(crate) fn begin(&mut self, wanted: WantedPages) -> PictureAttempt {
        debug_assert!(!self.is_published, "one picture at a time");
        // The next picture does not need the rows written by an installed picture (N13).
        let carried = if self.is_installed { PageMarks::AFTER } else { PageMarks::BOTH };
        let is_carried_over = wanted == WantedPages::Changed && self.has_marks;
        self.carried = is_carried_over.then_some(carried);
        (self.has_marks, self.is_installed, self.marks_due) = (false, false, None);
        self.newest += 1;
        PictureAttempt::new(self.newest)
    }

    /// Marks of the published maps to carry over to the newest attempt's maps; `None`: all pages are marked.
    pub(crate) fn marks_to_carry(&self) -> Option<PageMarks> {
        self.carried
    }

    /// True if the attempt's maps may be published: no newer attempt has begun.
    pub(crate) fn may_publish(&mut self, attempt: PictureAttempt) -> bool {
        debug_assert!(attempt.number() <= self.newest, "attempts are named as they begin");
        let is_newest = attempt.number() == self.newest;
        debug_assert!(!(is_newest && self.is_published), "an attempt is published once");
        self.is_published |= is_newest;
        self.has_marks |= is_newest && self.carried.is_none();
        is_newest
    }

    /// Notes that the attempt's maps were published; `epoch` is E after the publication.
    pub(crate) fn note_published(&mut self, attempt: PictureAttempt, epoch: Epoch) {
        if attempt.number() == self.newest {
            self.marks_due = Some(epoch.plus(2));
        }
    }

    /// Marks still to carry over to the newest attempt's maps, if the attempt ended too early and no commit has an
    /// older map now (N7, N13).
    pub(crate) fn marks_missed(&self, epoch: Epoch) -> Option<PageMarks> {
        let is_due = self.marks_due.is_some_and(|due| epoch >= due);
        self.carried.filter(|_| is_due && !self.has_marks && !self.is_published)
    }

    /// Notes that the missed marks are carried over.
    pub(crate) fn note_caught_up(&mut self) {
        debug_assert!(!self.has_marks && !self.is_published, "marks were missed");
        self.has_marks = true;
    }

    /// True if the attempt's pages can be taken.
    pub(crate) fn goes_on(&self, attempt: PictureAttempt) -> bool {
        attempt.number() == self.newest && self.is_published
    }

    /// Notes that the attempt's maps have all marks.
    pub(crate) fn note_carried_over(&mut self, attempt: PictureAttempt) {
        debug_assert!(self.goes_on(attempt), "marks are carried over while the attempt goes on");
        self.has_marks = true;
    }

    /// Notes that the attempt's picture is installed. If a newer attempt has begun, it carries over all marks: more
    /// than needed.
    pub(crate) fn note_installed(&mut self, attempt: PictureAttempt) {
        let is_newest = attempt.number() == self.newest;
        debug_assert!(!is_newest || self.has_marks, "a picture has all changes below its freeze");
        self.is_installed |= is_newest;
    }

    /// Ends the newest attempt. Returns the attempt, for the close of its pages; `None` if the maps are not published
    /// or the attempt was ended before.
    pub(crate) fn end(&mut self) -> Option<PictureAttempt> {
        std::mem::take(&mut self.is_published).then(|| PictureAttempt::new(self.newest))
    }

    /// As [`PictureAttempts::end`], if this attempt is the newest. An older attempt was ended before (N13).
    pub(crate) fn end_if_newest(&mut self, attempt: PictureAttempt) -> Option<PictureAttempt> {
        if attempt.number() == self.newest { self.end() } else { None }
    }

    /// Ends the newest attempt for this reason, as [`PictureAttempts::end`] does.
    pub(crate) fn abandon_newest(&mut self, why: PagesEnded) -> Option<PictureAttempt> {
        let ended = self.end();
        if ended.is_some() {
            self.gave_way = Some((self.newest, why));
        }
        ended
    }

    /// Reason for the end of an attempt.
    pub(crate) fn why_ended(&self, attempt: PictureAttempt) -> PagesEnded {
        match self.gave_way {
            Some((number, why)) if number == attempt.number() => why,
            _ => PagesEnded::Ended,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
