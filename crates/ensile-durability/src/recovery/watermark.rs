//! The watermark: the epoch below which every entry of the log is replayed.
//!
//! Pieces are replayed by several threads, and end in any order. The watermark is the least `oldest` of the pieces that
//! are not replayed yet, both those that no thread has taken and those that a thread replays.
//!
//! Invariants:
//! - L8: a state hears that an epoch has passed only once every entry below that epoch is replayed, in every log.
//! - A thread that finds no piece left waits for those that others are at; so what comes after the last entry is work
//!   for all threads.
//!
//! Neighbours: `recovery` adds pieces before any thread replays; each thread says when it has replayed one.

use std::collections::BTreeMap;

use ensile_base::Epoch;
use ensile_base::sync::{Condvar, Mutex, MutexGuard};

#[derive(Debug, Default)]
struct Outstanding {
    /// How many pieces begin with each epoch.
    oldest: BTreeMap<Epoch, usize>,
    /// The last watermark that a thread heard of.
    passed: Epoch,
    has_failed: bool,
}

/// The pieces that are not replayed yet.
#[derive(Debug, Default)]
pub(super) struct Watermark {
    outstanding: Mutex<Outstanding>,
    /// All pieces are replayed, or one cannot be.
    ended: Condvar,
}

/// A piece that a thread is at. If it is dropped and not ended, the piece could not be replayed.
#[derive(Debug)]
#[must_use = "the watermark waits for its end"]
pub(super) struct UnderWay<'w> {
    watermark: &'w Watermark,
    oldest: Epoch,
    is_replayed: bool,
}

impl Watermark {
    /// Adds a piece whose entries are of `oldest` and later epochs.
    pub(super) fn add(&self, oldest: Epoch) {
        let mut outstanding = self.lock();
        assert!(outstanding.passed <= oldest, "L8: no entry of an epoch that has passed");
        *outstanding.oldest.entry(oldest).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Outstanding> {
        // Counts and a flag, each whole at every point.
        self.outstanding.lock()
    }

    /// A thread begins to replay a piece that was added with this epoch.
    pub(super) fn begin(&self, oldest: Epoch) -> UnderWay<'_> {
        assert!(self.lock().oldest.contains_key(&oldest), "the piece was added, and is not replayed");
        UnderWay { watermark: self, oldest, is_replayed: false }
    }

    /// Every entry of a smaller epoch is replayed.
    fn now(outstanding: &Outstanding) -> Epoch {
        outstanding.oldest.first_key_value().map_or(Epoch::MAX, |(oldest, _)| *oldest)
    }

    /// Whether all pieces are replayed.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().oldest.is_empty()
    }

    /// Waits until all pieces are replayed: true; or until one cannot be: false.
    pub(super) fn wait_for_end(&self) -> bool {
        let mut outstanding = self.lock();
        while !outstanding.oldest.is_empty() && !outstanding.has_failed {
            outstanding = self.ended.wait(outstanding);
        }
        !outstanding.has_failed
    }
}

impl UnderWay<'_> {
    /// All entries of the piece are replayed. The new watermark.
    pub(super) fn end(mut self) -> Epoch {
        self.is_replayed = true;
        let mut outstanding = self.watermark.lock();
        if let Some(pieces) = outstanding.oldest.get_mut(&self.oldest) {
            *pieces -= 1;
            if *pieces == 0 {
                outstanding.oldest.remove(&self.oldest);
            }
        }
        if outstanding.oldest.is_empty() {
            self.watermark.ended.notify_all();
        }
        let now = Watermark::now(&outstanding);
        assert!(outstanding.passed <= now, "L8: what has passed has passed");
        outstanding.passed = now;
        now
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_replayed {
            self.watermark.lock().has_failed = true;
            self.watermark.ended.notify_all();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::Epoch;

    use super::Watermark;

    #[test]
    fn a_piece_under_way_holds_the_watermark_whatever_ended_before_it() {
        let watermark = Watermark::default();
        for oldest in [3, 5, 5, 9] {
            watermark.add(Epoch::new(oldest));
        }
        let slow = watermark.begin(Epoch::new(3));
        let ended = |oldest| watermark.begin(Epoch::new(oldest)).end();
        assert_eq!((ended(5), ended(9)), (Epoch::new(3), Epoch::new(3)));
        assert_eq!(slow.end(), Epoch::new(5), "one of two that begin with it is left");
        assert!(!watermark.has_ended());
        assert_eq!(ended(5), Epoch::MAX);
        assert!(watermark.wait_for_end());
    }

    #[test]
    fn nobody_waits_for_a_piece_that_could_not_be_replayed() {
        let watermark = Watermark::default();
        watermark.add(Epoch::new(3));
        drop(watermark.begin(Epoch::new(3)));
        assert!(!watermark.wait_for_end());
        assert!(!watermark.has_ended());
    }
}
