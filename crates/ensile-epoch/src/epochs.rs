//! The global epoch E, snapshot boundaries, freezes of pictures, and the limits of reclamation.
//!
//! Invariants:
//! - E2: E moves from n to n+1 only after a fence and a scan that finds every bound `c_w >= n`. If `E >= n+1`, the
//!   commits of epochs below n are therefore installed and appended.
//! - S1: a boundary S is published before E reaches S. Boundaries are at least two epochs apart. S is served only once
//!   `E >= S+1`.
//! - E3: garbage tagged t is freed when `t < limits.pins`; a version that a commit of epoch e superseded is freed when
//!   `e < limits.snapshots`. The limits come from a scan that read E and the served boundary first.
//! - V1: each set of boundaries that a scan publishes is part of the set before, so the snapshots' limit only grows.
//!   The set is published before the limit.
//! - E5: no two epochs begin closer than `spacing_nanos` of the earlier epoch.
//! - N1: a freeze S of a picture is published before E reaches S, and only once E is above the freeze before.
//! - N2: the commits of epochs below S are installed once `E >= S+1` (E2).
//! - L6: E stays below the last limit of `set_limit`: the epochs reserved on disk.
//!
//! Neighbours: driven by the engine's heartbeat thread (and early, by loggers with strict commits waiting); read by
//! every commit, by snapshot readers, by the loggers. The pair of freezes stands in `freezes.rs`.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::limits::{EPOCH_MICROS_CLOSE, EPOCH_MICROS_MIN, EPOCHS_CLOSE_TOGETHER};
use ensile_base::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, fence};

use crate::asymmetric_fence::Fences;
use crate::boundary_set::{PublishedBoundaries, ShownBoundaries};
use crate::commit_slot::{CommitHandle, CommitSlot, InIndex};
use crate::freezes::Freezes;
use crate::pin_slot::{PinHandle, PinSlot};
use crate::registry::Registry;

/// Settings of the epochs.
#[derive(Clone, Debug)]
pub struct EpochConfig {
    /// First epoch in which transactions may commit, above every epoch that recovery saw (L4).
    pub first: Epoch,
    /// Time between snapshot boundaries (Silo §4.9: about a second).
    pub snapshot_interval: Duration,
}

/// Outcome of an attempt to advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// E advanced to this epoch.
    Advanced(Epoch),
    /// A worker is still committing in this earlier epoch.
    Held(Epoch),
    /// The last epoch began too short a time ago (E5).
    TooSoon,
    /// E stands at its limit (L6).
    AtLimit,
}

/// Condition for a new snapshot boundary in an advance; boundaries stay two epochs apart in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundaryChoice {
    /// If the interval has passed.
    IfDue,
    /// If the interval and a quarter have passed: the heartbeat is late, or ticks rarely.
    IfOverdue,
    /// If no boundary above this epoch has begun.
    UnlessAbove(Epoch),
}

/// Limits of reclamation, as of the last scan.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimLimits {
    pins: Epoch,
    snapshots: Epoch,
}

impl ReclaimLimits {
    /// Limit for garbage: a smaller tag is out of every pin's reach.
    #[inline]
    #[must_use]
    pub const fn pins(self) -> Epoch {
        self.pins
    }

    /// Limit for versions: a version superseded in a smaller epoch is out of every snapshot's reach.
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
    /// Upper limit of E, exclusive.
    limit: u64,
    is_stopped: bool,
}

/// Least time from the beginning of this epoch to the next epoch's (E5). The time is short while plenty of epochs are
/// left.
const fn spacing_nanos(epoch: u64) -> u64 {
    let micros = if epoch < EPOCHS_CLOSE_TOGETHER { EPOCH_MICROS_CLOSE } else { EPOCH_MICROS_MIN };
    micros * 1_000
}

/// The epochs of a database.
#[derive(Debug)]
pub struct Epochs {
    global: CachePadded<AtomicU64>,
    boundaries: CachePadded<Boundaries>,
    freezes: CachePadded<Freezes>,
    limits: CachePadded<PublishedLimits>,
    shown: CachePadded<PublishedBoundaries>,
    /// The set of boundaries published last. A scan holds the lock from its beginning to its end.
    last_shown: Mutex<ShownBoundaries>,
    commits: Arc<Registry<CommitSlot>>,
    pins: Arc<Registry<PinSlot>>,
    /// Number of expired transactions and snapshots.
    expired: Arc<AtomicU64>,
    fences: Fences,
    pace: Mutex<EpochPace>,
    snapshot_interval_nanos: u64,
}

