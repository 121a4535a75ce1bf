//! Plan of a repair, from an examination's findings: the cut of a damaged folder, and the loss. Nothing is changed.
//!
//! A repair closes the oldest damaged generation at the smallest mark that is whole in every log of the generation.
//! Everything after that mark is given up: the kept state is the state at the end of an epoch (E2).
//!
//! Invariants: K1: a cut is never below e_h of the installed checkpoint, because the log before e_h is gone. N12, N15:
//! if no cut helps, an undamaged picture can be kept alone, as the state at the end of e_c.
//!
//! Neighbours: [`super`] has the findings; `folder_repair` carries the plan out.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::chain::{self, Chain};
use super::super::generation_plan::DecidedGeneration;
use super::super::log_files::{self, Files, FoundFiles};
use super::super::mapped_tail::{self, LeftByProcess};
use super::super::replay_state::Judged;
use super::super::validation::{self, FirstEnds};
use super::facts::{Damage, Examination, Loss, Unread};
use crate::checkpoint::orphans::{self, CheckpointFile};
use crate::checkpoint::picture::newer_picture::later_than;
use crate::files::block::origin::OPENING_BYTES;
use crate::files::block::scan::Scanner;
use crate::files::hint::Hint;
use crate::files::log::file_chain::{FileChain, Tail};
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{PartName, SegmentFile, logger_of};
use crate::store::mapped_buffers::{self, HeldAbove};
use crate::{DurabilityError, Result};

/// Command with which a user gives up the contents of missing folders.
pub(super) const GIVE_UP: &str = "`ensile verify DIR --repair --without-missing-folders`";
/// Command with which a user keeps the installed picture and drops the log.
pub(super) const PICTURE_ALONE: &str = "`ensile verify DIR --repair --picture-alone`";

pub(super) struct RepairPlan {
    pub(super) loss: Loss,
    /// Generations up to the cut, and the files to drop. The cut generation is closed at the cut, with its chains if
    /// the generation stays. The dropped files are outside every chain; files of an unfinished merge are among them.
    pub(super) judged: Judged,
    /// Number and count of logs of the last generation.
    pub(super) last: (u64, u32),
}

pub(super) enum NoRepair {
    /// No cut leaves a consistent state, or a cut would do harm.
    Reason(String),
    /// The whole part of the log ends below the installed picture. Reason, and the plan that keeps the picture alone.
    BelowThePicture(String, Box<RepairPlan>),
    Error(DurabilityError),
}

impl From<DurabilityError> for NoRepair {
    fn from(error: DurabilityError) -> Self {
        Self::Error(error)
    }
}

/// Plans a repair. `seen` is the largest epoch in the folder's files.
pub(super) fn plan(disk: &dyn Disk, found: &Examination, seen: Epoch) -> Result<RepairPlan, NoRepair> {
    assert!(!found.is_whole(), "what is whole is not repaired");
    if let Some(Unread { detail, .. }) = found.unread.first() {
        return Err(NoRepair::Reason(format!(
            "{detail}: what stands there is unknown, and a cut might give it up; make it readable, or copy the folder to \
             another device"
        )));
    }
    let of_newest: Vec<Damage> = found.damage.iter().filter(|one| !one.is_of_older()).cloned().collect();
    if of_newest.is_empty() {
        return Err(NoRepair::Reason(
            "the newest state is whole, and an older one cannot be made whole: restore the newest, or back up again".to_owned(),
        ));
    }
    let limits = limits_of(&of_newest).map_err(NoRepair::Reason)?;
    let missing =
        || NoRepair::Reason("the manifest is missing, and no other file says what it held".to_owned());
    let manifest = Manifest::read(disk)?.ok_or_else(missing)?;
    mapped_tail::check_boot(disk, &manifest).map_err(|why| NoRepair::Reason(why.to_string()))?;
    if let Some((number, _)) = limits.keys().find(|(number, _)| !manifest.lists(*number)) {
        return Err(NoRepair::Reason(format!("generation {number} is damaged, and not listed")));
    }
    let FoundFiles { logs: files, unfinished, older, left } =
        log_files::find(disk, &manifest).or_else(|error| {
            let Damage { file, detail, .. } = Damage::from_error(error)?;
            Err(NoRepair::Reason(format!("{file}: {detail}; move that one away")))
        })?;
    let hint = validation::hint(disk, &manifest, &mut FirstEnds)?;
    let cutting = Cutting { disk, manifest: &manifest, files: &files, limits: &limits, hint: hint.as_ref() };
    let cut = cutting.find()?;
    let below = cutting.check(&cut)?;
    let cut = if below.is_some() { cutting.picture_alone() } else { cut };
    let mut plan = cutting.plan(cut, found, seen)?;
    (plan.judged.unlisted, plan.judged.older, plan.judged.left) = (unfinished, older, left);
    let of_mapped = manifest.generations.last().filter(|last| last.durable.is_none());
    if let Some(Generation { number, logs, .. }) = of_mapped {
        // A repair takes no entries of mapped buffers: the buffers are copied with the cut files.
        let names = mapped_buffers::names_of(disk, *number, *logs).map_err(DurabilityError::from)?;
        plan.loss.files.extend(names.into_iter().map(|name| (name, 0)));
    }
    match below {
        None => Ok(plan),
        Some(why) => Err(NoRepair::BelowThePicture(why, Box::new(plan))),
    }
}

