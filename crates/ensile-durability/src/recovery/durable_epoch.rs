//! Verdict over one generation: its D and torn tails, or its damage (L5). The verdict is pure: chains in, decision out.
//!
//! | generation | a log is missing or empty | its chain ends below a D that was shown | bytes behind the chain's end |
//! |---|---|---|---|
//! | closed (D in the manifest) | damaged | damaged | discarded since its recovery: ignored |
//! | open | damaged | damaged | torn tail: cut and reported |
//!
//! The shown D of a closed generation is the manifest's D; of the open one the largest published D in intact blocks,
//! behind a gap too, or the hint's D. After a clean close the hint also counts the blocks of each log. A log that a
//! later block shows to lack synced blocks is damaged too.
//!
//! A generation without a log has the D of its picture (N18), or before. A larger hint is of a later manifest.
//!
//! Neighbours: `chain` puts the logs together; `validation` calls; an open, an examination and a repair act on D.

use ensile_base::Epoch;

use super::chain::{Chain, Lost};
use super::report::TornTail;
use crate::files::hint::Hint;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::{CheckpointShare, InstalledCheckpoint};
use crate::files::names::MANIFEST;
use crate::{DurabilityError, Result};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Last epoch whose entries count.
    pub(super) durable: Epoch,
    /// Torn tails to cut and report; empty for a closed generation.
    pub(super) torn: Vec<TornTail>,
    /// Epochs above D that the marks of some logs cover, but not the marks of all logs.
    pub(super) unfinished: Option<(Epoch, Epoch)>,
}

/// Decides D of a generation with logs, from a chain for every log. `hint` is the hint of this generation, if usable.
/// The errors are findings of damage: at most one for each log, and at least one in total.
pub(super) fn decide(
    generation: &Generation,
    chains: &[Chain],
    hint: Option<&Hint>,
) -> Result<Verdict, Vec<DurabilityError>> {
    assert_eq!(chains.len(), generation.logs as usize, "D is the minimum over all logs");
    assert!(!chains.is_empty(), "without a log a picture decides");
    // The first mark was synced before the manifest listed the log (L3): no crash leaves a log without a mark.
    let empty = |chain: &Chain| {
        let detail = format!("{}; a listed log begins with a mark", chain.end.detail);
        chain.links.is_empty().then(|| chain.end.damage_error(detail))
    };
    all_or(chains.iter().filter_map(empty))?;
    let mut by_marks: Vec<&Chain> = chains.iter().collect();
    by_marks.sort_by_key(|chain| chain.mark);
    let shown = proven_durable_epoch(generation, chains, hint);
    let short = |chain: &&Chain| {
        let detail = format!(
            "{}; epoch {shown} was durable, but this log is whole up to epoch {} only",
            chain.end.detail, chain.mark
        );
        (chain.mark < shown).then(|| chain.end.damage_error(detail))
    };
    // An earlier recovery has decided over a closed generation, and bytes behind its D are discarded.
    let is_open = generation.durable.is_none();
    let lost = |chain: &Chain| {
        let Lost { end, why } = chain.lost.as_ref().filter(|_| is_open)?;
        Some(end.damage_error(format!("{}; {why}", end.detail)))
    };
    let found: Vec<_> = by_marks.iter().filter_map(short).collect();
    let more = chains.iter().filter(|chain| chain.mark >= shown).filter_map(lost);
    all_or(found.into_iter().chain(more))?;
    let ends = hint.filter(|_| is_open).map(|hint| &hint.closed[..]).unwrap_or_default();
    all_or(chains.iter().zip(ends).filter(|(chain, blocks)| chain.blocks < **blocks).map(
        |(cut, blocks)| {
            let detail =
                format!("{}; the database was closed with {blocks} blocks in this log", cut.end.detail);
            cut.end.damage_error(detail)
        },
    ))?;
    if let Some(durable) = generation.durable {
        return Ok(Verdict { durable, torn: Vec::new(), unfinished: None });
    }
    let torn =
        chains.iter().filter(|chain| chain.tail.bytes > 0 || chain.lacks_next()).map(|chain| TornTail {
            file: chain.end.file.to_string(),
            offset: chain.end.offset,
            bytes: chain.tail.bytes,
            epochs: chain.tail.epochs,
            detail: if chain.lacks_next() { "the file behind it is missing" } else { chain.end.detail },
        });
    // At the beginning of a generation, every epoch below its first epoch is durable, with or without entries.
    let durable = by_marks.first().map_or(Epoch::ZERO, |log| log.mark).max(generation.first.previous());
    assert!(durable >= shown, "L5: nothing that was shown to be durable is given up");
    // If a log lost blocks without a trace of its own, the marks of the other logs show the loss.
    let longest = by_marks.last().map_or(Epoch::ZERO, |longest| longest.mark);
    let unfinished = (longest > durable).then(|| (durable.next(), longest));
    Ok(Verdict { durable, torn: torn.collect(), unfinished })
}

/// Decides over a generation without a log. `picture` is the picture installed in the generation, if any.
pub(super) fn decide_without_log(
    generation: &Generation,
    picture: Option<&InstalledCheckpoint>,
    hint: Option<&Hint>,
) -> Result<Verdict> {
    assert_eq!((generation.logs, generation.durable), (0, None), "only an open generation has no log");
    assert!(picture.is_none_or(InstalledCheckpoint::is_picture), "K1: a fuzzy checkpoint needs a log");
    let durable = picture.map_or(generation.first.previous(), InstalledCheckpoint::durable_min);
    if let Some(hint) = hint.filter(|hint| hint.durable > durable) {
        let detail = format!(
            "it is an older one: it shows what was durable up to epoch {durable}, and HINT that epoch {} was",
            hint.durable
        );
        return Err(DurabilityError::damaged_file(MANIFEST, 0, detail));
    }
    Ok(Verdict { durable, torn: Vec::new(), unfinished: None })
}

/// Largest D that is shown to have been durable; for a closed generation, its own D.
pub(super) fn proven_durable_epoch(generation: &Generation, chains: &[Chain], hint: Option<&Hint>) -> Epoch {
    let published = chains.iter().map(|chain| chain.published).max();
    let hinted = hint.map(|hint| hint.durable);
    generation.durable.or(published.max(hinted)).unwrap_or_default()
}

/// Checks D against an installed checkpoint, which was installed once every log had a synced mark of its smallest
/// durable epoch (K1). `own` is the checkpoint's share that was written while this generation was open.
pub(super) fn check_checkpoint_durable(own: &CheckpointShare, durable: Epoch, logs: &[Chain]) -> Result<()> {
    let Some(shortest) = logs.iter().min_by_key(|chain| chain.mark) else { return Ok(()) };
    let CheckpointShare { number, durable_min } = *own;
    if durable >= durable_min {
        return Ok(());
    }
    let detail = format!(
        "{}; checkpoint {number} was installed when epoch {durable_min} was durable, but this log is whole up to epoch {} only",
        shortest.end.detail, shortest.mark
    );
    Err(shortest.end.damage_error(detail))
}

fn all_or(found: impl Iterator<Item = DurabilityError>) -> Result<(), Vec<DurabilityError>> {
    let found: Vec<_> = found.collect();
    if found.is_empty() { Ok(()) } else { Err(found) }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
