//! Composition of a state from the files in the shared store. The decision reads the inventory alone: no clock, disk or
//! store.
//!
//! ```text
//! checkpoint | frozen: generations as in an earlier manifest | live: closed generations, whole | open one, cut at S
//! ```
//! S is the smallest of the last marks in the shipped files of the open generation's logs. Each log is cut behind its
//! first mark of S or more, which equals the log after a crash at S (N20). The open generation is closed at S. A
//! generation without a log follows, as in a copy of files.
//!
//! Invariants, see [`super`]: H1; H3; a checkpoint counts with an S that is not below its e_h (K1, K5).
//!
//! Neighbours: the shipper fills the inventory and asks; `files::manifest::backup_states` has the form of a state in a
//! manifest.

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::Epoch;

use super::log_file::Marks;
use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::backup_states::FilesState;
use crate::files::manifest::generation::{Generation, LogSpan};
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{PartName, SegmentFile, SegmentName};
use crate::files::shared_manifest::{SharedFile, SharedLog, SharedManifest, SharedPiece};
use crate::identity::Identity;
use crate::number;
use crate::store::closed_files::ClosedFile;

/// A log file in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShippedLog {
    pub(crate) shared: SharedFile,
    /// Largest epoch of the entries in this file and in all earlier files of the log.
    pub(crate) largest: Epoch,
    /// Upper bound of the epochs in all earlier files of the log.
    pub(crate) before: Epoch,
    /// Marks of the file, if this life has read the file.
    pub(crate) marks: Marks,
}

/// Files in the store that a manifest may name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShippedFiles {
    pub(crate) parts: BTreeMap<PartName, SharedFile>,
    /// Log files, by names without the end epoch of a closed file's name.
    pub(crate) logs: BTreeMap<SegmentFile, ShippedLog>,
}

impl ShippedFiles {
    /// Files that the manifest names.
    pub(crate) fn from_manifest(manifest: &SharedManifest) -> Self {
        let parts = manifest.parts.iter().cloned().collect();
        // The first file of a log in a state begins below the epochs that the checkpoint covers (H3).
        let covered = manifest.state.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::redo_epoch);
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

    /// Removes files whose objects a listing lacks or shows with another length. Returns a missing object, if any.
    pub(crate) fn keep_listed(&mut self, listed: &BTreeMap<String, u64>) -> Option<String> {
        let mut missing = None;
        let mut is_listed = |pieces: Vec<SharedPiece>| {
            let is_missing = |piece: &SharedPiece| listed.get(&piece.object) != Some(&piece.bytes);
            let lacks = pieces.into_iter().find(is_missing);
            let is_listed = lacks.is_none();
            missing = lacks.map(|piece| piece.object).or(missing.take());
            is_listed
        };
        let before = self.parts.len() + self.logs.len();
        self.parts.retain(|part, shared| is_listed(shared.pieces(&part.to_string())));
        self.logs.retain(|file, log| is_listed(log.shared.pieces(&file.to_string())));
        let kept = self.parts.len() + self.logs.len();
        debug_assert_eq!(missing.is_none(), kept == before, "H1: a file that is dropped is told");
        debug_assert!(
            self.objects().iter().all(|object| listed.contains_key(object)),
            "H1: the store has the objects of each kept file"
        );
        missing
    }

    /// Forgets marks below S, which are never needed again, because S only grows.
    pub(crate) fn forget_marks_below(&mut self, shown: Epoch) {
        for log in self.logs.values_mut() {
            log.marks.retain(|(mark, _)| *mark >= shown);
        }
    }

    /// True if the store has the file of a log with this salt.
    pub(crate) fn has_log(&self, file: SegmentFile, salt: Salt) -> bool {
        self.logs.get(&file.archive_name()).is_some_and(|shipped| shipped.shared.salt == salt)
    }

    /// True if the store has every file that the manifest names.
    pub(crate) fn has_all_of(&self, manifest: &SharedManifest) -> bool {
        let has_part = |(part, shared): &(PartName, SharedFile)| self.parts.get(part) == Some(shared);
        let has_log = |log: &SharedLog| self.logs.get(&log.file).is_some_and(|own| own.shared == log.shared);
        manifest.parts.iter().all(has_part) && manifest.logs.iter().all(has_log)
    }

    /// Names of all objects of the files.
    pub(crate) fn objects(&self) -> BTreeSet<String> {
        let parts = self.parts.iter().flat_map(|(part, shared)| shared.pieces(&part.to_string()));
        let logs = self.logs.iter().flat_map(|(file, shipped)| shipped.shared.pieces(&file.to_string()));
        let objects: BTreeSet<String> = parts.chain(logs).map(|piece| piece.object).collect();
        debug_assert!(
            objects.len() >= self.parts.len() + self.logs.len(),
            "H4: no two files share an object"
        );
        objects
    }
}

