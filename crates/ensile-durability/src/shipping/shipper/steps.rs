//! Steps of the shipping: each step does the next due piece of work, in the order of [`super`]'s diagram.
//!
//! Invariants:
//! - H6: the check for a take-over does not wait for the rate.
//! - A file that cannot be read here holds up no other file.
//!
//! Neighbours: a thread of the owner takes the steps. The files beside this file have the kinds of work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::calls::StepUnderWay;
use super::publication::Published;
use super::state::{CheckpointUnderWay, PAUSE, ShipWork, Shipper, Upload, UploadOf};
use crate::DurabilityError;
use crate::error::unless_missing;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::names::SegmentFile;
use crate::shipping::config::{ShipStep, WhenFenced};
use crate::shipping::state_composition::{Base, parts_of};

/// Nanoseconds until the next attempt at an unreadable log file. Later files are shipped meanwhile.
const PASS_OVER_NANOS: u64 = 10_000_000_000;

impl Shipper {
    /// Takes one step: a piece of a file, or a manifest. The shipping thread calls `step` again and again. The result
    /// tells the time of the next useful step.
    pub fn step(&self) -> ShipStep {
        if self.store.is_forked() || self.log.health().has_ended() || self.check().is_err() {
            return ShipStep::Stopped;
        }
        let Some(_step) = StepUnderWay::begin(self) else { return ShipStep::Stopped };
        let Some(mut work) = self.work.lock_unless_panicked() else { return ShipStep::Stopped };
        let now = self.store.clock().nanos();
        if now < work.not_before {
            return ShipStep::Paced(Duration::from_nanos(work.not_before - now));
        }
        let wait = work.pace.wait(now);
        let is_offered = work.place.as_ref().is_none_or(|place| place.offered.is_some());
        let outcome = match wait.is_zero() {
            true => self.work_on(&mut work, now),
            // The check for a take-over does not wait for the rate (H6).
            false if now >= work.look_at && !is_offered => {
                self.look_for_others(&mut work, now).map(|()| false)
            }
            false => return ShipStep::Paced(wait),
        };
        self.count_waiting(&work);
        match outcome {
            Ok(worked) => {
                if worked && !work.is_clearing && work.passed_over.is_empty() {
                    self.stats.lock().last_error = None;
                }
                if worked {
                    return ShipStep::Worked;
                }
                // The passed-over files are still to be shipped.
                let again = work.passed_over.values().min().map_or(0, |until| until.saturating_sub(now));
                match wait.max(Duration::from_nanos(again)) {
                    Duration::ZERO => ShipStep::Idle,
                    wait => ShipStep::Paced(wait),
                }
            }
            Err(error) => self.record_failure(&mut work, &error, now),
        }
    }

    /// Notes a failed step, and pauses the shipping; for good if the database is fenced.
    fn record_failure(&self, work: &mut ShipWork, error: &DurabilityError, now: u64) -> ShipStep {
        work.not_before = now.saturating_add(PAUSE.as_nanos() as u64);
        let mut stats = self.stats.lock();
        stats.last_error = Some(error.to_string().into());
        let DurabilityError::Fenced { detail } = error else {
            stats.failures += 1;
            return ShipStep::Paced(PAUSE);
        };
        drop(stats);
        (work.log_upload, work.part_upload) = (None, None);
        let store = work.place.as_ref().map(|place| place.store);
        let store = store.or_else(|| self.manifest().ships_to.map(|ships_to| ships_to.store));
        // H6: The folder tells later lives of the fence. If the folder cannot be written, later lives ask the store.
        if let Some(Err(error)) = store.map(|store| self.remember(ShipsTo { store, is_fenced: true })) {
            self.stats.lock().last_error = Some(error.to_string().into());
        }
        self.store.hold().end();
        // The fence is told before the log stops, so that a caller that finds the log stopped learns the reason.
        self.stats.lock().fenced = Some(Arc::clone(detail));
        if self.config.when_fenced == WhenFenced::Stop {
            self.log.stop(&error.to_string());
        }
        ShipStep::Stopped
    }

