//! A progress line on standard error. A terminal overwrites the line, a file keeps every line.
//!
//! Neighbours: every benchmark reports progress here.

use std::io::{IsTerminal as _, Write as _};

use crate::number::grouped;

/// Writer of progress lines.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    rounds: usize,
}

impl Progress {
    /// The progress of a run of `rounds` rounds.
    pub fn new(rounds: usize) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), rounds }
    }

    /// Writes the current step. A write error is ignored: a benchmark also runs with standard error closed.
    pub fn say(&mut self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let _ = if self.terminal { write!(stderr, "\r\x1b[K{text}") } else { writeln!(stderr, "{text}") };
        let _ = stderr.flush();
    }

    /// Writes a frequent update, on a terminal only.
    pub fn update(&mut self, text: &str) {
        if self.terminal {
            self.say(text);
        }
    }

    /// Writes a result on a permanent line.
    pub fn line(&mut self, text: &str) {
        self.say(text);
        if self.terminal {
            let _ = writeln!(std::io::stderr().lock());
        }
    }

    /// Reports a finished round.
    pub fn round(&mut self, round: usize, system: &str, rate: f64) {
        self.say(&format!("round {} of {}: {system} {} txn/s", round + 1, self.rounds, grouped(rate)));
    }

    /// Clears the terminal's line for the next output.
    pub fn clear(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
