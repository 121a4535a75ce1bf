//! The checker: finds a serial order that explains a [`History`], or reports anomalies.
//!
//! ```text
//! writes     who wrote which value; which transactions took place
//! chains     lists: what each element was appended behind
//! versions   the versions of each key, in order
//! reads      which version every read saw, own writes apart
//! narrow     absent reads that fit several versions: what the graph rules out is struck off
//! graph      edges: ww, wr, rw, real time; strongly connected components
//! cycles     the most telling cycle of each, by Adya's names
//! findings   anomalies in words: a Report
//! ```
//! `docs/internals/protocols/proof.md` describes the checks and their limits. Sources: Adya, "Weak Consistency" (1999),
//! for the names; Kingsbury and Alvaro, "Elle" (VLDB'20), for lists and for the sparse edges of real time.
//!
//! Neighbours: [`history`](crate::history) has the judged histories; `ensile-base` has TIDs.

mod chains;
mod cycles;
mod findings;
mod graph;
mod narrow;
mod own;
mod reads;
mod versions;
mod words;
mod writes;

pub use findings::{Anomaly, Kind, Report, Summary};

use ensile_base::Tid;

use crate::history::{History, Outcome, Predicate, Value};
use findings::Findings;
use graph::Dependencies;
use reads::{By, Matches, Reads};
use versions::Versions;
use writes::{NONE, Writes};

/// Checks that some serial order explains this history.
///
/// # Errors
/// A [`Report`] of the anomalies.
///
/// # Panics
/// If the history has a scan with a predicate: use [`check_matching`] for such histories.
pub fn check(history: &History) -> Result<Summary, Box<Report>> {
    check_matching(history, |predicate, _| panic!("nobody said which values match {predicate:?}"))
}

/// As [`check`], for histories with predicates: `matches` is true if the predicate matches the value.
///
/// # Errors
/// A [`Report`] of the anomalies.
pub fn check_matching(
    history: &History,
    matches: impl Fn(Predicate, Value) -> bool,
) -> Result<Summary, Box<Report>> {
    let matches: Matches<'_> = &matches;
    let mut findings = Findings::new(history);
    find_lost(history, &mut findings);
    let writes = Writes::collect(history, &mut findings);
    let versions = Versions::order(history, &writes, &mut findings);
    let mut reads = Reads::resolve(history, &writes, &versions, matches, &mut findings);
    narrow::narrow(history, &writes, &versions, &mut reads, matches);
    let dependencies = Dependencies::new(history, &writes, &versions, &reads);
    find_tid_disorder(&dependencies, &mut findings);
    cycles::report(&dependencies, dependencies.graph().components(), &mut findings);
    let ended_as = |outcome| history.headers().iter().filter(|header| header.outcome == outcome).count();
    let mut summary = Summary {
        transactions: history.len(),
        committed: writes.has_effect.iter().filter(|has_effect| **has_effect).count(),
        snapshots: ended_as(Outcome::Snapshot),
        answered: ended_as(Outcome::Answered),
        versions: versions.placed().len() - writes.keys.len(),
        reads: reads.len(),
        ambiguous: reads.ambiguous.len() + reads.undecided,
        ..Summary::default()
    };
    graph::count_edges(&dependencies, &mut summary);
    findings.close(summary)
}

/// Finds transactions that were shown as durable and did not survive.
fn find_lost(history: &History, findings: &mut Findings<'_>) {
    for (at, header) in history.headers().iter().enumerate() {
        if header.acknowledged && header.outcome == Outcome::Lost {
            findings.add(Kind::LostDurable, &[at as u32], |_| {
                format!("T{at} was shown as durable, and the crash took epoch {} back", header.tid.epoch())
            });
        }
    }
}

/// Checks that TIDs are above the TIDs read, and that epochs also follow overwrites. Recovery keeps whole epochs: with
/// another order of epochs a crash could keep an effect without its cause.
fn find_tid_disorder(dependencies: &Dependencies<'_>, findings: &mut Findings<'_>) {
    let Dependencies { history, writes, versions, reads, .. } = dependencies;
    let headers = history.headers();
    for reader in 0..history.len() as u32 {
        let own = &headers[reader as usize];
        if own.outcome != Outcome::Committed || own.tid.bits() == 0 {
            continue;
        }
        // The receipt of a transaction without writes may have a later epoch than the reads (N19): the result waits
        // longer for its durability, and has no effect that a crash could keep.
        let is_lifted = writes.of(reader).is_empty() && own.tid == Tid::first_of(own.tid.epoch());
        for observation in reads.of(reader) {
            let version = versions.get(observation.version());
            let writer = Some(version.writer).filter(|writer| *writer != NONE && *writer != reader);
            let is_row = version.value != writes::ABSENT && observation.by() != By::Predicate;
            let below = writer.is_some_and(|writer| {
                let read = headers[writer as usize].tid;
                match (writes.of(reader).is_empty(), is_row) {
                    (false, true) => own.tid <= read,
                    // The reader's TID is the largest TID that the reader read.
                    (true, true) => own.tid < read,
                    // An absent row shows no TID, but real time gives the epoch.
                    (false, false) => own.tid.epoch() < read.epoch(),
                    (true, false) => false,
                }
            });
            if below {
                let writer = version.writer;
                findings.add(Kind::TidOrder, &[writer, reader], |_| {
                    let key = writes.keys[version.key as usize];
                    format!("T{reader} read key {key} of T{writer}, and its TID {} is not larger", own.tid)
                });
            }
            let next = versions.next(observation.version()).map(|next| versions.get(next).writer);
            let next =
                next.filter(|next| !is_lifted && *next != reader && headers[*next as usize].tid.bits() != 0);
            if let Some(next) = next.filter(|next| headers[*next as usize].tid.epoch() < own.tid.epoch()) {
                findings.add(Kind::EpochOrder, &[reader, next], |_| {
                    let key = writes.keys[version.key as usize];
                    format!("T{reader} read key {key} before T{next} wrote it, and has the later epoch")
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
