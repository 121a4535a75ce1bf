//! Copies a picture, page by page, into the free extents of the target's page file.
//!
//! ```text
//! Copying: each missing page --> Closing: pending removes, directory, root, sync
//!     --> Verifying: read everything --> Installing: entries of an archive, the manifest
//!     --> if the log behind the picture is copied: Closed, and [`super::files`] continues
//! ```
//! A page of the target stays if its number, checkpoint and payload checksum are equal to those of the source's page.
//!
//! Invariants: N12 and N16, see [`super`].
//!
//! Neighbours: [`super::source`] has the picture, [`super::target`] the file and the manifest; `files::picture` writes
//! the blocks, and [`super::check`] reads the written blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::limits::LEASE_SECONDS_MAX;
use ensile_disk::Disk;

use super::check::PictureCheck;
use super::copy_options::CopyOptions;
use super::copy_report::{CopyReport, HAS_ENDED};
use super::known_files::KnownFiles;
use super::source::{FilesSource, Found, PictureSource, Purpose, look};
use super::tally::{CopyTally, SpendPiece};
use super::target::{PageName, Target, TargetPicture, target_error};
use crate::copy_progress::CopyPhase;
use crate::files::block::Header;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::manifest::Manifest;
use crate::files::manifest::backup_states::KeptState;
use crate::files::manifest::installed_checkpoint::{InstalledCheckpoint, PictureCheckpoint};
use crate::files::manifest::origin::MadeFrom;
use crate::files::picture::block_writer::BlockWriter;
use crate::files::picture::blocks::encode_block;
use crate::files::picture::directory::{DirectoryPart, PageDirectory};
use crate::files::picture::file::{HeldExtents, PageFile};
use crate::files::picture::location::{PAYLOAD_BYTES_MAX, PictureStamp};
use crate::files::picture::page::PagePlace;
use crate::files::picture::root::RemovesPlace;
use crate::recovery::archive::ArchiveSource;
use crate::{DurabilityError, Recoverable};

/// Largest number of pages that one step examines if the target has all of them.
const LEFT_PAGES: usize = 256;
/// Number of new starts in a row after which the copy fails, if no start has fewer missing bytes than ever before. Each
/// start takes as long as a lease is kept.
const OVERRUNS_MAX: u32 = 5;

/// Writes blocks of the source's page file into the target's.
#[derive(Debug)]
struct BlockCopier {
    held: HeldExtents,
    block: Vec<u8>,
}

impl BlockCopier {
    /// Writes a block with this header, except for the place in the header. Returns the new place.
    fn write(&mut self, header: Header, payload: &[u8]) -> Result<ExtentPlace, String> {
        let extent = self.held.take(Extent::units_of(payload.len()))?;
        let header = Header { owner: u32::from(extent.folder), first_unit: extent.first, ..header };
        let file = self.held.file();
        let place = encode_block(header, extent, payload, file.manifest_entry().salt, &mut self.block);
        debug_assert!(self.block.len() as u64 <= extent.bytes(), "N12: the block stays within its extent");
        file.write(extent, &mut self.block).map_err(|error| error.to_string())?;
        Ok(place)
    }

    /// Copies the blocks of a page to the disk `target`. Returns the place of the page there.
    fn copy_page(
        &mut self,
        source: &PictureSource,
        page: &PagePlace,
        target: &dyn Disk,
    ) -> Result<PagePlace, DurabilityError> {
        let mut extents: Vec<ExtentPlace> = Vec::with_capacity(page.extents.len());
        source.reader.blocks_of(page, &mut Vec::new(), &mut |header, payload| {
            let previous_crc = extents.last().map_or(0, |before| before.header_crc);
            let written = self.write(Header { previous_crc, ..header }, payload);
            extents.push(written.map_err(|error| target_error(target, error))?);
            Ok(())
        })?;
        assert_eq!(extents.len(), page.extents.len(), "N16: each block of the page is copied");
        Ok(PagePlace { extents: extents.into(), ..page.clone() })
    }
}

/// A picture with all blocks written and synced.
#[derive(Debug)]
pub(super) struct ClosedCopy {
    picture: PictureCheckpoint,
    /// Extents that the root reaches, and the extent of the root.
    reached: BTreeSet<Extent>,
    /// Extents taken for pending removes, directory and root; `None` if the target had the picture before.
    held: Option<HeldExtents>,
}

