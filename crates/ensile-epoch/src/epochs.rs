//! The global epoch E, snapshot boundaries, freezes of pictures, and what may be reclaimed.
//!
//! Invariants:
//! - E2: E moves from n to n+1 only after a fence and a scan that finds every bound `c_w >= n`; so `E >= n+1` means
//!   that all commits of epochs below n are installed and appended.
//! - S1: a boundary S is published before E reaches it, boundaries are at least two epochs apart, and S is served
//!   only once `E >= S+1`.
//! - E3: garbage tagged t is freed when `t < limits.pins`; a version that a commit of epoch e superseded is freed
//!   when `e < limits.snapshots`. Both limits come from a scan that read E and the served boundary first.
//! - V1: each set of boundaries that a scan publishes is part of the one before, so the snapshots' limit only grows.
//!   The set is published before that limit.
//! - E5: no two epochs begin closer than `spacing_nanos` of the earlier one.
//! - N1: a freeze S of a picture is published before E reaches it, and only once E is above the freeze before.
//! - N2: all commits of epochs below S are installed once `E >= S+1` (E2).
//! - L6: E stays below the limit that `set_limit` gave it last: what is reserved on disk.
//!
//! Neighbours: driven by the engine's heartbeat thread (and early, by loggers with strict commits waiting); read by
//! every commit, by snapshot readers, by the loggers. The pair of freezes stands in `freezes.rs`.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::limits::{EPOCH_MICROS_CLOSE, EPOCH_MICROS_MIN, EPOCHS_CLOSE_TOGETHER};
use ensile_base::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, fence};

use crate::asymmetric::Fences;
use crate::commit_slot::{CommitHandle, CommitSlot, InIndex};
use crate::freezes::Freezes;
use crate::pin_slot::{PinHandle, PinSlot};
use crate::registry::Registry;
use crate::shown::{PublishedBoundaries, ShownBoundaries};

/// How epochs run.
#[derive(Clone, Debug)]
pub struct EpochConfig {
    /// The first epoch in which transactions may commit: above every epoch that recovery saw (L4).
    pub first: Epoch,
    /// Time between snapshot boundaries (Silo §4.9: about a second).
    pub snapshot_interval: Duration,
}

/// What came of an attempt to advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// E is now this.
    Advanced(Epoch),
    /// A worker is still committing in an earlier epoch.
    Held(Epoch),
    /// The last epoch began too short a time ago (E5).
    TooSoon,
    /// E stands at its limit (L6).
    AtLimit,
}

/// Whether an advance begins a snapshot boundary, if boundaries stay two epochs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundaryChoice {
    /// If the interval has passed.
    IfDue,
    /// If it has passed by a quarter: the heartbeat is late, or ticks rarely.
    IfOverdue,
    /// If no boundary above this epoch has begun.
    UnlessAbove(Epoch),
}

/// What may be reclaimed, as of the last scan.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimLimits {
    pins: Epoch,
    snapshots: Epoch,
}

impl ReclaimLimits {
    /// Garbage whose tag is below this is out of every pin's reach.
    #[inline]
    #[must_use]
    pub const fn pins(self) -> Epoch {
        self.pins
    }

    /// Versions superseded in an epoch below this are out of every snapshot's reach.
    #[inline]
    #[must_use]
    pub const fn snapshots(self) -> Epoch {
        self.snapshots
    }
}

#[derive(Debug)]
struct EpochPace {
    last_advance_nanos: u64,
    last_boundary_nanos: u64,
    /// E stays below this.
    limit: u64,
    is_stopped: bool,
}

/// The least time from the beginning of this epoch to the next one's (E5): short while there are plenty of epochs left.
const fn spacing_nanos(epoch: u64) -> u64 {
    let micros = if epoch < EPOCHS_CLOSE_TOGETHER { EPOCH_MICROS_CLOSE } else { EPOCH_MICROS_MIN };
    micros * 1_000
}

/// The heart: one per database.
#[derive(Debug)]
pub struct Epochs {
    global: CachePadded<AtomicU64>,
    boundaries: CachePadded<Boundaries>,
    freezes: CachePadded<Freezes>,
    limits: CachePadded<PublishedLimits>,
    shown: CachePadded<PublishedBoundaries>,
    /// The set that was published last. A scan holds it from its beginning to its end.
    last_shown: Mutex<ShownBoundaries>,
    commits: Arc<Registry<CommitSlot>>,
    pins: Arc<Registry<PinSlot>>,
    /// Transactions and snapshots that were expired.
    expired: Arc<AtomicU64>,
    fences: Fences,
    pace: Mutex<EpochPace>,
    snapshot_interval_nanos: u64,
}

