//! A machine takes over from a shared store: it brings the newest state into an empty folder, and claims the store.
//!
//! ```text
//! newest manifest --> its files, each compared with it --> all read, as an open reads them --> claim --> its manifest
//!                                ^                                                               |  |      ^
//!                                '------ the same term has gone on: what is new is fetched ------'  |      |
//!                                                             what was not read when it was claimed '-> all read
//! ```
//! Invariants:
//! - H6: the claim is the next manifest, of the next term and a new identity, with the same files. From there on the
//!   old shipper installs nothing. A shipper that goes on does not keep it from being made: once a state was read
//!   whole, each round has half as much to fetch as the one before, or the claim goes before the files.
//! - H7: the folder becomes a database behind the claim only, and behind a whole reading of what it says. A run that is
//!   killed is run again: if it had claimed, its folder has the identity of the claim, and it goes on from there.
//! - I1: the folder was empty, or is that of such a run.
//!
//! Neighbours: `chain` claims; a backup's target has the folder, its locks and its manifest; an examination reads what
//! was fetched.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c_append;
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_disk::{Disk, DiskFile};

use super::chain::{self, Installed, damaged, unusable};
use super::shared::SharedStore;
use crate::backup::TargetFolder;
use crate::block::origin::write_copied;
use crate::control::pace::WritePace;
use crate::number;
use crate::recovery::examine::Judge;
use crate::store::MadeFrom;
use crate::store::manifest::{Making, Manifest};
use crate::store::names::{MAIN, checkpointer_of, logger_of};
use crate::store::shared_manifest::{SharedFile, SharedManifest, SharedPiece};
use crate::store::unfinished::UnfinishedCopy;
use crate::{DurabilityError, EntryKind, Recoverable};

/// Bytes that are fetched in one step.
const STEP_BYTES: usize = 1 << 20;
/// Times that the shipper may go on before the claim is made.
const ROUNDS_MAX: u32 = 1000;

/// What a take-over came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakeOverReport {
    /// The identity of the database in the folder, 32 hex digits.
    pub database: String,
    /// That of the database that it was taken over from. It ships no more.
    pub parent: String,
    /// The term that has begun, and the number of the manifest that claims it.
    pub term: u64,
    /// See [`TakeOverReport::term`].
    pub manifest: u64,
    /// It is the state at the end of this epoch: all of it was shipped. What the parent committed in later epochs is
    /// not here, unless that was nothing.
    pub epoch: Epoch,
    /// Epoch above which the database that shipped this state had no durable entry when it shipped the state. Later
    /// epochs may have become durable since. A larger epoch than `epoch` means that durable commits may be lost.
    /// `None`: an older version of Ensile shipped the state, and did not say.
    pub durable: Option<Epoch>,
    /// What its entries are: values of a database, or operations of objects.
    pub entries: EntryKind,
    /// The name of its application (I5), as it was when this state was shipped: one that was given to the shipper's
    /// folder since is not here. `None`: it had none.
    pub application: Option<Box<str>>,
    /// Its files.
    pub files: u64,
    /// Bytes that were fetched.
    pub bytes: u64,
}

/// What a step of a take-over did, and when the next is worth while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOverStep {
    /// Something was done: step again.
    Worked,
    /// The rate is used up for so long.
    Paced(Duration),
    /// It has ended: the folder is a database, and the store is its own.
    Ended(TakeOverReport),
}

/// A file that is wanted: its name in the folder, what the manifest says of it, and how much of it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedFile {
    shared: SharedFile,
    /// A log that is cut ends here.
    until: u64,
}

/// A file on its way.
#[derive(Debug)]
struct FileFetch {
    name: String,
    wanted: WantedFile,
    file: Box<dyn DiskFile>,
    /// Its objects that are not here whole; bytes of the first one come next.
    pieces: VecDeque<SharedPiece>,
    offset: u64,
    crc: u32,
}

#[derive(Debug)]
enum TakeOverStage {
    Fetching,
    Verifying(Box<Judge>),
    Claiming,
    Ended,
}

/// A take-over under way. It is stepped until it has ended. One that is dropped before leaves a folder in which nothing
/// counts, and may be run again.
#[derive(Debug)]
pub struct TakeOver {
    store: Arc<dyn SharedStore>,
    target: TargetFolder,
    /// The newest manifest when it was last looked at.
    from: SharedManifest,
    /// What is in the folder whole.
    fetched: BTreeMap<String, WantedFile>,
    waiting: VecDeque<(String, WantedFile)>,
    fetch: Option<FileFetch>,
    stage: TakeOverStage,
    /// The number of the manifest whose state was read whole.
    verified: Option<u64>,
    pace: WritePace,
    rounds: u32,
    /// Bytes that were to be fetched behind the last claim that was lost.
    lacked: u64,
    bytes: u64,
}