/// A closed picture in the target's page file, before a manifest names the picture.
#[derive(Debug)]
pub(super) struct UnnamedPicture {
    closed: ClosedCopy,
    /// Extents of the copied pages.
    held: HeldExtents,
    file: Arc<PageFile>,
    /// Pictures of the states that the target has had.
    earlier: Vec<TargetPicture>,
    pub(super) pages_written: u64,
}

impl UnnamedPicture {
    pub(super) fn picture(&self) -> &PictureCheckpoint {
        &self.closed.picture
    }

    /// Keeps the copied extents, and frees the extents that no picture of the manifest reaches any more. Cuts the file
    /// behind the last unit in use. The target's manifest already names the picture and the older states `kept`.
    pub(super) fn commit(self, kept: &[KeptState]) {
        let ClosedCopy { picture, mut reached, held } = self.closed;
        assert!(reached.contains(&picture.root.extent), "N12: the root of the picture stays");
        self.held.keep();
        held.into_iter().for_each(HeldExtents::keep);
        let is_kept = |epoch| kept.iter().filter_map(KeptState::picture).any(|kept| kept.epoch == epoch);
        let earlier = self.earlier.iter();
        let (kept, dropped): (Vec<_>, Vec<_>) = earlier.partition(|known| is_kept(known.picture.epoch));
        reached.extend(kept.iter().flat_map(|known| &known.reached));
        let dropped: BTreeSet<Extent> = dropped.iter().flat_map(|known| &known.reached).copied().collect();
        self.file.give_back(dropped.difference(&reached).copied());
        // The copy counts already, so a failure is ignored. The next run cuts the file.
        let _ = self.file.cut();
    }
}

/// A closed picture, and the log that is copied next.
#[derive(Debug)]
pub(super) struct LoggedPicture {
    pub(super) closed: ClosedCopy,
    pub(super) log: FilesSource,
    /// Archive that brings the state to a later epoch.
    pub(super) archive: Option<ArchiveSource>,
}

/// Result of a step.
#[derive(Debug)]
pub(super) enum PagesStep {
    Worked,
    /// The picture is closed. The copy of the log behind the picture comes next.
    Closed(Box<LoggedPicture>),
    Ended(Box<CopyReport>),
}

/// Stage of a copy of pages: see the diagram of the module.
#[derive(Debug)]
enum PagesStage {
    Copying,
    Closing,
    Verifying(Box<(PictureCheck, ClosedCopy)>),
    Installing(Box<ClosedCopy>),
    Ended,
}

/// A copy of pages in progress.
#[derive(Debug)]
pub(super) struct PagesCopy {
    pub(super) purpose: Purpose,
    pub(super) options: CopyOptions,
    source: PictureSource,
    pub(super) target: Target,
    /// Archive that brings the picture to a later epoch.
    archive: Option<ArchiveSource>,
    copier: BlockCopier,
    /// Pages that this run wrote.
    copied: BTreeMap<PageName, PagePlace>,
    /// Directory part and index of each page, in the order of the pages' places in the source.
    order: Vec<(usize, usize)>,
    /// Index into `order` of the next page.
    next: usize,
    /// Place of each page in the target, by part of the source's directory.
    places: Vec<Vec<Option<PagePlace>>>,
    pub(super) tally: CopyTally,
    pub(super) pages_written: u64,
    /// Bytes of pages that the target lacked at the last plan, and bytes written by then.
    planned: (u64, u64),
    /// Fewest missing bytes of any plan, and number of plans in a row that found no fewer.
    least: (u64, u32),
    stage: PagesStage,
}

impl PagesCopy {
    /// Opens the target, checks that the target may get this picture, and plans the copy.
    pub(super) fn begin(
        source: PictureSource,
        target: &Arc<dyn Disk>,
        archive: Option<ArchiveSource>,
        purpose: Purpose,
        options: CopyOptions,
    ) -> Result<Self, DurabilityError> {
        // The folder of the first log gets the entries of an archive.
        let logs = usize::from(archive.is_some());
        let target = Target::open(target, &source, purpose, logs)?;
        let held = HeldExtents::new(&target.file);
        let mut copy = Self {
            purpose,
            options,
            source,
            target,
            archive,
            copier: BlockCopier { held, block: Vec::new() },
            copied: BTreeMap::new(),
            order: Vec::new(),
            next: 0,
            places: Vec::new(),
            tally: CopyTally::new(),
            pages_written: 0,
            planned: (0, 0),
            least: (u64::MAX, 0),
            stage: PagesStage::Copying,
        };
        copy.plan()?;
        Ok(copy)
    }

