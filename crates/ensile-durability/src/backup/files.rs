//! Copies a database without a picture: its files, log included, into an empty folder.
//!
//! ```text
//! Copying: each file, synced --> Ending: its logs end --> its folders, the manifest --> Verifying: all of it is read
//!             ^                      together        |
//!             +----- a log is whole for less than S -+
//! ```
//! Loggers go on meanwhile. The copy has the state of S: the largest D that its logs show as they were read first.
//!
//! Invariants:
//! - N20: a log that is whole for less than S is read again from its end on. Then each is cut at S.
//! - I1: the copy has an identity of its own from the beginning; its files go on naming the database that was copied,
//!   and the manifest says so.
//! - The manifest comes behind all that it lists, which is read then as an open would. If that is not whole, the folder
//!   is what it was before: a database that is being made. A run that is killed between the two leaves a backup that
//!   nobody has read yet.
//! - L6: what was reserved beside the copy is reserved in it, as its log may show that.
//!
//! Neighbours: [`super::source`] has the files open, [`super::target`] the folder; an examination verifies.

use std::collections::VecDeque;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError, DiskFile};

use super::source::{FilesSource, Purpose};
use super::target::{TargetFolder, failed};
use super::{CopyPhase, CopyProgress, CopyReport};
use crate::recovery::copied::{self, CopiedLogs, LogPlace};
use crate::recovery::examine::examine_locked;
use crate::store::MadeFrom;
use crate::store::manifest::{Making, Manifest};
use crate::store::names::{FOLDER, HINT, MAIN, MANIFEST, checkpointer_of, logger_of};
use crate::{DurabilityError, Recoverable};

/// Bytes that are copied in one step.
const STEP_BYTES: usize = 1 << 20;

#[derive(Debug)]
enum FilesStage {
    Copying,
    Ending,
    Listing,
    Verifying,
    Ended,
}

