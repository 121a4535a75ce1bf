//! Judgement of an archive: the whole files, by their chains of blocks, and the epochs that they can restore (A2).
//!
//! Invariants:
//! - A2: a file counts if it is whole to its last byte, its generation is listed, and it follows the previous file.
//! - L4: in a generation without a D, entries up to the smallest last mark of the generation's logs count.
//! - The judgement changes and locks nothing: a database may be adding files.
//!
//! Neighbours: `epoch_spans` decides over epochs; `file_chain` and `chain` read; a restore takes the pieces, and the
//! `ensile` command prints the facts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{Disk, RealDisk};

use super::super::chain::{self, Chain};
use super::super::examination::Damage;
use super::super::log_files::Files;
use super::super::read_ahead::ReadBuffers;
use super::super::replay::{self, Bounds};
use super::super::report::RecoveryReport;
use super::epoch_spans::{self, EpochSpan, GenerationSpans};
use crate::files::archive_list::ArchiveList;
use crate::files::block::origin::OPENING_BYTES;
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::generation::Generation;
use crate::files::names::{ARCHIVE, SegmentFile, SegmentName, log_folder, logger_of};
use crate::{DurabilityError, Recoverable, Result};

/// Contents of an archive.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArchiveFacts {
    /// Identity of the archived database, 32 hex digits.
    pub database: String,
    /// Epoch after which the archive begins.
    pub from: Epoch,
    /// Generations of the archive, oldest first.
    pub generations: Vec<ArchivedGeneration>,
    /// Ranges of restorable epochs: a picture at the end of an epoch of a range can be brought to its later epochs.
    pub ranges: Vec<EpochSpan>,
    /// Names of unfinished copies, still running or left by a kill. Unfinished copies count for nothing.
    pub unfinished: Vec<String>,
    /// Damaged files. The ranges exclude a damaged log file.
    pub damage: Vec<Damage>,
}

/// Contents of an archive for one generation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArchivedGeneration {
    /// Number of the generation.
    pub number: u64,
    /// Smallest epoch that an entry of the generation may have.
    pub first: Epoch,
    /// D of the generation, if the generation has ended.
    pub durable: Option<Epoch>,
    /// Number of logs.
    pub logs: u32,
    /// Number of whole files in the archive; `bytes` and `entries` are their contents.
    pub files: u64,
    /// See [`ArchivedGeneration::files`].
    pub bytes: u64,
    /// See [`ArchivedGeneration::files`].
    pub entries: u64,
    /// Missing parts, one sentence each.
    pub lacks: Vec<String>,
}

/// Archive whose file headers were read, with the judgement.
#[derive(Debug)]
pub(super) struct ReadArchive {
    pub(super) list: ArchiveList,
    /// Whole files of listed logs, in order.
    logs: BTreeMap<(u64, u32), Vec<FileChain>>,
    pub(super) facts: ArchiveFacts,
}

impl ReadArchive {
    /// Reads all headers of the archive in the disk's root.
    pub(super) fn read(disk: &dyn Disk) -> Result<Self> {
        let Some(list) = ArchiveList::read(disk, "")? else {
            let place = disk.folder_place("")?;
            let why = format!("{} is not an archive: it has no {ARCHIVE}", place.display());
            return Err(DurabilityError::config(why));
        };
        let facts = ArchiveFacts {
            database: list.database.to_string(),
            from: list.from,
            generations: Vec::new(),
            ranges: Vec::new(),
            unfinished: Vec::new(),
            damage: Vec::new(),
        };
        let mut read = Self { list, logs: BTreeMap::new(), facts };
        let found = read.find(disk)?;
        read.read_files(disk, found)?;
        read.judge();
        Ok(read)
    }

    fn record_damage(&mut self, error: DurabilityError) -> Result<()> {
        self.facts.damage.push(Damage::from_error(error)?);
        Ok(())
    }

    /// Finds the log files in the folders of the archive, by generation and logger. Notes unfinished copies.
    fn find(&mut self, disk: &dyn Disk) -> Result<Files> {
        let mut found = Files::new();
        for folder in disk.list_folders("")? {
            let Some(logger) = logger_of(&folder) else { continue };
            for name in disk.list(&folder)? {
                if let Some(file) = SegmentFile::parse(logger, &name) {
                    found.entry((file.name.generation, logger)).or_default().push(file);
                } else if name.ends_with(".new") {
                    self.facts.unfinished.push(format!("{folder}/{name}"));
                }
            }
        }
        found.values_mut().for_each(|files| files.sort_unstable());
        Ok(found)
    }

