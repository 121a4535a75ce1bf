//! State of a database with picture checkpoints: the attempts, and the displaced versions with their bytes (SIREN,
//! §3.1, §3.3).
//!
//! Invariants:
//! - N9: A take empties the lists of every worker, also of idle workers and of workers whose threads have ended.
//! - N13: One lock serialises the publication and the end of attempts. The thread that ends an attempt closes its pages
//!   before it releases the lock. An attempt is over when a newer attempt begins.
//!   A take hands out only versions left to its own attempt. An attempt without an installed picture hands all marks on
//!   to the next attempt. If the marks of the old attempt are incomplete, and completing them is too early, every page
//!   of the next attempt is marked.
//! - N10, N14: A loaded picture counts as an attempt without an installed picture. Its marks are complete: they come
//!   from load and replay.
//! - K3: An attempt gives way if commits displace more than the limit. No commit waits for the attempt, and no commit
//!   fails. The heartbeat frees versions in steps, because epochs would wait for a long run.
//!
//! Neighbours: commits test `is_under_way` and count bytes (`commit::pending_removes`). `open::pages` begins and ends
//! pictures and frees taken versions. `database::health` reports the figures.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::limits::KEEP_BYTES_MAX;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use ensile_durability::{PageContents, PagesEnded, PictureAttempt, WantedPages};

use super::{Settings, SharedState};
use crate::record::Scratch;
use crate::record::blocks::Blocks;
use crate::record::page_map::LOADED;
use crate::record::pending_removes::{PageMarks, PendingList, PendingRemove};

/// Largest number of versions of ended pictures that a step frees, and number of bytes after which a step ends.
const FREED_PER_STEP: usize = 1024;
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

/// Buffers of a checkpointer, reused from page to page.
#[derive(Debug, Default)]
pub(crate) struct PageSpace {
    /// Buffer for a row.
    pub(crate) scratch: Scratch,
    /// Versions of the page left by commits.
    pub(crate) left: Vec<PendingRemove>,
    /// Rows found by the walk of the page, during the merge with `left`.
    pub(crate) walked: PageContents,
}

impl PageSpace {
    /// Releases the memory of an unusually large page.
    fn shrink(&mut self) {
        debug_assert!(self.left.is_empty() && self.walked.entries() == 0, "the page was taken");
        if self.scratch.kept_bytes() > KEEP_BYTES_MAX {
            self.scratch = Scratch::default();
        }
        self.left.shrink_to(KEEP_BYTES_MAX / size_of::<PendingRemove>());
        // `walked` limits its own memory when it is cleared.
        debug_assert!(self.left.capacity() * size_of::<PendingRemove>() <= 2 * KEEP_BYTES_MAX);
    }
}

/// The attempts at pictures since the open.
#[derive(Debug, Default)]
pub(crate) struct PictureAttempts {
    /// Number of the newest attempt.
    newest: u64,
    /// True from the publication of the attempt's maps to the end of the attempt.
    is_published: bool,
    /// Marks of the previous maps to carry over to the new maps; `None`: all pages are marked.
    carried: Option<PageMarks>,
    /// True if the attempt's maps were published and have all marks.
    has_marks: bool,
    /// First E without a commit on older maps. The marks are carried over by then.
    marks_due: Option<Epoch>,
    /// True if the attempt's picture is installed.
    is_installed: bool,
    /// Number of the last attempt that gave way, and the reason.
    gave_way: Option<(u64, PagesEnded)>,
}

impl PictureAttempts {
    /// Attempts after the load of a picture. The maps are published and have all marks.
    fn behind_load() -> Self {
        Self { newest: LOADED.number(), has_marks: true, ..Self::default() }
    }

    /// Begins an attempt. The attempt before has ended.
    pub(crate) fn begin(&mut self, wanted: WantedPages) -> PictureAttempt {
        debug_assert!(!self.is_published, "one picture at a time");
        // The next picture does not need the rows written by an installed picture (N13).
        let carried = if self.is_installed { PageMarks::AFTER } else { PageMarks::BOTH };
        let is_carried_over = wanted == WantedPages::Changed && self.has_marks;
        self.carried = is_carried_over.then_some(carried);
        (self.has_marks, self.is_installed, self.marks_due) = (false, false, None);
        self.newest += 1;
        PictureAttempt::new(self.newest)
    }

