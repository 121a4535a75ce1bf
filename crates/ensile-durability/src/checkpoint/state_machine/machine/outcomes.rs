//! Outcomes of actions: each report moves the state machine to the next stage.
//!
//! Neighbours: `manager` reports an outcome once for each action; the decision follows in the next step.

use std::sync::Arc;

use ensile_base::Epoch;

use super::{CheckpointStateMachine, not_durable};
use crate::checkpoint::pages::PublishedPages;
use crate::checkpoint::picture::picture_set::ClosedPicture;
use crate::checkpoint::state_machine::action::{Answers, Circumstances, CutParts, NotInstalled};
use crate::checkpoint::state_machine::state::{Duty, Stage};
use crate::files::checkpoint::writer::PartWritten;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::{DurabilityError, Health};

impl CheckpointStateMachine {
    /// Notes a lower rate than in the settings. The duration of this attempt then predicts no other checkpoint.
    pub(crate) fn note_slowed(&mut self) {
        assert_eq!(self.stage, Stage::Opening, "callers set the rate at the beginning");
        self.attempt_mut().is_slowed = true;
    }

    /// Puts the checkpoint off for want of room. A caller that asked gets an error; otherwise a later check follows.
    pub(crate) fn put_off(&mut self, why: String, now_nanos: u64) -> Answers {
        let mut answers = Answers::default();
        if !self.is_at(Duty::LookForRoom) {
            return answers;
        }
        let why: Arc<str> = why.into();
        answers.put_off = Some(Arc::clone(&why));
        self.history.record_misfit(Arc::clone(&why), now_nanos);
        if let Some(ticket) = self.callers.take() {
            self.history.note_error(Arc::clone(&why));
            answers.failed = 1;
            answers.outcomes.push((ticket, Err(DurabilityError::CheckpointFailed(why))));
        }
        self.enter(Stage::Idle);
        answers
    }

    /// Records that the pages are published, and E as read afterwards. False if the checkpoints have ended.
    pub(crate) fn record_publication(&mut self, pages: PublishedPages) -> bool {
        let before = self.pages.replace(pages.attempt);
        assert_eq!(before, None, "N13: each attempt has its own pages");
        if !self.is_at(Duty::Publish) {
            return false;
        }
        let attempt = self.attempt_mut();
        attempt.epochs.record_publication(pages.epoch);
        attempt.pages = Some(pages.attempt);
        self.enter(Stage::Opening);
        true
    }

    /// Fails the attempt: the state has no pages to publish.
    pub(crate) fn cannot_publish(&mut self, reason: &str) {
        assert_eq!(self.pages, None, "there is nothing to end");
        if self.is_at(Duty::Publish) {
            self.fail_without_parts(reason.into());
        }
    }

    /// Records that the freeze is announced. False if the checkpoints have ended.
    pub(crate) fn record_freeze(&mut self, freeze: Epoch) -> bool {
        if !self.is_at(Duty::Announce) {
            return false;
        }
        assert!(self.pages.is_some(), "N1: commits find pages to leave versions to");
        self.attempt_mut().epochs.record_freeze(freeze);
        self.enter(Stage::Opening);
        true
    }

    /// Fails the attempt: the pages ended before they were dealt out.
    pub(crate) fn pages_have_ended(&mut self, reason: &str) {
        if self.is_at(Duty::Announce) || self.is_at(Duty::Cut) {
            assert!(self.pages.is_some(), "a fuzzy checkpoint's slices do not end");
            self.fail_without_parts(reason.into());
        }
    }

    /// Sets the parts of the attempt, and begins the walk. False if the checkpoints have ended.
    pub(crate) fn cut(&mut self, cut: CutParts) -> bool {
        if !self.is_at(Duty::Cut) {
            return false;
        }
        let sets = self.attempt_mut().cut(cut);
        self.next_number += sets - 1;
        assert!(self.under_way().turn.last_number() < self.next_number, "numbers come once");
        self.enter(Stage::Walking);
        true
    }

    /// Records that a part is written and synced. `epoch` is E, read after the sync. The last part ends the walk (K1).
    pub(crate) fn part_ended(&mut self, checkpointer: usize, written: Vec<PartWritten>, epoch: Epoch) {
        if self.stage != Stage::Walking {
            return self.part_left();
        }
        let attempt = self.attempt_mut();
        if attempt.parts.record_written(checkpointer, written, attempt.turn.sets) {
            attempt.epochs.end(epoch);
            let is_closed_apart = attempt.epochs.is_closed_apart();
            self.enter(if is_closed_apart { Stage::Closing } else { Stage::Walked });
        }
    }

