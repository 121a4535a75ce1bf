//! Ends of the logs in a copy that was made while the loggers ran (N20, `docs/internals/protocols/backups.md`).
//!
//! A copy may have gaps, and shows more of one log than of another: a verdict would report both as damage. So the copy
//! gets the state of S, the largest D that the first look shows, for which every log had a synced mark. A log that is
//! whole for less is read again, once, from its end. Then every log is cut behind its first mark of S or more.
//!
//! If the source has removed files behind the last copied file of a log, S is the smallest last mark of such logs. S is
//! at or above the D of the copy's beginning, because the files opened then are read to their ends.
//!
//! Invariants:
//! - L5: the cut copy equals the state after a crash at S: no block before the cut shows a D above S.
//! - N20: no log is cut while a log is whole for less than S, lacks shown data, or has a wrong payload before its cut.
//!   If a log ends in the same place again, the verdict must report the damage.
//! - A5: a restore to an earlier epoch cuts logs in the same way. N21: a file that no state needs is removed.
//!
//! Neighbours: `backup::files` asks for the ends, `backup::source` and `backup::target` for unneeded files;
//! `file_chain` and `chain` read as for an open.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::Chain;
use super::cleanup::remove_ours;
use super::log_files::{self, FoundFiles, missing_log};
use crate::files::log::file_chain;
use crate::files::log::file_chain::{FileChain, FileOpening, MarkSearch};
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::SegmentFile;
use crate::{DurabilityError, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) file: SegmentFile,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
}

impl LogPlace {
    fn end_of(chain: &Chain) -> Self {
        Self { file: chain.end.file, offset: chain.end.offset }
    }
}

/// Logs to read again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShortLogs {
    /// Epoch S.
    pub(crate) shown: Epoch,
    /// Places from which the logs are read again.
    pub(crate) ends: Vec<LogPlace>,
    /// Ends of logs whose later files the source removed, by logger: the last available file, with its length there.
    pub(crate) removed_behind: BTreeMap<u32, LogPlace>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CopiedLogs {
    /// At least one log is whole for less than S, or is damaged.
    Short(ShortLogs),
    /// All logs are whole for S. `ends` are the cuts by logger; `beyond` are the files behind the cuts.
    Whole { shown: Epoch, ends: Vec<LogPlace>, beyond: Vec<SegmentFile> },
}

