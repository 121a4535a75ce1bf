//! Copies the files of a database, log included. If the pages of a picture were copied before, copies the log behind
//! the picture alone. Files, and parts of files, that the target already has are not copied again.
//!
//! ```text
//! Copying: missing bytes, sync --> Ending: cut logs at S --> Listing: sync folders --> Verifying --> manifest
//!             ^                          |                                           --> remove unneeded files
//!             +- a log is whole for less than S
//! ```
//! Loggers write during the copy. The copy has the state of epoch S, the largest D that the logs show at their first
//! read, closes the open generation at S, and adds a generation without a log. So the blocks that a later run adds to
//! these logs are void in this state.
//!
//! Invariants, argued in `docs/internals/protocols/backups.md`:
//! - N20: every log is cut at S. A log that is whole for less is read again from its end on.
//! - N22: the log files are synced in the source after the reads that show S, and before S is computed.
//! - I1: the copy has an identity of its own from the beginning; the manifest lists the identity that the files keep.
//! - N12, N21: the manifest comes last, and no byte of an earlier state is overwritten, cut or removed before.
//! - L6: epochs that the source reserves during the copy are reserved in the copy too: the copied log may show them.
//! - A5, A2: a restore back closes the state and cuts the logs at its epoch. An archive's entries stand behind the log.
//!
//! Neighbours: [`super::source`] opens the files, [`super::target`] has the folder; `recovery::copied_logs` finds the
//! cuts, `recovery::archive` adds an archive's entries, and an examination verifies the copy.

use std::collections::VecDeque;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::limits::LEASE_SECONDS_MAX;
use ensile_base::random::Random;
use ensile_disk::{Disk, DiskError, DiskFile};

use super::copy_report::{CopyReport, HAS_ENDED};
use super::known_files::KnownFiles;
use super::pages::{LoggedPicture, PagesCopy, UnnamedPicture};
use super::source::{DatabaseHistory, FilesSource, Purpose};
use super::tally::{CopyTally, SpendPiece};
use super::target::{TargetFolder, target_error};
use crate::copy_progress::CopyPhase;
use crate::files::block::origin::write_copied;
use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::generation::{Generation, LogSpan};
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::{Making, Manifest};
use crate::files::names::{
    FOLDER, HINT, MAIN, MANIFEST, PartName, SegmentFile, SegmentName, checkpointer_of, logger_of,
};
use crate::number;
use crate::recovery::archive::ArchiveSource;
use crate::recovery::copied_logs::{self, CopiedLogs, LogPlace, ShortLogs};
use crate::recovery::examination::{Damage, Examination, Judge};
use crate::{DurabilityError, Recoverable};

/// Largest number of bytes that one step copies.
const STEP_BYTES: usize = 1 << 20;

/// Stage of a copy of files: see the diagram of the module.
#[derive(Debug)]
enum FilesStage {
    Copying,
    Ending,
    Listing,
    /// With the manifest that the folder will get.
    Verifying(Box<(Judge, Manifest)>),
    /// All is read: the manifest is next.
    Installing(Box<(Judge, Manifest)>),
    Ended,
}

/// Part of a source file that waits for its copy.
#[derive(Debug)]
struct WaitingPiece {
    /// Index into the files of the source.
    file: usize,
    /// Offset of the next byte.
    from: u64,
    /// Offset behind the last byte. The file may end earlier.
    until: u64,
}

/// S, and the ends of the open generation's logs in the copy.
#[derive(Debug)]
struct EndedLogs {
    shown: Epoch,
    ends: Vec<LogPlace>,
}

