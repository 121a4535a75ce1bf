//! Cycles: the most telling cycle of each strongly connected component, named by the kinds of edges.
//!
//! A component is searched for cycles of ever more kinds of edges. The first kind that closes a cycle gives the name,
//! and the shortest cycle found of the kind is reported. Searches are bounded, since a single stale read can make a
//! component of every transaction in between. A bounded search finds a short cycle, perhaps not the shortest.
//!
//! Neighbours: `graph` has the components; `findings` takes the sentences.

use std::collections::VecDeque;

use super::findings::{Findings, Kind};
use super::graph::{Dependencies, Graph, Why};
use super::reads::{By, version_in_words};
use super::writes::NONE;

/// Number of edges that the searches of a component may visit together.
const EDGES_MAX: usize = 20_000_000;
/// Number of start nodes of a search for a short cycle.
const STARTS_MAX: usize = 256;

/// Kinds of edges, as bits.
const WW: u8 = 1;
const WR: u8 = 2;
const RW: u8 = 4;
const RW_PREDICATE: u8 = 8;
const REALTIME: u8 = 16;

#[derive(Clone, Copy)]
struct Edge {
    to: u32,
    class: u8,
    why: Why,
}

/// A component, its nodes numbered anew.
struct Component<'c> {
    dependencies: &'c Dependencies<'c>,
    nodes: Vec<u32>,
    edges: Vec<Vec<Edge>>,
    budget: usize,
}

/// A cycle: nodes of the component, each with the edge to the next node.
type Cycle = Vec<(u32, Edge)>;

/// Reports a cycle of each component.
pub(super) fn report(
    dependencies: &Dependencies<'_>,
    components: Vec<Vec<u32>>,
    findings: &mut Findings<'_>,
) {
    if components.is_empty() {
        return;
    }
    let mut of = vec![(NONE, 0); dependencies.nodes()];
    for (number, nodes) in components.iter().enumerate() {
        for (place, node) in nodes.iter().enumerate() {
            of[*node as usize] = (number as u32, place as u32);
        }
    }
    let mut edges: Vec<Vec<Vec<Edge>>> =
        components.iter().map(|nodes| nodes.iter().map(|_| Vec::new()).collect()).collect();
    dependencies.each_edge(|from, to, why| {
        let ((a, from), (b, to)) = (of[from as usize], of[to as usize]);
        if a == b && a != NONE {
            let class = class(dependencies, why);
            edges[a as usize][from as usize].push(Edge { to, class, why });
        }
    });
    for (nodes, edges) in components.into_iter().zip(edges) {
        Component { dependencies, nodes, edges, budget: EDGES_MAX }.report(findings);
    }
}

fn class(dependencies: &Dependencies<'_>, why: Why) -> u8 {
    match why {
        Why::Ww(_) => WW,
        Why::Wr(..) => WR,
        Why::Rw(version, by) if dependencies.is_predicate(version, by) => RW_PREDICATE,
        Why::Rw(..) => RW,
        Why::RealTime => REALTIME,
    }
}

