//! The comparison: every system has a process, and one process runs at a time.
//!
//! The driver stops the other processes meanwhile, background threads included. Before the first round the driver kills
//! the process of every system after some process-safe commits. A system that loses a commit gets a reason in place of
//! the figure.

mod process;

use std::fs;
use std::path::PathBuf;

use self::process::Process;
use crate::arguments::Arguments;
use crate::child::{Reply, Request};
use crate::failure::Result;
use crate::machine::{self, Machine};
use crate::report::{Outcome, Report, Safety, System};
use crate::store::{Facts, Level, Peer};
use crate::workload::Workload;

/// Number of rows of a database with a killed process.
const SAFETY_ROWS: u64 = 1_000;
/// Commits before the process is killed.
const SAFETY_COMMITS: u64 = 500;

/// Workloads that only read.
const READS: [Workload; 5] =
    [Workload::PointReads, Workload::ReadMany, Workload::Scan, Workload::Lend, Workload::Range];
/// Workloads with strict commits.
const STRICT: [Workload; 3] = [Workload::Strict1, Workload::Strict16, Workload::Strict64];

/// Runs all rounds.
pub(crate) fn run(arguments: &Arguments) -> Result<Report> {
    fs::create_dir_all(&arguments.data)?;
    let machine = Machine::look(&arguments.data)?;
    println!("{}\n", machine.line());
    let mut report = Report::new(arguments, machine);
    for peer in &arguments.peers {
        let system = examine(*peer, arguments)?;
        println!("{}", system.lines());
        report.systems.push(system);
    }
    for round in 0..arguments.rounds {
        let load = machine::load_average();
        println!("round {} of {}, load average {load}", round + 1, arguments.rounds);
        report.load_averages.push(load);
        Round { arguments, round, report: &mut report }.run()?;
    }
    fs::remove_dir_all(&arguments.data)?;
    report.finish();
    Ok(report)
}

/// An empty folder of this name for a system.
fn fresh_folder(arguments: &Arguments, peer: Peer, name: &str) -> Result<PathBuf> {
    let folder = arguments.data.join(format!("{peer}-{name}"));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Version and settings of a system, and the outcome of a kill after process-safe commits.
fn examine(peer: Peer, arguments: &Arguments) -> Result<System> {
    let folder = fresh_folder(arguments, peer, "safety")?;
    let start = || Process::start(peer, &folder, SAFETY_ROWS, arguments.seed);
    let mut process = start()?;
    process.seconds(Request::Load)?;
    process.done(Request::Close)?;
    process.seconds(Request::Open(Level::Process))?;
    let facts = process.facts()?;
    process.done(Request::Update { count: SAFETY_COMMITS })?;
    process.kill()?;
    let mut process = start()?;
    process.seconds(Request::Open(Level::Process))?;
    let (rows, survived) = process.totals()?;
    expect(peer, "rows after a kill", rows, SAFETY_ROWS)?;
    process.done(Request::Close)?;
    process.end()?;
    fs::remove_dir_all(&folder)?;
    Ok(System { peer, facts, safety: Safety { commits: SAFETY_COMMITS, survived } })
}

fn expect(peer: Peer, name: &str, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{}: {found} {name}, but {expected} were due", peer.title()).into())
}

/// One round: the systems load, read and write in turns.
struct Round<'a> {
    arguments: &'a Arguments,
    round: u64,
    report: &'a mut Report,
}

/// A system in a round.
struct Entrant {
    peer: Peer,
    folder: PathBuf,
    process: Process,
    /// Number of acknowledged updates.
    updates: u64,
}