/// A copy of files in progress.
#[derive(Debug)]
pub(super) struct FilesCopy {
    purpose: Purpose,
    /// Number of states in the target after the copy; `None` keeps the present number.
    keep: Option<usize>,
    source: FilesSource,
    target: TargetFolder,
    /// Picture behind which the logs continue.
    picture: Option<UnnamedPicture>,
    known: KnownFiles,
    /// Archive that brings the state to a later epoch.
    archive: Option<ArchiveSource>,
    /// Entries that a restore took from the archive, and their bytes.
    taken_entries: u64,
    taken_bytes: u64,
    /// Parts of files that wait for their copy.
    waiting: VecDeque<WaitingPiece>,
    /// Open copy of the first waiting part's file.
    file: Option<Box<dyn DiskFile>>,
    /// Buffer for the bytes of one step.
    bytes: Vec<u8>,
    /// At the last look: S, and the ends of the logs that were whole for less than S.
    short: Option<ShortLogs>,
    /// Set once all logs end at S.
    ended: Option<EndedLogs>,
    tally: CopyTally,
    stage: FilesStage,
}

/// Name of this source file in the copy. A copy may begin before a log file is closed, so the name in the copy never
/// has the end epoch of a closed file (`-to-..`).
fn copied_name(name: &str) -> String {
    SegmentFile::parse_path(name).map_or_else(|| name.to_owned(), |file| file.archive_name().to_string())
}

impl FilesCopy {
    /// Opens the target, checks that the target may get these files, and plans the copy.
    pub(super) fn begin(
        source: FilesSource,
        target: &Arc<dyn Disk>,
        archive: Option<ArchiveSource>,
        purpose: Purpose,
        keep: Option<usize>,
    ) -> Result<Self, DurabilityError> {
        let lives = source.manifest.lives();
        let of = DatabaseHistory { identity: source.manifest.identity, lives: &lives };
        let mut target = TargetFolder::open(target, of, purpose)?;
        if let Some(detail) = KnownFiles::from_manifest(target.manifest()).why_not(&source.manifest) {
            let folder = target.disk().folder_place("")?;
            return Err(DurabilityError::NotItsBackup { folder, detail });
        }
        // The folder of the first log gets the entries of an archive.
        let logs = source.folders(logger_of).max(usize::from(archive.is_some()));
        let checkpoints = source.folders(checkpointer_of);
        match target.manifest().state {
            Making::Creating => target.claim_empty(logs, checkpoints)?,
            Making::Created => target.claim_backup(logs, checkpoints)?,
        }
        let mut copy = Self::new(source, target, archive, purpose, keep);
        copy.plan()?;
        Ok(copy)
    }

    /// Begins the copy of the log behind a picture whose pages are copied.
    pub(super) fn from_pages_copy(
        mut pages: PagesCopy,
        logged: LoggedPicture,
    ) -> Result<Self, DurabilityError> {
        let LoggedPicture { closed, log, archive } = logged;
        let picture = Some(pages.take_picture(closed));
        let mut folder = pages.target.folder;
        folder.claim_logs(log.folders(logger_of).max(usize::from(archive.is_some())))?;
        let copy = Self::new(log, folder, archive, pages.purpose, pages.options.keep);
        let mut copy = Self { picture, tally: pages.tally, ..copy };
        copy.plan()?;
        Ok(copy)
    }

    fn new(
        mut source: FilesSource,
        target: TargetFolder,
        archive: Option<ArchiveSource>,
        purpose: Purpose,
        keep: Option<usize>,
    ) -> Self {
        let is_data =
            |name: &str| ![MANIFEST, HINT].contains(&name) && !name.ends_with(&format!("/{FOLDER}"));
        source.files.retain(|(name, _)| is_data(name));
        Self {
            purpose,
            keep,
            source,
            known: KnownFiles::from_manifest(target.manifest()),
            target,
            picture: None,
            archive,
            taken_entries: 0,
            taken_bytes: 0,
            waiting: VecDeque::new(),
            file: None,
            bytes: vec![0; STEP_BYTES],
            short: None,
            ended: None,
            tally: CopyTally::new(),
            stage: FilesStage::Copying,
        }
    }

