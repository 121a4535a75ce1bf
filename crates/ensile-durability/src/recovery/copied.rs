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
//! - Nothing is cut while a log is whole for less than S: that log is damaged, and the verdict is to say so.
//!
//! Neighbours: a backup by files reads and cuts; `file` and `chain` read as for an open.

use std::collections::BTreeMap;

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::Chain;
use super::file::{self, FileChain};
use super::listing::missing_file;
use crate::DurabilityError;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::Manifest;
use crate::store::names::{SegmentFile, SegmentName};

/// A place in a log file.
pub(crate) type LogPlace = (SegmentFile, u64);

/// How far the copied logs of the open generation are whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CopiedLogs {
    /// Some are whole for less than `shown`, up to these places.
    Short { shown: Epoch, ends: Vec<LogPlace> },
    /// All are whole for it. They are cut there, and these files stand behind.
    Whole { cuts: Vec<LogPlace>, beyond: Vec<SegmentFile> },
}

/// Reads the copied logs of the open generation, whose files are given by logger, in order. `shown`: what the first
/// look found to be shown; `None` for the first look.
///
/// # Errors
/// [`DurabilityError::Damaged`] where files do not go together; the disk's.
pub(crate) fn look(
    disk: &dyn Disk,
    manifest: &Manifest,
    files: &BTreeMap<u32, Vec<SegmentFile>>,
    shown: Option<Epoch>,
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
    let shown = shown.unwrap_or_else(|| {
        let marks = chains.iter().map(|chain| chain.mark).min();
        let published = chains.iter().map(|chain| chain.published).max();
        marks.max(published).unwrap_or_default()
    });
    let short = chains.iter().filter(|chain| chain.mark < shown);
    let ends: Vec<LogPlace> = short.map(|chain| (chain.end.file, chain.end.offset)).collect();
    if !ends.is_empty() {
        return Ok(CopiedLogs::Short { shown, ends });
    }
    let (mut cuts, mut beyond) = (Vec::new(), Vec::new());
    for chain in &chains {
        let Some((file, end)) = cut_of(disk, chain, shown)? else { continue };
        cuts.push((file, end));
        let behind = files[&chain.logger].iter().filter(|other| other.name > file.name);
        beyond.extend(behind.copied());
    }
    Ok(CopiedLogs::Whole { cuts, beyond })
}

/// Behind the first mark of `shown` or more in a file that was not closed when the copy began. One that was closed had
/// been written whole, and so had its successor's opening block, which repeats its last mark.
fn cut_of(disk: &dyn Disk, chain: &Chain, shown: Epoch) -> Result<Option<LogPlace>, DurabilityError> {
    for link in chain.links.iter().filter(|link| link.file.to.is_none()) {
        if let Some(end) = file::end_of_mark(disk, (link.file, link.end), shown)? {
            assert!(end <= link.end, "the cut is in the chain");
            return Ok(Some((link.file, end)));
        }
    }
    Ok(None)
}
