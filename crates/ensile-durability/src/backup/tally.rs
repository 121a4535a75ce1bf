//! Progress of a copy, and the bytes that count against its rate. Copies of pages and copies of files count alike.
//!
//! Invariant: Bytes written in any phase, and bytes read for verification, count once against the rate.
//!
//! Neighbours: [`super::pages`] and [`super::files`] count. [`super::copy_run`] paces the copy, and reports the
//! progress.

use crate::DurabilityError;
use crate::copy_progress::{ArchivePiece, CopyPhase, CopyProgress};

/// Call-back after each piece of a step with several pieces, with the progress of the run, and the bytes of the piece
/// that count against the rate.
pub(super) type SpendPiece<'s> = dyn FnMut(&CopyProgress, u64) -> Result<(), DurabilityError> + 's;

/// Counts of one run.
#[derive(Clone, Debug)]
pub(super) struct CopyTally {
    progress: CopyProgress,
    /// Bytes read for verification.
    verified: u64,
}

impl CopyTally {
    pub(super) fn new() -> Self {
        Self { progress: CopyProgress::new(CopyPhase::Copying), verified: 0 }
    }

    pub(super) fn progress(&self) -> CopyProgress {
        self.progress
    }

    /// Bytes that count against the rate.
    pub(super) fn paced_bytes(&self) -> u64 {
        self.progress.bytes_written + self.verified
    }

    /// Begins a phase, or begins the phase anew, with these totals. The count of written bytes stays.
    pub(super) fn begin(&mut self, phase: CopyPhase, bytes_total: u64, pages_total: u64) {
        self.progress.begin(phase, bytes_total, pages_total);
    }

    /// Adds bytes and pages that the copy has finished, whether written now or present before.
    pub(super) fn add_copied(&mut self, bytes: u64, pages: u64) {
        assert_eq!(self.progress.phase, CopyPhase::Copying, "it copies");
        self.progress.add(bytes, pages);
    }

    /// Counts a new begin of the copy after an overrun lease.
    pub(super) fn overran(&mut self) {
        assert_eq!(self.progress.phase, CopyPhase::Copying, "N16: a lease is overrun while pages are copied");
        self.progress.overruns += 1;
    }

    /// Counts bytes that the copy has written.
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.progress.bytes_written += bytes;
    }

    /// Adds bytes and pages that were read for verification.
    pub(super) fn add_verified(&mut self, bytes: u64, pages: u64) {
        assert_eq!(self.progress.phase, CopyPhase::Verifying, "it verifies");
        self.verified += bytes;
        self.progress.add(bytes, pages);
    }

    /// Sets the progress to the total at the end of the verification: some bytes may have been read twice or left out.
    pub(super) fn verified_all(&mut self) {
        assert_eq!(self.progress.phase, CopyPhase::Verifying, "it verifies");
        self.progress.bytes = self.progress.bytes_total;
    }

    /// Adds a piece of the entries from an archive.
    pub(super) fn took(&mut self, piece: &ArchivePiece) {
        self.verified += piece.read;
        self.progress.took(piece);
    }

    /// Ends the progress: the copy counts.
    pub(super) fn end(&mut self) {
        let progress = &mut self.progress;
        assert_ne!(progress.phase, CopyPhase::Ended, "a copy ends once");
        (progress.phase, progress.bytes) = (CopyPhase::Ended, progress.bytes_total);
    }
}