    /// Queues the files that the target lacks in whole or in part.
    fn plan(&mut self) -> Result<(), DurabilityError> {
        let (mut bytes_total, mut bytes_there) = (0, 0);
        for (at, (name, file)) in self.source.files.iter().enumerate() {
            let length = file.len()?;
            let until = SegmentFile::parse_path(name)
                .and_then(|file| self.source.manifest.log_bytes(file.name))
                .map_or(length, |until| until.min(length));
            let from = self.bytes_there(name, until)?;
            debug_assert!(from <= until, "N21: {from} bytes of {name} are there, of {until}");
            (bytes_total, bytes_there) = (bytes_total + until, bytes_there + from);
            if from < until || !self.target.disk().exists(&copied_name(name))? {
                self.waiting.push_back(WaitingPiece { file: at, from, until });
            }
        }
        self.tally.begin(CopyPhase::Copying, bytes_total, 0);
        self.tally.add_copied(bytes_there, 0);
        Ok(())
    }

    /// Number of leading bytes of this file that the target has, at most `length`, the bytes of the source's file
    /// (N21).
    fn bytes_there(&self, name: &str, length: u64) -> Result<u64, DurabilityError> {
        let known = match (SegmentFile::parse_path(name), PartName::parse_path(name)) {
            (Some(log), _) => self.known.log_bytes(log.name),
            (_, Some(part)) if self.known.has_part(part, &self.source.manifest) => u64::MAX,
            _ => 0,
        };
        if known == 0 {
            return Ok(0);
        }
        let disk = self.target.disk();
        let there = match disk.open_to_read(&copied_name(name)).and_then(|file| file.len()) {
            Ok(there) => there,
            Err(error) if error.is_not_found() => return Ok(0),
            Err(error) => return Err(target_error(disk, error)),
        };
        if known == u64::MAX {
            // The file was copied as a whole. The two lengths may differ, because an open log file has space set aside.
            return Ok(length);
        }
        if known > length {
            let detail = format!(
                "it has {known} bytes of {name}, and the database {length}: is the database an older copy?"
            );
            return Err(DurabilityError::NotItsBackup { folder: disk.folder_place("")?, detail });
        }
        if there > known {
            // The bytes behind `known` come from a killed run, and belong to no state.
            let behind = disk.open(&copied_name(name)).and_then(|file| file.set_len(known));
            behind.map_err(|error| target_error(disk, error))?;
        }
        if there < known {
            // Something else has cut the file. A new copy would first empty the file, and an older state may need the
            // remaining bytes (N12).
            let copied = copied_name(name);
            let detail = format!(
                "{copied} is cut: it has {there} bytes, and the backup had {known} of it; {}",
                helps(&copied)
            );
            return Err(target_error(disk, detail));
        }
        Ok(known)
    }

    pub(super) fn tally(&self) -> &CopyTally {
        &self.tally
    }

    /// Ends the copy after a failure of another part of the run.
    pub(super) fn end(&mut self) {
        self.stage = FilesStage::Ended;
    }

    /// Does the next part of the work; the last part returns the report.
    pub(super) fn step(
        &mut self,
        verifier: &dyn Recoverable,
        spend: &mut SpendPiece<'_>,
    ) -> Result<Option<CopyReport>, DurabilityError> {
        match std::mem::replace(&mut self.stage, FilesStage::Ended) {
            FilesStage::Copying => self.copy()?,
            FilesStage::Ending => self.end_logs()?,
            FilesStage::Listing => {
                let next = self.list()?;
                let next = self.bring_forward(next, verifier, spend)?;
                self.tally.begin(CopyPhase::Verifying, self.bytes_to_verify()?, 0);
                let judge = Judge::of_newest(&self.target.store.disk, &next);
                self.stage = FilesStage::Verifying(Box::new((judge, next)));
            }
            FilesStage::Verifying(mut verifying) => {
                let read =
                    verifying.0.step(verifier).map_err(|error| target_error(self.target.disk(), error))?;
                self.stage = match read {
                    Some(read) => {
                        self.tally.add_verified(read, 0);
                        FilesStage::Verifying(verifying)
                    }
                    None => {
                        self.tally.verified_all();
                        FilesStage::Installing(verifying)
                    }
                };
            }
            FilesStage::Installing(verified) => {
                let (judge, next) = *verified;
                return self.install(judge.examination(), next).map(Some);
            }
            FilesStage::Ended => return Err(DurabilityError::config(HAS_ENDED)),
        }
        Ok(None)
    }

