//! The smallest state that checkpoints are about: keys with values, deletes, a walk in slices, pages, a recovery.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ensile_epoch::Epochs;

use super::pages::MadePages;
use crate::counted::CountedDisk;
use crate::prelude::*;

/// Keys are below this.
pub(crate) const KEYS: u64 = 64;
/// Sections of the state: a key's is its number modulo this.
pub(crate) const SECTIONS: u64 = 2;

/// The last change of each key; a delete leaves no value.
pub(crate) type Changes = BTreeMap<u64, (Tid, Option<Vec<u8>>)>;

/// What is present, or, while it recovers, what is known.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) rows: Mutex<Changes>,
    /// Most entries that one step of a walk adds.
    pub(crate) step_entries: usize,
    /// For pictures; a state that has none walks only.
    pub(crate) pages: Option<MadePages>,
    /// Does it mark pages that a load says are to be moved, as it must?
    pub(crate) moves_pages: bool,
    /// Bytes that commits have changed.
    changed_bytes: AtomicU64,
    /// E, once the database is open.
    epochs: OnceLock<ensile_base::sync::Arc<Epochs>>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            rows: Mutex::default(),
            step_entries: 3,
            pages: Some(MadePages::new(true)),
            moves_pages: true,
            changed_bytes: AtomicU64::new(0),
            epochs: OnceLock::new(),
        }
    }
}

/// A log entry's body: key, whether it is a put, value.
pub(crate) fn body(key: u64, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = key.to_be_bytes().to_vec();
    body.push(u8::from(value.is_some()));
    body.extend_from_slice(value.unwrap_or_default());
    body
}

fn parse(body: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    let (key, rest) = body.split_first_chunk::<8>()?;
    let (present, value) = rest.split_first()?;
    Some((u64::from_be_bytes(*key), (*present == 1).then_some(value)))
}

/// The larger TID wins.
pub(crate) fn change(changes: &mut Changes, key: u64, tid: Tid, value: Option<&[u8]>) {
    if changes.get(&key).is_none_or(|known| known.0 < tid) {
        changes.insert(key, (tid, value.map(<[u8]>::to_vec)));
    }
}

/// What is present by these changes.
pub(crate) fn present(changes: &Changes) -> Changes {
    changes.iter().filter(|(_, (_, value))| value.is_some()).map(|(key, row)| (*key, row.clone())).collect()
}

impl Store {
    /// The pages that a commit sees behind its last fence, once it has read its epoch: those of this picture's number.
    pub(crate) fn seen_pages(&self) -> Option<u64> {
        self.pages.as_ref().and_then(MadePages::under_way)
    }

    /// Installs a change in the live state: a delete leaves nothing. The commit is bound, and has seen these pages: it
    /// leaves what it displaces to them.
    pub(crate) fn install(&self, key: u64, tid: Tid, value: Option<&[u8]>, seen: Option<u64>) {
        let mut rows = self.rows.lock().expect("no panic");
        if let (Some(pages), Some(seen), Some((last, Some(displaced)))) = (&self.pages, seen, rows.get(&key))
        {
            let freeze = self.epochs().freeze_at(tid.epoch());
            pages.leave(seen, freeze, (key, *last, displaced));
        }
        if let Some(pages) = &self.pages {
            pages.mark(key, tid.epoch());
        }
        match value {
            Some(value) => rows.insert(key, (tid, Some(value.to_vec()))),
            None => rows.remove(&key),
        };
        // Relaxed: a figure.
        self.changed_bytes.fetch_add(8 + value.map_or(0, <[u8]>::len) as u64, Ordering::Relaxed);
    }

    pub(crate) fn present(&self) -> Changes {
        present(&self.rows.lock().expect("no panic"))
    }

    pub(crate) fn epochs(&self) -> &Epochs {
        self.epochs.get().expect("the database is open")
    }

    /// Ends recovery: deletes are not kept any longer.
    pub(crate) fn forget_deletes(&self) {
        self.rows.lock().expect("no panic").retain(|_, (_, value)| value.is_some());
    }
}

impl Recoverable for Store {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut rows = self.rows.lock().expect("no panic");
        for (entry, Entry { tid, body }) in entries.iter().enumerate() {
            let (key, value) = parse(body).ok_or_else(|| Refused { entry, detail: "no key".to_owned() })?;
            change(&mut rows, key, *tid, value);
            if let Some(pages) = &self.pages {
                pages.mark(key, tid.epoch());
            }
        }
        Ok(())
    }

    fn load_pages(&self, loaded: &LoadedPages<'_>) -> bool {
        let LoadedPages { section, first_keys, to_move, epoch } = *loaded;
        let first = |key: &[u8]| if key.is_empty() { 0 } else { key_of(key) };
        let to_move = if self.moves_pages { to_move } else { &[] };
        let to_move = to_move.iter().map(|page| first(first_keys[*page]));
        let first_keys = first_keys.iter().map(|key| first(key));
        let Some(pages) = &self.pages else { return false };
        assert!(self.rows.lock().expect("no panic").is_empty(), "pages are named before rows");
        pages.load(u64::from(section), (first_keys, to_move), epoch);
        true
    }

    fn load_displaced(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.load(section, entries)?;
        for (key, _) in entries.iter().filter_map(|entry| parse(entry.body)) {
            if let Some(pages) = &self.pages {
                pages.mark_loaded(key);
            }
        }
        Ok(())
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut rows = self.rows.lock().expect("no panic");
        for (entry, Entry { tid, body }) in entries.iter().enumerate() {
            let refused = |detail: &str| Refused { entry, detail: detail.to_owned() };
            let (key, value) = parse(body).ok_or_else(|| refused("no key"))?;
            if key % SECTIONS != u64::from(section) {
                return Err(refused("out of place"));
            }
            let row = (*tid, value.map(<[u8]>::to_vec));
            if rows.entry(key).or_insert_with(|| row.clone()) != &row {
                return Err(refused("a key that was loaded, or replayed, before with another TID"));
            }
        }
        Ok(())
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        body.get(..size_of::<u64>())
    }
}

