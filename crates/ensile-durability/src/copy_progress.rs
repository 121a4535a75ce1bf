//! Progress of a copy: a backup, a restore, or the log of an archive.
//!
//! Neighbours: `backup` and `recovery::archive` count the bytes; the caller of a copy reads the progress, and may
//! cancel.

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyPhase {
    /// The run has not begun: it waits for a picture of the open database, or until the log has the committed entries.
    Checkpoint,
    /// The run copies the files and pages that the target lacks.
    Copying,
    /// The run writes the archive's log after the state, and reads the log once more.
    Archive,
    /// The run reads every byte that the target will have, and checks the checksums.
    Verifying,
    /// The run has ended.
    Ended,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Present phase.
    pub phase: CopyPhase,
    /// Completed bytes of the phase; includes bytes that the target had before the copy.
    pub bytes: u64,
    /// Total bytes of the phase.
    pub bytes_total: u64,
    /// Completed pages of the phase; 0 for a copy of files.
    pub pages: u64,
    /// Total pages of the phase.
    pub pages_total: u64,
    /// Bytes written so far, in all phases.
    pub bytes_written: u64,
    /// Number of restarts after an overrun lease: the copy is slower than the changes of the database.
    pub overruns: u64,
}

/// A piece of work on the archive's log. The whole log is one step of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchivePiece {
    pub(crate) written: u64,
    /// Bytes read again after their write.
    pub(crate) read: u64,
    /// Approximate bytes of all pieces.
    pub(crate) bytes_total: u64,
}

impl ArchivePiece {
    /// Bytes that count against the rate.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.read
    }
}

impl CopyProgress {
    /// Progress of a phase before its amount of work is known.
    #[must_use]
    pub const fn new(phase: CopyPhase) -> Self {
        Self { phase, bytes: 0, bytes_total: 0, pages: 0, pages_total: 0, bytes_written: 0, overruns: 0 }
    }

    /// Begins or restarts a phase with this amount of work. Earlier written bytes stay in the count.
    pub(crate) fn begin(&mut self, phase: CopyPhase, bytes_total: u64, pages_total: u64) {
        let Self { bytes_written, overruns, .. } = *self;
        *self = Self { bytes_total, pages_total, bytes_written, overruns, ..Self::new(phase) };
    }

    /// Adds completed bytes and pages to the phase.
    pub(crate) fn add(&mut self, bytes: u64, pages: u64) {
        (self.bytes, self.pages) = (self.bytes + bytes, self.pages + pages);
        // A file may have grown after the sum of the lengths.
        self.bytes_total = self.bytes_total.max(self.bytes);
    }

    /// Adds a piece of an archive; the first piece begins the phase.
    pub(crate) fn took(&mut self, piece: &ArchivePiece) {
        if self.phase != CopyPhase::Archive {
            self.begin(CopyPhase::Archive, 0, 0);
        }
        self.bytes_total = piece.bytes_total;
        self.bytes_written += piece.written;
        self.add(piece.bytes(), 0);
    }
}
