//! A line on standard error that tells a person what goes on; on a terminal it is overwritten, in a file it is kept.
//!
//! Neighbours: every benchmark.

use std::io::{IsTerminal as _, Write as _};

use crate::number::grouped;

/// Where progress is told.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    rounds: usize,
}

impl Progress {
    pub(crate) fn new(rounds: usize) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), rounds }
    }

    /// Tells what goes on now. That nobody listens is no reason to stop.
    pub(crate) fn say(&mut self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let _ = if self.terminal { write!(stderr, "\r\x1b[K{text}") } else { writeln!(stderr, "{text}") };
        let _ = stderr.flush();
    }

    /// Tells what goes on where it can be overwritten: for what changes often.
    pub(crate) fn update(&mut self, text: &str) {
        if self.terminal {
            self.say(text);
        }
    }

    /// Tells what was found, on a line that stays.
    pub(crate) fn line(&mut self, text: &str) {
        self.say(text);
        if self.terminal {
            let _ = writeln!(std::io::stderr().lock());
        }
    }

    /// Tells of a finished slice.
    pub(crate) fn round(&mut self, round: usize, system: &str, rate: f64) {
        self.say(&format!("round {} of {}: {system} {} txn/s", round + 1, self.rounds, grouped(rate)));
    }

    /// Leaves an empty line behind for whatever is printed next.
    pub(crate) fn clear(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
