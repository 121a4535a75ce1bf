//! Interleaves what happens in one life: transactions of several workers, readers whose results are waited for,
//! snapshots, beats and logger steps; and writes into the ledger what was promised, and before which call of the disk.
//!
//! Neighbours: `points` and `failing` choose disks and verdicts.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::thread::{Scope, ScopedJoinHandle};

use ensile_sim::ledger::{Ledger, Rows, Writes};

use super::life::{CHECKPOINTERS, Life};
use crate::prelude::*;

/// Notes the disk's call before which an answer came.
struct Bell {
    disk: SimDisk,
    rung_at: AtomicU64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Relaxed: all of this runs on one thread at a time.
        self.rung_at.store(self.disk.calls().all, Ordering::Relaxed);
    }
}

/// A result that is shown once it is durable.
struct Waiting {
    answer: Pin<Box<dyn Future<Output = Result<()>>>>,
    bell: Arc<Bell>,
    /// The last epoch that it rests on.
    rests_on: Epoch,
    what: &'static str,
}

/// A worker on a thread of its own, which does what it is told and nothing else.
struct Worker<'scope> {
    seeds: Sender<u64>,
    outcomes: Receiver<Result<Option<(Epoch, Writes)>>>,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl<'scope> Worker<'scope> {
    fn spawn(scope: &'scope Scope<'scope, '_>, life: &'scope Life) -> Self {
        let (seeds, asked) = channel();
        let (answers, outcomes) = channel();
        let thread = scope.spawn(move || {
            for seed in asked {
                if answers.send(life.transaction(seed)).is_err() {
                    break;
                }
            }
        });
        Self { seeds, outcomes, thread }
    }

    /// Once this returns, what the thread kept of the database is given back too, so the same seed does the same.
    fn end(self) {
        drop(self.seeds);
        let ended = self.thread.join();
        assert!(ended.is_ok() || std::thread::panicking(), "a worker panicked");
    }

    fn transaction(&self, seed: u64) -> Result<Option<(Epoch, Writes)>> {
        self.seeds.send(seed).expect("it waits for this");
        self.outcomes.recv().expect("no panic")
    }
}

/// What drives a life, one thing at a time.
pub(crate) struct Driver<'scope, 'env> {
    life: &'scope Life,
    scope: &'scope Scope<'scope, 'env>,
    disk: SimDisk,
    ledger: &'env mut Ledger,
    random: Random,
    workers: Vec<Worker<'scope>>,
    waiting: Vec<Waiting>,
    /// What answers and steps said when they failed.
    pub(crate) errors: Vec<Error>,
    /// The checkpoints that were installed, each by what it covers, and the disk's call behind which that was known.
    pub(crate) installed: Vec<(u64, Epoch)>,
}

