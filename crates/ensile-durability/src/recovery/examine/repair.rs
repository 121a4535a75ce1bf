//! A damaged folder cut to its last consistent epoch, when somebody asks for it.
//!
//! The oldest generation in which something is damaged is closed at the least mark that is whole in all its logs; what
//! comes after it, later generations included, is given up. What is cut is copied first.
//!
//! Invariants:
//! - E2: the state that is kept is that at the end of an epoch, as if the database had crashed then.
//! - L4: the epochs that are given up are void for ever: the manifest says where their generation ends, and the next
//!   generation begins above every epoch that any file showed.
//! - K1: nothing is cut below e_h of the installed checkpoint, as the log before it is gone.
//! - A crash in between leaves a folder that is still damaged and can be repaired again, with the same end; the copies are
//!   synced before the manifest is replaced, and nothing is cut or removed before that.
//!
//! Neighbours: what to cut comes from an [`Examination`]; the last part is recovery's own `finish`.

use std::collections::BTreeMap;
use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::Recovery;
use super::super::chain::{self, Chain};
use super::super::file::FileChain;
use super::super::listing::{self, Files};
use super::super::load::{Load, LoadStep};
use super::facts::{Damage, Examination, Loss, Repaired};
use super::{Nowhere, examine_locked};
use crate::log::LogConfig;
use crate::store::hint::Hint;
use crate::store::manifest::{Generation, Manifest, ManifestKeeper};
use crate::store::names::{MANIFEST, SegmentFile};
use crate::store::{Hold, Locks, lock_existing};
use crate::{DurabilityError, Recoverable};

/// Read and written at once while copying.
const COPY_BYTES: usize = 1 << 20;

/// What a repair would do.
pub(super) struct Plan {
    pub(super) loss: Loss,
    /// Generations up to the cut one, which is closed at the cut, and the numbers of those that stay.
    generations: Vec<Generation>,
    with_entries: Vec<u64>,
    /// Chains of the cut one, if it stays.
    chains: Vec<Chain>,
    /// Files that do not stay, none of a chain.
    dropped: Vec<SegmentFile>,
    /// Files of a merge that had not ended.
    unfinished: Vec<SegmentFile>,
    /// The largest epoch that any file showed, and the last generation's number and logs.
    seen: Epoch,
    last: (u64, u32),
}

/// Cuts a damaged folder; `None` if nothing is damaged.
///
/// # Errors
/// As for [`super::examine`]; [`DurabilityError::Config`] with the reason if no cut leaves a consistent state.
pub fn repair(
    disk: &StdArc<dyn Disk>,
    target: &dyn Recoverable,
) -> Result<Option<Repaired>, DurabilityError> {
    let locks = lock_existing(&**disk, Hold::Exclusive, &mut Err)?;
    let found = examine_locked(disk, target)?;
    if found.damage.is_empty() {
        return Ok(None);
    }
    let plan = plan(disk, &found)?.map_err(DurabilityError::config)?;
    let copies = copy_aside(&**disk, &plan.loss)?;
    let loss = plan.loss.clone();
    carry_out(disk, plan, locks)?;
    Ok(Some(Repaired { loss, copies }))
}

