//! What a recovery leaves to the next life, decided before anything is changed. Pure: what was read goes in, the plan
//! comes out.
//!
//! Invariants:
//! - L4: the next generation begins above every epoch in any block that was seen, and above D of every generation
//!   before it.
//! - L6: it begins above every epoch that an earlier life may have shown, and what it may use is reserved with it.
//! - A generation is kept if an entry of it counts. Numbers of generations come once.
//!
//! Neighbours: `replaying` has read, `merge` chooses and writes what is merged, `finish` carries the plan out.

use std::ops::Range;
use std::time::Duration;

use ensile_base::Epoch;

use super::merge;
use crate::block::{FORMAT, Salt};
use crate::number;
use crate::recoverable::EntryKind;
use crate::store::manifest::{Generation, Making, Manifest};
use crate::store::reserved_epochs;

/// A generation that was read and decided over.
#[derive(Clone, Debug)]
pub(super) struct DecidedGeneration {
    /// It is closed at its D.
    pub(super) generation: Generation,
    /// An entry of it counts.
    pub(super) has_entries: bool,
    /// Bytes of its logs; `None` in a repair, which merges nothing.
    pub(super) log_bytes: Option<u64>,
}

/// What was read and decided over.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    /// The generations that the manifest lists, oldest first; a repair's may be fewer.
    pub(super) generations: Vec<DecidedGeneration>,
    /// The first number of a generation that is free.
    pub(super) number: u64,
    /// The largest epoch in any block.
    pub(super) seen: Epoch,
    /// The last E of the life before, if it was closed cleanly.
    pub(super) ended: Option<Epoch>,
}

/// What the next life begins with, and what becomes of those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The first epoch of the next generation, and the first that is not reserved for it.
    pub(super) first: Epoch,
    pub(super) reserved: Epoch,
    /// The next generation's number.
    pub(super) number: u64,
    /// D of the life before.
    durable: Epoch,
    /// The generations that stay listed.
    kept: Vec<Generation>,
    /// Those that leave the list.
    dropped: Vec<Generation>,
    /// Which of `kept` are to be merged.
    merging: Option<Range<usize>>,
}

impl Plan {
    /// Behind what was recovered with this manifest. `None`: the epochs, or the numbers of generations, are used up.
    pub(super) fn new(decided: Decided, before: &Manifest, interval: Duration) -> Option<Self> {
        let Decided { generations, number, seen, ended } = decided;
        let mut all = generations.iter().map(|decided| &decided.generation);
        assert!(all.clone().all(|generation| generation.durable.is_some()), "L4: each has its D");
        assert!(all.all(|generation| generation.number < number), "numbers come once");
        // A hint of an epoch that was not reserved is damage: see `judgement::reserved`.
        let unused = ended.map_or(before.reserved, Epoch::next);
        assert!(unused <= before.reserved, "L6: {unused} of {}", before.reserved);
        let durable = generations.last().and_then(|last| last.generation.durable).unwrap_or_default();
        let first = if generations.is_empty() { before.reserved } else { seen.next().max(unused) };
        assert!(first > seen, "L4: the next life begins above {seen}");
        let reserved = reserved_epochs::at_open(first, interval)?;
        let (kept, dropped): (Vec<_>, Vec<_>) =
            generations.into_iter().partition(|generation| generation.has_entries);
        let dropped = dropped.into_iter().map(|decided| decided.generation).collect();
        // Of ranges the newest: those of the others are in their checkpoint's line by their numbers.
        let checkpoint = before.checkpoint.as_ref().map(|checkpoint| *checkpoint.generations().end());
        let merging = merge::sources(&kept, checkpoint);
        let kept = kept.into_iter().map(|decided| decided.generation).collect();
        number::next(number)?;
        Some(Self { first, reserved, number, durable, kept, dropped, merging })
    }

    /// The generations that are to be merged into one with the number of this plan; none in most lives.
    pub(super) fn merging(&self) -> &[Generation] {
        self.merging.clone().map_or(&[], |range| &self.kept[range])
    }

    /// They are merged into `generation`, whose file is synced: it is listed in their place.
    pub(super) fn merged(&mut self, generation: Generation) {
        let range = self.merging.take().expect("there was something to merge");
        let sources = &self.kept[range.clone()];
        assert_eq!(generation.number, self.number, "it has a number of its own");
        assert_eq!(
            (generation.first, generation.durable),
            (sources[0].first, sources[sources.len() - 1].durable),
            "L4: it is closed where the last of them was"
        );
        self.dropped.extend(sources.iter().cloned());
        self.kept.splice(range, [generation]);
        self.number += 1;
    }

    /// Does this generation leave the manifest's list?
    pub(super) fn drops(&self, generation: u64) -> bool {
        self.dropped.iter().any(|dropped| dropped.number == generation)
    }

    /// The generations that were decided over, oldest first.
    pub(super) fn decided(&self) -> Vec<Generation> {
        let mut decided: Vec<Generation> = self.kept.iter().chain(&self.dropped).cloned().collect();
        decided.sort_unstable_by_key(|generation| generation.number);
        assert!(decided.iter().all(|generation| generation.durable.is_some()), "L4: each has its D");
        decided
    }

    /// All that have a log stay listed as they are: the archive does not know them yet (A3).
    pub(super) fn keep_all(&mut self) {
        let (with_log, without): (Vec<_>, Vec<_>) =
            self.dropped.drain(..).partition(|generation| generation.logs > 0);
        self.dropped = without;
        self.kept.extend(with_log);
        self.kept.sort_unstable_by_key(|generation| generation.number);
        assert!(
            self.kept.windows(2).all(|pair| pair[0].durable < Some(pair[1].first)),
            "L4: as the manifest had them"
        );
        self.merging = None;
    }

    /// The manifest that lists the next generation behind those that are kept.
    pub(super) fn manifest(&self, before: &Manifest, salt: Salt, entries: EntryKind, logs: u32) -> Manifest {
        assert!(self.kept.iter().all(|kept| kept.durable < Some(self.first)), "L4: epochs grow");
        assert!(self.first < self.reserved, "L6: what it may use is reserved");
        let (number, first, database) = (self.number, self.first, before.identity);
        let (format, durable, spans) = (FORMAT, None, Vec::new());
        let open = Generation { number, first, format, entries, logs, salt, database, durable, spans };
        let generations = self.kept.iter().cloned().chain([open]).collect();
        // A backup that is opened is a database of its own: it begins as the picture is that is installed, and keeps no
        // older ones.
        let made_from = before.made_from.map(|made_from| made_from.opened(self.durable));
        let (state, reserved, kept) = (Making::Created, self.reserved, Vec::new());
        // N23: what a repair gives up is none of its history.
        let lineage = before.lineage_with(self.dropped.iter());
        Manifest { state, reserved, made_from, lineage, kept, generations, ..before.clone() }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