    /// Marks of the published maps to carry over to the newest attempt's maps; `None`: all pages are marked.
    pub(crate) fn marks_to_carry(&self) -> Option<PageMarks> {
        self.carried
    }

    /// True if the attempt's maps may be published: no newer attempt has begun.
    pub(crate) fn may_publish(&mut self, attempt: PictureAttempt) -> bool {
        debug_assert!(attempt.number() <= self.newest, "attempts are named as they begin");
        let is_newest = attempt.number() == self.newest;
        debug_assert!(!(is_newest && self.is_published), "an attempt is published once");
        self.is_published |= is_newest;
        self.has_marks |= is_newest && self.carried.is_none();
        is_newest
    }

    /// Notes that the attempt's maps were published; `epoch` is E after the publication.
    pub(crate) fn note_published(&mut self, attempt: PictureAttempt, epoch: Epoch) {
        if attempt.number() == self.newest {
            self.marks_due = Some(epoch.plus(2));
        }
    }

    /// Marks still to carry over to the newest attempt's maps, if the attempt ended too early and no commit has an
    /// older map now (N7, N13).
    pub(crate) fn marks_missed(&self, epoch: Epoch) -> Option<PageMarks> {
        let is_due = self.marks_due.is_some_and(|due| epoch >= due);
        self.carried.filter(|_| is_due && !self.has_marks && !self.is_published)
    }

    /// Notes that the missed marks are carried over.
    pub(crate) fn note_caught_up(&mut self) {
        debug_assert!(!self.has_marks && !self.is_published, "marks were missed");
        self.has_marks = true;
    }

    /// True if the attempt's pages can be taken.
    pub(crate) fn goes_on(&self, attempt: PictureAttempt) -> bool {
        attempt.number() == self.newest && self.is_published
    }

    /// Notes that the attempt's maps have all marks.
    pub(crate) fn note_carried_over(&mut self, attempt: PictureAttempt) {
        debug_assert!(self.goes_on(attempt), "marks are carried over while the attempt goes on");
        self.has_marks = true;
    }

    /// Notes that the attempt's picture is installed. If a newer attempt has begun, it carries over all marks: more
    /// than needed.
    pub(crate) fn note_installed(&mut self, attempt: PictureAttempt) {
        let is_newest = attempt.number() == self.newest;
        debug_assert!(!is_newest || self.has_marks, "a picture has all changes below its freeze");
        self.is_installed |= is_newest;
    }

    /// Ends the newest attempt. Returns the attempt, for the close of its pages; `None` if the maps are not published
    /// or the attempt was ended before.
    pub(crate) fn end(&mut self) -> Option<PictureAttempt> {
        std::mem::take(&mut self.is_published).then(|| PictureAttempt::new(self.newest))
    }

    /// As [`PictureAttempts::end`], if this attempt is the newest. An older attempt was ended before (N13).
    pub(crate) fn end_if_newest(&mut self, attempt: PictureAttempt) -> Option<PictureAttempt> {
        if attempt.number() == self.newest { self.end() } else { None }
    }

    /// Ends the newest attempt for this reason, as [`PictureAttempts::end`] does.
    pub(crate) fn abandon_newest(&mut self, why: PagesEnded) -> Option<PictureAttempt> {
        let ended = self.end();
        if ended.is_some() {
            self.gave_way = Some((self.newest, why));
        }
        ended
    }

