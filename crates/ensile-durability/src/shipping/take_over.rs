//! A take-over from a shared store: bring the newest state into an empty folder, and claim the store.
//!
//! ```text
//! newest manifest --> fetch and compare files --> read all files --> claim --> write the folder's manifest
//!                         ^                                           | |            ^
//!                         '----- lost, same term: fetch new files ----' |            |
//!                                                 won with unread files '-> read all-'
//! ```
//! Invariants:
//! - H6: the claim is the next manifest, with the next term, a new identity and the same files. A busy shipper cannot
//!   prevent the claim: after one complete reading of a state, each round fetches at most half the bytes of the round
//!   before, or the claim goes first.
//! - H7: the folder becomes a database only after the claim, and after a complete reading of the claimed state. A
//!   killed run is run again, and goes on from its claim: the folder has the identity of the claim.
//! - I1: at the begin, the folder is empty, or was left by a killed run.
//!
//! Neighbours: the engine and the objects call; `chain` installs the claim; `backup` has the target folder; an
//! examination reads the fetched files.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c_append;
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_disk::{Disk, DiskFile};

use super::chain::{self, Installed, damaged_object_error, unusable};
use super::shared_store::SharedStore;
use crate::backup::TargetFolder;
use crate::control::pace::WritePace;
use crate::files::block::origin::write_copied;
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::files::manifest::origin::MadeFrom;
use crate::files::manifest::{Making, Manifest};
use crate::files::names::{MAIN, checkpointer_of, logger_of};
use crate::files::shared_manifest::{SharedFile, SharedManifest, SharedPiece};
use crate::number;
use crate::recovery::examination::Judge;
use crate::{DurabilityError, EntryKind, Recoverable};

/// Largest number of bytes that one step fetches.
const STEP_BYTES: usize = 1 << 20;
/// Largest number of newer manifests of the old shipper that a take-over follows.
const ROUNDS_MAX: u32 = 1000;

/// Result of a take-over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakeOverReport {
    /// Identity of the database in the folder, 32 hex digits.
    pub database: String,
    /// Identity of the parent: the database that was taken over from. The parent ships no more.
    pub parent: String,
    /// Number of the new term.
    pub term: u64,
    /// Number of the manifest that claims the new term.
    pub manifest: u64,
    /// Epoch at whose end the state stands. The state is complete up to this epoch. The parent's commits of later
    /// epochs are missing.
    pub epoch: Epoch,
    /// Epoch above which the database that shipped this state had no durable entry when the state was shipped. Later
    /// epochs may have become durable since. An epoch above `epoch` means that durable commits may be lost. `None` if
    /// an older version of Ensile shipped the state without this epoch.
    pub durable: Option<Epoch>,
    /// Kind of the entries: values of a database, or operations of objects.
    pub entries: EntryKind,
    /// Name of the application (I5) when the state was shipped; `None` without a name. A name given to the shipper's
    /// folder later is missing.
    pub application: Option<Box<str>>,
    /// Number of files of the state.
    pub files: u64,
    /// Number of fetched bytes.
    pub bytes: u64,
}

/// Outcome of a step, with the time of the next useful step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOverStep {
    /// The step did some work. Step again.
    Worked,
    /// The rate is used up. Step again after this time.
    Paced(Duration),
    /// The take-over has ended: the folder is a database, and the store belongs to the database.
    Ended(TakeOverReport),
}

/// A file of the manifest's state, and its counted length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedFile {
    shared: SharedFile,
    /// Number of bytes of the file that count: a cut log ends here.
    until: u64,
}

/// A file that is being fetched.
#[derive(Debug)]
struct FileFetch {
    name: String,
    wanted: WantedFile,
    file: Box<dyn DiskFile>,
    /// Objects that are not fetched completely. The next bytes come from the first object.
    pieces: VecDeque<SharedPiece>,
    offset: u64,
    crc: u32,
}

/// Stage of a take-over: see the diagram of the module.
#[derive(Debug)]
enum TakeOverStage {
    Fetching,
    Verifying(Box<Judge>),
    Claiming,
    Ended,
}

/// A take-over under way. The caller steps the take-over until the end. A take-over dropped before the end leaves a
/// folder in which nothing counts; the take-over may be run again into the folder.
#[derive(Debug)]
pub struct TakeOver {
    store: Arc<dyn SharedStore>,
    target: TargetFolder,
    /// Newest manifest, as of the last look.
    from: SharedManifest,
    /// Files that are complete in the folder, by name.
    fetched: BTreeMap<String, WantedFile>,
    /// Files that are still to be fetched, by name.
    waiting: VecDeque<(String, WantedFile)>,
    fetch: Option<FileFetch>,
    stage: TakeOverStage,
    /// Number of the manifest whose state was read completely.
    verified: Option<u64>,
    pace: WritePace,
    /// Number of newer manifests that the take-over has followed.
    rounds: u32,
    /// Bytes to be fetched after the last lost claim.
    lacked: u64,
    /// Number of bytes fetched so far.
    bytes: u64,
}