    /// Records that the directory and the root of a picture are written and synced, or the reason of a failed write.
    pub(crate) fn record_close(&mut self, closed: Result<ClosedPicture, String>) {
        if !self.is_at(Duty::ClosePicture) {
            return;
        }
        match closed {
            Ok(closed) => {
                self.attempt_mut().parts.record_close(closed);
                self.enter(Stage::Walked);
            }
            Err(reason) => self.fail(reason.into()),
        }
    }

    /// Records that a checkpointer gives up a part, because another part failed or the checkpoints ended.
    pub(crate) fn part_left(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.parts.record_left();
        }
    }

    /// Fails the attempt, because a part cannot be written. No checkpointer goes on.
    pub(crate) fn part_failed(&mut self, reason: &str) {
        let Some(attempt) = &mut self.attempt else { return };
        attempt.parts.record_failed();
        if self.stage == Stage::Walking {
            self.fail(reason.into());
        }
    }

    /// Records that the reserve is given up. If there was no reserve (`had_any` is false), the attempt fails.
    pub(crate) fn reserve_given_up(&mut self, had_any: bool, seen: &Circumstances) {
        if !self.is_at(Duty::GiveUpReserve) {
            return;
        }
        if had_any {
            self.attempt_mut().gave_up_at = Some(seen.full_tries);
            self.enter(Stage::Walked);
        } else {
            let reason = if let Health::Full(reason) = &seen.health { reason } else { "" };
            self.fail(not_durable(reason));
        }
    }

    /// Records the outcome of replacing the manifest. Returns true if the manifest names the checkpoint.
    pub(crate) fn record_install(
        &mut self,
        result: Result<InstalledCheckpoint, NotInstalled>,
        now_nanos: u64,
    ) -> (bool, Answers) {
        let is_at = self.is_at(Duty::Install);
        match result {
            Ok(installed) => {
                let before = self.installed_number();
                assert!(before < installed.number(), "a later checkpoint replaces an earlier one");
                if is_at {
                    let attempt = self.attempt.as_ref().expect("this stage has an attempt");
                    let report = attempt.report(&installed, now_nanos);
                    self.schedule.record_install(attempt, &report, &installed);
                    self.history.record_install(report);
                }
                // The manifest names the checkpoint, even if a close came first.
                self.installed = Some(installed);
                if is_at {
                    self.enter(Stage::Clearing);
                }
                (true, Answers::default())
            }
            Err(NotInstalled::OldStands(reason)) => {
                if is_at {
                    self.fail(reason.into());
                }
                (false, Answers::default())
            }
            Err(NotInstalled::Unknown(reason)) => (false, self.end(&reason, DurabilityError::Stopped)),
        }
    }

    /// Records that covered files are removed, and ends the attempt. `again` is the next try, in nanoseconds.
    pub(crate) fn record_clear(&mut self, again: Option<u64>, now_nanos: u64) -> Answers {
        self.upkeep.remove_again_nanos = again;
        if !self.is_at(Duty::Clear) {
            return Answers::default();
        }
        let report = self.history.last().cloned().expect("it was installed");
        assert_eq!(report.number, self.installed_number(), "callers hear of the checkpoint they asked for");
        self.history.record_success(now_nanos);
        let attempt = self.leave_attempt();
        Answers { outcomes: vec![(attempt.ticket, Ok(report))], ..Answers::default() }
    }

    /// As [`record_clear`](Self::record_clear), for a repeated removal without an attempt.
    pub(crate) fn removed_again(&mut self, again: Option<u64>) {
        self.upkeep.remove_again_nanos = again;
        if self.is_at(Duty::RemoveAgain) {
            self.enter(Stage::Idle);
        }
    }

    /// Records that the files of the failed attempt are removed, and ends the attempt.
    pub(crate) fn cleaned_up(&mut self, now_nanos: u64) -> Answers {
        if !self.is_at(Duty::CleanUp) {
            return Answers::default();
        }
        let attempt = self.leave_attempt();
        assert!(attempt.parts.are_finished(), "no checkpointer writes");
        let reason = attempt.failure.expect("an attempt that failed says why");
        self.history.record_failure(Arc::clone(&reason), attempt.ticket.progress().bytes, now_nanos);
        let outcome = Err(DurabilityError::CheckpointFailed(Arc::clone(&reason)));
        Answers { outcomes: vec![(attempt.ticket, outcome)], failed: 1, put_off: Some(reason) }
    }
}
