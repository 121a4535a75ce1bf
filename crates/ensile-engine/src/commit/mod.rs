//! The commit protocol (Silo §4.4, figure 2).
//!
//! ```text
//! prepare          place, reserve                            obtains everything that could be lacking later
//! mod              bind .. fence, epoch, fence .. unbind     the order of all steps
//! validation       lock, validate, check_room, choose_tid    under the locks, before anything is changed
//! install          install, append                           nothing fails any more
//! cleanup          register_garbage, or abandon              after unbinding
//! before_images    values that are replaced, if the log has them
//! pending_removes  pages that are changed, and versions that a picture under way needs
//! room             memory below the limit, if the memory has a limit
//! ```
//! Invariants, each from `docs/internals/protocols/commit.md`:
//! - E1: Between bind and unbind nothing waits (except for record locks), nothing fails for lack of memory or space,
//!   and no user code runs. Placeholders, memory and log space are obtained before; garbage is registered after.
//! - C1: lock all, fence, read E, fence, validate; a read-only commit fences once before validating.
//! - C2: Every write-set record is the latest of its key once locked.
//! - C3: Placeholders are in the index before binding.
//! - S1, K3: A version that a snapshot boundary needs is preserved before the new TID is stored.
//! - N3, N4, N6: A version that a picture needs is left to the picture before the version's record changes, and the
//!   page of each key's first change is marked (`pending_removes`).
//! - P2: The commit of a task ([`CommitTask`]) waits for no log space and no turn. A busy commit has given back
//!   everything that it has prepared.
//! - Before-images, if asked for, are read between validation and installing, under the locks (`before_images`).
//!
//! Neighbours: up, `transaction` hands its sets over; down, records, the index and the log's appender.

mod before_images;
mod cleanup;
mod install;
mod pending_removes;
mod prepare;
mod room;
mod validation;

use std::task::Waker;
use std::time::Duration;

use ensile_base::limits::TURN_MILLIS_MAX;
use ensile_base::sync::{Ordering, fence, fence_after_exchange, fence_after_loads, yield_now};
use ensile_base::{Epoch, Tid};
use ensile_epoch::{Epochs, Pinned};

use crate::commit_gate::{ClosureTurn, Passing};
use crate::error::{Error, Result};
use crate::garbage::UnhookedEpoch;
use crate::sets::{Read, Sets};
use crate::shared_state::{CommitWaits, SharedState};
use crate::tables::CATALOG_ID;
use crate::worker::Worker;
use validation::is_only_locked;

/// The TID and the epoch of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// For a read-only transaction, the largest TID read.
    pub(crate) tid: Tid,
    /// Epoch of the commit: the result may be shown once this epoch is durable (R1).
    pub(crate) epoch: Epoch,
}

/// Commits a transaction without writes, for `Transaction::finish`. In its own turn a thread repeats a validation that
/// only failed because of locks (P1).
#[inline(always)]
pub(crate) fn commit_reads<'p>(
    shared: &SharedState,
    worker: &mut Worker,
    sets: &Sets<'p>,
    pinned: Pinned<'p>,
) -> Result<Committed> {
    debug_assert!(sets.writes.is_empty(), "a write-set is committed under locks");
    let mut committed = validate_reads_once(sets, &shared.unhooked, pinned);
    while committed.is_err() && meets_only_locks(shared, sets, pinned) {
        yield_now();
        committed = validate_reads_once(sets, &shared.unhooked, pinned);
    }
    worker.count(committed.is_ok());
    shared.collect_now_and_then(worker, pinned);
    committed
}

/// True if reads failed in this thread's turn, and only because of locks that others are about to release (P1).
#[cold]
fn meets_only_locks<'p>(shared: &SharedState, sets: &Sets<'p>, pinned: Pinned<'p>) -> bool {
    let is_as_read = |read: &Read<'p>| {
        let now = read.record.resolve(pinned).word();
        now == read.word || is_only_locked(shared, now, read.word)
    };
    shared.life.gate.is_mine() && sets.nodes.holds(pinned) && sets.reads.iter().all(is_as_read)
}