/// Kind of a manifest's entries.
fn entries_of(manifest: &SharedManifest) -> EntryKind {
    manifest.state.generations.last().map_or(EntryKind::Values, |last| last.entries)
}

/// Files that a manifest names, by name in the folder.
fn manifest_files(manifest: &SharedManifest) -> Vec<(String, WantedFile)> {
    let parts = manifest
        .parts
        .iter()
        .map(|(part, shared)| (part.to_string(), WantedFile { shared: shared.clone(), until: shared.bytes }));
    let logs = manifest.logs.iter().map(|log| {
        let name = log.file.name;
        let listed = manifest.state.generations.iter().find(|listed| listed.number == name.generation);
        let until = listed.map_or(0, |listed| listed.log_bytes(name)).min(log.shared.bytes);
        (log.file.to_string(), WantedFile { shared: log.shared.clone(), until })
    });
    parts.chain(logs).collect()
}

impl TakeOver {
    /// Begins to take over from this store into the empty folder on `target`.
    ///
    /// # Errors
    /// [`DurabilityError::SharedStore`] if the store is empty; [`DurabilityError::SharedDamaged`] for a damaged newest
    /// manifest; [`DurabilityError::TakenOver`] if this folder had claimed the store, and another database has taken
    /// over since; [`DurabilityError::DatabaseExists`] or [`DurabilityError::NotADatabase`] if the folder is not empty;
    /// [`DurabilityError::InUse`]; errors of the disk.
    pub fn begin(
        store: &Arc<dyn SharedStore>,
        target: &Arc<dyn Disk>,
        bytes_per_second: Option<u64>,
    ) -> Result<Self, DurabilityError> {
        let from = newest(&**store)?;
        // H7: from here on no open makes the folder a database. An earlier run may have claimed the store already.
        let mut target = TargetFolder::open_empty(target, UnfinishedCopy::TakeOver { from: from.store })?;
        if from.fenced.contains(&target.manifest().identity) {
            let detail = format!(
                "this folder had claimed {}, and database {} has taken over from it in term {}: give an empty folder",
                store.place(),
                from.shipper,
                from.term
            );
            return Err(DurabilityError::TakenOver { detail: detail.into() });
        }
        let (logs, checkpoints) = folders_of(&from);
        target.claim_empty(logs, checkpoints)?;
        let mut run = Self {
            store: Arc::clone(store),
            target,
            from,
            fetched: BTreeMap::new(),
            waiting: VecDeque::new(),
            fetch: None,
            stage: TakeOverStage::Fetching,
            verified: None,
            pace: WritePace::new(bytes_per_second),
            rounds: 0,
            lacked: u64::MAX,
            bytes: 0,
        };
        run.plan()?;
        Ok(run)
    }

    /// Kind of the entries in this store, for a caller that accepts one kind only. Changes nothing.
    ///
    /// # Errors
    /// [`DurabilityError::SharedStore`] if the store is empty; [`DurabilityError::SharedDamaged`] for a damaged newest
    /// manifest.
    pub fn entries_in(store: &dyn SharedStore) -> Result<EntryKind, DurabilityError> {
        Ok(entries_of(&newest(store)?))
    }

    /// Kind of the entries. The verifier of the steps must be a state that takes entries of this kind.
    #[must_use]
    pub fn entries(&self) -> EntryKind {
        entries_of(&self.from)
    }

    /// Takes all steps to the end, and waits between steps as `clock` says.
    ///
    /// # Errors
    /// As for [`TakeOver::step`].
    pub fn finish(
        mut self,
        verifier: &dyn Recoverable,
        clock: &Clock,
    ) -> Result<TakeOverReport, DurabilityError> {
        loop {
            match self.step(verifier, clock.nanos())? {
                TakeOverStep::Worked => {}
                TakeOverStep::Paced(wait) => sleep(wait),
                TakeOverStep::Ended(report) => return Ok(report),
            }
        }
    }

