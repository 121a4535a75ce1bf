//! The end of a run before its script's end: a limit, `SCRIPT KILL`, or an error of the engine.
//!
//! Invariants:
//! - No script catches the end. The end stays noted, and each call that would catch an error asks for the end.
//! - W19: a run that takes long has its loop serve the other clients now and then.
//!
//! Neighbours: `lua_state` has the hook that looks at the limits; `SCRIPT KILL` sets the flag of every loop.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicBool, AtomicUsize, Ordering};
use ensile_serving::LoopPoll;

use super::script_times::RunTimes;
use crate::calendar::Calendar;

/// Number of walked values between two looks at the limits.
const VISITS: u32 = 1000;
/// Number of looks at the limits in a millisecond of a time that a test moves: a script without an end ends there too.
const LOOKS_PER_MILLI: u64 = 100;

/// Scripts of a loop, as other loops see them.
#[derive(Debug, Default)]
pub(crate) struct LoopScripts {
    is_running: AtomicBool,
    is_killed: AtomicBool,
    /// Memory of the loop's Lua state in bytes.
    lua_bytes: AtomicUsize,
}

impl LoopScripts {
    /// Ends the running script. False if no script runs.
    pub(crate) fn kill(&self) -> bool {
        // Relaxed, both: the hook looks again soon, and no data is guarded. A script that ends meanwhile is not killed.
        let is_running = self.is_running.load(Ordering::Relaxed);
        if is_running {
            // Relaxed: the hook looks again soon.
            self.is_killed.store(true, Ordering::Relaxed);
        }
        is_running
    }

    /// Memory of the loop's Lua state in bytes.
    pub(crate) fn lua_bytes(&self) -> usize {
        // Relaxed: a figure for people.
        self.lua_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_lua_bytes(&self, bytes: usize) {
        // Relaxed: a figure for people.
        self.lua_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Reason of the end of a run before its script's end.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// `SCRIPT KILL`.
    Killed,
    /// The server ends.
    ServerEnds,
    /// The script has run longer than this number of milliseconds.
    TooLong(u64),
    /// The script needs more memory than a state has.
    MemoryFull,
    /// A command has ended the transaction.
    TransactionEnded,
    /// A function of the server failed, with this text.
    Failed(String),
}

/// An error that ends the run: the guard has the reason.
pub(super) fn end_error() -> mlua::Error {
    mlua::Error::runtime("the script has ended")
}

/// Limits and end of the run under way.
#[derive(Debug)]
pub(crate) struct RunGuard {
    pub(super) scripts: Arc<LoopScripts>,
    calendar: Calendar,
    /// Clock that no change of the machine's time moves.
    steady: Clock,
    poll: LoopPoll,
    /// Time in milliseconds of the steady clock from which the loop serves others next.
    poll_millis: Cell<u64>,
    /// Time of the run's end in milliseconds, of the steady clock.
    until_millis: Cell<u64>,
    /// Longest time of a run in milliseconds.
    millis_max: Cell<u64>,
    end: RefCell<Option<RunEnd>>,
    /// Number of looks at the limits in the run.
    looks: Cell<u64>,
    /// Number of values that functions of the server have walked through.
    visited: Cell<u32>,
    /// Line of the script at which the newest error was raised.
    line: Cell<Option<usize>>,
}

impl RunGuard {
    pub(super) fn new(scripts: Arc<LoopScripts>, poll: LoopPoll, calendar: Calendar) -> Self {
        Self {
            scripts,
            calendar,
            steady: Clock::machine(),
            poll,
            poll_millis: Cell::new(u64::MAX),
            until_millis: Cell::new(u64::MAX),
            millis_max: Cell::new(u64::MAX),
            end: RefCell::new(None),
            looks: Cell::new(0),
            visited: Cell::new(0),
            line: Cell::new(None),
        }
    }

    /// Time in milliseconds, which a test moves with its calendar, and the script by its looks.
    fn steady_millis(&self) -> u64 {
        if self.calendar.is_manual() {
            return self.calendar.millis() + self.looks.get() / LOOKS_PER_MILLI;
        }
        self.steady.nanos() / 1_000_000
    }

    /// Begins a run. Returns the time in milliseconds, of the steady clock.
    pub(super) fn begin(&self, times: RunTimes) -> u64 {
        debug_assert!(!self.has_ended(), "the run before was finished");
        if times.request_millis.is_none() {
            self.looks.set(0);
        }
        let begun_millis = self.steady_millis();
        self.millis_max.set(times.millis_max);
        self.until_millis.set(begun_millis.saturating_add(times.millis_max));
        let request_millis = times.request_millis.unwrap_or(begun_millis);
        self.poll_millis.set(request_millis.saturating_add(times.busy_millis));
        self.end.replace(None);
        self.line.set(None);
        // Relaxed, both: see `LoopScripts::kill`.
        self.scripts.is_killed.store(false, Ordering::Relaxed);
        self.scripts.is_running.store(true, Ordering::Relaxed);
        begun_millis
    }

    /// Ends a run, and returns the reason if the end was early.
    pub(super) fn finish(&self) -> Option<RunEnd> {
        // Relaxed: see `LoopScripts::kill`.
        self.scripts.is_running.store(false, Ordering::Relaxed);
        let end = self.end.take();
        debug_assert!(!self.has_ended(), "the next run begins without an end");
        end
    }

    /// Looks at the limits. True if the run ends.
    pub(super) fn look(&self) -> bool {
        debug_assert!(self.until_millis.get() > 0, "a run has begun");
        self.looks.set(self.looks.get() + 1);
        if !self.has_ended() {
            let now_millis = self.steady_millis();
            if now_millis >= self.poll_millis.get() {
                self.serve_others(now_millis);
            }
            // Relaxed: see `LoopScripts::kill`.
            if self.scripts.is_killed.load(Ordering::Relaxed) {
                self.end(RunEnd::Killed);
            } else if now_millis > self.until_millis.get() {
                self.end(RunEnd::TooLong(self.millis_max.get()));
            }
        }
        self.has_ended()
    }

    /// Has the loop serve its other clients.
    #[cold]
    fn serve_others(&self, now_millis: u64) {
        if self.poll.serve_others() {
            self.end(RunEnd::ServerEnds);
        }
        // The clock of a test stands still during a script.
        let pause = u64::from(!self.calendar.is_manual());
        self.poll_millis.set(now_millis.saturating_add(pause));
    }

    /// Looks at the limits, before a function of the server.
    ///
    /// # Errors
    /// The run ends.
    pub(super) fn check(&self) -> mlua::Result<()> {
        if self.look() { Err(end_error()) } else { Ok(()) }
    }

    /// Counts a value that a function of the server walks through, and looks at the limits now and then.
    ///
    /// # Errors
    /// The run ends.
    #[inline]
    pub(super) fn visit(&self) -> mlua::Result<()> {
        let visited = self.visited.get().wrapping_add(1);
        self.visited.set(visited);
        if visited.is_multiple_of(VISITS) { self.check() } else { Ok(()) }
    }

    /// True if the run ends.
    pub(super) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Notes the end of the run. The first reason stays.
    pub(super) fn end(&self, reason: RunEnd) {
        let mut end = self.end.borrow_mut();
        if end.is_none() {
            *end = Some(reason);
        }
    }

    pub(super) fn note_line(&self, line: Option<usize>) {
        self.line.set(line);
    }

    pub(super) fn line(&self) -> Option<usize> {
        self.line.get()
    }
}
