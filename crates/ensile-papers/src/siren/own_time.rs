//! Time of a step of a thread, less the thread's waits for a processor, as counted by Linux. The rest is computation
//! and waits for other threads.
//!
//! Linux counts the time in which a thread is runnable and does not run. Reading the count before each step would cost
//! more than the step, so the count is read now and then. The deduction from a long step may thus be too large by the
//! waits of earlier steps since the last reading: by [`READ_EVERY_NANOS`] at most.
//!
//! Neighbour: [`super::foreground`] asks for its longest commits.

use std::fs::File;
use std::io::{Read, Seek};

use ensile_bench::{Failure, Result};

/// File of a thread's own times: nanoseconds of running, nanoseconds of waiting, and number of runs.
const FILE: &str = "/proc/thread-self/schedstat";
/// Size of the buffer for the three numbers, more than they need.
const TEXT_BYTES: usize = 64;
/// Minimum length of a step with a reading of the count, in nanoseconds.
const LONG_NANOS: u64 = 50_000;
/// Maximum age of the count before a step, in nanoseconds.
const READ_EVERY_NANOS: u64 = 250_000;

/// The calling thread's waits for a processor.
pub(super) struct OwnTime {
    file: File,
    /// The last count in nanoseconds, and the time of its reading.
    waited: u64,
    read: u64,
}

impl OwnTime {
    /// The times of the calling thread. The same thread must call the other functions.
    pub(super) fn of_this_thread(now: u64) -> Result<Self> {
        let failed = || Failure::io(format!("reading {FILE}: it needs Linux with scheduler statistics"));
        let mut file = File::open(FILE).map_err(failed())?;
        let waited = read(&mut file).map_err(failed())?;
        Ok(Self { file, waited, read: now })
    }

    /// Refreshes an old count before a step that begins now.
    #[inline]
    pub(super) fn begin(&mut self, now: u64) -> Result<()> {
        if now.saturating_sub(self.read) >= READ_EVERY_NANOS {
            self.waits_since(now)?;
        }
        Ok(())
    }

    /// The own time of a step of `nanos` nanoseconds that ends now, in nanoseconds.
    #[inline]
    pub(super) fn of_step(&mut self, nanos: u64, now: u64) -> Result<u64> {
        if nanos < LONG_NANOS {
            return Ok(nanos);
        }
        Ok(nanos.saturating_sub(self.waits_since(now)?))
    }

    /// Nanoseconds of waits since the last reading.
    fn waits_since(&mut self, now: u64) -> Result<u64> {
        let waited = read(&mut self.file).map_err(Failure::io(format!("reading {FILE}")))?;
        let since = waited.saturating_sub(self.waited);
        (self.waited, self.read) = (waited, now);
        Ok(since)
    }
}

fn read(file: &mut File) -> std::io::Result<u64> {
    let mut text = [0; TEXT_BYTES];
    file.rewind()?;
    let len = file.read(&mut text)?;
    parse(&text[..len]).ok_or_else(|| std::io::Error::other("its text is not three numbers"))
}

fn parse(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{LONG_NANOS, OwnTime, parse};

    #[test]
    fn the_second_number_is_what_was_waited() {
        assert_eq!(parse(b"94201 3648715 1\n"), Some(3_648_715));
        assert_eq!(parse(b"94201\n"), None);
        assert_eq!(parse(b"a b c\n"), None);
    }

    #[test]
    fn a_short_step_is_all_its_own_and_a_long_one_at_most() {
        let mut own = OwnTime::of_this_thread(0).unwrap();
        assert_eq!(own.of_step(LONG_NANOS - 1, 1).unwrap(), LONG_NANOS - 1);
        // A sleeping thread waits for no processor: only the wake-up is deducted from a sleep.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let before = own.waited;
        let step = 1_000_000_000_000;
        let waited = step - own.of_step(step, 2).unwrap();
        assert_eq!(own.waited - before, waited);
    }
}