    /// Reads the headers of the found files. Keeps the whole files, and notes the damage of the others.
    fn read_files(&mut self, disk: &dyn Disk, found: Files) -> Result<()> {
        assert!(self.logs.is_empty(), "files are read once");
        for ((number, logger), files) in found {
            let generation = self.list.generations.iter().find(|listed| listed.number == number);
            let Some(generation) = generation.filter(|listed| logger < listed.logs).cloned() else {
                let why = format!("it is an older one: {} is here, and it does not list it", files[0]);
                self.record_damage(DurabilityError::damaged_file(ARCHIVE, 0, why))?;
                continue;
            };
            let mut whole: Vec<FileChain> = Vec::new();
            for (at, &file) in files.iter().enumerate() {
                let is_twice = at > 0 && files[at - 1].name == file.name;
                let detail = "another file has the same number";
                let twice = || DurabilityError::damaged_file(&file.to_string(), 0, detail);
                let read = read_file(disk, &generation, file);
                match read.and_then(|read| if is_twice { Err(twice()) } else { Ok(read) }) {
                    Ok(read) => whole.push(read),
                    Err(error) => self.record_damage(error)?,
                }
            }
            self.logs.insert((number, logger), whole);
        }
        Ok(())
    }

    fn files_of(&self, generation: u64, logger: u32) -> &[FileChain] {
        self.logs.get(&(generation, logger)).map_or(&[], Vec::as_slice)
    }

    /// Fills in the contents and the gaps of every generation, and the ranges.
    fn judge(&mut self) {
        let mut spans = Vec::new();
        for generation in &self.list.generations {
            let Generation { number, first, durable, logs, .. } = *generation;
            let (mut of_logs, mut lacks) = (Vec::new(), Vec::new());
            let (mut count, mut bytes, mut entries) = (0, 0, 0);
            for logger in 0..logs {
                let files = self.files_of(number, logger);
                count += files.len() as u64;
                bytes += files.iter().map(|file| file.end).sum::<u64>();
                entries += files.iter().flat_map(|file| &file.runs).map(|run| run.entries).sum::<u64>();
                let log = spans_of(files, first);
                lacks.extend(describe_log_gaps(generation, logger, files, &log, self.list.from));
                of_logs.push(log);
            }
            spans.push(GenerationSpans::from_log_spans(first, durable, &of_logs));
            let facts =
                ArchivedGeneration { number, first, durable, logs, files: count, bytes, entries, lacks };
            self.facts.generations.push(facts);
        }
        assert_eq!(spans.len(), self.list.generations.len(), "each generation is judged");
        self.facts.ranges = epoch_spans::ranges(self.list.from, &spans);
    }

    /// Judges again without these files, which have an unreadable block.
    fn leave_out(&mut self, damaged: &BTreeSet<SegmentName>) {
        for files in self.logs.values_mut() {
            files.retain(|file| !damaged.contains(&file.file.name));
        }
        self.facts.generations.clear();
        self.judge();
    }

    /// Chains of consecutive files of a log.
    pub(super) fn chains(&self, disk: &dyn Disk, generation: u64, logger: u32) -> Result<Vec<Chain>> {
        assert!(self.list.lists(generation), "A3: nothing counts of others");
        let mut chains = Vec::new();
        for files in self.files_of(generation, logger).chunk_by(chain::is_next) {
            // The ranges account for missing files before the chain.
            chains.push(Chain::stitch(disk, files.to_vec(), Epoch::MAX)?);
        }
        Ok(chains)
    }
}

/// Reads a file of an archive; the file must be whole to its last byte.
fn read_file(disk: &dyn Disk, generation: &Generation, file: SegmentFile) -> Result<FileChain> {
    let name = file.to_string();
    let length = disk.open_to_read(&name)?.len()?;
    let chain = FileChain::read(disk, file, None)?;
    chain::check_origin(generation, &chain)?;
    if chain.opening.is_none() || chain.end < length || length < OPENING_BYTES as u64 {
        return Err(DurabilityError::damaged_file(&name, chain.end, chain.detail));
    }
    Ok(chain)
}