    /// Compares all pages of the source's picture with the target.
    fn plan(&mut self) -> Result<(), DurabilityError> {
        let of = &self.source.picture;
        let manifest = self.target.folder.manifest();
        let log = self.source.log.as_ref();
        let not_its = |detail| {
            let folder = self.target.folder.disk().folder_place("")?;
            Err(DurabilityError::NotItsBackup { folder, detail })
        };
        if let Some(detail) = log.and_then(|log| KnownFiles::from_manifest(manifest).why_not(&log.manifest)) {
            return not_its(detail);
        }
        // If the log is copied too, the check above has compared the log with the target's files.
        let files = manifest.newest_state().filter(|newest| newest.files().is_some() && log.is_none());
        let newest = self.target.pictures.first();
        let before = match (files, newest) {
            (Some(files), _) if !may_follow_files(of, &files) => Some(files.epoch()),
            (_, Some(newest)) if !may_follow(of, &self.source.parts, newest) => Some(newest.picture.epoch),
            _ => None,
        };
        if let Some(before) = before {
            let detail = format!(
                "it has the state at epoch {before}, and the database's picture is another one, of epoch {}: is the \
                 database an older copy?",
                of.epoch
            );
            return not_its(detail);
        }
        let parts = &self.source.parts;
        self.places = parts.iter().map(|part| vec![None; part.len()]).collect();
        let at = |part: usize| (0..parts[part].len()).map(move |page| (part, page));
        self.order = (0..parts.len()).flat_map(at).collect();
        self.order.sort_by_key(|(part, page)| parts[*part][*page].extents.first().map(|place| place.extent));
        self.next = 0;
        let bytes_total = parts.iter().flatten().map(PagePlace::bytes).sum();
        let lacks = |page: &&PagePlace| self.there(page).is_none();
        let lacking = parts.iter().flatten().filter(lacks).map(PagePlace::bytes).sum();
        debug_assert!(lacking <= bytes_total, "N16: {lacking} bytes are missing of {bytes_total}");
        self.tally.begin(CopyPhase::Copying, bytes_total, self.order.len() as u64);
        self.stage = PagesStage::Copying;
        self.check_ends(lacking)
    }

    /// The same page in the target; `None` if the target lacks the page.
    fn there(&self, page: &PagePlace) -> Option<&PagePlace> {
        let name = name_of(page);
        let there = self.target.pages.get(&name).or_else(|| self.copied.get(&name));
        there.filter(|there| is_same(there, page))
    }

    /// Notes the bytes that are missing at a start of the copy. Fails if the database changes faster than the run
    /// copies.
    fn check_ends(&mut self, lacking: u64) -> Result<(), DurabilityError> {
        let written = self.tally.progress().bytes_written;
        let (before, written_before) = std::mem::replace(&mut self.planned, (lacking, written));
        debug_assert!(written >= written_before, "N16: written bytes only grow");
        let (least, times) = self.least;
        self.least = if lacking < least { (lacking, 0) } else { (least, times + 1) };
        if self.least.1 < OVERRUNS_MAX {
            return Ok(());
        }
        let copied = written - written_before;
        let changed = (copied + lacking).saturating_sub(before);
        let how = match self.options.bytes_per_second {
            Some(rate) => {
                // `copied` and `changed` are of the same period, and the rate decides its length.
                let wanted = (u128::from(rate) * u128::from(changed)).checked_div(u128::from(copied));
                let about = wanted.map_or_else(String::new, |wanted| format!(", to more than {wanted}"));
                format!("raise its rate of {rate} bytes a second{about}")
            }
            None => "it has no rate: back up to a faster disk, or while less is written".to_owned(),
        };
        let overruns = self.tally.progress().overruns;
        let detail = format!(
            "it began anew {overruns} times, as it took longer than a lease is kept ({LEASE_SECONDS_MAX} s), and the last \
             {OVERRUNS_MAX} times there was no less to copy ({lacking} bytes): {how}"
        );
        Err(DurabilityError::TooSlow { detail: detail.into() })
    }

    pub(super) fn tally(&self) -> &CopyTally {
        &self.tally
    }

    /// Ends the copy after a failure of another part of the run.
    pub(super) fn end(&mut self) {
        self.stage = PagesStage::Ended;
    }