    /// Fetches or reads a piece, or claims the store. Shows each counted entry to `verifier`.
    ///
    /// # Errors
    /// [`DurabilityError::SharedDamaged`] for an object that is missing or differs from the manifest: the store is not
    /// claimed, or the error tells that it is claimed. [`DurabilityError::TakenOver`] if another machine was faster.
    /// Errors of the store and of the disk. After an error, the run is over. Another run may begin in the same folder.
    pub fn step(
        &mut self,
        verifier: &dyn Recoverable,
        now_nanos: u64,
    ) -> Result<TakeOverStep, DurabilityError> {
        // H6: the claim and the later steps wait for no rate, because no machine serves the data meanwhile.
        let is_paced = !self.has_claimed() && !matches!(self.stage, TakeOverStage::Claiming);
        let wait = if is_paced { self.pace.wait(now_nanos) } else { Duration::ZERO };
        if !wait.is_zero() {
            return Ok(TakeOverStep::Paced(wait));
        }
        match std::mem::replace(&mut self.stage, TakeOverStage::Ended) {
            TakeOverStage::Fetching => return self.fetch(),
            TakeOverStage::Verifying(mut judge) => match judge.step(verifier)? {
                Some(read) => {
                    self.pace.spend(read);
                    self.stage = TakeOverStage::Verifying(judge);
                }
                None => {
                    if let Some(found) = judge.examination().damage.first() {
                        let why = format!("at byte {}: {}", found.offset, found.detail);
                        return Err(self.damaged_object_error(&found.file, &why));
                    }
                    if !judge.examination().is_whole() {
                        return Err(unusable(&*self.store, "what was fetched cannot be read"));
                    }
                    self.verified = Some(self.from.number);
                    self.stage = TakeOverStage::Claiming;
                }
            },
            TakeOverStage::Claiming => return self.claim(),
            TakeOverStage::Ended => {
                return Err(DurabilityError::config("the take-over has ended: begin another one"));
            }
        }
        Ok(TakeOverStep::Worked)
    }

    /// True if the newest manifest is this folder's claim.
    fn has_claimed(&self) -> bool {
        self.from.shipper == self.target.manifest().identity
    }

    /// Error for an object that differs from the manifest.
    fn damaged_object_error(&self, object: &str, why: &str) -> DurabilityError {
        let claimed = " (the store is claimed, and the machine that shipped it ships no more: once the object is back, \
                       take over into this folder again)";
        let why = if self.has_claimed() { format!("{why}{claimed}") } else { why.to_owned() };
        damaged_object_error(&*self.store, object, &why)
    }

