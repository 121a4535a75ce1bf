//! Runs closures as transactions: retries with back-off, one at a time or in batches.
//!
//! A closure may run several times and must have no effect outside the database. The caller gets a closure's result
//! only once the result is known to rest on one consistent state: a value after commit, an error after validation of
//! its reads.
//!
//! Neighbours: [`Database`] has these calls; a closure gets a [`Transaction`]; `sets::multi_get` overlaps descents.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ensile_base::limits::TURN_MILLIS_MAX;
use ensile_base::panic_text;
use ensile_base::random::Random;
use ensile_base::sync::{Backoff as Spin, sleep};

use crate::commit::Committed;
use crate::commit_gate::ClosureTurn;
use crate::database::{Database, DatabaseRef};
use crate::error::{Error, Result};
use crate::sets::context::Context;
use crate::shared_state::{Durability, SharedState};
use crate::transaction::Transaction;
use crate::transaction::prefetch::Prefetch;
use crate::transaction::receipt::Receipt;

/// End of a closure's transaction. An error comes with the commit of its reads, unless the error rests on no reads.
type Settled<R, E> = std::result::Result<(R, Committed), (E, Option<Committed>)>;

/// Capped, random waits between the attempts of one transaction.
#[derive(Default)]
struct RetryBackoff {
    /// Number of waits so far.
    attempts: u32,
    random: Option<Random>,
}

impl RetryBackoff {
    /// Number of doublings up to the longest wait.
    const DOUBLINGS_MAX: u32 = 12;
    /// Shortest wait.
    const UNIT: Duration = Duration::from_nanos(250);
    /// Least wait that leaves the processor to other threads.
    const SLEEP_FROM: Duration = Duration::from_micros(100);

    /// Waits for a random time below a limit, which doubles with each wait.
    #[cold]
    fn wait(&mut self) {
        let random = self.random.get_or_insert_with(Random::unpredictable);
        let longest = 1u64 << self.attempts.min(Self::DOUBLINGS_MAX);
        self.attempts += 1;
        let wait = Self::UNIT * random.next_between(1, longest) as u32;
        debug_assert!(wait <= Self::UNIT * (1 << Self::DOUBLINGS_MAX), "waits are capped");
        if wait >= Self::SLEEP_FROM {
            sleep(wait);
        } else {
            let mut spin = Spin::new();
            for _ in 0..wait.as_nanos() / Self::UNIT.as_nanos() {
                spin.wait();
            }
        }
    }
}

/// Limits at which the database gives up a closure that loses to other transactions.
#[derive(Clone, Copy)]
struct RunLimits {
    /// Largest number of runs, including the first.
    attempts: u32,
    /// Longest time from the first loss to the begin of a run.
    time: Duration,
}

/// The losses of a closure so far, and the closure's turn.
struct Losses<'s> {
    count: u32,
    /// Time of the first loss in nanoseconds, by the database's clock.
    begun_nanos: u64,
    turn: Option<ClosureTurn<'s>>,
    /// Number of turns in which the closure lost.
    turns: u32,
    /// Number of losses, and time in nanoseconds, before which the closure gets no turn.
    next_turn: (u32, u64),
    limits: Option<RunLimits>,
    backoff: RetryBackoff,
}

impl<'s> Losses<'s> {
    /// Number of reads above which a transaction has a turn after its first loss: each run of such a transaction is
    /// long.
    const LARGE_READS: usize = 4096;
    /// Number of losses after which a smaller transaction has a turn, if the losses took [`Losses::NANOS_FOR_TURN`] at
    /// least.
    const COUNT_FOR_TURN: u32 = 4;
    /// Least time of these losses, from the first loss, in nanoseconds.
    const NANOS_FOR_TURN: u64 = 5_000_000;
    /// Length of the pause after an overdue turn, in turns. A closure that needs more than a turn has a tenth of the
    /// time for turns.
    const OVERDUE_PAUSE: u64 = 9;
    const DOUBLINGS_MAX: u32 = 20;
    const TURN_MAX: Duration = Duration::from_millis(TURN_MILLIS_MAX);

