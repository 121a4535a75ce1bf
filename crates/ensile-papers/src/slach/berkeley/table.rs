//! The hash-table process of `slach berkeley`, process-safe, called by one thread. Its requests are the lines of
//! `berkeley.c`'s protocol, and the process makes its own checkpoints.
//!
//! ```text
//! lookups SECONDS SEED                       calls nanoseconds 0 0
//! many SECONDS SEED                          the same, in multi-gets of 16: calls are keys
//! updates SECONDS SEED INTERVAL LEAST MOST   calls nanoseconds checkpoints, their nanoseconds and bytes, bytes of log
//! settle                                     0, behind a checkpoint
//! ```
//! Checkpoints have the schedule of `berkeley.c`: one per INTERVAL, and the run goes on until LEAST have ended.
//!
//! [`super::sides`] starts the process. [`super::keys`] draws the keys. [`super::service`] and [`super::element`] are
//! the tables.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use ensile_base::clock::Clock;
use ensile_bench::{Failure, Result};
use ensile_objects::{CheckpointHandle, CheckpointPolicy, ObjectDurability, ObjectsBuilder, ObjectsStats};
use ensile_services::pht::PersistentTable;

use super::element::ElementTable;
use super::keys::{DrawnKeys, MULTI_GET, mixed};

/// Calls between two looks at the clock.
const CALLS_A_LOOK: usize = 64;
const _: () = assert!(CALLS_A_LOOK.is_multiple_of(MULTI_GET), "whole multi-gets");

/// The hash table of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableKind {
    /// The hash table of ensile-services, called in process.
    #[default]
    Service,
    /// A collection of elements, each an object, declared for the size of the values; without lookups of several keys.
    Collection,
}

/// `ensile-papers slach-berkeley-table`.
#[derive(Clone, Debug, Args)]
pub struct BerkeleyTableArguments {
    #[arg(long, value_enum)]
    table: TableKind,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 30))]
    keys: u64,
    #[arg(long)]
    value_bytes: usize,
    #[arg(long)]
    checkpoint_mb: Option<u64>,
    #[arg(long)]
    checkpoint_niceness: u8,
}

/// A persistent hash table in this process.
pub(super) trait HashTable: Sized {
    fn open(builder: ObjectsBuilder) -> Result<Self>;

    /// Copies the value of a key out. False if the key has no value, or a value of another length than `room`.
    fn get(&self, key: u64, room: &mut [u8]) -> Result<bool>;

    /// Copies the values of several keys out, each into an equal part of `room`.
    fn get_many(&self, keys: &[u64; MULTI_GET], room: &mut [u8]) -> Result<bool>;

    fn set(&mut self, key: u64, value: &[u8]) -> Result<()>;

    fn checkpoint(&self) -> CheckpointHandle;

    fn stats(&self) -> ObjectsStats;

    fn close(&self) -> Result<()>;
}

/// Loads the table and serves until the end of the input.
pub(crate) fn run(arguments: &BerkeleyTableArguments) -> Result<()> {
    // A collection's type fits the size of its values.
    match (arguments.table, arguments.value_bytes) {
        (TableKind::Service, _) => Server::<PersistentTable>::serve(arguments),
        (TableKind::Collection, 0..=30) => Server::<ElementTable<30>>::serve(arguments),
        (TableKind::Collection, 31..=102) => Server::<ElementTable<102>>::serve(arguments),
        (TableKind::Collection, 103..=1_024) => Server::<ElementTable<1_024>>::serve(arguments),
        (TableKind::Collection, 1_025..=10_240) => Server::<ElementTable<10_240>>::serve(arguments),
        (TableKind::Collection, _) => Server::<ElementTable<0>>::serve(arguments),
    }
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    calls: u64,
    nanos: u64,
    log_bytes: u64,
}

/// The schedule of checkpoints, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Schedule {
    /// Time from the beginning of a checkpoint to the beginning of the next; 0 without checkpoints.
    interval: f64,
    /// Minimum number of checkpoints that end within the run. The run is given up after `most` seconds.
    least: u64,
    most: f64,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Lookups(f64, u64),
    Many(f64, u64),
    Updates(f64, u64, Schedule),
    Settle,
}

