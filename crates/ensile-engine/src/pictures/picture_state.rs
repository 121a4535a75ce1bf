//! State of a database with picture checkpoints: the attempts, and the displaced versions with their bytes (SIREN,
//! §3.1, §3.3).
//!
//! Invariants:
//! - N9: A take empties the lists of every worker, also of idle workers and of workers whose threads have ended.
//! - N13: One lock serialises the publication and the end of attempts. The thread that ends an attempt closes its pages
//!   before it releases the lock. A take hands out only versions left to its own attempt.
//!
//! Neighbours: commits test `is_under_way`. `checkpoint::pages` begins and ends pictures, and
//! `shared_state::displaced_versions` passes in the lists of workers. `database::health` reports the figures.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use ensile_durability::{PagesEnded, PictureAttempt};

use super::attempts::PictureAttempts;
use super::page_space::PageSpace;
use super::pending_removes::{PendingList, PendingRemove};
use crate::record::blocks::Blocks;

/// Largest number of versions of ended pictures that a step frees, and number of bytes after which a step ends.
pub(crate) const FREED_PER_STEP: usize = 1024;
const FREED_BYTES_PER_STEP: usize = 16 << 20;

/// State of a database with picture checkpoints.
#[derive(Debug)]
pub(crate) struct Pictures {
    is_under_way: CachePadded<AtomicBool>,
    /// The attempts. No commit takes this lock.
    pub(crate) attempts: Mutex<PictureAttempts>,
    /// True if commits leave displaced versions to the lists of their workers, and not to the lists of the pages.
    is_semi_fuzzy: bool,
    /// Limit of the displaced versions that wait for a picture, in bytes.
    bytes_max: u64,
    taken: Mutex<TakenVersions>,
    /// Lists of ended pictures. The versions are only to be freed.
    ended: Mutex<Vec<PendingList>>,
    /// Bytes of displaced versions freed since the open. Workers count the displaced bytes.
    freed_bytes: AtomicU64,
    /// Largest number of displaced bytes at a time.
    peak_bytes: AtomicU64,
    /// True if unpublished maps may wait to be freed, or late versions may exist.
    has_remains: AtomicBool,
    /// Memory blocks in which checkpointers free versions.
    blocks: Mutex<Vec<Blocks>>,
    /// Buffers of checkpointers for pages.
    spaces: Mutex<Vec<PageSpace>>,
}

/// Versions taken from the lists of workers and not yet written to a block.
#[derive(Debug, Default)]
struct TakenVersions {
    /// Attempt under way, and the freeze of its maps; `None` without a picture under way.
    attempt: Option<(PictureAttempt, Epoch)>,
    /// E, read after the end of the last picture. `None` once late versions were collected.
    ended: Option<Epoch>,
    lists: Vec<PendingList>,
    /// Version without room in the last block.
    first: Option<PendingRemove>,
}

impl TakenVersions {
    fn next(&mut self) -> Option<PendingRemove> {
        self.first.take().or_else(|| next_of(&mut self.lists))
    }
}

/// Next version in these lists. A list is dropped with its last version: no list is empty.
fn next_of(lists: &mut Vec<PendingList>) -> Option<PendingRemove> {
    let list = lists.last_mut()?;
    let version = list.next();
    debug_assert!(version.is_some(), "a list that is through was dropped");
    if list.is_empty() {
        let _through = lists.pop();
    }
    version
}

impl Pictures {
    /// Creates the state. `is_semi_fuzzy` is true if commits leave displaced versions to the lists of their workers.
    /// `bytes_max` limits the waiting versions, in bytes. `has_maps` is true if a picture was loaded, and tables have
    /// maps from the beginning.
    pub(crate) fn new(is_semi_fuzzy: bool, bytes_max: u64, has_maps: bool) -> Self {
        let attempts = if has_maps { PictureAttempts::behind_load() } else { PictureAttempts::default() };
        Self {
            is_under_way: CachePadded::default(),
            attempts: Mutex::new(attempts),
            is_semi_fuzzy,
            bytes_max,
            taken: Mutex::default(),
            ended: Mutex::default(),
            freed_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            has_remains: AtomicBool::new(false),
            blocks: Mutex::default(),
            spaces: Mutex::default(),
        }
    }

    /// Buffers for a page. The caller returns the buffers by [`Pictures::keep_page_space`].
    pub(crate) fn page_space(&self) -> PageSpace {
        self.spaces.lock().pop().unwrap_or_default()
    }

