//! A close that panics: nothing goes on behind it. A close in a call-back, and figures in a forked child: nothing
//! hangs.
#![expect(clippy::disallowed_methods, reason = "tests start threads that may hang")]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_durability::Health;
use ensile_sim::SimDisk;

use crate::testing::{Calling, Calls, decode_number, encode_number};
use crate::{CodecResult, Objects, ObjectsBuilder, ObjectsError, ObjectsResult, Persistent};

struct Counter(u64);

impl Persistent for Counter {
    type Operation = u64;
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(object: &mut Option<Self>, by: &u64) -> u64 {
        let counter = object.get_or_insert(Self(0));
        counter.0 += by;
        counter.0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Self::encode_operation(&self.0, out);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        Self::decode_operation(1, bytes).map(Self)
    }

    fn encode_operation(by: &u64, out: &mut Vec<u8>) {
        encode_number(*by, out);
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        decode_number(bytes)
    }
}

#[test]
fn a_close_that_panics_ends_the_threads_and_gives_the_folder_back() {
    let disk = SimDisk::new();
    let open = || -> Objects<u64, Counter> {
        ObjectsBuilder::new("unused").disk(Arc::new(disk.mounted())).open().expect("opens")
    };
    let counters = open();
    counters.submit(1, &5).expect("logs").1.durable().expect("is durable");
    let panics = || counters.runtime.close_by(|| std::panic::resume_unwind(Box::new("a bug")));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert!(counters.runtime.threads.have_ended(), "the close has waited for all of them");
    assert!(counters.update(1, &5).is_err());
    let error = counters.close().expect_err("it does not panic again");
    assert!(matches!(error, ObjectsError::Storage(_)) && error.to_string().contains("panicked"), "{error}");
    drop(counters);
    let again = open();
    assert_eq!(again.update(1, &1).expect("logs"), 6, "what was durable is there");
    again.close().expect("closes");
}

#[test]
fn changes_that_the_log_refuses_take_no_worker_each_and_leave_no_object() {
    let disk = SimDisk::new();
    let counters: Objects<u64, Counter> =
        ObjectsBuilder::new("refusing").disk(Arc::new(disk.mounted())).open().expect("opens");
    counters.update(1, &1).expect("is durable");
    disk.fail_all_syncs(true);
    counters.update(1, &1).expect_err("its sync fails, and the log ends");
    let figures = || (counters.runtime.epochs.registered_counts().0, counters.stats().objects);
    let before = figures();
    for key in 0..1000 {
        counters.submit(key, &1).expect_err("the log has ended");
        counters.put(key, Counter(1)).expect_err("the log has ended");
        let allowed = counters.update_if(key, &1, |_| Ok::<(), ()>(()));
        allowed.expect_err("the log has ended");
    }
    assert_eq!(figures(), before);
    counters.close().expect_err("not everything is durable");
}

/// A test that waits for longer hangs.
const HANG: Duration = Duration::from_secs(600);

fn is_in_call_back(closed: &ObjectsResult<()>) -> bool {
    matches!(closed, Err(ObjectsError::InCallBack))
}

/// Calls this as a waker.
struct CallAsWaker<F>(F);

impl<F: Fn() + Send + Sync> Wake for CallAsWaker<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Logs, and has `call` called as a waker once that is durable.
fn call_when_durable(counters: &Objects<u64, Counter>, call: impl Fn() + Send + Sync + 'static) {
    let waker = Waker::from(Arc::new(CallAsWaker(call)));
    loop {
        let mut durable = counters.submit(1, &1).expect("logs").1.durable_async();
        if Pin::new(&mut durable).poll(&mut Context::from_waker(&waker)).is_pending() {
            // A future that is dropped takes its waker back.
            std::mem::forget(durable);
            return;
        }
    }
}

