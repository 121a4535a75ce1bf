//! Checkpoints on a full or small disk, and beside long epochs: they take nothing that the log needs, and wait for
//! nothing that nobody brings.

use crate::prelude::*;

const VALUE_BYTES: usize = 4000;

fn one_checkpointer() -> CheckpointConfig {
    CheckpointConfig { checkpointers: 1, files: 1, ..settings() }
}

/// Rows that make a checkpoint of about `KEYS` times four kilobytes.
fn filled(disk: &SimDisk) -> Life {
    let (life, mut worker) = Life::with_worker(disk, 1, one_checkpointer());
    life.commit_epochs(&mut worker, 0..KEYS, &[1; VALUE_BYTES]);
    life
}

fn parts(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("checkpoint") && !name.ends_with("FOLDER")).collect()
}

#[test]
fn a_checkpoint_closes_the_epochs_that_it_waits_for() {
    let disk = SimDisk::new();
    let life = filled(&disk);
    let handle = life.checkpoints.demand();
    let before = life.rig.epochs.now();
    for _ in 0..1000 {
        // Time passes, and no heartbeat ends an epoch.
        life.rig.clock.advance(Duration::from_millis(1));
        life.step(0);
        life.rig.step_all();
    }
    handle.outcome().expect("it ends").expect("it is installed");
    let closed = life.rig.epochs.now().number() - before.number();
    assert!((2..=4).contains(&closed), "{closed} epochs were closed");
}

#[test]
fn a_checkpoint_that_does_not_fit_is_not_begun_says_so_and_is_made_once_there_is_space() {
    let disk = SimDisk::new();
    let life = filled(&disk);
    let first = life.checkpoint().expect("there is space");
    let files = parts(&disk);
    disk.set_capacity(Some(disk.used_bytes() + first.bytes / 2));
    let written = life.checkpoints.stats().bytes;
    for _ in 0..3 {
        let Err(DurabilityError::CheckpointFailed(why)) = life.checkpoint() else {
            panic!("it does not fit")
        };
        assert!(why.contains("free some space"), "{why}");
        // The text has a size and a place.
        assert!(why.contains(" bytes or more in /disk") && !why.contains(" takes 0 bytes"), "{why}");
        assert!(life.checkpoints.misfit().is_some_and(|said| said == *why));
    }
    assert_eq!((life.checkpoints.stats().bytes, parts(&disk)), (written, files), "nothing was written");
    assert_eq!(life.rig.log.health(), Health::Running);
    disk.set_capacity(None);
    life.checkpoint().expect("there is space");
    assert_eq!(life.checkpoints.misfit(), None);
    life.end();
}

#[test]
fn an_attempt_gives_up_before_it_takes_what_is_left_to_the_log() {
    let disk = SimDisk::new();
    let life = filled(&disk);
    let mut worker = life.rig.worker();
    // Nobody knows how large the first one will be.
    let free = KEYS * VALUE_BYTES as u64 / 2;
    let before = disk.used_bytes();
    disk.set_capacity(Some(before + free));
    let handle = life.checkpoints.demand();
    let mut least = free;
    let outcome = loop {
        if let Some(outcome) = handle.outcome() {
            break outcome;
        }
        life.step(0);
        least = least.min(before + free - disk.used_bytes());
        life.commit_epoch(&mut worker, 1, Some(b"small"));
        assert_eq!(life.rig.log.health(), Health::Running, "a writer was refused because of a checkpoint");
    };
    let Err(DurabilityError::CheckpointFailed(why)) = outcome else { panic!("it does not fit: {outcome:?}") };
    assert!(why.contains("does not fit"), "{why}");
    assert!(least > 0 && parts(&disk).is_empty(), "{least} bytes were free; {:?}", disk.files());
    let again = life.checkpoint();
    assert!(matches!(again, Err(DurabilityError::CheckpointFailed(_))), "{again:?}");
    assert!(life.checkpoints.misfit().is_some(), "what the first attempt wrote is known to be too much");
    disk.set_capacity(None);
    life.checkpoint().expect("there is space");
    drop(worker);
    life.end();
}

#[test]
fn l6_epochs_are_reserved_beside_a_checkpoint_that_takes_long() {
    let disk = SimDisk::new();
    let config = CheckpointConfig { checkpointers: 1, files: 1, bandwidth: Some(1000), ..settings() };
    let (life, mut worker) = Life::with_worker(&disk, 1, config);
    life.commit_epochs(&mut worker, 0..KEYS, &[1; 8000]);
    let _handle = life.checkpoints.demand();
    for _ in 0..50 {
        life.rig.clock.advance(Duration::from_millis(1));
        life.step(0);
        life.rig.step_all();
    }
    assert!(life.checkpoints.stats().running.is_some(), "it is paced, and under way");
    // More than a day's epochs at the usual rate, as fast as a strict client can close them.
    for _ in 0..2_300 {
        for _ in 0..1_000 {
            life.rig.clock.advance(Duration::from_micros(50));
            life.rig.epochs.try_advance(life.rig.clock.nanos());
        }
        life.step(0);
        life.rig.step_all();
        life.rig.log.hint_step();
        assert_eq!(life.rig.log.health(), Health::Running, "in epoch {}", life.rig.epochs.now());
    }
}