    /// Returns the buffers of a page for reuse.
    pub(crate) fn keep_page_space(&self, mut space: PageSpace) {
        space.shrink();
        if self.is_under_way() {
            self.spaces.lock().push(space);
        }
    }

    /// Allows takes for the attempt: its maps of the freeze `since` are published.
    pub(crate) fn allow_takes(&self, attempt: PictureAttempt, since: Epoch) {
        let mut taken = self.taken.lock();
        debug_assert!(taken.attempt.is_none(), "the picture before has ended");
        // Late versions of the picture before are freed where a take finds them (N13).
        (taken.attempt, taken.ended) = (Some((attempt, since)), None);
    }

    /// Ends takes for the attempt under way. No later take hands out its versions.
    pub(crate) fn forbid_takes(&self) {
        self.taken.lock().attempt = None;
    }

    /// Reason for the end of an attempt.
    pub(crate) fn why_ended(&self, attempt: PictureAttempt) -> PagesEnded {
        self.attempts.lock().why_ended(attempt)
    }

    /// Keeps lists of an ended picture. The versions are freed in steps ([`Pictures::next_ended`]).
    pub(crate) fn put_aside(&self, lists: impl IntoIterator<Item = PendingList>) {
        self.ended.lock().extend(lists.into_iter().filter(|list| !list.is_empty()));
    }

    /// True if commits may leave versions. A hint only.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        // Relaxed: the flag is a hint. A commit that misses a change looks again, and its locks find rows not copied
        // before.
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Notes that a picture's maps are about to be published: from now on commits may leave versions.
    pub(crate) fn begin(&self) {
        // Relaxed: as in `is_under_way`.
        self.is_under_way.store(true, Ordering::Relaxed);
    }

    /// Notes that the picture's pages are closed: later commits leave no versions. Releases the buffers of
    /// checkpointers.
    pub(crate) fn end(&self) {
        // Relaxed: as in `is_under_way`.
        self.is_under_way.store(false, Ordering::Relaxed);
        self.expect_remains();
        self.give_memory_back();
    }

    /// Notes that maps may wait for pins, or that versions may come late. The heartbeat frees both.
    pub(crate) fn expect_remains(&self) {
        // Release: publishes the remains; partner: the Acquire in `take_remains`.
        self.has_remains.store(true, Ordering::Release);
    }

    /// Displaced bytes that are not freed; `displaced` returns the displaced bytes since the open.
    pub(crate) fn waiting_bytes(&self, displaced: impl FnOnce() -> u64) -> u64 {
        let displaced = displaced();
        // Acquire: the displaced bytes are read before the freed bytes. Versions displaced and freed between the two
        // reads count as freed only. The result may be too low by these bytes, and is never too high: a picture gives
        // way at a high figure.
        fence(Ordering::Acquire);
        // Relaxed: a figure; the fence above orders the read.
        displaced.saturating_sub(self.freed_bytes.load(Ordering::Relaxed))
    }

    /// True if commits leave displaced versions to the lists of their workers.
    #[inline]
    pub(crate) fn is_semi_fuzzy(&self) -> bool {
        self.is_semi_fuzzy
    }

    /// Limit of the displaced versions that wait for a picture, in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Takes versions left to this attempt, until `put` has no room for a version. `take_lists` takes the lists of all
    /// workers (N9). Returns the taken versions, which the caller frees, and true if versions remain.
    pub(crate) fn take_until(
        &self,
        attempt: PictureAttempt,
        take_lists: impl FnOnce(&mut Vec<PendingList>),
        mut put: impl FnMut(&PendingRemove) -> bool,
    ) -> Result<(Vec<PendingRemove>, bool), PagesEnded> {
        let mut taken = self.taken.lock();
        let of_attempt = taken.attempt.filter(|(under_way, _)| *under_way == attempt);
        let Some((_, since)) = of_attempt else {
            drop(taken);
            return Err(self.why_ended(attempt));
        };
        take_lists(&mut taken.lists);
        let mut done = Vec::new();
        while let Some(version) = taken.next() {
            // A version with another `since` comes from a late commit. Its picture has ended (N13).
            if version.place().since == since && !put(&version) {
                taken.first = Some(version);
                return Ok((done, true));
            }
            done.push(version);
        }
        Ok((done, false))
    }