    /// Plans to fetch the files that the folder lacks, and removes the fetched files that the manifest names no longer,
    /// or differently.
    fn plan(&mut self) -> Result<(), DurabilityError> {
        debug_assert!(self.fetch.is_none(), "a file of the manifest before is on its way");
        let wanted: BTreeMap<String, WantedFile> = manifest_files(&self.from).into_iter().collect();
        let files = wanted.len();
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.fetched)
            .into_iter()
            .partition(|(name, file)| wanted.get(name) == Some(file));
        for name in gone.keys() {
            self.target.disk().remove(name)?;
        }
        self.fetched = kept;
        self.waiting = wanted.into_iter().filter(|(name, _)| !self.fetched.contains_key(name)).collect();
        assert_eq!(self.fetched.len() + self.waiting.len(), files, "H7: each file is fetched, or waits");
        self.stage = TakeOverStage::Fetching;
        Ok(())
    }

    /// Number of bytes still to be fetched.
    fn remaining_bytes(&self) -> u64 {
        self.waiting.iter().map(|(_, wanted)| wanted.shared.bytes).sum()
    }

    /// Fetches a piece of a file. After the last piece, the claim or the reading begins at once.
    fn fetch(&mut self) -> Result<TakeOverStep, DurabilityError> {
        self.stage = TakeOverStage::Fetching;
        if self.fetch.is_some() {
            self.fetch_piece()?;
        } else if let Some((name, wanted)) = self.waiting.pop_front() {
            let file = self.target.disk().create(&name)?;
            let pieces = wanted.shared.pieces(&name).into();
            self.fetch = Some(FileFetch { name, wanted, file, pieces, offset: 0, crc: 0 });
        }
        if self.fetch.is_some() || !self.waiting.is_empty() {
            return Ok(TakeOverStep::Worked);
        }
        // H6: the shipper goes on meanwhile. After one complete reading, the claim does not wait for another reading.
        if self.verified.is_some() && !self.has_claimed() {
            return self.claim();
        }
        self.verify()
    }

    /// Fetches the next piece of the current file. After the last piece, checks and syncs the file.
    fn fetch_piece(&mut self) -> Result<(), DurabilityError> {
        let mut fetch = self.fetch.take().expect("a file is on its way");
        let WantedFile { shared, until } = &fetch.wanted;
        debug_assert!(!self.fetched.contains_key(&fetch.name), "{} is fetched once", fetch.name);
        let SharedPiece { object, offset, bytes: whole } = fetch.pieces.front().expect("bytes are to come");
        debug_assert!(
            (*offset..=offset + whole).contains(&fetch.offset),
            "H7: the next byte of {} is in {object}",
            fetch.name
        );
        let from = fetch.offset - offset;
        let mut bytes = vec![0; (whole - from).min(STEP_BYTES as u64) as usize];
        let read = self.store.read_at(object, &mut bytes, from);
        let Some(read) = read.map_err(|error| unusable(&*self.store, error))? else {
            return self.handle_missing_object(object);
        };
        if read < bytes.len() {
            let end = from + read as u64;
            let why = format!("it has {end} bytes, and its manifest says {whole}");
            return Err(self.damaged_object_error(object, &why));
        }
        fetch.crc = crc32c_append(fetch.crc, &bytes);
        let counts = until.saturating_sub(fetch.offset).min(read as u64) as usize;
        write_copied(&*fetch.file, &bytes[..counts], fetch.offset)?;
        self.pace.spend(read as u64);
        (fetch.offset, self.bytes) = (fetch.offset + read as u64, self.bytes + read as u64);
        if from + read as u64 == *whole {
            fetch.pieces.pop_front();
        }
        if !fetch.pieces.is_empty() {
            self.fetch = Some(fetch);
            return Ok(());
        }
        assert_eq!(fetch.offset, shared.bytes, "H7: each byte of {} is fetched", fetch.name);
        debug_assert!(
            fetch.file.len().ok().is_none_or(|length| length <= *until),
            "N21: bytes behind the cut of {}",
            fetch.name
        );
        if fetch.crc != shared.crc {
            let object = shared.object(&fetch.name);
            return Err(
                self.damaged_object_error(&object, "its checksum is not the one that its manifest says")
            );
        }
        fetch.file.sync_all()?;
        self.fetched.insert(fetch.name, fetch.wanted);
        Ok(())
    }

    /// Handles a missing object. A newer manifest of the shipper explains the removal; otherwise the store is damaged.
    fn handle_missing_object(&mut self, object: &str) -> Result<(), DurabilityError> {
        if self.follow_newer_manifest()? {
            return self.plan();
        }
        let why = format!("it is missing, and manifest {} names it", self.from.number);
        Err(self.damaged_object_error(object, &why))
    }

    /// Goes on from the newest manifest of the store. True if the same shipper has installed a newer manifest.
    fn follow_newer_manifest(&mut self) -> Result<bool, DurabilityError> {
        let newest = newest(&*self.store)?;
        if newest.number == self.from.number {
            return Ok(false);
        }
        if newest.term != self.from.term {
            return Err(taken_over(&*self.store, &newest));
        }
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Err(unusable(
                &*self.store,
                "its shipper goes on faster than it can be followed: stop it, or run the take-over again",
            ));
        }
        let (logs, checkpoints) = folders_of(&newest);
        self.target.claim_more(logs, checkpoints)?;
        self.from = newest;
        Ok(true)
    }

    /// Begins to read all files, as an open with the folder's future manifest would.
    fn verify(&mut self) -> Result<TakeOverStep, DurabilityError> {
        assert!(
            self.waiting.is_empty() && self.fetch.is_none(),
            "H7: a state is read once all of it is fetched"
        );
        for folder in self.target.manifest().folders.keys().filter(|folder| *folder != MAIN) {
            self.target.disk().sync_folder(folder)?;
        }
        let judge = Judge::of_newest(&self.target.store.disk, &self.next_manifest());
        self.stage = TakeOverStage::Verifying(Box::new(judge));
        Ok(TakeOverStep::Worked)
    }

    /// Manifest that makes the folder a database with the newest manifest's state.
    fn next_manifest(&self) -> Manifest {
        let (from, own) = (&self.from, self.target.manifest());
        let parent =
            if from.shipper == own.identity { from.fenced.last().copied() } else { Some(from.shipper) };
        debug_assert_ne!(parent, Some(own.identity), "I1: the parent is another database");
        let mut generations = from.state.generations.clone();
        if let Some(last) = generations.last_mut() {
            last.database = own.identity;
        }
        Manifest {
            parent,
            state: Making::Created,
            reserved: own.reserved.max(from.reserved),
            made_from: Some(MadeFrom::Restored { epoch: from.state.epoch() }),
            archived: None,
            application: from.application.clone(),
            types: from.types.clone(),
            checkpoint: from.state.checkpoint.clone(),
            kept: Vec::new(),
            generations,
            ..own.clone()
        }
    }

    /// Claims the store, unless this folder has. Once every file of the claim is fetched and read, the folder becomes a
    /// database.
    fn claim(&mut self) -> Result<TakeOverStep, DurabilityError> {
        while !self.has_claimed() {
            let claim = self.next_claim()?;
            match chain::install(&*self.store, &claim)? {
                Installed::Ours => {
                    // The claim names the same files.
                    let is_verified = self.verified == Some(self.from.number);
                    self.verified = is_verified.then_some(claim.number);
                    debug_assert!(
                        claim.objects().eq(self.from.objects()),
                        "H7: a claim names the same files"
                    );
                    self.from = claim;
                }
                Installed::Lost(_) if self.follow_newer_manifest()? => {
                    // H6: the new files of the same term are fetched before the next claim if this round has at most
                    // half the bytes of the round before. Otherwise the claim goes first.
                    self.plan()?;
                    let (before, lacking) = (self.lacked, self.remaining_bytes());
                    self.lacked = lacking;
                    if (1..=before / 2).contains(&lacking) {
                        return Ok(TakeOverStep::Worked);
                    }
                }
                Installed::Lost(newest) => {
                    return Err(chain::unlisted_manifest_error(&*self.store, newest.number));
                }
            }
        }
        if !self.waiting.is_empty() {
            self.stage = TakeOverStage::Fetching;
            return Ok(TakeOverStep::Worked);
        }
        if self.verified != Some(self.from.number) {
            return self.verify();
        }
        let report = self.report();
        self.target.replace(self.next_manifest())?;
        Ok(TakeOverStep::Ended(report))
    }

    /// Claim: the next manifest, of the next term, with the identity of this folder.
    fn next_claim(&self) -> Result<SharedManifest, DurabilityError> {
        let (from, next) = (&self.from, self.next_manifest());
        let used_up = || DurabilityError::config("the numbers of the shared store's manifests are used up");
        let mut claim = from.clone();
        claim.number = number::next(from.number).ok_or_else(used_up)?;
        claim.term = number::next(from.term).ok_or_else(used_up)?;
        claim.attempt = Random::unpredictable().next_u64();
        claim.shipper = next.identity;
        claim.fenced.push(from.shipper);
        claim.state.generations.clone_from(&next.generations);
        let last = next.generations.last().expect("a state has one");
        claim.next = (last.number, last.salt);
        debug_assert!(
            claim.term > from.term && claim.number > from.number,
            "H6: a claim is of the next term"
        );
        debug_assert!(!claim.fenced.contains(&claim.shipper), "H6: a claim has an identity of its own");
        Ok(claim)
    }

    /// Report of this take-over, whose claim is the newest manifest.
    fn report(&self) -> TakeOverReport {
        let SharedManifest {
            shipper, fenced, term, number, durable, application, state, parts, logs, ..
        } = &self.from;
        TakeOverReport {
            database: shipper.to_string(),
            parent: fenced.last().map_or_else(String::new, ToString::to_string),
            term: *term,
            manifest: *number,
            epoch: state.epoch(),
            durable: *durable,
            entries: self.entries(),
            application: application.as_ref().map(|name| name.as_str().into()),
            files: (parts.len() + logs.len()) as u64,
            bytes: self.bytes,
        }
    }
}

