//! Progress of the load of a database on standard error.
//!
//! Neighbours: [`super::database`] opens; the engine reports the progress of a recovery.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use ensile::recovery::{Phase, Progress};
use ensile_base::sync::Mutex;

use super::notices::notify;
use crate::folder::figures::{format_bytes, percent};

/// Time between two lines of a phase, if standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Progress of a load. A terminal shows a line that is overwritten for each percent of a phase. Elsewhere each phase of
/// more than [`LINE_INTERVAL`] has a line for each such time.
#[derive(Debug, Default)]
pub(super) struct ShownLoad {
    /// Phase and step of the last line.
    last: Mutex<Option<(Phase, u64)>>,
}

impl ShownLoad {
    /// Shows the progress, if it has changed enough.
    pub(super) fn show(&self, progress: &Progress) {
        let is_terminal = io::stderr().is_terminal();
        let done = percent(progress.bytes_done, progress.bytes_total);
        let step = if is_terminal { done } else { progress.elapsed.as_secs() / LINE_INTERVAL.as_secs() };
        let mut last = self.last.lock();
        let is_early = !is_terminal && step == 0;
        if is_early || *last == Some((progress.phase, step)) {
            return;
        }
        *last = Some((progress.phase, step));
        let line = load_line(progress, done);
        notify(&format!("STATUS={line}"));
        // A closed output does not stop the load.
        let _ = if is_terminal {
            write!(io::stderr(), "\rensile: {line}  ")
        } else {
            writeln!(io::stderr(), "ensile: {line}")
        };
    }

    /// Ends the line on a terminal.
    pub(super) fn end(&self) {
        if self.last.lock().is_some() && io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
    }
}

/// Text of a progress.
fn load_line(progress: &Progress, percent: u64) -> String {
    let work = match progress.phase {
        Phase::Load => "loads the checkpoint",
        Phase::Replay => "replays the log",
        _ => "reads the files",
    };
    let left = progress.time_left().map_or_else(String::new, |left| format!(", {} s left", left.as_secs()));
    format!("{work}: {percent} % of {}{left}", format_bytes(progress.bytes_total))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ensile::recovery::{Phase, Progress};

    use super::load_line;

    #[test]
    fn a_line_has_the_phase_the_amount_and_the_time_left() {
        let progress = Progress {
            phase: Phase::Replay,
            bytes_done: 25_000_000,
            bytes_total: 100_000_000,
            elapsed: Duration::from_secs(1),
        };
        assert_eq!(load_line(&progress, 25), "replays the log: 25 % of 100.0 MB, 3 s left");
    }
}