/// Commits a transaction with writes, for `Transaction::finish`. A failed commit changes no row. The commit leaves only
/// placeholders in the index, and registers the placeholders for cleanup. The commit of a `task` does not wait: the
/// commit is [`Error::Busy`] instead, and its sets are ready for the next try (P2).
#[inline(never)]
pub(crate) fn commit_writes<'p>(
    shared: &SharedState,
    worker: &mut Worker,
    sets: &mut Sets<'p>,
    pinned: Pinned<'p>,
    task: Option<CommitTask<'_>>,
) -> Result<Committed> {
    debug_assert!(!sets.writes.is_empty(), "a transaction without writes locks nothing");
    let turned = Turned { task, ..Turned::default() };
    let committed = Commit { shared, worker, sets, pinned, turned }.run();
    debug_assert!(
        worker.commit.slot().bound_epoch().is_none(),
        "a worker is bound inside the critical section only (E1)"
    );
    shared.collect(worker, sets.writes.entries.len(), pinned);
    committed
}

/// Validates the reads of a transaction once, takes no lock and chooses no TID of its own (R1). Callers are
/// [`commit_reads`], and the check of the reads under an error of a closure (R2). Returns the largest TID read, and the
/// epoch that makes the result durable.
// Always inlined: for a transaction that reads one row the call would be a hundredth of the time.
#[inline(always)]
pub(crate) fn validate_reads_once<'p>(
    sets: &Sets<'p>,
    unhooked: &UnhookedEpoch,
    pinned: Pinned<'p>,
) -> Result<Committed> {
    debug_assert!(sets.reads.iter().all(|read| !read.word.is_locked()), "reads wait for locks");
    // One read, or one witnessed leaf, was consistent at the moment of the read. This moment is the serialization
    // point, and needs no validation.
    let (tid, found_none) = match sets.reads.as_slice() {
        [only] if sets.nodes.len() == 0 => (only.word.tid(), only.word.tid() == Tid::ZERO),
        reads => {
            // The reads come before the validation (C1); partner: the fences of writers' commits.
            fence_after_loads();
            let unchanged = reads.iter().all(|read| read.record.resolve(pinned).word() == read.word);
            if reads.len() + sets.nodes.len() > 1 && !(unchanged && sets.nodes.holds(pinned)) {
                return Err(Error::Conflict);
            }
            let tids = || reads.iter().map(|read| read.word.tid());
            let found_none = sets.nodes.len() > 0 || tids().any(|tid| tid == Tid::ZERO);
            (tids().max().unwrap_or(Tid::ZERO), found_none)
        }
    };
    let mut epoch = tid.epoch();
    if found_none {
        // A key without a record, or with a placeholder, may have been deleted (N19).
        epoch = epoch.max(unhooked.newest()).max(sets.buried);
    }
    Ok(Committed { tid, epoch })
}

/// A task whose commit does not wait.
pub(crate) struct CommitTask<'c> {
    /// Waker that is called once a new try is worthwhile. The registration of a busy try takes the waker.
    pub(crate) waker: &'c mut Option<Waker>,
    /// Waits of earlier tries, and of this try.
    pub(crate) waits: &'c mut CommitWaits,
    /// True if the transaction had witnessed leaves before this try.
    pub(crate) has_witnesses: bool,
}

/// The commit of a transaction's sets.
struct Commit<'c, 'p> {
    shared: &'c SharedState,
    worker: &'c mut Worker,
    sets: &'c mut Sets<'p>,
    pinned: Pinned<'p>,
    turned: Turned<'c>,
}

/// Relation of a commit to the turns of other threads (P1).
#[derive(Default)]
struct Turned<'c> {
    /// Guard of a commit that made way for a turn: the next turn waits for the commit.
    passing: Option<Passing<'c>>,
    /// Turn of a commit that was turned away again.
    turn: Option<ClosureTurn<'c>>,
    /// Task of a commit that does not wait.
    task: Option<CommitTask<'c>>,
}