impl Asked {
    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (what, numbers) = words.split_first()?;
        match (*what, numbers) {
            ("lookups", [seconds, seed]) => Some(Self::Lookups(seconds.parse().ok()?, seed.parse().ok()?)),
            ("many", [seconds, seed]) => Some(Self::Many(seconds.parse().ok()?, seed.parse().ok()?)),
            ("updates", [seconds, seed, interval, least, most]) => {
                let (interval, least, most) =
                    (interval.parse().ok()?, least.parse().ok()?, most.parse().ok()?);
                let schedule = Schedule { interval, least, most };
                Some(Self::Updates(seconds.parse().ok()?, seed.parse().ok()?, schedule))
            }
            ("settle", []) => Some(Self::Settle),
            _ => None,
        }
    }
}

/// A table and its caller.
struct Server<T> {
    table: T,
    calls: Calls,
}

/// The caller's keys, value and clock.
struct Calls {
    keys: u64,
    value: Box<[u8]>,
    clock: Clock,
}

impl<T: HashTable> Server<T> {
    fn serve(arguments: &BerkeleyTableArguments) -> Result<()> {
        let mut builder = ObjectsBuilder::new(&arguments.folder)
            .durability(ObjectDurability::Process)
            .policy(&CheckpointPolicy::on_demand())
            .checkpoint_niceness(arguments.checkpoint_niceness);
        if let Some(megabytes) = arguments.checkpoint_mb {
            builder = builder.checkpoint_bandwidth(megabytes * 1_000_000);
        }
        let value = vec![0; arguments.value_bytes].into();
        let calls = Calls { keys: arguments.keys, value, clock: Clock::machine() };
        let mut server = Self { table: T::open(builder)?, calls };
        server.load()?;
        say(&[0])?;
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(Failure::io("reading what is asked"))?;
            let unknown = || Failure::Usage(format!("no such request: {line}"));
            match Asked::of(&line).ok_or_else(unknown)? {
                Asked::Lookups(seconds, seed) => say_lookups(server.lookups(seconds, seed)?)?,
                Asked::Many(seconds, seed) => say_lookups(server.many(seconds, seed)?)?,
                Asked::Updates(seconds, seed, schedule) => {
                    let (run, made) = server.updates(seconds, seed, schedule)?;
                    say(&[run.calls, run.nanos, made.ended, made.nanos, made.bytes, run.log_bytes])?;
                }
                Asked::Settle => {
                    wait_for(server.table.checkpoint())?;
                    say(&[0])?;
                }
            }
        }
        server.table.close()
    }

    /// Loads numbers in ascending order, so keys come at random.
    fn load(&mut self) -> Result<()> {
        for number in 0..self.calls.keys {
            self.table.set(mixed(number), self.calls.value(number))?;
        }
        wait_for(self.table.checkpoint())
    }

    /// Calls for at least `seconds`, [`CALLS_A_LOOK`] keys at a time, until `call` returns true. `call` gets the number
    /// of earlier calls, and the time of the last look at the clock.
    fn repeat(
        &mut self,
        seconds: f64,
        mut call: impl FnMut(&mut T, &mut Calls, (u64, u64)) -> Result<bool>,
    ) -> Result<Run> {
        let (begun, log_bytes) = (self.calls.clock.nanos(), self.table.stats().log.bytes);
        let end = begun + (seconds * 1e9) as u64;
        let (mut calls, mut now) = (0, begun);
        loop {
            let is_enough = call(&mut self.table, &mut self.calls, (calls, now))?;
            calls += CALLS_A_LOOK as u64;
            now = self.calls.clock.nanos();
            if now >= end && is_enough {
                let log_bytes = self.table.stats().log.bytes - log_bytes;
                return Ok(Run { calls, nanos: now - begun, log_bytes });
            }
        }
    }

    fn lookups(&mut self, seconds: f64, seed: u64) -> Result<Run> {
        let mut keys = DrawnKeys::new(seed, self.calls.keys);
        let mut room = vec![0; self.calls.value.len()];
        self.repeat(seconds, |table, _, _| {
            for _ in 0..CALLS_A_LOOK {
                if !table.get(keys.next_key(), &mut room)? {
                    return Err(lost());
                }
                std::hint::black_box(&room);
            }
            Ok(true)
        })
    }

    fn many(&mut self, seconds: f64, seed: u64) -> Result<Run> {
        let mut drawn = DrawnKeys::new(seed, self.calls.keys);
        let mut room = vec![0; MULTI_GET * self.calls.value.len()];
        self.repeat(seconds, |table, _, _| {
            for _ in 0..CALLS_A_LOOK / MULTI_GET {
                let keys: [u64; MULTI_GET] = std::array::from_fn(|_| drawn.next_key());
                if !table.get_many(&keys, &mut room)? {
                    return Err(lost());
                }
                std::hint::black_box(&room);
            }
            Ok(true)
        })
    }

    /// Updates, with the checkpoints of the schedule.
    fn updates(&mut self, seconds: f64, seed: u64, schedule: Schedule) -> Result<(Run, Checkpoints)> {
        let mut keys = DrawnKeys::new(seed, self.calls.keys);
        let mut checkpoints = Checkpoints::new(schedule, self.calls.clock.nanos());
        let run = self.repeat(seconds, |table, calls, (made, now)| {
            for call in made..made + CALLS_A_LOOK as u64 {
                table.set(keys.next_key(), calls.value(call))?;
            }
            checkpoints.look(now, || table.checkpoint())?;
            Ok(checkpoints.are_enough(now))
        })?;
        // A checkpoint still under way is not counted in the run.
        checkpoints.under_way.take().map_or(Ok(()), |(handle, _)| wait_for(handle))?;
        Ok((run, checkpoints))
    }
}