impl Round<'_> {
    fn run(&mut self) -> Result<()> {
        let mut peers = self.arguments.peers.clone();
        // The system that goes first changes with the round.
        let first = self.round as usize % peers.len();
        peers.rotate_left(first);
        let mut entrants = peers.into_iter().map(|peer| self.load(peer)).collect::<Result<Vec<_>>>()?;
        for entrant in &mut entrants {
            let seconds = entrant.process.seconds(Request::Open(Level::Process))?;
            self.note(entrant.peer, Workload::Reopen, seconds * 1e3);
        }
        if READS.iter().any(|workload| self.arguments.has(*workload)) {
            for entrant in &mut entrants {
                entrant.process.totals()?;
            }
        }
        READS.iter().try_for_each(|workload| self.measure(&mut entrants, *workload))?;
        for entrant in &mut entrants {
            let bytes = entrant.process.memory()?;
            self.note(entrant.peer, Workload::MemoryReads, mebibytes(bytes));
        }
        self.measure(&mut entrants, Workload::Update)?;
        for entrant in &mut entrants {
            entrant.process.done(Request::Close)?;
            entrant.process.seconds(Request::Open(Level::Strict))?;
        }
        STRICT.iter().try_for_each(|workload| self.measure(&mut entrants, *workload))?;
        entrants.into_iter().try_for_each(|entrant| self.end(entrant))
    }

    /// Loads a database, closes it, and starts a new process for it.
    fn load(&mut self, peer: Peer) -> Result<Entrant> {
        let (rows, seed) = (self.arguments.rows, self.arguments.seed + self.round);
        let folder = fresh_folder(self.arguments, peer, "rows")?;
        rustix::fs::sync();
        let mut process = Process::start(peer, &folder, rows, seed)?;
        let seconds = process.seconds(Request::Load)?;
        process.done(Request::Settle)?;
        self.note(peer, Workload::Load, rows as f64 / seconds);
        self.note(peer, Workload::MemoryLoad, mebibytes(process.memory()?));
        process.done(Request::Close)?;
        process.end()?;
        self.note(peer, Workload::Files, mebibytes(machine::disk_bytes(&folder)?));
        let process = Process::start(peer, &folder, rows, seed)?;
        Ok(Entrant { peer, folder, process, updates: 0 })
    }

    /// Lets the systems run a workload in turns.
    fn measure(&mut self, entrants: &mut [Entrant], workload: Workload) -> Result<()> {
        if !self.arguments.has(workload) {
            return Ok(());
        }
        for entrant in entrants {
            let safety = self.report.safety(entrant.peer);
            if workload == Workload::Update && !safety.holds() {
                self.report.push(entrant.peer, workload, Outcome::Reason(safety.reason()));
                continue;
            }
            if !READS.contains(&workload) {
                // Dirty pages of another system are written before the clock starts.
                rustix::fs::sync();
            }
            let request = Request::Measure {
                workload,
                seconds: self.arguments.seconds,
                seed: self.arguments.seed ^ (self.round << 8) ^ workload as u64,
            };
            let rate = entrant.process.rate(request)?;
            if !READS.contains(&workload) {
                entrant.updates += rate.operations;
            }
            self.note(entrant.peer, workload, rate.per_second);
        }
        Ok(())
    }

    /// Checks the rows, closes the database and removes it.
    fn end(&mut self, mut entrant: Entrant) -> Result<()> {
        let (rows, counts) = entrant.process.totals()?;
        expect(entrant.peer, "rows at the end", rows, self.arguments.rows)?;
        expect(entrant.peer, "updates at the end", counts, entrant.updates)?;
        entrant.process.done(Request::Close)?;
        entrant.process.end()?;
        Ok(fs::remove_dir_all(&entrant.folder)?)
    }

    fn note(&mut self, peer: Peer, workload: Workload, figure: f64) {
        if self.arguments.has(workload) {
            println!(
                "  {:32} {:8} {:>14} {}",
                workload.title(),
                peer.title(),
                crate::report::rounded(figure),
                workload.unit()
            );
            self.report.push(peer, workload, Outcome::Figure(figure));
        }
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1u32 << 20)
}

impl Process {
    fn seconds(&mut self, request: Request) -> Result<f64> {
        match self.ask(request)? {
            Reply::Seconds(seconds) => Ok(seconds),
            other => Err(unexpected(&other)),
        }
    }

    fn done(&mut self, request: Request) -> Result<()> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn facts(&mut self) -> Result<Facts> {
        match self.ask(Request::Facts)? {
            Reply::Facts(facts) => Ok(facts),
            other => Err(unexpected(&other)),
        }
    }

    fn memory(&mut self) -> Result<u64> {
        match self.ask(Request::Memory)? {
            Reply::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }

    fn totals(&mut self) -> Result<(u64, u64)> {
        match self.ask(Request::Totals)? {
            Reply::Totals { rows, counts } => Ok((rows, counts)),
            other => Err(unexpected(&other)),
        }
    }

    fn rate(&mut self, request: Request) -> Result<crate::measure::Rate> {
        match self.ask(request)? {
            Reply::Rate(rate) => Ok(rate),
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(reply: &Reply) -> crate::failure::Failure {
    format!("a process answered {reply:?}").into()
}