impl Component<'_> {
    fn report(mut self, findings: &mut Findings<'_>) {
        let Some((kind, cycle)) = self.most_telling() else {
            unreachable!("a strongly connected component has a cycle");
        };
        let kind = if kind == Kind::GSingle && self.is_lost_update(&cycle) { Kind::LostUpdate } else { kind };
        let steps = self.steps(&cycle);
        let transactions: Vec<u32> = steps.iter().map(|(from, ..)| *from).collect();
        findings.add_cycle(kind, &transactions, |_| {
            steps.iter().map(|(from, to, why)| self.sentence(*from, *to, *why)).collect()
        });
    }

    fn most_telling(&mut self) -> Option<(Kind, Cycle)> {
        use Kind::{
            G0, G0Realtime, G1c, G1cRealtime, G2, G2Item, G2ItemRealtime, G2Realtime, GSingle,
            GSingleRealtime,
        };
        let names = [
            [G0, G1c, GSingle, G2Item, G2],
            [G0Realtime, G1cRealtime, GSingleRealtime, G2ItemRealtime, G2Realtime],
        ];
        for ([g0, g1c, g_single, g2_item, g2], time) in names.into_iter().zip([0, REALTIME]) {
            let found = self.shortest(WW | time).map(|cycle| (g0, cycle));
            let found = found.or_else(|| Some((g1c, self.shortest(WW | WR | time)?)));
            let found = found.or_else(|| Some((g_single, self.shortest_with_one_rw(WW | WR | time)?)));
            let found = found.or_else(|| Some((g2_item, self.shortest(WW | WR | RW | time)?)));
            let found = found.or_else(|| Some((g2, self.shortest(WW | WR | RW | RW_PREDICATE | time)?)));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn closed_by(&self, classes: u8) -> Vec<Vec<u32>> {
        let graph = Graph::new(self.nodes.len(), |each| {
            for (from, edges) in self.edges.iter().enumerate() {
                for edge in edges.iter().filter(|edge| edge.class & classes != 0) {
                    each(from as u32, edge.to);
                }
            }
        });
        graph.components()
    }

    /// The shortest cycle of `classes` found by a bounded search.
    fn shortest(&mut self, classes: u8) -> Option<Cycle> {
        let component = self.closed_by(classes).into_iter().min_by_key(Vec::len)?;
        let stride = component.len().div_ceil(STARTS_MAX);
        let mut best: Option<Cycle> = None;
        for start in component.iter().step_by(stride) {
            let found = self.way(*start, *start, classes);
            if let Some(cycle) =
                found.filter(|cycle| best.as_ref().is_none_or(|best| cycle.len() < best.len()))
            {
                best = Some(cycle);
            }
            if best.as_ref().is_some_and(|best| best.len() == 2 || self.budget == 0) {
                break;
            }
        }
        best
    }

    /// The shortest cycle with a single rw edge and otherwise edges of `classes`, found by a bounded search.
    fn shortest_with_one_rw(&mut self, classes: u8) -> Option<Cycle> {
        let mut best: Option<Cycle> = None;
        for from in 0..self.nodes.len() as u32 {
            for at in 0..self.edges[from as usize].len() {
                let edge = self.edges[from as usize][at];
                if edge.class & (RW | RW_PREDICATE) == 0 || self.budget == 0 {
                    continue;
                }
                let Some(mut cycle) = self.way(edge.to, from, classes) else { continue };
                if best.as_ref().is_none_or(|best| cycle.len() + 1 < best.len()) {
                    cycle.insert(0, (from, edge));
                    best = Some(cycle);
                }
            }
        }
        best
    }

    /// The shortest way of at least one edge between two nodes, by breadth.
    fn way(&mut self, from: u32, to: u32, classes: u8) -> Option<Cycle> {
        let mut came: std::collections::HashMap<u32, (u32, Edge)> = std::collections::HashMap::new();
        let mut queue = VecDeque::from([from]);
        'search: while let Some(node) = queue.pop_front() {
            for edge in self.edges[node as usize].iter().filter(|edge| edge.class & classes != 0) {
                self.budget = self.budget.saturating_sub(1);
                if came.contains_key(&edge.to) {
                    continue;
                }
                came.insert(edge.to, (node, *edge));
                if edge.to == to {
                    break 'search;
                }
                queue.push_back(edge.to);
            }
        }
        let mut way = Vec::new();
        let mut at = to;
        loop {
            let (node, edge) = *came.get(&at)?;
            way.push((node, edge));
            at = node;
            if at == from {
                way.reverse();
                return Some(way);
            }
        }
    }

    /// True if the cycle is two edges long and the rw edge comes from a reader that wrote the same key: the reader's
    /// write comes after the write that overwrote the version read.
    fn is_lost_update(&self, cycle: &Cycle) -> bool {
        let rw = cycle.iter().find_map(|(from, edge)| match edge.why {
            Why::Rw(version, _) => Some((self.nodes[*from as usize], version)),
            _ => None,
        });
        let Some((reader, version)) = rw else { return false };
        let key = self.dependencies.versions.get(version).key;
        let writes = self.dependencies.writes;
        let wrote_it = || writes.of(reader).any(|write| writes.writes[write].key == key);
        cycle.len() == 2 && writes.has_effect[reader as usize] && wrote_it()
    }

    /// The cycle between transactions: a way over barriers is one step of real time.
    fn steps(&self, cycle: &Cycle) -> Vec<(u32, u32, Why)> {
        let node = |at: usize| self.nodes[cycle[at % cycle.len()].0 as usize];
        let Some(begin) = (0..cycle.len()).find(|at| !self.dependencies.is_barrier(node(*at))) else {
            unreachable!("barriers alone lead one way");
        };
        let mut steps = Vec::new();
        let mut from = node(begin);
        for at in begin..begin + cycle.len() {
            let to = node(at + 1);
            if !self.dependencies.is_barrier(to) {
                steps.push((from, to, cycle[at % cycle.len()].1.why));
                from = to;
            }
        }
        steps
    }

    fn sentence(&self, from: u32, to: u32, why: Why) -> String {
        let versions = self.dependencies.versions;
        let name = |key: u32| self.dependencies.writes.keys[key as usize];
        let words = |version: u32| {
            let version = versions.get(version);
            version_in_words(version.value, version.writer)
        };
        match why {
            Why::Ww(version) => format!(
                "T{from} wrote key {} before T{to}: {} comes right before {}",
                name(versions.get(version).key),
                words(version - 1),
                words(version)
            ),
            Why::Wr(version, By::Key) => {
                format!(
                    "T{to} saw what T{from} wrote: key {} is {}",
                    name(versions.get(version).key),
                    words(version)
                )
            }
            Why::Wr(version, _) => format!(
                "T{to} scanned what T{from} had written: key {} is {}",
                name(versions.get(version).key),
                words(version)
            ),
            Why::Rw(version, by) => {
                let next = versions.next(version).unwrap_or(version);
                let how = if by == By::Key { "read" } else { "scanned" };
                let key = name(versions.get(version).key);
                format!(
                    "T{from} {how} key {key} before T{to} wrote it: it saw {}, the next version is {}",
                    words(version),
                    words(next)
                )
            }
            Why::RealTime => {
                let headers = self.dependencies.history.headers();
                let (end, begin) = (headers[from as usize].end, headers[to as usize].begin);
                format!("T{from} had ended ({end}) before T{to} began ({begin})")
            }
        }
    }
}
