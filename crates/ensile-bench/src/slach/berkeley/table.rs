//! The process of `slach berkeley` that has the hash table, process-safe and called by one thread. It is asked as
//! `berkeley.c` is, line by line, and makes its checkpoints itself.
//!
//! ```text
//! lookups SECONDS SEED               calls nanoseconds 0 0 0
//! many SECONDS SEED                  the same, in multi-gets of 16: calls are keys
//! updates SECONDS SEED CHECKPOINTS   calls nanoseconds checkpoints, bytes of them, bytes of log
//! settle                             0, behind a checkpoint
//! ```
//! Neighbours: [`super::sides`] starts it; [`super::keys`] says what is called; [`super::service`] and
//! [`super::element`] are the tables.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use ensile_base::clock::Clock;
use ensile_objects::{
    CheckpointHandle, CheckpointPolicy, ObjectDurability, ObjectsBuilder, ObjectsError, ObjectsStats,
};
use ensile_services::pht::PersistentTable;

use super::MULTI_GET;
use super::element::ElementTable;
use super::keys::{DrawnKeys, mixed};
use crate::failure::{Failure, Result};

/// Calls between two looks at the clock.
const CALLS_A_LOOK: usize = 64;
const _: () = assert!(CALLS_A_LOOK.is_multiple_of(MULTI_GET), "whole multi-gets");

/// Which hash table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableKind {
    /// That of ensile-services, called in process.
    #[default]
    Service,
    /// A collection of elements, each an object, declared for the size of the values; it has no lookup of several keys.
    Collection,
}

/// `ensile-bench slach-berkeley-table`.
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

    /// Copies the value of a key out. False if there is none, or none as long as its room.
    fn get(&self, key: u64, room: &mut [u8]) -> Result<bool>;

    /// The same for several keys, whose values are as long as an equal part of the room.
    fn get_many(&self, keys: &[u64; MULTI_GET], room: &mut [u8]) -> Result<bool>;

    fn set(&mut self, key: u64, value: &[u8]) -> Result<()>;

    fn checkpoint(&self) -> CheckpointHandle;

    fn stats(&self) -> ObjectsStats;

    fn close(&self) -> Result<()>;
}

/// Loads the table and serves until nobody asks any more.
pub(crate) fn run(arguments: &BerkeleyTableArguments) -> Result<()> {
    // A collection is declared for the values that it is to have.
    match (arguments.table, arguments.value_bytes) {
        (TableKind::Service, _) => Server::<PersistentTable>::serve(arguments),
        (TableKind::Collection, 0..=30) => Server::<ElementTable<30>>::serve(arguments),
        (TableKind::Collection, 31..=102) => Server::<ElementTable<102>>::serve(arguments),
        (TableKind::Collection, 103..=1_024) => Server::<ElementTable<1_024>>::serve(arguments),
        (TableKind::Collection, 1_025..=10_240) => Server::<ElementTable<10_240>>::serve(arguments),
        (TableKind::Collection, _) => Server::<ElementTable<0>>::serve(arguments),
    }
}

/// What a request came to.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    calls: u64,
    nanos: u64,
    checkpoints: u64,
    checkpoint_bytes: u64,
    log_bytes: u64,
}

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Lookups(f64, u64),
    Many(f64, u64),
    Updates(f64, u64, bool),
    Settle,
}

impl Asked {
    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (what, numbers) = words.split_first()?;
        match (*what, numbers) {
            ("lookups", [seconds, seed]) => Some(Self::Lookups(seconds.parse().ok()?, seed.parse().ok()?)),
            ("many", [seconds, seed]) => Some(Self::Many(seconds.parse().ok()?, seed.parse().ok()?)),
            ("updates", [seconds, seed, checkpoints]) => {
                Some(Self::Updates(seconds.parse().ok()?, seed.parse().ok()?, *checkpoints == "1"))
            }
            ("settle", []) => Some(Self::Settle),
            _ => None,
        }
    }
}

/// A table, and who calls it.
struct Server<T> {
    table: T,
    calls: Calls,
}

