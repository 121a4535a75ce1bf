//! Copies a database without a picture: its files, log included, into an empty folder.
//!
//! ```text
//! Copying: each file, synced --> Ending: its logs end --> its folders --> Verifying: all of it is read --> the manifest
//!             ^                      together        |
//!             +----- a log is whole for less than S -+
//! ```
//! Loggers go on meanwhile. The copy has the state of S: the largest D that its logs show as they were read first.
//!
//! Invariants:
//! - N20: a log that is whole for less than S is read again from its end on. Then each is cut at S.
//! - I1: the copy has an identity of its own from the beginning; its files go on naming the database that was copied,
//!   and the manifest says so.
//! - N12: the manifest comes last, behind a look at all that it lists, as an open would read it. So a run that is
//!   killed or cancelled leaves a folder in which nothing counts.
//! - L6: what was reserved beside the copy is reserved in it, as its log may show that.
//!
//! Neighbours: [`super::source`] has the files open, [`super::target`] the folder; an examination verifies, by the
//! manifest that the folder is to have.

use std::collections::VecDeque;
use std::sync::Arc;

use ensile_base::limits::LEASE_SECONDS_MAX;
use ensile_disk::{Disk, DiskError, DiskFile};

use super::source::{FilesSource, Purpose};
use super::tally::CopyTally;
use super::target::{TargetFolder, failed};
use super::{CopyPhase, CopyReport, HAS_ENDED};
use crate::recovery::copied::{self, CopiedLogs, LogPlace, ShortLogs};
use crate::recovery::examine::{Examination, Judge};
use crate::store::MadeFrom;
use crate::store::manifest::{Making, Manifest};
use crate::store::names::{FOLDER, HINT, MAIN, MANIFEST, SegmentFile, checkpointer_of, logger_of};
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

/// A copy under way.
#[derive(Debug)]
pub(super) struct FilesCopy {
    purpose: Purpose,
    source: FilesSource,
    target: TargetFolder,
    /// Files of the source that are to be copied, from these offsets to their ends.
    waiting: VecDeque<(usize, u64)>,
    /// The copy of the first of them.
    file: Option<Box<dyn DiskFile>>,
    bytes: Vec<u8>,
    /// S, and where logs ended at the last look that were whole for less.
    short: Option<ShortLogs>,
    tally: CopyTally,
    stage: FilesStage,
}

impl FilesCopy {
    pub(super) fn begin(
        mut source: FilesSource,
        target: &Arc<dyn Disk>,
        purpose: Purpose,
    ) -> Result<Self, DurabilityError> {
        let mut target = TargetFolder::open(target, (source.manifest.identity, purpose))?;
        if target.manifest().state == Making::Created {
            let detail = "the database has no picture, so its files are copied, and those of a backup that is there are \
                          never written over"
                .to_owned();
            return Err(DurabilityError::NotItsBackup { folder: target.disk().folder_place("")?, detail });
        }
        let is_data =
            |name: &str| ![MANIFEST, HINT].contains(&name) && !name.ends_with(&format!("/{FOLDER}"));
        source.files.retain(|(name, _)| is_data(name));
        let of = source.manifest.folders.keys();
        let count = |number: fn(&str) -> Option<u32>| {
            of.clone().filter_map(|folder| number(folder)).max().map_or(0, |last| last as usize + 1)
        };
        target.claim_empty(count(logger_of), count(checkpointer_of))?;
        let mut bytes_total = 0;
        for (_, file) in &source.files {
            bytes_total += file.len()?;
        }
        let mut tally = CopyTally::new();
        tally.begin(CopyPhase::Copying, bytes_total, 0);
        let waiting = (0..source.files.len()).map(|file| (file, 0)).collect();
        let (bytes, stage) = (vec![0; STEP_BYTES], FilesStage::Copying);
        Ok(Self { purpose, source, target, waiting, file: None, bytes, short: None, tally, stage })
    }

    pub(super) fn tally(&self) -> &CopyTally {
        &self.tally
    }