struct Cutting<'c> {
    disk: &'c dyn Disk,
    manifest: &'c Manifest,
    files: &'c Files,
    limits: &'c WholeLimits,
    hint: Option<&'c Hint>,
}

struct RepairCut {
    /// Index of the generation that is closed at the cut, in the manifest's order.
    index: usize,
    durable: Epoch,
    /// Logs of that generation with a whole part.
    chains: Vec<Chain>,
    /// True if the cut gives up only bytes that do not belong to the logs.
    is_lossless: bool,
    /// Offsets at which files of that generation, and of earlier generations, are cut.
    cuts: Vec<(SegmentFile, u64)>,
}

impl Cutting<'_> {
    /// Finds the cut: in the first generation that cannot be whole again, or in the last generation.
    fn find(&self) -> Result<RepairCut, NoRepair> {
        let mut cuts = Vec::new();
        let generations = &self.manifest.generations;
        for (index, generation) in generations.iter().enumerate() {
            let is_last = index + 1 == generations.len();
            let is_damaged = self.limits.keys().any(|(number, _)| *number == generation.number);
            if !is_damaged && !is_last {
                continue;
            }
            if let Some((durable, chains)) = self.whole(generation)? {
                cuts.extend(self.cuts_of(&chains)?);
                if is_last {
                    return Ok(RepairCut { index, durable, chains, is_lossless: true, cuts });
                }
                continue;
            }
            let mut chains = Vec::new();
            for logger in 0..generation.logs {
                chains.push(self.cut_chain(generation, logger)?);
            }
            let mark = |chain: &Option<Chain>| chain.as_ref().map_or(Epoch::ZERO, |chain| chain.mark);
            let whole = chains.iter().map(mark).min().unwrap_or_default();
            let chains: Vec<Chain> = chains.into_iter().flatten().collect();
            cuts.extend(self.cuts_of(&chains)?);
            if self.is_strange(generation)? {
                return Err(NoRepair::Reason(format!(
                    "no log of generation {} is that of the manifest: if the manifest is of another database or of another \
                     time, put the right one back; if the logs are, move them away",
                    generation.number
                )));
            }
            let durable =
                whole.min(generation.durable.unwrap_or(Epoch::MAX)).max(generation.first.previous());
            return Ok(RepairCut { index, durable, chains, is_lossless: false, cuts });
        }
        Err(NoRepair::Reason("the manifest lists no log".to_owned()))
    }

    /// D and the logs of a generation that lacks nothing, by the verdict of an open, and without bytes behind the
    /// files' ends; `None` if a log must be cut inside its chain.
    fn whole(&self, generation: &Generation) -> Result<Option<(Epoch, Vec<Chain>)>> {
        let checkpoint = self.manifest.checkpoint.as_ref();
        let judged = || -> Result<_> {
            let mut chains = Vec::new();
            for logger in 0..generation.logs {
                let key = (generation.number, logger);
                let files = self.files.get(&key).ok_or_else(|| log_files::missing_log(key.0, logger))?;
                let read = read_until(self.disk, files, generation, None)?;
                let covered = self.covered_epoch();
                chains.extend(validation::log(self.disk, generation, read, covered, &mut FirstEnds)?);
            }
            let verdict = validation::generation(generation, &chains, self.hint, checkpoint, &mut FirstEnds)?;
            Ok(verdict.map(|verdict| (verdict.durable, chains)))
        };
        let judged = Damage::unless(judged())?.flatten();
        Ok(judged.filter(|(_, chains)| chains.iter().all(|chain| self.is_damaged_behind_only(chain))))
    }

    /// True if all damage of a log lies behind the ends of the log's files.
    fn is_damaged_behind_only(&self, chain: &Chain) -> bool {
        let Some(limits) = self.limits.get(&(chain.generation, chain.logger)) else { return true };
        assert!(!limits.is_empty(), "a log is in the list for its damage");
        let is_behind = |(file, offset): (&SegmentFile, &u64)| {
            chain.links.iter().any(|link| link.file == *file && link.end <= *offset)
        };
        limits.iter().all(is_behind)
    }

    /// Puts a log together from the files read by [`read_until`], up to a missing file. `None` if no part is whole.
    fn cut_chain(&self, generation: &Generation, logger: u32) -> Result<Option<Chain>> {
        let key = (generation.number, logger);
        let own = self.files.get(&key).map_or(&[][..], Vec::as_slice);
        let mut read = read_until(self.disk, own, generation, self.limits.get(&key))?;
        let strange = read.iter().position(|file| chain::check_origin(generation, file).is_err());
        read.truncate(strange.unwrap_or(read.len()));
        while !read.is_empty() {
            let stitched = Chain::stitch(self.disk, read.clone(), self.covered_epoch());
            if let Some(chain) = Damage::unless(stitched)? {
                return Ok((!chain.links.is_empty()).then_some(chain));
            }
            let number = |file: &FileChain| file.file.name.number;
            let gap = read.windows(2).rposition(|pair| number(&pair[0]) + 1 != number(&pair[1]));
            read.truncate(gap.map_or(0, |index| index + 1));
        }
        Ok(None)
    }

    fn files_of(&self, generation: &Generation) -> impl Iterator<Item = &SegmentFile> {
        let number = generation.number;
        (0..generation.logs).filter_map(move |logger| self.files.get(&(number, logger))).flatten()
    }

    /// Number of readable entries of a generation above `durable` that may have counted, by pieces.
    fn entries_above(&self, generation: &Generation, durable: Epoch) -> Result<u64> {
        let (counted, mut entries) = (generation.durable.unwrap_or(Epoch::MAX), 0);
        for file in self.files_of(generation) {
            let Some(chain) = Damage::unless(FileChain::read(self.disk, *file, None))? else { continue };
            let lost = chain.runs.iter().filter(|run| run.epoch_max > durable && run.epoch_min <= counted);
            entries += lost.map(|run| run.entries).sum::<u64>();
        }
        Ok(entries)
    }

    /// Entries that a dead process left above `durable`, if an open would look for such entries. A cut gives them up.
    fn left_by_process(&self, durable: Epoch) -> Result<Option<LeftAbove>> {
        let Some(open) = self.manifest.generations.last() else { return Ok(None) };
        match mapped_tail::find(self.disk, self.manifest, open)? {
            LeftByProcess::Here(_) => {}
            // No manifest names these buffers, but they count entries.
            left @ LeftByProcess::NotNamed if Damage::unless(left.buffers(self.disk, open))?.is_none() => {}
            _ => return Ok(None),
        }
        let mut above = LeftAbove::default();
        for HeldAbove { name, last } in mapped_buffers::held_above(self.disk, open, durable)? {
            match last {
                Some(last) => above.high = above.high.max(last),
                None => above.unreadable.push(name.to_string()),
            }
        }
        Ok(Some(above))
    }

    fn covered_epoch(&self) -> Epoch {
        self.manifest.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::redo_epoch)
    }

    /// True if a file of this generation's logs has another salt than the manifest's, and no file has that salt.
    fn is_strange(&self, generation: &Generation) -> Result<bool> {
        let (mut own, mut strange) = (false, false);
        for file in self.files_of(generation) {
            let read = Damage::unless(FileChain::read(self.disk, *file, None))?;
            let opening = read.and_then(|chain| chain.opening);
            own |= opening.as_ref().is_some_and(|opening| opening.origin.salt == generation.salt);
            strange |= opening.is_some_and(|opening| opening.origin.salt != generation.salt);
        }
        Ok(strange && !own)
    }

    /// Offsets at which the files of damaged logs are cut: the end of the chain in each file.
    fn cuts_of(&self, chains: &[Chain]) -> Result<Vec<(SegmentFile, u64)>> {
        let mut cuts = Vec::new();
        for chain in chains.iter().filter(|chain| self.limits.contains_key(&(chain.generation, chain.logger)))
        {
            for link in &chain.links {
                assert!(link.end >= OPENING_BYTES as u64, "the opening block of {} stays", link.file);
                let mut scanner = Scanner::new(self.disk.open_to_read(&link.file.to_string())?)?;
                // Reserved space alone is no reason to change a file.
                if scanner.used_to(link.end)? > link.end {
                    cuts.push((link.file, link.end));
                }
            }
        }
        Ok(cuts)
    }

    /// Checks that the cut helps and does no harm. Returns a reason if only the picture without the log helps.
    fn check(&self, cut: &RepairCut) -> Result<Option<String>, NoRepair> {
        let RepairCut { durable, is_lossless, .. } = *cut;
        let installed = self.manifest.checkpoint.as_ref();
        if let Some(checkpoint) = installed.filter(|checkpoint| checkpoint.durable_min() > durable) {
            let least = checkpoint.durable_min();
            if checkpoint.is_picture() {
                self.check_later(least)?;
                return Ok(Some(format!(
                    "what is whole of the log ends at epoch {durable}, and the log before the picture at epoch {least} is gone"
                )));
            }
            return Err(NoRepair::Reason(format!(
                "what is whole ends at epoch {durable}, but the checkpoint needs the log up to epoch {least}, and the log \
                 before the checkpoint is gone"
            )));
        }
        if !is_lossless {
            self.check_later(durable)?;
        }
        Ok(None)
    }

    /// Checks that no file belongs to an unlisted checkpoint with a state later than the end of `durable`.
    fn check_later(&self, durable: Epoch) -> Result<(), NoRepair> {
        let known = self.manifest.checkpoint.as_ref().map_or(0, InstalledCheckpoint::number);
        let found = later_than(self.disk, self.manifest, known, durable)?;
        let is_listed = found.is_some_and(|file| file.is_installed(self.manifest));
        let mut later = found.map(|file| file.to_string());
        for part in orphans::search::<PartName>(self.disk, self.manifest)? {
            // The epoch maximum in a checkpoint's opening block is e_l.
            let opening = Scanner::opening_of(self.disk, &part.to_string()).map_err(DurabilityError::from)?;
            if part.checkpoint > known && opening.is_ok_and(|opened| opened.header.epoch_max > durable) {
                later = Some(part.to_string());
            }
        }
        let Some(file) = later else { return Ok(()) };
        if is_listed {
            return Err(NoRepair::Reason(format!(
                "{file} holds a picture that the manifest does not list, and that holds more than the cut would keep: if \
                 the manifest is an older copy, put the newer one back; if not, restore a copy of the database"
            )));
        }
        Err(NoRepair::Reason(format!(
            "{file} is of a checkpoint that the manifest does not list, and holds more than the cut would keep: if the \
             manifest is an older copy, put the newer one back; if not, move that file away"
        )))
    }

    /// Cut that keeps the installed picture and drops the whole log: the state at the end of e_c, or of a later epoch
    /// before the first generation, with the same contents.
    fn picture_alone(&self) -> RepairCut {
        let picture = self.manifest.checkpoint.as_ref().expect("it is below a picture");
        assert!(picture.is_picture(), "K1: a fuzzy one needs the log");
        let generation = self.manifest.generations.first().expect("a database that was created has one");
        let durable = picture.durable_min().max(generation.first.previous());
        RepairCut { index: 0, durable, chains: Vec::new(), is_lossless: false, cuts: Vec::new() }
    }

    /// Plans this cut: the kept generations, the cut and dropped files, and the loss.
    fn plan(&self, cut: RepairCut, found: &Examination, seen: Epoch) -> Result<RepairPlan> {
        let RepairCut { index, durable, chains, is_lossless, cuts } = cut;
        let (before, rest) = self.manifest.generations.split_at(index);
        let (generation, later) = rest.split_first().expect("it stands at its index");
        // A generation without a log has results only in its picture, and the manifest lists the picture outside of the
        // generation. A cut with a missing chain has mark 0, so its D lies before the generation.
        let stays = durable >= generation.first && !chains.is_empty();
        let chains = if stays { chains } else { Vec::new() };
        let is_of = |chain: &Chain, file: &SegmentFile| {
            let is_link = chain.links.iter().any(|link| link.file == *file);
            is_link || chain.beyond.contains(file) || chain.discarded.contains(file)
        };
        let is_kept = |file: &SegmentFile| chains.iter().any(|chain| is_of(chain, file));
        let mut dropped: Vec<_> = self.files_of(generation).filter(|file| !is_kept(file)).copied().collect();
        dropped.extend(later.iter().flat_map(|other| self.files_of(other)));
        let cuts: Vec<_> = cuts.into_iter().filter(|(file, _)| !dropped.contains(file)).collect();
        let left = self.left_by_process(durable)?;
        let gives_up = !is_lossless || left.is_some();
        let left = left.unwrap_or_default();
        let seen = seen.max(left.high);
        let mut loss = Loss { durable, ..Loss::default() };
        if gives_up {
            for other in rest {
                loss.entries += self.entries_above(other, durable)?;
            }
            loss.epochs = (seen > durable).then(|| (durable.next(), seen));
            let damaged = found.damage.iter().map(|damage| damage.file.clone());
            let unreadable: BTreeSet<_> = damaged.chain(left.unreadable).collect();
            loss.unreadable = unreadable.into_iter().collect();
        }
        loss.files = cuts.iter().map(|(file, from)| (file.to_string(), *from)).collect();
        let beyond = chains.iter().flat_map(|chain| &chain.beyond);
        loss.files.extend(beyond.chain(&dropped).map(|file| (file.to_string(), 0)));
        let is_cut = |(low, high)| durable < low && low <= high;
        assert!(loss.epochs.is_none_or(is_cut), "E2: a whole epoch is cut");
        assert!(durable.next() >= generation.first, "L4: a generation is closed in its own epochs, or empty");
        let last = self.manifest.generations.last().map_or((0, 1), |last| (last.number, last.logs));
        let closed = Generation { durable: Some(durable), ..generation.clone() };
        let decided =
            |generation, has_entries| DecidedGeneration { generation, has_entries, log_bytes: None };
        let before = before.iter().cloned().map(|generation| decided(generation, true));
        let generations = before.chain([decided(closed, stays)]).collect();
        let judged =
            Judged { generations, open_chains: chains, given_up: dropped, cuts, seen, ..Judged::default() };
        Ok(RepairPlan { loss, judged, last })
    }
}

