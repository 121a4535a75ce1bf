//! Marks of lives that several threads replay: each object gets its operations in order, and only while it exists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::{Epoch, Tid};
use ensile_durability::{Entry, Recoverable as _};

use super::ApplicationState;
use crate::format::{BodyForm, ObjectBody, ObjectLife};
use crate::runtime::ObjectState as _;
use crate::{Application, CallBackResult, ObjectWriter};

/// Numbers by object. A call-back refuses a change or removal of a missing object, and a creation of an existing one.
#[derive(Default)]
struct Strict(Mutex<BTreeMap<u64, u64>>);

impl Strict {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.0.lock().expect("nothing panics")
    }
}

/// Makes an operation, whose number is the one in its form.
fn make(all: &mut BTreeMap<u64, u64>, object: u64, operation: u32) -> CallBackResult {
    match (operation, all.get_mut(&object)) {
        (5, None) => drop(all.insert(object, 1)),
        (6, Some(number)) => *number = number.wrapping_mul(3).wrapping_add(1),
        (7, Some(_)) => drop(all.remove(&object)),
        _ => return Err("it is there, or is not there".into()),
    }
    Ok(())
}

impl Application for Strict {
    fn checkpoint(&self, _: u64, _: &mut ObjectWriter<'_>) -> Option<u64> {
        None
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        self.all().insert(object, u64::from_le_bytes(bytes.try_into().expect("eight")));
        Ok(())
    }

    fn replay_one(&self, object: u64, operation: u32, _: &[&[u8]]) -> CallBackResult {
        make(&mut self.all(), object, operation)
    }
}

const OBJECTS: u64 = 100;
/// First epoch that the log has, and the end of its epochs.
const LOW: u64 = 20;
const END: u64 = 60;

type Logged = (u64, Tid, u32);

/// A history of one object: an operation in some of the epochs, each of which its state allows.
fn history(random: &mut Random, object: u64) -> Vec<Logged> {
    let mut exists = false;
    let mut logged = Vec::new();
    for epoch in 1..END {
        let mut tid = Tid::first_of(Epoch::new(epoch));
        for _ in 0..random.next_below(3) {
            let operation = match (exists, random.percent(40)) {
                (false, _) => 5,
                (true, true) => 7,
                (true, false) => 6,
            };
            exists = operation != 7;
            logged.push((object, tid, operation));
            tid = tid.successor().expect("few");
        }
    }
    logged
}

fn body(form: BodyForm, object: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ObjectBody { form, version: 0, key: &object.to_le_bytes(), bytes }.encode(&mut out);
    out
}

/// Loads an object as a walk has found it, somewhere behind the last operation of an epoch below LOW.
fn load(state: &ApplicationState<Strict>, random: &mut Random, history: &[Logged]) {
    let least = history.partition_point(|(_, tid, _)| tid.epoch() < Epoch::new(LOW));
    let found = random.next_between(least as u64, history.len() as u64) as usize;
    let mut all = BTreeMap::new();
    for (object, _, operation) in &history[..found] {
        make(&mut all, *object, *operation).expect("a history is right");
    }
    let Some((object, number)) = all.pop_first() else { return };
    let (tid, body) = (history[found - 1].1, body(BodyForm::Whole, object, &number.to_le_bytes()));
    state.load(0, &[Entry { tid, body: &body }]).expect("is loaded");
}

#[test]
fn o10_several_threads_replay_each_object_in_order_and_only_while_it_exists() {
    let mut passed_over = 0;
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let application = Arc::new(Strict::default());
        let state = ApplicationState::new(Arc::clone(&application), &Clock::manual());
        let (mut expected, mut log) = (BTreeMap::new(), Vec::new());
        for object in 0..OBJECTS {
            let history = history(&mut random, object);
            load(&state, &mut random, &history);
            for (object, tid, operation) in history {
                make(&mut expected, object, operation).expect("a history is right");
                let life = match operation {
                    5 => ObjectLife::Creation,
                    6 => ObjectLife::Change,
                    _ => ObjectLife::Removal,
                };
                let call = body(BodyForm::Call(Some(life)), object, &operation.to_le_bytes());
                log.push((random.next_u64(), tid, call));
            }
        }
        // In any order of reading.
        log.sort_unstable();
        for window in (LOW..END).step_by(8) {
            let epochs = Epoch::new(window)..Epoch::new(window + 8);
            let due: Vec<Entry<'_>> = log
                .iter()
                .filter(|(_, tid, _)| epochs.contains(&tid.epoch()))
                .map(|(_, tid, body)| Entry { tid: *tid, body })
                .collect();
            let each = |of: &(dyn Fn(u64) + Sync)| {
                std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || of(thread)))));
            };
            each(&|thread| {
                let entries = due.iter().skip(thread as usize).step_by(4);
                entries.for_each(|entry| state.replay(&[*entry]).expect("is understood"));
            });
            each(&|thread| state.advance_watermark(Epoch::new(window + thread * 2)));
        }
        state.advance_watermark(Epoch::MAX);
        state.check_recovered().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(*application.all(), expected, "seed {seed}");
        passed_over += state.passed_over();
    }
    assert!(passed_over > 100, "{passed_over} passed over");
}
