//! What an archive can give back: the epochs of which every entry is in it. Pure.
//!
//! ```text
//! log 0   [file 0][file 1]        [file 3]     its spans: (60, 64], (67, 70]: file 2 is missing
//! log 1   [file 0 .. file 1 .. ]               (60, 69]
//! both                                         (60, 64], (67, 69]
//! ```
//! A *span* (a, b] of a log: every entry of it with an epoch above a, up to b, is in files that follow each other. It
//! begins at the largest epoch of what stands before them, and ends at their last mark (L1).
//!
//! Invariants:
//! - A2: a range never goes over a file that is missing, nor over the end of a generation that is not here as a whole.
//! - L4: between two generations nothing counts, so a range goes on there.
//!
//! Neighbours: `archived` reads the files; a restore asks whether a picture and an epoch are in one range.

use ensile_base::Epoch;

/// Epochs above `after`, up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochSpan {
    /// What has an epoch up to this one is not needed, or is covered by a picture.
    pub after: Epoch,
    /// The last one.
    pub to: Epoch,
}

impl EpochSpan {
    /// What two spans have in common.
    fn and(self, other: Self) -> Option<Self> {
        let both = Self { after: self.after.max(other.after), to: self.to.min(other.to) };
        (both.after <= both.to).then_some(both)
    }
}

/// The epochs of a generation, and what the archive has of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GenerationSpans {
    pub(super) first: Epoch,
    /// Its D, if it has ended.
    pub(super) durable: Option<Epoch>,
    /// In order, of all logs together.
    pub(super) spans: Vec<EpochSpan>,
}

impl GenerationSpans {
    /// Of a generation whose logs have these spans each, in order.
    pub(super) fn of(first: Epoch, durable: Option<Epoch>, logs: &[Vec<EpochSpan>]) -> Self {
        assert!(!logs.is_empty(), "D is the minimum over all logs");
        let all = EpochSpan { after: first.previous(), to: durable.unwrap_or(Epoch::MAX) };
        let spans = logs.iter().fold(vec![all], |before, log| {
            let with = |one: &EpochSpan| log.iter().filter_map(|span| one.and(*span)).collect::<Vec<_>>();
            before.iter().flat_map(with).collect()
        });
        assert!(
            spans.iter().all(|span| Some(span.to) <= durable.or(Some(Epoch::MAX))),
            "L4: nothing above D counts"
        );
        Self { first, durable, spans }
    }

    /// Is all here, to its end?
    fn is_ended(&self) -> bool {
        self.durable.is_some_and(|durable| self.spans.last().is_some_and(|last| last.to >= durable))
    }
}

/// The ranges of an archive that begins behind `from`: a picture at the end of an epoch of a range, its `after`
/// included, can be brought to every later epoch of the same range that was not discarded.
pub(super) fn ranges(from: Epoch, generations: &[GenerationSpans]) -> Vec<EpochSpan> {
    let mut ranges = vec![EpochSpan { after: from, to: from }];
    // Whether the last range holds all up to where the next generation begins.
    let mut goes_on = true;
    for generation in generations {
        let mut spans = generation.spans.iter();
        let last = ranges.last_mut().expect("there is one");
        if let Some(first) = spans.clone().next()
            && goes_on
            && first.after <= last.to.max(generation.first.previous())
        {
            last.to = last.to.max(first.to);
            spans.next();
        }
        ranges.extend(spans.copied());
        goes_on = generation.is_ended();
    }
    ranges.retain(|range| range.after < range.to);
    assert!(ranges.windows(2).all(|pair| pair[0].to < pair[1].to), "A2: in order");
    ranges
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