impl Commit<'_, '_> {
    /// True if the commit defines a table. Such a commit need not wait for the turn of another thread: no application
    /// reads the catalogue, and the thread that opens a table holds the catalogue's lock.
    #[cold]
    fn is_of_catalogue(&self) -> bool {
        self.sets.writes.entries.iter().all(|write| write.table == CATALOG_ID)
    }
}

impl<'c> Turned<'c> {
    /// Waits for the end of another thread's turn, after the gate has refused the commit. At the second refusal, waits
    /// for a turn of the commit's own. The commit of a task does not wait: the commit is [`Error::Busy`] during the
    /// turn, and passes before the next turn (P2).
    #[cold]
    fn away(&mut self, shared: &'c SharedState) -> Result<()> {
        if let Some(task) = &mut self.task {
            return task.make_way(shared);
        }
        if self.passing.take().is_some() || self.turn.take().is_some() {
            let longest = Duration::from_millis(TURN_MILLIS_MAX);
            self.turn = shared.life.gate.take_turn(&shared.epochs, &shared.clock, longest, None)?;
        } else {
            self.passing = Some(shared.life.gate.make_way(&shared.clock));
        }
        Ok(())
    }
}

// The steps, in the order and under the names of `docs/internals/protocols/commit.md`.
impl Commit<'_, '_> {
    /// Runs the whole commit, and afterwards registers its garbage, or gives everything back.
    #[inline(always)]
    fn run(mut self) -> Result<Committed> {
        let versions = self.worker.blocks.place();
        let committed = self.prepare_and_take_effect();
        if !self.shared.settings.commits_plainly {
            self.give_back_beside();
        }
        match &committed {
            Ok(committed) => {
                self.worker.count(true);
                self.register_garbage(*committed);
            }
            Err(error) => {
                // A busy commit goes on with its next try.
                if !matches!(error, Error::Busy) {
                    self.worker.count(false);
                }
                self.abandon(versions);
            }
        }
        committed
    }

    /// Gives back the copies that were not left to a picture, and the memory that is set aside and not used.
    #[inline]
    fn give_back_beside(&mut self) {
        debug_assert!(!self.shared.settings.commits_plainly, "a plain commit copies and sets aside nothing");
        self.give_back_displaced();
        if self.shared.settings.is_memory_limited {
            self.worker.blocks.end_set_aside();
        }
    }

    /// Prepares the commit, and enters the critical section. Repeats both while a turn, a lock, or a lack of log space
    /// or copies sends the commit back.
    #[inline(always)]
    fn prepare_and_take_effect(&mut self) -> Result<Committed> {
        let settings = &self.shared.settings;
        let commits_plainly = settings.commits_plainly;
        let log_bytes = if !commits_plainly && settings.is_memory_limited {
            self.prepare_with_room()?
        } else {
            self.place()?;
            self.reserve()?
        };
        loop {
            if !commits_plainly {
                self.prepare_displaced();
            }
            match self.bind_and_take_effect() {
                Err(_) if std::mem::take(&mut self.worker.is_turned_away) => {
                    self.give_back_displaced();
                    self.wait_for_turn(log_bytes)?;
                }
                // Each other thread comes this far once in a turn: then the thread makes way.
                Err(_) if std::mem::take(&mut self.worker.is_behind_a_lock) => {
                    self.give_back_displaced();
                    yield_now();
                    self.reserve_log_again(log_bytes)?;
                }
                // This happens once at most: the space reserved now suffices for all values that the locks can find.
                Err(_) if self.worker.images.fell_short() => {
                    self.give_back_displaced();
                    before_images::reserve_again(self)?;
                }
                // A freeze came in between, or another commit's version. The versions copied now suffice, unless the
                // same happens again. Each key has one first change for a picture, so the repetition soon ends.
                Err(_) if self.worker.prepared_pages.fell_short() => {
                    self.give_back_displaced();
                    self.reserve_log_again(log_bytes)?;
                }
                committed => return committed,
            }
        }
    }

