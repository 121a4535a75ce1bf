//! Copies a database's files, log included; behind a picture, whose pages were copied before, its log. What the target
//! has of them already stays there.
//!
//! ```text
//! Copying: what it lacks, synced --> Ending: its logs end --> its folders --> Verifying: all of it is read --> manifest
//!             ^                      together        |                                          --> what no state has goes
//!             +----- a log is whole for less than S -+
//! ```
//! Loggers go on meanwhile. The copy has the state of S: the largest D that its logs show as they were read first. Its
//! open generation is closed at S, and the next one has no log. So what a later run adds to its logs is void there.
//!
//! Invariants:
//! - N20: a log that is whole for less than S is read again from its end on. Then each is cut at S. If files behind its
//!   end were removed, as the lease was overrun, it ends with the last one that is open here, and S is smaller.
//! - N22: S is taken from what was read once that is synced in the source.
//! - I1: the copy has an identity of its own from the beginning; its files go on naming the database that was copied,
//!   and the manifest says so.
//! - N12: the manifest comes last, behind a look at all that its newest state has, as an open would read it. Until then
//!   nothing that an earlier state has is written over, cut or removed. So a run that is killed or cancelled leaves the
//!   states that were there.
//! - N21: what stays is what a state says of it ([`super::known`]).
//! - L6: what was reserved beside the copy is reserved in it, as its log may show that.
//! - A5: a state that a restore takes back to an earlier epoch is closed there, and its logs are cut.
//! - A2: what an archive has behind the state is put behind its log, of S + 1 and above.
//!
//! Neighbours: [`super::source`] has the files open, [`super::target`] the folder; an examination verifies, by the
//! manifest that the folder is to have.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::limits::LEASE_SECONDS_MAX;
use ensile_base::random::Random;
use ensile_disk::{Disk, DiskError, DiskFile};

use super::known::KnownFiles;
use super::pages::{ClosedCopy, LoggedPicture, PagesCopy};
use super::source::{FilesSource, Purpose};
use super::tally::CopyTally;
use super::target::{TargetFolder, failed};
use super::{CopyReport, HAS_ENDED, SpendPiece};
use crate::block::origin::write_copied;
use crate::block::{FORMAT, Salt};
use crate::copy_progress::CopyPhase;
use crate::number;
use crate::recovery::archived::ArchiveSource;
use crate::recovery::copied::{self, CopiedLogs, LogPlace, ShortLogs};
use crate::recovery::examine::{Damage, Examination, Judge};
use crate::store::MadeFrom;
use crate::store::installed::{InstalledCheckpoint, PictureCheckpoint};
use crate::store::kept::{FilesState, KeptState, LogSpan};
use crate::store::manifest::{Generation, Making, Manifest};
use crate::store::names::{
    FOLDER, HINT, MAIN, MANIFEST, PartName, SegmentFile, SegmentName, checkpointer_of, logger_of,
};
use crate::{DurabilityError, Recoverable};

/// Bytes that are copied in one step.
const STEP_BYTES: usize = 1 << 20;

#[derive(Debug)]
enum FilesStage {
    Copying,
    Ending,
    Listing,
    /// By the manifest that the folder is to have.
    Verifying(Box<(Judge, Manifest)>),
    Ended,
}

/// A piece of a file of the source.
#[derive(Debug)]
struct WaitingPiece {
    /// Its place among the source's files.
    file: usize,
    /// It goes from here to there, or to the file's end.
    from: u64,
    until: u64,
}

/// What was taken from an archive.
#[derive(Clone, Copy, Debug, Default)]
struct TakenBehind {
    entries: u64,
    bytes: u64,
}

/// The picture of a state.
#[derive(Clone, Copy, Debug, Default)]
struct CopiedPicture {
    pages: u64,
    pages_written: u64,
    bytes: u64,
}

/// S, and where the logs of the open generation end in the copy.
#[derive(Debug)]
struct EndedLogs {
    shown: Epoch,
    ends: Vec<LogPlace>,
}

/// The target's folder.
#[derive(Debug)]
enum FilesTarget {
    Folder(Box<TargetFolder>),
    /// It has the pages of the picture behind which the logs go on.
    Pictured(Box<(PagesCopy, ClosedCopy)>),
}

impl Deref for FilesTarget {
    type Target = TargetFolder;

    fn deref(&self) -> &TargetFolder {
        match self {
            Self::Folder(folder) => folder,
            Self::Pictured(pictured) => &pictured.0.target.folder,
        }
    }
}