/// The newest snapshot boundary and the one before it. A bound committer at epoch e can meet `newest = e+1`, never
/// later ones, as the next boundary needs two more advances; so one of the two is the newest boundary `<= e`.
#[derive(Debug)]
struct Boundaries {
    newest: AtomicU64,
    before: AtomicU64,
}

#[derive(Debug)]
struct PublishedLimits {
    pins: AtomicU64,
    snapshots: AtomicU64,
    /// The lowest boundary that a reader is registered for.
    oldest_reader: AtomicU64,
    /// The boundary that was served.
    served: AtomicU64,
}

impl Epochs {
    /// Epochs from `config.first` on. Everything older is taken as installed: the first snapshot boundary is
    /// `config.first` and is served at once. The freeze that [`Epochs::freeze_at`] knows then is `config.first`, too.
    #[must_use]
    pub fn new(config: &EpochConfig) -> Self {
        let first = config.first.number();
        let boundaries = Boundaries { newest: AtomicU64::new(first), before: AtomicU64::new(first) };
        let limits = PublishedLimits {
            pins: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            oldest_reader: AtomicU64::new(Epoch::MAX.number()),
            served: AtomicU64::new(0),
        };
        let shown = ShownBoundaries::ALL;
        Self {
            global: CachePadded::new(AtomicU64::new(first + 1)),
            boundaries: CachePadded::new(boundaries),
            freezes: CachePadded::new(Freezes::new(config.first)),
            limits: CachePadded::new(limits),
            shown: CachePadded::new(PublishedBoundaries::new(&shown)),
            last_shown: Mutex::new(shown),
            commits: Arc::new(Registry::new()),
            pins: Arc::new(Registry::new()),
            expired: Arc::new(AtomicU64::new(0)),
            fences: Fences::best(),
            pace: Mutex::new(EpochPace {
                last_advance_nanos: 0,
                last_boundary_nanos: 0,
                limit: Epoch::MAX.number(),
                is_stopped: false,
            }),
            snapshot_interval_nanos: u64::try_from(config.snapshot_interval.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The global epoch E.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Epoch {
        // Acquire: a thread that sees E = S sees the boundary S and the freeze S, which were published before (S1, N1);
        // partner: AcqRel in `advance`.
        Epoch::new(self.global.load(Ordering::Acquire))
    }

    /// A commit binding for one worker.
    #[must_use]
    pub fn register_worker(&self) -> CommitHandle {
        CommitHandle::register(&self.commits)
    }

    /// A pin for one transaction at a time.
    #[must_use]
    pub fn register_pin(&self) -> PinHandle {
        PinHandle::register(&self.pins, self.fences, &self.expired)
    }

    /// E stays below `limit` from now on (L6). Nothing changes once it was stopped.
    pub fn set_limit(&self, limit: Epoch) {
        let mut pace = self.lock_pace();
        if !pace.is_stopped {
            pace.limit = limit.number();
        }
    }

    /// Stops E for good, and says where: no larger epoch is ever read here.
    pub fn stop(&self) -> Epoch {
        let mut pace = self.lock_pace();
        let last = self.now();
        (pace.limit, pace.is_stopped) = (last.next().number(), true);
        last
    }

    fn lock_pace(&self) -> MutexGuard<'_, EpochPace> {
        // Poison cannot matter: nothing under this lock panics but the assertion that E moves by one.
        self.pace.lock()
    }

    /// Moves E forward by one if no bound worker is behind it (E2). The new epoch is a snapshot boundary if one is due.
    /// `now_nanos` is the caller's clock. The caller scans soon (V1).
    pub fn try_advance(&self, now_nanos: u64) -> Advance {
        self.advance(now_nanos, BoundaryChoice::IfDue)
    }

    /// As [`Epochs::try_advance`], and makes the new epoch a snapshot boundary whatever the interval says, if
    /// boundaries stay two epochs apart and none above `seen` has begun: one serves all who want a boundary above it.
    pub fn try_advance_to_boundary(&self, now_nanos: u64, seen: Epoch) -> Advance {
        self.advance(now_nanos, BoundaryChoice::UnlessAbove(seen))
    }

    /// As [`Epochs::try_advance`], for callers that do not scan: the new epoch is a boundary only if one is overdue by
    /// a quarter of the interval (V1). So snapshots do not grow old where the heartbeat is late or ticks rarely.
    pub fn try_advance_early(&self, now_nanos: u64) -> Advance {
        self.advance(now_nanos, BoundaryChoice::IfOverdue)
    }

    /// Closes the epoch of the newest boundary if that is not served yet, and once it is served, publishes which
    /// boundaries can be shown (V1). A step of the heartbeat behind its tick. `Advanced` if the boundary is served.
    pub fn try_serve_boundary(&self, now_nanos: u64) -> Advance {
        // Relaxed: a boundary that begins now is for the next step.
        let newest = Epoch::new(self.boundaries.newest.load(Ordering::Relaxed));
        if self.served_snapshot() < newest {
            let advanced = self.try_advance_early(now_nanos);
            if self.served_snapshot() < newest {
                return advanced;
            }
        }
        self.scan();
        Advance::Advanced(self.now())
    }

    /// Whether the newest boundary was not yet served at the last scan. Until a scan finds it served, commits keep
    /// versions for it and for the one before (V1).
    #[must_use]
    pub fn has_boundary_ahead(&self) -> bool {
        // Relaxed, both: the heartbeat asks again at its next tick.
        self.boundaries.newest.load(Ordering::Relaxed) > self.limits.served.load(Ordering::Relaxed)
    }

    fn advance(&self, now_nanos: u64, choice: BoundaryChoice) -> Advance {
        let mut pace = self.lock_pace();
        // Relaxed: E moves under this lock only.
        let current = self.global.load(Ordering::Relaxed);
        if now_nanos < pace.last_advance_nanos.saturating_add(spacing_nanos(current))
            && pace.last_advance_nanos > 0
        {
            return Advance::TooSoon;
        }
        if current + 1 >= pace.limit {
            return Advance::AtLimit;
        }
        // SeqCst: the scanner's half of the Dekker pair with bind .. lock .. fence of a commit (C1, E2).
        fence(Ordering::SeqCst);
        let behind =
            self.commits.lock().iter().filter_map(|slot| slot.bound()).find(|bound| bound.number() < current);
        if let Some(bound) = behind {
            return Advance::Held(bound);
        }
        let next = current + 1;
        // Relaxed: boundaries are written under this lock only.
        let newest = self.boundaries.newest.load(Ordering::Relaxed);
        let (age, interval) =
            (now_nanos.saturating_sub(pace.last_boundary_nanos), self.snapshot_interval_nanos);
        let is_wanted = match choice {
            BoundaryChoice::IfDue => age >= interval,
            BoundaryChoice::IfOverdue => age >= interval.saturating_add(interval / 4),
            BoundaryChoice::UnlessAbove(seen) => newest <= seen.number(),
        };
        if is_wanted && next >= newest + 2 {
            // Release: a committer that reads the new `newest` and steps back to `before` finds it (partner:
            // `boundary_at`).
            self.boundaries.before.store(newest, Ordering::Release);
            // Release: published before E reaches it (S1); partner: Acquire in `boundary_at` and `now`.
            self.boundaries.newest.store(next, Ordering::Release);
            pace.last_boundary_nanos = now_nanos;
        }
        // AcqRel: what was scanned idle happened before. A thread that reads the new E sees it, and the boundary. E2
        // asks for a compare-exchange; under the lock it cannot fail.
        let moved = self.global.compare_exchange(current, next, Ordering::AcqRel, Ordering::Relaxed);
        assert!(moved.is_ok(), "the global epoch moves under its lock only");
        pace.last_advance_nanos = now_nanos.max(1);
        Advance::Advanced(Epoch::new(next))
    }

    /// The newest snapshot boundary `<= epoch`, for a commit that is bound at `epoch`: it keeps an old version iff
    /// that version's epoch is below this (S1).
    #[inline]
    #[must_use]
    pub fn boundary_at(&self, epoch: Epoch) -> Epoch {
        // Acquire: partner is the Release in `advance`; what `before` held when `newest` was published is visible.
        let newest = self.boundaries.newest.load(Ordering::Acquire);
        if newest <= epoch.number() {
            return Epoch::new(newest);
        }
        // Acquire: partner is the Release of `before` in `advance`, which comes before that of `newest`.
        Epoch::new(self.boundaries.before.load(Ordering::Acquire))
    }

    /// The newest boundary that may be read: `E >= S+1` (S1).
    #[inline]
    #[must_use]
    pub fn served_snapshot(&self) -> Epoch {
        // Acquire: the boundary first, then E: an old boundary is served whatever E has become.
        let newest = self.boundaries.newest.load(Ordering::Acquire);
        if self.now().number() > newest {
            return Epoch::new(newest);
        }
        // Acquire: partner is the Release of `before` in `advance`, which comes before that of `newest`.
        Epoch::new(self.boundaries.before.load(Ordering::Acquire))
    }

    /// Announces the freeze of a new picture: S = E + 1. The picture will show the state at the end of epoch S - 1.
    /// `None` if E is not yet above the newest freeze: two are kept, and a commit that is under way may need the one
    /// before. Callers announce a freeze only when the picture before has ended, installed or failed. E is above its
    /// freeze by then.
    ///
    /// E moves under the lock that this takes, so S is published before E reaches it (N1). That is so also if E was
    /// stopped, or stands at its limit (L6). Then no commit ever has the epoch S. Only the picture waits, and it is the
    /// caller's matter to give it up.
    ///
    /// Returns S.
    #[must_use = "the picture belongs to this freeze; without one there is none"]
    pub fn announce_freeze(&self) -> Option<Epoch> {
        let _pace = self.lock_pace();
        self.freezes.announce(self.now())
    }

    /// The newest freeze `<= epoch`, for a commit that is bound and has read `epoch` as its own (N1). If the commit
    /// changes a version of a smaller epoch, that is its key's first change since the freeze.
    #[inline]
    #[must_use]
    pub fn freeze_at(&self, epoch: Epoch) -> Epoch {
        self.freezes.at(epoch)
    }

    /// The newest freeze that was announced, whatever E is. A caller that is not bound can only guess by it: its commit
    /// asks [`Epochs::freeze_at`].
    #[inline]
    #[must_use]
    pub fn newest_freeze(&self) -> Epoch {
        self.freezes.newest()
    }

    /// Whether all commits of epochs below `epoch` are installed and appended, and visible to the caller: `E >= epoch +
    /// 1` (E2). Of a freeze: whether its picture can be settled and walked (N2).
    #[must_use]
    pub fn is_installed_below(&self, epoch: Epoch) -> bool {
        self.now() > epoch
    }

    /// Registers the pin's owner as a reader of the newest snapshot and says which one. The slot must have begun, and
    /// be between calls: from now on its pin counts within calls only (see [`PinHandle::enter_snapshot`]).
    #[must_use]
    pub fn open_snapshot(&self, pin: &mut PinHandle) -> Epoch {
        loop {
            let boundary = self.served_snapshot();
            pin.slot().register_snapshot(boundary);
            // A scan that missed the registration read its served boundary before our fence: if that was a newer
            // one, so do we now, and register again (S1).
            if self.served_snapshot() == boundary {
                return boundary;
            }
        }
    }

    /// Reads all pins and snapshot registrations and publishes what may be reclaimed (E3), and which boundaries can be
    /// shown (V1). A step of the heartbeat.
    pub fn scan(&self) -> ReclaimLimits {
        let mut last_shown = self.last_shown.lock();
        let epoch = self.now();
        let served = self.served_snapshot();
        // The scanner's half of the Dekker pairs with `begin`, `enter_snapshot` and `open_snapshot`.
        self.fences.heavy();
        let slots = self.pins.lock();
        let mut pins = epoch;
        let (mut shown, mut oldest_reader) = (ShownBoundaries::from_on(served), Epoch::MAX);
        for slot in slots.iter() {
            if slot.expiry_is_asked() && slot.try_expire() {
                // Relaxed: a figure.
                self.expired.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let held = slot.held();
            pins = pins.min(held.pin.unwrap_or(pins));
            let Some(boundary) = held.snapshot else { continue };
            oldest_reader = oldest_reader.min(boundary);
            // A boundary that the last set lacks is a registration that does not stand: its owner will see at its
            // second look that a newer one is served (V1).
            if last_shown.has(boundary) {
                shown.add(boundary);
            }
        }
        drop(slots);
        assert!(shown.is_part_of(&last_shown), "the set of boundaries that can be shown only shrinks (V1)");
        if *last_shown != shown {
            self.shown.publish(&shown);
            *last_shown = shown;
        }
        let snapshots = shown.lowest();
        // Relaxed: commits decide by it where versions go, which is right anywhere.
        self.limits.oldest_reader.store(oldest_reader.number(), Ordering::Relaxed);
        // Relaxed: it says only whether another scan is due.
        self.limits.served.store(served.number(), Ordering::Relaxed);
        // Release: the freeing worker's writes to reused memory come after the loads that this scan saw finished
        // (partner: Acquire in `limits`).
        self.limits.pins.store(pins.number(), Ordering::Release);
        // Release: the freeing worker's writes to a reused old version come after the loads that this scan saw
        // finished. A worker that sees this limit sees the set of boundaries, too (V1). Partner: Acquire in `limits`.
        self.limits.snapshots.store(snapshots.number(), Ordering::Release);
        ReclaimLimits { pins, snapshots }
    }

    /// Whether a reader was registered at the last scan for a boundary below `boundary`: then versions that the newest
    /// boundaries do not need may be kept for long (V1).
    #[inline]
    #[must_use]
    pub fn has_reader_below(&self, boundary: Epoch) -> bool {
        // Relaxed: nothing but memory depends on it.
        self.limits.oldest_reader.load(Ordering::Relaxed) < boundary.number()
    }

    /// The boundaries that can be shown, as of the last scan; `None` while they are being published. A caller that
    /// follows versions by them is bound (V1).
    #[must_use]
    pub fn shown_boundaries(&self) -> Option<ShownBoundaries> {
        self.shown.read()
    }

    /// Asks the owners of all pins below `pins` and of all snapshots below `snapshots` to end at their next call (E6).
    /// The next scans stop honouring those that are between calls. Returns how many were asked.
    pub fn expire(&self, pins: Epoch, snapshots: Epoch) -> usize {
        let slots = self.pins.lock();
        let mut asked = 0;
        for slot in slots.iter() {
            let held = slot.held();
            let is_old = held.pin.is_some_and(|epoch| epoch < pins)
                || held.snapshot.is_some_and(|epoch| epoch < snapshots);
            if is_old {
                slot.ask_expiry();
                asked += 1;
            }
        }
        if asked > 0 {
            // The scanner's half of the Dekker pair with `enter`. Here and not in the next scan, which may be another
            // thread's and past its own fence already; it waits for our lock before it looks for requests.
            self.fences.heavy();
        }
        asked
    }

    /// How many transactions and snapshots were ended.
    #[must_use]
    pub fn expired(&self) -> u64 {
        // Relaxed: a figure.
        self.expired.load(Ordering::Relaxed)
    }

    /// Marks a worker as one that may change leaves of the index, until the guard is dropped (P1). Whose turn it is
    /// must be looked at after this: a turn that the look misses waits for the guard.
    #[inline]
    pub fn enter_index<'s>(&self, worker: &'s CommitSlot) -> InIndex<'s> {
        let entered = worker.enter_index();
        // The worker's half of the Dekker pair with `fence_turn`.
        self.fences.light();
        entered
    }

    /// The half of a turn's holder, between the store of its turn and [`Epochs::is_index_entered`] (P1).
    pub fn fence_turn(&self) {
        self.fences.heavy();
    }

    /// Whether a worker may be changing leaves of the index. Workers that enter it after [`Epochs::fence_turn`] see the
    /// turn that was stored before (P1).
    #[must_use]
    pub fn is_index_entered(&self) -> bool {
        self.commits.lock().iter().any(|worker| worker.is_in_index())
    }

    /// Whether a worker is bound. Workers that are bound after [`Epochs::fence_turn`] and look whose turn it is see the
    /// turn that was stored before (P1).
    #[must_use]
    pub fn is_any_bound(&self) -> bool {
        self.commits.lock().iter().any(|worker| worker.bound().is_some())
    }

    /// What may be reclaimed, as of the last scan.
    #[inline]
    #[must_use]
    pub fn limits(&self) -> ReclaimLimits {
        // Acquire, both: partner is the Release in `scan`.
        let pins = self.limits.pins.load(Ordering::Acquire);
        // Acquire: partner is the Release of the same limit in `scan`.
        let snapshots = self.limits.snapshots.load(Ordering::Acquire);
        ReclaimLimits { pins: Epoch::new(pins), snapshots: Epoch::new(snapshots) }
    }

    /// How many workers and pins are registered.
    #[must_use]
    pub fn registered(&self) -> (usize, usize) {
        (self.commits.lock().len(), self.pins.lock().len())
    }
}

#[cfg(test)]
mod tests;