#[test]
fn o8_a_waker_that_closes_while_another_thread_closes_is_refused_and_both_end() {
    let disk = SimDisk::new();
    let counters: Arc<Objects<u64, Counter>> =
        Arc::new(ObjectsBuilder::new("closing").disk(Arc::new(disk.mounted())).open().expect("opens"));
    let ((begin, begun), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let its = Arc::clone(&counters);
    call_when_durable(&counters, move || {
        begin.send(()).expect("the other thread waits for it");
        // Until the other thread is in its close.
        while its.runtime.closed.try_lock().is_some() {
            std::thread::yield_now();
        }
        tell.send(its.close()).expect("the test waits for it");
    });
    let its = Arc::clone(&counters);
    let (tell_closed, closed) = mpsc::channel();
    std::thread::spawn(move || {
        begun.recv().expect("it is called");
        tell_closed.send(its.close()).expect("the test waits for it");
    });
    let refused = told.recv_timeout(HANG).expect("O8: the waker waits for the close that waits for it");
    assert!(is_in_call_back(&refused), "{refused:?}");
    closed.recv_timeout(HANG).expect("O8: it ends").expect("closes");
    counters.close().expect("it is closed");
}

#[test]
fn o8_a_waker_that_a_close_calls_is_refused_and_one_that_is_the_first_closes() {
    for is_first in [false, true] {
        let disk = SimDisk::new();
        let clock = Clock::manual();
        let counters: Arc<Objects<u64, Counter>> = Arc::new(
            ObjectsBuilder::new("closing")
                .disk(Arc::new(disk.mounted()))
                .manual_clock(clock.clone())
                .without_threads()
                .open()
                .expect("opens"),
        );
        let (tell, told) = mpsc::channel();
        let its = Arc::clone(&counters);
        call_when_durable(&counters, move || tell.send(its.close()).expect("the test waits for it"));
        let closes = std::thread::spawn(move || {
            if is_first {
                for _ in 0..100 {
                    clock.advance(Duration::from_millis(50));
                    counters.heartbeat_step();
                    counters.logger_step(0);
                }
            }
            counters.close()
        });
        let in_waker = told.recv_timeout(HANG).expect("O8: the waker waits for the close below it");
        if is_first {
            in_waker.expect("nobody else closes");
        } else {
            assert!(is_in_call_back(&in_waker), "{in_waker:?}");
        }
        closes.join().expect("no panic").expect("closes");
    }
}

type Call = Box<dyn Fn() + Send + Sync>;

/// Calls what is set for its number whenever an object is encoded.
struct WhenEncoded<const NUMBER: usize>;

type CallWhenEncoded<const NUMBER: usize> = Calling<WhenEncoded<NUMBER>>;

static CALLS: [OnceLock<Call>; 4] = [const { OnceLock::new() }; 4];

impl<const NUMBER: usize> Calls for WhenEncoded<NUMBER> {
    fn on_encode() {
        if let Some(call) = CALLS[NUMBER].get() {
            call();
        }
    }
}

#[test]
fn o8_a_checkpoints_call_back_that_closes_is_refused() {
    let disk = SimDisk::new();
    let closers: Arc<Objects<u64, CallWhenEncoded<3>>> =
        Arc::new(ObjectsBuilder::new("closing").disk(Arc::new(disk.mounted())).open().expect("opens"));
    let closed = Arc::new(Mutex::new(Vec::new()));
    let (its, is_closed) = (Arc::clone(&closers), Arc::clone(&closed));
    let close: Call = Box::new(move || is_closed.lock().expect("no panic").push(its.close()));
    assert!(CALLS[3].set(close).is_ok(), "it is set once");
    closers.update(1, &1).expect("logs");
    let (its, (tell, told)) = (Arc::clone(&closers), mpsc::channel());
    std::thread::spawn(move || tell.send(its.checkpoint().wait()).expect("the test waits for it"));
    told.recv_timeout(HANG).expect("O8: the close waits for the step that it is in").expect("a checkpoint");
    let closed = std::mem::take(&mut *closed.lock().expect("no panic"));
    assert!(!closed.is_empty() && closed.iter().all(is_in_call_back), "{closed:?}");
    closers.close().expect("closes");
}

/// Takes each step of a checkpoint that is asked for, until `done`.
fn checkpoint<const NUMBER: usize>(
    objects: &Objects<u64, CallWhenEncoded<NUMBER>>,
    clock: &Clock,
    done: impl Fn() -> bool,
) {
    drop(objects.checkpoint());
    for _ in 0..10_000 {
        if done() {
            return;
        }
        clock.advance(Duration::from_millis(50));
        objects.heartbeat_step();
        objects.logger_step(0);
        objects.checkpoint_step(0);
    }
    panic!("no object was encoded");
}

fn open_without_threads<const NUMBER: usize>() -> (Arc<Objects<u64, CallWhenEncoded<NUMBER>>>, Clock) {
    let clock = Clock::manual();
    let objects = ObjectsBuilder::new("closing")
        .disk(Arc::new(SimDisk::new().mounted()))
        .manual_clock(clock.clone())
        .without_threads()
        .open()
        .expect("opens");
    objects.submit(1, &1).expect("logs");
    (Arc::new(objects), clock)
}

#[test]
fn o8_a_checkpoints_call_back_that_waits_for_a_checkpoint_is_refused() {
    let (objects, clock) = open_without_threads::<2>();
    let waited = Arc::new(Mutex::new(Vec::new()));
    let (its, told) = (Arc::clone(&objects), Arc::clone(&waited));
    let wait: Call = Box::new(move || told.lock().expect("no panic").push(its.checkpoint().wait()));
    assert!(CALLS[2].set(wait).is_ok());
    let (tell, told) = mpsc::channel();
    let is_called = {
        let waited = Arc::clone(&waited);
        move || !waited.lock().expect("no panic").is_empty()
    };
    std::thread::spawn(move || {
        checkpoint(&objects, &clock, is_called);
        tell.send(objects.close()).expect("the test waits for it");
    });
    told.recv_timeout(HANG).expect("O8: it waits for the step that it is in").expect("closes");
    let waited = std::mem::take(&mut *waited.lock().expect("no panic"));
    assert!(waited.iter().all(|waited| matches!(waited, Err(ObjectsError::InCallBack))), "{waited:?}");
}

/// An operation calls what is set for its number.
struct WhenApplied;

type CallWhenApplied = Calling<WhenApplied>;

static WHEN_APPLIED: [OnceLock<Call>; 2] = [const { OnceLock::new() }; 2];

impl Calls for WhenApplied {
    fn on_apply(number: u64) {
        if let Some(call) = WHEN_APPLIED[number as usize].get() {
            call();
        }
    }
}

#[test]
fn o8_an_operation_that_closes_or_waits_for_a_checkpoint_is_refused() {
    let objects: Arc<Objects<u64, CallWhenApplied>> = Arc::new(
        ObjectsBuilder::new("closing").disk(Arc::new(SimDisk::new().mounted())).open().expect("opens"),
    );
    let ((tell, told), other) = (mpsc::channel(), open_without_threads::<1>().0);
    let its = Arc::clone(&objects);
    WHEN_APPLIED[1]
        .set(Box::new(move || {
            // Within a call of other objects, too.
            let within = other.look(&1, |_| its.close()).map(|(closed, _)| closed).and_then(|closed| closed);
            let waited = its.checkpoint().wait().map(drop);
            tell.send([its.close(), within, waited]).expect("the test waits for it");
        }))
        .ok()
        .expect("it is set once");
    let its = Arc::clone(&objects);
    let (tell_seen, seen) = mpsc::channel();
    std::thread::spawn(move || {
        its.update(1, &1).expect("logs");
        let looked = its.look(&1, |_| its.close()).expect("it is whole").0;
        let checked = its.update_if(1, &1, |_| Err::<(), _>(its.close())).expect("is asked");
        tell_seen.send([looked, checked.expect_err("it refuses")]).expect("the test waits for it");
    });
    let in_operation = told.recv_timeout(HANG).expect("O8: the checkpoint waits for the object");
    assert!(in_operation.iter().all(is_in_call_back), "{in_operation:?}");
    let under_lock = seen.recv_timeout(HANG).expect("O8: the close waits for the object");
    assert!(under_lock.iter().all(is_in_call_back), "{under_lock:?}");
    objects.checkpoint().wait().expect("a checkpoint, outside");
    objects.close().expect("closes");
}

/// Asserts that of two calls one is refused and the other succeeds.
fn assert_one_is_refused(results: &mpsc::Receiver<ObjectsResult<()>>) {
    let first = results.recv_timeout(HANG).expect("O8: each call waits for the other");
    assert!(is_in_call_back(&first), "{first:?}");
    let second = results.recv_timeout(HANG).expect("O8: the call waits for the refused one");
    assert!(second.is_ok(), "{second:?}");
}

#[test]
fn o8_of_wakers_of_two_logs_that_close_each_others_log_one_is_refused() {
    let open = || -> Arc<Objects<u64, Counter>> {
        Arc::new(
            ObjectsBuilder::new("closing").disk(Arc::new(SimDisk::new().mounted())).open().expect("opens"),
        )
    };
    let (first, second) = (open(), open());
    let (both, (tell, told)) = (Arc::new(Barrier::new(2)), mpsc::channel());
    for (own, other) in [(&first, &second), (&second, &first)] {
        let (other, both, tell) = (Arc::clone(other), Arc::clone(&both), tell.clone());
        call_when_durable(own, move || {
            both.wait();
            tell.send(other.close()).expect("the test waits for it");
        });
    }
    // Each close waits for the waker of the other log.
    assert_one_is_refused(&told);
    for objects in [first, second] {
        objects.close().expect("closes, or is closed");
    }
}

thread_local! {
    /// What the thread drops last of its own.
    static LAST_HANDLE: RefCell<Option<Objects<u64, Counter>>> = const { RefCell::new(None) };
}

#[test]
fn a_last_handle_that_goes_with_its_threads_values_closes_whole() {
    let disk = SimDisk::new();
    let open = || -> Objects<u64, Counter> {
        ObjectsBuilder::new("closing").disk(Arc::new(disk.mounted())).open().expect("opens")
    };
    let counters = open();
    let ended = std::thread::spawn(move || {
        // Before what the library keeps of this thread, which goes before it then.
        LAST_HANDLE.set(Some(counters));
        LAST_HANDLE.with_borrow(|counters| {
            let counters = counters.as_ref().expect("it was just put there");
            counters.submit(1, &5).expect("logs");
            counters.checkpoint().wait().expect("a checkpoint");
            counters.submit(1, &5).expect("logs");
            counters.look(&2, |_| ()).expect("it is not there");
        });
    });
    ended.join().expect("it ends without a panic");
    let again = open();
    assert_eq!(again.update(1, &1).expect("logs"), 11, "it was closed whole");
    again.close().expect("closes");
}

#[test]
fn i4_figures_in_a_child_wait_for_no_lock_that_its_parent_had() {
    let disk = SimDisk::new().mounted();
    let counters: Objects<u64, Counter> = ObjectsBuilder::new("figures")
        .disk(Arc::new(disk.clone()))
        .manual_clock(Clock::manual())
        .without_threads()
        .open()
        .expect("opens");
    counters.submit(1, &1).expect("logs");
    assert_eq!(counters.stats().objects, 1);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let child = disk.in_child();
        let stats = counters.while_locked(|| counters.stats());
        drop(child);
        tell.send((stats, counters.stats())).expect("the test waits for it");
    });
    let (stats, after) = told.recv_timeout(HANG).expect("I4: it waits for a lock that nobody lets go");
    assert_eq!((stats.objects, stats.log_health), (0, Health::Forked));
    assert_eq!((after.objects, after.log_health), (1, Health::Running));
}
