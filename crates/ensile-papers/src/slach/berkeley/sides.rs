//! The two processes of `slach berkeley`, and the requests to them. Both have the C library's allocator on huge pages.
//!
//! The process with Berkeley DB is a short C program, built on demand with the system's library and header. So Ensile
//! and its builds contain no part of Berkeley DB.
//!
//! Neighbours: [`super`] asks; [`super::table`] and `berkeley.c` answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ensile_bench::machine;
use ensile_bench::{Failure, Result};

const SOURCE: &str = include_str!("berkeley.c");
/// Debian's name of the library.
const LIBRARY: &str = "-ldb-5.3";

/// The requirements of the program's build, as a text.
pub(super) const NEEDED: &str =
    "it needs a C compiler and Berkeley DB: apt-get install gcc libc6-dev libdb5.3-dev";

/// True if this machine has a C compiler and Berkeley DB's header.
pub(super) fn can_be_built() -> bool {
    let words = ["-E", "-x", "c", "-include", "db.h", "/dev/null"];
    let output = Command::new("cc").args(words).output();
    output.is_ok_and(|output| output.status.success())
}

/// Builds the program with Berkeley DB in a folder.
pub(super) fn build(folder: &Path) -> Result<std::path::PathBuf> {
    let (source, program) = (folder.join("berkeley.c"), folder.join("berkeley"));
    std::fs::write(&source, SOURCE).map_err(Failure::io(format!("writing {}", source.display())))?;
    let words = ["-O2", "-std=gnu11", "-Wall", "-o"];
    let built =
        Command::new("cc").args(words).args([&program, &source]).args([LIBRARY, "-lpthread"]).output();
    let output = built.map_err(|error| Failure::Usage(format!("berkeley: cc: {error}; {NEEDED}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::Usage(format!("berkeley: cc failed; {NEEDED}\n{}", why.trim_end())));
    }
    Ok(program)
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    /// Calls a second.
    pub(super) rate: f64,
    pub(super) seconds: f64,
    /// Pages of Berkeley DB that lookups found in its cache, and pages outside of the cache.
    pub(super) pages: [f64; 2],
    /// Checkpoints that ended within the run.
    pub(super) checkpoints: f64,
    /// Total seconds of the checkpoints.
    pub(super) checkpoint_seconds: f64,
    /// Bytes that checkpoints wrote.
    pub(super) checkpoint_bytes: f64,
    pub(super) log_bytes: f64,
}

impl Answer {
    fn of(line: &str) -> Option<Self> {
        let numbers: Vec<f64> =
            line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let run = |calls: f64, nanos: f64| {
            let seconds = nanos / 1e9;
            Self { rate: if seconds > 0.0 { calls / seconds } else { 0.0 }, seconds, ..Self::default() }
        };
        match numbers[..] {
            [_] => Some(Self::default()),
            [calls, nanos, hits, misses] => Some(Self { pages: [hits, misses], ..run(calls, nanos) }),
            [calls, nanos, checkpoints, checkpoint_nanos, checkpoint_bytes, log_bytes] => {
                let checkpoint_seconds = checkpoint_nanos / 1e9;
                let run = run(calls, nanos);
                Some(Self { checkpoints, checkpoint_seconds, checkpoint_bytes, log_bytes, ..run })
            }
            _ => None,
        }
    }
}

/// A process that has a table. A drop kills the process.
pub(super) struct Side {
    name: &'static str,
    process: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Side {
    /// Starts the process. The process loads, and answers after the load.
    pub(super) fn start(name: &'static str, mut command: Command) -> Result<Self> {
        let (setting, value) = machine::huge_pages_setting();
        let mut process = command
            .env(setting, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::io(format!("starting {name}")))?;
        let requests = process.stdin.take().expect("it is piped");
        let replies = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Self { name, process, requests, replies })
    }

    /// Waits for an answer.
    pub(super) fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.replies.read_line(&mut line).map_err(Failure::io(format!("reading what {} says", self.name)))?;
        let ended = || Failure::Usage(format!("{} ended: what it says stands above", self.name));
        Answer::of(&line).filter(|_| !line.is_empty()).ok_or_else(ended)
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, request: &str) -> Result<Answer> {
        writeln!(self.requests, "{request}").map_err(Failure::io(format!("asking {}", self.name)))?;
        self.answer()
    }

    /// Bytes of the process's memory, and bytes of its memory on huge pages.
    pub(super) fn memory(&self) -> (u64, u64) {
        machine::memory_of(self.process.id())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    #[test]
    fn an_answer_is_a_line_of_numbers() {
        let lookups = Answer::of("1000 500000000 7 1\n").expect("four numbers");
        assert!((lookups.rate - 2_000.0).abs() < 1e-9 && (lookups.seconds - 0.5).abs() < 1e-9);
        assert_eq!(lookups.pages, [7.0, 1.0]);
        let updates = Answer::of("1000 500000000 3 250000000 70 80\n").expect("six numbers");
        assert!((updates.rate - 2_000.0).abs() < 1e-9 && (updates.checkpoints - 3.0).abs() < 1e-9);
        assert!((updates.checkpoint_seconds - 0.25).abs() < 1e-9);
        assert_eq!([updates.checkpoint_bytes, updates.log_bytes], [70.0, 80.0]);
        assert!(Answer::of("0\n").is_some());
        for line in ["", "\n", "1 2", "1 2 3 4 5", "1 2 3 x"] {
            assert!(Answer::of(line).is_none(), "{line}");
        }
    }
}
