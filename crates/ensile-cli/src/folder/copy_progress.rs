//! Progress of a copy on standard error.
//!
//! Neighbours: `backup` and `archive` show the progress of their copies.

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use ensile::folder::{CopyPhase, CopyProgress};
use ensile_objects::folder::WatchCopy;

use super::figures::format_bytes;

/// Progress of a copy. A terminal shows a line that is overwritten for each percent of a phase. A new beginning of the
/// copy is printed as a line of its own, on a terminal or not.
#[derive(Default)]
struct ShownProgress {
    last: Option<(CopyPhase, u64)>,
    overruns: u64,
}

/// Runs a copy, and shows its progress.
pub(super) fn with_progress<T>(copy: impl FnOnce(&mut WatchCopy<'_>) -> T) -> T {
    let mut shown = ShownProgress::default();
    let outcome = copy(&mut |progress| shown.show(progress));
    shown.end();
    outcome
}

impl ShownProgress {
    fn show(&mut self, progress: &CopyProgress) -> ControlFlow<()> {
        if progress.overruns > self.overruns {
            self.overruns = progress.overruns;
            self.end();
            self.last = None;
            // A closed output does not stop the backup.
            let _ = writeln!(
                io::stderr(),
                "ensile: the copy takes longer than the database keeps files for it, and begins again ({} times so far): \
                 raise --rate-mb, or leave it out",
                progress.overruns
            );
        }
        let percent = (progress.bytes * 100).checked_div(progress.bytes_total).unwrap_or(0);
        let now = Some((progress.phase, percent));
        if self.last != now && io::stderr().is_terminal() {
            let what = match progress.phase {
                CopyPhase::Verifying => "verifying",
                CopyPhase::Archive => "taking from the archive",
                _ => "copying",
            };
            // A closed terminal does not stop the backup.
            let _ = write!(
                io::stderr(),
                "\r{what}: {percent:3} % of {}, {} written ",
                format_bytes(progress.bytes_total),
                format_bytes(progress.bytes_written)
            );
            self.last = now;
        }
        ControlFlow::Continue(())
    }

    fn end(&self) {
        if self.last.is_some() {
            let _ = writeln!(io::stderr());
        }
    }
}
