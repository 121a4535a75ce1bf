//! The process that `slach cost` counts and times: calls of objects on one thread.
//!
//! The process prints the nanoseconds of the calls, or of the open that replays the calls.
//!
//! Neighbours: [`super`] starts the process, under cachegrind or alone; [`objects`] has the objects.

pub(in crate::slach) mod objects;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::Mutex;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};
use ensile_objects::{ApplicationLog, CheckpointPolicy, ObjectDurability, Objects, ObjectsBuilder};
use rapidhash::quality::SeedableState;

use self::objects::{Held, OwnObjects, WRITTEN};
use crate::slach::arguments::SlachArguments;

/// Folder of the objects, in the folder of all data.
const FOLDER: &str = "slach-cost-run";
/// Bytes of a called operation, and of a replayed operation.
const CALLED_BYTES: usize = 40;
const REPLAYED_BYTES: usize = 100;
/// Limits: nanoseconds of a logged update beside an unlogged update, relaxed and process-safe.
const LOGGED_NANOS_MAX: f64 = 60.0;
const SAFE_NANOS_MAX: f64 = 120.0;
/// Length of an epoch, so long that no epoch ends by itself while calls are counted.
const EPOCH: Duration = Duration::from_secs(10);

/// The called operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Called {
    /// An update of an object in a hash map of locks.
    UnloggedUpdate,
    /// An update of an object of a collection.
    Update,
    /// An update of an object of a process-safe collection.
    SafeUpdate,
    /// A put of a whole value in a collection.
    Put,
    /// A read in a hash map of locks.
    UnloggedGet,
    /// A read in a collection.
    Get,
    /// An update of an object of the application's own.
    OwnUnloggedUpdate,
    /// An update of an object of the application's own, logged before.
    OwnUpdate,
    /// A logged update of an object of the application's own, process-safe.
    OwnSafeUpdate,
    /// Writes the operations for `replay`.
    WriteReplayed,
    /// The open of a collection.
    Replay,
}

impl Called {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UnloggedUpdate => "update, not logged",
            Self::Update => "update",
            Self::SafeUpdate => "update, process-safe",
            Self::Put => "whole value",
            Self::UnloggedGet => "get, not of a collection",
            Self::Get => "get",
            Self::OwnUnloggedUpdate => "own object, not logged",
            Self::OwnUpdate => "own object, logged",
            Self::OwnSafeUpdate => "own object, process-safe",
            Self::WriteReplayed => "what is replayed",
            Self::Replay => "replay",
        }
    }

    /// True if the call only prepares another call.
    pub(super) fn is_preparation(self) -> bool {
        self == Self::WriteReplayed
    }

    /// The call that must have run before.
    pub(super) fn preparation(self) -> Option<Self> {
        (self == Self::Replay).then_some(Self::WriteReplayed)
    }

    /// The unlogged call to compare with.
    pub(super) fn unlogged(self) -> Option<Self> {
        match self {
            Self::Update | Self::SafeUpdate | Self::Put => Some(Self::UnloggedUpdate),
            Self::Get => Some(Self::UnloggedGet),
            Self::OwnUpdate | Self::OwnSafeUpdate => Some(Self::OwnUnloggedUpdate),
            _ => None,
        }
    }

    /// Maximum nanoseconds above the unlogged call; `None` without a limit.
    pub(super) fn nanos_max(self) -> Option<f64> {
        match self {
            Self::Update | Self::OwnUpdate => Some(LOGGED_NANOS_MAX),
            Self::SafeUpdate | Self::OwnSafeUpdate => Some(SAFE_NANOS_MAX),
            _ => None,
        }
    }

    /// Durability of the objects.
    fn durability(self) -> ObjectDurability {
        match self {
            Self::SafeUpdate | Self::OwnSafeUpdate => ObjectDurability::Process,
            _ => ObjectDurability::Relaxed,
        }
    }
}

/// `ensile-papers slach-cost-run`.
#[derive(Clone, Debug, Args)]
pub struct SlachRunArguments {
    #[arg(long, value_enum)]
    called: Called,
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    objects: u64,
    #[arg(long, value_parser = value_parser!(u64).range(1..=1 << 40))]
    calls: u64,
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    seed: u64,
}