    fn begin(now_nanos: u64, limits: Option<RunLimits>) -> Self {
        let backoff = RetryBackoff::default();
        Self { count: 0, begun_nanos: now_nanos, turn: None, turns: 0, next_turn: (0, 0), limits, backoff }
    }

    /// Prepares the next run after a loss: waits a little, or for a turn if the closure must have a turn.
    fn wait_for_next_run(&mut self, is_large: bool, shared: &'s SharedState) -> Result<()> {
        self.count += 1;
        if let Some(turn) = self.turn.take() {
            self.note_lost_turn(turn.is_over(), shared.clock.nanos());
        }
        self.check_limits(shared)?;
        let now = shared.clock.nanos();
        let (count, nanos) = self.next_turn;
        let is_starved = self.count >= Self::COUNT_FOR_TURN
            && now.saturating_sub(self.begun_nanos) >= Self::NANOS_FOR_TURN;
        if !(is_large || is_starved) || self.count < count || now < nanos {
            self.backoff.wait();
            return Ok(());
        }
        let deadline = self.limits.map(|limits| self.begun_nanos.saturating_add(nanos_of(limits.time)));
        self.turn = shared.life.gate.take_turn(&shared.epochs, &shared.clock, Self::TURN_MAX, deadline)?;
        self.check_limits(shared)
    }

    /// Notes a loss in the closure's turn: to a transaction of the closure's own thread, because the pin was taken
    /// away, or because the closure needs longer. A turn may help later. But turns without success must not stop the
    /// database again and again.
    fn note_lost_turn(&mut self, is_overdue: bool, now_nanos: u64) {
        self.turns += 1;
        let losses = 1u32 << self.turns.min(Self::DOUBLINGS_MAX);
        let pause = if is_overdue { Self::OVERDUE_PAUSE * nanos_of(Self::TURN_MAX) } else { 0 };
        self.next_turn = (self.count.saturating_add(losses), now_nanos.saturating_add(pause));
    }

    /// Refuses a further run beyond the limits of `run_with`.
    fn check_limits(&self, shared: &SharedState) -> Result<()> {
        let Some(limits) = self.limits else { return Ok(()) };
        let elapsed = Duration::from_nanos(shared.clock.nanos().saturating_sub(self.begun_nanos));
        if self.count >= limits.attempts || elapsed > limits.time {
            return Err(Error::LostTooOften { attempts: self.count, elapsed });
        }
        Ok(())
    }
}

fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The error of a request in a batch whose closure has panicked.
#[cold]
fn panic_error(panic: &(dyn Any + Send)) -> Error {
    let why = panic_text(panic).unwrap_or("the panic has no text");
    Error::Misuse(format!("a closure of the batch panicked, and this request did nothing: {why}"))
}

/// Error of an exchanged transaction. A commit here would wait for the log of another database.
#[cold]
fn wrong_database_error() -> Error {
    let why =
        "the closure exchanged its transaction for one of another database: use both, each where it belongs";
    Error::Misuse(why.to_owned())
}

impl Database {
    /// Runs `f` as a transaction and returns its value once the result may be shown: at commit if the database is
    /// relaxed, when the result is durable if the database is strict (the default); [`Transaction::set_durability`]
    /// chooses for one transaction. The database retries conflicts, so `f` may run any number of times. A closure that
    /// continues to lose gets a turn, in which no other thread commits; [`Database::run_with`] gives up at a limit, and
    /// names the closures that a turn does not help. So `f` must not wait for commits of other threads, nor for the
    /// disk.
    ///
    /// A transaction that begins inside `f` is separate: its commit stays when `f` runs again. If the inner transaction
    /// writes keys that `f` has read, `f` conflicts with the inner transaction at every attempt, for ever.
    ///
    /// A panic of `f` is passed on unchanged, and is no answer: the reads of `f` before the panic may never have been
    /// consistent. Return an error for conditions to be checked.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::Readable;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let counters = db.table::<String, u64>("counters")?;
    /// let count = db.run(|tx| {
    ///     let count = tx.get(&counters, "visits")?.unwrap_or(0) + 1;
    ///     tx.put(&counters, "visits", &count)?;
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error of `f`, after validation of its reads; [`Error::Storage`] from the log; [`Error::Closed`];
    /// [`Error::DiskFull`] and [`Error::MemoryFull`] before any commit. A committed transaction that then finds the
    /// disk full waits for space, for [`Tuning::full_disk_wait`](crate::Tuning::full_disk_wait) at most. After this
    /// time the error is an [`Error::Storage`] of the kind [`FreeSpace`](crate::ErrorKind::FreeSpace), and the
    /// transaction must not run again.
    #[inline]
    pub fn run<R>(&self, f: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        self.try_run(f)
    }