/// Newest manifest of the store; an error for an empty store.
fn newest(store: &dyn SharedStore) -> Result<SharedManifest, DurabilityError> {
    let nothing =
        || unusable(store, "nothing was ever shipped there: give the place that a database ships to");
    chain::newest(store)?.ok_or_else(nothing)
}

/// Error for a store that another machine has claimed with `newest`.
fn taken_over(store: &dyn SharedStore, newest: &SharedManifest) -> DurabilityError {
    let SharedManifest { shipper, term, .. } = newest;
    let detail = format!("database {shipper} has claimed {} in term {term}", store.place());
    DurabilityError::TakenOver { detail: detail.into() }
}

/// Count of log folders, and count of checkpointer folders, that the files need.
fn folders_of(manifest: &SharedManifest) -> (usize, usize) {
    let logs = manifest.state.generations.iter().map(|generation| generation.logs as usize).max();
    let folder = |name: &String| name.split_once('/').map(|(folder, _)| folder.to_owned());
    let names: Vec<String> =
        manifest_files(manifest).into_iter().filter_map(|(name, _)| folder(&name)).collect();
    let count = |number: fn(&str) -> Option<u32>| {
        names.iter().filter_map(|name| number(name)).max().map_or(0, |last| last as usize + 1)
    };
    (count(logger_of).max(logs.unwrap_or(0)), count(checkpointer_of))
}
