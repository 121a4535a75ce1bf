//! Where a damaged folder is cut, and what is given up: decided from what an examination found, with nothing changed.
//!
//! The oldest generation in which something is damaged is closed at the least mark that is whole in all its logs; what
//! comes after it, later generations included, is given up.
//!
//! Invariants:
//! - E2: the state that is kept is that at the end of an epoch, as if the database had crashed then.
//! - K1: nothing is cut below e_h of the installed checkpoint, as the log before it is gone.
//! - N12, N15: a picture is the state at the end of e_c without any of the log. Where no cut helps it can be kept
//!   alone, if nothing of it is damaged.
//! - What is judged is judged as an open judges it.
//!
//! Neighbours: [`super`] has the findings; `repair` carries the plan out.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::chain::{self, Chain};
use super::super::file::{FileChain, Tail};
use super::super::judgement::{self, FirstEnds};
use super::super::listing::{self, Files, FoundFiles};
use super::super::plan::DecidedGeneration;
use super::super::replaying::Judged;
use super::super::taking::{self, LeftByProcess};
use super::facts::{Damage, Examination, Loss, Unread};
use crate::DurabilityError;
use crate::block::origin::OPENING_BYTES;
use crate::block::scan::Scanner;
use crate::checkpoint::leftovers::{self, CheckpointFile};
use crate::checkpoint::picture::later::later_than;
use crate::not_proven::UnprovenEntries;
use crate::store::hint::Hint;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::{Generation, Manifest};
use crate::store::mapped::{self, HeldAbove};
use crate::store::names::{PartName, SegmentFile, SegmentName, logger_of};

/// How a user asks to give up what missing folders held.
pub(super) const GIVE_UP: &str = "`ensile verify DIR --repair --without-missing-folders`";
/// How a user asks to keep the installed picture, and nothing of the log.
pub(super) const PICTURE_ALONE: &str = "`ensile verify DIR --repair --picture-alone`";

/// What a repair would do.
pub(super) struct RepairPlan {
    pub(super) loss: Loss,
    /// Generations up to the cut one, which is closed at the cut, with its chains if it stays; files that do not stay,
    /// none of a chain, and those of a merge that had not ended.
    pub(super) judged: Judged,
    /// The last generation's number and logs.
    pub(super) last: (u64, u32),
}

/// Why there is no plan.
pub(super) enum NoRepair {
    /// No cut leaves a consistent state, or one would do harm.
    Reason(String),
    /// What is whole of the log ends below the installed picture, which is the state at the end of an epoch without it.
    /// Why, and what giving up all of the log would do.
    BelowThePicture(String, Box<RepairPlan>),
    /// It cannot be found out.
    Error(DurabilityError),
}

impl From<DurabilityError> for NoRepair {
    fn from(error: DurabilityError) -> Self {
        Self::Error(error)
    }
}

