//! Space of removed files, freed in pieces with pauses: a file system mounted with `discard` sends the discards of
//! freed space to the device during the next sync, and concurrent syncs wait. The discard of a whole log file delays
//! commits by 11 ms, the discard of a piece by less than 1 ms.
//!
//! Invariants:
//! - K1: space is freed only after the removal of the file's name is durable.
//! - N20: the disk holds the space of a removed file only if no other process or handle can read the file.
//! - Space is held only while its device has much free space, so a full disk has no held space.
//!
//! Neighbours: `log::removal` and the checkpoints hand space over; checkpointer 0 frees the pieces.

use std::collections::VecDeque;
use std::time::Duration;

use ensile_base::sync::Mutex;
use ensile_disk::{Disk, KeptSpace};

const PIECE_BYTES: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(10);
/// Largest number of removed files that wait, each with a descriptor. Above it, the oldest frees its space at once.
const FILES_MAX: usize = 64;
/// Free bytes of a device below which no space is held on the device.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// Space of removed files that waits to be freed.
#[derive(Debug, Default)]
pub(crate) struct ReturnedSpace {
    /// No panic under this lock leaves a half-changed value.
    waiting: Mutex<WaitingSpace>,
}

#[derive(Debug, Default)]
struct WaitingSpace {
    /// Removed files, oldest first.
    files: VecDeque<HeldFile>,
    /// Time of the next piece, in nanoseconds of the clock.
    due_nanos: u64,
}

/// A removed file, and the folder of its former name.
#[derive(Debug)]
struct HeldFile {
    folder: String,
    space: Box<dyn KeptSpace>,
}

impl HeldFile {
    /// Frees all space. The drop of the handle is not enough, because a forked child has the handle too.
    fn free(mut self) {
        self.space.give_back(u64::MAX);
    }
}

impl ReturnedSpace {
    /// Takes over the spaces of files that were removed from a folder. The caller has synced the removal of the names.
    pub(crate) fn keep(&self, disk: &dyn Disk, folder: &str, spaces: Vec<Box<dyn KeptSpace>>) {
        if spaces.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock();
        let files = spaces.into_iter().map(|space| HeldFile { folder: folder.to_owned(), space });
        waiting.files.extend(files);
        let surplus = waiting.files.len().saturating_sub(FILES_MAX);
        waiting.files.drain(..surplus).for_each(HeldFile::free);
        debug_assert!(waiting.files.len() <= FILES_MAX, "each file takes a descriptor");
        waiting.free_if_short(disk);
    }

    /// Frees a piece of the oldest file, if due. Returns the time until the next piece; `None` if no space waits.
    pub(crate) fn step(&self, disk: &dyn Disk, now_nanos: u64) -> Option<Duration> {
        let mut waiting = self.waiting.lock();
        if waiting.files.is_empty() {
            return None;
        }
        if now_nanos >= waiting.due_nanos {
            waiting.free_if_short(disk);
            waiting.due_nanos = now_nanos + PAUSE.as_nanos() as u64;
            let oldest = waiting.files.front_mut()?;
            if oldest.space.give_back(PIECE_BYTES) == 0 {
                waiting.files.pop_front();
            }
        }
        let wait = Duration::from_nanos(waiting.due_nanos.saturating_sub(now_nanos));
        debug_assert!(wait <= PAUSE, "the next piece is due after {wait:?}");
        (!waiting.files.is_empty()).then_some(wait)
    }

    /// Frees all space at once, for a caller that needs the space. True if space was waiting.
    pub(crate) fn free_all(&self) -> bool {
        self.waiting.lock().free_all()
    }
}

impl WaitingSpace {
    /// Frees all space if a device has little free space.
    fn free_if_short(&mut self, disk: &dyn Disk) {
        let mut folders: Vec<&str> = self.files.iter().map(|file| &*file.folder).collect();
        folders.sort_unstable();
        folders.dedup();
        let is_short =
            |folder: &str| disk.free_bytes(folder).ok().flatten().is_none_or(|free| free < FREE_BYTES_MIN);
        if folders.into_iter().any(is_short) {
            self.free_all();
        }
    }

    fn free_all(&mut self) -> bool {
        let had_any = !self.files.is_empty();
        self.files.drain(..).for_each(HeldFile::free);
        had_any
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
