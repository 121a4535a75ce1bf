//! What a database has that takes pictures: whether one is under way, and how much was displaced (SIREN, §3.1).
//!
//! Invariant (N1): a picture counts as under way from before the first map is published until after the last one was
//! taken back. So a commit that finds none needs to look for no map.
//!
//! Neighbours: commits look and count (`commit::displaced`), `open::pages` begins and ends pictures and frees what they
//! have taken; `database::health` reports.

use crossbeam_utils::CachePadded;
use ensile_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

use super::SharedState;
use crate::record::blocks::Blocks;
use crate::record::pending::PendingRemove;

/// Of a database that takes pictures.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    is_under_way: CachePadded<AtomicBool>,
    /// Bytes of displaced versions that were freed since the database was opened. What was displaced is counted by
    /// workers.
    freed_bytes: AtomicU64,
    /// The most that there ever were at once.
    peak_bytes: AtomicU64,
    /// Whether there may be maps that were unpublished and not freed.
    has_old_maps: AtomicBool,
    /// What checkpointers free into.
    blocks: Mutex<Vec<Blocks>>,
}

impl Pictures {
    /// Whether commits may find maps.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        // Acquire: partner is the Release in `begin`. A commit of the freeze's epoch sees that by E: the freeze is
        // announced behind `begin`, and E reaches it later (N1).
        self.is_under_way.load(Ordering::Acquire)
    }

    /// A picture's maps are about to be published.
    pub(crate) fn begin(&self) {
        // Release: partner is the Acquire in `is_under_way`. The freeze is announced behind this (N1).
        self.is_under_way.store(true, Ordering::Release);
    }

    /// No map is published any more.
    pub(crate) fn end(&self) {
        // Release: partner is the Acquire in `is_under_way`; the maps were taken back before.
        self.is_under_way.store(false, Ordering::Release);
        // Relaxed: the heartbeat looks again at its next tick.
        self.has_old_maps.store(true, Ordering::Relaxed);
        // What is left of their memory serves others.
        self.blocks.lock().clear();
    }
}

impl SharedState {
    /// Whether a picture is under way: a commit asks behind its last fence (C1, N1).
    #[inline]
    pub(crate) fn has_picture_under_way(&self) -> bool {
        self.pictures.as_ref().is_some_and(Pictures::is_under_way)
    }

    /// Bytes of displaced versions that a picture has not taken yet, and the most that there ever were at once.
    pub(crate) fn displaced_bytes(&self) -> (u64, u64) {
        let Some(pictures) = &self.pictures else { return (0, 0) };
        // Relaxed, both: figures. What was freed was displaced before: a sum that misses it says less, and not more.
        let freed = pictures.freed_bytes.load(Ordering::Relaxed);
        let now = self.sum(|worker| &worker.displaced_bytes).saturating_sub(freed);
        // Relaxed: a figure.
        (now, pictures.peak_bytes.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// Frees versions that a page's list has given up. There are never more than just before that.
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

    /// Frees the maps of former pictures that no pin reaches any more (E3). A step of the heartbeat.
    pub(crate) fn collect_maps(&self) {
        let Some(pictures) = &self.pictures else { return };
        // Relaxed, both: what is missed is found at the next tick.
        if !pictures.has_old_maps.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut is_done = true;
        for (_, table) in self.logged_tables.all() {
            is_done &= table.pages.collect(&self.epochs);
        }
        if !is_done {
            // Relaxed: the next tick looks again.
            pictures.has_old_maps.store(true, Ordering::Relaxed);
        }
    }
}
