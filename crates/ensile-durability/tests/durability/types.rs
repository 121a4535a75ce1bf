//! The types of a folder's entries (I6): kills at any moment, and copies.
//!
//! Comparisons are tested beside `files::manifest::types`, collections with types in `ensile-objects`. Shipped types
//! are in `shipping`.

use crate::prelude::*;

/// Types of a program whose objects are of this version and name.
fn of(version: u16, name: &str) -> LogConfig {
    let entry_type = EntryType::new(TypeRole::Object, version, name, Some(version.into()));
    let types = StatedTypes::new([StatedType { entry_type, former_names: Vec::new() }]);
    LogConfig { types, segment_bytes: 4096, ..config(1) }
}

/// Versions and names that the manifest has; none without a manifest.
fn typed(disk: &SimDisk) -> Vec<String> {
    if !disk.files().iter().any(|file| file == "MANIFEST") {
        return Vec::new();
    }
    let text = String::from_utf8(disk.bytes("MANIFEST")).expect("text");
    let line = |line: &str| {
        let (version, rest) = line.strip_prefix("type object version ")?.split_once(' ')?;
        Some(format!("{version} {}", rest.rsplit_once(' ').expect("a name").1))
    };
    text.lines().filter_map(line).collect()
}

/// A life that commits, makes a checkpoint if told to, and closes; it may fail on the way.
fn live(disk: &SimDisk, config: LogConfig, makes_checkpoint: bool) -> Result<(), DurabilityError> {
    let life = Life::open_with(disk, config, settings())?;
    let mut worker = life.rig.worker();
    for key in 0..5 {
        worker.commit(&life.rig.epochs, key, &[1; 500])?;
        life.rig.settle();
    }
    if makes_checkpoint {
        life.checkpoint()?;
    }
    life.rig.log.close()
}

/// Folder with entries of version 1.
fn first() -> SimDisk {
    let disk = SimDisk::new();
    live(&disk, of(1, "Count"), true).expect("lives");
    assert_eq!(typed(&disk), ["1 Count"]);
    disk
}

#[test]
fn i6_a_kill_at_any_moment_leaves_the_types_before_or_after_and_the_program_opens() {
    let states: [&[&str]; 3] = [&["1 Count"], &["1 Count", "2 Tally"], &["2 Tally"]];
    let calls = {
        let disk = first();
        let before = disk.calls().all;
        live(&disk, of(2, "Tally"), true).expect("lives");
        disk.calls().all - before
    };
    let mut seen = [false; 3];
    for call in 1..=calls {
        let disk = first();
        disk.cut_power_at(disk.calls().all + call);
        let _ = live(&disk, of(2, "Tally"), true);
        disk.crash(call);
        disk.heal();
        let found = typed(&disk);
        let state = states.iter().position(|state| found == *state);
        seen[state.unwrap_or_else(|| panic!("call {call}: {found:?}"))] = true;
        let other = live(&disk, of(2, "Other"), false);
        assert_eq!(other.is_err(), state != Some(0), "call {call}");
        if other.is_err() {
            live(&disk, of(2, "Tally"), false).expect("is its own");
        }
    }
    assert_eq!(seen, [true; 3], "each state is on the way");
}

#[test]
fn i6_a_kill_of_the_first_open_leaves_a_folder_for_any_types_or_for_these() {
    let calls = {
        let disk = SimDisk::new();
        drop(Life::open_with(&disk, of(1, "Count"), settings()).expect("opens"));
        disk.calls().all
    };
    let mut is_typed_at_last = false;
    for call in 1..=calls {
        let disk = SimDisk::new();
        disk.cut_power_at(call);
        let _ = Life::open_with(&disk, of(1, "Count"), settings()).map(drop);
        disk.crash(call);
        disk.heal();
        let is_typed = typed(&disk) == ["1 Count"];
        is_typed_at_last |= is_typed;
        assert_eq!(live(&disk, of(1, "Other"), false).is_err(), is_typed, "call {call}");
    }
    assert!(is_typed_at_last, "some crash comes behind the manifest that has the types");
}

#[test]
fn i6_an_adopted_copy_and_a_repaired_folder_keep_the_types() {
    let (machine, disk) = machine_with_original();
    for _ in 0..2 {
        live(&disk, of(1, "Count"), false).expect("lives");
    }
    machine.copy_tree("original", "copy");
    let copy = machine.at("copy");
    adopt(&on(&copy)).expect("is adopted");
    assert!(matches!(live(&copy, of(1, "Other"), false), Err(DurabilityError::OtherType(_))));
    live(&copy, of(1, "Count"), false).expect("is its own");

    let log = disk.files().into_iter().rfind(|file| file.contains("log0/log-2")).expect("a log");
    disk.flip(&log, disk.bytes(&log).len() as u64 / 2, 4);
    let found = examine(&on(&disk), &Map::default()).expect("is read");
    assert_eq!((found.types.len(), found.is_whole()), (1, false));
    repair(&on(&disk), &Map::default()).expect("is cut").expect("it was damaged");
    assert!(matches!(live(&disk, of(1, "Other"), false), Err(DurabilityError::OtherType(_))));
    live(&disk, of(1, "Count"), false).expect("is its own");
}

/// All steps of a copy.
fn run(mut copy: CopyRun) {
    while !matches!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Ended(_)) {}
}

#[test]
fn i6_a_backup_and_what_is_restored_from_it_keep_the_types() {
    for settings in [settings(), pictures()] {
        let disk = SimDisk::new();
        let life = Life::open_with(&disk.at("data"), of(1, "Count"), settings).expect("opens");
        let mut worker = life.rig.worker();
        life.commit_epochs(&mut worker, 0..20, &[1; 500]);
        life.checkpoint().expect("is installed");
        let at = |folder: &str| on(&disk.at(folder));
        run(backup(&at("data"), &at("backup"), CopyOptions::default()).expect("begins"));
        run(restore(&at("backup"), &at("restored"), None, None).expect("begins"));
        for folder in ["backup", "restored"] {
            assert_eq!(typed(&disk.at(folder)), ["1 Count"]);
        }
    }
}
