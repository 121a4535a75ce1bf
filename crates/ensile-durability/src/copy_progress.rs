//! How far a copy is: a backup, a restore, or what an archive gives back.
//!
//! Neighbours: `backup` and `recovery::archived` count; the caller of a copy is shown it, and may cancel.

/// What a run is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyPhase {
    /// It has not begun: it waits for a picture of the open database, or until what was committed is in its log.
    Checkpoint,
    /// It copies what the target lacks.
    Copying,
    /// It writes what an archive has behind the state, and reads it once more.
    Archive,
    /// It reads what will count in the target.
    Verifying,
    /// It has ended.
    Ended,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// What it is at.
    pub phase: CopyPhase,
    /// Bytes that the phase is through with; of those that are copied, some were there already.
    pub bytes: u64,
    /// All bytes of the phase.
    pub bytes_total: u64,
    /// Pages that the phase is through with; 0 where files are copied.
    pub pages: u64,
    /// All pages of the phase.
    pub pages_total: u64,
    /// Bytes that were written so far, in all phases.
    pub bytes_written: u64,
    /// How often the copy began anew so far, as its lease was overrun: it is slower than the database changes.
    pub overruns: u64,
}

/// A piece of what an archive has behind a state, which is one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchivePiece {
    /// Bytes that were written.
    pub(crate) written: u64,
    /// Bytes that were read once more.
    pub(crate) read: u64,
    /// About what all pieces come to.
    pub(crate) bytes_total: u64,
}

impl ArchivePiece {
    /// What counts against the rate.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.read
    }
}

impl CopyProgress {
    /// Of a phase of which nothing is known yet.
    #[must_use]
    pub const fn before(phase: CopyPhase) -> Self {
        Self { phase, bytes: 0, bytes_total: 0, pages: 0, pages_total: 0, bytes_written: 0, overruns: 0 }
    }

    /// A phase begins, or begins anew, with so much to do. What was written before stays written.
    pub(crate) fn begin(&mut self, phase: CopyPhase, bytes_total: u64, pages_total: u64) {
        let Self { bytes_written, overruns, .. } = *self;
        *self = Self { bytes_total, pages_total, bytes_written, overruns, ..Self::before(phase) };
    }

    /// The phase is through with more.
    pub(crate) fn add(&mut self, bytes: u64, pages: u64) {
        (self.bytes, self.pages) = (self.bytes + bytes, self.pages + pages);
        // A file may have grown since its length was added up.
        self.bytes_total = self.bytes_total.max(self.bytes);
    }

    /// A piece of what an archive has; the first one begins the phase.
    pub(crate) fn took(&mut self, piece: &ArchivePiece) {
        if self.phase != CopyPhase::Archive {
            self.begin(CopyPhase::Archive, 0, 0);
        }
        self.bytes_total = piece.bytes_total;
        self.bytes_written += piece.written;
        self.add(piece.bytes(), 0);
    }
}