/// What a repair would do, or why there is none.
pub(super) fn plan(
    disk: &StdArc<dyn Disk>,
    found: &Examination,
) -> Result<Result<Plan, String>, DurabilityError> {
    let disk = &**disk;
    let limits = match limits_of(&found.damage) {
        Ok(limits) => limits,
        Err(reason) => return Ok(Err(reason)),
    };
    let Some(manifest) = Manifest::read(disk)? else {
        return Ok(Err("the manifest is missing, and no other file tells what it held".to_owned()));
    };
    let oldest = limits.keys().map(|(generation, _)| *generation).min().unwrap_or(0);
    let Some(index) = manifest.generations.iter().position(|generation| generation.number == oldest) else {
        return Ok(Err(format!("generation {oldest} is damaged, and not listed")));
    };
    let (files, unfinished) = match listing::find_with_unfinished(disk, &manifest) {
        Ok(files) => files,
        Err(error) => {
            let Damage { file, detail, .. } = Damage::of(error)?;
            return Ok(Err(format!("{file}: {detail}; move that one away")));
        }
    };
    let (before, rest) = manifest.generations.split_at(index);
    let (generation, later) = rest.split_first().expect("it stands at its index");
    let covered = manifest.checkpoint.as_ref().map_or(Epoch::ZERO, |checkpoint| checkpoint.low);
    let mut chains = Vec::new();
    for logger in 0..generation.logs {
        let own = files.get(&(oldest, logger)).map_or(&[][..], Vec::as_slice);
        chains.push(cut_chain(disk, own, covered, generation, limits.get(&(oldest, logger)))?);
    }
    let mark = |chain: &Option<Chain>| chain.as_ref().map_or(Epoch::ZERO, |chain| chain.mark);
    let whole = chains.iter().map(mark).min().unwrap_or_default();
    let durable = whole.min(generation.durable.unwrap_or(Epoch::MAX)).max(generation.first.previous());
    if let Some(checkpoint) = manifest.checkpoint.as_ref().filter(|checkpoint| checkpoint.high > durable) {
        return Ok(Err(format!(
            "what is whole ends at epoch {durable}, but the checkpoint needs the log up to epoch {}, and the log before \
             the checkpoint is gone",
            checkpoint.high
        )));
    }
    let stays = durable >= generation.first;
    let chains: Vec<Chain> = if stays { chains.into_iter().flatten().collect() } else { Vec::new() };
    let mut loss = Loss { durable, ..Loss::default() };
    let mut dropped: Vec<SegmentFile> = Vec::new();
    for logger in 0..generation.logs {
        let in_chain = chains.iter().find(|chain| chain.logger == logger);
        let own = files.get(&(oldest, logger)).into_iter().flatten();
        dropped.extend(own.filter(|file| !in_chain.is_some_and(|chain| is_of_chain(chain, **file))));
    }
    dropped.extend(later.iter().flat_map(|other| files_of(&files, other)));
    for other in rest {
        loss.entries += entries_above(disk, &files, other, durable)?;
    }
    for (file, from) in cuts_of(&chains, &limits) {
        if disk.open_to_read(&file)?.len()? > from {
            loss.files.push((file, from));
        }
    }
    loss.files.extend(dropped.iter().map(|file| (file.to_string(), 0)));
    let seen = seen_in(disk, &manifest, &files)?;
    loss.epochs = (seen > durable).then(|| (durable.next(), seen));
    let last = manifest.generations.last().map_or((0, 1), |last| (last.number, last.logs));
    let closed = Generation { durable: Some(durable), ..generation.clone() };
    let with_entries = before.iter().chain(stays.then_some(generation)).map(|other| other.number).collect();
    let generations = before.iter().cloned().chain([closed]).collect();
    Ok(Ok(Plan { loss, generations, with_entries, chains, dropped, unfinished, seen, last }))
}

/// By generation and log, up to where what files it is whole; `None` if something else than a log is damaged.
type Limits = BTreeMap<(u64, u32), BTreeMap<SegmentFile, u64>>;

fn limits_of(damage: &[Damage]) -> Result<Limits, String> {
    let mut limits = Limits::new();
    for Damage { file, offset, detail, is_refused } in damage {
        if *is_refused {
            return Err(format!(
                "{file} is whole, and nothing of it is cut: {detail}; use a newer version, or put the file where it belongs"
            ));
        }
        let Some(file) = parsed(file) else {
            return Err(format!("no other file tells what {file} held"));
        };
        let log = limits.entry((file.name.generation, file.name.logger)).or_default();
        let limit = log.entry(file).or_insert(*offset);
        *limit = (*limit).min(*offset);
    }
    Ok(limits)
}

fn parsed(path: &str) -> Option<SegmentFile> {
    let (folder, name) = path.split_once('/')?;
    SegmentFile::parse(folder.strip_prefix("log")?.parse().ok()?, name)
}

fn files_of<'f>(files: &'f Files, generation: &Generation) -> impl Iterator<Item = &'f SegmentFile> {
    let number = generation.number;
    (0..generation.logs).filter_map(move |logger| files.get(&(number, logger))).flatten()
}

fn is_of_chain(chain: &Chain, file: SegmentFile) -> bool {
    let is_link = chain.links.iter().any(|link| link.file == file);
    is_link || chain.beyond.contains(&file) || chain.void.contains(&file)
}

/// The largest epoch that anything shows: each file by itself, damaged or not.
fn seen_in(disk: &dyn Disk, manifest: &Manifest, files: &Files) -> Result<Epoch, DurabilityError> {
    let mut seen = manifest.checkpoint.as_ref().map_or(Epoch::ZERO, |checkpoint| checkpoint.high);
    if let Some(hint) = Hint::read(disk)? {
        seen = seen.max(hint.durable);
    }
    for generation in &manifest.generations {
        seen = seen.max(generation.first.previous()).max(generation.durable.unwrap_or_default());
        for file in files_of(files, generation) {
            match FileChain::read(disk, *file, None) {
                Ok(chain) => {
                    let tail = chain.tail.epochs.map_or(Epoch::ZERO, |(_, high)| high);
                    seen = seen.max(chain.seen).max(chain.published).max(tail);
                }
                Err(error) => drop(Damage::of(error)?),
            }
        }
    }
    Ok(seen)
}

