//! The verdict over one generation: its D, what was torn, or that it is damaged (L5). Pure: chains in, decision out.
//!
//! | generation | a log is missing or empty | its chain ends below a D that was shown | bytes behind the chain's end |
//! |---|---|---|---|
//! | closed (D in the manifest) | damaged | damaged | void since its recovery: ignored |
//! | open | damaged | damaged | torn tail: cut and reported |
//!
//! "A D that was shown": the manifest's for a closed generation; for the open one the largest published D in any intact
//! block of any of its logs, behind a gap too, or the hint's. After a clean close the hint also counts each log's blocks: a
//! chain with fewer is damaged. A published D was worked out from synced marks of all logs, so a crash
//! cannot leave a log that is whole for less: something else took bytes away. So too where a later block of a log shows that what
//! is missing from its chain was synced. A listed log has at least its first mark.
//!
//! Neighbours: `chain` reads, `recovery` acts.

use ensile_base::Epoch;
use ensile_base::planted::{Bug, is_planted};

use super::TornTail;
use super::chain::Chain;
use crate::DurabilityError;
use crate::store::hint::Hint;
use crate::store::manifest::Generation;

/// What recovery does with a generation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Entries of epochs up to this count.
    pub(super) durable: Epoch,
    pub(super) torn: Vec<TornTail>,
}

/// Decides over a generation, whose logs all have a chain here.
pub(super) fn decide(
    generation: &Generation,
    chains: &[Chain],
    hint: Option<&Hint>,
) -> Result<Verdict, DurabilityError> {
    debug_assert_eq!(chains.len(), generation.logs as usize);
    // Its first mark was synced before the manifest listed it (L3): a crash cannot leave it without one.
    if let Some(empty) = chains.iter().find(|chain| chain.links.is_empty()) {
        let detail = format!("{}; a listed log begins with a mark", empty.end.detail);
        return Err(DurabilityError::damaged(&empty.end_file(), 0, detail));
    }
    let shortest = chains.iter().min_by_key(|chain| chain.mark).expect("a generation has logs");
    let published = chains.iter().map(|chain| chain.published).max();
    let published = published.filter(|_| !is_planted(Bug::PublishedIgnored));
    let hinted = hint.map(|hint| hint.durable);
    let shown = generation.durable.or(published.max(hinted)).unwrap_or_default();
    if shortest.mark < shown {
        let detail = format!(
            "{}; epoch {shown} was durable, but this log is whole up to epoch {} only",
            shortest.end.detail, shortest.mark
        );
        return Err(DurabilityError::damaged(&shortest.end_file(), shortest.end.offset, detail));
    }
    // An earlier recovery has decided over a closed one, and what stands behind its D is void.
    let is_open = generation.durable.is_none();
    if let Some(lost) = chains.iter().filter(|_| is_open).find_map(|chain| chain.lost.as_ref()) {
        let detail = format!("{}; a later block of this log was written after it was synced", lost.detail);
        return Err(DurabilityError::damaged(&lost.file.to_string(), lost.offset, detail));
    }
    let ends = hint.filter(|_| is_open).map(|hint| &hint.closed[..]).unwrap_or_default();
    if let Some((cut, blocks)) = chains.iter().zip(ends).find(|(chain, blocks)| chain.blocks < **blocks) {
        let detail = format!("{}; the database was closed with {blocks} blocks in this log", cut.end.detail);
        return Err(DurabilityError::damaged(&cut.end_file(), cut.end.offset, detail));
    }
    if let Some(durable) = generation.durable {
        if is_planted(Bug::DiscardedReplayed) {
            return Ok(Verdict {
                durable: chains.iter().map(|chain| chain.seen).max().unwrap_or_default(),
                torn: Vec::new(),
            });
        }
        return Ok(Verdict { durable, torn: Vec::new() });
    }
    let torn =
        chains.iter().filter(|chain| chain.tail.bytes > 0 || chain.lacks_next()).map(|chain| TornTail {
            file: chain.end_file(),
            offset: chain.end.offset,
            bytes: chain.tail.bytes,
            epochs: chain.tail.epochs,
            detail: if chain.lacks_next() { "the file behind it is missing" } else { chain.end.detail },
        });
    // Every generation begins with everything below its first epoch durable, entries or not.
    let durable = shortest.mark.max(generation.first.previous());
    Ok(Verdict { durable, torn: torn.collect() })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