impl DerefMut for FilesTarget {
    fn deref_mut(&mut self) -> &mut TargetFolder {
        match self {
            Self::Folder(folder) => folder,
            Self::Pictured(pictured) => &mut pictured.0.target.folder,
        }
    }
}

impl FilesTarget {
    /// The copied picture.
    fn picture(&self) -> Option<&PictureCheckpoint> {
        match self {
            Self::Folder(_) => None,
            Self::Pictured(pictured) => Some(&pictured.1.picture),
        }
    }
}

/// A copy under way.
#[derive(Debug)]
pub(super) struct FilesCopy {
    purpose: Purpose,
    /// States that the target is to have.
    keep: Option<usize>,
    source: FilesSource,
    target: FilesTarget,
    known: KnownFiles,
    /// What brings the state to a later epoch.
    archive: Option<ArchiveSource>,
    taken: TakenBehind,
    /// What is to be copied.
    waiting: VecDeque<WaitingPiece>,
    /// The copy of the first of them.
    file: Option<Box<dyn DiskFile>>,
    bytes: Vec<u8>,
    /// S, and where logs ended at the last look that were whole for less.
    short: Option<ShortLogs>,
    /// Once the logs end together.
    ended: Option<EndedLogs>,
    tally: CopyTally,
    stage: FilesStage,
}

/// What a copy calls this file of the source: without the end that a closed log file's name says, as the file may have
/// been copied before that was known.
fn copied_name(name: &str) -> String {
    SegmentFile::at(name).map_or_else(|| name.to_owned(), |file| file.archived().to_string())
}

impl FilesCopy {
    pub(super) fn begin(
        source: FilesSource,
        (target, archive): (&Arc<dyn Disk>, Option<ArchiveSource>),
        (purpose, keep): (Purpose, Option<usize>),
    ) -> Result<Self, DurabilityError> {
        let lives = source.manifest.lives();
        let mut target = TargetFolder::open(target, (source.manifest.identity, &lives), purpose)?;
        let known = KnownFiles::of(target.manifest());
        let not_its = |folder, detail| Err(DurabilityError::NotItsBackup { folder, detail });
        if let Some(detail) = known.why_not(&source.manifest) {
            return not_its(target.disk().folder_place("")?, detail);
        }
        // What is taken from an archive stands in the first log's folder.
        let logs = source.folders(logger_of).max(usize::from(archive.is_some()));
        let checkpoints = source.folders(checkpointer_of);
        match target.manifest().state {
            Making::Creating => target.claim_empty(logs, checkpoints)?,
            Making::Created => target.claim_backup(logs, checkpoints)?,
        }
        let target = FilesTarget::Folder(Box::new(target));
        Self::of(source, (target, known, archive), (purpose, keep), CopyTally::new())
    }

    /// Begins to copy the log behind a picture, whose pages are copied.
    pub(super) fn behind(mut pages: PagesCopy, logged: LoggedPicture) -> Result<Self, DurabilityError> {
        let (purpose, keep) = (pages.purpose, pages.options.keep);
        let LoggedPicture { closed, log, archive } = logged;
        pages.target.folder.claim_logs(log.folders(logger_of).max(usize::from(archive.is_some())))?;
        let (known, tally) = (KnownFiles::of(pages.target.folder.manifest()), pages.tally.clone());
        let target = FilesTarget::Pictured(Box::new((pages, closed)));
        Self::of(log, (target, known, archive), (purpose, keep), tally)
    }

    fn of(
        mut source: FilesSource,
        (target, known, archive): (FilesTarget, KnownFiles, Option<ArchiveSource>),
        (purpose, keep): (Purpose, Option<usize>),
        tally: CopyTally,
    ) -> Result<Self, DurabilityError> {
        let is_data =
            |name: &str| ![MANIFEST, HINT].contains(&name) && !name.ends_with(&format!("/{FOLDER}"));
        source.files.retain(|(name, _)| is_data(name));
        source.drop_covered()?;
        let (bytes, stage) = (vec![0; STEP_BYTES], FilesStage::Copying);
        let (waiting, file) = (VecDeque::new(), None);
        let (taken, short, ended) = (TakenBehind::default(), None, None);
        let mut copy = Self {
            purpose,
            keep,
            source,
            target,
            known,
            archive,
            taken,
            waiting,
            file,
            bytes,
            short,
            ended,
            tally,
            stage,
        };
        copy.plan()?;
        Ok(copy)
    }

