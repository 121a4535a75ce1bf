//! User code that calls handles: each call is refused and changes nothing, wherever the user code runs (O8).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ensile_objects::{
    Application, ApplicationLog, CallBackResult, CheckpointPolicy, CodecResult, Epoch, ObjectKey,
    ObjectWriter, Objects, ObjectsBuilder, ObjectsError, ObjectsResult, Persistent,
};
use ensile_sim::SimDisk;

/// Place of user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    EncodeKey,
    DecodeKey,
    EncodeObject,
    DecodeObject,
    EncodeOperation,
    DecodeOperation,
    Operation,
    Check,
    Look,
    LookAtAbsent,
    LookAtEach,
    Checkpoint,
    Load,
    Replay,
    Change,
}

type Hook = Arc<dyn Fn(Place) + Send + Sync>;

/// Hooks of the tests: an object's type has a single hook, so each test has a type of its own.
static HOOKS: [Mutex<Option<Hook>>; 2] = [const { Mutex::new(None) }; 2];

fn call_hook<const TEST: usize>(place: Place) {
    let hook = HOOKS[TEST].lock().expect("no panic").clone();
    hook.iter().for_each(|hook| hook(place));
}

/// A sum whose user code calls the test's hook.
#[derive(Debug)]
struct Hooked<const TEST: usize>(u64);

/// A key whose codec calls the test's hook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HookedKey<const TEST: usize>(u64);

fn encode(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn decode(bytes: &[u8]) -> CodecResult<u64> {
    Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| "not eight bytes")?))
}

impl<const TEST: usize> ObjectKey for HookedKey<TEST> {
    fn encode(&self, out: &mut Vec<u8>) {
        call_hook::<TEST>(Place::EncodeKey);
        encode(self.0, out);
    }

    fn decode(bytes: &[u8]) -> CodecResult<Self> {
        call_hook::<TEST>(Place::DecodeKey);
        decode(bytes).map(Self)
    }
}

impl<const TEST: usize> Persistent for Hooked<TEST> {
    type Operation = u64;
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(sum: &mut Option<Self>, by: &u64) -> u64 {
        call_hook::<TEST>(Place::Operation);
        let sum = sum.get_or_insert(Self(0));
        sum.0 += by;
        sum.0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        call_hook::<TEST>(Place::EncodeObject);
        encode(self.0, out);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        call_hook::<TEST>(Place::DecodeObject);
        decode(bytes).map(Self)
    }

    fn encode_operation(by: &u64, out: &mut Vec<u8>) {
        call_hook::<TEST>(Place::EncodeOperation);
        encode(*by, out);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        call_hook::<TEST>(Place::DecodeOperation);
        decode(bytes)
    }
}

/// A sum without hooks.
#[derive(Debug)]
struct Sum(u64);

impl Persistent for Sum {
    type Operation = u64;
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(sum: &mut Option<Self>, by: &u64) -> u64 {
        let sum = sum.get_or_insert(Self(0));
        sum.0 += by;
        sum.0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        encode(self.0, out);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        decode(bytes).map(Self)
    }

    fn encode_operation(by: &u64, out: &mut Vec<u8>) {
        encode(*by, out);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        decode(bytes)
    }
}

fn is_refused<R>(called: &ObjectsResult<R>) -> bool {
    matches!(called, Err(ObjectsError::InCallBack))
}

/// Calls of a collection's handle, each with its result.
fn calls<K: ObjectKey, T: Persistent<Operation = u64>>(
    objects: &Objects<K, T>,
    key: &K,
    value: impl Fn() -> T,
) -> Vec<(&'static str, bool)> {
    let allow = |_: Option<&T>| Ok::<(), ()>(());
    let waited = objects.checkpoint().wait();
    let nowhere = std::env::temp_dir().join("ensile-no-such-backup");
    vec![
        ("update", is_refused(&objects.update(key.clone(), &1))),
        ("submit", is_refused(&objects.submit(key.clone(), &1))),
        ("update_if", is_refused(&objects.update_if(key.clone(), &1, allow))),
        ("put", is_refused(&objects.put(key.clone(), value()))),
        ("remove", is_refused(&objects.remove(key.clone()))),
        ("read", is_refused(&objects.read(key, |_| ()))),
        ("read_many", is_refused(&objects.read_many([key], |_, _| ()))),
        ("for_each", is_refused(&objects.for_each(|_, _| ()))),
        ("checkpoint", is_refused(&waited)),
        ("durable", is_refused(&objects.receipt(Epoch::ZERO).durable())),
        ("register_policy", is_refused(&objects.register_policy(&CheckpointPolicy::on_demand()))),
        ("ship", is_refused(&objects.ship(Duration::ZERO))),
        ("backup", is_refused(&objects.backup(nowhere))),
        ("close", is_refused(&objects.close())),
    ]
}