/// Reads the copied logs of the open generation. `files` lists the files by logger, in order, with the names of the
/// source; the copy's own names lack the end that a closed file's name states. `hinted` is the D that the source's hint
/// showed before. `before` is the result of the last look; `None` for the first look.
pub(crate) fn look(
    disk: &dyn Disk,
    manifest: &Manifest,
    hinted: Epoch,
    files: &BTreeMap<u32, Vec<SegmentFile>>,
    before: Option<&ShortLogs>,
) -> Result<CopiedLogs> {
    let generation = manifest.generations.last().expect("a database that was created has one");
    assert!(generation.durable.is_none(), "the last one is open");
    let chains = chains(disk, manifest, generation, files)?;
    let removed_behind = before.map_or_else(BTreeMap::new, |before| before.removed_behind.clone());
    let shown_first = before.map_or_else(|| durable_lower_bound(&chains, hinted), |before| before.shown);
    // Such a log ends at its last file, and the files behind were removed.
    let is_closed_early = |log: &&Chain| removed_behind.get(&log.logger) == Some(&LogPlace::end_of(log));
    let early = chains.iter().filter(is_closed_early).map(|chain| chain.mark);
    let shown = early.fold(shown_first, Epoch::min);
    assert!(shown == shown_first || !removed_behind.is_empty(), "N20: only a log that ends early lowers S");
    // The next look fills a gap that the copier left. A damaged log ends in the same place again.
    let is_short = |chain: &&Chain| {
        if is_closed_early(chain) {
            return chain.mark < hinted;
        }
        let is_as_before = before.is_some_and(|before| before.ends.contains(&LogPlace::end_of(chain)));
        chain.mark < shown || is_as_before || (before.is_none() && chain.lost.is_some())
    };
    let mut again: Vec<LogPlace> = chains.iter().filter(is_short).map(LogPlace::end_of).collect();
    let (mut ends, mut beyond) = (Vec::new(), Vec::new());
    let whole = if again.is_empty() { &chains[..] } else { &[] };
    for chain in whole {
        let own = &files[&chain.logger];
        let is_closed = |file: SegmentFile| own.iter().any(|one| one.name == file.name && one.to.is_some());
        match cut_of(disk, chain, &is_closed, shown)? {
            Err(wrong) => again.push(wrong),
            Ok(end) => {
                ends.push(end);
                beyond.extend(files_behind(own, end));
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

fn chains(
    disk: &dyn Disk,
    manifest: &Manifest,
    generation: &Generation,
    files: &BTreeMap<u32, Vec<SegmentFile>>,
) -> Result<Vec<Chain>> {
    assert!(manifest.lists(generation.number), "its manifest lists it");
    let covered = manifest.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::redo_epoch);
    let mut chains = Vec::new();
    for logger in 0..generation.logs {
        let own = files.get(&logger).ok_or_else(|| missing_log(generation.number, logger))?;
        let own: Vec<SegmentFile> = own.iter().map(|file| file.archive_name()).collect();
        let read = log_files::with_next(&own).map(|(file, next)| FileChain::read(disk, file, next));
        chains.push(Chain::stitch(disk, read.collect::<Result<_, _>>()?, covered)?);
    }
    Ok(chains)
}

/// Ends of the copied logs of a generation that the manifest closes at D (A5), and the files behind the ends.
pub(crate) fn ends_at_durable(
    disk: &dyn Disk,
    manifest: &Manifest,
    generation: &Generation,
    files: &BTreeMap<u32, Vec<SegmentFile>>,
) -> Result<(Vec<LogPlace>, Vec<SegmentFile>)> {
    assert!(generation.logs > 0 && generation.durable.is_some(), "A5: a life that is closed");
    let durable = generation.durable.unwrap_or_default();
    let (mut ends, mut beyond) = (Vec::new(), Vec::new());
    for chain in chains(disk, manifest, generation, files)? {
        let damaged = |place: LogPlace, detail: &str| {
            DurabilityError::damaged_file(&place.file.to_string(), place.offset, detail)
        };
        if chain.mark < durable {
            return Err(damaged(LogPlace::end_of(&chain), chain.end.detail));
        }
        let end = cut_of(disk, &chain, &|_| false, durable)?;
        let end = end.map_err(|wrong| damaged(wrong, "a payload is not as it was written"))?;
        ends.push(end);
        beyond.extend(files_behind(&files[&chain.logger], end));
    }
    Ok((ends, beyond))
}

fn files_behind(files: &[SegmentFile], end: LogPlace) -> impl Iterator<Item = SegmentFile> {
    files.iter().filter(move |other| other.name > end.file.name).map(|file| file.archive_name())
}

/// S of the first look: the largest of `hinted`, a published D, and the smallest last mark.
fn durable_lower_bound(chains: &[Chain], hinted: Epoch) -> Epoch {
    let published = chains.iter().map(|chain| chain.published).max();
    let least_mark = chains.iter().map(|chain| chain.mark).min();
    least_mark.max(published).unwrap_or_default().max(hinted)
}

/// Cut of a log: the end of the first mark of `shown` or more, in a file that was open when the copy began. `Err` has
/// the place of a wrong payload before that mark. A closed file had been written as a whole, and so had the next
/// opening block, which repeats its last mark. A log without such a mark ends at the end of its chain.
fn cut_of(
    disk: &dyn Disk,
    chain: &Chain,
    is_closed: &dyn Fn(SegmentFile) -> bool,
    shown: Epoch,
) -> Result<Result<LogPlace, LogPlace>> {
    for link in chain.links.iter().filter(|link| !is_closed(link.file)) {
        match file_chain::end_of_mark(disk, link.file, link.end, shown)? {
            MarkSearch::None => {}
            MarkSearch::WrongPayload(offset) => return Ok(Err(LogPlace { file: link.file, offset })),
            MarkSearch::EndsAt(end) => {
                assert!(end <= link.end, "the cut is in the chain");
                return Ok(Ok(LogPlace { file: link.file, offset: end }));
            }
        }
    }
    Ok(Ok(LogPlace::end_of(chain)))
}

/// Files among these that the newest state of the manifest does not need: the first files of a log, if the next file's
/// opening shows that the checkpoint covers every earlier entry. A backup copies none of these files.
pub(crate) fn covered_files(
    disk: &dyn Disk,
    manifest: &Manifest,
    files: impl Iterator<Item = SegmentFile>,
) -> Result<Vec<SegmentFile>> {
    assert!(manifest.kept.is_empty() || manifest.is_of_backup(), "N21: only a backup has older states");
    let low = manifest.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::redo_epoch);
    let mut by_log = BTreeMap::<(u64, u32), Vec<SegmentFile>>::new();
    for file in files {
        by_log.entry((file.name.generation, file.name.logger)).or_default().push(file);
    }
    let mut covered = Vec::new();
    for files in by_log.values_mut() {
        files.sort_unstable_by_key(|file| file.name);
        for pair in files.windows(2) {
            // A file renamed since the listing proves nothing.
            let opening = FileOpening::read_at(disk, &pair[1].to_string(), pair[1].name)?;
            if opening.is_none_or(|opening| opening.before >= low) {
                break;
            }
            covered.push(pair[0]);
        }
    }
    Ok(covered)
}

/// Removes log files that no state of the backup needs: remainders of an unfinished run, and covered files.
pub(crate) fn remove_unneeded(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    let FoundFiles { logs, older, left, .. } = log_files::find(disk, manifest)?;
    let files: Vec<SegmentFile> = logs.into_values().flatten().chain(older).collect();
    let mut needed = BTreeSet::new();
    for state in manifest.kept_files().map(|state| manifest.with_kept(state)).chain([manifest.clone()]) {
        let own = || files.iter().copied().filter(|file| state.log_bytes(file.name).is_some());
        let covered = covered_files(disk, &state, own())?;
        assert!(own().next().is_none() || own().count() > covered.len(), "N21: the last file of a log stays");
        needed.extend(own().filter(|file| !covered.contains(file)));
    }
    let unneeded = files.into_iter().filter(|file| !needed.contains(file)).chain(left);
    remove_ours(disk, manifest, &unneeded.collect::<Vec<_>>())
}