    /// Looks which files the target lacks, or has a part of.
    fn plan(&mut self) -> Result<(), DurabilityError> {
        let (mut bytes_total, mut bytes_there) = (0, 0);
        for (at, (name, file)) in self.source.files.iter().enumerate() {
            let length = file.len()?;
            let until = SegmentFile::at(name)
                .and_then(|file| self.source.manifest.log_bytes(file.name))
                .map_or(length, |until| until.min(length));
            let from = self.bytes_there(name, until)?;
            (bytes_total, bytes_there) = (bytes_total + until, bytes_there + from);
            if from < until || !self.target.disk().exists(&copied_name(name))? {
                self.waiting.push_back(WaitingPiece { file: at, from, until });
            }
        }
        self.tally.begin(CopyPhase::Copying, bytes_total, 0);
        self.tally.copied(bytes_there, 0);
        Ok(())
    }

    /// How many of the first bytes of this file the target has, of as many as the source has now (N21).
    fn bytes_there(&self, name: &str, length: u64) -> Result<u64, DurabilityError> {
        let known = match (SegmentFile::at(name), PartName::at(name)) {
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
            Err(error) => return Err(failed(disk, error)),
        };
        if known == u64::MAX {
            // All that was there was copied; a log file that was open then may have had space set aside.
            return Ok(length);
        }
        if known > length {
            let detail = format!(
                "it has {known} bytes of {name}, and the database {length}: is the database an older copy?"
            );
            return Err(DurabilityError::NotItsBackup { folder: disk.folder_place("")?, detail });
        }
        if there > known {
            // A run that was killed has left more, which is of no state.
            let behind = disk.open(&copied_name(name)).and_then(|file| file.set_len(known));
            behind.map_err(|error| failed(disk, error))?;
        }
        if there < known {
            // Something else has cut it. To copy it anew would empty it first, and an older state may need what is left
            // of it (N12).
            let copied = copied_name(name);
            let detail = format!(
                "{copied} is cut: it has {there} bytes, and the backup had {known} of it; {}",
                helps(&copied)
            );
            return Err(failed(disk, detail));
        }
        Ok(known)
    }

    pub(super) fn tally(&self) -> &CopyTally {
        &self.tally
    }

    /// A step that failed beside it ends it.
    pub(super) fn end(&mut self) {
        self.stage = FilesStage::Ended;
    }

