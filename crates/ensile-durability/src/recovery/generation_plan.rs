//! Plan of the next life, decided before a recovery changes the folder. Pure: facts in, plan out.
//!
//! Invariants:
//! - L4, L6: the next generation begins above every epoch in the blocks, every D, and every epoch that an earlier life
//!   may have shown. The epochs that it may use are reserved with it.
//! - A generation is kept if an entry of the generation counts. A generation number is used once.
//! - K1: the generation in which the installed checkpoint was written, and earlier generations, are never merged.
//! - A merge rewrites a byte only into a file at least a third larger than its old file, or while the file is small.
//!
//! Neighbours: `replay_state` has the facts, `merge` merges, `install_generation` carries the plan out.

use std::ops::Range;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::{MERGED_LOG_BYTES_MAX, UNMERGED_GENERATIONS_MAX};

use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::generation::Generation;
use crate::files::manifest::{Making, Manifest};
use crate::number;
use crate::recoverable::EntryKind;
use crate::store::reserved_epochs;

/// Largest ratio of a generation's bytes to the bytes of the younger generations at which the generation joins the
/// merge. The rewritten bytes then stand in a file that is larger by a third at least.
const GROWTH: u64 = 3;
/// Smallest size in bytes that `GROWTH` is applied to: for smaller sizes, the syncs of an open take most of the time.
const SMALL_BYTES: u64 = 16 << 10;

// If every generation has more than `GROWTH` times the bytes of all younger generations, the limit is not reached.
const _: () = assert!(SMALL_BYTES * (GROWTH + 1).pow(UNMERGED_GENERATIONS_MAX as u32) > MERGED_LOG_BYTES_MAX);

#[derive(Clone, Debug)]
pub(super) struct DecidedGeneration {
    /// Generation, closed at its D.
    pub(super) generation: Generation,
    pub(super) has_entries: bool,
    /// Bytes of the generation's logs; `None` in a repair, because a repair merges nothing.
    pub(super) log_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Decided {
    /// Generations that the manifest lists, oldest first; a repair may have fewer.
    pub(super) generations: Vec<DecidedGeneration>,
    /// First free generation number.
    pub(super) number: u64,
    /// Largest epoch in the blocks.
    pub(super) seen: Epoch,
    /// Last E of the previous life, if that life was closed cleanly.
    pub(super) ended: Option<Epoch>,
}

/// Beginning of the next life, and fate of the earlier generations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// First epoch of the next generation, and first epoch that is not reserved for that generation.
    pub(super) first: Epoch,
    pub(super) reserved: Epoch,
    pub(super) number: u64,
    /// D of the previous life.
    durable: Epoch,
    /// Generations that stay listed.
    kept: Vec<Generation>,
    /// Generations that the next manifest does not list.
    dropped: Vec<Generation>,
    /// Range of `kept` to be merged.
    merging: Option<Range<usize>>,
}

impl Plan {
    /// Plans the life after a recovery of a folder with the manifest `before`. `None` if epochs or numbers are used up.
    pub(super) fn new(decided: Decided, before: &Manifest, interval: Duration) -> Option<Self> {
        let Decided { generations, number, seen, ended } = decided;
        let mut all = generations.iter().map(|decided| &decided.generation);
        assert!(all.clone().all(|generation| generation.durable.is_some()), "L4: each has its D");
        assert!(all.all(|generation| generation.number < number), "numbers come once");
        // A hint of an unreserved epoch is damage: see `validation::check_reserved_epochs`.
        let unused = ended.map_or(before.reserved, Epoch::next);
        assert!(unused <= before.reserved, "L6: {unused} of {}", before.reserved);
        let durable = generations.last().and_then(|last| last.generation.durable).unwrap_or_default();
        let first = if generations.is_empty() { before.reserved } else { seen.next().max(unused) };
        assert!(first > seen, "L4: the next life begins above {seen}");
        let reserved = reserved_epochs::end_for_open(first, interval)?;
        let (kept, dropped): (Vec<_>, Vec<_>) =
            generations.into_iter().partition(|generation| generation.has_entries);
        let dropped = dropped.into_iter().map(|decided| decided.generation).collect();
        // Of a checkpoint by ranges the newest generation counts: its line names the generations of older ranges.
        let checkpoint = before.checkpoint.as_ref().map(|checkpoint| *checkpoint.generations().end());
        let merging = merge_range(&kept, checkpoint);
        let kept = kept.into_iter().map(|decided| decided.generation).collect();
        number::next(number)?;
        Some(Self { first, reserved, number, durable, kept, dropped, merging })
    }

