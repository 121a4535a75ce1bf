//! Two threads that run transactions in turns, each with a worker of its own, and the lines that each worker touches.
//!
//! In every round the second worker runs each kind of transaction, and then the first worker. The epoch ends after
//! every [`ROUNDS_PER_EPOCH`] rounds. Touches are kept apart by epoch. A line that changes hands only once an epoch (a
//! log buffer that the logger gives to another worker, a freed block in use again) is no contention between the
//! workers. The first epochs are not recorded: in them workers are made, pools filled and pages touched.
//!
//! Neighbours: stages are [`super::keys`], [`super::business`] and [`super::waits`]; [`super::account`] judges the
//! observations.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ensile_base::sync::access_trace::{Touched, record};
use ensile_bench::{Failure, Result};
use serde::Serialize;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) does: Does,
    /// Number of runs in a round.
    pub(super) times: usize,
}

/// The action of a kind of transaction. The action decides the shared lines that the kind may touch with any keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Does {
    /// Reads through borrowed handles, and waits for no other thread: no shared lines.
    Reads,
    /// Reads, and keeps the database open by a handle of its own: one more owner, counted in a line common to all
    /// handles.
    ReadsOwned,
    /// Reads, or is at its end, and waits until the result is durable.
    Waits,
    /// Writes rows: the lines of the rows.
    Writes,
}

/// One side: runs a transaction of the kind at this place among the stage's kinds, and returns the touched lines.
pub(super) type Side<'s> = Box<dyn FnMut(usize) -> Result<Vec<Touched>> + 's>;

/// Runs `run`, and returns the lines touched on this thread.
pub(super) fn recorded<E>(run: impl FnOnce() -> std::result::Result<(), E>) -> Result<Vec<Touched>>
where
    Failure: From<E>,
{
    let (result, touched) = record(run);
    Ok(result.map(|()| touched)?)
}

/// A loaded database and its workload.
pub(super) trait Stage: Sync {
    /// The kinds of transactions, in the order of a round.
    fn kinds(&self) -> Vec<Kind>;

    /// A side; called on the side's own thread.
    fn side(&self, side: usize) -> Side<'_>;

    /// Lets the database move on.
    fn beat(&self);

    /// Called again and again while a transaction runs, for transactions that wait until durable.
    fn nudge(&self) {}
}

/// Touches of a line by the second worker, for the sum of its transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub(super) read: bool,
    pub(super) written: bool,
}

/// The observed touches.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Lines touched by the first worker's transactions, by kind and transaction, with the epoch.
    pub(super) written: Vec<Vec<(usize, Vec<Touched>)>>,
    /// Every line touched by the second worker, by epoch and line.
    others: HashMap<(usize, usize), Use>,
}

/// Rounds of one epoch.
const ROUNDS_PER_EPOCH: usize = 20;
/// Time between two nudges.
const NUDGE: Duration = Duration::from_micros(200);
/// Number of epochs before the first recorded epoch.
const EPOCHS_BEFORE: usize = 4;

/// A side's thread, as the conductor sees it.
struct Conducted {
    orders: Sender<usize>,
    answers: Receiver<Result<Vec<Touched>>>,
}

impl Conducted {
    fn run(&self, stage: &dyn Stage, kind: usize) -> Result<Vec<Touched>> {
        let gone = || Failure::Panic("a worker of shared-writes".to_owned());
        self.orders.send(kind).map_err(|_| gone())?;
        loop {
            match self.answers.recv_timeout(NUDGE) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => stage.nudge(),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

/// Runs `rounds` rounds and returns the touches.
pub(super) fn run(stage: &dyn Stage, rounds: usize) -> Result<Observed> {
    std::thread::scope(|scope| {
        let [first, second] = [0, 1].map(|side| {
            let (orders, taken) = channel();
            let (answer, answers) = channel();
            scope.spawn(move || work(stage, side, &taken, &answer));
            Conducted { orders, answers }
        });
        let kinds = stage.kinds();
        let of_round: Vec<usize> =
            (0..kinds.len()).flat_map(|kind| std::iter::repeat_n(kind, kinds[kind].times)).collect();
        let mut observed = Observed { written: vec![Vec::new(); kinds.len()], ..Observed::default() };
        for round in 0..EPOCHS_BEFORE * ROUNDS_PER_EPOCH + rounds {
            let epoch = round / ROUNDS_PER_EPOCH;
            for &kind in &of_round {
                let (by_second, by_first) = (second.run(stage, kind)?, first.run(stage, kind)?);
                if epoch >= EPOCHS_BEFORE {
                    observed.note((epoch, kind), by_first, &by_second);
                }
            }
            if (round + 1).is_multiple_of(ROUNDS_PER_EPOCH) {
                stage.beat();
            }
        }
        Ok(observed)
    })
}

/// A side's thread.
fn work(stage: &dyn Stage, side: usize, orders: &Receiver<usize>, answers: &Sender<Result<Vec<Touched>>>) {
    let mut run = stage.side(side);
    while let Ok(kind) = orders.recv() {
        if answers.send(run(kind)).is_err() {
            // The conducting thread has given up.
            return;
        }
    }
}

impl Observed {
    /// Touches of a line by the second worker within an epoch; `None` without a touch.
    pub(super) fn other(&self, epoch: usize, line: usize) -> Option<Use> {
        self.others.get(&(epoch, line)).copied()
    }

    fn note(&mut self, (epoch, kind): (usize, usize), by_first: Vec<Touched>, by_second: &[Touched]) {
        self.written[kind].push((epoch, by_first.into_iter().filter(|one| one.touch.writes()).collect()));
        for one in by_second {
            let line = self.others.entry((epoch, one.line)).or_default();
            if one.touch.writes() {
                line.written = true;
            } else {
                line.read = true;
            }
        }
    }
}
