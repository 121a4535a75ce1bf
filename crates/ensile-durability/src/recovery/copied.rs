//! Where the logs of a copy end that was made while loggers went on (N20).
//!
//! A log file is read from its beginning to its end while blocks are added to it. So its copy has a gap where the
//! reader was overtaken: zeros, and blocks behind them. And one log is read later than another, so its blocks may show
//! a D that the marks of the other do not reach. A crash leaves neither, and a verdict calls both damage. So the copy
//! gets the state of S, the largest D that what was read first shows. Every log had a synced mark of S when S was
//! shown: one that is whole for less is read again from its end on, once. Then each is cut behind its first mark of S
//! or more.
//!
//! A copy may take longer than a lease is kept. Then files behind the last one that it has of a log were removed, and
//! the log ends there. S is the smallest last mark of the logs that end so: at or above D as it was when the copy
//! began, as the files that were opened then are read to their ends. The other logs are whole for more, or are read
//! again.
//!
//! Invariants:
//! - L5: what is left is what a crash at S leaves. No block before the cut shows a D above S: a block shows none above
//!   the last mark of its own log, and those that were read first show S at most.
//! - Nothing is cut while a log is whole for less than S, lacks something that a block of it shows to be synced, or has
//!   a wrong payload before its cut. It is read again from there on; if it ends there again it is damaged, and the
//!   verdict is to say so.
//! - What the hint showed before anything was read is shown.
//! - A log behind whose last file others were removed is whole to that file's end, where its logger closed it.
//! - A5: what a restore takes back to an earlier epoch is cut in the same way, at that epoch.
//! - N21: a file goes once no state of the backup needs it, which the manifest and the file behind it say.
//!
//! Neighbours: a backup by files reads and cuts; `file` and `chain` read as for an open.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::Chain;
use super::clearing::remove_ours;
use super::file::{self, FileChain, FileOpening, MarkSearch};
use super::listing::{self, FoundFiles, missing_file};
use crate::DurabilityError;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::{Generation, Manifest};
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
    /// By logger, the last file that can be had of a log, and how long it is in the source: those behind were removed.
    pub(crate) removed_behind: BTreeMap<u32, LogPlace>,
}

/// How far the copied logs of the open generation are whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CopiedLogs {
    /// Some are whole for less than S, or damaged.
    Short(ShortLogs),
    /// All are whole for S. They end there, by logger, and these files stand behind.
    Whole { shown: Epoch, ends: Vec<LogPlace>, beyond: Vec<SegmentFile> },
}

/// Reads the copied logs of the open generation, whose files are given by logger, in order, each as the source spells
/// it; a copy has none of the ends that a closed file's name says. `hinted`: the D that the source's hint showed
/// before. `before`: what the last look found; `None` for the first look.
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
    let chains = chains(disk, (manifest, generation), files)?;
    let removed_behind = before.map_or_else(BTreeMap::new, |before| before.removed_behind.clone());
    let shown_first = before.map_or_else(|| shown(&chains, hinted), |before| before.shown);
    // Each ends where its last file does, behind which others were removed.
    let is_closed_early =
        |chain: &&Chain| removed_behind.get(&chain.logger) == Some(&(chain.end.file, chain.end.offset));
    let early = chains.iter().filter(is_closed_early).map(|chain| chain.mark);
    let shown = early.fold(shown_first, Epoch::min);
    assert!(shown == shown_first || !removed_behind.is_empty(), "N20: only a log that ends early lowers S");
    // A gap that the copier has left is filled by the next look. Damage ends the log in the same place again.
    let is_short = |chain: &&Chain| {
        if is_closed_early(chain) {
            return chain.mark < hinted;
        }
        let is_as_before =
            before.is_some_and(|before| before.ends.contains(&(chain.end.file, chain.end.offset)));
        chain.mark < shown || is_as_before || (before.is_none() && chain.lost.is_some())
    };
    let short = chains.iter().filter(is_short).map(|chain| (chain.end.file, chain.end.offset));
    let mut again: Vec<LogPlace> = short.collect();
    let (mut ends, mut beyond) = (Vec::new(), Vec::new());
    let whole = if again.is_empty() { &chains[..] } else { &[] };
    for chain in whole {
        let own = &files[&chain.logger];
        let is_closed = |file: SegmentFile| own.iter().any(|one| one.name == file.name && one.to.is_some());
        match cut_of(disk, chain, &is_closed, shown)? {
            Err(wrong) => again.push(wrong),
            Ok((file, end)) => {
                ends.push((file, end));
                let behind = own.iter().filter(|other| other.name > file.name);
                beyond.extend(behind.map(|file| file.archived()));
            }
        }
    }
    if again.is_empty() {
        let shown = shown.max(generation.first.previous());
        Ok(CopiedLogs::Whole { shown, ends, beyond })
    } else {
        Ok(CopiedLogs::Short(ShortLogs { shown: shown_first, ends: again, removed_behind }))
    }
}

/// The copied logs of a generation of this manifest.
fn chains(
    disk: &dyn Disk,
    (manifest, generation): (&Manifest, &Generation),
    files: &BTreeMap<u32, Vec<SegmentFile>>,
) -> Result<Vec<Chain>, DurabilityError> {
    assert!(manifest.lists(generation.number), "its manifest lists it");
    let covered = manifest.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered);
    let mut chains = Vec::new();
    for logger in 0..generation.logs {
        let missing = SegmentName { generation: generation.number, logger, number: 0 };
        let own = files.get(&logger).ok_or_else(|| missing_file(missing))?;
        let own: Vec<SegmentFile> = own.iter().map(|file| file.archived()).collect();
        let next = own.iter().skip(1).copied().map(Some).chain([None]);
        let read = own.iter().zip(next).map(|(file, next)| FileChain::read(disk, *file, next));
        chains.push(Chain::stitch(disk, read.collect::<Result<_, _>>()?, covered)?);
    }
    Ok(chains)
}

