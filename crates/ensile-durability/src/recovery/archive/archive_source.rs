//! Entries that a restore takes from an archive: those after a state, up to an epoch, in one new log file.
//!
//! ```text
//! state at s | (s, ..] of generation 3 | void | generation 4 up to X | entries above X are left out
//!            '------------ one file, in the order of TIDs, closed at X ------'
//! ```
//! The state is a picture at e_c, a copy of files that is closed at S, or nothing at all.
//!
//! Invariants: A2, A4; L4: X is at most the D of its generation. Epochs above X are void in the new database for ever.
//!
//! Neighbours: `archive_contents` has validated the archive; `merge` writes the file; a backup has the state.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_disk::Disk;

use super::archive_contents::ReadArchive;
use super::epoch_spans::EpochSpan;
use crate::copy_progress::ArchivePiece;
use crate::files::block::{FORMAT, Salt};
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::lineage::Lineage;
use crate::files::names::log_folder;
use crate::identity::Identity;
use crate::log::LogConfig;
use crate::number;
use crate::recovery::chain::{self, Chain};
use crate::recovery::merge;
use crate::recovery::read_ahead::ReadBuffers;
use crate::recovery::replay::{self, Bounds, LogPiece};
use crate::recovery::report::RecoveryReport;
use crate::{DurabilityError, Recoverable, Result};

type SpendBytes<'s> = dyn FnMut(ArchivePiece) -> Result<()> + 's;

/// An archive that brings a database to an epoch.
#[derive(Debug)]
pub(crate) struct ArchiveSource {
    disk: Arc<dyn Disk>,
    read: ReadArchive,
    /// X, the last epoch that is taken.
    to: Epoch,
}

/// Epochs to which an archive brings a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForwardReach {
    /// End of the archive's range; `None` if no range has the state.
    pub(crate) end: Option<Epoch>,
    /// Spans of counted epochs after the state, up to `end`: first and last epoch, oldest span first.
    pub(crate) counted: Vec<(Epoch, Epoch)>,
}