    /// Copies the next bytes of a file.
    fn copy(&mut self) -> Result<(), DurabilityError> {
        let Some(piece) = self.waiting.front_mut() else {
            self.stage = FilesStage::Ending;
            return Ok(());
        };
        let (name, from) = &self.source.files[piece.file];
        let most = (piece.until - piece.from).min(STEP_BYTES as u64) as usize;
        let read = from.read_at(&mut self.bytes[..most], piece.from)?;
        // A log has space set aside, which is zero. Unwritten bytes of the copy read as zeros too.
        let is_log = SegmentFile::parse_path(name).is_some();
        let used = if is_log { used_bytes(&self.bytes[..read]) } else { read };
        let (disk, opened) = (self.target.disk(), self.file.take());
        let to = write(disk, &copied_name(name), opened, &self.bytes[..used], piece.from);
        let to = to.map_err(|error| target_error(disk, error))?;
        if read == 0 {
            to.sync_all().map_err(|error| target_error(disk, error))?;
            self.waiting.pop_front();
        } else {
            piece.from += read as u64;
            debug_assert!(piece.from <= piece.until, "N20: bytes behind the end of {name}");
            self.file = Some(to);
        }
        self.tally.add_copied(read as u64, 0);
        self.tally.wrote(used as u64);
        self.stage = FilesStage::Copying;
        Ok(())
    }

    /// Cuts the logs of a restore to the earlier epoch `back`: the last life with a log is closed there (A5).
    fn end_back(&mut self, back: Epoch) -> Result<(), DurabilityError> {
        let (disk, manifest) = (self.target.disk(), &self.source.manifest);
        let life = manifest.generations.iter().rfind(|life| life.logs > 0).expect("A5: it has the epoch");
        assert_eq!(life.durable, Some(back), "A5: it is closed there");
        let ends = copied_logs::ends_at_durable(disk, manifest, life, &self.source.logs_of(life.number));
        let (ends, beyond) = ends.map_err(|error| target_error(disk, error))?;
        let ended = ends.iter().try_for_each(|end| cut(disk, *end));
        let removed = || beyond.iter().try_for_each(|file| disk.remove(&file.to_string()));
        ended.and_then(|()| removed()).map_err(|error| target_error(disk, error))?;
        self.ended = Some(EndedLogs { shown: back, ends: Vec::new() });
        self.stage = FilesStage::Listing;
        Ok(())
    }