/// Where the copied logs of a generation of this manifest end that is closed at its D, though they have more: behind
/// their first marks of D or more (A5). And the files that stand behind.
///
/// # Errors
/// [`DurabilityError::Damaged`] where a log is not whole up to there; the disk's.
pub(crate) fn ends_at_durable(
    disk: &dyn Disk,
    (manifest, generation): (&Manifest, &Generation),
    files: &BTreeMap<u32, Vec<SegmentFile>>,
) -> Result<(Vec<LogPlace>, Vec<SegmentFile>), DurabilityError> {
    assert!(generation.logs > 0 && generation.durable.is_some(), "A5: a life that is closed");
    let durable = generation.durable.unwrap_or_default();
    let (mut ends, mut beyond) = (Vec::new(), Vec::new());
    for chain in chains(disk, (manifest, generation), files)? {
        let damaged = |(file, offset): LogPlace, detail: &str| {
            DurabilityError::damaged(&file.to_string(), offset, detail)
        };
        if chain.mark < durable {
            return Err(damaged((chain.end.file, chain.end.offset), chain.end.detail));
        }
        let end = cut_of(disk, &chain, &|_| false, durable)?;
        let (file, offset) = end.map_err(|wrong| damaged(wrong, "a payload is not as it was written"))?;
        ends.push((file, offset));
        let behind = files[&chain.logger].iter().filter(|other| other.name > file.name);
        beyond.extend(behind.map(|file| file.archived()));
    }
    Ok((ends, beyond))
}

/// S, as the first look finds it.
fn shown(chains: &[Chain], hinted: Epoch) -> Epoch {
    let published = chains.iter().map(|chain| chain.published).max();
    least_mark(chains).max(published.unwrap_or_default()).max(hinted)
}

/// The smallest last mark; 0 without logs.
fn least_mark(chains: &[Chain]) -> Epoch {
    chains.iter().map(|chain| chain.mark).min().unwrap_or_default()
}

/// Behind the first mark of `shown` or more in a file that was not closed when the copy began, or where a payload
/// before it is wrong. A file that was closed had been written whole, and so had its successor's opening block, which
/// repeats its last mark. A log without such a mark ends where its chain does.
fn cut_of(
    disk: &dyn Disk,
    chain: &Chain,
    is_closed: &dyn Fn(SegmentFile) -> bool,
    shown: Epoch,
) -> Result<Result<LogPlace, LogPlace>, DurabilityError> {
    for link in chain.links.iter().filter(|link| !is_closed(link.file)) {
        match file::end_of_mark(disk, (link.file, link.end), shown)? {
            MarkSearch::None => {}
            MarkSearch::WrongPayload(at) => return Ok(Err((link.file, at))),
            MarkSearch::EndsAt(end) => {
                assert!(end <= link.end, "the cut is in the chain");
                return Ok(Ok((link.file, end)));
            }
        }
    }
    Ok(Ok((chain.end.file, chain.end.offset)))
}

/// Of these log files those that the newest state of the manifest does not need: the first ones of a log, as the file
/// behind each says that every entry before that is of an epoch that the checkpoint has.
///
/// # Errors
/// The disk's.
pub(crate) fn covered_files(
    disk: &dyn Disk,
    manifest: &Manifest,
    files: impl Iterator<Item = SegmentFile>,
) -> Result<Vec<SegmentFile>, DurabilityError> {
    assert!(manifest.kept.is_empty() || manifest.is_of_backup(), "N21: only a backup has older states");
    let low = manifest.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered);
    let mut by_log = BTreeMap::<(u64, u32), Vec<SegmentFile>>::new();
    for file in files {
        by_log.entry((file.name.generation, file.name.logger)).or_default().push(file);
    }
    let mut covered = Vec::new();
    for files in by_log.values_mut() {
        files.sort_unstable_by_key(|file| file.name);
        for pair in files.windows(2) {
            // One that was renamed since it was listed says nothing.
            let opening = FileOpening::read_at(disk, &pair[1].to_string(), pair[1].name)?;
            if opening.is_none_or(|opening| opening.before >= low) {
                break;
            }
            covered.push(pair[0]);
        }
    }
    Ok(covered)
}

/// Removes log files of a backup that none of its states needs: what a run left that had not ended, and what the
/// checkpoints of all states that have a file cover.
///
/// # Errors
/// [`DurabilityError::Damaged`] where the names contradict each other; the disk's.
pub(crate) fn remove_unneeded(disk: &dyn Disk, manifest: &Manifest) -> Result<(), DurabilityError> {
    let FoundFiles { logs, older, left, .. } = listing::find(disk, manifest)?;
    let files: Vec<SegmentFile> = logs.into_values().flatten().chain(older).collect();
    let mut needed = BTreeSet::new();
    for state in manifest.kept_files().map(|state| manifest.with_kept(state)).chain([manifest.clone()]) {
        let own = || files.iter().copied().filter(|file| state.log_bytes(file.name).is_some());
        let covered = covered_files(disk, &state, own())?;
        assert!(own().next().is_none() || own().count() > covered.len(), "N21: the last file of a log stays");
        needed.extend(own().filter(|file| !covered.contains(file)));
    }
    let unneeded = files.into_iter().filter(|file| !needed.contains(file)).chain(left);
    remove_ours((disk, manifest), &unneeded.collect::<Vec<_>>())
}