/// Takes entries apart and keeps nothing, so that it can be given them any number of times.
#[derive(Debug, Default)]
pub(crate) struct Framing;

impl Recoverable for Framing {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let refused = |entry| Err(Refused { entry, detail: "no key".to_owned() });
        entries.iter().position(|entry| parse(entry.body).is_none()).map_or(Ok(()), refused)
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay(entries)
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        body.get(..size_of::<u64>())
    }
}

pub(crate) fn bound(key: u64) -> Box<[u8]> {
    key.to_be_bytes().into()
}

pub(crate) fn key_of(bound: &[u8]) -> u64 {
    u64::from_be_bytes(bound.try_into().expect("eight bytes"))
}

impl Walk for Store {
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        let width = KEYS.div_ceil(parts as u64);
        let slice = |part: u64, section: u64| Slice {
            section: section as u32,
            from: bound(part * width),
            to: ((part + 1) * width < KEYS).then(|| bound((part + 1) * width)),
        };
        (0..parts as u64).map(|part| (0..SECTIONS).map(|section| slice(part, section)).collect()).collect()
    }

    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, low: Epoch, block: &mut CheckpointBlock) -> bool {
        let rows = self.rows.lock().expect("no panic");
        let from = key_of(if resume.is_empty() { &slice.from } else { resume });
        let to = slice.to.as_deref().map_or(u64::MAX, key_of);
        let mut added = 0;
        for (key, (tid, value)) in rows.range(from..to) {
            if key % SECTIONS != u64::from(slice.section) || tid.epoch() >= low {
                continue;
            }
            let body = body(*key, value.as_deref());
            if added == self.step_entries || !block.has_room(body.len()) {
                *resume = key.to_be_bytes().to_vec();
                return true;
            }
            block.push(*tid, |out| out.extend_from_slice(&body));
            added += 1;
        }
        false
    }

    fn measure(&self, cut: &mut RangeCut) {
        let rows = self.rows.lock().expect("no panic");
        for section in 0..SECTIONS {
            for (key, (_, value)) in rows.iter().filter(|(key, _)| *key % SECTIONS == section) {
                let bytes = 16 + value.as_ref().map_or(0, Vec::len) as u64;
                cut.add(section as u32, &bound(*key), bytes);
            }
        }
    }

    fn changed_bytes(&self) -> u64 {
        // Relaxed: a figure.
        self.changed_bytes.load(Ordering::Relaxed)
    }

    fn pages(&self) -> Option<&dyn Pages> {
        self.pages.as_ref().map(|_| self as &dyn Pages)
    }
}

/// One life of a database with checkpoints.
pub(crate) struct Life {
    pub(crate) rig: Rig,
    pub(crate) store: Store,
    pub(crate) checkpoints: Arc<Checkpoints>,
    /// What recovery found.
    pub(crate) found: Changes,
    /// The folder, and the process's way to it.
    pub(super) disk: SimDisk,
    pub(super) counted: CountedDisk,
}

pub(crate) fn settings() -> CheckpointConfig {
    CheckpointConfig { checkpointers: 2, files: 2, sync_bytes: 256, ..CheckpointConfig::on_demand() }
}

/// The same for pictures, whose pages are synced where their part ends.
pub(crate) fn pictures() -> CheckpointConfig {
    CheckpointConfig { strategy: Strategy::Pictures, sync_bytes: 1 << 20, ..settings() }
}

/// The same by ranges: turn follows turn.
pub(crate) fn cycling() -> CheckpointConfig {
    CheckpointConfig { strategy: Strategy::Cycling, ranges: 4, log_bytes: Some(0), ..settings() }
}

impl Life {
    pub(crate) fn open(
        disk: &SimDisk,
        loggers: usize,
        settings: CheckpointConfig,
    ) -> Result<Self, DurabilityError> {
        Self::open_with(disk, LogConfig { segment_bytes: 4096, ..config(loggers) }, settings)
    }

    pub(crate) fn with_worker(disk: &SimDisk, loggers: usize, settings: CheckpointConfig) -> (Self, Worker) {
        let life = Self::open(disk, loggers, settings).expect("opens");
        let worker = life.rig.worker();
        (life, worker)
    }

