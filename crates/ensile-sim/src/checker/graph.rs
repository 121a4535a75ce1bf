//! The dependency graph: the order of transactions that any serial order with these observations must keep.
//!
//! Real time takes O(n) edges: barriers stand between ends and later begins, each behind the barrier before. A
//! transaction leads to the first barrier after its end, and the last barrier before its begin leads to the
//! transaction. A way between two transactions therefore exists exactly if one ended before the other began. Snapshots
//! belong in the past: real time leads out of snapshots and not into snapshots.
//!
//! Neighbours: `cycles` looks for strongly connected components here and reports cycles.

use super::findings::Summary;
use super::reads::{By, Observation, Reads, Told};
use super::versions::{Versions, end_of};
use super::writes::{NONE, Writes};
use crate::history::{History, Outcome};

/// Basis of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The target wrote this version, and the source wrote the version before.
    Ww(u32),
    /// The source wrote this version, and the target saw this version, or a later version that the target could not
    /// tell apart.
    Wr(u32, By),
    /// The source saw this version, or an earlier version that the source could not tell apart; the target wrote the
    /// next version.
    Rw(u32, By),
    /// A part of the way from an end to a later begin.
    RealTime,
}

/// Barriers of real time.
struct Barriers {
    count: u32,
    /// Begin of each barrier's first follower.
    begins: Vec<u64>,
    /// Per transaction: the first barrier after its end, and the last barrier before its begin.
    after: Vec<u32>,
    before: Vec<u32>,
}

impl Barriers {
    fn new(history: &History, writes: &Writes) -> Self {
        let headers = history.headers();
        let took_place = |at: &u32| writes.took_place[*at as usize];
        let mut begins: Vec<u32> = (0..history.len() as u32).filter(took_place).collect();
        let mut ends = begins.clone();
        begins.sort_by_key(|at| headers[*at as usize].begin);
        ends.sort_by_key(|at| end_of(history, *at));
        let mut barriers = Self {
            count: 0,
            begins: Vec::new(),
            after: vec![NONE; history.len()],
            before: vec![NONE; history.len()],
        };
        let mut ends = ends.into_iter().peekable();
        for at in begins {
            let begin = headers[at as usize].begin;
            let mut ended = false;
            while let Some(over) = ends.next_if(|over| end_of(history, *over) < begin) {
                barriers.after[over as usize] = barriers.count;
                ended = true;
            }
            if ended {
                barriers.begins.push(begin);
                barriers.count += 1;
            }
            if headers[at as usize].outcome != Outcome::Snapshot && barriers.count > 0 {
                barriers.before[at as usize] = barriers.count - 1;
            }
        }
        barriers
    }
}

/// The sources of edges.
pub(super) struct Dependencies<'d> {
    pub(super) history: &'d History,
    pub(super) writes: &'d Writes,
    pub(super) versions: &'d Versions,
    pub(super) reads: &'d Reads,
    barriers: Barriers,
}

impl<'d> Dependencies<'d> {
    pub(super) fn new(
        history: &'d History,
        writes: &'d Writes,
        versions: &'d Versions,
        reads: &'d Reads,
    ) -> Self {
        Self { history, writes, versions, reads, barriers: Barriers::new(history, writes) }
    }

    /// Number of nodes: transactions, then barriers.
    pub(super) fn nodes(&self) -> usize {
        self.history.len() + self.barriers.count as usize
    }

    pub(super) fn is_barrier(&self, node: u32) -> bool {
        node as usize >= self.history.len()
    }

    /// Begin of a transaction, or of a barrier's first follower.
    pub(super) fn begin_of(&self, node: u32) -> u64 {
        match self.history.headers().get(node as usize) {
            Some(header) => header.begin,
            None => self.barriers.begins[node as usize - self.history.len()],
        }
    }

    /// The graph of all edges.
    pub(super) fn graph(&self) -> Graph {
        Graph::new(self.nodes(), |each| self.each_edge(|from, to, _| each(from, to)))
    }

    /// Passes every edge to `edge`.
    pub(super) fn each_edge(&self, mut edge: impl FnMut(u32, u32, Why)) {
        for reader in 0..self.history.len() as u32 {
            for observation in self.reads.of(reader) {
                self.edges_of_read(reader, *observation, &mut edge);
            }
        }
        for read in &self.reads.ambiguous {
            self.wr(read.reader, read.low, read.by, &mut edge);
            self.rw(read.reader, read.high, read.by, &mut edge);
        }
        for (at, pair) in self.versions.placed().windows(2).enumerate() {
            if pair[0].key == pair[1].key && pair[0].writer != NONE && pair[0].writer != pair[1].writer {
                edge(pair[0].writer, pair[1].writer, Why::Ww(at as u32 + 1));
            }
        }
        let base = self.history.len() as u32;
        for transaction in 0..base {
            let after = self.barriers.after[transaction as usize];
            if after != NONE {
                edge(transaction, base + after, Why::RealTime);
            }
            let before = self.barriers.before[transaction as usize];
            if before != NONE {
                edge(base + before, transaction, Why::RealTime);
            }
        }
        for barrier in 1..self.barriers.count {
            edge(base + barrier - 1, base + barrier, Why::RealTime);
        }
    }