/// The newest snapshot boundary and the boundary before. A committer bound at epoch e can meet `newest = e+1`, never a
/// later boundary, as the next boundary needs two more advances. So `newest` or `before` is the newest boundary `<= e`.
#[derive(Debug)]
struct Boundaries {
    newest: AtomicU64,
    before: AtomicU64,
}

#[derive(Debug)]
struct PublishedLimits {
    pins: AtomicU64,
    snapshots: AtomicU64,
    /// Lowest boundary with a registered reader.
    oldest_reader: AtomicU64,
    /// Served boundary.
    served: AtomicU64,
}

impl Epochs {
    /// Epochs from `config.first` on. Older epochs count as installed: the first snapshot boundary is `config.first`
    /// and is served at once. The first freeze of [`Epochs::freeze_at`] is `config.first`, too.
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
        // Acquire: a thread that sees E = S sees the boundary S and the freeze S, published before (S1, N1); partner:
        // AcqRel in `advance`.
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

    /// Keeps E below `limit` from now on (L6). After [`Epochs::stop`] the call changes nothing.
    pub fn set_limit(&self, limit: Epoch) {
        let mut pace = self.lock_pace();
        if !pace.is_stopped {
            pace.limit = limit.number();
        }
    }

    /// Stops E for good and returns the last epoch: no larger epoch is ever read here.
    pub fn stop(&self) -> Epoch {
        let mut pace = self.lock_pace();
        let last = self.now();
        (pace.limit, pace.is_stopped) = (last.next().number(), true);
        last
    }