    /// Reason for the end of an attempt.
    pub(crate) fn why_ended(&self, attempt: PictureAttempt) -> PagesEnded {
        match self.gave_way {
            Some((number, why)) if number == attempt.number() => why,
            _ => PagesEnded::Ended,
        }
    }
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
    /// Creates the state. `has_maps`: a picture was loaded, and tables have maps from the beginning.
    pub(super) fn new(settings: &Settings, has_maps: bool) -> Self {
        let attempts = if has_maps { PictureAttempts::behind_load() } else { PictureAttempts::default() };
        Self {
            is_under_way: CachePadded::default(),
            attempts: Mutex::new(attempts),
            is_semi_fuzzy: settings.semi_fuzzy,
            bytes_max: settings.displaced_bytes_max,
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

    /// Keeps lists of an ended picture. [`SharedState::free_ended_step`] frees the versions in steps.
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

    /// Notes that maps may wait for pins, or that versions may come late. [`SharedState::collect_after_pictures`] frees
    /// both.
    pub(crate) fn expect_remains(&self) {
        // Release: publishes the remains; partner: the Acquire in `collect_after_pictures`.
        self.has_remains.store(true, Ordering::Release);
    }

    /// Displaced bytes that are not freed; `displaced` returns the displaced bytes since the open.
    fn waiting_bytes(&self, displaced: impl FnOnce() -> u64) -> u64 {
        let displaced = displaced();
        // Acquire: the displaced bytes are read before the freed bytes. Versions displaced and freed between the two
        // reads count as freed only. The result may be too low by these bytes, and is never too high: a picture gives
        // way at a high figure.
        fence(Ordering::Acquire);
        // Relaxed: a figure; the fence above orders the read.
        displaced.saturating_sub(self.freed_bytes.load(Ordering::Relaxed))
    }

    /// Releases the memory of the buffers.
    fn give_memory_back(&self) {
        self.blocks.lock().clear();
        self.spaces.lock().clear();
    }
}

impl SharedState {
    /// True if a picture is under way. A commit uses this hint before it binds.
    #[inline]
    pub(crate) fn has_picture_under_way(&self) -> bool {
        self.pictures.as_ref().is_some_and(Pictures::is_under_way)
    }

    /// True if commits leave displaced versions to the lists of their workers.
    #[inline]
    pub(crate) fn has_semi_fuzzy_pictures(&self) -> bool {
        self.pictures.as_ref().is_some_and(|pictures| pictures.is_semi_fuzzy)
    }

    /// Takes versions left to this attempt and frees them, until `put` has no room for a version. Returns true if
    /// versions remain.
    pub(crate) fn take_displaced_until(
        &self,
        attempt: PictureAttempt,
        mut put: impl FnMut(&PendingRemove) -> bool,
    ) -> Result<bool, PagesEnded> {
        let Some(pictures) = &self.pictures else { unreachable!("nothing is displaced without pictures") };
        let mut done = Vec::new();
        let has_more = {
            let mut taken = pictures.taken.lock();
            let of_attempt = taken.attempt.filter(|(under_way, _)| *under_way == attempt);
            let Some((_, since)) = of_attempt else {
                drop(taken);
                return Err(pictures.why_ended(attempt));
            };
            self.take_lists(&mut taken);
            loop {
                let Some(version) = taken.next() else { break false };
                // A version with another `since` comes from a late commit. Its picture has ended (N13).
                if version.place().since == since && !put(&version) {
                    taken.first = Some(version);
                    break true;
                }
                done.push(version);
            }
        };
        self.free_displaced(done);
        Ok(has_more)
    }

    /// Takes the lists of all workers since the open (N9).
    fn take_lists(&self, taken: &mut TakenVersions) {
        self.each_worker(|worker| taken.lists.extend(worker.displaced.take()));
    }

    /// Puts aside the lists of workers after the end of a picture with closed pages. The versions are freed in steps.
    pub(crate) fn drop_displaced(&self) {
        let Some(pictures) = &self.pictures else { return };
        let mut taken = pictures.taken.lock();
        debug_assert!(taken.attempt.is_none(), "it was ended before");
        self.take_lists(&mut taken);
        pictures.put_aside(taken.lists.drain(..));
        self.free_displaced(taken.first.take());
        // SeqCst: the pages were closed before E is read; partner: a commit's fence after the read of its epoch (C1). A
        // commit of a later epoch finds the pages closed (E2).
        fence(Ordering::SeqCst);
        taken.ended = Some(self.epochs.now());
    }

    /// Puts aside versions of late commits: commits that found a page open at the end of the picture. True if no late
    /// commit remains.
    fn drop_late_versions(&self, pictures: &Pictures) -> bool {
        let mut taken = pictures.taken.lock();
        let Some(ended) = taken.ended else { return true };
        debug_assert!(taken.attempt.is_none(), "a picture under way frees what it finds");
        if self.epochs.now() < ended.plus(2) {
            return false;
        }
        taken.ended = None;
        self.take_lists(&mut taken);
        pictures.put_aside(taken.lists.drain(..));
        true
    }

    /// Displaced bytes that are not freed, and the peak of this figure. Neither figure is too high.
    pub(crate) fn displaced_bytes(&self) -> (u64, u64) {
        let Some(pictures) = &self.pictures else { return (0, 0) };
        let now = pictures.waiting_bytes(|| self.sum(|worker| &worker.displaced_bytes));
        // Relaxed: a figure.
        (now, pictures.peak_bytes.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// Frees displaced versions taken out of a list. The peak is noted before, because the displaced bytes are highest
    /// then.
    pub(crate) fn free_displaced(&self, versions: impl IntoIterator<Item = PendingRemove>) {
        let Some(pictures) = &self.pictures else { unreachable!("nothing is displaced without pictures") };
        let mut versions = versions.into_iter().peekable();
        if versions.peek().is_none() {
            return;
        }
        let _noted = self.displaced_bytes();
        let own = pictures.blocks.lock().pop();
        let mut blocks = own.unwrap_or_else(|| Blocks::new(self.memory.cache()));
        let freed: usize = versions.map(|version| blocks.free_pending(version)).sum();
        pictures.blocks.lock().push(blocks);
        // Relaxed: a figure.
        pictures.freed_bytes.fetch_add(freed as u64, Ordering::Relaxed);
    }

    /// Reason to end the picture under way, if commits have displaced more than the limit.
    pub(crate) fn displaced_too_much(&self) -> Option<PagesEnded> {
        let pictures = self.pictures.as_ref().filter(|pictures| pictures.is_under_way())?;
        let ((displaced_bytes, _), displaced_bytes_max) = (self.displaced_bytes(), pictures.bytes_max);
        (displaced_bytes > displaced_bytes_max)
            .then_some(PagesEnded::GaveWay { displaced_bytes, displaced_bytes_max })
    }

    /// Frees some versions of ended pictures. False if no version remains.
    pub(crate) fn free_ended_step(&self) -> bool {
        let Some(pictures) = &self.pictures else { return false };
        let (mut versions, mut bytes) = (Vec::new(), 0);
        let has_more = {
            let mut ended = pictures.ended.lock();
            while versions.len() < FREED_PER_STEP
                && bytes < FREED_BYTES_PER_STEP
                && let Some(version) = next_of(&mut ended)
            {
                bytes += version.bytes();
                versions.push(version);
            }
            !ended.is_empty()
        };
        if !versions.is_empty() {
            self.free_displaced(versions);
            if !has_more && !pictures.is_under_way() {
                pictures.give_memory_back();
            }
        }
        has_more
    }

    /// Frees all versions of ended pictures.
    pub(crate) fn free_ended(&self) {
        while self.free_ended_step() {}
        // Buffers may remain of a picture that another thread has ended in the meantime.
        if let Some(pictures) = self.pictures.as_ref().filter(|pictures| !pictures.is_under_way()) {
            pictures.give_memory_back();
        }
    }

    /// Frees all versions in lists, and panics if the waiting bytes are not zero afterwards.
    #[cfg(feature = "audit")]
    pub(super) fn free_all_displaced(&self) {
        let Some(pictures) = &self.pictures else { return };
        let mut taken = pictures.taken.lock();
        self.take_lists(&mut taken);
        let versions: Vec<_> = std::iter::from_fn(|| taken.next()).collect();
        drop(taken);
        self.free_displaced(versions);
        while self.free_ended_step() {}
        pictures.give_memory_back();
        let displaced = self.sum(|worker| &worker.displaced_bytes);
        // Relaxed: a figure; its writers have ended.
        let freed = pictures.freed_bytes.load(Ordering::Relaxed);
        assert_eq!(freed, displaced, "bytes of versions that were freed, and that were left to pictures");
    }

    /// Frees maps of former pictures without pins (E3), and versions that came late. A step of the heartbeat.
    pub(crate) fn collect_after_pictures(&self) {
        let Some(pictures) = &self.pictures else { return };
        // Relaxed: the next tick finds a missed change. Most ticks find no remains and write nothing.
        if !pictures.has_remains.load(Ordering::Relaxed) {
            return;
        }
        // Acquire: the remains are read after this load; partner: the Release in `expect_remains`.
        if !pictures.has_remains.swap(false, Ordering::Acquire) {
            return;
        }
        let mut is_done = self.drop_late_versions(pictures);
        for (_, table) in self.logged_tables.all_tables() {
            is_done &= table.pages.collect(&self.epochs);
        }
        if !is_done {
            // The next tick looks again.
            pictures.expect_remains();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