    /// Does a part of the work; the last part returns the report. The entries of an archive are one part, with a call
    /// of `spend` for each piece. `spend` may wait, and an error of `spend` ends the run.
    pub(super) fn step(
        &mut self,
        verifier: &dyn Recoverable,
        spend: &mut SpendPiece<'_>,
    ) -> Result<PagesStep, DurabilityError> {
        match std::mem::replace(&mut self.stage, PagesStage::Ended) {
            PagesStage::Copying => self.copy_pages()?,
            PagesStage::Closing => {
                let Some(closed) = self.close()? else { return Ok(PagesStep::Worked) };
                if let Some(log) = self.source.take_log() {
                    // The verification of the log reads the picture too.
                    let archive = self.archive.take();
                    return Ok(PagesStep::Closed(Box::new(LoggedPicture { closed, log, archive })));
                }
                let check = PictureCheck::begin(self.target.folder.disk(), &closed.picture);
                let check = check.map_err(|error| target_error(self.target.folder.disk(), error))?;
                self.tally.begin(CopyPhase::Verifying, closed.picture.bytes, closed.picture.pages);
                self.stage = PagesStage::Verifying(Box::new((check, closed)));
            }
            PagesStage::Verifying(mut verifying) => {
                let (check, _) = &mut *verifying;
                let more = check.step(verifier);
                let more = more.map_err(|error| target_error(self.target.folder.disk(), error))?;
                let so_far = self.tally.progress();
                self.tally.add_verified(check.bytes - so_far.bytes, check.pages - so_far.pages);
                self.stage = match more {
                    true => PagesStage::Verifying(verifying),
                    false => PagesStage::Installing(Box::new(verifying.1)),
                };
            }
            PagesStage::Installing(closed) => {
                let report = self.install(*closed, verifier, spend)?;
                return Ok(PagesStep::Ended(Box::new(report)));
            }
            PagesStage::Ended => return Err(DurabilityError::config(HAS_ENDED)),
        }
        Ok(PagesStep::Worked)
    }

    /// Copies the next missing page.
    fn copy_pages(&mut self) -> Result<(), DurabilityError> {
        let before = self.pages_written;
        for _ in 0..LEFT_PAGES {
            let Some(&(part, at)) = self.order.get(self.next) else {
                self.stage = PagesStage::Closing;
                return Ok(());
            };
            let page = &self.source.parts[part][at];
            let place = match self.there(page) {
                Some(there) => there.clone(),
                None => match self.copier.copy_page(&self.source, page, self.target.folder.disk()) {
                    Ok(copied) => {
                        self.tally.wrote(copied.bytes());
                        self.pages_written += 1;
                        self.copied.insert(name_of(page), copied.clone());
                        copied
                    }
                    Err(error) => return self.look_again(error),
                },
            };
            self.tally.add_copied(page.bytes(), 1);
            self.next += 1;
            let placed = self.places[part][at].replace(place);
            debug_assert!(placed.is_none(), "N16: page {at} of part {part} is placed once");
            if self.pages_written > before {
                break;
            }
        }
        self.stage = PagesStage::Copying;
        Ok(())
    }

    /// Handles a block of the source that does not match its place. If another picture is installed by now, without
    /// this block, the lease was overrun, and the copy continues from the new picture. Otherwise the block is damaged
    /// (N16).
    fn look_again(&mut self, error: DurabilityError) -> Result<(), DurabilityError> {
        let DurabilityError::Damaged { file, offset, .. } = &error else { return Err(error) };
        if !matches!(self.purpose, Purpose::Backup { .. }) {
            return Err(error);
        }
        let before = self.source.places_at(file, *offset);
        let looked = look(&self.source.disk, self.purpose)?;
        let Found::Picture(found) = looked.copied else { return Err(error) };
        found.check_follows(&self.source)?;
        // Extents of the installed picture are never overwritten, so a wrong block there is damage.
        let now = found.places_at(file, *offset);
        if found.picture == self.source.picture || before.iter().any(|place| now.contains(place)) {
            return Err(error);
        }
        self.source = *found;
        self.tally.overran();
        self.plan()
    }

