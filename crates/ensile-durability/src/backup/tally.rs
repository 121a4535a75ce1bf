//! How far a copy is, and what of its rate it has used: counted alike by copies of pages and of files.
//!
//! Invariant: what is written, in any phase, and what is read to verify it count against the rate, once each.
//!
//! Neighbours: [`super::pages`] and [`super::files`] count; [`super::CopyRun`] paces them, and shows the progress.

use crate::copy_progress::{ArchivePiece, CopyPhase, CopyProgress};

/// The counts of one run.
#[derive(Clone, Debug)]
pub(super) struct CopyTally {
    progress: CopyProgress,
    /// Bytes that were read to verify.
    verified: u64,
}

impl CopyTally {
    pub(super) fn new() -> Self {
        Self { progress: CopyProgress::before(CopyPhase::Copying), verified: 0 }
    }

    pub(super) fn progress(&self) -> CopyProgress {
        self.progress
    }

    /// Bytes that count against the rate.
    pub(super) fn spent(&self) -> u64 {
        self.progress.bytes_written + self.verified
    }

    /// A phase begins, or begins anew, with so much to do. What was written before stays written.
    pub(super) fn begin(&mut self, phase: CopyPhase, bytes_total: u64, pages_total: u64) {
        self.progress.begin(phase, bytes_total, pages_total);
    }

    /// Bytes and pages that the copy is through with, whether they were written or were there.
    pub(super) fn copied(&mut self, bytes: u64, pages: u64) {
        assert_eq!(self.progress.phase, CopyPhase::Copying, "it copies");
        self.progress.add(bytes, pages);
    }

    /// The copy begins anew, as its lease was overrun.
    pub(super) fn overran(&mut self) {
        self.progress.overruns += 1;
    }

    pub(super) fn wrote(&mut self, bytes: u64) {
        self.progress.bytes_written += bytes;
    }

    /// Bytes and pages that were read to verify.
    pub(super) fn verified(&mut self, bytes: u64, pages: u64) {
        assert_eq!(self.progress.phase, CopyPhase::Verifying, "it verifies");
        self.verified += bytes;
        self.progress.add(bytes, pages);
    }

    /// Everything is verified, whatever was read twice or left out.
    pub(super) fn verified_all(&mut self) {
        assert_eq!(self.progress.phase, CopyPhase::Verifying, "it verifies");
        self.progress.bytes = self.progress.bytes_total;
    }

    /// A piece of what an archive has.
    pub(super) fn took(&mut self, piece: &ArchivePiece) {
        self.verified += piece.read;
        self.progress.took(piece);
    }

    /// It counts.
    pub(super) fn end(&mut self) {
        let progress = &mut self.progress;
        (progress.phase, progress.bytes) = (CopyPhase::Ended, progress.bytes_total);
    }
}
