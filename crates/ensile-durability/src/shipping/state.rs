//! Which state the files in the shared store make up: decided from what is there, with no clock, no disk and no store.
//!
//! ```text
//! checkpoint | frozen: generations as an earlier manifest had them | live: closed ones, all files | the open one, cut at S
//! ```
//! S is the least of the last marks that the shipped files of the open generation's logs have. Each log is cut behind
//! its first mark of S or more, and is what a crash at S leaves (N20). Its generation is closed at S, and one without a
//! log stands behind it, as in a copy of files.
//!
//! Invariants:
//! - H1: a state names files that are in the store, and no others.
//! - H3: of each log the files of a state follow each other, from the first that the checkpoint does not cover, and of
//!   a closed generation to the last that there was; between two generations of a state no generation is left out.
//! - K1, K5: a checkpoint counts with an S that is not below its e_h.
//!
//! Neighbours: the shipper fills the inventory and asks; `store::kept` has the lines.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;

use super::log_file::Marks;
use crate::block::{FORMAT, Salt};
use crate::identity::Identity;
use crate::number;
use crate::store::closed_files::ClosedFile;
use crate::store::installed::InstalledCheckpoint;
use crate::store::kept::{FilesState, LogSpan};
use crate::store::manifest::Generation;
use crate::store::names::{PartName, SegmentFile, SegmentName};
use crate::store::shared_manifest::{SharedFile, SharedLog, SharedManifest, SharedPiece};

/// A log file in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShippedLog {
    pub(crate) shared: SharedFile,
    pub(crate) largest: Epoch,
    /// No file of its log before it has an entry of a larger epoch.
    pub(crate) before: Epoch,
    /// Known of files that this life has looked at.
    pub(crate) marks: Marks,
}

/// What is in the store, and may be named by a manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShippedFiles {
    pub(crate) parts: BTreeMap<PartName, SharedFile>,
    /// By names without the end that a closed file's says.
    pub(crate) logs: BTreeMap<SegmentFile, ShippedLog>,
}

impl ShippedFiles {
    /// What a manifest names.
    pub(crate) fn of(manifest: &SharedManifest) -> Self {
        let parts = manifest.parts.iter().cloned().collect();
        // The first file of a log that a state names begins below what its checkpoint covers (H3).
        let covered = manifest.state.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered);
        let largest: BTreeMap<SegmentName, Epoch> =
            manifest.logs.iter().map(|log| (log.file.name, log.largest)).collect();
        let before = |name: SegmentName| {
            let previous = name.number.checked_sub(1).map(|number| SegmentName { number, ..name });
            match previous {
                None => Epoch::ZERO,
                Some(previous) => largest.get(&previous).copied().unwrap_or(covered.previous()),
            }
        };
        let logs = manifest.logs.iter().map(|SharedLog { file, shared, largest }| {
            let (shared, largest, before) = (shared.clone(), *largest, before(file.name));
            (*file, ShippedLog { shared, largest, before, marks: Marks::new() })
        });
        Self { parts, logs: logs.collect() }
    }

    /// Forgets what a listing does not show at its length. One of the objects that are missing.
    pub(crate) fn keep_listed(&mut self, listed: &BTreeMap<String, u64>) -> Option<String> {
        let mut missing = None;
        let mut is_listed = |pieces: Vec<SharedPiece>| {
            let is_missing = |piece: &SharedPiece| listed.get(&piece.object) != Some(&piece.bytes);
            let lacks = pieces.into_iter().find(is_missing);
            let is_listed = lacks.is_none();
            missing = lacks.map(|piece| piece.object).or(missing.take());
            is_listed
        };
        self.parts.retain(|part, shared| is_listed(shared.pieces(&part.to_string())));
        self.logs.retain(|file, log| is_listed(log.shared.pieces(&file.to_string())));
        missing
    }

    /// The marks below S are not asked for any more: S only grows.
    pub(crate) fn forget_marks_below(&mut self, shown: Epoch) {
        for log in self.logs.values_mut() {
            log.marks.retain(|(mark, _)| *mark >= shown);
        }
    }

    /// Is this file of a log with this salt in the store?
    pub(crate) fn has_log(&self, file: SegmentFile, salt: Salt) -> bool {
        self.logs.get(&file.archived()).is_some_and(|shipped| shipped.shared.salt == salt)
    }

    /// Does it have every file that this manifest names?
    pub(crate) fn has_all_of(&self, manifest: &SharedManifest) -> bool {
        let has_part = |(part, shared): &(PartName, SharedFile)| self.parts.get(part) == Some(shared);
        let has_log = |log: &SharedLog| self.logs.get(&log.file).is_some_and(|own| own.shared == log.shared);
        manifest.parts.iter().all(has_part) && manifest.logs.iter().all(has_log)
    }

    /// The objects of all that it has.
    pub(crate) fn objects(&self) -> BTreeSet<String> {
        let parts = self.parts.iter().flat_map(|(part, shared)| shared.pieces(&part.to_string()));
        let logs = self.logs.iter().flat_map(|(file, shipped)| shipped.shared.pieces(&file.to_string()));
        parts.chain(logs).map(|piece| piece.object).collect()
    }
}