/// Calls by place that were not refused, and the places themselves.
type Served = Arc<Mutex<BTreeMap<Place, Vec<&'static str>>>>;

fn note(served: &Served, place: Place, calls: Vec<(&'static str, bool)>) {
    let names = calls.into_iter().filter(|(_, is_refused)| !is_refused).map(|(name, _)| name);
    served.lock().expect("no panic").entry(place).or_default().extend(names);
}

/// Asserts that user code ran in these places, and that each of its calls was refused.
fn assert_all_refused(served: &Served, places: &[Place]) {
    let served = std::mem::take(&mut *served.lock().expect("no panic"));
    assert_eq!(served, places.iter().map(|place| (*place, Vec::new())).collect());
}

fn sums(disk: &SimDisk) -> Objects<u64, Sum> {
    let builder = ObjectsBuilder::new("others").disk(Arc::new(disk.mounted()));
    builder.policy(&CheckpointPolicy::on_demand()).open().expect("opens")
}

fn sum_of(others: &Objects<u64, Sum>) -> Option<u64> {
    others.read(&1, |sum| sum.map(|sum| sum.0)).expect("reads")
}

fn set_hook(test: usize, hook: Option<Hook>) {
    *HOOKS[test].lock().expect("no panic") = hook;
}

#[test]
fn o8_user_code_of_a_collection_changes_no_collection_and_no_open_repeats_its_calls() {
    for is_checked in [false, true] {
        let (disk, others) = (SimDisk::new(), sums(&SimDisk::new()));
        let open = || -> Objects<HookedKey<0>, Hooked<0>> {
            let builder = ObjectsBuilder::new("own").disk(Arc::new(disk.mounted()));
            let builder = builder.policy(&CheckpointPolicy::on_demand());
            if is_checked { builder.check_operations() } else { builder }.open().expect("opens")
        };
        let (key, served) = (HookedKey::<0>(7), Served::default());
        others.update(1, &5).expect("logs");
        let own = open();
        own.update(key.clone(), &1).expect("logs");
        let hook = |its: Option<Objects<HookedKey<0>, Hooked<0>>>| -> Hook {
            let (others, served) = (others.clone(), Arc::clone(&served));
            Arc::new(move |place| {
                note(&served, place, calls(&others, &1, || Sum(9)));
                its.iter().for_each(|its| note(&served, place, calls(its, &HookedKey(7), || Hooked(9))));
            })
        };
        let call = hook(Some(own.clone()));
        set_hook(0, Some(Arc::clone(&call)));
        own.update(key.clone(), &1).expect("logs");
        own.update_if(key.clone(), &1, |_| {
            call(Place::Check);
            Ok::<(), ()>(())
        })
        .expect("logs")
        .expect("is allowed");
        own.read(&key, |_| call(Place::Look)).expect("reads");
        own.read(&HookedKey(8), |_| call(Place::LookAtAbsent)).expect("reads");
        own.for_each(|_, _| call(Place::LookAtEach)).expect("reads");
        own.checkpoint().wait().expect("a checkpoint");
        own.update(key.clone(), &1).expect("logs");
        use Place::*;
        let in_service =
            [EncodeKey, EncodeObject, EncodeOperation, Operation, Check, Look, LookAtAbsent, LookAtEach];
        let decoded: &[Place] = if is_checked { &[DecodeObject, DecodeOperation] } else { &[] };
        let mut places = [&in_service[..], decoded].concat();
        places.sort();
        assert_all_refused(&served, &places);
        set_hook(0, None);
        drop(call);
        own.close().expect("closes");
        drop(own);
        // At a recovery the collection has no handle yet.
        set_hook(0, Some(hook(None)));
        let own = open();
        assert_all_refused(&served, &[DecodeKey, DecodeObject, DecodeOperation, Operation]);
        set_hook(0, None);
        assert_eq!(own.read(&key, |sum| sum.map(|sum| sum.0)).expect("reads"), Some(4));
        assert_eq!(sum_of(&others), Some(5));
        others.close().expect("it is open");
    }
}

/// An application whose call-backs call the test's hook; object 0 is a sum.
#[derive(Default)]
struct HookedSum(Mutex<u64>);

impl Application for HookedSum {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        call_hook::<1>(Place::Checkpoint);
        let sum = self.0.lock().expect("no panic");
        if from == 0 && !out.ckpt(0, &sum.to_le_bytes()) {
            return Some(1);
        }
        None
    }

    fn load_one(&self, _: u64, bytes: &[u8]) -> CallBackResult {
        call_hook::<1>(Place::Load);
        *self.0.lock().expect("no panic") = decode(bytes)?;
        Ok(())
    }

    fn replay_one(&self, _: u64, _: u32, parameters: &[&[u8]]) -> CallBackResult {
        call_hook::<1>(Place::Replay);
        *self.0.lock().expect("no panic") += decode(parameters[0])?;
        Ok(())
    }
}

