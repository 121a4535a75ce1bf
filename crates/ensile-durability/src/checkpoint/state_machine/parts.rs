//! Parts of an attempt: one part for each checkpointer, from the cut to the written files.
//!
//! Invariants:
//! - K1: no part is unfinished when the walk ends.
//! - K4: a part has its share of each range of the turn.
//!
//! Neighbours: `attempt` has the parts; `machine` learns of the end of each part.

use crate::checkpoint::picture::picture_set::ClosedPicture;
use crate::checkpoint::walk::Slice;
use crate::files::checkpoint::writer::PartWritten;

#[derive(Debug)]
pub(super) struct AttemptParts {
    /// Slices of the parts not yet begun, by set of files.
    waiting: Vec<Option<Vec<Vec<Slice>>>>,
    written: Vec<Vec<PartWritten>>,
    /// Number of checkpointers with a part not begun or not ended.
    unfinished: usize,
    closed: Option<ClosedPicture>,
}

impl AttemptParts {
    pub(super) fn new(checkpointers: usize) -> Self {
        assert!(checkpointers > 0, "a checkpointer writes");
        let written = vec![Vec::new(); checkpointers];
        Self { waiting: Vec::new(), written, unfinished: checkpointers, closed: None }
    }

    /// Deals the parts out, and an empty part of `sets` sets to each other checkpointer. Returns the number of slices.
    pub(super) fn deal_out(&mut self, mut parts: Vec<Vec<Vec<Slice>>>, sets: usize) -> u64 {
        let checkpointers = self.written.len();
        assert!(parts.len() <= checkpointers, "a part for each checkpointer");
        parts.resize_with(checkpointers, || vec![Vec::new(); sets]);
        assert!(parts.iter().all(|part| part.len() == sets), "K4: a part has its share of each range");
        assert_eq!(self.unfinished, checkpointers, "no part was begun");
        let slices = parts.iter().flatten().map(Vec::len).sum::<usize>();
        self.waiting = parts.into_iter().map(Some).collect();
        slices as u64
    }

    pub(super) fn take(&mut self, checkpointer: usize) -> Option<Vec<Vec<Slice>>> {
        assert_eq!(self.waiting.len(), self.written.len(), "the parts are dealt out");
        self.waiting[checkpointer].take()
    }

    /// Records a written part with `sets` sets. True if every part has ended.
    pub(super) fn record_written(&mut self, writer: usize, written: Vec<PartWritten>, sets: u64) -> bool {
        assert!(self.waiting[writer].is_none(), "it was begun");
        assert!(self.written[writer].is_empty(), "a part ends once");
        assert_eq!(written.len() as u64, sets, "K4: it has written its share of each range");
        self.written[writer] = written;
        self.record_left();
        self.are_finished()
    }

    pub(super) fn record_left(&mut self) {
        self.unfinished = self.unfinished.checked_sub(1).expect("it was unfinished");
    }

    /// Records that a part cannot be written. Parts not begun count as ended.
    pub(super) fn record_failed(&mut self) {
        let not_begun = self.waiting.iter_mut().filter_map(Option::take).count();
        self.unfinished = self.unfinished.checked_sub(not_begun + 1).expect("they were unfinished");
    }

    /// Counts every part as ended. The call comes before parts are dealt out, or after every part has ended.
    pub(super) fn abandon(&mut self) {
        assert!(self.waiting.is_empty() || self.are_finished(), "no checkpointer writes a part");
        self.unfinished = 0;
    }

    /// True if no checkpointer has a part that is not begun or not ended.
    pub(super) fn are_finished(&self) -> bool {
        assert!(self.unfinished <= self.written.len(), "a checkpointer has one part");
        self.unfinished == 0
    }

    pub(super) fn record_close(&mut self, closed: ClosedPicture) {
        assert!(self.are_finished(), "N12: the root is written after the parts");
        let before = self.closed.replace(closed);
        assert!(before.is_none(), "a picture is closed once");
    }

    /// The closed picture; `None` before the close, and for other kinds.
    pub(super) fn closed_picture(&self) -> Option<&ClosedPicture> {
        self.closed.as_ref()
    }

    pub(super) fn of_set(&self, at: u64) -> Vec<&PartWritten> {
        assert!(self.are_finished(), "K1: every part is written");
        self.written.iter().map(|part| &part[at as usize]).collect()
    }

    pub(super) fn sum(&self, figure: impl Fn(&PartWritten) -> u64) -> u64 {
        assert!(self.are_finished(), "K1: every part is written");
        self.written.iter().flatten().map(figure).sum()
    }

    /// Bytes that the attempt wrote. A picture does not write the kept pages.
    pub(super) fn bytes_written(&self) -> u64 {
        self.closed.as_ref().map_or_else(|| self.sum(|part| part.bytes), |closed| closed.bytes_written)
    }
}