    /// Cuts all logs at S (N20), or queues the missing bytes of logs that are whole for less.
    fn end_logs(&mut self) -> Result<(), DurabilityError> {
        if let Purpose::Restore { back: Some(back), .. } = self.purpose {
            return self.end_back(back);
        }
        if self.short.is_none() {
            // The sync comes after the reads that show S, and before S is computed (N22).
            self.source.sync_logs()?;
        }
        let disk = self.target.disk();
        let (manifest, logs) = (&self.source.manifest, self.source.logs());
        let looked = copied_logs::look(disk, manifest, self.source.hinted, &logs, self.short.as_ref());
        self.stage = FilesStage::Listing;
        match looked {
            Ok(CopiedLogs::Whole { shown, ends, beyond }) => {
                // A cut must come at or behind the log's end in every earlier state (N12).
                let is_theirs = |end: &&LogPlace| self.is_there(LogPlace { offset: end.offset + 1, ..**end });
                if let Some(LogPlace { file, offset }) = ends.iter().find(is_theirs) {
                    let detail =
                        format!("{file} would end at byte {offset}, before the end of a state that is there");
                    return Err(target_error(disk, detail));
                }
                let ended = ends.iter().try_for_each(|end| cut(disk, *end));
                let removed = || beyond.iter().try_for_each(|file| disk.remove(&file.to_string()));
                ended.and_then(|()| removed()).map_err(|error| target_error(disk, error))?;
                self.ended = Some(EndedLogs { shown, ends });
                Ok(())
            }
            Ok(CopiedLogs::Short(mut short)) => {
                let is_stuck = self.short.as_ref().is_some_and(|before| before.ends == short.ends);
                // If a log ends within the bytes of an earlier state, the target is damaged. The verification reports
                // the damage.
                let is_theirs = short.ends.iter().any(|end| self.is_there(*end));
                if !is_stuck && !is_theirs {
                    self.copy_behind(&mut short)?;
                    self.stage = FilesStage::Copying;
                }
                self.short = Some(short);
                Ok(())
            }
            // The verification reports the damage.
            Err(DurabilityError::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// True if an earlier state of the target has the byte at this place.
    fn is_there(&self, place: LogPlace) -> bool {
        place.offset < self.known.log_bytes(place.file.name)
    }

    /// Queues the bytes of these logs from their ends on, in new files too. Files behind an end are opened anew: a file
    /// in preparation may have become the log's next file, or its name may belong to another file now. If the next file
    /// was removed, the log ends with the present file: the open handle can still be read to the end.
    fn copy_behind(&mut self, short: &mut ShortLogs) -> Result<(), DurabilityError> {
        assert!(self.waiting.is_empty(), "an index of a file stays what it is while it waits");
        let until = u64::MAX;
        for LogPlace { file, .. } in &short.ends {
            let disk = self.target.disk();
            for later in self.source.drop_behind(file.name) {
                disk.remove(&copied_name(&later)).map_err(|error| target_error(disk, error))?;
            }
        }
        for LogPlace { file, offset } in &short.ends {
            let is_it = |(name, _): &(String, _)| copied_name(name) == file.to_string();
            let at = self.source.files.iter().position(is_it).expect("the copy of an opened file ends");
            self.waiting.push_back(WaitingPiece { file: at, from: *offset, until });
            let known = self.source.files.len();
            if !self.source.open_later_files(file.name)? {
                // The file was closed before the next file was removed, so the length is final.
                let end = LogPlace { file: *file, offset: self.source.files[at].1.len()? };
                short.removed_behind.insert(file.name.logger, end);
            }
            let more = known..self.source.files.len();
            self.waiting.extend(more.map(|file| WaitingPiece { file, from: 0, until }));
        }
        Ok(())
    }

    /// Syncs the folders of the copied files. Returns the manifest that will list the files.
    fn list(&mut self) -> Result<Manifest, DurabilityError> {
        for folder in self.target.manifest().folders.keys().filter(|folder| *folder != MAIN) {
            let disk = self.target.disk();
            disk.sync_folder(folder).map_err(|error| target_error(disk, error))?;
        }
        let reserved = self.source.reserved_epoch()?.max(self.target.manifest().reserved);
        let generations = self.closed_generations()?;
        let picture = self.picture.as_ref().map(|unnamed| unnamed.picture().clone());
        let picture = picture.map(InstalledCheckpoint::Picture);
        let checkpoint = picture.or_else(|| self.source.manifest.checkpoint.clone());
        let state = FilesState { checkpoint, generations };
        let (epoch, generation) = (state.epoch(), state.generation());
        // If the logs do not end together, there is no state, and the verification reports the reason.
        let kept = self.ended.as_ref().map_or(Vec::new(), |_| self.target.states_to_keep(epoch, self.keep));
        let (of, own) = (&self.source.manifest, self.target.manifest());
        let mut next = Manifest {
            identity: own.identity,
            parent: Some(of.identity),
            reserved,
            folders: own.folders.clone(),
            // Archive and shipping stay with the source.
            archived: None,
            ships_to: None,
            lineage: of.lives().truncate_at(generation, epoch),
            mapped: None,
            made_from: Some(MadeFrom::Backup { of: of.identity }),
            kept,
            checkpoint: state.checkpoint,
            generations: state.generations,
            ..of.clone()
        };
        next.remember_files_of(of);
        Ok(next)
    }

    /// Puts the entries of the archive behind the state (A2). Returns the manifest of the database at the requested
    /// epoch.
    fn bring_forward(
        &mut self,
        next: Manifest,
        verifier: &dyn Recoverable,
        spend: &mut SpendPiece<'_>,
    ) -> Result<Manifest, DurabilityError> {
        // If the logs do not end together, the verification reports the reason.
        let Some((archive, ended)) = self.archive.as_ref().zip(self.ended.as_ref()) else { return Ok(next) };
        let disk = &self.target.store.disk;
        let tally = &mut self.tally;
        let mut took = |piece| {
            tally.took(&piece);
            spend(&tally.progress(), piece.bytes())
        };
        let (next, taken) = archive.write_log_after(disk, next, ended.shown, verifier, &mut took)?;
        (self.taken_entries, self.taken_bytes) = taken.map_or((0, 0), |taken| (taken.entries, taken.bytes));
        Ok(next)
    }

    /// Generations of the source, with the open generation closed at S, and a new generation without a log behind them.
    /// Each generation lists the copied files of its logs (N21).
    fn closed_generations(&self) -> Result<Vec<Generation>, DurabilityError> {
        let mut generations = self.source.manifest.generations.clone();
        let Some((ended, open)) = self.ended.as_ref().zip(generations.last_mut()) else {
            return Ok(generations);
        };
        if open.logs > 0 {
            assert_eq!(ended.ends.len(), open.logs as usize, "each log has an end");
            open.durable = Some(ended.shown);
            let used_up = || DurabilityError::config("the numbers of its generations are used up");
            let next = Generation {
                number: number::next(open.number).ok_or_else(used_up)?,
                first: ended.shown.next(),
                format: FORMAT,
                entries: open.entries,
                logs: 0,
                salt: Salt::draw(&mut Random::unpredictable()),
                database: self.target.manifest().identity,
                durable: None,
                spans: Vec::new(),
            };
            generations.push(next);
        }
        let copied = self.copied_files()?;
        generations.iter_mut().for_each(|generation| generation.spans = spans_of(generation, &copied));
        let is_before = |one: &Generation, next: &Generation| one.durable.is_some_and(|end| end < next.first);
        debug_assert!(generations.is_sorted_by(is_before), "L4: the epochs of generations are apart");
        Ok(generations)
    }

    /// Files of the state: name in the copy, and bytes.
    fn copied_files(&self) -> Result<Vec<(String, u64)>, DurabilityError> {
        let disk = self.target.disk();
        let mut copied = Vec::new();
        for (name, _) in &self.source.files {
            let name = copied_name(name);
            match disk.open_to_read(&name).and_then(|file| file.len()) {
                Ok(length) => copied.push((name, length)),
                // The log ends before this file.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(target_error(disk, error)),
            }
        }
        Ok(copied)
    }

    /// Bytes that the verification reads. A log file counts twice: headers first, which show the end of the log, then
    /// entries.
    fn bytes_to_verify(&self) -> Result<u64, DurabilityError> {
        let times = |name: &str| if SegmentFile::parse_path(name).is_some() { 2 } else { 1 };
        let copied: u64 = self.copied_files()?.iter().map(|(name, bytes)| times(name) * bytes).sum();
        let picture = self.picture.as_ref().map_or(0, |unnamed| unnamed.picture().bytes);
        Ok(picture + copied + 2 * self.taken_bytes)
    }

    /// Replaces the manifest if the verification found the copy whole. From then on the copy counts.
    fn install(&mut self, found: &Examination, next: Manifest) -> Result<CopyReport, DurabilityError> {
        if !found.is_whole() {
            let detail = found
                .damage
                .first()
                .map_or("what was copied cannot be read".to_owned(), |damage| self.said_of(damage));
            return Err(target_error(self.target.disk(), detail));
        }
        let epoch = found.durable_epoch.unwrap_or_default();
        // The verification may pass a copy that lacks epochs: the source's hint alone may show them, and a copy has no
        // hint.
        if self.ended.is_none() {
            let short = self.short.as_ref();
            let ends = short.iter().flat_map(|short| &short.ends);
            let ends =
                ends.map(|LogPlace { file, offset }| format!("{file} at byte {offset}")).collect::<Vec<_>>();
            let helps = if short.is_some_and(|short| !short.removed_behind.is_empty()) {
                format!(
                    "files behind that were removed while they were copied: a database keeps them for a reader for \
                     {LEASE_SECONDS_MAX} s beyond their time; back up again, faster or while less is written"
                )
            } else {
                "see what `ensile verify` says of the database".to_owned()
            };
            let detail = format!(
                "epoch {} was durable, but the log is whole up to epoch {epoch} only: it ends in {}; {helps}",
                short.map_or(Epoch::ZERO, |short| short.shown),
                ends.join(", in ")
            );
            return Err(target_error(self.target.disk(), detail));
        }
        self.check_follows(epoch)?;
        let made_from = match self.purpose {
            Purpose::Backup { .. } => next.made_from,
            Purpose::Restore { .. } => Some(MadeFrom::Restored { epoch }),
        };
        let epochs: Vec<Epoch> =
            std::iter::once(epoch).chain(next.kept.iter().map(KeptState::epoch)).collect();
        let dropped = self.target.epochs_to_drop(&epochs);
        let copied: u64 = self.copied_files()?.iter().map(|(_, bytes)| bytes).sum();
        let kept = next.kept.clone();
        self.target.replace(Manifest { made_from, ..next })?;
        let (mut pages, mut pages_written, mut bytes) = (0, 0, copied + self.taken_bytes);
        if let Some(unnamed) = self.picture.take() {
            (pages, pages_written) = (unnamed.picture().pages, unnamed.pages_written);
            bytes += unnamed.picture().bytes;
            unnamed.commit(&kept);
        }
        // The copy counts already, so a failure is ignored. The next run removes the remaining files.
        let _ = self.target.remove_unnamed();
        self.tally.end();
        Ok(CopyReport {
            database: self.target.manifest().identity.to_string(),
            parent: self.source.manifest.identity.to_string(),
            epoch,
            entries: found.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.entries),
            pages,
            pages_written,
            bytes,
            bytes_written: self.tally.progress().bytes_written,
            log_entries: self.taken_entries,
            overruns: self.tally.progress().overruns,
            kept: epochs,
            dropped,
            durable: Epoch::ZERO,
            not_proven: None,
        })
    }

    /// Refuses a state before the target's newest state.
    fn check_follows(&self, epoch: Epoch) -> Result<(), DurabilityError> {
        let before = self.known.epoch();
        if epoch >= before {
            return Ok(());
        }
        let folder = self.target.disk().folder_place("")?;
        let detail = format!(
            "it has the state at epoch {before}, and the database's is of epoch {epoch}: is the database an older copy?"
        );
        Err(DurabilityError::NotItsBackup { folder, detail })
    }

    /// Description of the damage, with the remedy if an earlier backup had the damaged bytes.
    fn said_of(&self, damage: &Damage) -> String {
        let Damage { file, offset, detail, .. } = damage;
        let what = format!("{file} is damaged at byte {offset}: {detail}");
        let known = match (SegmentFile::parse_path(file), PartName::parse_path(file)) {
            (Some(file), _) => self.known_file(LogPlace { file, offset: *offset }),
            (_, Some(part)) => self.known.has_part(part, &self.source.manifest).then(|| file.clone()),
            _ => None,
        };
        known.map_or(what.clone(), |known| {
            let helps = helps(&known);
            format!("{what}; the backup had it before: {helps}")
        })
    }

    /// File of the target with this place of a log, if an earlier state has the place. If the log begins too late, the
    /// log's first file, because the beginning of the first file is damaged.
    fn known_file(&self, place: LogPlace) -> Option<String> {
        let file = place.file;
        let logs = self.source.files.iter().filter_map(|(name, _)| SegmentFile::parse_path(name));
        let of_log = |other: &SegmentFile| {
            (other.name.generation, other.name.logger) == (file.name.generation, file.name.logger)
        };
        let first = logs.filter(of_log).map(SegmentFile::archive_name).min_by_key(|file| file.name)?;
        let place = if file.name < first.name { LogPlace { file: first, offset: 0 } } else { place };
        self.is_there(place).then(|| place.file.to_string())
    }
}

/// Remedy for damage in this file of the backup.
fn helps(file: &str) -> String {
    format!(
        "remove {file} from the backup and back up again, which copies it anew if the database still has it, or give an \
         empty folder"
    )
}

/// Spans of the copied files, for each log of the generation. Empty if all files of a log are missing: the verification
/// reports the damage.
fn spans_of(generation: &Generation, copied: &[(String, u64)]) -> Vec<LogSpan> {
    let mut spans = vec![None::<LogSpan>; generation.logs as usize];
    for (file, bytes) in copied {
        let Some(SegmentFile { name, .. }) = SegmentFile::parse_path(file) else { continue };
        let span = spans.get_mut(name.logger as usize).filter(|_| name.generation == generation.number);
        let Some(span) = span else { continue };
        let SegmentName { number, .. } = name;
        let own = LogSpan { first: number, last: number, bytes: *bytes };
        let known = span.unwrap_or(own);
        let last = if number > known.last { own } else { known };
        *span = Some(LogSpan { first: known.first.min(number), ..last });
    }
    let spans: Vec<LogSpan> = spans.into_iter().collect::<Option<_>>().unwrap_or_default();
    let last_of = |logger: usize| {
        let files = copied.iter().filter_map(|(file, _)| SegmentFile::parse_path(file));
        let own = files
            .filter(|file| (file.name.generation, file.name.logger as usize) == (generation.number, logger));
        own.map(|file| file.name.number).max()
    };
    debug_assert!(
        spans.iter().enumerate().all(|(logger, span)| Some(span.last) == last_of(logger)),
        "N21: a span ends with the last copied file: {spans:?}"
    );
    spans
}

/// Cuts the copy of a log file at `end`.
fn cut(disk: &dyn Disk, end: LogPlace) -> Result<(), DiskError> {
    let file = disk.open(&end.file.to_string())?;
    if file.len()? > end.offset {
        file.set_len(end.offset)?;
        file.sync_all()?;
    }
    debug_assert!(file.len().ok().is_none_or(|length| length <= end.offset), "N20: {} is cut", end.file);
    Ok(())
}

/// Number of leading bytes to write, rounded up to a page. All later bytes are zeros.
fn used_bytes(bytes: &[u8]) -> usize {
    const PAGE_BYTES: usize = 4096;
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let written = used.next_multiple_of(PAGE_BYTES).min(bytes.len());
    debug_assert!(bytes[written..].iter().all(|byte| *byte == 0), "N20: a byte beside zeros is left out");
    written
}

/// Writes the next bytes of a file's copy. The write at offset 0 makes the copy.
fn write(
    disk: &dyn Disk,
    name: &str,
    opened: Option<Box<dyn DiskFile>>,
    bytes: &[u8],
    offset: u64,
) -> Result<Box<dyn DiskFile>, DiskError> {
    let open = || if offset == 0 { disk.create(name) } else { disk.open(name) };
    let to = opened.map_or_else(open, Ok)?;
    write_copied(&*to, bytes, offset)?;
    Ok(to)
}