    fn edges_of_read(&self, reader: u32, observation: Observation, edge: &mut impl FnMut(u32, u32, Why)) {
        self.wr(reader, observation.version(), observation.by(), edge);
        self.rw(reader, observation.version(), observation.by(), edge);
    }

    fn wr(&self, reader: u32, version: u32, by: By, edge: &mut impl FnMut(u32, u32, Why)) {
        let writer = self.versions.get(version).writer;
        if writer != NONE && writer != reader {
            edge(writer, reader, Why::Wr(version, by));
        }
    }

    fn rw(&self, reader: u32, version: u32, by: By, edge: &mut impl FnMut(u32, u32, Why)) {
        let Some(next) = self.versions.next(version) else { return };
        let writer = self.versions.get(next).writer;
        if writer != reader {
            edge(reader, writer, Why::Rw(version, by));
        }
    }

    /// True if an rw edge comes from a predicate: the next version enters or leaves the result of the scan.
    pub(super) fn is_predicate(&self, version: u32, by: By) -> bool {
        match by {
            By::Key => false,
            By::Match | By::Predicate => true,
            By::Scan => {
                let is_absent = |version| Told::Absent.fits(self.versions.get(version).value, &|_, _| true);
                self.versions.next(version).is_some_and(|next| is_absent(version) != is_absent(next))
            }
        }
    }
}

/// A graph in compressed rows: the targets of each node.
pub(super) struct Graph {
    first: Vec<u32>,
    to: Vec<u32>,
}

impl Graph {
    /// The graph of `nodes` nodes with the edges that `each` passes on; `each` is called twice.
    pub(super) fn new(nodes: usize, each: impl Fn(&mut dyn FnMut(u32, u32))) -> Self {
        let mut first = vec![0u32; nodes + 1];
        each(&mut |from, _| first[from as usize + 1] += 1);
        let mut sum = 0u32;
        for count in &mut first {
            sum = sum.checked_add(*count).unwrap_or_else(|| panic!("a graph of 2^32 edges"));
            *count = sum;
        }
        let mut next = first.clone();
        let mut to = vec![0; sum as usize];
        each(&mut |from, target| {
            to[next[from as usize] as usize] = target;
            next[from as usize] += 1;
        });
        Self { first, to }
    }

    pub(super) fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    /// Targets of a node.
    pub(super) fn from(&self, node: u32) -> &[u32] {
        &self.to[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }

    /// The strongly connected components of more than one node (Tarjan, without recursion).
    pub(super) fn components(&self) -> Vec<Vec<u32>> {
        let mut search = Search {
            graph: self,
            number: vec![0; self.nodes()],
            low: vec![0; self.nodes()],
            count: 0,
            path: Vec::new(),
            open: Vec::new(),
            components: Vec::new(),
        };
        for root in 0..self.nodes() as u32 {
            if search.number[root as usize] == 0 {
                search.run(root);
            }
        }
        search.components
    }
}

/// The state of Tarjan's search.
struct Search<'g> {
    graph: &'g Graph,
    /// Order in which nodes were found, from 1; 0 if not yet found, the largest number once a node's component is
    /// closed.
    number: Vec<u32>,
    /// Least number that the node is known to reach.
    low: Vec<u32>,
    count: u32,
    /// The way to the current node: node, and index of its next edge.
    path: Vec<(u32, u32)>,
    /// Nodes whose component is not closed.
    open: Vec<u32>,
    components: Vec<Vec<u32>>,
}

impl Search<'_> {
    const CLOSED: u32 = u32::MAX;

    fn find(&mut self, node: u32) {
        self.count += 1;
        self.number[node as usize] = self.count;
        self.low[node as usize] = self.count;
        self.open.push(node);
        self.path.push((node, 0));
    }

    fn run(&mut self, root: u32) {
        self.find(root);
        while let Some((node, edge)) = self.path.last_mut() {
            let node = *node;
            let Some(to) = self.graph.from(node).get(*edge as usize).copied() else {
                self.path.pop();
                self.leave(node);
                continue;
            };
            *edge += 1;
            match self.number[to as usize] {
                0 => self.find(to),
                Self::CLOSED => {}
                number => self.low[node as usize] = self.low[node as usize].min(number),
            }
        }
    }

    fn leave(&mut self, node: u32) {
        let low = self.low[node as usize];
        if let Some((parent, _)) = self.path.last() {
            self.low[*parent as usize] = self.low[*parent as usize].min(low);
        }
        if low != self.number[node as usize] {
            return;
        }
        let from = self.open.iter().rposition(|open| *open == node).unwrap_or(0);
        for closed in &self.open[from..] {
            self.number[*closed as usize] = Self::CLOSED;
        }
        let component = self.open.split_off(from);
        if component.len() > 1 {
            self.components.push(component);
        }
    }
}

/// Counts edges by kind into the summary.
pub(super) fn count_edges(dependencies: &Dependencies<'_>, summary: &mut Summary) {
    dependencies.each_edge(|_, _, why| match why {
        Why::Ww(_) => summary.ww += 1,
        Why::Wr(..) => summary.wr += 1,
        Why::Rw(..) => summary.rw += 1,
        Why::RealTime => summary.realtime += 1,
    });
}