/// A checkpoint, and the generations behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    /// As an earlier manifest had them; nothing is added to them.
    pub(crate) frozen: Vec<Generation>,
    /// As the database's manifest lists them, the open one last; none if nothing can be added to this base.
    pub(crate) live: Vec<Generation>,
    /// The first of `live` as the newest shared manifest has it, closed at S: it counts until more of it is there.
    cut: Option<Generation>,
    /// The number of the last file of each log of `live` generations that are closed, by generation and logger. Later
    /// the files may go unshipped, once the manifest does not list their generation.
    ends: BTreeMap<(u64, u32), u64>,
}

/// A state, with what a manifest says beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComposedState {
    pub(crate) state: FilesState,
    /// The generation of which files are still to come.
    pub(crate) next: (u64, Salt),
    pub(crate) parts: Vec<(PartName, SharedFile)>,
    pub(crate) logs: Vec<SharedLog>,
}

impl Base {
    /// What a database that lists these has, from the beginning. `closed` was looked at before they were: while a
    /// generation is listed, the last file of each of its logs is there (K5).
    pub(crate) fn of_life(
        checkpoint: Option<InstalledCheckpoint>,
        generations: &[Generation],
        closed: &[ClosedFile],
    ) -> Self {
        let (live, ends) = (generations.to_vec(), ends_of(generations, closed));
        Self { checkpoint, frozen: Vec::new(), live, cut: None, ends }
    }

    /// That of the newest shared manifest, to which this life's generations are added if they follow on it: if the one
    /// of which files were still to come is listed as it was (H3). `closed`: as above.
    pub(crate) fn of_shared(manifest: &SharedManifest, listed: &[Generation], closed: &[ClosedFile]) -> Self {
        let (number, salt) = manifest.next;
        let is_next = |generation: &Generation| (generation.number, generation.salt) == (number, salt);
        let live = listed.iter().position(is_next).map_or(&[][..], |at| &listed[at..]);
        let is_frozen =
            |generation: &&Generation| generation.logs > 0 && (live.is_empty() || generation.number < number);
        let generations = &manifest.state.generations;
        let frozen = generations.iter().filter(is_frozen).cloned().collect();
        let is_cut = |generation: &&Generation| generation.logs > 0 && is_next(generation);
        let cut = generations.iter().find(is_cut).filter(|_| !live.is_empty()).cloned();
        let (live, ends) = (live.to_vec(), ends_of(live, closed));
        Self { checkpoint: manifest.state.checkpoint.clone(), frozen, live, cut, ends }
    }