    /// As a copy of pages steps.
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
                let read = verifying.0.step(verifier).map_err(|error| failed(self.target.disk(), error))?;
                let Some(read) = read else {
                    let (judge, next) = *verifying;
                    return self.install(judge.found(), next).map(Some);
                };
                self.tally.verified(read, 0);
                self.stage = FilesStage::Verifying(verifying);
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
        // What a log has set aside reads the same where nothing is written.
        let is_log = SegmentFile::at(name).is_some();
        let used = if is_log { used_bytes(&self.bytes[..read]) } else { read };
        let (disk, opened) = (self.target.disk(), self.file.take());
        let to = write(disk, (&copied_name(name), opened), &self.bytes[..used], piece.from);
        let to = to.map_err(|error| failed(disk, error))?;
        if read == 0 {
            to.sync_all().map_err(|error| failed(disk, error))?;
            self.waiting.pop_front();
        } else {
            piece.from += read as u64;
            self.file = Some(to);
        }
        self.tally.copied(read as u64, 0);
        self.tally.wrote(used as u64);
        self.stage = FilesStage::Copying;
        Ok(())
    }

    /// Cuts what a restore takes back to this epoch: the state's last life with a log is closed there (A5).
    fn end_back(&mut self, back: Epoch) -> Result<(), DurabilityError> {
        let (disk, manifest) = (self.target.disk(), &self.source.manifest);
        let life = manifest.generations.iter().rfind(|life| life.logs > 0).expect("A5: it has the epoch");
        assert_eq!(life.durable, Some(back), "A5: it is closed there");
        let ends = copied::ends_at_durable(disk, (manifest, life), &self.source.logs_of(life.number));
        let (ends, beyond) = ends.map_err(|error| failed(disk, error))?;
        let ended = ends.iter().try_for_each(|(file, end)| cut(disk, &file.to_string(), *end));
        let removed = || beyond.iter().try_for_each(|file| disk.remove(&file.to_string()));
        ended.and_then(|()| removed()).map_err(|error| failed(disk, error))?;
        self.ended = Some(EndedLogs { shown: back, ends: Vec::new() });
        self.stage = FilesStage::Listing;
        Ok(())
    }

    /// Makes the logs end together (N20), or has what is missing of them copied.
    fn end_logs(&mut self) -> Result<(), DurabilityError> {
        if let Purpose::Restore { back: Some(back), .. } = self.purpose {
            return self.end_back(back);
        }
        if self.short.is_none() {
            // Behind all that S is taken from, and before it is.
            self.source.sync_logs()?;
        }
        let disk = self.target.disk();
        let (manifest, logs) = (&self.source.manifest, self.source.logs());
        let looked = copied::look(disk, (manifest, self.source.hinted), &logs, self.short.as_ref());
        self.stage = FilesStage::Listing;
        match looked {
            Ok(CopiedLogs::Whole { shown, ends, beyond }) => {
                // A state that is there ends there at the latest, or before (N12).
                let is_theirs = |(file, end): &&LogPlace| self.is_there((*file, end + 1));
                if let Some((file, end)) = ends.iter().find(is_theirs) {
                    let detail =
                        format!("{file} would end at byte {end}, before the end of a state that is there");
                    return Err(failed(disk, detail));
                }
                let ended = ends.iter().try_for_each(|(file, end)| cut(disk, &file.to_string(), *end));
                let removed = || beyond.iter().try_for_each(|file| disk.remove(&file.to_string()));
                ended.and_then(|()| removed()).map_err(|error| failed(disk, error))?;
                self.ended = Some(EndedLogs { shown, ends });
                Ok(())
            }
            Ok(CopiedLogs::Short(mut short)) => {
                let is_stuck = self.short.as_ref().is_some_and(|before| before.ends == short.ends);
                // What a state has is damaged in the target: the verification says so.
                let is_theirs = short.ends.iter().any(|end| self.is_there(*end));
                if !is_stuck && !is_theirs {
                    self.copy_behind(&mut short)?;
                    self.stage = FilesStage::Copying;
                }
                self.short = Some(short);
                Ok(())
            }
            // The verification says what is damaged.
            Err(DurabilityError::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Is this place before the end that a state of the target has?
    fn is_there(&self, (file, offset): LogPlace) -> bool {
        offset < self.known.log_bytes(file.name)
    }

    /// What these logs have from here on waits to be copied, in files too that they did not have before. Files behind
    /// are opened anew: one that was being prepared has become a log's, or another one has its name. If the next one
    /// was removed, the log ends with this one, which can be read to its end.
    fn copy_behind(&mut self, short: &mut ShortLogs) -> Result<(), DurabilityError> {
        assert!(self.waiting.is_empty(), "an index of a file stays what it is while it waits");
        let until = u64::MAX;
        for (file, _) in &short.ends {
            let disk = self.target.disk();
            for later in self.source.drop_behind(file.name) {
                disk.remove(&copied_name(&later)).map_err(|error| failed(disk, error))?;
            }
        }
        for (file, end) in &short.ends {
            let is_it = |(name, _): &(String, _)| copied_name(name) == file.to_string();
            let at = self.source.files.iter().position(is_it).expect("the copy of an opened file ends");
            self.waiting.push_back(WaitingPiece { file: at, from: *end, until });
            let known = self.source.files.len();
            if !self.source.go_on(file.name)? {
                // It was closed before that, so its length is final.
                let length = self.source.files[at].1.len()?;
                short.removed_behind.insert(file.name.logger, (*file, length));
            }
            let more = known..self.source.files.len();
            self.waiting.extend(more.map(|file| WaitingPiece { file, from: 0, until }));
        }
        Ok(())
    }

    /// Everything is copied: the manifest that is to list it.
    fn list(&mut self) -> Result<Manifest, DurabilityError> {
        for folder in self.target.manifest().folders.keys().filter(|folder| *folder != MAIN) {
            self.target.disk().sync_folder(folder).map_err(|error| failed(self.target.disk(), error))?;
        }
        let reserved = self.source.reserved()?.max(self.target.manifest().reserved);
        let generations = self.closed_generations()?;
        let picture = self.target.picture().cloned().map(InstalledCheckpoint::Picture);
        let checkpoint = picture.or_else(|| self.source.manifest.checkpoint.clone());
        let state = FilesState { checkpoint, generations };
        let (epoch, generation) = (state.epoch(), state.generation());
        // What did not end together is no state, as the verification will say.
        let kept = self.ended.as_ref().map_or(Vec::new(), |_| self.target.kept(epoch, self.keep));
        let (of, own) = (&self.source.manifest, self.target.manifest());
        let mut next = Manifest {
            identity: own.identity,
            parent: Some(of.identity),
            reserved,
            folders: own.folders.clone(),
            // The archive is the source's.
            archived: None,
            lineage: of.lives().until(generation, epoch),
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

    /// Puts what the archive has behind the state (A2): the manifest of the database at the epoch that was asked for.
    fn bring_forward(
        &mut self,
        next: Manifest,
        verifier: &dyn Recoverable,
        spend: &mut SpendPiece<'_>,
    ) -> Result<Manifest, DurabilityError> {
        // Of what did not end together the verification says why.
        let Some((archive, ended)) = self.archive.as_ref().zip(self.ended.as_ref()) else { return Ok(next) };
        let disk = &self.target.store.disk;
        let tally = &mut self.tally;
        let mut took = |piece| {
            tally.took(&piece);
            spend(&tally.progress(), piece.bytes())
        };
        let (next, taken) = archive.beside(disk, (next, ended.shown), verifier, &mut took)?;
        let taken = taken.map(|taken| TakenBehind { entries: taken.entries, bytes: taken.bytes });
        self.taken = taken.unwrap_or_default();
        Ok(next)
    }

    /// The source's generations, the open one closed at S, and one without a log behind it. Each says which files of
    /// its logs were copied (N21).
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
        let copied = self.copied()?;
        generations.iter_mut().for_each(|generation| generation.spans = spans_of(generation, &copied));
        Ok(generations)
    }

    /// The files of the state, as the copy calls them, and their bytes.
    fn copied(&self) -> Result<Vec<(String, u64)>, DurabilityError> {
        let disk = self.target.disk();
        let mut copied = Vec::new();
        for (name, _) in &self.source.files {
            let name = copied_name(name);
            match disk.open_to_read(&name).and_then(|file| file.len()) {
                Ok(length) => copied.push((name, length)),
                // The logs end before it.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(failed(disk, error)),
            }
        }
        Ok(copied)
    }

    /// Of a log first the headers are read, which show where it ends, and then its entries.
    fn bytes_to_verify(&self) -> Result<u64, DurabilityError> {
        let times = |name: &str| if SegmentFile::at(name).is_some() { 2 } else { 1 };
        let copied: u64 = self.copied()?.iter().map(|(name, bytes)| times(name) * bytes).sum();
        let picture = self.target.picture().map_or(0, |picture| picture.bytes);
        Ok(picture + copied + 2 * self.taken.bytes)
    }

    /// All of the copy was read as an open would read it. If it is whole it counts from here on.
    fn install(&mut self, found: &Examination, next: Manifest) -> Result<CopyReport, DurabilityError> {
        if !found.is_whole() {
            let detail = found
                .damage
                .first()
                .map_or("what was copied cannot be read".to_owned(), |damage| self.said_of(damage));
            return Err(failed(self.target.disk(), detail));
        }
        let epoch = found.durable_epoch.unwrap_or_default();
        // What shows it may be the source's hint, which a copy does not have.
        if self.ended.is_none() {
            let short = self.short.as_ref();
            let ends = short.iter().flat_map(|short| &short.ends);
            let ends = ends.map(|(file, end)| format!("{file} at byte {end}")).collect::<Vec<_>>();
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
            return Err(failed(self.target.disk(), detail));
        }
        self.check_follows(epoch)?;
        let made_from = match self.purpose {
            Purpose::Backup { .. } => next.made_from,
            Purpose::Restore { .. } => Some(MadeFrom::Restored { epoch }),
        };
        let epochs: Vec<Epoch> =
            std::iter::once(epoch).chain(next.kept.iter().map(KeptState::epoch)).collect();
        let dropped = self.target.dropped(&epochs);
        let copied: u64 = self.copied()?.iter().map(|(_, bytes)| bytes).sum();
        let kept = next.kept.clone();
        self.target.replace(Manifest { made_from, ..next })?;
        let mut of_picture = CopiedPicture::default();
        if let FilesTarget::Pictured(pictured) = &mut self.target {
            let (pages, closed) = &mut **pictured;
            let PictureCheckpoint { pages: all, bytes, .. } = closed.picture;
            of_picture = CopiedPicture { pages: all, pages_written: pages.pages_written, bytes };
            pages.installed(closed, &kept);
        }
        // It counts already. What stays longer than it has to is removed by the next run.
        let _ = self.target.remove_unnamed();
        self.tally.end();
        Ok(CopyReport {
            database: self.target.manifest().identity.to_string(),
            parent: self.source.manifest.identity.to_string(),
            epoch,
            entries: found.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.entries),
            pages: of_picture.pages,
            pages_written: of_picture.pages_written,
            bytes: of_picture.bytes + copied + self.taken.bytes,
            bytes_written: self.tally.progress().bytes_written,
            log_entries: self.taken.entries,
            overruns: self.tally.progress().overruns,
            kept: epochs,
            dropped,
            durable: Epoch::ZERO,
            not_proven: None,
        })
    }

    /// A state is not replaced by an earlier one.
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

    /// What is wrong with the copy, and what helps if it was there before.
    fn said_of(&self, damage: &Damage) -> String {
        let Damage { file, offset, detail, .. } = damage;
        let what = format!("{file} is damaged at byte {offset}: {detail}");
        let known = match (SegmentFile::at(file), PartName::at(file)) {
            (Some(log), _) => self.known_file((log, *offset)),
            (_, Some(part)) => self.known.has_part(part, &self.source.manifest).then(|| file.clone()),
            _ => None,
        };
        known.map_or(what.clone(), |known| {
            let helps = helps(&known);
            format!("{what}; the backup had it before: {helps}")
        })
    }

    /// The file of the target in which this place of a log is, if it was there before. Where a log begins too late, it
    /// is the first one, whose beginning is damaged.
    fn known_file(&self, (file, offset): LogPlace) -> Option<String> {
        let logs = self.source.files.iter().filter_map(|(name, _)| SegmentFile::at(name));
        let of_log = |other: &SegmentFile| {
            (other.name.generation, other.name.logger) == (file.name.generation, file.name.logger)
        };
        let first = logs.filter(of_log).map(SegmentFile::archived).min_by_key(|file| file.name)?;
        let place = if file.name < first.name { (first, 0) } else { (file, offset) };
        self.is_there(place).then(|| place.0.to_string())
    }
}

/// What helps where this file of the backup is damaged.
fn helps(file: &str) -> String {
    format!(
        "remove {file} from the backup and back up again, which copies it anew if the database still has it, or give an \
         empty folder"
    )
}

/// Which of these files the logs of a generation have. None if a log is missing as a whole, which is damage: the
/// verification says so.
fn spans_of(generation: &Generation, copied: &[(String, u64)]) -> Vec<LogSpan> {
    let mut spans = vec![None::<LogSpan>; generation.logs as usize];
    for (file, bytes) in copied {
        let Some(SegmentFile { name, .. }) = SegmentFile::at(file) else { continue };
        let span = spans.get_mut(name.logger as usize).filter(|_| name.generation == generation.number);
        let Some(span) = span else { continue };
        let SegmentName { number, .. } = name;
        let own = LogSpan { first: number, last: number, bytes: *bytes };
        let known = span.unwrap_or(own);
        let last = if number > known.last { own } else { known };
        *span = Some(LogSpan { first: known.first.min(number), ..last });
    }
    spans.into_iter().collect::<Option<_>>().unwrap_or_default()
}

/// Ends the copy of a log file here.
fn cut(disk: &dyn Disk, name: &str, end: u64) -> Result<(), DiskError> {
    let file = disk.open(name)?;
    if file.len()? > end {
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok(())
}

/// How many of the first bytes are to be written: those behind are zeros, but for the end of a page.
fn used_bytes(bytes: &[u8]) -> usize {
    const PAGE_BYTES: usize = 4096;
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    used.next_multiple_of(PAGE_BYTES).min(bytes.len())
}

/// Writes the next bytes of a file that is being copied, which is made with the first ones.
fn write(
    disk: &dyn Disk,
    (name, opened): (&str, Option<Box<dyn DiskFile>>),
    bytes: &[u8],
    offset: u64,
) -> Result<Box<dyn DiskFile>, DiskError> {
    let open = || if offset == 0 { disk.create(name) } else { disk.open(name) };
    let to = opened.map_or_else(open, Ok)?;
    write_copied(&*to, bytes, offset)?;
    Ok(to)
}