/// A log read from its files as if each ended where it is damaged; `None` if nothing of it is whole. A missing file ends
/// it before the gap.
fn cut_chain(
    disk: &dyn Disk,
    files: &[SegmentFile],
    covered: Epoch,
    generation: &Generation,
    limits: Option<&BTreeMap<SegmentFile, u64>>,
) -> Result<Option<Chain>, DurabilityError> {
    let mut read = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let limit = limits.and_then(|limits| limits.get(file)).copied();
        // What the next file shows to be synced was so before it was damaged.
        let next = files.get(index + 1).copied().filter(|_| limit.is_none());
        read.push(FileChain::read_until(disk, *file, next, limit.unwrap_or(u64::MAX))?);
    }
    let strange = read.iter().position(|file| chain::check_origin(generation, file).is_err());
    read.truncate(strange.unwrap_or(read.len()));
    while !read.is_empty() {
        match Chain::stitch(disk, read.clone(), covered) {
            Ok(chain) => return Ok((!chain.links.is_empty()).then_some(chain)),
            Err(error) => drop(Damage::of(error)?),
        }
        let number = |file: &FileChain| file.file.name.number;
        let gap = read.windows(2).rposition(|pair| number(&pair[0]) + 1 != number(&pair[1]));
        read.truncate(gap.map_or(0, |index| index + 1));
    }
    Ok(None)
}

/// Entries of a generation above an epoch that counted, or might have, as far as they can be read. A piece that straddles
/// the epoch counts whole.
fn entries_above(
    disk: &dyn Disk,
    files: &Files,
    generation: &Generation,
    durable: Epoch,
) -> Result<u64, DurabilityError> {
    let counted = generation.durable.unwrap_or(Epoch::MAX);
    let mut entries = 0;
    for file in files_of(files, generation) {
        let chain = match FileChain::read(disk, *file, None) {
            Ok(chain) => chain,
            Err(error) => {
                Damage::of(error)?;
                continue;
            }
        };
        let lost = chain.runs.iter().filter(|run| run.epoch_max > durable && run.epoch_min <= counted);
        entries += lost.map(|run| run.entries).sum::<u64>();
    }
    Ok(entries)
}

/// Where files of a generation that stays are cut: those behind the end of a chain, and the damaged one itself.
fn cuts_of<'a>(chains: &'a [Chain], limits: &'a Limits) -> impl Iterator<Item = (String, u64)> + 'a {
    chains.iter().flat_map(move |chain| {
        let is_damaged = limits.contains_key(&(chain.generation, chain.logger));
        let own = is_damaged.then(|| (chain.end_file(), chain.end.offset));
        own.into_iter().chain(chain.beyond.iter().map(|file| (file.to_string(), 0)))
    })
}

/// Copies what will be cut, and the manifest, into a new folder; its name.
fn copy_aside(disk: &dyn Disk, loss: &Loss) -> Result<String, DurabilityError> {
    let mut number = 1;
    while disk.exists(&format!("repaired-{number}"))? {
        number += 1;
    }
    let folder = format!("repaired-{number}");
    disk.create_folder(&folder)?;
    let manifest = (MANIFEST.to_owned(), 0);
    for (name, from) in loss.files.iter().chain([&manifest]) {
        let flat = name.replace('/', "-");
        let to = if *from == 0 { flat } else { format!("{flat}-from-{from}") };
        copy(disk, name, *from, &format!("{folder}/{to}"))?;
    }
    disk.sync_folder(&folder)?;
    disk.sync_folder("")?;
    Ok(folder)
}

fn copy(disk: &dyn Disk, from: &str, mut offset: u64, to: &str) -> Result<(), DurabilityError> {
    let (source, copy) = (disk.open_to_read(from)?, disk.create(to)?);
    let (mut bytes, mut written) = (vec![0; COPY_BYTES], 0);
    loop {
        let read = source.read_at(&mut bytes, offset)?;
        if read == 0 {
            return Ok(copy.sync_all()?);
        }
        copy.write_at(&bytes[..read], written)?;
        offset += read as u64;
        written += read as u64;
    }
}

/// Makes the cut durable, as a recovery that ended there would.
fn carry_out(disk: &StdArc<dyn Disk>, plan: Plan, locks: Locks) -> Result<(), DurabilityError> {
    let keeper = ManifestKeeper::of(disk, Manifest::expect(&**disk)?);
    let load = Load::new(&**disk, keeper.manifest().checkpoint.clone())?;
    while load.step(&**disk, &Nowhere)? == LoadStep::Loaded {}
    let Plan { loss, generations, with_entries, chains, dropped, unfinished, seen, last: (number, logs) } =
        plan;
    let config = LogConfig { loggers: logs as usize, ..LogConfig::default() };
    let mut recovery = Recovery::new(StdArc::clone(disk), keeper, config, locks, load);
    recovery.generations = generations;
    recovery.with_entries = with_entries;
    recovery.open_chains = chains;
    recovery.given_up = dropped;
    recovery.unlisted = unfinished;
    recovery.seen = seen;
    (recovery.report.durable_epoch, recovery.report.generation) = (loss.durable, number + 1);
    recovery.finish().map(drop)
}
