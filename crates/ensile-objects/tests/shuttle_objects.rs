//! Operations, removals and checkpoints of the same objects by several threads, under shuttle's schedules; then a power
//! cut: what comes back is what the operations up to D made, each once and in order.
//!
//! Neighbours: `objects` has the same on one thread, with failing disks.
#![cfg(shuttle)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_objects::{CheckpointPolicy, CodecResult, ObjectDurability, Objects, ObjectsBuilder, Persistent};
use ensile_sim::SimDisk;

/// The operations that made it, in order, since it was last made.
#[derive(Clone, Debug, PartialEq)]
struct Made(Vec<u64>);

/// An operation has a name. One that is divisible by three removes its object.
fn changed(made: &mut Option<Made>, name: u64) {
    if name.is_multiple_of(3) && made.take().is_some() {
        return;
    }
    made.get_or_insert(Made(Vec::new())).0.push(name);
}

impl Persistent for Made {
    type Operation = u64;
    /// When it was applied: of one object a later operation has a larger number.
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(made: &mut Option<Self>, name: &u64) -> u64 {
        // Std's: no step of the program.
        static APPLIED: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the object's lock orders the operations of one object.
        let order = APPLIED.fetch_add(1, Ordering::Relaxed);
        ensile_base::sync::yield_now();
        changed(made, *name);
        order
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|name| out.extend_from_slice(&name.to_le_bytes()));
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        bytes.chunks(8).map(|name| Self::decode_operation(1, name)).collect::<Result<_, _>>().map(Self)
    }

    fn encode_operation(name: &u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&name.to_le_bytes());
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
    }
}

fn open(disk: &SimDisk, clock: &Clock) -> Objects<u64, Made> {
    ObjectsBuilder::new("/")
        .disk(Arc::new(disk.mounted()))
        .manual_clock(clock.clone())
        .policy(&CheckpointPolicy::on_demand())
        .durability(ObjectDurability::Relaxed)
        .without_threads()
        .open()
        .expect("opens")
}

fn settle(objects: &Objects<u64, Made>, clock: &Clock) {
    clock.advance(Duration::from_millis(1));
    objects.heartbeat_step();
    objects.logger_step(0);
}

/// What each thread did: the order, the object, the operation's name, its epoch.
type Done = Vec<(u64, u64, u64, Epoch)>;

fn life() {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let objects = open(&disk, &clock);
    let threads: Vec<_> = (0..2u64)
        .map(|thread| {
            let objects = objects.clone();
            shuttle::thread::spawn(move || {
                let mut done = Done::new();
                for round in 0..12 {
                    // Few objects, made and removed again and again: a walk takes cells that a thread has just found.
                    let (key, name) = (round % 3, 10 * (round + 1) + thread);
                    let (order, receipt) = objects.submit(key, &name).expect("logs");
                    done.push((order, key, name, receipt.epoch()));
                }
                done
            })
        })
        .collect();
    let steps = {
        let (objects, clock) = (objects.clone(), clock.clone());
        shuttle::thread::spawn(move || {
            let (mut asked, mut installed) = (objects.checkpoint(), 0);
            for _ in 0..100 {
                settle(&objects, &clock);
                objects.checkpoint_step(0);
                if let Some(outcome) = asked.outcome() {
                    outcome.expect("nothing stands in its way");
                    (asked, installed) = (objects.checkpoint(), installed + 1);
                }
            }
            installed
        })
    };
    let mut done: Done = threads.into_iter().flat_map(|thread| thread.join().expect("ends")).collect();
    done.sort_unstable();
    // Relaxed: a count.
    INSTALLED.fetch_add(steps.join().expect("ends"), Ordering::Relaxed);
    let durable = objects.stats().durable_epoch;
    let in_memory = rows(&objects);
    disk.crash(1);
    // Dead by now: it closes nothing.
    drop(objects);
    let objects = open(&disk, &Clock::manual());
    let recovered = objects.recovery().durable_epoch;
    let (mut all, mut kept) = (BTreeMap::new(), BTreeMap::new());
    for (_, key, name, epoch) in done {
        changed_in(&mut all, key, name);
        if epoch <= recovered {
            changed_in(&mut kept, key, name);
        }
        assert!(epoch > durable || epoch <= recovered, "what was reported durable is there");
    }
    assert_eq!(in_memory, all, "before the power cut");
    assert_eq!(rows(&objects), kept, "at D = {recovered}");
}

fn rows(objects: &Objects<u64, Made>) -> BTreeMap<u64, Made> {
    let mut rows = BTreeMap::new();
    objects.for_each(|key, made| drop(rows.insert(*key, made.clone()))).expect("is this process");
    rows
}

fn changed_in(rows: &mut BTreeMap<u64, Made>, key: u64, name: u64) {
    let mut made = rows.remove(&key);
    changed(&mut made, name);
    if let Some(made) = made {
        rows.insert(key, made);
    }
}

/// Checkpoints that were installed, in all schedules.
static INSTALLED: AtomicU64 = AtomicU64::new(0);

const SCHEDULES: u64 = 300;

#[test]
fn shuttle_threads_and_a_walk_leave_each_object_as_its_operations_made_it() {
    ensile_sim::schedules::check(SCHEDULES, 2_000_000, life);
    // Relaxed: the schedules have ended.
    let installed = INSTALLED.load(Ordering::Relaxed);
    assert!(installed > SCHEDULES, "{installed} checkpoints");
}