/// What a repair would do. `seen`: the largest epoch that any file showed.
pub(super) fn plan(disk: &dyn Disk, found: &Examination, seen: Epoch) -> Result<RepairPlan, NoRepair> {
    assert!(!found.is_whole(), "what is whole is not repaired");
    if let Some(Unread { detail, .. }) = found.unread.first() {
        return Err(NoRepair::Reason(format!(
            "{detail}: what stands there is unknown, and a cut might give it up; make it readable, or copy the folder to \
             another device"
        )));
    }
    let of_newest: Vec<Damage> =
        found.damage.iter().filter(|damage| !damage.is_of_older()).cloned().collect();
    if of_newest.is_empty() {
        return Err(NoRepair::Reason(
            "the newest state is whole, and an older one cannot be made whole: restore the newest, or back up again".to_owned(),
        ));
    }
    let limits = limits_of(&of_newest).map_err(NoRepair::Reason)?;
    let missing =
        || NoRepair::Reason("the manifest is missing, and no other file says what it held".to_owned());
    let manifest = Manifest::read(disk)?.ok_or_else(missing)?;
    taking::check_boot(disk, &manifest).map_err(|why| NoRepair::Reason(why.to_string()))?;
    if let Some((number, _)) = limits.keys().find(|(number, _)| !manifest.lists(*number)) {
        return Err(NoRepair::Reason(format!("generation {number} is damaged, and not listed")));
    }
    let FoundFiles { logs: files, unfinished, older, left } =
        listing::find(disk, &manifest).or_else(|error| {
            let Damage { file, detail, .. } = Damage::of(error)?;
            Err(NoRepair::Reason(format!("{file}: {detail}; move that one away")))
        })?;
    let hint = judgement::hint(disk, &manifest, &mut FirstEnds)?;
    let cutting = Cutting { disk, manifest: &manifest, files: &files, limits: &limits, hint: hint.as_ref() };
    let cut = cutting.find()?;
    let below = cutting.check(&cut)?;
    let mut plan = match &below {
        None => cutting.plan(cut, found, seen)?,
        Some(_) => cutting.plan_picture_alone(found, seen)?,
    };
    (plan.judged.unlisted, plan.judged.older, plan.judged.left) = (unfinished, older, left);
    let of_mapped = manifest.generations.last().filter(|last| last.durable.is_none());
    if let Some(Generation { number, logs, .. }) = of_mapped {
        // A repair takes nothing of them: they are copied with what is cut.
        let names = mapped::names_of(disk, *number, *logs).map_err(DurabilityError::from)?;
        plan.loss.files.extend(names.into_iter().map(|name| (name, 0)));
    }
    match below {
        None => Ok(plan),
        Some(why) => Err(NoRepair::BelowThePicture(why, Box::new(plan))),
    }
}

/// A folder that is to be cut.
struct Cutting<'c> {
    disk: &'c dyn Disk,
    manifest: &'c Manifest,
    files: &'c Files,
    limits: &'c WholeLimits,
    hint: Option<&'c Hint>,
}

/// Where it is cut.
struct RepairCut {
    /// Of the generation that is closed there, in the manifest's order.
    index: usize,
    durable: Epoch,
    /// Its logs, those of which something is whole.
    chains: Vec<Chain>,
    /// Nothing is given up but bytes that do not belong there.
    is_lossless: bool,
    /// Where files of it, and of generations before it, are cut.
    cuts: Vec<(SegmentFile, u64)>,
}