/// A checkpoint under way.
trait UnderWay {
    /// The bytes written, once the checkpoint has ended.
    fn bytes_written(&self) -> Result<Option<u64>>;
}

impl UnderWay for CheckpointHandle {
    fn bytes_written(&self) -> Result<Option<u64>> {
        let report = self.outcome().transpose()?;
        Ok(report.map(|report| report.bytes_written))
    }
}

/// The checkpoints of a run. Times are nanoseconds of the run's clock.
struct Checkpoints<H = CheckpointHandle> {
    interval: u64,
    least: u64,
    /// End of a run with too few checkpoints.
    last: u64,
    /// Begin of the next checkpoint.
    due: u64,
    /// The checkpoint under way, and its begin.
    under_way: Option<(H, u64)>,
    /// Number, time and bytes of the checkpoints that have ended.
    ended: u64,
    nanos: u64,
    bytes: u64,
}

impl<H: UnderWay> Checkpoints<H> {
    fn new(Schedule { interval, least, most }: Schedule, begun: u64) -> Self {
        let [interval, most] = [interval, most].map(|seconds| (seconds * 1e9) as u64);
        let (due, last) = (begun + interval, begun + most);
        Self { interval, least, last, due, under_way: None, ended: 0, nanos: 0, bytes: 0 }
    }

    /// Counts a checkpoint that has ended by now, and begins one that is due.
    fn look(&mut self, now: u64, begin: impl FnOnce() -> H) -> Result<()> {
        if let Some((handle, begun)) = &self.under_way
            && let Some(bytes) = handle.bytes_written()?
        {
            self.ended += 1;
            self.nanos += now - begun;
            self.bytes += bytes;
            self.under_way = None;
        }
        if self.interval > 0 && self.under_way.is_none() && now >= self.due {
            self.under_way = Some((begin(), now));
            self.due = now + self.interval;
        }
        Ok(())
    }

    /// True if enough checkpoints have ended, or the run is given up.
    fn are_enough(&self, now: u64) -> bool {
        self.interval == 0 || self.ended >= self.least || now >= self.last
    }
}

impl Calls {
    /// A value with this content.
    #[inline]
    fn value(&mut self, content: u64) -> &[u8] {
        let bytes = self.value.len().min(8);
        self.value[..bytes].copy_from_slice(&content.to_le_bytes()[..bytes]);
        &self.value
    }
}

/// Answers a run of lookups. The table has no cache, so there are no pages to count.
fn say_lookups(run: Run) -> Result<()> {
    say(&[run.calls, run.nanos, 0, 0])
}

fn say(numbers: &[u64]) -> Result<()> {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", words.join(" ")).and_then(|()| out.flush()).map_err(Failure::io("answering"))
}

fn wait_for(checkpoint: CheckpointHandle) -> Result<()> {
    checkpoint.wait().map(drop).map_err(Failure::Objects)
}

#[cold]
fn lost() -> Failure {
    Failure::Usage("an element that was set is lost, or of another length".to_owned())
}

#[cfg(test)]
mod tests;