/// Calls of an application's log, each with its result.
fn application_calls(log: &ApplicationLog) -> Vec<(&'static str, bool)> {
    let nowhere = std::env::temp_dir().join("ensile-no-such-backup");
    vec![
        ("log", is_refused(&log.log(0, 0, &[&1u64.to_le_bytes()]))),
        ("change", is_refused(&log.change(0, 0, &[&1u64.to_le_bytes()], || ()))),
        ("checkpoint", is_refused(&log.checkpoint().wait())),
        ("durable", is_refused(&log.receipt(Epoch::ZERO).durable())),
        ("register_policy", is_refused(&log.register_policy(&CheckpointPolicy::on_demand()))),
        ("backup", is_refused(&log.backup(nowhere))),
        ("close", is_refused(&log.close())),
    ]
}

#[test]
fn o8_call_backs_of_an_application_change_no_objects_and_no_open_repeats_their_calls() {
    let (disk, others) = (SimDisk::new(), sums(&SimDisk::new()));
    others.update(1, &5).expect("logs");
    let open = || {
        let application = Arc::new(HookedSum::default());
        let builder = ObjectsBuilder::new("own").disk(Arc::new(disk.mounted()));
        let builder = builder.policy(&CheckpointPolicy::on_demand());
        let checked = builder.open_application_checked(Arc::clone(&application), HookedSum::default());
        (checked.expect("opens"), application)
    };
    let served = Served::default();
    let hook = |its: Option<ApplicationLog>| -> Hook {
        let (others, served) = (others.clone(), Arc::clone(&served));
        Arc::new(move |place| {
            note(&served, place, calls(&others, &1, || Sum(9)));
            its.iter().for_each(|its| note(&served, place, application_calls(its)));
        })
    };
    let add = |log: &ApplicationLog, application: &HookedSum, made: &dyn Fn()| {
        let mut sum = application.0.lock().expect("no panic");
        let change = || {
            made();
            *sum += 1;
        };
        log.change(0, 0, &[&1u64.to_le_bytes()], change).expect("logs").1.durable()
    };
    let (log, application) = open();
    let call = hook(Some(log.clone()));
    set_hook(1, Some(Arc::clone(&call)));
    add(&log, &application, &|| call(Place::Change)).expect("is durable");
    log.checkpoint().wait().expect("a checkpoint");
    add(&log, &application, &|| call(Place::Change)).expect("is durable");
    // The checked mode replays on its copy.
    assert_all_refused(&served, &[Place::Checkpoint, Place::Replay, Place::Change]);
    set_hook(1, None);
    drop(call);
    log.close().expect("closes");
    drop(log);
    set_hook(1, Some(hook(None)));
    let (log, application) = open();
    assert_all_refused(&served, &[Place::Checkpoint, Place::Load, Place::Replay]);
    set_hook(1, None);
    assert_eq!(*application.0.lock().expect("no panic"), 2);
    assert_eq!(sum_of(&others), Some(5));
    log.close().expect("closes");
    others.close().expect("it is open");
}

#[test]
fn o8_a_collection_whose_last_handle_a_look_drops_is_closed_whole() {
    let disk = SimDisk::new();
    let (own, dropped) = (sums(&SimDisk::new()), sums(&disk));
    dropped.submit(1, &5).map(drop).expect("logs");
    own.read(&1, |_| drop(dropped)).expect("reads");
    assert_eq!(sum_of(&sums(&disk)), Some(5));
}