    /// Does the next due piece of work; false if nothing is due.
    fn work_on(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        work.is_clearing = false;
        if work.place.is_none() {
            self.find_place(work)?;
            return Ok(true);
        }
        if work.place.as_ref().is_some_and(|place| place.offered.is_some()) {
            return self.offer(work, now).map(|()| true);
        }
        // The take-over check and the clearing run by the clock, because shipping may have no end, and the store may be
        // full.
        if now >= work.look_at {
            self.look_for_others(work, now)?;
        }
        if work.place.is_none() {
            return Ok(true);
        }
        work.is_clearing = self.clear(work, now)?;
        if work.is_clearing || self.ship_logs(work, now)? {
            return Ok(true);
        }
        if let Some(upload) = work.part_upload.take() {
            return self.go_on_with_part(work, upload).map(|()| true);
        }
        if self.begin_checkpoint(work)? || self.begin_part(work)? {
            return Ok(true);
        }
        if work.under_way.is_some() && now >= work.ask_at {
            // The store has the whole checkpoint, and no closed log file has a mark of the checkpoint's e_h yet.
            work.ask_at = now.saturating_add(PAUSE.as_nanos() as u64);
            self.log.request_roll();
        }
        Ok(false)
    }

    /// Ships a piece of a closed log file, or installs a manifest; false if neither is due.
    fn ship_logs(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        if let Some(upload) = work.log_upload.take() {
            return self.go_on_with_log(work, upload, now).map(|()| true);
        }
        let closed = self.log.closed_list();
        let lacking = self.unshipped_logs(work, &closed);
        work.passed_over.retain(|_, until| now < *until);
        let next = lacking.iter().find(|closed| !work.passed_over.contains_key(&closed.file)).cloned();
        if let Some(next) = next {
            // `false`: no older state now, because the shipper may first put the missing objects again.
            if now >= work.publish_at && self.publish(work, &closed, false, now)? == Published::Worked {
                return Ok(true);
            }
            let file = next.file;
            let begun = self.begin_log(work, next);
            return begun.map(|()| true).map_err(|error| passed_over(work, file, now, error));
        }
        match self.publish(work, &closed, lacking.is_empty(), now)? {
            Published::Worked => return Ok(true),
            // Only if the manifest names every file, because the next life ignores an unnamed file (H5).
            Published::IsSaid if lacking.is_empty() => self.store.hold().caught_up(),
            Published::IsSaid | Published::Nothing => {}
        }
        Ok(false)
    }

