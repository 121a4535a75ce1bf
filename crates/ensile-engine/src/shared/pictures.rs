//! What a database has that takes pictures: whether one is under way, what was displaced and how much (SIREN, §3.1,
//! §3.3).
//!
//! Invariants:
//! - N9: all workers' lists are taken, also of workers that are idle or whose threads have ended.
//! - N13: attempts are published and ended one at a time, under one lock, and an attempt that is not the newest one is
//!   over. Of what is taken, only what was left to this attempt is handed out. An attempt whose picture is not known to
//!   be installed hands all its marks on to the next one. If it has no whole marks itself, and it is too early to make
//!   them whole, every page of that is marked.
//! - N10, N14: a picture that was loaded stands for an attempt that was not installed, and has whole marks: those of
//!   load and replay.
//! - K3: an attempt gives way to commits that displace more than may wait. No commit waits for that, and none fails.
//!   The heartbeat neither closes pages nor frees what that leaves at a stretch, as epochs would wait for it.
//!
//! Neighbours: commits look and count (`commit::displaced`), `open::pages` begins and ends pictures and frees what they
//! have taken; `database::health` reports.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::limits::KEEP_BYTES_MAX;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use ensile_durability::{PageContents, PagesEnded, PictureAttempt, WantedPages};

use super::{Settings, SharedState};
use crate::record::Scratch;
use crate::record::blocks::Blocks;
use crate::record::page_map::LOADED;
use crate::record::pending::{PageMarks, PendingList, PendingRemove};

/// Pages that a step closes of a picture that has ended, at most. Few under shuttle, so that commits come in between.
pub(crate) const CLOSED_PER_STEP: usize = if cfg!(shuttle) { 2 } else { 1024 };
/// Versions that a step frees of what pictures that have ended have left, at most, and bytes behind which it ends.
const FREED_PER_STEP: usize = 1024;
const FREED_BYTES_PER_STEP: usize = 16 << 20;

/// Of a database that takes pictures.
#[derive(Debug)]
pub(crate) struct Pictures {
    is_under_way: CachePadded<AtomicBool>,
    /// No commit takes this lock.
    pub(crate) attempts: Mutex<PictureAttempts>,
    /// Commits leave to their workers' lists what they displace, and not to the pages'.
    is_semi_fuzzy: bool,
    /// Bytes of displaced versions that may wait for a picture.
    bytes_max: u64,
    taken: Mutex<TakenVersions>,
    /// Lists of pictures that have ended. Nobody needs what is in them.
    ended: Mutex<Vec<PendingList>>,
    /// Bytes of displaced versions that were freed since the database was opened. What was displaced is counted by
    /// workers.
    freed_bytes: AtomicU64,
    /// The most that there ever were at once.
    peak_bytes: AtomicU64,
    /// Whether there may be maps that were unpublished and not freed, or versions that came late.
    has_remains: AtomicBool,
    /// What checkpointers free into.
    blocks: Mutex<Vec<Blocks>>,
    /// What checkpointers take pages with.
    spaces: Mutex<Vec<PageSpace>>,
}

/// What a checkpointer takes pages with: it goes from page to page.
#[derive(Debug, Default)]
pub(crate) struct PageSpace {
    /// Where a row is read to.
    pub(crate) scratch: Scratch,
    /// What commits have left of the page.
    pub(crate) left: Vec<PendingRemove>,
    /// What its walk has found, while the two are merged.
    pub(crate) walked: PageContents,
}

impl PageSpace {
    /// Gives back what an unusually large page took.
    fn shrink(&mut self) {
        debug_assert!(self.left.is_empty() && self.walked.entries() == 0, "the page was taken");
        if self.scratch.kept_bytes() > KEEP_BYTES_MAX {
            self.scratch = Scratch::default();
        }
        self.left.shrink_to(KEEP_BYTES_MAX / size_of::<PendingRemove>());
        // Its bytes are bounded where it is cleared.
        debug_assert!(self.left.capacity() * size_of::<PendingRemove>() <= 2 * KEEP_BYTES_MAX);
    }
}

/// The attempts at pictures that there ever were.
#[derive(Debug, Default)]
pub(crate) struct PictureAttempts {
    /// The number of the newest one.
    newest: u64,
    /// Its maps are published, and it has not ended.
    is_published: bool,
    /// Marks of the maps before that are carried over to its maps; `None`: all pages are marked.
    carried: Option<PageMarks>,
    /// Its maps are published, and have all marks.
    has_marks: bool,
    /// Until these are carried over: from which E on no commit has an older map.
    marks_due: Option<Epoch>,
    /// Its picture is installed.
    is_installed: bool,
    /// Maps of one that has ended, until the last of their pages is closed.
    ending: Option<EndingMaps>,
    /// The last one that gave way, and why.
    gave_way: Option<(u64, PagesEnded)>,
}