    /// The first one on a new disk.
    pub(crate) fn first(loggers: usize, settings: CheckpointConfig) -> (SimDisk, Self) {
        let disk = SimDisk::new();
        let life = Self::open(&disk, loggers, settings).expect("opens");
        (disk, life)
    }

    pub(crate) fn first_with_worker(loggers: usize, settings: CheckpointConfig) -> (SimDisk, Self, Worker) {
        let (disk, life) = Self::first(loggers, settings);
        let worker = life.rig.worker();
        (disk, life, worker)
    }

    /// The same with all settings of the log.
    pub(crate) fn open_with(
        disk: &SimDisk,
        config: LogConfig,
        settings: CheckpointConfig,
    ) -> Result<Self, DurabilityError> {
        Self::open_into(disk, config, settings, Store::default())
    }

    /// The same into this state, which is empty.
    pub(crate) fn open_into(
        disk: &SimDisk,
        config: LogConfig,
        settings: CheckpointConfig,
        store: Store,
    ) -> Result<Self, DurabilityError> {
        let counted = CountedDisk::over(Arc::new(disk.mounted()));
        let mut rig = Rig::open_into(Arc::new(counted.clone()), config, Clock::manual(), &store)?;
        store.forget_deletes();
        store.epochs.set(rig.epochs.clone()).expect("set once");
        let start = std::mem::take(&mut rig.checkpoints);
        let checkpoints = Checkpoints::start(&rig.store, &rig.log, settings, start)?;
        checkpoints.check(&store)?;
        let found = store.present();
        Ok(Self { rig, store, checkpoints, found, disk: disk.clone(), counted })
    }

    /// A whole commit.
    pub(crate) fn commit(&self, worker: &mut Worker, key: u64, value: Option<&[u8]>) -> Tid {
        let body = body(key, value);
        worker.appender.reserve(body.len()).expect("there is room");
        worker.commit.bind(self.rig.epochs.now());
        let tid = worker.stamp(&self.rig.epochs);
        self.store.install(key, tid, value, self.store.seen_pages());
        worker.appender.append(tid, |out| out.extend_from_slice(&body));
        worker.appender.release();
        worker.commit.unbind();
        tid
    }

    /// A whole commit, and the end of its epoch.
    pub(crate) fn commit_epoch(&self, worker: &mut Worker, key: u64, value: Option<&[u8]>) -> Tid {
        let tid = self.commit(worker, key, value);
        self.rig.settle();
        tid
    }

    /// Commits this value under each key, and ends the epoch.
    pub(crate) fn commit_all(&self, worker: &mut Worker, keys: impl IntoIterator<Item = u64>, value: &[u8]) {
        keys.into_iter().for_each(|key| _ = self.commit(worker, key, Some(value)));
        self.rig.settle();
    }

    /// The same, an epoch each.
    pub(crate) fn commit_epochs(
        &self,
        worker: &mut Worker,
        keys: impl IntoIterator<Item = u64>,
        value: &[u8],
    ) {
        keys.into_iter().for_each(|key| _ = self.commit_epoch(worker, key, Some(value)));
    }

    /// A step of each checkpointer, and the end of an epoch.
    pub(crate) fn step_all(&self) {
        for checkpointer in 0..self.checkpoints.checkpointers() {
            self.step(checkpointer);
        }
        self.rig.settle();
    }

    pub(crate) fn step(&self, checkpointer: usize) -> CheckpointStep {
        self.checkpoints.step(checkpointer, &self.store)
    }

    /// Steps epochs, loggers and checkpointers until one more checkpoint is installed, which nobody asks for, and what
    /// it covers is removed.
    pub(crate) fn turn(&self) -> ensile_durability::CheckpointReport {
        let before = self.checkpoints.stats().installed;
        for _ in 0..10_000 {
            for checkpointer in 0..self.checkpoints.checkpointers() {
                self.step(checkpointer);
                let stats = self.checkpoints.stats();
                if stats.installed > before {
                    assert_eq!(self.step(0), CheckpointStep::Worked, "it removes what is covered");
                    return stats.last.expect("installed");
                }
            }
            self.rig.settle();
        }
        panic!("no turn ends: {:?}", self.checkpoints.stats());
    }

    /// Steps epochs, loggers and checkpointers until a checkpoint that is asked for now has an outcome.
    pub(crate) fn checkpoint(&self) -> Result<ensile_durability::CheckpointReport, DurabilityError> {
        self.checkpoint_until(|| false).expect("nothing else ends it")
    }

    /// The same, or until `is_over`; `None` then.
    pub(crate) fn checkpoint_until(
        &self,
        is_over: impl Fn() -> bool,
    ) -> Option<Result<ensile_durability::CheckpointReport, DurabilityError>> {
        let handle = self.checkpoints.demand();
        for _ in 0..10_000 {
            if let Some(outcome) = handle.outcome() {
                return Some(outcome);
            }
            if is_over() {
                return None;
            }
            self.step_all();
        }
        panic!("the checkpoint does not end: {:?}", self.checkpoints.stats());
    }
}