/// A copy under way.
#[derive(Debug)]
pub(super) struct FilesCopy {
    purpose: Purpose,
    source: FilesSource,
    target: TargetFolder,
    /// The folder's manifest before anything of the copy counts.
    creating: Manifest,
    /// Files of the source that are to be copied, from these offsets to their ends.
    waiting: VecDeque<(usize, u64)>,
    /// The copy of the first of them.
    file: Option<Box<dyn DiskFile>>,
    bytes: Vec<u8>,
    /// S, and the logs that were whole for less at the last look.
    short: Option<(Epoch, Vec<LogPlace>)>,
    progress: CopyProgress,
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
        let progress = CopyProgress {
            phase: CopyPhase::Copying,
            bytes: 0,
            bytes_total,
            pages: 0,
            pages_total: 0,
            bytes_written: 0,
        };
        let creating = target.manifest().clone();
        let waiting = (0..source.files.len()).map(|file| (file, 0)).collect();
        let (bytes, stage) = (vec![0; STEP_BYTES], FilesStage::Copying);
        Ok(Self {
            purpose,
            source,
            target,
            creating,
            waiting,
            file: None,
            bytes,
            short: None,
            progress,
            stage,
        })
    }

    pub(super) fn progress(&self) -> CopyProgress {
        self.progress
    }

    /// As a copy of pages steps.
    pub(super) fn step(
        &mut self,
        verifier: &dyn Recoverable,
    ) -> Result<(u64, Option<CopyReport>), DurabilityError> {
        match std::mem::replace(&mut self.stage, FilesStage::Ended) {
            FilesStage::Copying => self.copy().map(|bytes| (bytes, None)),
            FilesStage::Ending => self.end_logs().map(|()| (0, None)),
            FilesStage::Listing => {
                self.list()?;
                let (phase, bytes_total) = (CopyPhase::Verifying, self.progress.bytes_written);
                self.progress = CopyProgress { phase, bytes: 0, bytes_total, ..self.progress };
                self.stage = FilesStage::Verifying;
                Ok((0, None))
            }
            FilesStage::Verifying => self.verify(verifier).map(|report| (self.progress.bytes, Some(report))),
            FilesStage::Ended => Err(DurabilityError::config("the copy has ended: begin another one")),
        }
    }

    /// Copies the next bytes of a file.
    fn copy(&mut self) -> Result<u64, DurabilityError> {
        let Some((file, offset)) = self.waiting.front_mut() else {
            self.stage = FilesStage::Ending;
            return Ok(0);
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
        self.progress.bytes += read as u64;
        self.progress.bytes_total = self.progress.bytes_total.max(self.progress.bytes);
        self.progress.bytes_written += read as u64;
        self.stage = FilesStage::Copying;
        Ok(read as u64)
    }

    /// Makes the logs end together (N20), or has what is missing of them copied.
    fn end_logs(&mut self) -> Result<(), DurabilityError> {
        let shown = self.short.as_ref().map(|(shown, _)| *shown);
        let disk = self.target.disk();
        let looked = copied::look(disk, &self.source.manifest, &self.source.logs(), shown);
        self.stage = FilesStage::Listing;
        match looked {
            Ok(CopiedLogs::Whole { cuts, beyond }) => {
                let ended = cuts.iter().try_for_each(|(file, end)| cut(disk, &file.to_string(), *end));
                let removed = || beyond.iter().try_for_each(|file| disk.remove(&file.to_string()));
                ended.and_then(|()| removed()).map_err(|error| failed(disk, error))
            }
            Ok(CopiedLogs::Short { shown, ends }) => {
                let is_stuck = self.short.as_ref().is_some_and(|(_, before)| *before == ends);
                if !is_stuck {
                    self.copy_behind(&ends)?;
                    (self.short, self.stage) = (Some((shown, ends)), FilesStage::Copying);
                }
                Ok(())
            }
            // The verification says what is damaged.
            Err(DurabilityError::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What these logs have from here on waits to be copied, in files too that they did not have before.
    fn copy_behind(&mut self, ends: &[LogPlace]) -> Result<(), DurabilityError> {
        for (file, end) in ends {
            let known = self.source.files.len();
            let last = self.source.logs()[&file.name.logger].last().map_or(file.name, |last| last.name);
            self.source.go_on(last)?;
            let is_it = |(name, _): &(String, _)| *name == file.to_string();
            let at = self.source.files.iter().position(is_it).expect("the copy of an opened file ends");
            self.waiting.push_back((at, *end));
            self.waiting.extend((known..self.source.files.len()).map(|file| (file, 0)));
        }
        Ok(())
    }

    /// Everything is copied: the manifest that lists it.
    fn list(&mut self) -> Result<(), DurabilityError> {
        for folder in self.target.manifest().folders.keys().filter(|folder| *folder != MAIN) {
            self.target.disk().sync_folder(folder).map_err(|error| failed(self.target.disk(), error))?;
        }
        let reserved = self.source.reserved()?;
        let (of, own) = (&self.source.manifest, self.target.manifest());
        let next = Manifest {
            identity: own.identity,
            parent: Some(of.identity),
            reserved,
            folders: own.folders.clone(),
            made_from: Some(MadeFrom::Backup { of: of.identity }),
            ..of.clone()
        };
        self.target.replace(next)
    }

    /// Reads all of the copy as an open would. If something is damaged, the folder is what it was.
    fn verify(&mut self, verifier: &dyn Recoverable) -> Result<CopyReport, DurabilityError> {
        let found = examine_locked(&self.target.store.disk, verifier);
        let (found, epoch) = match found {
            Ok((found, _)) if found.is_whole() => {
                let epoch = found.durable_epoch.unwrap_or_default();
                (found, epoch)
            }
            other => {
                let damage = other.map(|(found, _)| found.damage.into_iter().next());
                self.target.replace(self.creating.clone())?;
                let detail = match damage? {
                    Some(damage) => {
                        format!("{} is damaged at byte {}: {}", damage.file, damage.offset, damage.detail)
                    }
                    None => "what was copied cannot be read".to_owned(),
                };
                return Err(failed(self.target.disk(), detail));
            }
        };
        if let Purpose::Restore { .. } = self.purpose {
            let made_from = Some(MadeFrom::Restored { epoch });
            self.target.replace(Manifest { made_from, ..self.target.manifest().clone() })?;
        }
        self.progress =
            CopyProgress { phase: CopyPhase::Ended, bytes: self.progress.bytes_total, ..self.progress };
        Ok(CopyReport {
            database: self.target.manifest().identity.to_string(),
            parent: self.source.manifest.identity.to_string(),
            epoch,
            entries: found.checkpoint.map_or(0, |checkpoint| checkpoint.entries),
            pages: 0,
            pages_written: 0,
            bytes: self.progress.bytes_written,
            bytes_written: self.progress.bytes_written,
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
