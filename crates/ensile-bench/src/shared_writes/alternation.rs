//! Two threads that run transactions in turns, each with a worker of its own, and what each touched.
//!
//! In every round each kind of transaction is run by the second worker and then by the first. The epoch ends after
//! every [`ROUNDS_PER_EPOCH`] rounds. Touches are kept apart by epoch, since what only changes hands once an epoch (a
//! log buffer that the logger gives to another worker, a block that was freed and is used again) is not what two
//! workers fight over. The first epochs are not recorded: workers are made, pools filled and pages touched in them.
//!
//! Neighbours: stages are [`super::keys`], [`super::business`] and [`super::waits`]; [`super::account`] judges what is
//! seen here.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ensile_base::sync::counted::{Touched, record};
use serde::Serialize;

use crate::failure::{Failure, Result};

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) does: Does,
    /// How often it is run in a round.
    pub(super) times: usize,
}

/// What a kind of transaction does, and so what it may have to share whatever the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Does {
    /// Reads, through handles that it borrows, and waits for nobody: nothing.
    Reads,
    /// Reads, and keeps the database open by a handle of its own: an owner more, counted in a line that all have.
    ReadsOwned,
    /// Reads, or does nothing any more, and waits until its result is durable.
    Waits,
    /// Writes rows: what the rows ask for.
    Writes,
}

/// One side: runs a transaction of the kind that stands at this place among the stage's kinds, and says what it
/// touched.
pub(super) type Side<'s> = Box<dyn FnMut(usize) -> Result<Vec<Touched>> + 's>;

/// What `run` touched on this thread.
pub(super) fn recorded<E>(run: impl FnOnce() -> std::result::Result<(), E>) -> Result<Vec<Touched>>
where
    Failure: From<E>,
{
    let (result, touched) = record(run);
    Ok(result.map(|()| touched)?)
}

/// A loaded database and what is run on it.
pub(super) trait Stage: Sync {
    /// The kinds of transactions, in the order of a round.
    fn kinds(&self) -> Vec<Kind>;

    /// A side; called on the side's own thread.
    fn side(&self, side: usize) -> Side<'_>;

    /// Lets the database move on.
    fn beat(&self);

    /// Called again and again while a transaction runs: for those that wait until they are durable.
    fn nudge(&self) {}
}

/// How a line was touched by the second worker, all its transactions together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub(super) read: bool,
    pub(super) written: bool,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// What the first worker wrote, by kind and transaction, with the epoch.
    pub(super) written: Vec<Vec<(usize, Vec<Touched>)>>,
    /// Every line that the second worker touched, with the epoch.
    others: HashMap<(usize, usize), Use>,
}

/// Rounds of one epoch.
const ROUNDS_PER_EPOCH: usize = 20;
/// Between two nudges.
const NUDGE: Duration = Duration::from_micros(200);
/// Epochs before the first that is recorded.
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

/// Runs `rounds` rounds and returns what was touched.
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
    /// How the second worker touched a line within an epoch, if it did.
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