impl<'scope, 'env> Driver<'scope, 'env> {
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        life: &'scope Life,
        disk: &SimDisk,
        ledger: &'env mut Ledger,
        seed: u64,
    ) -> Self {
        let mut random = Random::from_seed(seed);
        let workers = (0..random.next_between(1, 3)).map(|_| Worker::spawn(scope, life)).collect();
        let (waiting, errors, installed) = (Vec::new(), Vec::new(), Vec::new());
        Self { life, scope, disk: disk.clone(), ledger, random, workers, waiting, errors, installed }
    }

    fn at(&self) -> u64 {
        self.disk.calls().all
    }

    /// Does something; an error is noted, and life goes on.
    pub(crate) fn step(&mut self) {
        let done = match self.random.next_below(27) {
            0..8 => self.transact(),
            8..10 => self.read(),
            10 => self.read_snapshot(),
            11 => {
                self.exchange_worker();
                Ok(())
            }
            12..17 => {
                self.life.beat();
                Ok(())
            }
            17 => self.leave_open(),
            18..20 => {
                if self.random.percent(20) {
                    // Whatever comes of it: who asked does not wait.
                    drop(self.life.db.checkpoint());
                }
                for _ in 0..self.random.next_below(6) {
                    self.life.db.checkpoint_step(self.random.next_below(CHECKPOINTERS as u64) as usize);
                }
                Ok(())
            }
            _ => {
                if self.life.setting.has_log() {
                    let logger = self.random.next_below(self.life.setting.loggers as u64) as usize;
                    self.life.db.logger_step(logger);
                }
                Ok(())
            }
        };
        self.errors.extend(done.err());
        if self.life.setting.has_pictures() {
            // An answer that is asked for the first time once D has moved would not know when that was.
            self.hear();
            self.take_pictures();
        }
        let installed = self.life.installed();
        if self.installed.last().map_or(Epoch::ZERO, |last| last.1) < installed {
            self.installed.push((self.at(), installed));
        }
        self.hear();
    }

    /// A picture waits for more epochs than a fuzzy checkpoint, so it is asked for and worked at more often.
    fn take_pictures(&mut self) {
        if self.random.percent(20) {
            // Whatever comes of it: who asked does not wait.
            drop(self.life.db.checkpoint());
        }
        for checkpointer in 0..CHECKPOINTERS {
            for _ in 0..self.random.next_below(4) {
                self.life.db.checkpoint_step(checkpointer);
            }
        }
        if self.random.percent(20) {
            self.settle();
        }
    }

    /// Closes the epoch, and lets every logger do what it can.
    pub(crate) fn settle(&mut self) {
        self.life.beat();
        for _ in 0..2 {
            (0..self.life.setting.loggers).for_each(|logger| {
                self.life.db.logger_step(logger);
            });
        }
        self.hear();
    }

    fn some_key(&mut self) -> u64 {
        self.random.next_below(self.life.setting.keys())
    }

    fn transact(&mut self) -> Result<()> {
        let seed = self.random.next_u64();
        let which = self.random.next_below(self.workers.len() as u64 + 1) as usize;
        let outcome = match self.workers.get(which) {
            Some(worker) => worker.transaction(seed),
            None => self.life.transaction(seed),
        };
        if let Some((epoch, writes)) = outcome? {
            self.ledger.commit(self.at(), epoch, writes);
        }
        Ok(())
    }

    /// A reader that shows what it saw once it is durable, or at once where nobody may rely on it.
    fn read(&mut self) -> Result<()> {
        let keys: Vec<u64> = (0..self.random.next_between(1, 3)).map(|_| self.some_key()).collect();
        let (rows, receipt) = self
            .life
            .db
            .submit(|tx| keys.iter().map(|key| tx.get(&self.life.rows, key)).collect::<Result<Vec<_>>>())?;
        let all = self.ledger.all();
        assert!(keys.iter().zip(&rows).all(|(key, row)| all.get(key) == row.as_ref()), "a read of the past");
        if self.random.percent(70) {
            let rests_on = self.ledger.written(&keys).unwrap_or(Epoch::ZERO);
            self.wait(receipt.durable_async(), rests_on, "what a reader was shown");
        }
        Ok(())
    }

    fn read_snapshot(&mut self) -> Result<()> {
        let mut snapshot = self.life.db.snapshot()?;
        let boundary = snapshot.epoch();
        let state = self.ledger.state(boundary.previous());
        let keys: Vec<u64> = if self.random.percent(50) {
            let shown: Rows = snapshot.range(&self.life.rows, ..).collect::<Result<_>>()?;
            assert_eq!(shown, state, "a snapshot of {boundary}");
            (0..self.life.setting.keys()).collect()
        } else {
            (0..self.random.next_between(1, 3)).map(|_| self.some_key()).collect()
        };
        for key in &keys {
            let shown = snapshot.get(&self.life.rows, key)?;
            assert_eq!(shown.as_ref(), state.get(key), "key {key} in a snapshot of {boundary}");
        }
        let rests_on = self.ledger.written_below(&keys, boundary).unwrap_or(Epoch::ZERO);
        let (shown, durable) = (snapshot.shown_epoch(), self.life.db.durable_epoch());
        // R1. With a log a delete whose record is gone is durable (U2); without one it need not be (N19).
        let has_log = self.life.setting.has_log();
        assert!(
            shown < boundary && (shown >= rests_on || rests_on <= durable || !has_log),
            "a snapshot of {boundary} rests on {rests_on}, and says {shown}; {durable} is durable"
        );
        // It waits without end where nobody steps, so only where it need not.
        if durable >= if has_log { shown } else { boundary.previous() } {
            snapshot.durable()?;
            self.ledger.promise(self.disk.calls().all, rests_on, "a snapshot that was shown");
        }
        Ok(())
    }

    /// A worker ends with its buffer part-filled, and another one comes.
    fn exchange_worker(&mut self) {
        let which = self.random.next_below(self.workers.len() as u64) as usize;
        self.workers.swap_remove(which).end();
        self.workers.push(Worker::spawn(self.scope, self.life));
    }

    /// A transaction that is open for a while and comes to nothing.
    fn leave_open(&mut self) -> Result<()> {
        let mut tx = self.life.db.begin();
        tx.put(&self.life.rows, &self.some_key(), &vec![7; 8])?;
        self.transact()
    }

    /// Listens for answers and announcements.
    fn hear(&mut self) {
        self.ledger.promise(self.at(), self.life.db.durable_epoch(), "the announced epoch");
        let (ledger, errors) = (&mut *self.ledger, &mut self.errors);
        // N18. Without a log only a picture makes a result durable, but for what recovery has found.
        let pictured = (!self.life.setting.has_log())
            .then(|| self.life.installed().previous().max(self.life.recovered_to()));
        self.waiting.retain_mut(|waiting| {
            let waker = Waker::from(Arc::clone(&waiting.bell));
            match waiting.answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => true,
                Poll::Ready(Ok(())) => {
                    // Relaxed: as in `wake`.
                    let at = waiting.bell.rung_at.load(Ordering::Relaxed);
                    let Waiting { rests_on, what, .. } = waiting;
                    let is_pictured = pictured.is_none_or(|epoch| *rests_on <= epoch);
                    assert!(is_pictured, "{what} rests on {rests_on}, and pictures end at {pictured:?}");
                    ledger.promise(at, *rests_on, what);
                    false
                }
                Poll::Ready(Err(error)) => {
                    errors.push(error);
                    false
                }
            }
        });
    }

    /// How many results are waited for.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A transaction that writes for certain, and is waited for.
    pub(crate) fn write(&mut self) -> Result<()> {
        let (key, row) = (self.some_key(), self.random.next_u64().to_le_bytes().to_vec());
        let ((), receipt) = self.life.db.submit(|tx| tx.put(&self.life.rows, &key, &row))?;
        self.ledger.commit(self.at(), receipt.epoch(), vec![(key, Some(row))]);
        self.wait(receipt.durable_async(), receipt.epoch(), "an acknowledgment");
        Ok(())
    }

    fn wait(
        &mut self,
        answer: impl Future<Output = Result<()>> + 'static,
        rests_on: Epoch,
        what: &'static str,
    ) {
        let bell = Arc::new(Bell { disk: self.disk.clone(), rung_at: AtomicU64::new(self.at()) });
        self.waiting.push(Waiting { answer: Box::pin(answer), bell, rests_on, what });
    }
}

impl Drop for Driver<'_, '_> {
    fn drop(&mut self) {
        self.workers.drain(..).for_each(Worker::end);
    }
}
