//! How checkpoints end: nobody waits for ever, nothing is changed on disk after a close.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use crate::prelude::*;

/// Ends the epoch and steps everything, `times` times.
fn run(life: &Life, times: usize) {
    for _ in 0..times {
        life.step_all();
    }
}

/// A walk whose first look at the state waits until it is told to go on.
struct HeldWalk {
    begun: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Walk for HeldWalk {
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        self.begun.send(()).expect("somebody waits");
        self.go_on.lock().expect("no panic").recv().expect("somebody says so");
        vec![Vec::new(); parts]
    }

    fn walk(&self, _: &Slice, _: &mut Vec<u8>, _: Epoch, _: &mut CheckpointBlock) -> bool {
        unreachable!("no slices")
    }
}

#[test]
fn close_waits_for_a_step_under_way_though_another_checkpointer_saw_the_log_stop() {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    life.commit(&mut worker, 1, Some(b"one"));
    let _demand = life.checkpoints.demand();
    assert_eq!(life.step(0), CheckpointStep::Worked);
    life.rig.settle();
    let (begun, has_begun) = mpsc::channel();
    let (say, told) = mpsc::channel();
    let held = HeldWalk { begun, go_on: Mutex::new(told) };
    let (closed, has_closed) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| life.checkpoints.step(0, &held));
        has_begun.recv().expect("the step begins");
        // The log fails, and the other checkpointer ends all checkpoints.
        life.commit(&mut worker, 2, Some(b"two"));
        disk.fail_all_syncs(true);
        life.rig.settle();
        assert!(matches!(life.rig.log.health(), Health::Poisoned(_)));
        assert_eq!(life.step(1), CheckpointStep::Stopped);
        scope.spawn(|| {
            life.checkpoints.close(&life.store);
            closed.send(()).expect("somebody waits");
        });
        let too_early = has_closed.recv_timeout(Duration::from_millis(100));
        say.send(()).expect("it waits");
        assert!(too_early.is_err(), "it closed while a step was under way");
        has_closed.recv().expect("it closes");
    });
}

#[test]
fn a_checkpoint_beside_a_stopped_log_says_why_and_to_open_again() {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    let asked_before = life.checkpoints.demand();
    assert_eq!(life.step(0), CheckpointStep::Worked);
    life.commit(&mut worker, 1, Some(b"one"));
    disk.fail_all_syncs(true);
    life.rig.settle();
    assert_eq!(life.step(0), CheckpointStep::Stopped);
    for handle in [asked_before, life.checkpoints.demand()] {
        let error = handle.outcome().expect("an answer").expect_err("the log has stopped");
        let said = error.to_string();
        assert!(matches!(error, DurabilityError::Stopped(_)), "{error:?}");
        assert!(said.contains("log0/log-1-0") && said.contains("open the database again"), "{said}");
    }
}

#[test]
fn a_checkpoint_that_waits_for_a_full_log_gives_back_the_space_that_the_log_waits_for() {
    let (disk, life, mut worker) =
        Life::first_with_worker(1, CheckpointConfig { checkpointers: 1, ..settings() });
    life.commit_epochs(&mut worker, 0..40, &[1; 400]);
    let demanded = life.checkpoints.demand();
    // The walk takes what is left of the disk; then the log needs more.
    for _ in 0..100 {
        life.step(0);
        life.rig.advance();
    }
    assert!(demanded.outcome().is_none(), "no mark of e_h stands yet");
    disk.set_capacity(Some(disk.used_bytes()));
    life.commit_epoch(&mut worker, 1, Some(&[2; 8000]));
    assert!(matches!(life.rig.log.health(), Health::Full(_)));
    run(&life, 100);
    assert_eq!(life.rig.log.health(), Health::Running);
}

/// A state that cannot take a checkpoint.
struct Panics;

impl Recoverable for Panics {
    fn replay(&self, _: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _: u32, _: &[Entry<'_>]) -> Result<(), Refused> {
        panic!("out of place")
    }
}

#[test]
fn a_thread_that_panics_while_it_loads_keeps_no_other_one_waiting() {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    (0..20).for_each(|key| _ = life.commit(&mut worker, key, Some(b"value")));
    life.rig.settle();
    life.checkpoint().expect("installs");
    drop((worker, life));
    disk.crash(1);
    let recovery = Recovery::open(Arc::new(disk.clone()), config(1)).expect("reads");
    let first = catch_unwind(AssertUnwindSafe(|| recovery.load_step(&Panics)));
    assert!(first.is_err(), "it panics");
    let store = Store::default();
    // A file that nobody will ever end must not be waited for: this would never return.
    while recovery.replay_step(&store).expect("loads") {}
    assert!(recovery.finish(&store).is_err(), "what was not loaded is not finished");
}