/// Log files of a database, in the shared store and in the database's folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSources<'f> {
    pub(crate) inventory: &'f ShippedFiles,
    /// Log files of the folder that get no more blocks.
    pub(crate) closed: &'f [ClosedFile],
}

/// A checkpoint, and the generations after the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) checkpoint: Option<InstalledCheckpoint>,
    /// Generations as an earlier manifest had them; they get no more files.
    pub(crate) frozen: Vec<Generation>,
    /// Generations as the database's manifest lists them, the open one last; none if the base can get no more files.
    pub(crate) live: Vec<Generation>,
    /// First generation of `live` as the newest shared manifest has it, closed at S. The entry counts until the store
    /// has more of the generation.
    cut: Option<Generation>,
    /// Number of the last file of each log in closed `live` generations, by generation and logger. The folder may lose
    /// unshipped files later, once the manifest does not list their generation.
    ends: BTreeMap<(u64, u32), u64>,
}

/// A state, and the remaining contents of its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComposedState {
    pub(crate) state: FilesState,
    /// The generation whose files are still to come.
    pub(crate) next: (u64, Salt),
    pub(crate) parts: Vec<(PartName, SharedFile)>,
    pub(crate) logs: Vec<SharedLog>,
}

impl Base {
    /// Base of a database that lists these generations, from the beginning. `closed` was read before the generations:
    /// while a generation is listed, the folder has the last file of each of its logs (K5).
    pub(crate) fn of_life(
        checkpoint: Option<InstalledCheckpoint>,
        generations: &[Generation],
        closed: &[ClosedFile],
    ) -> Self {
        let (live, ends) = (generations.to_vec(), ends_of(generations, closed));
        Self { checkpoint, frozen: Vec::new(), live, cut: None, ends }
    }

    /// Base of the newest shared manifest. This life's generations join the base if the next generation of the shared
    /// manifest is listed unchanged (H3). `closed` was read before `listed`, as for [`Base::of_life`].
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
        let base = Self { checkpoint: manifest.state.checkpoint.clone(), frozen, live, cut, ends };
        let is_frozen_before =
            |live: &Generation| base.frozen.iter().all(|frozen| frozen.number < live.number);
        debug_assert!(
            base.live.first().is_none_or(is_frozen_before),
            "H3: the frozen generations come first"
        );
        base
    }

    /// First epoch that the base's checkpoint does not cover.
    pub(crate) fn redo_epoch(&self) -> Epoch {
        self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::redo_epoch)
    }

    /// State of the store on this base; `None` if the store lacks a needed file. `closed` lists the log files of the
    /// database's folder that get no more blocks.
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
            let ended = self.closed_generation(generation, LogSources { inventory, closed });
            let has_more = generation.durable.is_none() || ended.is_none();
            let cut = self.cut.as_ref().filter(|cut| cut.number == generation.number);
            generations.extend(ended.or_else(|| cut.cloned()));
            if has_more {
                next = Some((generation.number, generation.salt));
                break;
            }
        }
        // The open generation has no files in the store: its first file is still to come.
        let last = generations.last().or_else(|| self.live.first())?.clone();
        let next = next.unwrap_or((last.number, last.salt));
        let first = generations.last().and_then(|last| last.durable).map_or(last.first, Epoch::next);
        let number = if generations.is_empty() { last.number } else { number::next(last.number)? };
        generations.push(without_log(&last, number, first, shipper));
        let least = self.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::durable_min);
        let fits = |checkpoint: &InstalledCheckpoint| generations.iter().all(|one| one.fits(checkpoint));
        if first.previous() < least || !self.checkpoint.iter().all(fits) {
            return None;
        }
        debug_assert!(
            generations.is_sorted_by(|one, next| one.number < next.number),
            "L4: numbers of generations grow"
        );
        let logs = named_logs(&generations, inventory)?;
        let state = FilesState { checkpoint: self.checkpoint.clone(), generations };
        debug_assert!(
            state.generations.iter().all(|closed| closed.logs == 0 || closed.number <= next.0),
            "H3: no file of an earlier generation is still to come"
        );
        Some(ComposedState { state, next, parts, logs })
    }

    /// The generation as the store has it, closed; `None` if a needed file is missing in the store. A closed generation
    /// needs all of its files and keeps its own D; an open generation is closed at S.
    fn closed_generation(&self, generation: &Generation, sources: LogSources<'_>) -> Option<Generation> {
        let (inventory, covered) = (sources.inventory, self.redo_epoch());
        let mut logs = Vec::new();
        for logger in 0..generation.logs {
            let files = sources.files_of(generation, logger, covered);
            let (file, _) = files.first()?;
            let first = file.name.number;
            // Otherwise earlier files are missing that the checkpoint does not cover (H3).
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
            // The log's last file may be gone by now, unshipped and listed nowhere (H3).
            let last = files[here - 1].0.name.number;
            let is_end = self.ends.get(&(generation.number, logger)).is_some_and(|end| *end <= last);
            if generation.durable.is_some() && !is_end {
                return None;
            }
            logs.push(files[..here].iter().map(|(file, _)| *file).collect::<Vec<_>>());
        }
        let marks = |file: &SegmentFile| &inventory.logs[file].marks;
        debug_assert!(
            logs.iter().flatten().all(|file| inventory.has_log(*file, generation.salt)),
            "H3: the store has each file of the state"
        );
        let (durable, spans): (Epoch, Vec<LogSpan>) = match generation.durable {
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
        debug_assert!(
            spans.iter().all(|span| span.first <= span.last && span.bytes > 0),
            "N21: a span has a file and bytes: {spans:?}"
        );
        debug_assert!(durable.next() >= generation.first, "L4: the generation ends behind its beginning");
        Some(Generation { durable: Some(durable), spans, ..generation.clone() })
    }

    /// Files of the checkpoint, if all are in the store.
    pub(crate) fn parts(&self, inventory: &ShippedFiles) -> Option<Vec<(PartName, SharedFile)>> {
        let mut parts = Vec::new();
        for (name, salt) in parts_of(self.checkpoint.as_ref()) {
            let shared = inventory.parts.get(&name).filter(|shared| shared.salt == salt)?;
            parts.push((name, shared.clone()));
        }
        Some(parts)
    }
}