/// Spans of epochs for which these whole files of a log have every entry. The log's generation begins at `first`.
fn spans_of(files: &[FileChain], first: Epoch) -> Vec<EpochSpan> {
    assert!(files.windows(2).all(|pair| pair[0].file.name < pair[1].file.name), "of one log, in order");
    let span = |files: &[FileChain]| {
        let (begin, end) = (files.first()?, files.last()?);
        let opening = begin.opening.as_ref()?;
        // The first file of a log follows no earlier file.
        let after = if opening.sequence == 0 { first.previous() } else { opening.before };
        (after <= end.mark).then_some(EpochSpan { after, to: end.mark })
    };
    files.chunk_by(chain::is_next).filter_map(span).collect()
}

/// Sentences on the missing parts of a log, for [`ArchivedGeneration::lacks`]. The archive begins after epoch `from`.
fn describe_log_gaps(
    generation: &Generation,
    logger: u32,
    files: &[FileChain],
    spans: &[EpochSpan],
    from: Epoch,
) -> Vec<String> {
    assert!(logger < generation.logs, "a log that the list has");
    let mut lacks = Vec::new();
    let number = generation.number;
    let Some(last) = files.last() else {
        // An open generation may not have closed a file yet.
        if generation.durable.is_some_and(|durable| durable > from) {
            lacks.push(format!("{} has no file of generation {number}", log_folder(logger)));
        }
        return lacks;
    };
    let name = |number| SegmentName { number, ..last.file.name };
    if let Some(begin) = files.first().filter(|begin| {
        begin.opening.as_ref().is_some_and(|opening| opening.sequence > 0 && opening.before > from)
    }) {
        lacks.push(format!("{} is missing", name(begin.file.name.number.saturating_sub(1))));
    }
    for pair in files.windows(2).filter(|pair| !chain::is_next(&pair[0], &pair[1])) {
        lacks.push(format!("between {} and {} something is missing", pair[0].file, pair[1].file));
    }
    let reached = spans.last().map_or(generation.first.previous(), |last| last.to);
    if let Some(durable) = generation.durable.filter(|durable| reached < *durable) {
        let folder = log_folder(logger);
        lacks.push(format!("{folder} ends at epoch {reached}, and generation {number} at epoch {durable}"));
    }
    lacks
}

/// True if the folder at this path has the list of an archive.
#[must_use]
pub fn is_archive(path: &Path) -> bool {
    RealDisk::open_existing(path).and_then(|disk| disk.exists(ARCHIVE)).unwrap_or(false)
}

/// Reads the headers of all files of an archive, in the disk's root, and reports the restorable epochs.
///
/// # Errors
/// [`DurabilityError::Config`] without an archive; [`DurabilityError::Damaged`] and [`DurabilityError::Unknown`] for
/// the archive's list; errors of the disk. [`ArchiveFacts::damage`] lists damaged log files.
pub fn inspect_archive(disk: &Arc<dyn Disk>) -> Result<ArchiveFacts> {
    Ok(ReadArchive::read(&**disk)?.facts)
}

/// As [`inspect_archive`], but reads every byte: all entries go to `target`.
///
/// # Errors
/// As for [`inspect_archive`].
pub fn verify_archive(disk: &Arc<dyn Disk>, target: &dyn Recoverable) -> Result<ArchiveFacts> {
    let mut read = ReadArchive::read(&**disk)?;
    let (mut buffers, mut damaged) = (ReadBuffers::default(), BTreeSet::new());
    for generation in read.list.generations.clone() {
        // The bounds include entries that do not count.
        let bounds = Bounds { first: generation.first, covered: Epoch::ZERO, durable: Epoch::MAX };
        for logger in 0..generation.logs {
            for chain in read.chains(&**disk, generation.number, logger)? {
                for piece in replay::cut(&chain, bounds, &mut RecoveryReport::default()) {
                    if let Err(error) = replay::replay(&**disk, &piece, &mut buffers, target) {
                        read.record_damage(error)?;
                        damaged.insert(piece.file.name);
                    }
                }
            }
        }
    }
    if !damaged.is_empty() {
        read.leave_out(&damaged);
    }
    Ok(read.facts)
}