/// The command line of a run.
pub(super) fn words(called: Called, calls: u64, arguments: &SlachArguments) -> Vec<String> {
    let called = called.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let mut words = vec!["slach-cost-run".to_owned()];
    for (option, value) in [
        ("--called", called),
        ("--objects", arguments.objects.to_string()),
        ("--calls", calls.to_string()),
        ("--data", arguments.data.display().to_string()),
        ("--seed", arguments.seed.to_string()),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words
}

/// Path of the objects of a run.
pub(super) fn folder(data: &Path) -> PathBuf {
    data.join(FOLDER)
}

/// Makes the run.
pub(crate) fn one_run(arguments: &SlachRunArguments) -> Result<()> {
    let nanos = match arguments.called {
        Called::UnloggedUpdate => unlogged(arguments, |object, operation| {
            object.change(operation);
        }),
        Called::UnloggedGet => unlogged(arguments, |object, _| {
            std::hint::black_box(object.changes());
        }),
        Called::Update | Called::SafeUpdate => collection(arguments, |objects, key, operation| {
            std::hint::black_box(objects.update(key, operation)?);
            Ok(())
        })?,
        Called::Put => {
            collection(arguments, |objects, key, operation| objects.put(key, Held::of(operation)).map(drop))?
        }
        Called::Get => collection(arguments, |objects, key, _| {
            let changes = objects.read(&key, |object| object.map_or(0, Held::changes))?;
            std::hint::black_box(changes);
            Ok(())
        })?,
        Called::OwnUnloggedUpdate => own(arguments, None)?,
        Called::OwnUpdate | Called::OwnSafeUpdate => {
            let log = |own: &Arc<OwnObjects<CALLED_BYTES>>| {
                let folder = fresh_folder(&arguments.data, FOLDER)?;
                let builder = builder(&folder).durability(arguments.called.durability());
                Ok(builder.open_application(Arc::clone(own))?)
            };
            own(arguments, Some(&log))?
        }
        Called::WriteReplayed => {
            let (objects, calls) = opened::<REPLAYED_BYTES>(arguments)?;
            let nanos = calls.time(|key, operation| objects.update(key, operation).map(drop))?;
            objects.close()?;
            nanos
        }
        Called::Replay => {
            let clock = Clock::machine();
            let begin = clock.nanos();
            let objects: Objects<u64, Held<REPLAYED_BYTES>> =
                builder(&folder(&arguments.data)).recovery_threads(1).open()?;
            let nanos = clock.nanos() - begin;
            let (found, due) = (objects.recovery().entries, arguments.calls + arguments.objects);
            if found != due {
                let why = format!("{found} operations were replayed instead of {due}");
                return Err(Failure::Usage(why));
            }
            objects.close()?;
            nanos
        }
    };
    println!("{nanos}");
    Ok(())
}

fn builder(folder: &Path) -> ObjectsBuilder {
    ObjectsBuilder::new(folder)
        .durability(ObjectDurability::Relaxed)
        .epoch_interval(EPOCH)
        .policy(&CheckpointPolicy::on_demand())
}

/// Calls of objects, at random.
struct Calls<const BYTES: usize> {
    random: Random,
    objects: u64,
    calls: u64,
    operation: [u8; BYTES],
}

impl<const BYTES: usize> Calls<BYTES> {
    fn of(arguments: &SlachRunArguments) -> Self {
        let random = Random::from_seed(arguments.seed);
        Self { random, objects: arguments.objects, calls: arguments.calls, operation: [7; BYTES] }
    }

    /// Makes the calls; returns their nanoseconds.
    fn time<E>(mut self, mut call: impl FnMut(u64, &[u8; BYTES]) -> Result<(), E>) -> Result<u64, E> {
        let clock = Clock::machine();
        let begin = clock.nanos();
        for number in 0..self.calls {
            self.operation[..8].copy_from_slice(&number.to_le_bytes());
            call(self.random.next_below(self.objects), &self.operation)?;
        }
        Ok(clock.nanos() - begin)
    }
}

/// Calls of objects in a map filled before, each behind a lock of its own.
fn unlogged(
    arguments: &SlachRunArguments,
    call: impl Fn(&mut Held<CALLED_BYTES>, &[u8; CALLED_BYTES]),
) -> u64 {
    let mut objects = HashMap::with_hasher(SeedableState::new(arguments.seed));
    objects.extend((0..arguments.objects).map(|key| (key, Mutex::new(Held::of(&[0; CALLED_BYTES])))));
    let timed = Calls::of(arguments).time(|key, operation| {
        let object = objects.get(&key).map(Mutex::lock);
        object.into_iter().for_each(|mut object| call(&mut object, operation));
        Ok::<_, std::convert::Infallible>(())
    });
    timed.unwrap_or_else(|never| match never {})
}

/// A collection filled with durable objects.
fn opened<const BYTES: usize>(
    arguments: &SlachRunArguments,
) -> Result<(Objects<u64, Held<BYTES>>, Calls<BYTES>)> {
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let objects: Objects<u64, Held<BYTES>> =
        builder(&folder).durability(arguments.called.durability()).open()?;
    let mut last = None;
    for key in 0..arguments.objects {
        last = Some(objects.submit(key, &[0; BYTES])?.1);
    }
    last.map_or(Ok(()), |receipt| receipt.durable())?;
    Ok((objects, Calls::of(arguments)))
}

/// Makes calls of a collection.
fn collection(
    arguments: &SlachRunArguments,
    call: impl Fn(
        &Objects<u64, Held<CALLED_BYTES>>,
        u64,
        &[u8; CALLED_BYTES],
    ) -> ensile_objects::ObjectsResult<()>,
) -> Result<u64> {
    let (objects, calls) = opened(arguments)?;
    let nanos = calls.time(|key, operation| call(&objects, key, operation))?;
    objects.close()?;
    Ok(nanos)
}

/// Opens the log of an application.
type OpenLog<'l> = &'l dyn Fn(&Arc<OwnObjects<CALLED_BYTES>>) -> Result<ApplicationLog>;

/// Updates of the application's own objects, logged if `log` is given.
fn own(arguments: &SlachRunArguments, log: Option<OpenLog<'_>>) -> Result<u64> {
    let own = Arc::new(OwnObjects::<CALLED_BYTES>::new(arguments.objects));
    let Some(log) = log else {
        let timed = Calls::of(arguments).time(|key, operation| {
            own.lock(key).change(operation);
            Ok::<_, std::convert::Infallible>(())
        });
        return Ok(timed.unwrap_or_else(|never| match never {}));
    };
    let log = log(&own)?;
    let nanos = Calls::of(arguments).time(|key, operation| {
        let mut object = own.lock(key);
        log.log(key, WRITTEN, &[operation])?;
        object.change(operation);
        Ok::<_, ensile_objects::ObjectsError>(())
    })?;
    log.close()?;
    Ok(nanos)
}
