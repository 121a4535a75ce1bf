//! Turns without a wait, for event loops (P1, P2).
//!
//! Invariants:
//! - A request waits in the order of the gate until its turn begins, or until its drop.
//! - The waker of a refused request is called at once. Each try then returns the reason.
//!
//! Neighbours: `commit_gate` has the order; `retry_loop` takes turns for closures.

use std::marker::PhantomData;
use std::task::Waker;
use std::time::Duration;

use ensile_base::limits::TURN_MILLIS_MAX;
use ensile_base::sync::Arc;

use crate::database::{Database, DatabaseRef};
use crate::error::{Error, Result};
use crate::shared_state::SharedState;

/// Error text for a further try of a request whose turn has begun.
const USED_UP: &str = "a request begins one turn: request another turn";

/// A request of a turn: see [`Database::request_turn`]. A drop withdraws the request.
#[must_use = "a drop withdraws the request"]
pub struct TurnRequest<'db> {
    database: DatabaseRef<'db>,
    longest: Duration,
    state: RequestState,
}

/// State of a request.
#[derive(Debug)]
enum RequestState {
    /// The number of the turn at the gate, which has not begun.
    Waiting(u64),
    /// The turn has begun.
    Begun,
    /// The reason why the turn does not begin.
    Refused(Error),
}

/// A turn of the calling thread, in which no other thread's commit takes effect: see [`Database::request_turn`]. A drop
/// ends the turn.
#[must_use = "a drop ends the turn"]
pub struct CommitTurn<'db> {
    database: DatabaseRef<'db>,
    number: u64,
    /// Marker of a value that stays on its thread: the gate lets the thread's commits pass.
    _of_thread: PhantomData<*const ()>,
}

impl std::fmt::Debug for CommitTurn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitTurn").field("number", &self.number).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TurnRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnRequest").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Database {
    /// Requests a turn for a thread that must not wait, such as an event loop. In a turn no other thread's commit takes
    /// effect, so a transaction that begins in the turn commits without a conflict. [`Database::run`] takes turns by
    /// itself, for closures that lose again and again.
    ///
    /// Requests and waiting threads have turns in the order of their arrival. `waker` is called once the turn may
    /// begin; [`TurnRequest::try_begin`] then begins the turn. A request without a try within 10 ms of the call is
    /// passed over, and keeps its place in the order. The turn lasts `longest`, and 10 seconds at most. Keep a turn
    /// short: the commits of all other threads wait.
    ///
    /// A refused request calls `waker` at once, and [`TurnRequest::try_begin`] returns the reason. Any thread of the
    /// database or of the application may call a waker. So a waker returns soon, and takes no lock that the application
    /// holds around calls of the database.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use std::task::Waker;
    /// use std::time::Duration;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let numbers = db.table::<u64, u64>("numbers")?;
    /// // An event loop has a waker of its own, which makes the loop try again.
    /// let waker = Waker::noop();
    /// let mut request = db.request_turn(Duration::from_millis(100), waker);
    /// if let Some(turn) = request.try_begin(waker)? {
    ///     let mut tx = db.begin();
    ///     let sum = tx.range(&numbers, ..).try_fold(0, |sum, row| row.map(|row| sum + row.1))?;
    ///     tx.put(&numbers, &0, &sum)?;
    ///     tx.try_commit(waker)?;
    ///     drop(turn);
    /// }
    /// # assert_eq!(db.run(|tx| tx.get(&numbers, &0))?, Some(0));
    /// # Ok(()) }
    /// ```
    pub fn request_turn(&self, longest: Duration, waker: &Waker) -> TurnRequest<'_> {
        TurnRequest::new(DatabaseRef::Borrowed(self.shared()), longest, waker)
    }

    /// As [`Database::request_turn`], and the request and its turn keep the database open.
    pub fn request_turn_owned(&self, longest: Duration, waker: &Waker) -> TurnRequest<'static> {
        TurnRequest::new(DatabaseRef::Owned(Arc::clone(&self.open)), longest, waker)
    }
}

impl<'db> TurnRequest<'db> {
    fn new(database: DatabaseRef<'db>, longest: Duration, waker: &Waker) -> Self {
        let gate = &database.life.gate;
        let state = match database.life.check_open() {
            Ok(()) => match gate.request_turn(waker, &database.clock) {
                Ok(number) => RequestState::Waiting(number),
                Err(refusal) => RequestState::Refused(refusal),
            },
            Err(refusal) => {
                gate.call_refused(waker);
                RequestState::Refused(refusal)
            }
        };
        let longest = longest.min(Duration::from_millis(TURN_MILLIS_MAX));
        debug_assert!(!matches!(state, RequestState::Waiting(0)), "turns are numbered from 1");
        Self { database, longest, state }
    }

    /// Begins the turn, for this thread, if the turn may begin: the turn of another party has ended, and each party
    /// that came earlier has had its turn or is passed over. Otherwise returns `None`, and `waker` is called once the
    /// turn may begin. The begin waits for commits that are bound at this moment, some microseconds each.
    ///
    /// A request begins one turn. A thread that has a turn already gets the next turn after the end of its turn.
    ///
    /// # Errors
    /// [`Error::Closed`]. [`Error::Misuse`] if the turn of this request has begun before, or if the waker cannot be
    /// cloned. [`Error::InCallBack`] in a call-back of objects, and for a request of such a call-back.
    pub fn try_begin(&mut self, waker: &Waker) -> Result<Option<CommitTurn<'db>>> {
        let Self { database, longest, state } = self;
        let shared: &SharedState = database;
        shared.life.check_open()?;
        let number = match state {
            RequestState::Waiting(number) => *number,
            RequestState::Begun => return Err(Error::Misuse(USED_UP.to_owned())),
            RequestState::Refused(refusal) => return Err(refusal.clone()),
        };
        let turn = shared.life.gate.try_begin_turn(number, waker, *longest, &shared.epochs, &shared.clock)?;
        Ok(turn.map(|turn| {
            debug_assert!(shared.life.gate.is_mine() || turn.is_over(), "the turn is this thread's (P1)");
            *state = RequestState::Begun;
            CommitTurn { number: turn.into_number(), database: database.another(), _of_thread: PhantomData }
        }))
    }
}

impl Drop for TurnRequest<'_> {
    fn drop(&mut self) {
        let life = &self.database.life;
        // I4: a forked child takes no lock of the gate.
        if let RequestState::Waiting(number) = self.state
            && life.is_own_process()
        {
            life.gate.withdraw_turn(number, &self.database.clock);
        }
    }
}

impl CommitTurn<'_> {
    /// True if the turn's time is over, and the database has ended the turn.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.database.life.gate.is_turn_over(self.number)
    }
}

impl Drop for CommitTurn<'_> {
    fn drop(&mut self) {
        self.database.life.gate.end_turn(self.number, &self.database.clock);
    }
}
