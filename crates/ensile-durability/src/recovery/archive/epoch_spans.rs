//! Epochs that an archive can restore: the epochs whose entries are all in the archive. Pure.
//!
//! ```text
//! log 0   [file 0][file 1]        [file 3]     its spans: (60, 64], (67, 70]: file 2 is missing
//! log 1   [file 0 .. file 1 .. ]               (60, 69]
//! both                                         (60, 64], (67, 69]
//! ```
//! A *span* (a, b] of a log is a series of consecutive files with every entry of an epoch above a, up to b: from the
//! largest epoch of the earlier files to the last mark of the series (L1). A2: a range never crosses a missing file,
//! nor the end of an incomplete generation. L4: between two generations no epoch counts, so a range continues there.
//!
//! Neighbours: `archive_contents` reads the files; a restore asks if a picture and an epoch are in one range.

use ensile_base::Epoch;

/// Epochs above `after`, up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochSpan {
    /// Epoch before the span. Entries up to this epoch are not needed, or a picture covers them.
    pub after: Epoch,
    /// Last epoch of the span.
    pub to: Epoch,
}

impl EpochSpan {
    fn and(self, other: Self) -> Option<Self> {
        let both = Self { after: self.after.max(other.after), to: self.to.min(other.to) };
        (both.after <= both.to).then_some(both)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GenerationSpans {
    pub(super) first: Epoch,
    pub(super) durable: Option<Epoch>,
    /// Spans of all logs together, in order.
    pub(super) spans: Vec<EpochSpan>,
}

impl GenerationSpans {
    /// Spans of a generation whose logs have these spans, in order.
    pub(super) fn from_log_spans(first: Epoch, durable: Option<Epoch>, logs: &[Vec<EpochSpan>]) -> Self {
        assert!(!logs.is_empty(), "D is the minimum over all logs");
        let all = EpochSpan { after: first.previous(), to: durable.unwrap_or(Epoch::MAX) };
        let spans = logs.iter().fold(vec![all], |before, log| {
            let with = |one: &EpochSpan| log.iter().filter_map(|span| one.and(*span)).collect::<Vec<_>>();
            before.iter().flat_map(with).collect()
        });
        assert!(spans.iter().all(|span| span.to <= all.to), "L4: nothing above D counts");
        Self { first, durable, spans }
    }

    /// True if the archive has the generation to its end.
    fn is_ended(&self) -> bool {
        self.durable.is_some_and(|durable| self.spans.last().is_some_and(|last| last.to >= durable))
    }
}

/// Ranges of an archive that begins after `from`: see [`super::ArchiveFacts::ranges`].
pub(super) fn ranges(from: Epoch, generations: &[GenerationSpans]) -> Vec<EpochSpan> {
    let mut ranges = vec![EpochSpan { after: from, to: from }];
    // True if the last range reaches the beginning of the next generation.
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