    /// Writes the pending removes, the directory and the root, and syncs the file. `None` if the copy began anew.
    fn close(&mut self) -> Result<Option<ClosedCopy>, DurabilityError> {
        let of = &self.source.picture;
        let newest = self.target.pictures.first();
        if let Some(newest) = newest.filter(|newest| newest.picture.epoch == of.epoch) {
            let (picture, reached) = (newest.picture.clone(), newest.reached.clone());
            return Ok(Some(ClosedCopy { picture, reached, held: None }));
        }
        let stamp = PictureStamp { checkpoint: of.number, generation: of.generation, epoch: of.epoch };
        let mut writer = BlockWriter::new(&self.target.file, stamp);
        let removes = match self.copy_removes(&mut writer) {
            Ok(removes) => removes,
            Err(error) => return self.look_again(error).map(|()| None),
        };
        let known = newest.into_iter().flat_map(|newest| &newest.parts);
        let known: BTreeMap<_, _> = known.map(|part| (&part.pages[0].bound, part)).collect();
        let mut directory = PageDirectory::default();
        for part in std::mem::take(&mut self.places) {
            let pages: Vec<PagePlace> = part.into_iter().map(|page| page.expect("each is there")).collect();
            let same = known.get(&pages[0].bound).filter(|known| known.pages == pages);
            let place = same.and_then(|same| same.place.clone());
            directory.parts.push(DirectoryPart { pages, place });
        }
        let target_failed = |error: String| target_error(self.target.folder.disk(), error);
        let root =
            writer.write_directory(&mut directory, removes.clone(), Vec::new()).map_err(target_failed)?;
        writer.sync().map_err(target_failed)?;
        self.tally.wrote(writer.bytes());
        let places = directory.parts.iter().map(|part| part.place.as_ref().expect("it was written"));
        let places: Vec<_> = places.collect();
        let bytes: u64 = places.iter().map(|place| place.bytes + place.place.extent.bytes()).sum();
        let removes_bytes: u64 = removes.iter().map(|block| block.place.extent.bytes()).sum();
        let pages = directory.pages().flat_map(|page| page.extents.iter().map(|place| place.extent));
        let mut reached: BTreeSet<Extent> = pages.collect();
        reached.extend(places.iter().map(|place| place.place.extent));
        reached.extend(removes.iter().map(|block| block.place.extent).chain([root.extent]));
        let bytes = bytes + removes_bytes + root.extent.bytes();
        let picture = self.target.picture(PictureCheckpoint { root, bytes, ..of.clone() });
        assert!(picture.is_whole(), "N12: {picture:?}");
        debug_assert_eq!(
            reached.iter().map(|extent| extent.bytes()).sum::<u64>(),
            picture.bytes,
            "N12: the root reaches the bytes of the picture"
        );
        // Frees extents of pages that only an earlier root reached.
        self.copier.held.keep_only(&reached);
        Ok(Some(ClosedCopy { picture, reached, held: Some(writer.into_held()) }))
    }

    /// Gathers the pending removes into blocks of their own, the tails of pages included. Tails are many and short. A
    /// page that the target has is not written again, so a tail cannot be written with its page.
    fn copy_removes(&self, writer: &mut BlockWriter) -> Result<Vec<RemovesPlace>, DurabilityError> {
        let (reader, mut block) = (&self.source.reader, Vec::new());
        let target_failed = |error: String| target_error(self.target.folder.disk(), error);
        let mut places = Vec::new();
        // A gathered block has the number of its first source block, so numbers stay unique.
        let (mut number, mut entries, mut gathered) = (0, 0, Vec::new());
        for index in 0..reader.root().removes_block_count() {
            reader.removes_block(index, &mut block, &mut |header, payload| {
                if entries > 0 && gathered.len() + payload.len() > PAYLOAD_BYTES_MAX {
                    places.push(writer.write_removes(number, entries, &gathered).map_err(target_failed)?);
                    (entries, gathered) = (0, Vec::new());
                }
                if entries == 0 {
                    number = header.sequence;
                }
                entries += header.entries;
                gathered.extend_from_slice(payload);
                Ok(())
            })?;
        }
        if entries > 0 {
            places.push(writer.write_removes(number, entries, &gathered).map_err(target_failed)?);
        }
        places.sort_unstable_by_key(|block| block.number);
        Ok(places)
    }