    /// Generations to be merged into a generation with this plan's number; empty in most lives.
    pub(super) fn merge_sources(&self) -> &[Generation] {
        self.merging.clone().map_or(&[], |range| &self.kept[range])
    }

    /// Replaces the merged generations by `generation` in the list. The file of `generation` is synced.
    pub(super) fn replace_merged(&mut self, generation: Generation) {
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

    /// True if the next manifest does not list this generation.
    pub(super) fn drops(&self, generation: u64) -> bool {
        self.dropped.iter().any(|dropped| dropped.number == generation)
    }

    pub(super) fn decided_generations(&self) -> Vec<Generation> {
        let mut decided: Vec<Generation> = self.kept.iter().chain(&self.dropped).cloned().collect();
        decided.sort_unstable_by_key(|generation| generation.number);
        assert!(decided.iter().all(|generation| generation.durable.is_some()), "L4: each has its D");
        decided
    }

    /// Keeps every generation with a log listed as is, because the archive does not know the generations yet (A3).
    pub(super) fn keep_all(&mut self) {
        let (with_log, without): (Vec<_>, Vec<_>) =
            self.dropped.drain(..).partition(|generation| generation.logs > 0);
        self.dropped = without;
        self.kept.extend(with_log);
        self.kept.sort_unstable_by_key(|generation| generation.number);
        assert!(self.kept.windows(2).all(|pair| pair[0].durable < Some(pair[1].first)), "L4: as before");
        self.merging = None;
    }

    /// Manifest that lists the next generation after the kept generations.
    pub(super) fn manifest(&self, before: &Manifest, salt: Salt, entries: EntryKind, logs: u32) -> Manifest {
        assert!(self.kept.iter().all(|kept| kept.durable < Some(self.first)), "L4: epochs grow");
        assert!(self.first < self.reserved, "L6: what it may use is reserved");
        let (number, first, database) = (self.number, self.first, before.identity);
        let (format, durable, spans) = (FORMAT, None, Vec::new());
        let open = Generation { number, first, format, entries, logs, salt, database, durable, spans };
        let generations = self.kept.iter().cloned().chain([open]).collect();
        // An opened backup is a database that begins with the installed picture, without older pictures.
        let made_from = before.made_from.map(|made_from| made_from.after_recovery(self.durable));
        let (state, reserved, kept) = (Making::Created, self.reserved, Vec::new());
        // N23: generations that a repair gives up are not in the history.
        let lineage = before.lineage_with(self.dropped.iter());
        Manifest { state, reserved, made_from, lineage, kept, generations, ..before.clone() }
    }
}

/// Index of the first generation to merge, from sizes in bytes, oldest first; `None` if the generations are few enough.
fn choose(bytes: &[u64]) -> Option<usize> {
    // Only the youngest generations are candidates, as many as fit into one file.
    let (mut start, mut total) = (bytes.len(), 0);
    while start > 0 && total + bytes[start - 1] <= MERGED_LOG_BYTES_MAX {
        start -= 1;
        total += bytes[start];
    }
    if bytes.len() - start <= UNMERGED_GENERATIONS_MAX {
        return None;
    }
    let mut younger = total;
    let joins = |at: &usize| {
        younger -= bytes[*at];
        bytes[*at] <= GROWTH * younger.max(SMALL_BYTES)
    };
    let from = (start..bytes.len() - 1).find(joins);
    assert!(from.is_none_or(|from| bytes[from..].iter().sum::<u64>() <= MERGED_LOG_BYTES_MAX), "one file");
    from
}

/// Range of the generations to merge, if any. `checkpoint` is the number of the installed checkpoint's generation.
fn merge_range(generations: &[DecidedGeneration], checkpoint: Option<u64>) -> Option<Range<usize>> {
    let kind = generations.last()?.generation.entries;
    let bytes_of = |DecidedGeneration { generation, log_bytes, .. }: &DecidedGeneration| {
        let is_after = checkpoint.is_none_or(|checkpoint| generation.number > checkpoint);
        log_bytes.filter(|_| is_after && generation.entries == kind)
    };
    let mut bytes: Vec<u64> = generations.iter().rev().map_while(bytes_of).collect();
    bytes.reverse();
    Some(generations.len() - bytes.len() + choose(&bytes)?..generations.len())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