    /// Puts aside the lists of workers after the end of a picture with closed pages. `take_lists` takes the lists of
    /// all workers (N9); `now` reads E. Returns the version that had no room; the caller frees this version.
    pub(crate) fn put_worker_lists_aside(
        &self,
        take_lists: impl FnOnce(&mut Vec<PendingList>),
        now: impl FnOnce() -> Epoch,
    ) -> Option<PendingRemove> {
        let mut taken = self.taken.lock();
        debug_assert!(taken.attempt.is_none(), "it was ended before");
        take_lists(&mut taken.lists);
        self.put_aside(taken.lists.drain(..));
        // SeqCst: the pages were closed before E is read; partner: a commit's fence after the read of its epoch (C1). A
        // commit of a later epoch finds the pages closed (E2).
        fence(Ordering::SeqCst);
        taken.ended = Some(now());
        taken.first.take()
    }

    /// Puts aside versions of late commits: commits that found a page open at the end of the picture. True if no late
    /// commit remains.
    pub(crate) fn put_late_versions_aside(
        &self,
        take_lists: impl FnOnce(&mut Vec<PendingList>),
        now: impl FnOnce() -> Epoch,
    ) -> bool {
        let mut taken = self.taken.lock();
        let Some(ended) = taken.ended else { return true };
        debug_assert!(taken.attempt.is_none(), "a picture under way frees what it finds");
        if now() < ended.plus(2) {
            return false;
        }
        taken.ended = None;
        take_lists(&mut taken.lists);
        self.put_aside(taken.lists.drain(..));
        true
    }

    /// Notes a figure of the displaced bytes that are not freed. Returns the peak of the figure.
    pub(crate) fn note_waiting_bytes(&self, waiting: u64) -> u64 {
        // Relaxed: a figure.
        self.peak_bytes.fetch_max(waiting, Ordering::Relaxed).max(waiting)
    }

    /// Frees versions that were taken out of a list, with kept blocks or with `new_blocks`.
    pub(crate) fn free(
        &self,
        versions: impl Iterator<Item = PendingRemove>,
        new_blocks: impl FnOnce() -> Blocks,
    ) {
        let own = self.blocks.lock().pop();
        let mut blocks = own.unwrap_or_else(new_blocks);
        let freed: usize = versions.map(|version| blocks.free_pending(version)).sum();
        self.blocks.lock().push(blocks);
        // Relaxed: a figure.
        self.freed_bytes.fetch_add(freed as u64, Ordering::Relaxed);
    }

    /// Takes some versions of ended pictures, which the caller frees. Also returns true if versions remain.
    pub(crate) fn next_ended(&self) -> (Vec<PendingRemove>, bool) {
        let (mut versions, mut bytes) = (Vec::new(), 0);
        let mut ended = self.ended.lock();
        while versions.len() < FREED_PER_STEP
            && bytes < FREED_BYTES_PER_STEP
            && let Some(version) = next_of(&mut ended)
        {
            bytes += version.bytes();
            versions.push(version);
        }
        (versions, !ended.is_empty())
    }

    /// Releases the memory of the buffers, unless a picture is under way.
    pub(crate) fn give_idle_memory_back(&self) {
        if !self.is_under_way() {
            self.give_memory_back();
        }
    }

    /// True if remains were noted since the last call. Most calls find no note, and write nothing.
    pub(crate) fn take_remains(&self) -> bool {
        // Relaxed: the next tick finds a missed change.
        // Acquire: the remains are read after this load; partner: the Release in `expect_remains`.
        self.has_remains.load(Ordering::Relaxed) && self.has_remains.swap(false, Ordering::Acquire)
    }

    /// All versions in lists, which the caller frees at the end of the database.
    #[cfg(feature = "audit")]
    pub(crate) fn take_all(&self, take_lists: impl FnOnce(&mut Vec<PendingList>)) -> Vec<PendingRemove> {
        let mut taken = self.taken.lock();
        take_lists(&mut taken.lists);
        std::iter::from_fn(|| taken.next()).collect()
    }

    /// Checks that all displaced bytes, `displaced` since the open, are freed.
    ///
    /// # Panics
    /// If bytes are missing.
    #[cfg(feature = "audit")]
    pub(crate) fn check_all_freed(&self, displaced: u64) {
        // Relaxed: a figure; its writers have ended.
        let freed = self.freed_bytes.load(Ordering::Relaxed);
        assert_eq!(freed, displaced, "bytes of versions that were freed, and that were left to pictures");
    }

    /// True if checkpointers keep no blocks, so that other threads use the freed memory.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn has_no_blocks(&self) -> bool {
        self.blocks.lock().is_empty()
    }

    /// Releases the memory of the buffers.
    pub(crate) fn give_memory_back(&self) {
        self.blocks.lock().clear();
        self.spaces.lock().clear();
    }
}