/// Maps of an attempt that has ended: their pages are closed step by step.
#[derive(Debug)]
pub(crate) struct EndingMaps {
    pub(crate) attempt: PictureAttempt,
    /// Tables whose pages are not all closed. The last of them is next.
    pub(crate) tables: Vec<u32>,
    /// Pages of that one's map that are closed.
    pub(crate) closed: usize,
}

impl PictureAttempts {
    /// Behind the load of a picture: its maps are published, with all marks.
    fn behind_load() -> Self {
        Self { newest: LOADED.number(), has_marks: true, ..Self::default() }
    }

    /// Begins another one. The last one has ended.
    pub(crate) fn begin(&mut self, wanted: WantedPages) -> PictureAttempt {
        debug_assert!(!self.is_published, "one picture at a time");
        // What an installed picture has written is done with (N13).
        let carried = if self.is_installed { PageMarks::AFTER } else { PageMarks::BOTH };
        let is_carried_over = wanted == WantedPages::Changed && self.has_marks;
        self.carried = is_carried_over.then_some(carried);
        (self.has_marks, self.is_installed, self.marks_due) = (false, false, None);
        self.newest += 1;
        PictureAttempt::new(self.newest)
    }

    /// Marks of the maps that are published which the newest attempt's are to have; `None`: all pages are marked.
    pub(crate) fn carried(&self) -> Option<PageMarks> {
        self.carried
    }

    /// Whether this one's maps may be published: no other one has begun.
    pub(crate) fn may_publish(&mut self, attempt: PictureAttempt) -> bool {
        debug_assert!(attempt.number() <= self.newest, "attempts are named as they begin");
        let is_newest = attempt.number() == self.newest;
        debug_assert!(!(is_newest && self.is_published), "an attempt is published once");
        // Only the newest one is published: pages of what was ended before it began were closed then.
        assert!(
            !is_newest || self.ending.is_none(),
            "no maps are published beside a former one's open pages (N13)"
        );
        self.is_published |= is_newest;
        self.has_marks |= is_newest && self.carried.is_none();
        is_newest
    }

    /// This one's maps are published; E was `epoch` behind that.
    pub(crate) fn was_published(&mut self, attempt: PictureAttempt, epoch: Epoch) {
        if attempt.number() == self.newest {
            self.marks_due = Some(epoch.plus(2));
        }
    }

    /// Marks that the newest attempt's maps are to have, if that has ended before they were carried over, and no commit
    /// has an older map by now (N7, N13).
    pub(crate) fn marks_missed(&self, epoch: Epoch) -> Option<PageMarks> {
        let is_due = self.marks_due.is_some_and(|due| epoch >= due);
        self.carried.filter(|_| is_due && !self.has_marks && !self.is_published)
    }

    /// What was missed is carried over.
    pub(crate) fn has_caught_up(&mut self) {
        debug_assert!(!self.has_marks && !self.is_published, "marks were missed");
        self.has_marks = true;
    }

    /// Whether this one's pages can be taken.
    pub(crate) fn goes_on(&self, attempt: PictureAttempt) -> bool {
        attempt.number() == self.newest && self.is_published
    }

    /// This one's maps have all marks now.
    pub(crate) fn has_carried_over(&mut self, attempt: PictureAttempt) {
        debug_assert!(self.goes_on(attempt), "marks are carried over while the attempt goes on");
        self.has_marks = true;
    }

    /// This one's picture is installed. If another one has begun, that carries all marks over: they are more than
    /// needed.
    pub(crate) fn installed(&mut self, attempt: PictureAttempt) {
        let is_newest = attempt.number() == self.newest;
        debug_assert!(!is_newest || self.has_marks, "a picture has all changes below its freeze");
        self.is_installed |= is_newest;
    }

    /// Ends the newest one, if nobody has, once its maps were published: its name. Its pages are to be closed.
    pub(crate) fn end(&mut self) -> Option<PictureAttempt> {
        std::mem::take(&mut self.is_published).then(|| PictureAttempt::new(self.newest))
    }

    /// As [`PictureAttempts::end`], if this is the newest one. An older one was ended before (N13).
    pub(crate) fn end_if_newest(&mut self, attempt: PictureAttempt) -> Option<PictureAttempt> {
        if attempt.number() == self.newest { self.end() } else { None }
    }