    /// Entries of smaller epochs are in its checkpoint.
    pub(crate) fn covered(&self) -> Epoch {
        self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered)
    }

    /// The state that the store has on this base; `None` if it lacks what the base needs. `closed`: the log files of
    /// the database's folder that get no more blocks.
    pub(crate) fn compose(
        &self,
        inventory: &ShippedFiles,
        closed: &[ClosedFile],
        shipper: Identity,
    ) -> Option<ComposedState> {
        let parts = self.parts(inventory)?;
        let oldest = self.checkpoint.as_ref().map_or(0, |checkpoint| *checkpoint.generations().start());
        let mut generations: Vec<Generation> =
            self.frozen.iter().filter(|frozen| frozen.number >= oldest).cloned().collect();
        let mut next = None;
        for generation in self.live.iter().filter(|live| live.number >= oldest) {
            let ended = self.ended(generation, (inventory, closed));
            let has_more = generation.durable.is_none() || ended.is_none();
            let cut = self.cut.as_ref().filter(|cut| cut.number == generation.number);
            generations.extend(ended.or_else(|| cut.cloned()));
            if has_more {
                next = Some((generation.number, generation.salt));
                break;
            }
        }
        // The open one, which has nothing here yet: its first file is still to come.
        let last = generations.last().or_else(|| self.live.first())?.clone();
        let next = next.unwrap_or((last.number, last.salt));
        let first = generations.last().and_then(|last| last.durable).map_or(last.first, Epoch::next);
        let number = if generations.is_empty() { last.number } else { number::next(last.number)? };
        generations.push(without_log(&last, (number, first), shipper));
        let least = self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min);
        let fits = |checkpoint: &InstalledCheckpoint| generations.iter().all(|one| one.fits(checkpoint));
        if first.previous() < least || !self.checkpoint.iter().all(fits) {
            return None;
        }
        let logs = named_logs(&generations, inventory)?;
        let state = FilesState { checkpoint: self.checkpoint.clone(), generations };
        Some(ComposedState { state, next, parts, logs })
    }

    /// The generation as the store has it, closed: by its own D if all of its files are there, an open one at S.
    fn ended(&self, generation: &Generation, of: (&ShippedFiles, &[ClosedFile])) -> Option<Generation> {
        let (inventory, covered) = (of.0, self.covered());
        let mut logs = Vec::new();
        for logger in 0..generation.logs {
            let files = files_of_log(generation, logger, of, covered);
            let (file, _) = files.first()?;
            let first = file.name.number;
            // Otherwise files before it are missing that the checkpoint does not cover (H3).
            let is_beginning = first == 0 || inventory.logs.get(file).is_some_and(|log| log.before < covered);
            if !is_beginning {
                return None;
            }
            let is_here = |(at, (file, _)): &(usize, &(SegmentFile, Epoch))| {
                file.name.number == first + *at as u64 && inventory.has_log(*file, generation.salt)
            };
            let here = files.iter().enumerate().take_while(is_here).count();
            if here == 0 || (generation.durable.is_some() && here < files.len()) {
                return None;
            }
            // What the log ended with may be gone by now, unshipped and here in no list (H3).
            let last = files[here - 1].0.name.number;
            let is_end = self.ends.get(&(generation.number, logger)).is_some_and(|end| *end <= last);
            if generation.durable.is_some() && !is_end {
                return None;
            }
            logs.push(files[..here].iter().map(|(file, _)| *file).collect::<Vec<_>>());
        }
        let marks = |file: &SegmentFile| &inventory.logs[file].marks;
        let (durable, spans) = match generation.durable {
            Some(durable) => {
                let span = |(logger, files): (usize, &Vec<SegmentFile>)| {
                    let (first, last) = (files[0].name, files[files.len() - 1]);
                    let bytes = inventory.logs[&last].shared.bytes;
                    let copied =
                        generation.spans.get(logger).map_or(bytes, |span| span.bytes_of(last.name.number));
                    LogSpan { first: first.number, last: last.name.number, bytes: bytes.min(copied) }
                };
                (durable, logs.iter().enumerate().map(span).collect())
            }
            None => {
                let last_mark =
                    |files: &Vec<SegmentFile>| files.iter().flat_map(marks).map(|(mark, _)| *mark).max();
                let shown = logs.iter().map(last_mark).collect::<Option<Vec<_>>>()?.into_iter().min()?;
                let cut =
                    |files: &Vec<SegmentFile>| {
                        let first = files[0].name.number;
                        let ends = files
                            .iter()
                            .flat_map(|file| marks(file).iter().map(|mark| (file.name.number, *mark)));
                        ends.into_iter()
                            .find(|(_, (mark, _))| *mark >= shown)
                            .map(|(last, (_, bytes))| LogSpan { first, last, bytes })
                    };
                (shown.max(generation.first.previous()), logs.iter().map(cut).collect::<Option<_>>()?)
            }
        };
        Some(Generation { durable: Some(durable), spans, ..generation.clone() })
    }

    /// The checkpoint's files, if all are in the store.
    pub(crate) fn parts(&self, inventory: &ShippedFiles) -> Option<Vec<(PartName, SharedFile)>> {
        let mut parts = Vec::new();
        for (name, salt) in parts_of(self.checkpoint.as_ref()) {
            let shared = inventory.parts.get(&name).filter(|shared| shared.salt == salt)?;
            parts.push((name, shared.clone()));
        }
        Some(parts)
    }
}