/// A log file written from the entries of an archive.
#[derive(Debug)]
pub(crate) struct TakenLog {
    /// Generation of the file, closed at X.
    pub(crate) generation: Generation,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl ArchiveSource {
    /// Opens the archive on `disk`, of the database `of`, for a restore up to epoch `to`.
    pub(crate) fn open(disk: &Arc<dyn Disk>, of: Identity, to: Epoch) -> Result<Self> {
        let source = Self::of_database(disk, of, to)?;
        source.check_target_epoch().map_err(|why| source.lacks(&why))?;
        Ok(source)
    }

    /// As [`ArchiveSource::open`], without a check of `to`.
    pub(crate) fn of_database(disk: &Arc<dyn Disk>, of: Identity, to: Epoch) -> Result<Self> {
        let read = ReadArchive::read(&**disk)?;
        let source = Self { disk: Arc::clone(disk), read, to };
        if source.read.list.database != of {
            let found = source.read.list.database;
            return Err(source.lacks(&format!("it is of database {found}, and the backup of {of}")));
        }
        Ok(source)
    }

    /// Checks that the archive belongs to the history of a backup with this lineage (A4).
    pub(crate) fn check_history(&self, lineage: &Lineage) -> Result<()> {
        lineage.check_archive_history(&self.read.list.generations).map_err(|generation| {
            self.not_in_archive(&format!(
                "its generation {generation} is not one of the history of which the backup is: the database, or the backup, \
                 was put back to an older copy and has gone on from there. Take the archive, or a backup, of the same \
                 history"
            ))
        })
    }

    /// Epochs to which the archive can bring the state at the end of epoch `state` (A2).
    pub(crate) fn reach(&self, state: Epoch) -> ForwardReach {
        let ranges = self.read.facts.ranges.iter();
        assert!(ranges.clone().all(|range| range.after < range.to), "A2: a range has an epoch");
        let ends = ranges.filter(|range| range.after <= state && state <= range.to).map(|range| range.to);
        let Some(end) = ends.max() else { return ForwardReach::default() };
        let counted = |generation: &Generation| {
            let first = generation.first.max(state.next());
            let last = generation.durable.map_or(end, |durable| durable.min(end));
            (first <= last).then_some((first, last))
        };
        let counted = self.read.list.generations.iter().filter_map(counted).collect();
        ForwardReach { end: Some(end), counted }
    }

    pub(crate) fn begins_behind(&self) -> Epoch {
        self.read.list.from
    }

    /// Last epoch up to which a range of the archive is complete.
    pub(crate) fn durable(&self) -> Epoch {
        let ranges = self.read.facts.ranges.iter();
        assert!(ranges.clone().all(|range| range.after < range.to), "A2: a range has an epoch");
        ranges.map(|range| range.to).max().unwrap_or_default()
    }

    pub(crate) fn target_epoch(&self) -> Epoch {
        self.to
    }

    pub(crate) fn not_in_archive(&self, why: &str) -> DurabilityError {
        let folder = self.disk.folder_place("").unwrap_or_default();
        DurabilityError::NotInArchive { folder, detail: why.to_owned() }
    }

    /// Error with this reason and the ranges that the archive has.
    fn lacks(&self, why: &str) -> DurabilityError {
        let described = |EpochSpan { after, to }: &EpochSpan| {
            format!("a state of epoch {after} or later, brought up to epoch {to}")
        };
        let ranges: Vec<String> = self.read.facts.ranges.iter().map(described).collect();
        let has = if ranges.is_empty() { "nothing yet".to_owned() } else { ranges.join("; ") };
        self.not_in_archive(&format!("{why}. What can be had from it: {has}"))
    }

    /// Checks that X is an epoch of a generation, and at most the generation's D (L4). The error is the reason.
    pub(crate) fn check_target_epoch(&self) -> Result<(), String> {
        let to = self.to;
        let generations = &self.read.list.generations;
        let begun = generations.iter().rev().find(|generation| generation.first <= to);
        let Some(generation) = begun else { return Err(format!("epoch {to} is before all that it has")) };
        let Some(durable) = generation.durable.filter(|durable| to > *durable) else { return Ok(()) };
        if generations.last().is_some_and(|last| last.number == generation.number) {
            return Err(format!(
                "epoch {to} is above all that it proves to have been durable, epoch {durable}"
            ));
        }
        Err(format!("epoch {to} was discarded: nothing between epoch {durable} and the next life counts"))
    }

    /// Missing entries and damaged files of the archive, in brackets; empty for a complete archive.
    pub(crate) fn describe_missing(&self) -> String {
        let lacks = self.read.facts.generations.iter().flat_map(|generation| &generation.lacks);
        let damage = self.read.facts.damage.iter().map(|damage| format!("{} is damaged", damage.file));
        let missing: Vec<String> = lacks.cloned().chain(damage).collect();
        if missing.is_empty() { String::new() } else { format!(" ({})", missing.join("; ")) }
    }

    /// Checks that the archive has every entry from the end of this epoch to X (A2). The error names missing epochs.
    pub(crate) fn check_reaches(&self, after: Epoch) -> Result<()> {
        if self.reach(after).end.is_some_and(|end| self.to <= end) {
            return Ok(());
        }
        let (from, to, missing) = (self.read.list.from, self.to, self.describe_missing());
        let mut why = format!("it does not have all of the epochs up to {to}{missing}");
        if after < from {
            why = format!(
                "it has what comes behind epoch {from} only, and a backup that goes that far is needed"
            );
        }
        Err(self.lacks(&why))
    }

    /// Pieces of each log with entries of (`after`, X].
    fn logs(&self, after: Epoch) -> Result<Vec<Vec<LogPiece>>> {
        let (disk, to) = (&*self.disk, self.to);
        assert!(after <= to, "a picture is brought forward");
        let mut logs = Vec::new();
        let is_wanted = |generation: &&Generation| {
            generation.first <= to && generation.durable.is_none_or(|durable| durable > after)
        };
        for generation in self.read.list.generations.iter().filter(is_wanted) {
            let durable = generation.durable.map_or(to, |durable| durable.min(to));
            let bounds = Bounds { first: generation.first, covered: after.next(), durable };
            for logger in 0..generation.logs {
                let chains = self.read.chains(disk, generation.number, logger)?;
                let cut = |chain| replay::cut(chain, bounds, &mut RecoveryReport::default());
                logs.push(chains.iter().flat_map(cut).collect());
            }
        }
        Ok(logs)
    }

    /// Writes the entries of `generation` up to X into its log file on `target`, synced; `None` without such an entry.
    fn take(
        &self,
        target: &Arc<dyn Disk>,
        generation: Generation,
        spend: &mut SpendBytes<'_>,
    ) -> Result<Option<TakenLog>> {
        assert_eq!(generation.durable, Some(self.to), "L4: it is closed at X");
        let after = generation.first.previous();
        let logs = self.logs(after)?;
        let Some(first) = logs.iter().flatten().next() else { return Ok(None) };
        if let Some(other) = logs.iter().flatten().find(|piece| piece.kind != generation.entries) {
            let detail = "its entries are of another kind";
            return Err(DurabilityError::damaged_file(&other.file.to_string(), 0, detail));
        }
        assert!(first.newest > after, "A2: behind the picture");
        let config = LogConfig::default();
        let source: u64 = logs.iter().flatten().map(|piece| piece.bytes).sum();
        let (bytes_total, mut told) = (2 * source, 0);
        let mut wrote = |written| {
            told += written;
            spend(ArchivePiece { written, read: 0, bytes_total })
        };
        let written = merge::write_file(&*self.disk, logs, target, &config, &generation, &mut wrote)?;
        assert!(told < written.bytes, "it has an opening block too");
        spend(ArchivePiece { written: written.bytes - told, read: 0, bytes_total })?;
        target.sync_folder(&log_folder(0))?;
        assert_eq!(written.largest, self.to, "L4: it is closed at X");
        Ok(Some(TakenLog { generation, entries: 0, bytes: written.bytes }))
    }

    /// Writes the entries from the end of `after` up to X beside the state at `after`, which `next` is to name: a
    /// picture, files, or nothing. The folder `log0` is this database's, and the last generation of `next` has no log.
    /// Returns the manifest of the database closed at X, and the written log. `spend` is called after each piece that
    /// was written or read once more, may wait, and may end the work. A refused entry's error names its place in the
    /// archive.
    pub(crate) fn write_log_after(
        &self,
        disk: &Arc<dyn Disk>,
        next: Manifest,
        after: Epoch,
        verifier: &dyn Recoverable,
        spend: &mut SpendBytes<'_>,
    ) -> Result<(Manifest, Option<TakenLog>)> {
        let open = next.open_generation().clone();
        assert_eq!(open.logs, 0, "L4: nothing was written behind the state");
        assert!(open.first <= after.next(), "A2: the state is of this epoch");
        let number =
            |before| number::next(before).ok_or_else(|| DurabilityError::config("its numbers are used up"));
        let (own, last) = (number(open.number)?, number(open.number + 1)?);
        let generation = Generation {
            number: own,
            first: after.next(),
            format: FORMAT,
            logs: 1,
            salt: Salt::draw(&mut Random::unpredictable()),
            database: next.identity,
            durable: Some(self.to),
            spans: Vec::new(),
            ..open
        };
        let mut taken = self.take(disk, generation, spend)?;
        if let Some(taken) = &mut taken {
            let verified = taken.verify(&**disk, verifier, spend);
            verified.map_err(|error| self.told_where(error, after, verifier))?;
        }
        let open = Generation { number: last, first: self.to.next(), ..open };
        let closed = taken.as_ref().map(|taken| taken.generation.clone());
        // The reserved epoch is above every epoch that the open generation shows (L6).
        let reserved = next.reserved.max(open.first.next());
        // The new generations come after the log of the state itself.
        let mut generations = next.generations;
        generations.pop();
        generations.extend(closed.into_iter().chain([open]));
        Ok((Manifest { reserved, generations, ..next }, taken))
    }

    /// Gives the error of a refused entry of (`after`, X] its place in the archive. Other errors stay unchanged.
    fn told_where(&self, why: DurabilityError, after: Epoch, state: &dyn Recoverable) -> DurabilityError {
        if !matches!(why, DurabilityError::Replay { .. }) {
            return why;
        }
        let logs = match self.logs(after) {
            Ok(logs) => logs,
            Err(unread) => return unread,
        };
        let mut buffers = ReadBuffers::default();
        let mut pieces = logs.iter().flatten();
        let refused = pieces.find_map(|piece| replay::replay(&*self.disk, piece, &mut buffers, state).err());
        refused.unwrap_or(why)
    }
}

impl TakenLog {
    /// Reads the written file as an open would, and shows its entries to `state`. The error is
    /// [`DurabilityError::TargetFailed`] if the file differs from the written bytes, or the refusal of the state.
    fn verify(&mut self, disk: &dyn Disk, state: &dyn Recoverable, spend: &mut SpendBytes<'_>) -> Result<()> {
        let failed = |error| match error {
            DurabilityError::Replay { .. } | DurabilityError::Unknown { .. } => error,
            error => DurabilityError::target_failed(disk, error),
        };
        let mut buffers = ReadBuffers::default();
        for piece in self.pieces(disk).map_err(failed)? {
            let replayed = replay::replay(disk, &piece, &mut buffers, state).map_err(failed)?;
            self.entries += replayed.entries;
            spend(ArchivePiece { written: 0, read: piece.bytes, bytes_total: 2 * self.bytes })?;
        }
        Ok(())
    }

    /// Pieces of the file that an open would replay: the whole file.
    fn pieces(&self, disk: &dyn Disk) -> Result<Vec<LogPiece>> {
        let file = merge::merged_file(self.generation.number);
        let chain = FileChain::read(disk, file, None)?;
        let (end, mark) = (chain.end, chain.mark);
        chain::check_origin(&self.generation, &chain)?;
        let durable = self.generation.durable.unwrap_or_default();
        if mark != durable || end != self.bytes {
            let detail = format!("it is whole up to epoch {mark}, and was written up to epoch {durable}");
            return Err(DurabilityError::damaged_file(&file.to_string(), end, detail));
        }
        let bounds = Bounds { first: self.generation.first, covered: self.generation.first, durable };
        let chain = Chain::stitch(disk, vec![chain], Epoch::ZERO)?;
        Ok(replay::cut(&chain, bounds, &mut RecoveryReport::default()))
    }
}
