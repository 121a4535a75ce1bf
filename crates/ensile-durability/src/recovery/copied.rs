//! Where the logs of a copy end that was made while loggers went on (N20).
//!
//! A log file is read from its beginning to its end while blocks are added to it. So its copy has a gap where the
//! reader was overtaken: zeros, and blocks behind them. And one log is read later than another, so its blocks may show
//! a D that the marks of the other do not reach. A crash leaves neither, and a verdict calls both damage. So the copy
//! gets the state of S, the largest D that what was read first shows. Every log had a synced mark of S when S was
//! shown: one that is whole for less is read again from its end on, once. Then each is cut behind its first mark of S
//! or more.
//!
//! Invariants:
//! - L5: what is left is what a crash at S leaves. No block before the cut shows a D above S: a block shows none above
//!   the last mark of its own log, and those that were read first show S at most.
//! - Nothing is cut while a log is whole for less than S, lacks something that a block of it shows to be synced, or has
//!   a wrong payload before its cut. It is read again from there on; if it ends there again it is damaged, and the
//!   verdict is to say so.
//! - What the hint showed before anything was read is shown.
//!
//! Neighbours: a backup by files reads and cuts; `file` and `chain` read as for an open.

use std::collections::BTreeMap;

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::Chain;
use super::file::{self, FileChain, MarkSearch};
use super::listing::missing_file;
use crate::DurabilityError;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::Manifest;
use crate::store::names::{SegmentFile, SegmentName};

/// A place in a log file.
pub(crate) type LogPlace = (SegmentFile, u64);

/// Logs that are to be read again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShortLogs {
    /// S.
    pub(crate) shown: Epoch,
    /// From where on.
    pub(crate) ends: Vec<LogPlace>,
}

/// How far the copied logs of the open generation are whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CopiedLogs {
    /// Some are whole for less than S, or damaged.
    Short(ShortLogs),
    /// All are whole for it. They are cut there, and these files stand behind.
    Whole { cuts: Vec<LogPlace>, beyond: Vec<SegmentFile> },
}

/// Reads the copied logs of the open generation, whose files are given by logger, in order. `hinted`: the D that the
/// source's hint showed before. `before`: what the last look found; `None` for the first look.
///
/// # Errors
/// [`DurabilityError::Damaged`] where files do not go together; the disk's.
pub(crate) fn look(
    disk: &dyn Disk,
    (manifest, hinted): (&Manifest, Epoch),
    files: &BTreeMap<u32, Vec<SegmentFile>>,
    before: Option<&ShortLogs>,
) -> Result<CopiedLogs, DurabilityError> {
    let generation = manifest.generations.last().expect("a database that was created has one");
    assert!(generation.durable.is_none(), "the last one is open");
    let covered = manifest.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered);
    let mut chains = Vec::new();
    for logger in 0..generation.logs {
        let missing = SegmentName { generation: generation.number, logger, number: 0 };
        let own = files.get(&logger).ok_or_else(|| missing_file(missing))?;
        let next = own.iter().skip(1).copied().map(Some).chain([None]);
        let read = own.iter().zip(next).map(|(file, next)| FileChain::read(disk, *file, next));
        chains.push(Chain::stitch(disk, read.collect::<Result<_, _>>()?, covered)?);
    }
    let shown = before.map_or_else(|| shown(&chains, hinted), |before| before.shown);
    // A gap that the copier has left is filled by the next look. Damage ends the log in the same place again.
    let is_short = |chain: &&Chain| {
        let end = (chain.end.file, chain.end.offset);
        let is_as_before = before.is_some_and(|before| before.ends.contains(&end));
        chain.mark < shown || is_as_before || (before.is_none() && chain.lost.is_some())
    };
    let short = chains.iter().filter(is_short).map(|chain| (chain.end.file, chain.end.offset));
    let mut ends: Vec<LogPlace> = short.collect();
    let (mut cuts, mut beyond) = (Vec::new(), Vec::new());
    let whole = if ends.is_empty() { &chains[..] } else { &[] };
    for chain in whole {
        match cut_of(disk, chain, shown)? {
            None => {}
            Some(Err(wrong)) => ends.push(wrong),
            Some(Ok((file, end))) => {
                cuts.push((file, end));
                let behind = files[&chain.logger].iter().filter(|other| other.name > file.name);
                beyond.extend(behind.copied());
            }
        }
    }
    if ends.is_empty() {
        Ok(CopiedLogs::Whole { cuts, beyond })
    } else {
        Ok(CopiedLogs::Short(ShortLogs { shown, ends }))
    }
}

/// S, as the first look finds it.
fn shown(chains: &[Chain], hinted: Epoch) -> Epoch {
    let marks = chains.iter().map(|chain| chain.mark).min();
    let published = chains.iter().map(|chain| chain.published).max();
    marks.max(published).unwrap_or_default().max(hinted)
}

/// Behind the first mark of `shown` or more in a file that was not closed when the copy began, or where a payload
/// before it is wrong. A file that was closed had been written whole, and so had its successor's opening block, which
/// repeats its last mark.
fn cut_of(
    disk: &dyn Disk,
    chain: &Chain,
    shown: Epoch,
) -> Result<Option<Result<LogPlace, LogPlace>>, DurabilityError> {
    for link in chain.links.iter().filter(|link| link.file.to.is_none()) {
        match file::end_of_mark(disk, (link.file, link.end), shown)? {
            MarkSearch::None => {}
            MarkSearch::WrongPayload(at) => return Ok(Some(Err((link.file, at)))),
            MarkSearch::EndsAt(end) => {
                assert!(end <= link.end, "the cut is in the chain");
                return Ok(Some(Ok((link.file, end))));
            }
        }
    }
    Ok(None)
}
