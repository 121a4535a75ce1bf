//! Absent reads that fit several versions: the rest of the graph rules out some of the versions.
//!
//! A reader cannot have seen a version whose successor must come before the reader, nor a version whose writer must
//! come after the reader. Either case rules out the further versions on the same side, so only the two ends of the
//! range are checked. A smaller range gives new edges, and new edges may decide other reads: the passes go on while
//! they help. The method can miss a violation and never invents one.
//!
//! Neighbours: works on ambiguous observations of `reads`, by the edges of `graph`.

use super::graph::{Dependencies, Graph};
use super::reads::{Ambiguous, Matches, Reads};
use super::versions::{Versions, end_of};
use super::writes::{NONE, Writes};
use crate::history::History;

/// Number of passes, each with the edges of the passes before.
const PASSES_MAX: usize = 4;
/// Number of nodes that a search visits before giving up.
const NODES_MAX: usize = 2_000;

/// Decides as many ambiguous reads as possible.
pub(super) fn narrow(
    history: &History,
    writes: &Writes,
    versions: &Versions,
    reads: &mut Reads,
    matches: Matches<'_>,
) {
    for _ in 0..PASSES_MAX {
        if reads.ambiguous.is_empty() {
            return;
        }
        let mut settled = Vec::new();
        let mut left = Vec::new();
        let mut moved = false;
        let dependencies = Dependencies::new(history, writes, versions, reads);
        let mut reach = Reach::new(&dependencies);
        // An existing cycle is reported by its own edges, not by edges that would follow from the cycle.
        if !reach.graph.components().is_empty() {
            return;
        }
        for read in &reads.ambiguous {
            let ends = reach.narrowed(*read, matches);
            moved |= (ends.low, ends.high) != (read.low, read.high);
            if ends.low == ends.high {
                settled.push((ends.reader, ends.low, ends.by));
            } else {
                left.push(ends);
            }
        }
        reads.ambiguous = left;
        reads.settle(settled);
        if !moved {
            return;
        }
    }
}

/// Searches for the forced order of transactions of about the same time.
struct Reach<'r> {
    dependencies: &'r Dependencies<'r>,
    graph: Graph,
    /// Last search that visited each node.
    seen: Vec<u32>,
    searches: u32,
    queue: Vec<u32>,
}

impl<'r> Reach<'r> {
    fn new(dependencies: &'r Dependencies<'r>) -> Self {
        let seen = vec![0; dependencies.nodes()];
        Self { dependencies, graph: dependencies.graph(), seen, searches: 0, queue: Vec::new() }
    }

    fn narrowed(&mut self, mut read: Ambiguous, matches: Matches<'_>) -> Ambiguous {
        let versions = self.dependencies.versions;
        let fits = |version: &u32| read.told.fits(versions.get(*version).value, matches);
        let writer = |version: u32| versions.get(version).writer;
        while read.low < read.high
            && versions.next(read.low).is_some_and(|next| self.must_precede(writer(next), read.reader))
        {
            read.low = (read.low + 1..=read.high).find(fits).unwrap_or(read.high);
        }
        while read.low < read.high && self.must_precede(read.reader, writer(read.high)) {
            read.high = (read.low..read.high).rev().find(fits).unwrap_or(read.low);
        }
        read
    }

    /// True if a way exists, as far as a short search among transactions of the same time can tell.
    fn must_precede(&mut self, before: u32, after: u32) -> bool {
        if before == NONE || after == NONE || before == after {
            return false;
        }
        self.searches += 1;
        self.queue.clear();
        self.queue.push(before);
        // A transaction that began later than `end` comes after `after` in real time, and is not on a way to `after`.
        let end = end_of(self.dependencies.history, after);
        let mut at = 0;
        while at < self.queue.len().min(NODES_MAX) {
            for to in self.graph.from(self.queue[at]) {
                if *to == after {
                    return true;
                }
                let seen = std::mem::replace(&mut self.seen[*to as usize], self.searches);
                if seen != self.searches && self.dependencies.begin_of(*to) <= end {
                    self.queue.push(*to);
                }
            }
            at += 1;
        }
        false
    }
}