impl Cutting<'_> {
    /// The first generation that cannot be whole again, or the last one.
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

    /// D and the logs of a generation in which nothing is missing: bytes that do not belong there are left out, and the
    /// verdict is that of an open.
    fn whole(&self, generation: &Generation) -> Result<Option<(Epoch, Vec<Chain>)>, DurabilityError> {
        let checkpoint = self.manifest.checkpoint.as_ref();
        let judged = || -> Result<_, DurabilityError> {
            let mut chains = Vec::new();
            for logger in 0..generation.logs {
                let key = (generation.number, logger);
                let Some(files) = self.files.get(&key) else {
                    let missing = SegmentName { generation: key.0, logger, number: 0 };
                    return Err(listing::missing_file(missing));
                };
                let read = read_until(self.disk, files, generation, None)?;
                chains.extend(judgement::log(self.disk, generation, read, self.covered(), &mut FirstEnds)?);
            }
            let verdict = judgement::generation(generation, &chains, self.hint, checkpoint, &mut FirstEnds)?;
            Ok(verdict.map(|verdict| (verdict.durable, chains)))
        };
        let judged = Damage::unless(judged())?.flatten();
        Ok(judged.filter(|(_, chains)| chains.iter().all(|chain| self.is_damaged_behind_only(chain))))
    }

    /// Is all damage of a log behind the ends of its files?
    fn is_damaged_behind_only(&self, chain: &Chain) -> bool {
        let Some(limits) = self.limits.get(&(chain.generation, chain.logger)) else { return true };
        assert!(!limits.is_empty(), "a log is in the list for its damage");
        let is_behind = |(file, offset): (&SegmentFile, &u64)| {
            chain.links.iter().any(|link| link.file == *file && link.end <= *offset)
        };
        limits.iter().all(is_behind)
    }

    /// A log as it is once it is cut: see [`cut_chain`].
    fn cut_chain(&self, generation: &Generation, logger: u32) -> Result<Option<Chain>, DurabilityError> {
        let key = (generation.number, logger);
        let own = self.files.get(&key).map_or(&[][..], Vec::as_slice);
        cut_chain(self.disk, own, self.covered(), generation, self.limits.get(&key))
    }

    /// What the dead process of a process-safe life left above `durable`, in this boot. An open would take it, or would
    /// refuse what is damaged of it; a cut gives it up. `None` if there was no such life.
    fn left_by_process(&self, durable: Epoch) -> Result<Option<LeftAbove>, DurabilityError> {
        let Some(open) = self.manifest.generations.last() else { return Ok(None) };
        match taking::find(self.disk, self.manifest, open)? {
            LeftByProcess::Here(_) => {}
            // Buffers that nothing names, and that count entries.
            left @ LeftByProcess::NotNamed if Damage::unless(left.buffers(self.disk, open))?.is_none() => {}
            _ => return Ok(None),
        }
        let mut above = LeftAbove::default();
        for HeldAbove { name, held } in mapped::held_above(self.disk, (open.number, open.logs), durable)? {
            match held {
                Some(UnprovenEntries { entries, epochs: (_, high), .. }) => {
                    above.entries += u64::from(entries);
                    above.high = above.high.max(high);
                }
                None => above.unreadable.push(name.to_string()),
            }
        }
        Ok(Some(above))
    }

    /// Entries of smaller epochs are in the checkpoint.
    fn covered(&self) -> Epoch {
        self.manifest.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered)
    }

    /// Does no file of this generation's logs bear the salt that the manifest lists, and one another?
    fn is_strange(&self, generation: &Generation) -> Result<bool, DurabilityError> {
        let (mut own, mut strange) = (false, false);
        for file in files_of(self.files, generation) {
            let read = Damage::unless(FileChain::read(self.disk, *file, None))?;
            let opening = read.and_then(|chain| chain.opening);
            own |= opening.as_ref().is_some_and(|opening| opening.origin.salt == generation.salt);
            strange |= opening.is_some_and(|opening| opening.origin.salt != generation.salt);
        }
        Ok(strange && !own)
    }

    /// Where files of damaged logs are cut: behind the end of each.
    fn cuts_of(&self, chains: &[Chain]) -> Result<Vec<(SegmentFile, u64)>, DurabilityError> {
        let mut cuts = Vec::new();
        for chain in chains.iter().filter(|chain| self.limits.contains_key(&(chain.generation, chain.logger)))
        {
            for link in &chain.links {
                assert!(link.end >= OPENING_BYTES as u64, "the opening block of {} stays", link.file);
                let mut scanner = Scanner::new(self.disk.open_to_read(&link.file.to_string())?)?;
                // Space that was set aside is no reason to touch a file.
                if scanner.used_to(link.end)? > link.end {
                    cuts.push((link.file, link.end));
                }
            }
        }
        Ok(cuts)
    }

    /// Why a cut there would not help, or would do harm. What is returned: why it would not, where the installed
    /// picture would, without any of the log.
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

    /// No file holds something of a checkpoint that the manifest does not list, and that holds more than the end of
    /// `durable`.
    fn check_later(&self, durable: Epoch) -> Result<(), NoRepair> {
        let known = self.manifest.checkpoint.as_ref().map_or(0, InstalledCheckpoint::number);
        let found = later_than(self.disk, self.manifest, (known, durable))?;
        let is_listed = found.is_some_and(|file| file.is_installed(self.manifest));
        let mut later = found.map(|file| file.to_string());
        for part in leftovers::search::<PartName>(self.disk, self.manifest)? {
            // A checkpoint's opening block says its e_l there.
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

    /// The installed picture stays, and nothing of the log: the state at the end of e_c, or of the epoch before the
    /// first generation's, which is the same.
    fn plan_picture_alone(&self, found: &Examination, seen: Epoch) -> Result<RepairPlan, DurabilityError> {
        let picture = self.manifest.checkpoint.as_ref().expect("it is below a picture");
        assert!(picture.is_picture(), "K1: a fuzzy one needs the log");
        let generations = &self.manifest.generations;
        let generation = generations.first().expect("a database that was created has one");
        let durable = picture.durable_min().max(generation.first.previous());
        let files = generations.iter().flat_map(|other| files_of(self.files, other));
        let dropped: Vec<SegmentFile> = files.copied().collect();
        let mut loss = Loss { durable, ..Loss::default() };
        for other in generations {
            loss.entries += entries_above(self.disk, self.files, other, durable)?;
        }
        let left = self.left_by_process(durable)?.unwrap_or_default();
        let seen = seen.max(left.high);
        loss.entries += left.entries;
        loss.epochs = (seen > durable).then(|| (durable.next(), seen));
        loss.unreadable = unreadable(found, left);
        loss.files = dropped.iter().map(|file| (file.to_string(), 0)).collect();
        assert!(
            loss.epochs.is_none_or(|(low, high)| durable < low && low <= high),
            "E2: a whole epoch is cut"
        );
        let closed = Generation { durable: Some(durable), ..generation.clone() };
        let closed = DecidedGeneration { generation: closed, has_entries: false, log_bytes: None };
        let last = generations.last().map_or((0, 1), |last| (last.number, last.logs));
        let judged = Judged { generations: vec![closed], given_up: dropped, seen, ..Judged::default() };
        Ok(RepairPlan { loss, judged, last })
    }

    fn plan(&self, cut: RepairCut, found: &Examination, seen: Epoch) -> Result<RepairPlan, DurabilityError> {
        let RepairCut { index, durable, chains, is_lossless, cuts } = cut;
        let (before, rest) = self.manifest.generations.split_at(index);
        let (generation, later) = rest.split_first().expect("it stands at its index");
        // Of one without a log nothing but its picture counts, which is not in it.
        let stays = durable >= generation.first && generation.logs > 0;
        let chains = if stays { chains } else { Vec::new() };
        let is_kept = |file: &SegmentFile| chains.iter().any(|chain| is_of_chain(chain, *file));
        let mut dropped: Vec<SegmentFile> =
            files_of(self.files, generation).filter(|file| !is_kept(file)).copied().collect();
        dropped.extend(later.iter().flat_map(|other| files_of(self.files, other)));
        let cuts: Vec<_> = cuts.into_iter().filter(|(file, _)| !dropped.contains(file)).collect();
        let mut loss = Loss { durable, ..Loss::default() };
        let left = self.left_by_process(durable)?;
        let gives_up = !is_lossless || left.is_some();
        let left = left.unwrap_or_default();
        let seen = seen.max(left.high);
        if gives_up {
            for other in rest {
                loss.entries += entries_above(self.disk, self.files, other, durable)?;
            }
            loss.entries += left.entries;
            loss.epochs = (seen > durable).then(|| (durable.next(), seen));
            loss.unreadable = unreadable(found, left);
        }
        loss.files = cuts.iter().map(|(file, from)| (file.to_string(), *from)).collect();
        let beyond = chains.iter().flat_map(|chain| &chain.beyond);
        loss.files.extend(beyond.chain(&dropped).map(|file| (file.to_string(), 0)));
        assert!(durable.next() >= generation.first, "L4: a generation is closed in its own epochs, or empty");
        assert!(
            loss.epochs.is_none_or(|(low, high)| durable < low && low <= high),
            "E2: a whole epoch is cut"
        );
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

/// What a process-safe life left in mapped buffers above the epoch that is kept, as far as it can be read. What its log
/// had got meanwhile is counted there too.
#[derive(Default)]
struct LeftAbove {
    entries: u64,
    high: Epoch,
    /// Buffers that hold what is no entries.
    unreadable: Vec<String>,
}

/// The damaged files, and the buffers that cannot be read, each once.
fn unreadable(found: &Examination, left: LeftAbove) -> Vec<String> {
    let damaged = found.damage.iter().map(|damage| damage.file.clone());
    damaged.chain(left.unreadable).collect::<BTreeSet<_>>().into_iter().collect()
}

/// By generation and log, up to where what files it is whole; `None` if something else than a log is damaged.
type WholeLimits = BTreeMap<(u64, u32), BTreeMap<SegmentFile, u64>>;

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
        // Its entries are given up as a power cut would give them up: what the logs have is whole without them (B4).
        if mapped::is_mapped_file(file) {
            continue;
        }
        let Some(file) = SegmentFile::at(file) else {
            return Err(format!("no other file says what {file} held"));
        };
        let log = limits.entry((file.name.generation, file.name.logger)).or_default();
        let limit = log.entry(file).or_insert(*offset);
        *limit = (*limit).min(*offset);
    }
    Ok(limits)
}

fn files_of<'f>(files: &'f Files, generation: &Generation) -> impl Iterator<Item = &'f SegmentFile> {
    let number = generation.number;
    (0..generation.logs).filter_map(move |logger| files.get(&(number, logger))).flatten()
}