    /// Uploads the next piece of a log file. An unreadable file is passed over for a while.
    fn go_on_with_log(
        &self,
        work: &mut ShipWork,
        mut upload: Upload,
        now: u64,
    ) -> Result<(), DurabilityError> {
        match self.go_on(work, &mut upload) {
            Ok(true) => self.record_upload(work, upload),
            Ok(false) => work.log_upload = Some(upload),
            Err(error) if is_local_failure(&error) => {
                let file = upload.log_file().expect("it is of a log file").file;
                return Err(passed_over(work, file, now, error));
            }
            Err(error) => {
                work.log_upload = Some(upload);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Uploads the next piece of a checkpoint's file. An unreadable file gives up the upload of the checkpoint.
    fn go_on_with_part(&self, work: &mut ShipWork, mut upload: Upload) -> Result<(), DurabilityError> {
        match self.go_on(work, &mut upload) {
            Ok(true) => self.record_upload(work, upload),
            Ok(false) => work.part_upload = Some(upload),
            Err(error) => {
                match is_local_failure(&error) {
                    // Another checkpoint may be installed by now.
                    true => work.under_way = None,
                    false => work.part_upload = Some(upload),
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Opens all files of the installed checkpoint at once, if the store lacks the checkpoint. Returns false if the
    /// step has nothing to begin.
    fn begin_checkpoint(&self, work: &mut ShipWork) -> Result<bool, DurabilityError> {
        // The closed files are listed before the manifest is read: see [`Base::of_life`].
        let closed = self.log.closed_list();
        let listed = self.manifest();
        if let Some(under_way) = &work.under_way {
            // All parts were shipped, and an object of a part is gone from the store since.
            let is_over = under_way.next_part(&work.inventory).is_none();
            let is_lost = is_over && under_way.base.parts(&work.inventory).is_none();
            if !is_over || (under_way.base.checkpoint == listed.checkpoint && !is_lost) {
                return Ok(false);
            }
            work.under_way = None;
        }
        let has_parts = work.base.parts(&work.inventory).is_some();
        if listed.checkpoint == work.base.checkpoint && !work.base.live.is_empty() && has_parts {
            return Ok(false);
        }
        if listed.checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture) {
            return Err(DurabilityError::config(
                "pictures are changed in place and cannot be shipped as files: use fuzzy or cycling checkpoints, or \
                 backups",
            ));
        }
        let mut parts = BTreeMap::new();
        for (part, salt) in parts_of(listed.checkpoint.as_ref()) {
            if work.inventory.parts.get(&part).is_some_and(|shared| shared.salt == salt) {
                continue;
            }
            let name = part.to_string();
            let Some(file) = unless_missing(self.store.disk().open_to_read(&name))? else {
                // If the manifest has changed, the next step looks at the newer checkpoint.
                return match self.manifest().checkpoint == listed.checkpoint {
                    true => {
                        Err(DurabilityError::damaged_file(&name, 0, "it is missing, so it is not shipped"))
                    }
                    false => Ok(true),
                };
            };
            parts.insert(part, (salt, file.into()));
        }
        debug_assert!(
            listed.checkpoint.iter().all(|own| parts.keys().all(|part| own.has_part(*part))),
            "H1: the parts are of the listed checkpoint"
        );
        let base = Base::of_life(listed.checkpoint, &listed.generations, &closed);
        work.under_way = Some(CheckpointUnderWay { base, parts });
        Ok(true)
    }

    /// Begins the upload of the next file of the checkpoint that is under way; false without such a file.
    fn begin_part(&self, work: &mut ShipWork) -> Result<bool, DurabilityError> {
        let Some(under_way) = &work.under_way else { return Ok(false) };
        let Some((part, salt, file)) = under_way.next_part(&work.inventory) else { return Ok(false) };
        debug_assert!(work.part_upload.is_none(), "one file of a checkpoint is under way");
        let bytes = file.len()?;
        work.part_upload = Some(self.upload_of(UploadOf::Part(part), bytes, salt, file));
        Ok(true)
    }

    /// Counts the files that wait to be shipped, and their bytes.
    fn count_waiting(&self, work: &ShipWork) {
        let logs = self.unshipped_logs(work, &self.log.closed_list());
        let (mut files, mut bytes) = (logs.len() as u64, logs.iter().map(|closed| closed.bytes).sum::<u64>());
        let parts = work.under_way.iter().flat_map(|under_way| &under_way.parts);
        for (_, (_, file)) in parts.filter(|(part, _)| !work.inventory.parts.contains_key(*part)) {
            (files, bytes) = (files + 1, bytes + file.len().unwrap_or(0));
        }
        let mut stats = self.stats.lock();
        (stats.waiting_files, stats.waiting_bytes) = (files, bytes);
    }
}

/// True if the disk of this machine has failed, and not the store.
fn is_local_failure(error: &DurabilityError) -> bool {
    matches!(error, DurabilityError::Damaged { .. } | DurabilityError::Disk(_))
}

/// Puts a log file that cannot be read behind the other files for a while. Returns the error.
fn passed_over(work: &mut ShipWork, file: SegmentFile, now: u64, error: DurabilityError) -> DurabilityError {
    if is_local_failure(&error) {
        work.passed_over.insert(file, now.saturating_add(PASS_OVER_NANOS));
    }
    error
}