/// What its entries are.
fn entries_of(manifest: &SharedManifest) -> EntryKind {
    manifest.state.generations.last().map_or(EntryKind::Values, |last| last.entries)
}

/// The files that a manifest names, by their names in the folder.
fn wanted(manifest: &SharedManifest) -> Vec<(String, WantedFile)> {
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
    /// [`DurabilityError::SharedStore`] if nothing was shipped there; [`DurabilityError::SharedDamaged`] for its newest
    /// manifest; [`DurabilityError::DatabaseExists`] or [`DurabilityError::NotADatabase`] if the folder is not empty;
    /// [`DurabilityError::InUse`]; the disk's.
    pub fn begin(
        store: &Arc<dyn SharedStore>,
        target: &Arc<dyn Disk>,
        bytes_per_second: Option<u64>,
    ) -> Result<Self, DurabilityError> {
        let from = newest(&**store)?;
        // H7: from here on no open makes it a database. The claim may stand already.
        let mut target = TargetFolder::open_empty(target, UnfinishedCopy::TakeOver { from: from.store })?;
        if from.fenced.contains(&target.manifest().identity) {
            return Err(DurabilityError::TakenOver {
                detail: format!(
                    "this folder had claimed {}, and database {} has taken over from it in term {}: give an empty folder",
                    store.place(),
                    from.shipper,
                    from.term
                )
                .into(),
            });
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

    /// What the entries of the state are that was shipped to this store, for a caller that takes one kind only: before
    /// anything is changed.
    ///
    /// # Errors
    /// [`DurabilityError::SharedStore`] if nothing was shipped there; [`DurabilityError::SharedDamaged`] for its newest
    /// manifest.
    pub fn entries_in(store: &dyn SharedStore) -> Result<EntryKind, DurabilityError> {
        Ok(entries_of(&newest(store)?))
    }

    /// What its entries are: a state that takes such entries is the verifier of its steps.
    #[must_use]
    pub fn entries(&self) -> EntryKind {
        entries_of(&self.from)
    }

    /// All steps, to the end, which wait between them as `clock` says.
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

    /// Fetches or reads a piece, or claims the store. Entries that count are shown to `verifier`.
    ///
    /// # Errors
    /// [`DurabilityError::SharedDamaged`] for an object that is missing or is not what the manifest says: the store is
    /// not claimed, or the error says that it is. [`DurabilityError::TakenOver`] if another machine was faster. The
    /// store's and the disk's: the run is over, and another one may begin, in the same folder.
    pub fn step(
        &mut self,
        verifier: &dyn Recoverable,
        now_nanos: u64,
    ) -> Result<TakeOverStep, DurabilityError> {
        // A claim waits for no rate (H6), nor does what comes behind it: nobody serves the data meanwhile.
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
                    if let Some(found) = judge.found().damage.first() {
                        let why = format!("at byte {}: {}", found.offset, found.detail);
                        return Err(self.damaged(&found.file, &why));
                    }
                    if !judge.found().is_whole() {
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

    /// Is the newest manifest this folder's claim?
    fn has_claimed(&self) -> bool {
        self.from.shipper == self.target.manifest().identity
    }

    /// An object that is not what the manifest says.
    fn damaged(&self, object: &str, why: &str) -> DurabilityError {
        let claimed = " (the store is claimed, and the machine that shipped it ships no more: once the object is back, \
                       take over into this folder again)";
        let why = if self.has_claimed() { format!("{why}{claimed}") } else { why.to_owned() };
        damaged(&*self.store, object, &why)
    }

    /// Which files the folder lacks; what it has and does not want goes.
    fn plan(&mut self) -> Result<(), DurabilityError> {
        let wanted: BTreeMap<String, WantedFile> = wanted(&self.from).into_iter().collect();
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.fetched)
            .into_iter()
            .partition(|(name, file)| wanted.get(name) == Some(file));
        for name in gone.keys() {
            self.target.disk().remove(name)?;
        }
        self.fetched = kept;
        self.waiting = wanted.into_iter().filter(|(name, _)| !self.fetched.contains_key(name)).collect();
        self.stage = TakeOverStage::Fetching;
        Ok(())
    }

    /// Bytes that are to be fetched.
    fn lacking(&self) -> u64 {
        self.waiting.iter().map(|(_, wanted)| wanted.shared.bytes).sum()
    }

    /// A piece of a file; behind the last one it goes on at once.
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
        // The shipper goes on meanwhile: what an earlier round has read is not read again before the claim (H6).
        if self.verified.is_some() && !self.has_claimed() {
            return self.claim();
        }
        self.verify()
    }

    fn fetch_piece(&mut self) -> Result<(), DurabilityError> {
        let mut fetch = self.fetch.take().expect("a file is on its way");
        let WantedFile { shared, until } = &fetch.wanted;
        let SharedPiece { object, offset, bytes: whole } = fetch.pieces.front().expect("bytes are to come");
        let from = fetch.offset - offset;
        let mut bytes = vec![0; (whole - from).min(STEP_BYTES as u64) as usize];
        let read = self.store.read_at(object, &mut bytes, from);
        let Some(read) = read.map_err(|error| unusable(&*self.store, error))? else {
            return self.is_gone(object);
        };
        if read < bytes.len() {
            let end = from + read as u64;
            let why = format!("it has {end} bytes, and its manifest says {whole}");
            return Err(self.damaged(object, &why));
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
        if fetch.crc != shared.crc {
            let object = shared.object(&fetch.name);
            return Err(self.damaged(&object, "its checksum is not the one that its manifest says"));
        }
        fetch.file.sync_all()?;
        self.fetched.insert(fetch.name, fetch.wanted);
        Ok(())
    }

    /// An object is missing: the shipper has gone on and removed it, or it is damage.
    fn is_gone(&mut self, object: &str) -> Result<(), DurabilityError> {
        if self.has_gone_on()? {
            return self.plan();
        }
        let why = format!("it is missing, and manifest {} names it", self.from.number);
        Err(self.damaged(object, &why))
    }

    /// Has the same shipper installed a manifest since? It is the one that is taken from now on.
    fn has_gone_on(&mut self) -> Result<bool, DurabilityError> {
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

    /// All is fetched: it is read, as an open with the manifest that the folder is to have would read it.
    fn verify(&mut self) -> Result<TakeOverStep, DurabilityError> {
        for folder in self.target.manifest().folders.keys().filter(|folder| *folder != MAIN) {
            self.target.disk().sync_folder(folder)?;
        }
        let judge = Judge::of_newest(&self.target.store.disk, &self.next_manifest());
        self.stage = TakeOverStage::Verifying(Box::new(judge));
        Ok(TakeOverStep::Worked)
    }

    fn next_manifest(&self) -> Manifest {
        let (from, own) = (&self.from, self.target.manifest());
        let parent =
            if from.shipper == own.identity { from.fenced.last().copied() } else { Some(from.shipper) };
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
            checkpoint: from.state.checkpoint.clone(),
            kept: Vec::new(),
            generations,
            ..own.clone()
        }
    }

    /// Claims the store, unless this folder has. Once all that the claim names was fetched and read, the folder becomes
    /// a database.
    fn claim(&mut self) -> Result<TakeOverStep, DurabilityError> {
        while !self.has_claimed() {
            let claim = self.next_claim()?;
            match chain::install(&*self.store, &claim)? {
                Installed::Ours => {
                    // It has the same files.
                    let is_verified = self.verified == Some(self.from.number);
                    self.verified = is_verified.then_some(claim.number);
                    self.from = claim;
                }
                Installed::Lost(_) if self.has_gone_on()? => {
                    // Of the same term: what is new is fetched first, if that goes faster than the shipper does.
                    self.plan()?;
                    let (before, lacking) = (self.lacked, self.lacking());
                    self.lacked = lacking;
                    if (1..=before / 2).contains(&lacking) {
                        return Ok(TakeOverStep::Worked);
                    }
                }
                Installed::Lost(newest) => return Err(chain::unlisted(&*self.store, newest.number)),
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
        Ok(claim)
    }

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

/// The newest manifest of a store in which there is one.
fn newest(store: &dyn SharedStore) -> Result<SharedManifest, DurabilityError> {
    let nothing =
        || unusable(store, "nothing was ever shipped there: give the place that a database ships to");
    chain::newest(store)?.ok_or_else(nothing)
}

fn taken_over(store: &dyn SharedStore, newest: &SharedManifest) -> DurabilityError {
    let SharedManifest { shipper, term, .. } = newest;
    let detail = format!("database {shipper} has claimed {} in term {term}", store.place());
    DurabilityError::TakenOver { detail: detail.into() }
}

/// How many folders of logs and of checkpointers its files need.
fn folders_of(manifest: &SharedManifest) -> (usize, usize) {
    let logs = manifest.state.generations.iter().map(|generation| generation.logs as usize).max();
    let folder = |name: &String| name.split_once('/').map(|(folder, _)| folder.to_owned());
    let names: Vec<String> = wanted(manifest).into_iter().filter_map(|(name, _)| folder(&name)).collect();
    let count = |number: fn(&str) -> Option<u32>| {
        names.iter().filter_map(|name| number(name)).max().map_or(0, |last| last as usize + 1)
    };
    (count(logger_of).max(logs.unwrap_or(0)), count(checkpointer_of))
}