fn is_of_chain(chain: &Chain, file: SegmentFile) -> bool {
    let is_link = chain.links.iter().any(|link| link.file == file);
    is_link || chain.beyond.contains(&file) || chain.discarded.contains(&file)
}

/// Reads the files of a log as if each ended where it is damaged, and where the next one goes on.
fn read_until(
    disk: &dyn Disk,
    files: &[SegmentFile],
    generation: &Generation,
    limits: Option<&BTreeMap<SegmentFile, u64>>,
) -> Result<Vec<FileChain>, DurabilityError> {
    assert!(files.windows(2).all(|pair| pair[0].name < pair[1].name), "of one log, in order");
    let mut read = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let limit = limits.and_then(|limits| limits.get(file)).copied();
        // What the next file shows to be synced was so before it was damaged.
        let next = files.get(index + 1).copied().filter(|_| limit.is_none());
        let until = generation.log_bytes(file.name).min(limit.unwrap_or(u64::MAX));
        read.push(FileChain::read_until(disk, *file, next, until)?);
    }
    for index in 1..read.len() {
        let (before, next) = read.split_at_mut(index);
        if let (Some(last), Some(next)) = (before.last_mut(), next.first())
            && chain::is_next(last, next)
        {
            // Nothing is missing between the two: what stands behind the first one's end does not belong there.
            last.tail = Tail::default();
        }
    }
    Ok(read)
}