/// Last file numbers of the logs of closed generations.
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

/// The files of a checkpoint, with their salts.
pub(crate) fn parts_of(checkpoint: Option<&InstalledCheckpoint>) -> Vec<(PartName, Salt)> {
    let walked = checkpoint.into_iter().flat_map(InstalledCheckpoint::completed_walks);
    walked.flat_map(|(walked, _)| walked.files.parts().map(|part| (part, walked.files.salt))).collect()
}

/// The generation without a log, after all files in the store.
fn without_log(last: &Generation, number: u64, first: Epoch, shipper: Identity) -> Generation {
    Generation {
        number,
        first,
        format: FORMAT,
        entries: last.entries,
        logs: 0,
        // The generation has no files, so any salt fits. The last generation's salt gives equal states one spelling.
        salt: last.salt,
        database: shipper,
        durable: None,
        spans: Vec::new(),
    }
}

impl LogSources<'_> {
    /// Files of one log of a generation, in order. Files that the checkpoint covers are omitted, except the last file.
    fn files_of(&self, generation: &Generation, logger: u32, covered: Epoch) -> Vec<(SegmentFile, Epoch)> {
        let is_own =
            |file: &SegmentFile| (file.name.generation, file.name.logger) == (generation.number, logger);
        let logs = &self.inventory.logs;
        let shipped = logs.iter().filter(|(_, shipped)| shipped.shared.salt == generation.salt);
        let shipped = shipped.map(|(file, shipped)| (*file, shipped.largest));
        let local = self.closed.iter().map(|closed| (closed.file.archive_name(), closed.largest));
        let all: BTreeMap<SegmentFile, Epoch> =
            shipped.chain(local).filter(|(file, _)| is_own(file)).collect();
        let mut files: Vec<_> = all.into_iter().collect();
        let first = files.iter().position(|(_, largest)| *largest >= covered);
        files.drain(..first.unwrap_or(files.len().saturating_sub(1)));
        files
    }

    /// Closed log files of these generations that the store lacks and a state needs, oldest first. The state's
    /// checkpoint covers epochs below `covered`.
    pub(crate) fn unshipped_logs(&self, generations: &[Generation], covered: Epoch) -> Vec<ClosedFile> {
        let mut lacking: Vec<ClosedFile> = Vec::new();
        // A store may lack thousands of files after a long absence, and each step calls the function.
        let here: BTreeMap<SegmentFile, &ClosedFile> =
            self.closed.iter().map(|closed| (closed.file.archive_name(), closed)).collect();
        for generation in generations {
            let files = (0..generation.logs)
                .flat_map(|logger| self.files_of(generation, logger, covered))
                .filter(|(file, _)| !self.inventory.has_log(*file, generation.salt));
            lacking.extend(files.filter_map(|(file, _)| here.get(&file).map(|closed| (*closed).clone())));
        }
        let order = |closed: &ClosedFile| {
            let SegmentName { generation, logger, number } = closed.file.name;
            (generation, number, logger)
        };
        lacking.sort_by_key(order);
        debug_assert!(lacking.is_sorted_by(|one, next| order(one) < order(next)), "a file is shipped once");
        lacking
    }
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
    debug_assert_eq!(
        logs.len() as u64,
        generations.iter().flat_map(|one| &one.spans).map(|span| span.last - span.first + 1).sum::<u64>(),
        "H1: each file of the state is named"
    );
    Some(logs)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