/// What is called.
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
        say(Answer::default())?;
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(Failure::io("reading what is asked"))?;
            let unknown = || Failure::Usage(format!("no such request: {line}"));
            say(match Asked::of(&line).ok_or_else(unknown)? {
                Asked::Lookups(seconds, seed) => server.lookups(seconds, seed)?,
                Asked::Many(seconds, seed) => server.many(seconds, seed)?,
                Asked::Updates(seconds, seed, checkpoints) => server.updates(seconds, seed, checkpoints)?,
                Asked::Settle => {
                    wait_for(server.table.checkpoint())?;
                    Answer::default()
                }
            })?;
        }
        server.table.close()
    }

    /// Numbers go up, so keys come at random.
    fn load(&mut self) -> Result<()> {
        for number in 0..self.calls.keys {
            self.table.set(mixed(number), self.calls.value(number))?;
        }
        wait_for(self.table.checkpoint())
    }

    /// Calls for so many seconds, each time as many as [`CALLS_A_LOOK`] keys.
    fn repeat(
        &mut self,
        seconds: f64,
        mut call: impl FnMut(&mut T, &mut Calls, u64) -> Result<()>,
    ) -> Result<Answer> {
        let (begun, log_bytes) = (self.calls.clock.nanos(), self.table.stats().log.bytes);
        let end = begun + (seconds * 1e9) as u64;
        let mut answer = Answer::default();
        loop {
            call(&mut self.table, &mut self.calls, answer.calls)?;
            answer.calls += CALLS_A_LOOK as u64;
            let now = self.calls.clock.nanos();
            if now >= end {
                answer.nanos = now - begun;
                answer.log_bytes = self.table.stats().log.bytes - log_bytes;
                return Ok(answer);
            }
        }
    }

    fn lookups(&mut self, seconds: f64, seed: u64) -> Result<Answer> {
        let mut keys = DrawnKeys::new(seed, self.calls.keys);
        let mut room = vec![0; self.calls.value.len()];
        self.repeat(seconds, |table, _, _| {
            for _ in 0..CALLS_A_LOOK {
                if !table.get(keys.next_key(), &mut room)? {
                    return Err(lost());
                }
                std::hint::black_box(&room);
            }
            Ok(())
        })
    }

    fn many(&mut self, seconds: f64, seed: u64) -> Result<Answer> {
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
            Ok(())
        })
    }
    /// Updates, while there is one checkpoint after the other if that is asked for.
    fn updates(&mut self, seconds: f64, seed: u64, with_checkpoints: bool) -> Result<Answer> {
        let mut keys = DrawnKeys::new(seed, self.calls.keys);
        let before = self.table.stats().checkpoints;
        let mut under_way = with_checkpoints.then(|| self.table.checkpoint());
        let answer = self.repeat(seconds, |table, calls, made| {
            for call in made..made + CALLS_A_LOOK as u64 {
                table.set(keys.next_key(), calls.value(call))?;
            }
            let outcome = under_way.as_ref().and_then(CheckpointHandle::outcome);
            if let Some(outcome) = outcome {
                outcome.map_err(ObjectsError::from)?;
                under_way = Some(table.checkpoint());
            }
            Ok(())
        })?;
        let after = self.table.stats().checkpoints;
        under_way.map_or(Ok(()), wait_for)?;
        let checkpoint_bytes = after.bytes - before.bytes;
        Ok(Answer { checkpoints: after.installed - before.installed, checkpoint_bytes, ..answer })
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

fn say(answer: Answer) -> Result<()> {
    let Answer { calls, nanos, checkpoints, checkpoint_bytes, log_bytes } = answer;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{calls} {nanos} {checkpoints} {checkpoint_bytes} {log_bytes}")
        .and_then(|()| out.flush())
        .map_err(Failure::io("answering"))
}

fn wait_for(checkpoint: CheckpointHandle) -> Result<()> {
    checkpoint.wait().map(drop).map_err(|error| Failure::Objects(ObjectsError::from(error)))
}

#[cold]
fn lost() -> Failure {
    Failure::Usage("an element that was set is lost, or of another length".to_owned())
}

#[cfg(test)]
mod tests {
    use super::Asked;

    #[test]
    fn what_is_asked_is_read_from_a_line() {
        assert_eq!(Asked::of("lookups 0.5 7"), Some(Asked::Lookups(0.5, 7)));
        assert_eq!(Asked::of("many 2 1"), Some(Asked::Many(2.0, 1)));
        assert_eq!(Asked::of("updates 1 3 1"), Some(Asked::Updates(1.0, 3, true)));
        assert_eq!(Asked::of("updates 1 3 0"), Some(Asked::Updates(1.0, 3, false)));
        assert_eq!(Asked::of("settle"), Some(Asked::Settle));
        for line in ["", "lookups", "lookups x 1", "updates 1 3", "settle 1"] {
            assert_eq!(Asked::of(line), None, "{line}");
        }
    }
}
