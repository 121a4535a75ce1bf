//! The first open of a database, cut off at each of its calls (I2), and folders that are not this database's (I1), on a
//! simulated disk.

use ensile_sim::Fault;

use crate::prelude::*;

fn linked() -> LogConfig {
    LogConfig { folders: vec!["/a".into(), "/b".into()], checkpointers: 1, ..config(2) }
}

fn open(disk: &SimDisk, config: LogConfig) -> Result<Rig, DurabilityError> {
    Rig::open(Arc::new(disk.mounted()), config, Clock::manual())
}

/// Commits a row, makes it durable, and finds it after a crash.
fn works(disk: &SimDisk, config: LogConfig, when: &str) {
    let rig = open(disk, config.clone()).unwrap_or_else(|why| panic!("{when}: {why}"));
    assert!(rig.rows.is_empty(), "{when}: nothing was ever committed");
    rig.commit_epoch(&mut rig.worker(), 1, b"one");
    drop(rig);
    disk.crash_with(Survival::Nothing, 1);
    assert_eq!(open(disk, config).unwrap_or_else(|why| panic!("{when}: {why}")).rows.len(), 1, "{when}");
}

#[test]
fn i2_a_first_open_that_is_cut_off_at_any_call_is_finished_by_the_next() {
    for (config, cannot_lock) in [(config(1), false), (linked(), false), (linked(), true)] {
        let whole = SimDisk::new();
        whole.set_no_folder_locks(cannot_lock);
        drop(open(&whole, config.clone()).expect("opens"));
        let calls = whole.calls().all;
        assert!(calls > 20, "{calls}");
        for call in 1..=calls {
            for survival in Survival::ALL {
                let disk = SimDisk::new();
                disk.set_no_folder_locks(cannot_lock);
                disk.cut_power_at(call);
                let opened = open(&disk, config.clone()).map(drop);
                assert!(disk.is_without_power(), "call {call}: {opened:?}");
                disk.crash_with(survival, call);
                works(&disk, config.clone(), &format!("cut off at call {call}, {survival:?}"));
            }
        }
    }
}

#[test]
fn i2_a_first_open_whose_call_fails_says_so_and_the_next_one_works() {
    // With a folder for checkpoints too: nothing is written to it, or synced, before there is one.
    for config in [config(1), linked()] {
        let whole = SimDisk::new();
        drop(open(&whole, config.clone()).expect("opens"));
        for call in 1..=whole.calls().all {
            for fault in [Fault::INPUT_OUTPUT, Fault::INPUT_OUTPUT.after_percent(100), Fault::NO_SPACE] {
                let disk = SimDisk::new();
                disk.fail_calls(call..=call, fault);
                let _ = open(&disk, config.clone()).map(drop);
                disk.heal();
                disk.kill();
                works(&disk, config.clone(), &format!("call {call} failed"));
            }
        }
    }
}

#[test]
fn i2_a_database_whose_making_was_cut_short_is_none_to_open_existing_and_new_to_create_new() {
    let whole = SimDisk::new();
    whole.keep_moments();
    drop(open(&whole, config(1)).expect("opens"));
    let mut seen = 0;
    for moment in whole.take_moments() {
        moment.disk.crash_with(Survival::Everything, 1);
        let text = moment.disk.files().contains(&"MANIFEST".to_owned());
        let text = if text { moment.disk.bytes("MANIFEST") } else { Vec::new() };
        if String::from_utf8_lossy(&text).contains("state created") {
            continue;
        }
        seen += 1;
        let existing = LogConfig { opening: Opening::Existing, ..config(1) };
        let refused = open(&moment.disk.fork(), existing).map(drop);
        assert!(matches!(refused, Err(DurabilityError::NoDatabase { .. })), "{refused:?}");
        let new = LogConfig { opening: Opening::New, ..config(1) };
        drop(open(&moment.disk, new).expect("it is new"));
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn i2_a_manifest_of_a_database_that_is_being_made_beside_its_hint_is_an_older_one() {
    let disk = SimDisk::new();
    disk.keep_moments();
    let rig = open(&disk, config(1)).expect("opens");
    rig.commit_epoch(&mut rig.worker(), 1, b"one");
    drop(rig);
    let creating = disk
        .take_moments()
        .into_iter()
        .map(|moment| moment.disk)
        .find(|disk| disk.files().contains(&"MANIFEST".to_owned()));
    disk.kill();
    disk.put("MANIFEST", creating.expect("it was there once").bytes("MANIFEST"));
    let refused = open(&disk, config(1)).map(drop);
    assert!(
        matches!(&refused, Err(DurabilityError::Damaged { file, .. }) if file == "MANIFEST"),
        "{refused:?}"
    );
}

#[test]
fn i1_an_adoption_that_is_cut_off_at_any_call_leaves_the_copy_or_the_adopted_database() {
    let disk = SimDisk::new();
    let rig = open(&disk, config(2)).expect("opens");
    rig.commit_epoch(&mut rig.worker(), 1, b"one");
    drop(rig);
    disk.kill();
    let adopted = disk.fork();
    let before = adopted.calls().all;
    adopt(&handle(adopted.mounted())).expect("adopts");
    let calls = adopted.calls().all;
    for call in before + 1..=calls {
        for survival in Survival::ALL {
            let disk = disk.fork();
            disk.cut_power_at(call);
            assert!(adopt(&handle(disk.mounted())).is_err() || call == calls, "call {call}");
            disk.crash_with(survival, call);
            assert_eq!(open(&disk, config(2)).expect("one or the other").rows.len(), 1, "call {call}");
            disk.kill();
            adopt(&handle(disk.mounted())).expect("once more");
            assert_eq!(open(&disk, config(2)).expect("adopted").rows.len(), 1, "call {call}");
        }
    }
}
