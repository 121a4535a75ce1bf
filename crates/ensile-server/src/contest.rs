//! The contest of a request with the transactions of other threads: losses, and a turn without a wait (P1, P2).
//!
//! ```text
//! a run loses -> again at once, LOSSES_FOR_TURN times -> a turn is requested -> set aside until the turn -> run in the turn
//! ```
//! Invariant: a loop never waits here. A request that must wait is set aside, and the waker of its loop calls it again.
//!
//! Neighbours: `execution` runs requests; `ensile` has turns; `ensile-serving` sets requests aside.

use std::task::Waker;
use std::time::Duration;

use ensile::receipt::{CommitTurn, TurnRequest};
use ensile::{Database, Result};

/// Number of losses after which a request gets a turn.
const LOSSES_FOR_TURN: u32 = 8;
/// Longest turn of a request: commits of other threads wait meanwhile.
const TURN_MAX: Duration = Duration::from_millis(100);

/// Losses of a request, and its request of a turn.
#[derive(Debug, Default)]
pub(crate) struct Contest {
    losses: u32,
    turn: Option<TurnRequest<'static>>,
}

/// Permission of a run.
#[derive(Debug)]
pub(crate) enum RunPermit {
    /// The request may run, in its turn if it has one.
    Run(Option<CommitTurn<'static>>),
    /// The request waits for its turn. The waker is called once the turn may begin.
    Wait,
}

impl Contest {
    /// Asks if the request may run now.
    ///
    /// # Errors
    /// [`ensile::Error::Closed`].
    #[inline]
    pub(crate) fn permit(&mut self, db: &Database, waker: &Waker) -> Result<RunPermit> {
        if self.turn.is_none() && self.losses < LOSSES_FOR_TURN {
            return Ok(RunPermit::Run(None));
        }
        self.permit_turn(db, waker)
    }

    #[cold]
    fn permit_turn(&mut self, db: &Database, waker: &Waker) -> Result<RunPermit> {
        let request = self.turn.get_or_insert_with(|| db.request_turn_owned(TURN_MAX, waker));
        match request.try_begin(waker)? {
            Some(turn) => {
                (self.losses, self.turn) = (0, None);
                Ok(RunPermit::Run(Some(turn)))
            }
            None => Ok(RunPermit::Wait),
        }
    }

    /// Notes a run that lost.
    #[cold]
    pub(crate) fn note_loss(&mut self) {
        // A commit that was set aside may lose behind the last loss that counts.
        self.losses = (self.losses + 1).min(LOSSES_FOR_TURN);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use ensile::Database;

    use super::{Contest, LOSSES_FOR_TURN, RunPermit};

    #[test]
    fn a_request_that_loses_again_and_again_runs_in_a_turn() {
        let db = Database::in_memory().expect("a new database");
        let mut contest = Contest::default();
        let mut has_turn = || {
            let permit = contest.permit(&db, Waker::noop()).expect("the database is open");
            contest.note_loss();
            matches!(permit, RunPermit::Run(Some(_)))
        };
        assert!((0..LOSSES_FOR_TURN).all(|_| !has_turn()), "at first it runs again at once");
        assert!(has_turn());
        assert!(!has_turn(), "a turn is for one run");
    }
}