    fn lock_pace(&self) -> MutexGuard<'_, EpochPace> {
        // Poison cannot matter: under this lock only the assertion that E moves by one can panic.
        self.pace.lock()
    }

    /// Moves E forward by one if no bound worker is behind (E2). The new epoch is a snapshot boundary if a boundary is
    /// due. `now_nanos` is the caller's clock. The caller scans soon (V1).
    pub fn try_advance(&self, now_nanos: u64) -> Advance {
        self.advance(now_nanos, BoundaryChoice::IfDue)
    }

    /// As [`Epochs::try_advance`], but the new epoch is a snapshot boundary regardless of the interval. Conditions:
    /// boundaries stay two epochs apart, and no boundary above `seen` has begun. One boundary serves every caller that
    /// wants a boundary above `seen`.
    pub fn try_advance_to_boundary(&self, now_nanos: u64, seen: Epoch) -> Advance {
        self.advance(now_nanos, BoundaryChoice::UnlessAbove(seen))
    }

    /// As [`Epochs::try_advance`], for callers that do not scan: the new epoch is a boundary only if a boundary is
    /// overdue by a quarter of the interval (V1). The rule keeps snapshots fresh if the heartbeat is late or ticks
    /// rarely.
    pub fn try_advance_early(&self, now_nanos: u64) -> Advance {
        self.advance(now_nanos, BoundaryChoice::IfOverdue)
    }

    /// Closes the epoch of the newest boundary if the boundary is not served yet. Once the boundary is served,
    /// publishes the boundaries that can be shown (V1). The heartbeat calls this after its tick. Returns `Advanced` if
    /// the boundary is served.
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

    /// True if the newest boundary was not yet served at the last scan. Until a scan finds the newest boundary served,
    /// commits keep versions for two boundaries: the newest and its predecessor (V1).
    #[must_use]
    pub fn has_boundary_ahead(&self) -> bool {
        // Relaxed, both: the heartbeat asks again at its next tick.
        self.boundaries.newest.load(Ordering::Relaxed) > self.limits.served.load(Ordering::Relaxed)
    }

    /// Moves E forward by one if E2, E5 and L6 allow. The new epoch is a boundary if `choice` asks for a boundary, and
    /// if the new epoch is at least two above the newest boundary.
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
        let behind = self
            .commits
            .lock()
            .iter()
            .filter_map(|slot| slot.bound_epoch())
            .find(|bound| bound.number() < current);
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
            // Release: a committer that reads the new `newest` and steps back to `before` finds the old `newest` there
            // (partner: `boundary_at`).
            self.boundaries.before.store(newest, Ordering::Release);
            // Release: published before E reaches the boundary (S1); partner: Acquire in `boundary_at` and `now`.
            self.boundaries.newest.store(next, Ordering::Release);
            pace.last_boundary_nanos = now_nanos;
        }
        // AcqRel: the slots scanned as idle happened before. A thread that reads the new E sees their state, and the
        // boundary. E2 asks for a compare-exchange; under the lock the exchange cannot fail.
        let moved = self.global.compare_exchange(current, next, Ordering::AcqRel, Ordering::Relaxed);
        assert!(moved.is_ok(), "the global epoch moves under its lock only");
        pace.last_advance_nanos = now_nanos.max(1);
        Advance::Advanced(Epoch::new(next))
    }

    /// The newest snapshot boundary `<= epoch`, for a commit bound at `epoch`. The commit keeps an old version iff the
    /// version's epoch is below the boundary (S1).
    #[inline]
    #[must_use]
    pub fn boundary_at(&self, epoch: Epoch) -> Epoch {
        // Acquire: partner is the Release in `advance`; the value of `before` at the publication of `newest` is
        // visible.
        let newest = self.boundaries.newest.load(Ordering::Acquire);
        if newest <= epoch.number() {
            return Epoch::new(newest);
        }
        // Acquire: partner is the Release of `before` in `advance`, which comes before the Release of `newest`.
        Epoch::new(self.boundaries.before.load(Ordering::Acquire))
    }

    /// The newest boundary that may be read: `E >= S+1` (S1).
    #[inline]
    #[must_use]
    pub fn served_snapshot(&self) -> Epoch {
        // Acquire: the boundary first, then E: an old boundary is served for every later E.
        let newest = self.boundaries.newest.load(Ordering::Acquire);
        if self.now().number() > newest {
            return Epoch::new(newest);
        }
        // Acquire: partner is the Release of `before` in `advance`, which comes before the Release of `newest`.
        Epoch::new(self.boundaries.before.load(Ordering::Acquire))
    }

    /// Announces the freeze of a new picture: S = E + 1. The picture will show the state at the end of epoch S - 1.
    /// `None` if E is not yet above the newest freeze: two freezes are kept, and a running commit may need the older
    /// freeze. Callers announce a freeze only after the picture before has ended, installed or failed. E is above its
    /// freeze by then.
    ///
    /// E moves under the lock that this function takes, so S is published before E reaches S (N1). The order also holds
    /// if E was stopped, or stands at its limit (L6). No commit ever has the epoch S in this case. Only the picture
    /// waits, and the caller may give the picture up.
    ///
    /// Returns S.
    #[must_use = "the picture belongs to this freeze; without one there is none"]
    pub fn announce_freeze(&self) -> Option<Epoch> {
        let _pace = self.lock_pace();
        self.freezes.announce(self.now())
    }

    /// The newest freeze `<= epoch`, for a commit that is bound and has read `epoch` as its own (N1). If the commit
    /// changes a version of a smaller epoch than the freeze, the change is its key's first since the freeze.
    #[inline]
    #[must_use]
    pub fn freeze_at(&self, epoch: Epoch) -> Epoch {
        self.freezes.freeze_at(epoch)
    }

    /// The newest announced freeze, whatever E is. A caller that is not bound can only guess from the result; its
    /// commit asks [`Epochs::freeze_at`].
    #[inline]
    #[must_use]
    pub fn newest_freeze(&self) -> Epoch {
        self.freezes.newest()
    }

    /// True if the commits of epochs below `epoch` are installed, appended, and visible to the caller: `E >= epoch + 1`
    /// (E2). For a freeze: true if its picture can be settled and walked (N2).
    #[must_use]
    pub fn is_installed_below(&self, epoch: Epoch) -> bool {
        self.now() > epoch
    }

    /// Registers the pin's owner as a reader of the newest snapshot and returns the snapshot. The slot must have begun,
    /// and be between calls. From now on its pin counts within calls only (see [`PinHandle::enter_snapshot`]).
    #[must_use]
    pub fn open_snapshot(&self, pin: &mut PinHandle) -> Epoch {
        loop {
            let boundary = self.served_snapshot();
            pin.slot().register_snapshot(boundary);
            // A scan that missed the registration read its served boundary before our fence. If the scan saw a newer
            // boundary, the second look here sees the newer boundary as well, and registers again (S1).
            if self.served_snapshot() == boundary {
                return boundary;
            }
        }
    }

    /// Reads the pins and snapshot registrations, and publishes the limits of reclamation (E3) and the boundaries that
    /// can be shown (V1). A step of the heartbeat.
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
            let held = slot.held_epochs();
            pins = pins.min(held.pin.unwrap_or(pins));
            let Some(boundary) = held.snapshot else { continue };
            oldest_reader = oldest_reader.min(boundary);
            // A boundary that the last set lacks belongs to an invalid registration: the owner's second look will find
            // a newer boundary served (V1).
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
        // Relaxed: commits use the value to place versions, and every place is correct.
        self.limits.oldest_reader.store(oldest_reader.number(), Ordering::Relaxed);
        // Relaxed: the value only tells if another scan is due.
        self.limits.served.store(served.number(), Ordering::Relaxed);
        // Release: the freeing worker's writes to reused memory come after the loads that this scan saw finished
        // (partner: Acquire in `limits`).
        self.limits.pins.store(pins.number(), Ordering::Release);
        // Release: the freeing worker's writes to a reused old version come after the loads that this scan saw
        // finished. A worker that sees this limit sees the set of boundaries, too (V1). Partner: Acquire in `limits`.
        self.limits.snapshots.store(snapshots.number(), Ordering::Release);
        ReclaimLimits { pins, snapshots }
    }

    /// True if a reader was registered at the last scan for a boundary below `boundary`. Versions unneeded by the
    /// newest boundaries may then be kept for long (V1).
    #[inline]
    #[must_use]
    pub fn has_reader_below(&self, boundary: Epoch) -> bool {
        // Relaxed: nothing but memory depends on the value.
        self.limits.oldest_reader.load(Ordering::Relaxed) < boundary.number()
    }

    /// The boundaries that can be shown, as of the last scan; `None` during a publication. A caller that follows
    /// versions by these boundaries is bound (V1).
    #[must_use]
    pub fn shown_boundaries(&self) -> Option<ShownBoundaries> {
        self.shown.read()
    }

    /// Asks the owners of pins below `pins` and of snapshots below `snapshots` to end at their next call (E6). The next
    /// scans ignore the asked slots that are between calls. Returns the number of asked owners.
    pub fn expire(&self, pins: Epoch, snapshots: Epoch) -> usize {
        let slots = self.pins.lock();
        let mut asked = 0;
        for slot in slots.iter() {
            let held = slot.held_epochs();
            let is_old = held.pin.is_some_and(|epoch| epoch < pins)
                || held.snapshot.is_some_and(|epoch| epoch < snapshots);
            if is_old {
                slot.ask_expiry();
                asked += 1;
            }
        }
        if asked > 0 {
            // The scanner's half of the Dekker pair with `enter`. The fence stands here, because the next scan may run
            // on another thread and be past its own fence already. The next scan waits for our lock before looking for
            // requests.
            self.fences.heavy();
        }
        asked
    }

    /// Number of ended transactions and snapshots.
    #[must_use]
    pub fn expired_count(&self) -> u64 {
        // Relaxed: a figure.
        self.expired.load(Ordering::Relaxed)
    }

    /// Marks a worker as a possible changer of index leaves, until the drop of the guard (P1). Look up the current turn
    /// after this call: a turn that the look misses waits for the guard.
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

    /// True if a worker may be changing leaves of the index. Workers that enter the index after [`Epochs::fence_turn`]
    /// see the turn that was stored before (P1).
    #[must_use]
    pub fn is_index_entered(&self) -> bool {
        self.commits.lock().iter().any(|worker| worker.is_in_index())
    }

    /// True if a worker is bound. Workers that are bound after [`Epochs::fence_turn`] and then look up the turn see the
    /// turn stored before (P1).
    #[must_use]
    pub fn is_any_bound(&self) -> bool {
        self.commits.lock().iter().any(|worker| worker.bound_epoch().is_some())
    }

    /// Limits of reclamation, as of the last scan.
    #[inline]
    #[must_use]
    pub fn limits(&self) -> ReclaimLimits {
        // Acquire, both: partner is the Release in `scan`.
        let pins = self.limits.pins.load(Ordering::Acquire);
        // Acquire: partner is the Release of the same limit in `scan`.
        let snapshots = self.limits.snapshots.load(Ordering::Acquire);
        ReclaimLimits { pins: Epoch::new(pins), snapshots: Epoch::new(snapshots) }
    }

    /// Numbers of registered workers and pins.
    #[must_use]
    pub fn registered_counts(&self) -> (usize, usize) {
        (self.commits.lock().len(), self.pins.lock().len())
    }
}

#[cfg(test)]
mod tests;