    /// As [`PictureAttempts::end`], for this reason.
    pub(crate) fn give_way(&mut self, why: PagesEnded) -> Option<PictureAttempt> {
        let ended = self.end();
        if ended.is_some() {
            self.gave_way = Some((self.newest, why));
        }
        ended
    }

    /// The pages of these are to be closed.
    pub(crate) fn begin_to_close_pages(&mut self, ending: EndingMaps) {
        debug_assert!(!self.is_published && self.ending.is_none(), "one attempt's maps are published");
        self.ending = Some(ending);
    }

    /// What is still to be closed.
    pub(crate) fn ending(&mut self) -> Option<&mut EndingMaps> {
        self.ending.as_mut()
    }

    /// No page is open any more.
    pub(crate) fn were_closed(&mut self) {
        let ended = self.ending.take();
        debug_assert!(ended.is_some_and(|ended| ended.tables.is_empty()), "all of them were closed");
    }

    /// Why nothing can be taken of an attempt that has ended.
    pub(crate) fn why_ended(&self, attempt: PictureAttempt) -> PagesEnded {
        match self.gave_way {
            Some((number, why)) if number == attempt.number() => why,
            _ => PagesEnded::Ended,
        }
    }
}

/// What was taken of workers' lists and is in no block yet.
#[derive(Debug, Default)]
struct TakenVersions {
    /// The attempt under way, and what its maps are of; `None`: no picture is under way.
    attempt: Option<(PictureAttempt, Epoch)>,
    /// E, read behind the end of the last picture, until what came late was looked for.
    ended: Option<Epoch>,
    lists: Vec<PendingList>,
    /// The one that found no room.
    first: Option<PendingRemove>,
}

impl TakenVersions {
    fn next(&mut self) -> Option<PendingRemove> {
        self.first.take().or_else(|| next_of(&mut self.lists))
    }
}

/// The next version in these lists. One that is through is dropped with its last version: so there are lists as long as
/// there are versions.
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
    /// `has_maps`: a picture was loaded, and tables have maps from the beginning.
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

    /// What a page is taken with: to be given back.
    pub(crate) fn page_space(&self) -> PageSpace {
        self.spaces.lock().pop().unwrap_or_default()
    }

    /// The page was taken: the next one is taken with this.
    pub(crate) fn keep_page_space(&self, mut space: PageSpace) {
        space.shrink();
        if self.is_under_way() {
            self.spaces.lock().push(space);
        }
    }

    /// The attempt's maps are published, and of this freeze: what is left to them from now on is handed out.
    pub(crate) fn may_take(&self, attempt: PictureAttempt, since: Epoch) {
        let mut taken = self.taken.lock();
        debug_assert!(taken.attempt.is_none(), "the picture before has ended");
        // What came late to that one is freed where it is found (N13).
        (taken.attempt, taken.ended) = (Some((attempt, since)), None);
    }

    /// The attempt under way has ended: nothing that was left to it is handed out.
    pub(crate) fn take_no_more(&self) {
        self.taken.lock().attempt = None;
    }

    /// Why nothing can be taken of an attempt that has ended.
    pub(crate) fn why_ended(&self, attempt: PictureAttempt) -> PagesEnded {
        self.attempts.lock().why_ended(attempt)
    }

    /// Lists of a picture that has ended: they are freed step by step.
    pub(crate) fn put_aside(&self, lists: impl IntoIterator<Item = PendingList>) {
        self.ended.lock().extend(lists.into_iter().filter(|list| !list.is_empty()));
    }

    /// Whether commits may leave anything. Only a guess.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        // Relaxed: who misses it looks again, and a commit's locks find what was not copied before them.
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// A picture's maps are about to be published.
    pub(crate) fn begin(&self) {
        // Relaxed: as in `is_under_way`.
        self.is_under_way.store(true, Ordering::Relaxed);
    }

    /// The picture's pages are closed.
    pub(crate) fn end(&self) {
        // Relaxed: as in `is_under_way`.
        self.is_under_way.store(false, Ordering::Relaxed);
        self.expect_remains();
        self.give_memory_back();
    }

    /// There may be maps that wait for pins, or versions that come late.
    pub(crate) fn expect_remains(&self) {
        // Release: what remains is there; partner: the Acquire in `collect_after_pictures`.
        self.has_remains.store(true, Ordering::Release);
    }

    /// Bytes that were displaced and not freed; `displaced` counts what ever was displaced.
    fn waiting_bytes(&self, displaced: impl FnOnce() -> u64) -> u64 {
        let displaced = displaced();
        // Acquire: what was displaced is read before what was freed. So what comes and goes in between counts as freed
        // only: less is said than there is, by that at most, and never more, as a picture gives way for more.
        fence(Ordering::Acquire);
        // Relaxed: a figure; the fence says when it is read.
        displaced.saturating_sub(self.freed_bytes.load(Ordering::Relaxed))
    }

    /// What is left of what was freed serves others.
    fn give_memory_back(&self) {
        self.blocks.lock().clear();
        self.spaces.lock().clear();
    }
}