    /// As [`Database::run`], for closures with an error type of their own, which the engine's errors convert into.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Error, Readable};
    ///
    /// #[derive(Debug)]
    /// enum TurnedAway {
    ///     Poor { has: u64 },
    ///     Failed(Error),
    /// }
    ///
    /// impl From<Error> for TurnedAway {
    ///     fn from(error: Error) -> Self {
    ///         Self::Failed(error)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), TurnedAway> {
    /// let db = Database::in_memory()?;
    /// let accounts = db.table::<u32, u64>("accounts")?;
    /// db.run(|tx| tx.put(&accounts, &1, &30))?;
    /// let refused = db.try_run(|tx| {
    ///     let has = tx.get(&accounts, &1)?.unwrap_or(0);
    ///     let left = has.checked_sub(100).ok_or(TurnedAway::Poor { has })?; // what it wrote before would be undone
    ///     tx.put(&accounts, &1, &left)?;
    ///     Ok(left)
    /// });
    /// assert!(matches!(refused, Err(TurnedAway::Poor { has: 30 })));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::run`].
    #[inline]
    pub fn try_run<R, E: From<Error>>(
        &self,
        f: impl FnMut(&mut Transaction<'_>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.settle(|tx| self.attempts(tx, None, f))
    }

    /// Runs a transaction, and waits until the result may be shown.
    #[inline(always)]
    fn settle<R, E: From<Error>>(
        &self,
        run: impl FnOnce(&mut Transaction<'_>) -> Settled<R, E>,
    ) -> std::result::Result<R, E> {
        let mut tx = Transaction::begin_at_once(
            DatabaseRef::Borrowed(self.shared()),
            self.shared().settings.durability,
        );
        let settled = run(&mut tx);
        let durability = tx.durability;
        drop(tx);
        let (outcome, rests_on) = match settled {
            Ok((value, committed)) => (Ok(value), Some(committed)),
            Err((error, rests_on)) => (Err(error), rests_on),
        };
        if let (Durability::Strict, Some(committed)) = (durability, rests_on) {
            self.shared().storage.wait_durable(committed.epoch)?;
        }
        outcome
    }

    /// As [`Database::run`], with a limit for a closure that loses to other transactions: `attempts` runs, or `time`
    /// since the first loss. The closure runs once at least.
    ///
    /// A closure that loses runs again. A closure that continues to lose gets a turn: for one run, ten seconds at most,
    /// no other thread's commit takes effect. So the closure commits, with three exceptions: closures that wait for
    /// another thread's commit, that conflict with transactions inside the closure, or that need longer than a turn.
    /// Without a limit such a closure runs for ever.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use std::time::Duration;
    /// use ensile::{Database, Error, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// let lost = db.run_with(3, Duration::from_secs(60), |tx| {
    ///     let left = tx.get(&stock, &1)?.unwrap_or(9);
    ///     db.run(|other| other.put(&stock, &1, &left))?; // what this closure has read
    ///     tx.put(&stock, &2, &left)
    /// });
    /// assert!(matches!(lost, Err(Error::LostTooOften { attempts: 3, .. })));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::run`], and [`Error::LostTooOften`].
    pub fn run_with<R>(
        &self,
        attempts: u32,
        time: Duration,
        f: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        self.settle(|tx| self.attempts(tx, Some(RunLimits { attempts, time }), f))
    }

    /// Runs `f` as a transaction and returns at commit, with a receipt to wait on. Show no result before its receipt is
    /// durable, unless the loss of the result in a crash is acceptable.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::Database;
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let orders = db.table::<u64, String>("orders")?;
    /// let mut receipts = Vec::new();
    /// for (id, item) in [(1, "tea"), (2, "rice")] {
    ///     let ((), receipt) = db.submit(|tx| tx.put(&orders, &id, item))?;
    ///     receipts.push(receipt);
    /// }
    /// // All of them wait for the disk together.
    /// receipts.iter().try_for_each(|receipt| receipt.durable())?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::run`]. An error of `f` returns at once too: the reads under the error may not be durable yet,
    /// and the error has no receipt. If durability of a refusal matters, return the refusal as a value.
    #[inline]
    pub fn submit<R>(&self, f: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<(R, Receipt<'_>)> {
        let mut tx = Transaction::begin_at_once(DatabaseRef::Borrowed(self.shared()), Durability::Relaxed);
        self.with_receipt(self.attempts(&mut tx, None, f))
    }

    /// The result of `submit` and of a batch: the value with a receipt, or the error alone.
    #[inline]
    fn with_receipt<R, E>(&self, settled: Settled<R, E>) -> std::result::Result<(R, Receipt<'_>), E> {
        match settled {
            Ok((value, committed)) => {
                Ok((value, Receipt::new(committed, DatabaseRef::Borrowed(self.shared()))))
            }
            Err((error, _)) => Err(error),
        }
    }

    /// Runs `f` until it commits, fails for a reason of its own, or reaches its limits. A closure that continues to
    /// lose gets a turn (P1).
    #[inline]
    fn attempts<R, E: From<Error>>(
        &self,
        tx: &mut Transaction<'_>,
        limits: Option<RunLimits>,
        mut f: impl FnMut(&mut Transaction<'_>) -> std::result::Result<R, E>,
    ) -> Settled<R, E> {
        // A closed database promises not to run the closure. The commit checks again: the closure may have forked.
        if let Err(closed) = self.shared().life.check_open() {
            return Err((closed.into(), None));
        }
        // A turn ends with its run: with the drop of `losses`, or after the next loss.
        let mut losses = None;
        loop {
            let outcome = f(tx);
            if !tx.belongs_to(self.shared()) {
                return Err((wrong_database_error().into(), None));
            }
            match outcome {
                Ok(value) => match tx.finish() {
                    Ok(committed) => return Ok((value, committed)),
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return Err((error.into(), None)),
                },
                Err(own) => match tx.validate_reads() {
                    Ok(committed) => return Err((own, Some(committed))),
                    Err(error) if error.is_retryable() => {}
                    // Nothing proves that the reads under the closure's own error were ever consistent (R2).
                    Err(error) => return Err((error.into(), None)),
                },
            }
            if let Err(error) = self.after_loss(tx, &mut losses, limits) {
                return Err((error.into(), None));
            }
        }
    }

    /// Prepares the next run after a loss: waits a little, or for a turn, and begins the run.
    #[cold]
    #[inline(never)]
    fn after_loss<'s>(
        &'s self,
        tx: &mut Transaction<'_>,
        losses: &mut Option<Losses<'s>>,
        limits: Option<RunLimits>,
    ) -> Result<()> {
        let shared = self.shared();
        tx.count_retry();
        let is_large = tx.reads() > Losses::LARGE_READS;
        let losses = losses.get_or_insert_with(|| Losses::begin(shared.clock.nanos(), limits));
        tx.renew_after(|| losses.wait_for_next_run(is_large, shared))
    }

    /// Runs a batch of independent small transactions with overlapped descents, each with its own commit and its own
    /// receipt, in order. `prefetch` names the keys that a request will look up first. The batch fetches the keys of
    /// several requests from memory at the same time. A key without a name is only slower.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::Readable;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let accounts = db.table::<u64, u64>("accounts")?;
    /// db.run(|tx| (0..100).try_for_each(|id| tx.put(&accounts, &id, &id)))?;
    /// let requests = [7u64, 42, 99];
    /// let results = db.run_batch(
    ///     &requests,
    ///     |id, prefetch| prefetch.key(&accounts, id),
    ///     |tx, id| tx.get(&accounts, id),
    /// );
    /// for (id, result) in requests.iter().zip(results) {
    ///     let (value, receipt) = result?;
    ///     receipt.durable()?;
    ///     assert_eq!(value, Some(*id));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// If `body` panics, the request takes no effect. The request's result is [`Error::Misuse`] with the panic's text.
    /// All other requests run.
    pub fn run_batch<'db, Q, R>(
        &'db self,
        requests: &[Q],
        prefetch: impl Fn(&Q, &mut Prefetch<'_>),
        mut body: impl FnMut(&mut Transaction<'_>, &Q) -> Result<R>,
    ) -> Vec<Result<(R, Receipt<'db>)>> {
        let mut results = Vec::with_capacity(requests.len());
        while results.len() < requests.len() {
            let rest = &requests[results.len()..];
            let run = || self.run_batch_with(rest, &prefetch, &mut body, |result| results.push(result));
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                results.push(Err(panic_error(&*panic)));
            }
        }
        debug_assert_eq!(results.len(), requests.len(), "each request has its result");
        results
    }

    /// As [`Database::run_batch`], for closures with an error type of their own. Hands each result to `done` as soon as
    /// the transaction has ended. The panic of a closure ends the batch, and reaches the caller. `done` has received
    /// the results of all earlier requests.
    pub fn run_batch_with<'db, Q, R, E: From<Error>>(
        &'db self,
        requests: &[Q],
        prefetch: impl Fn(&Q, &mut Prefetch<'_>),
        mut body: impl FnMut(&mut Transaction<'_>, &Q) -> std::result::Result<R, E>,
        mut done: impl FnMut(std::result::Result<(R, Receipt<'db>), E>),
    ) {
        /// Number of requests with records in the caches at a time.
        const TOGETHER: usize = 32;
        for requests in requests.chunks(TOGETHER) {
            let mut tx =
                Transaction::begin_at_once(DatabaseRef::Borrowed(self.shared()), Durability::Relaxed);
            let mut bounds = [0; TOGETHER + 1];
            self.descend_together(&mut tx, requests, &prefetch, &mut bounds);
            debug_assert!(
                bounds[..=requests.len()].is_sorted(),
                "announcements stand in the order of requests"
            );
            for (at, request) in requests.iter().enumerate() {
                tx.run_outside_call(
                    #[inline(always)]
                    |context| context.sets.writes.activate(bounds[at], bounds[at + 1]),
                );
                done(self.with_receipt(self.attempts(&mut tx, None, |tx| body(tx, request))));
                tx.restart();
            }
        }
    }

    /// The common descent of a batch. If the transaction has expired, the descent finds nothing, and each request finds
    /// the expiry by itself.
    fn descend_together<Q>(
        &self,
        tx: &mut Transaction<'_>,
        requests: &[Q],
        prefetch: &impl Fn(&Q, &mut Prefetch<'_>),
        bounds: &mut [usize],
    ) {
        debug_assert!(requests.len() < bounds.len() && bounds[0] == 0, "a bound behind each request");
        let shared = self.shared();
        if shared.life.check_open().is_err() {
            // Each request finds the closed database by itself.
            return;
        }
        let kept = tx.kept_context();
        kept.run_outside_call(|context| context.sets.writes.end_batch());
        for (request, end) in requests.iter().zip(&mut bounds[1..]) {
            kept.run_outside_call(|context| context.sets.writes.keys.begin_request());
            prefetch(request, &mut Prefetch { database: shared.life.id, kept });
            *end = kept.run_outside_call(|context| context.sets.writes.keys.len());
        }
        let is_ahead = kept.enter(
            |pinned, Context { sets, descents, .. }| {
                descents.descend_announced(&mut sets.writes, 0, |id| shared.tables.table(id), pinned);
                true
            },
            |_| false,
        );
        if !is_ahead {
            kept.run_outside_call(|context| context.sets.writes.end_batch());
            bounds.fill(0);
        }
    }
}
