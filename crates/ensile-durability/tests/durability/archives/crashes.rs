//! Power fails at every call of lives with an archive: whatever was removed is in it, and the next life goes on (A1,
//! A3).

use super::rig::*;
use crate::prelude::*;

/// Three lives: one is closed, one ends in the midst of it. Ends early where power fails.
fn live(disk: &SimDisk, loggers: usize, settings: &CheckpointConfig) {
    for life in 0..3 {
        let Ok(open) = open(disk, loggers, settings.clone()) else { return };
        let mut worker = open.rig.worker();
        if !write(&open, &mut worker, 0..9) {
            return;
        }
        if open.checkpoint().is_err() || !write(&open, &mut worker, 20..26) {
            return;
        }
        if life == 1 {
            drop(open);
            disk.kill();
        } else {
            open.checkpoints.close(&open.store);
            if open.rig.log.close().is_err() {
                return;
            }
        }
    }
}

fn cut_power_everywhere(loggers: usize, settings: &CheckpointConfig) {
    let whole = disk_with_archive();
    live(&whole, loggers, settings);
    let calls = whole.calls().all;
    assert!(calls > 300, "{calls}");
    for call in 1..=calls {
        let disk = disk_with_archive();
        disk.cut_power_at(call);
        live(&disk, loggers, settings);
        disk.crash(call);
        let life = open(&disk, loggers, settings.clone())
            .unwrap_or_else(|error| panic!("power failed at call {call}: {error}"));
        let mut worker = life.rig.worker();
        assert!(write(&life, &mut worker, 40..46));
        life.checkpoint().unwrap_or_else(|error| panic!("power failed at call {call}: {error}"));
        let_archive(&life);
        assert_eq!(life.rig.log.archive_error(), None, "power failed at call {call}");
        assert_whole(&disk, close(&life));
    }
}

#[test]
fn a1_power_fails_at_every_call_of_lives_with_fuzzy_checkpoints() {
    cut_power_everywhere(2, &settings());
}

#[test]
fn a1_power_fails_at_every_call_of_lives_with_pictures() {
    cut_power_everywhere(1, &pictures());
}

#[test]
fn a1_a_kill_at_every_call_leaves_names_that_are_synced_before_their_files_go() {
    // The process ends, and the next one finds names that the cache has; then the power fails.
    let whole = disk_with_archive();
    live(&whole, 1, &settings());
    for call in 1..=whole.calls().all {
        let disk = disk_with_archive();
        disk.cut_power_at(call);
        live(&disk, 1, &settings());
        disk.heal();
        disk.kill();
        let life =
            open(&disk, 1, settings()).unwrap_or_else(|error| panic!("killed at call {call}: {error}"));
        let_archive(&life);
        // What it covers goes, with the names that were found.
        life.checkpoint().unwrap_or_else(|error| panic!("killed at call {call}: {error}"));
        drop(life);
        disk.crash_with(ensile_sim::Survival::Nothing, call);
        let life =
            open(&disk, 1, settings()).unwrap_or_else(|error| panic!("killed at call {call}: {error}"));
        assert_whole(&disk, close(&life));
    }
}