/// Where the logs of those of these generations end that are closed.
fn ends_of(generations: &[Generation], closed: &[ClosedFile]) -> BTreeMap<(u64, u32), u64> {
    let is_closed = |number| {
        generations.iter().any(|generation| generation.number == number && generation.durable.is_some())
    };
    let mut ends = BTreeMap::new();
    for SegmentName { generation, logger, number } in closed.iter().map(|closed| closed.file.name) {
        if is_closed(generation) {
            let end = ends.entry((generation, logger)).or_insert(number);
            *end = number.max(*end);
        }
    }
    ends
}

/// The files of a checkpoint, each with its salt.
pub(crate) fn parts_of(checkpoint: Option<&InstalledCheckpoint>) -> Vec<(PartName, Salt)> {
    let walked = checkpoint.into_iter().flat_map(InstalledCheckpoint::walked);
    walked.flat_map(|(walked, _)| walked.files.parts().map(|part| (part, walked.files.salt))).collect()
}

/// The generation that stands behind all that is in the store.
fn without_log(last: &Generation, (number, first): (u64, Epoch), shipper: Identity) -> Generation {
    Generation {
        number,
        first,
        format: FORMAT,
        entries: last.entries,
        logs: 0,
        // It has no files: any salt does, and the same state is to have one spelling.
        salt: last.salt,
        database: shipper,
        durable: None,
        spans: Vec::new(),
    }
}

/// The files of one log of a generation that are in the store, or in the database's folder, in order, without those
/// that the checkpoint covers; but its last one.
fn files_of_log(
    generation: &Generation,
    logger: u32,
    (inventory, closed): (&ShippedFiles, &[ClosedFile]),
    covered: Epoch,
) -> Vec<(SegmentFile, Epoch)> {
    let is_own = |file: &SegmentFile| (file.name.generation, file.name.logger) == (generation.number, logger);
    let shipped = inventory.logs.iter().filter(|(_, shipped)| shipped.shared.salt == generation.salt);
    let shipped = shipped.map(|(file, shipped)| (*file, shipped.largest));
    let local = closed.iter().map(|closed| (closed.file.archived(), closed.largest));
    let all: BTreeMap<SegmentFile, Epoch> = shipped.chain(local).filter(|(file, _)| is_own(file)).collect();
    let mut files: Vec<_> = all.into_iter().collect();
    let first = files.iter().position(|(_, largest)| *largest >= covered);
    files.drain(..first.unwrap_or(files.len().saturating_sub(1)));
    files
}

/// The closed log files of these generations that the store lacks, and that a state on a checkpoint which covers epochs
/// below `covered` needs: the oldest first.
pub(crate) fn lacking(
    generations: &[Generation],
    (inventory, closed): (&ShippedFiles, &[ClosedFile]),
    covered: Epoch,
) -> Vec<ClosedFile> {
    let mut lacking: Vec<ClosedFile> = Vec::new();
    // A store that was away for long lacks thousands of files, and this is asked for at each step.
    let here: BTreeMap<SegmentFile, &ClosedFile> =
        closed.iter().map(|closed| (closed.file.archived(), closed)).collect();
    for generation in generations {
        let files = (0..generation.logs)
            .flat_map(|logger| files_of_log(generation, logger, (inventory, closed), covered))
            .filter(|(file, _)| !inventory.has_log(*file, generation.salt));
        lacking.extend(files.filter_map(|(file, _)| here.get(&file).map(|closed| (*closed).clone())));
    }
    lacking.sort_by_key(|closed| {
        let SegmentName { generation, logger, number } = closed.file.name;
        (generation, number, logger)
    });
    lacking
}

/// The files of these generations, as a manifest names them.
fn named_logs(generations: &[Generation], inventory: &ShippedFiles) -> Option<Vec<SharedLog>> {
    let mut logs = Vec::new();
    for generation in generations {
        for (logger, span) in generation.spans.iter().enumerate() {
            for number in span.first..=span.last {
                let name = SegmentName { generation: generation.number, logger: logger as u32, number };
                let plain = SegmentFile::from(name);
                let spellings = [plain, SegmentFile { is_merged: true, ..plain }];
                let file = spellings.into_iter().find(|file| inventory.has_log(*file, generation.salt))?;
                let ShippedLog { shared, largest, .. } = &inventory.logs[&file];
                logs.push(SharedLog { file, shared: shared.clone(), largest: *largest });
            }
        }
    }
    Some(logs)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