    /// Runs the critical section with a bound worker. A panic inside ends the process.
    fn bind_and_take_effect(&mut self) -> Result<Committed> {
        let bound = Bound::bind(self);
        let whole = WholeOrAbort;
        let committed = bound.commit.take_effect();
        std::mem::forget(whole);
        // The drop of `bound` unbinds.
        committed
    }

    /// The critical section (E1).
    #[inline(always)]
    fn take_effect(&mut self) -> Result<Committed> {
        let shared = self.shared;
        // From here on a failure drops `locked`, and the drop unlocks.
        debug_assert!(
            self.worker.commit.slot().bound_epoch().is_some(),
            "locks are taken by bound workers only (E2)"
        );
        let mut locked = self.lock()?;
        let epoch = serialization_point(&shared.epochs, locked.has_records());
        let boundary = shared.snapshot_boundary(epoch);
        // `close` waits only for the commits that have not seen its mark by now. During a turn that this check misses,
        // the turn sees the locks (P1).
        locked.look_at_gate()?;
        locked.validate()?;
        locked.check_room(boundary)?;
        if !shared.settings.commits_plainly {
            locked.check_beside(epoch)?;
        }
        let tid = locked.choose_tid(epoch)?;
        locked.install_and_append(tid, boundary);
        Ok(Committed { tid, epoch })
    }
}

/// The epoch of a commit, read between locks and validation. The epoch is the commit's place in the serial order
/// (§4.4). `has_locked` is true if the commit has locked a record.
#[inline]
pub(crate) fn serialization_point(epochs: &Epochs, has_locked: bool) -> Epoch {
    // The locks come before the read of E, and the read of E before the validation (C1); partner: the same two fences
    // of every other commit. Later installs stay behind the first fence too (C5). The last lock was an exchange, but a
    // write-set with only deletes of missing keys has taken no lock.
    if !has_locked {
        // SeqCst: the binding comes before the read of E (E2).
        fence(Ordering::SeqCst);
    }
    fence_after_exchange();
    let epoch = epochs.now();
    fence_after_loads();
    epoch
}

/// A commit with a worker bound to an epoch. The drop unbinds the worker; the epoch cannot end before the drop (E1,
/// E2).
struct Bound<'b, 'c, 'p> {
    commit: &'b mut Commit<'c, 'p>,
}

impl<'b, 'c, 'p> Bound<'b, 'c, 'p> {
    /// Binds the commit's worker to the current epoch.
    #[inline(always)]
    fn bind(commit: &'b mut Commit<'c, 'p>) -> Self {
        debug_assert!(
            commit.worker.commit.slot().bound_epoch().is_none(),
            "a worker commits one transaction at a time"
        );
        commit.worker.commit.bind(commit.shared.epochs.now());
        debug_assert!(
            commit.worker.commit.slot().bound_epoch().is_some(),
            "its epoch cannot end before the commit (E2)"
        );
        Self { commit }
    }
}

impl Drop for Bound<'_, '_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        let whole = WholeOrAbort;
        debug_assert!(cfg!(any(loom, shuttle)) || self.commit.worker.commit.slot().bound_epoch().is_some());
        // The buffer comes first: unbinding is the commit's last step (E1), and the logger may take the entry
        // afterwards.
        if let Some(appender) = &mut self.commit.worker.appender {
            appender.release();
        }
        self.commit.worker.commit.unbind();
        debug_assert!(
            self.commit.worker.commit.slot().bound_epoch().is_none(),
            "epochs go on after the commit (E2)"
        );
        std::mem::forget(whole);
    }
}

/// Ends the process if a panic leaves a commit half-way. Then an invariant is broken, and some records carry the new
/// TID while others are locked. To serve either record would be worse than recovery of the durable state.
struct WholeOrAbort;

impl Drop for WholeOrAbort {
    fn drop(&mut self) {
        // Under shuttle the test reports the panic, and the database serves nothing afterwards.
        if !cfg!(shuttle) {
            std::process::abort();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tries;