    /// As a copy of pages steps.
    pub(super) fn step(&mut self, verifier: &dyn Recoverable) -> Result<Option<CopyReport>, DurabilityError> {
        match std::mem::replace(&mut self.stage, FilesStage::Ended) {
            FilesStage::Copying => self.copy()?,
            FilesStage::Ending => self.end_logs()?,
            FilesStage::Listing => {
                let next = self.list()?;
                self.tally.begin(CopyPhase::Verifying, self.bytes_to_verify()?, 0);
                let judge = Judge::of_next(&self.target.store.disk, &next);
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
        let Some((file, offset)) = self.waiting.front_mut() else {
            self.stage = FilesStage::Ending;
            return Ok(());
        };
        let (name, from) = &self.source.files[*file];
        let read = from.read_at(&mut self.bytes, *offset)?;
        let (disk, opened) = (self.target.disk(), self.file.take());
        let to = write(disk, (name, opened), &self.bytes[..read], *offset);
        let to = to.map_err(|error| failed(disk, error))?;
        if read == 0 {
            self.waiting.pop_front();
        } else {
            *offset += read as u64;
            self.file = Some(to);
        }
        self.tally.copied(read as u64, 0);
        self.tally.wrote(read as u64);
        self.stage = FilesStage::Copying;
        Ok(())
    }

    /// Makes the logs end together (N20), or has what is missing of them copied.
    fn end_logs(&mut self) -> Result<(), DurabilityError> {
        let disk = self.target.disk();
        let (manifest, logs) = (&self.source.manifest, self.source.logs());
        let looked = copied::look(disk, (manifest, self.source.hinted), &logs, self.short.as_ref());
        self.stage = FilesStage::Listing;
        match looked {
            Ok(CopiedLogs::Whole { cuts, beyond }) => {
                let ended = cuts.iter().try_for_each(|(file, end)| cut(disk, &file.to_string(), *end));
                let removed = || beyond.iter().try_for_each(|file| disk.remove(&file.to_string()));
                ended.and_then(|()| removed()).map_err(|error| failed(disk, error))
            }
            Ok(CopiedLogs::Short(short)) => {
                let is_stuck = self.short.as_ref().is_some_and(|before| before.ends == short.ends);
                if !is_stuck {
                    self.copy_behind(&short.ends)?;
                    (self.short, self.stage) = (Some(short), FilesStage::Copying);
                }
                Ok(())
            }
            // The verification says what is damaged.
            Err(DurabilityError::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What these logs have from here on waits to be copied, in files too that they did not have before. Files behind
    /// are opened anew: one that was being prepared has become a log's, or another one has its name.
    fn copy_behind(&mut self, ends: &[LogPlace]) -> Result<(), DurabilityError> {
        assert!(self.waiting.is_empty(), "an index of a file stays what it is while it waits");
        for (file, _) in ends {
            let disk = self.target.disk();
            for later in self.source.drop_behind(file.name) {
                disk.remove(&later).map_err(|error| failed(disk, error))?;
            }
        }
        for (file, end) in ends {
            let is_it = |(name, _): &(String, _)| *name == file.to_string();
            let at = self.source.files.iter().position(is_it).expect("the copy of an opened file ends");
            self.waiting.push_back((at, *end));
            let known = self.source.files.len();
            self.source.go_on(file.name)?;
            if self.source.lacks_next(file.name) {
                let detail = format!(
                    "log files behind {file} were removed while they were copied: a database keeps them for a reader \
                     for {LEASE_SECONDS_MAX} s beyond their time; copy faster"
                );
                return Err(failed(self.target.disk(), detail));
            }
            self.waiting.extend((known..self.source.files.len()).map(|file| (file, 0)));
        }
        Ok(())
    }

    /// Everything is copied: the manifest that is to list it.
    fn list(&mut self) -> Result<Manifest, DurabilityError> {
        for folder in self.target.manifest().folders.keys().filter(|folder| *folder != MAIN) {
            self.target.disk().sync_folder(folder).map_err(|error| failed(self.target.disk(), error))?;
        }
        let reserved = self.source.reserved()?;
        let (of, own) = (&self.source.manifest, self.target.manifest());
        Ok(Manifest {
            identity: own.identity,
            parent: Some(of.identity),
            reserved,
            folders: own.folders.clone(),
            made_from: Some(MadeFrom::Backup { of: of.identity }),
            ..of.clone()
        })
    }

    /// Of a log first the headers are read, which show where it ends, and then its entries.
    fn bytes_to_verify(&self) -> Result<u64, DurabilityError> {
        let mut bytes = 0;
        for (name, _) in &self.source.files {
            let length = self.target.disk().open_to_read(name).and_then(|file| file.len());
            match length {
                Ok(length) if SegmentFile::at(name).is_some() => bytes += 2 * length,
                Ok(length) => bytes += length,
                // The logs end before it.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(failed(self.target.disk(), error)),
            }
        }
        Ok(bytes)
    }

    /// All of the copy was read as an open would read it. If it is whole it counts from here on.
    fn install(&mut self, found: &Examination, next: Manifest) -> Result<CopyReport, DurabilityError> {
        if !found.is_whole() {
            let detail = found.damage.first().map_or("what was copied cannot be read".to_owned(), |damage| {
                format!("{} is damaged at byte {}: {}", damage.file, damage.offset, damage.detail)
            });
            return Err(failed(self.target.disk(), detail));
        }
        let epoch = found.durable_epoch.unwrap_or_default();
        // What shows it may be the source's hint, which a copy does not have.
        if let Some(ShortLogs { shown, ends }) = self.short.as_ref().filter(|short| epoch < short.shown) {
            let ends = ends.iter().map(|(file, end)| format!("{file} at byte {end}")).collect::<Vec<_>>();
            let detail = format!(
                "epoch {shown} was durable, but the log is whole up to epoch {epoch} only: it ends in {}; see what \
                 `ensile verify` says of the database",
                ends.join(", in ")
            );
            return Err(failed(self.target.disk(), detail));
        }
        let made_from = match self.purpose {
            Purpose::Backup => next.made_from,
            Purpose::Restore { .. } => Some(MadeFrom::Restored { epoch }),
        };
        self.target.replace(Manifest { made_from, ..next })?;
        self.tally.end();
        let bytes = self.tally.progress().bytes_written;
        Ok(CopyReport {
            database: self.target.manifest().identity.to_string(),
            parent: self.source.manifest.identity.to_string(),
            epoch,
            entries: found.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.entries),
            pages: 0,
            pages_written: 0,
            bytes,
            bytes_written: bytes,
            log_entries: 0,
            overruns: 0,
            kept: Vec::new(),
        })
    }
}

/// Ends the copy of a log file here.
fn cut(disk: &dyn Disk, name: &str, end: u64) -> Result<(), DiskError> {
    let file = disk.open(name)?;
    file.set_len(end)?;
    file.sync_all()
}

/// Writes the next bytes of a file that is being copied, and syncs it where there are none.
fn write(
    disk: &dyn Disk,
    (name, opened): (&str, Option<Box<dyn DiskFile>>),
    bytes: &[u8],
    offset: u64,
) -> Result<Box<dyn DiskFile>, DiskError> {
    let open = || if offset == 0 { disk.create(name) } else { disk.open(name) };
    let to = opened.map_or_else(open, Ok)?;
    if bytes.is_empty() {
        to.sync_all()?;
    } else {
        to.write_at(bytes, offset)?;
    }
    Ok(to)
}
