//! Space of removed files, freed in pieces with pauses.
//!
//! A file system that is mounted with `discard` sends the discards of freed space to the device during the next sync,
//! and concurrent syncs wait for the discards. The discard of a whole log file delays commits by 11 ms, the discard of
//! a piece by less than 1 ms.
//!
//! Invariants:
//! - K1: space is freed only after the removal of the file's name is durable. So no crash leaves a name that leads to a
//!   truncated file.
//! - N20: the disk holds the space of a removed file only if no other process or handle can read the file.
//! - When the disk becomes full, all space is freed at once.
//!
//! Neighbours: `log::removal` and the checkpoints hand space over; checkpointer 0 gives the pieces back.

use std::collections::VecDeque;
use std::time::Duration;

use ensile_base::sync::Mutex;
use ensile_disk::KeptSpace;

/// Length of a piece in bytes.
const PIECE_BYTES: u64 = 4 << 20;
/// Pause from piece to piece.
const PAUSE: Duration = Duration::from_millis(10);
/// Largest number of removed files that wait. Each takes a file descriptor of the process. Above this number, the
/// oldest file frees all its space at once.
const FILES_MAX: usize = 64;

/// Space that waits.
#[derive(Debug, Default)]
pub(crate) struct ReturnedSpace {
    /// No panic under this lock leaves a half-changed value.
    waiting: Mutex<WaitingSpace>,
}

#[derive(Debug, Default)]
struct WaitingSpace {
    /// Spaces of removed files, oldest first.
    files: VecDeque<Box<dyn KeptSpace>>,
    /// Time of the next piece, in nanoseconds of the clock.
    due_nanos: u64,
}

impl ReturnedSpace {
    /// Takes the spaces of removed files. The removal of the files' names is durable.
    pub(crate) fn keep(&self, files: Vec<Box<dyn KeptSpace>>) {
        let mut waiting = self.waiting.lock();
        waiting.files.extend(files);
        let surplus = waiting.files.len().saturating_sub(FILES_MAX);
        waiting.files.drain(..surplus);
    }

    /// Gives back a piece, if a piece is due. Returns the time until the next piece; `None` if no space waits.
    pub(crate) fn step(&self, now_nanos: u64) -> Option<Duration> {
        let mut waiting = self.waiting.lock();
        let WaitingSpace { files, due_nanos } = &mut *waiting;
        let oldest = files.front_mut()?;
        if now_nanos >= *due_nanos {
            let left = oldest.give_back(PIECE_BYTES);
            *due_nanos = now_nanos + PAUSE.as_nanos() as u64;
            if left == 0 {
                files.pop_front();
            }
        }
        (!files.is_empty()).then(|| Duration::from_nanos(due_nanos.saturating_sub(now_nanos)))
    }

    /// Gives back all space at once, for a caller that needs the space. True if there was any.
    pub(crate) fn give_back_all(&self) -> bool {
        let files = std::mem::take(&mut self.waiting.lock().files);
        !files.is_empty()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