impl SharedState {
    /// Whether a picture is under way: a commit guesses by it, before it binds.
    #[inline]
    pub(crate) fn has_picture_under_way(&self) -> bool {
        self.pictures.as_ref().is_some_and(Pictures::is_under_way)
    }

    /// Whether commits leave to their workers' lists what they displace.
    #[inline]
    pub(crate) fn has_semi_fuzzy_pictures(&self) -> bool {
        self.pictures.as_ref().is_some_and(|pictures| pictures.is_semi_fuzzy)
    }

    /// Takes versions that commits have left to this attempt, and frees them, until `put` has no room for one. True if
    /// there are more.
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
                // Of another `since`: a commit was late, and its picture has ended (N13).
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

    /// Takes the lists of all workers that there ever were (N9).
    fn take_lists(&self, taken: &mut TakenVersions) {
        self.each_worker(|worker| taken.lists.extend(worker.displaced.take()));
    }

    /// The picture has ended, and its pages are closed: what is in workers' lists is freed step by step.
    pub(crate) fn drop_displaced(&self) {
        let Some(pictures) = &self.pictures else { return };
        let mut taken = pictures.taken.lock();
        debug_assert!(taken.attempt.is_none(), "it was ended before");
        self.take_lists(&mut taken);
        pictures.put_aside(taken.lists.drain(..));
        self.free_displaced(taken.first.take());
        // SeqCst: the pages were closed before E is read; partner: a commit's fence behind its epoch (C1). A commit of
        // a later epoch finds them closed (E2).
        fence(Ordering::SeqCst);
        taken.ended = Some(self.epochs.now());
    }

    /// Puts aside what commits have left that were late: they had found a page open when the picture ended. True if no
    /// commit is that late any more.
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

    /// Bytes of displaced versions that are not freed yet, and the most that there ever were at once. Neither is more
    /// than there was.
    pub(crate) fn displaced_bytes(&self) -> (u64, u64) {
        let Some(pictures) = &self.pictures else { return (0, 0) };
        let now = pictures.waiting_bytes(|| self.sum(|worker| &worker.displaced_bytes));
        // Relaxed: a figure.
        (now, pictures.peak_bytes.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// Frees versions that a list has given up. There are never more than just before that.
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

    /// If commits have displaced more than may wait for the picture under way: says why that is to end.
    pub(crate) fn displaced_too_much(&self) -> Option<PagesEnded> {
        let pictures = self.pictures.as_ref().filter(|pictures| pictures.is_under_way())?;
        let ((displaced_bytes, _), displaced_bytes_max) = (self.displaced_bytes(), pictures.bytes_max);
        (displaced_bytes > displaced_bytes_max)
            .then_some(PagesEnded::GaveWay { displaced_bytes, displaced_bytes_max })
    }

    /// Frees some of what pictures that have ended have left. False if nothing more is there.
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

    /// Frees all that pictures that have ended have left.
    pub(crate) fn free_ended(&self) {
        while self.free_ended_step() {}
        // Also what was taken for a picture whose last pages another thread has closed meanwhile.
        if let Some(pictures) = self.pictures.as_ref().filter(|pictures| !pictures.is_under_way()) {
            pictures.give_memory_back();
        }
    }

    /// Frees all versions that are in a list, and panics unless the figure of those that wait comes to zero with it.
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
        // Relaxed: a figure, whose writers have ended.
        let freed = pictures.freed_bytes.load(Ordering::Relaxed);
        assert_eq!(freed, displaced, "bytes of versions that were freed, and that were left to pictures");
    }

    /// Frees the maps of former pictures that no pin reaches any more (E3), and versions that were left too late. A
    /// step of the heartbeat.
    pub(crate) fn collect_after_pictures(&self) {
        let Some(pictures) = &self.pictures else { return };
        // Relaxed: what is missed is found at the next tick. Most ticks find nothing, and write nothing.
        if !pictures.has_remains.load(Ordering::Relaxed) {
            return;
        }
        // Acquire: what remains is found behind this; partner: the Release in `expect_remains`.
        if !pictures.has_remains.swap(false, Ordering::Acquire) {
            return;
        }
        let mut is_done = self.drop_late_versions(pictures);
        for (_, table) in self.logged_tables.all() {
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
