//! Watch over the call-backs of checkpoints: a call-back that waits for an application's guard may wait for ever.
//!
//! Neighbours: `application::object_writer` notes the progress of call-backs; the heartbeat compares; `ObjectsStats`
//! shows a call-back without progress.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU64, Mutex, Ordering};

/// Time without progress after which a call-back is shown, in nanoseconds.
const SHOWN_FROM_NANOS: u64 = 10_000_000_000;

/// A call-back of a checkpoint without progress for ten seconds or more. The call-back waits, perhaps for the guard of
/// an object. No checkpoint ends, and a close waits, until the call-back returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WaitingCallBack {
    /// Number of the object that the call-back writes; of a call-back that enumerates objects itself, the smallest
    /// number that this object can have.
    pub object: u64,
    /// Time without progress.
    pub waited: Duration,
}

#[derive(Debug)]
pub(crate) struct CallBackWatch {
    clock: Clock,
    under_way: Mutex<Vec<WatchedCallBack>>,
}

#[derive(Debug)]
struct WatchedCallBack {
    object: StdArc<AtomicU64>,
    /// Object at the last look, and the time of the first look that found this object, in nanoseconds: of the begin, or
    /// later.
    seen: u64,
    since_nanos: u64,
}

/// Progress of a call-back, watched until the drop.
#[derive(Debug)]
pub(crate) struct CallBackProgress<'w> {
    watch: &'w CallBackWatch,
    object: StdArc<AtomicU64>,
}

impl CallBackWatch {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), under_way: Mutex::default() }
    }

    /// Watches a call-back that begins at this object.
    pub(crate) fn begin(&self, object: u64) -> CallBackProgress<'_> {
        let (seen, since_nanos) = (object, self.clock.nanos());
        let object = StdArc::new(AtomicU64::new(object));
        self.under_way.lock().push(WatchedCallBack { object: StdArc::clone(&object), seen, since_nanos });
        CallBackProgress { watch: self, object }
    }

    /// Notes the progress of the call-backs. Returns the call-back with the longest time without progress, if the time
    /// is long enough for a report.
    pub(crate) fn look(&self) -> Option<WaitingCallBack> {
        let now_nanos = self.clock.nanos();
        let mut under_way = self.under_way.lock();
        for WatchedCallBack { object, seen, since_nanos } in under_way.iter_mut() {
            // Relaxed: a figure for people.
            let object = object.load(Ordering::Relaxed);
            if *seen != object {
                (*seen, *since_nanos) = (object, now_nanos);
            }
        }
        let longest = under_way.iter().min_by_key(|call_back| call_back.since_nanos)?;
        let waited = now_nanos.saturating_sub(longest.since_nanos);
        let shown = WaitingCallBack { object: longest.seen, waited: Duration::from_nanos(waited) };
        (waited >= SHOWN_FROM_NANOS).then_some(shown)
    }
}

impl CallBackProgress<'_> {
    pub(crate) fn set(&self, object: u64) {
        // Relaxed: a figure for people.
        self.object.store(object, Ordering::Relaxed);
    }
}

impl Drop for CallBackProgress<'_> {
    fn drop(&mut self) {
        let mut under_way = self.watch.under_way.lock();
        let before = under_way.len();
        under_way.retain(|call_back| !StdArc::ptr_eq(&call_back.object, &self.object));
        let panics = std::thread::panicking();
        debug_assert!(panics || under_way.len() + 1 == before, "a call-back is watched once");
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use ensile_base::clock::Clock;

    use super::{CallBackWatch, WaitingCallBack};

    #[test]
    fn a_call_back_without_progress_for_ten_seconds_is_shown_until_it_goes_on() {
        let clock = Clock::manual();
        let watch = CallBackWatch::new(&clock);
        let (one, other) = (watch.begin(0), watch.begin(100));
        let after = |seconds| {
            clock.advance(Duration::from_secs(seconds));
            watch.look()
        };
        let shown = |object, seconds| Some(WaitingCallBack { object, waited: Duration::from_secs(seconds) });
        one.set(7);
        assert_eq!(after(1), None);
        assert_eq!(after(8), None);
        assert_eq!(after(1), shown(100, 10));
        other.set(101);
        assert_eq!(after(2), shown(7, 11));
        drop(one);
        assert_eq!(after(1), None);
    }
}
