//! Independent processes with a separate database and load, run as a single system beside further systems. Shows the
//! rate that as many threads of one database could reach without mutual disturbance.
//!
//! Each child is this program with `--conducted` and a single thread. The child loads and prints `ready` with resident
//! bytes and records. For each slice the child then reads [`START`], [`OPEN`] and [`CLOSE`] from standard input and
//! answers with its counts.
//!
//! Invariant: children run only within slices of this system; in between the children wait for a word.
//!
//! Neighbours: the driver runs [`Processes`] as a [`Subject`] in the parent, and waits in a child.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ensile_base::sync::Mutex;

use super::SystemKind;
use crate::driver::conducted::{CLOSE, OPEN, START, say};
use crate::driver::{Round, Slice, Subject};
use crate::failure::{Failure, Result};
use crate::tally::Step;

/// A child has loaded.
const READY: &str = "ready";

/// One child.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn tell(&mut self, word: &str) -> Result<()> {
        writeln!(self.input, "{word}").map_err(Failure::io("telling a process to go on"))
    }

    /// Reads the next line, which must begin with `word`. Returns the numbers of the line.
    fn hear(&mut self, word: &str) -> Result<[u64; 2]> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(Failure::io("listening to a process"))?;
        let mut words = line.split_whitespace();
        let mut numbers = [0; 2];
        if words.next() != Some(word) {
            return Err(Failure::Usage(format!("one of the processes ended early, or said: {line:?}")));
        }
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = word.parse().map_err(|_| Failure::Usage(format!("a process said: {line:?}")))?;
        }
        Ok(numbers)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The kill fails for an ended child. In both cases no child is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Several children under load.
pub(crate) struct Processes {
    children: Mutex<Vec<Process>>,
    count: usize,
    resident_bytes: u64,
    records: u64,
}

impl Processes {
    /// Starts `count` children with these arguments to `ensile-bench`, and waits until all have loaded.
    pub(crate) fn start(count: usize, arguments: impl Fn(usize) -> Vec<String>) -> Result<Self> {
        let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
        let mut children = Vec::new();
        for index in 0..count {
            let mut child = Command::new(&program)
                .args(arguments(index))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(Failure::io("starting a process"))?;
            let input = child.stdin.take().expect("its standard input is a pipe");
            let output = BufReader::new(child.stdout.take().expect("its standard output is a pipe"));
            children.push(Process { child, input, output });
        }
        let (mut resident_bytes, mut records) = (0, 0);
        for child in &mut children {
            let [bytes, loaded] = child.hear(READY)?;
            resident_bytes += bytes;
            records += loaded;
        }
        Ok(Self { children: Mutex::new(children), count, resident_bytes, records })
    }

    /// Growth of the children's resident memory over the load, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    /// Number of records of all children.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }
}

impl Subject for Processes {
    fn name(&self) -> &'static str {
        SystemKind::MemsiloProcesses.name()
    }

    fn threads(&self, _asked: usize) -> usize {
        1
    }

    fn parallelism(&self, _asked: usize) -> usize {
        self.count
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let mut children = self.children.lock();
        children.iter_mut().try_for_each(|child| child.tell(START))?;
        slice.until_window();
        children.iter_mut().try_for_each(|child| child.tell(OPEN))?;
        slice.until_over();
        children.iter_mut().try_for_each(|child| child.tell(CLOSE))?;
        for child in children.iter_mut() {
            let [transactions, conflicts] = child.hear(CLOSE)?;
            let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            slice.note(Step { committed: whole(transactions), conflicts: whole(conflicts), epoch: 0 });
        }
        Ok(())
    }
}

/// In a child: reports the end of the load, and the resident bytes and records of the child's only system.
pub(crate) fn ready(is_conducted: bool, loaded: impl Iterator<Item = (u64, u64)>) {
    if is_conducted {
        let (bytes, records) = loaded.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        say(&format!("{READY} {bytes} {records}"));
    }
}

/// In a child: reports the counts of a slice.
pub(crate) fn tell_round(is_conducted: bool, round: &Round) {
    if is_conducted {
        say(&format!("{CLOSE} {} {}", round.transactions, round.conflicts));
    }
}