/// A log read from its files as if each ended where it is damaged, and where the next one goes on; `None` if nothing of
/// it is whole. A missing file ends it before the gap.
fn cut_chain(
    disk: &dyn Disk,
    files: &[SegmentFile],
    covered: Epoch,
    generation: &Generation,
    limits: Option<&BTreeMap<SegmentFile, u64>>,
) -> Result<Option<Chain>, DurabilityError> {
    let mut read = read_until(disk, files, generation, limits)?;
    let strange = read.iter().position(|file| chain::check_origin(generation, file).is_err());
    read.truncate(strange.unwrap_or(read.len()));
    while !read.is_empty() {
        if let Some(chain) = Damage::unless(Chain::stitch(disk, read.clone(), covered))? {
            return Ok((!chain.links.is_empty()).then_some(chain));
        }
        let number = |file: &FileChain| file.file.name.number;
        let gap = read.windows(2).rposition(|pair| number(&pair[0]) + 1 != number(&pair[1]));
        read.truncate(gap.map_or(0, |index| index + 1));
    }
    Ok(None)
}

/// Entries of a generation above an epoch that counted, or might have, as far as they can be read. A piece that
/// straddles the epoch counts whole.
fn entries_above(
    disk: &dyn Disk,
    files: &Files,
    generation: &Generation,
    durable: Epoch,
) -> Result<u64, DurabilityError> {
    let counted = generation.durable.unwrap_or(Epoch::MAX);
    let mut entries = 0;
    for file in files_of(files, generation) {
        let Some(chain) = Damage::unless(FileChain::read(disk, *file, None))? else { continue };
        let lost = chain.runs.iter().filter(|run| run.epoch_max > durable && run.epoch_min <= counted);
        entries += lost.map(|run| run.entries).sum::<u64>();
    }
    Ok(entries)
}