/// Mapped buffers of a process-safe life with entries above the kept epoch.
#[derive(Default)]
struct LeftAbove {
    /// Largest readable epoch of the buffers.
    high: Epoch,
    /// Buffers with contents that are no entries.
    unreadable: Vec<String>,
}

/// By generation and log: the damaged files, with the offset up to which a file is whole.
type WholeLimits = BTreeMap<(u64, u32), BTreeMap<SegmentFile, u64>>;

/// Limits of the damaged log files. The error is the reason why no cut of a log repairs a damage.
fn limits_of(damage: &[Damage]) -> Result<WholeLimits, String> {
    let mut limits = WholeLimits::new();
    for Damage { file, offset, detail, is_refused } in damage {
        if *is_refused {
            return Err(format!(
                "{file} is whole, and nothing of it is cut: {detail}; use a newer version, or put the file where it belongs"
            ));
        }
        if logger_of(file).is_some() {
            return Err(format!(
                "{file} is missing as a whole, and may be on a device that is not mounted; to give up what it held: {GIVE_UP}"
            ));
        }
        // The repair gives up the mapped buffers, as a power cut would: the logs are whole without them (B4).
        if mapped_buffers::is_mapped_file(file) {
            continue;
        }
        let Some(file) = SegmentFile::parse_path(file) else {
            return Err(format!("no other file says what {file} held"));
        };
        let log = limits.entry((file.name.generation, file.name.logger)).or_default();
        let limit = log.entry(file).or_insert(*offset);
        *limit = (*limit).min(*offset);
    }
    Ok(limits)
}

/// Reads a log as if a damaged file ended at the damage. A file ends where the next file continues the chain.
fn read_until(
    disk: &dyn Disk,
    files: &[SegmentFile],
    generation: &Generation,
    limits: Option<&BTreeMap<SegmentFile, u64>>,
) -> Result<Vec<FileChain>> {
    assert!(files.windows(2).all(|pair| pair[0].name < pair[1].name), "of one log, in order");
    let mut read = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let limit = limits.and_then(|limits| limits.get(file)).copied();
        // The next file shows that bytes were synced before the damage happened, so the next file does not count here.
        let next = files.get(index + 1).copied().filter(|_| limit.is_none());
        let until = generation.log_bytes(file.name).min(limit.unwrap_or(u64::MAX));
        read.push(FileChain::read_until(disk, *file, next, until)?);
    }
    for index in 1..read.len() {
        let (before, next) = read.split_at_mut(index);
        if let (Some(last), Some(next)) = (before.last_mut(), next.first())
            && chain::is_next(last, next)
        {
            // Nothing is missing between the two files: bytes behind the first file's end do not belong to the log.
            last.tail = Tail::default();
        }
    }
    Ok(read)
}
