//! State of an examination in steps, and the notes that any step makes.
//!
//! Neighbours: `validator` has the steps of a folder, `generation_steps` the steps of a generation. A backup and a
//! take-over step an examination of their copy.

use std::collections::VecDeque;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use super::super::chain::Chain;
use super::super::mapped_tail::MissingEntries;
use super::super::read_ahead::ReadBuffers;
use super::super::replay::LogPiece;
use super::super::report::RecoveryReport;
use super::super::validation::{Findings as _, Inventory};
use super::facts::{Examination, GenerationFacts};
use crate::files::checkpoint::reader::PartReader;
use crate::files::hint::Hint;
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::names::SegmentFile;
use crate::{DurabilityError, Entry, EntryKind, Recoverable, Refused, Result};

#[derive(Debug)]
pub(super) enum Work {
    Folder,
    Load(usize),
    Loaded,
    Kept(usize),
    Generation(usize),
    /// Reads a file of one of the generation's logs; the second file is the next file of that log.
    LogFile(SegmentFile, Option<SegmentFile>),
    /// Judges one of the generation's logs, with this number of files.
    Log(usize),
    Verdict,
    /// Replays a piece of this log that counts. The epoch, if present, has passed: no entry of a smaller epoch follows.
    Piece(usize, LogPiece, Option<Epoch>),
    /// Queues a second check of logs with entries that do not count.
    Counted,
    Check(LogPiece),
    GenerationEnd,
    End,
}

#[derive(Debug)]
pub(crate) struct Judge {
    pub(super) disk: Arc<dyn Disk>,
    /// Manifest, given by the caller or read in the first step.
    pub(super) manifest: Option<Manifest>,
    pub(super) work: VecDeque<Work>,
    /// Epoch below which the checkpoint holds every entry.
    pub(super) covered: Epoch,
    pub(super) hint: Option<Hint>,
    pub(super) inventory: Inventory,
    /// Reader of the checkpoint file under way.
    pub(super) part: Option<PartReader>,
    pub(super) under_way: Option<ExaminedGeneration>,
    pub(super) buffers: ReadBuffers,
    pub(super) found: Examination,
    /// Pieces that count, by log of a generation, in the log's order.
    pub(super) logs: Vec<Vec<LogPiece>>,
    /// Logs of the generation over which no recovery has decided.
    pub(super) open_chains: Vec<Chain>,
    /// Entries that an open would append to the logs (B5), if nothing is damaged.
    pub(super) missing: Option<MissingEntries>,
    /// Largest epoch in the folder, damaged blocks included (L4).
    pub(super) seen: Epoch,
    /// Largest epoch in this database's own data: in connected chains and in the checkpoint (L6).
    pub(super) shown: Epoch,
}

#[derive(Debug)]
pub(super) struct ExaminedGeneration {
    pub(super) generation: Generation,
    pub(super) files: Vec<FileChain>,
    pub(super) chains: Vec<Chain>,
    pub(super) facts: GenerationFacts,
    /// Pieces that count, by log.
    pub(super) logs: Vec<Vec<LogPiece>>,
    /// Counts of ignored and covered entries, by log.
    pub(super) skipped: Vec<RecoveryReport>,
}

impl Judge {
    /// Examination of a folder with the manifest in the folder.
    pub(super) fn new(disk: &Arc<dyn Disk>) -> Self {
        Self::with_manifest(disk, None)
    }

    /// Examination of a folder's newest state, with this manifest: so backups, take-overs and adoptions verify.
    pub(crate) fn of_newest(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Self {
        Self::with_manifest(disk, Some(manifest.clone()))
    }

    fn with_manifest(disk: &Arc<dyn Disk>, manifest: Option<Manifest>) -> Self {
        Self {
            disk: Arc::clone(disk),
            manifest,
            work: VecDeque::from([Work::Folder]),
            covered: Epoch::ZERO,
            hint: None,
            inventory: Inventory::default(),
            part: None,
            under_way: None,
            buffers: ReadBuffers::default(),
            found: Examination::default(),
            logs: Vec::new(),
            open_chains: Vec::new(),
            missing: None,
            seen: Epoch::ZERO,
            shown: Epoch::ZERO,
        }
    }

    pub(crate) fn examination(&self) -> &Examination {
        &self.found
    }

    /// Puts this work before the remaining work.
    pub(super) fn first(&mut self, work: Vec<Work>) {
        work.into_iter().rev().for_each(|work| self.work.push_front(work));
    }

    pub(super) fn manifest(&self) -> &Manifest {
        self.manifest.as_ref().expect("it was given, or read in the first step")
    }

    /// Notes a used epoch.
    pub(super) fn saw(&mut self, epoch: Epoch) {
        self.seen = self.seen.max(epoch);
    }

    /// Notes the epochs in a file, even if the file does not belong to its log's chain.
    pub(super) fn saw_file(&mut self, file: &FileChain) {
        self.saw(file.seen.max(file.published));
        self.saw(file.tail.epochs.map_or(Epoch::ZERO, |(_, high)| high));
    }

    pub(super) fn under_way(&mut self) -> &mut ExaminedGeneration {
        self.under_way.as_mut().expect("a generation is examined")
    }

    /// The length in bytes; `None` for an unreadable file, which is noted.
    pub(super) fn length(&mut self, length: Result<u64, DiskError>) -> Result<Option<u64>> {
        self.found.note(length.map_err(DurabilityError::from))
    }
}

/// State that takes entries of this kind and keeps nothing.
pub(super) struct NullState(pub(super) EntryKind);

impl Recoverable for NullState {
    fn entries(&self) -> EntryKind {
        self.0
    }

    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

/// State that has the knowledge of `self.0` about entries, and hands `self.0` no entry.
pub(super) struct KeyRules<'s>(pub(super) &'s dyn Recoverable);

impl Recoverable for KeyRules<'_> {
    fn entries(&self) -> EntryKind {
        self.0.entries()
    }

    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        self.0.checkpoint_key(body)
    }
}