    /// Names the picture in the target's manifest. From then on the copy counts.
    fn install(
        &mut self,
        closed: ClosedCopy,
        verifier: &dyn Recoverable,
        spend: &mut SpendPiece<'_>,
    ) -> Result<CopyReport, DurabilityError> {
        let picture = closed.picture.clone();
        let kept = self.target.folder.states_to_keep(picture.epoch, self.options.keep);
        let epochs: Vec<Epoch> =
            std::iter::once(picture.epoch).chain(kept.iter().map(KeptState::epoch)).collect();
        let dropped = self.target.folder.epochs_to_drop(&epochs);
        let next = self.target.next_manifest(picture.clone(), kept.clone(), &self.source, self.purpose);
        let (mut epoch, mut log_entries, mut log_bytes) = (picture.epoch, 0, 0);
        let next = match &self.archive {
            Some(archive) => {
                let disk = &self.target.folder.store.disk;
                let tally = &mut self.tally;
                let mut took = |piece| {
                    tally.took(&piece);
                    spend(&tally.progress(), piece.bytes())
                };
                let (next, taken) =
                    archive.write_log_after(disk, next, picture.epoch, verifier, &mut took)?;
                (log_entries, log_bytes) = taken.map_or((0, 0), |taken| (taken.entries, taken.bytes));
                epoch = archive.target_epoch();
                Manifest { made_from: Some(MadeFrom::Restored { epoch }), ..next }
            }
            None => next,
        };
        let unnamed = self.take_picture(closed);
        self.target.folder.replace(next)?;
        unnamed.commit(&kept);
        // The copy counts already, so a failure is ignored. The next run removes the remaining files.
        let _ = self.target.folder.remove_unnamed();
        self.tally.end();
        Ok(CopyReport {
            database: self.target.folder.manifest().identity.to_string(),
            parent: self.source.manifest.identity.to_string(),
            epoch,
            entries: picture.entries,
            pages: picture.pages,
            pages_written: self.pages_written,
            bytes: picture.bytes + log_bytes,
            bytes_written: self.tally.progress().bytes_written,
            log_entries,
            overruns: self.tally.progress().overruns,
            kept: epochs,
            dropped,
            durable: Epoch::ZERO,
            not_proven: None,
        })
    }

    /// Takes the closed picture out of the copy, which copies no more pages.
    pub(super) fn take_picture(&mut self, closed: ClosedCopy) -> UnnamedPicture {
        let file = Arc::clone(&self.target.file);
        let held = std::mem::replace(&mut self.copier.held, HeldExtents::new(&file));
        let earlier = std::mem::take(&mut self.target.pictures);
        UnnamedPicture { closed, held, file, earlier, pages_written: self.pages_written }
    }
}

/// Unique name of a page among all pages that a database ever writes.
fn name_of(page: &PagePlace) -> PageName {
    (page.number, page.checkpoint)
}

/// True if both pages have the same contents.
fn is_same(there: &PagePlace, page: &PagePlace) -> bool {
    let of =
        |page: &PagePlace| (page.number, page.checkpoint, page.payload_crc, page.entries, page.extents.len());
    of(there) == of(page) && there.bound == page.bound
}

impl PictureSource {
    /// Blocks of the picture's pages at this offset of this file: one or none.
    fn places_at(&self, file: &str, offset: u64) -> Vec<ExtentPlace> {
        let mut files = self.picture.files.iter().map(|listed| listed.name);
        let folder = files.find(|name| name.to_string() == file).map(|name| name.folder);
        let is_it = |place: &&ExtentPlace| {
            Some(u32::from(place.extent.folder)) == folder && place.extent.offset() == offset
        };
        let places = self.parts.iter().flatten().flat_map(|page| page.extents.iter());
        places.filter(is_it).copied().collect()
    }
}

/// True if the picture may come after these files in the same history.
fn may_follow_files(of: &PictureCheckpoint, files: &KeptState) -> bool {
    let before = files.files().and_then(|state| state.checkpoint.as_ref());
    let number = before.map_or(0, InstalledCheckpoint::number);
    of.epoch >= files.epoch() && of.number > number
}

/// True if the picture `of` with the pages in `parts` is the newest picture of the target, or may come later in the
/// same history.
fn may_follow(of: &PictureCheckpoint, parts: &[Vec<PagePlace>], newest: &TargetPicture) -> bool {
    let before = &newest.picture;
    if of.epoch != before.epoch {
        let is_newer = of.epoch > before.epoch && of.number > before.number;
        return is_newer && of.generation >= before.generation;
    }
    let there = newest.parts.iter().flat_map(|part| &part.pages);
    let is_of_it = (of.number, of.generation, of.entries, of.pages)
        == (before.number, before.generation, before.entries, before.pages);
    is_of_it && parts.iter().flatten().zip(there).all(|(page, there)| is_same(there, page))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
