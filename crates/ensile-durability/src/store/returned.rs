//! Space of removed files, given back to the file system in pieces with pauses.
//!
//! Where a file system is mounted with `discard`, the device is told of freed space within a sync, and every sync
//! waits. A whole log file holds commits up for 11 ms, a piece for less than 1 ms.
//!
//! Invariants:
//! - K1: space goes back after the removal of the file's name is durable: no crash leaves the name of a shortened file.
//! - N20: the disk keeps space only if nobody else can read the file.
//! - A disk that becomes full gets all space at once.
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
/// Largest number of files that wait: each is an open file of the process. The oldest file goes as a whole.
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
    /// Takes the spaces of removed files. The names of the files are gone durably.
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
