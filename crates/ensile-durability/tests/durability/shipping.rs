//! Databases that ship their finished files to a shared store, and machines that take over from it, on the simulated
//! disk.

mod busy;
mod crashes;
mod faults;
mod fenced;
mod object_stores;
mod published;
mod resumed;
mod rig;
mod stores;

use rig::{Machine, SHARED, assert_taken_over, objects, shipping, taken_over};

use crate::prelude::*;

#[test]
fn what_is_shipped_is_a_state_that_another_machine_opens() {
    let (disk, mut machine) = Machine::first(2, settings());
    machine.write(0..40);
    let expected = machine.ship_all();
    let shipped = machine.shipper.stats();
    assert_eq!((shipped.term, &shipped.last_error, &shipped.fenced), (1, &None, &None));
    assert_eq!((shipped.waiting_files, shipped.waiting_bytes), (0, 0));
    let report = taken_over(&disk, "b").expect("takes over");
    assert_eq!((report.epoch, report.term), (shipped.shipped_epoch, 2));
    let other = Machine::open(&disk, "b", 2, settings());
    assert_eq!(other.found(), expected);
    assert!(other.life.rig.report.first_epoch > report.epoch);
}

#[test]
fn i5_what_is_shipped_and_taken_over_keeps_the_name_of_its_application() {
    let named = |name: &str| {
        let naming = Naming::Named(application_name(name).expect("a name"));
        LogConfig { naming, ..rig::shipping_log(2, false) }
    };
    let life =
        |disk: &SimDisk, folder: &str, name: &str| Life::open_with(&disk.at(folder), named(name), settings());
    let (disk, mut machine) = Machine::first(2, settings());
    machine.write(0..10);
    machine.ship_all();
    let text = rig::newest_manifest(&disk);
    assert!(!text.contains("application "), "{text}");
    machine.life.rig.log.close().expect("closes");
    drop(machine);
    // It gets a name, which the store has with its next manifest, whatever else that says.
    let named_life = life(&disk, "a", "prices").expect("gets its name");
    named_life.rig.log.close().expect("closes");
    drop(named_life);
    let mut machine = Machine::open(&disk, "a", 2, settings());
    machine.ship_all();
    let text = rig::newest_manifest(&disk);
    assert!(text.contains("\napplication prices\n"), "{text}");
    for (from, folder) in [("a", "b"), ("b", "c")] {
        taken_over(&disk, folder).unwrap_or_else(|error| panic!("from {from}: {error}"));
        let text = rig::newest_manifest(&disk);
        assert!(text.contains("\napplication prices\n"), "{text}");
        let refused = life(&disk, folder, "stock").map(drop).expect_err("is of another one").to_string();
        assert!(refused.contains("is the folder of \"prices\""), "{refused}");
    }
    drop(life(&disk, "c", "prices").expect("is its own"));
}

#[test]
fn i6_what_is_shipped_and_taken_over_keeps_the_types_of_its_entries() {
    let of = |name: &str| {
        let entry_type = EntryType::new(TypeRole::Object, 1, name, None);
        let types = StatedTypes::new([StatedType { entry_type, former_names: Vec::new() }]);
        LogConfig { types, ..rig::shipping_log(2, false) }
    };
    let life =
        |disk: &SimDisk, folder: &str, name: &str| Life::open_with(&disk.at(folder), of(name), settings());
    let disk = SimDisk::new();
    let typed = life(&disk, "a", "Count").expect("is new");
    typed.rig.log.close().expect("closes");
    drop(typed);
    let mut machine = Machine::open(&disk, "a", 2, settings());
    machine.write(0..10);
    machine.ship_all();
    for folder in ["b", "c"] {
        let text = rig::newest_manifest(&disk);
        assert!(text.contains("\ntype object version 1 fingerprint none name Count\n"), "{text}");
        taken_over(&disk, folder).expect("takes over");
        let refused = life(&disk, folder, "Other").map(drop).expect_err("is another type");
        assert!(matches!(refused, DurabilityError::OtherType(_)), "{refused}");
    }
    drop(life(&disk, "c", "Count").expect("is its own"));
}

/// A folder that ships is named by somebody who has no way to its store.
#[test]
fn i5_a_name_that_is_not_shipped_yet_is_said_by_the_naming_and_by_the_take_over() {
    let name = |text: &str| application_name(text).expect("a name");
    let rename = |disk: &SimDisk, to: Option<&str>| {
        rename_application(&handle(disk.at("a").mounted()), EntryKind::Values, to.map(name))
            .expect("is named")
    };
    let (disk, mut machine) = Machine::first(2, settings());
    machine.write(0..10);
    machine.ship_all();
    machine.life.rig.log.close().expect("closes");
    drop(machine);
    let named = rename(&disk, Some("prices"));
    assert_eq!((named.before, named.is_to_be_shipped), (None, true));
    assert!(!rename(&disk, Some("prices")).is_to_be_shipped, "nothing was changed");
    // A take-over says which name it found.
    let taken = taken_over(&disk.fork(), "b").expect("takes over");
    assert_eq!(taken.application, None, "the name from before");
    // The next open ships it, though nothing is written.
    let mut machine = Machine::open(&disk, "a", 2, settings());
    machine.ship_all();
    machine.life.rig.log.close().expect("closes");
    drop(machine);
    let text = rig::newest_manifest(&disk);
    assert!(
        text.starts_with("ensile shared manifest 3\n") && text.contains("\napplication prices\n"),
        "{text}"
    );
    assert!(rename(&disk, Some("stock")).is_to_be_shipped);
    let taken = taken_over(&disk, "b").expect("takes over");
    assert_eq!(taken.application.as_deref(), Some("prices"), "the name from before");
    // One that is fenced, as it has learned, ships no name any more.
    let machine = Machine::open(&disk, "a", 2, settings());
    machine.step_after(3, Duration::from_secs(11));
    assert!(machine.shipper.stats().fenced.is_some());
    drop(machine);
    disk.at("a").kill();
    assert!(!rename(&disk, Some("prices")).is_to_be_shipped);
}

#[test]
fn a_checkpoint_is_shipped_and_the_log_before_it_goes() {
    let (disk, mut machine) = Machine::first(2, settings());
    machine.write(0..30);
    machine.ship_all();
    let before = objects(&disk).len();
    for round in 0..4 {
        machine.write(10 * round..10 * round + 30);
        machine.life.checkpoint().expect("is installed");
        machine.write(5..9);
        machine.ship_all();
    }
    let state = machine.ship_all();
    let text = rig::newest_manifest(&disk);
    assert!(text.contains("\ncheckpoint ") && text.contains("\npart "), "{text}");
    // What no manifest names goes once the grace has passed.
    machine.life.rig.clock.advance(Duration::from_secs(1000));
    machine.ship_all();
    machine.life.rig.clock.advance(Duration::from_secs(1000));
    machine.ship_all();
    let text = rig::newest_manifest(&disk);
    let left = objects(&disk);
    let named = left.iter().filter(|object| text.contains(&format!(" {object} "))).count();
    assert_eq!(named + 1, left.len(), "one manifest, and what it names: {left:?}");
    assert!(left.len() < 3 * before, "{left:?}");
    machine.end_taken_over(&disk, &state);
}

#[test]
fn ranges_are_shipped_turn_by_turn() {
    let (disk, mut machine) = Machine::first(1, cycling());
    for round in 0..6 {
        machine.write(round..round + 20);
        machine.life.turn();
        machine.ship_all();
    }
    let state = machine.ship_all();
    assert!(rig::newest_manifest(&disk).contains("\nranges "));
    machine.end(&disk);
    taken_over(&disk, "b").expect("takes over");
    assert_eq!(Machine::open(&disk, "b", 1, cycling()).found(), state);
}

#[test]
fn an_interrupted_shipping_goes_on_and_copies_nothing_twice() {
    let (disk, mut machine) = Machine::first(2, settings());
    machine.write(0..60);
    machine.life.checkpoint().expect("is installed");
    machine.write(0..20);
    // Every other life ends in the midst of it.
    let mut written = Vec::new();
    for steps in [3, 9, 14, 25] {
        machine.close_files();
        for _ in 0..steps {
            machine.shipper.step();
        }
        written.push(machine.shipper.stats().files);
        drop(machine);
        disk.kill();
        machine = Machine::open(&disk, "a", 2, settings());
    }
    disk.record(true);
    let state = machine.ship_all();
    let stats = machine.shipper.stats();
    let renames: Vec<_> = disk
        .trace()
        .iter()
        .filter(|call| call.operation == ensile_disk::Operation::Rename)
        .map(|call| call.name.clone())
        .collect();
    let shared =
        renames.iter().filter(|name| name.contains(".new") && !name.contains("MANIFEST")).count() as u64;
    assert_eq!(shared, stats.files, "{renames:?}");
    let manifest = rig::newest_manifest(&disk);
    let named =
        manifest.lines().filter(|line| line.starts_with("part ") || line.starts_with("log ")).count() as u64;
    assert!(written.iter().sum::<u64>() > 3, "{written:?}");
    assert!(stats.files < named + written.len() as u64, "{named} named, {written:?} before, {stats:?}");
    machine.end(&disk);
    taken_over(&disk, "b").expect("takes over");
    assert_eq!(Machine::open(&disk, "b", 2, settings()).found(), state);
}

#[test]
fn h5_log_files_wait_for_their_shipping_up_to_the_limit() {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.ship_all();
    // The store cannot be reached.
    machine.store.set_unreachable(true);
    machine.write(0..30);
    let count = |machine: &Machine| machine.life.rig.log.stats().files;
    let before = count(&machine);
    machine.checkpoint_and_settle();
    assert!(count(&machine) >= before, "{} files of {before}", count(&machine));
    assert_eq!(machine.shipper.step(), ShipStep::Worked, "a file is opened here");
    assert_eq!(machine.shipper.step(), ShipStep::Paced(Duration::from_secs(1)));
    let stats = machine.shipper.stats();
    assert!(stats.failures > 0 && stats.last_error.is_some_and(|error| error.contains("unreachable")));
    assert!(stats.waiting_files > 5, "{}", stats.waiting_files);
    // It comes back: everything is shipped, and goes.
    machine.store.set_unreachable(false);
    machine.life.rig.clock.advance(Duration::from_secs(2));
    let state = machine.ship_all();
    machine.settle_steps();
    assert!(count(&machine) < before / 2, "{} files of {before}", count(&machine));
    assert_eq!(machine.shipper.stats().overruns, 0);
    // It stays away for too long: the files go, and it is told.
    machine.store.set_unreachable(true);
    machine.write(0..30);
    machine.checkpoint_and_settle();
    machine.life.rig.clock.advance(Duration::from_secs(601));
    machine.settle_steps();
    assert!(count(&machine) < before / 2, "{} files of {before}", count(&machine));
    assert_eq!(machine.shipper.stats().overruns, 1);
    // What is in the store meanwhile is the state of before, and then the next checkpoint brings the newest.
    let copy = copy_at_rest(&disk);
    assert_taken_over(&copy, "b", &state);
    machine.store.set_unreachable(false);
    machine.life.rig.clock.advance(Duration::from_secs(2));
    // Its e_h stands in a file that has gone: the next one that is closed has a mark of it.
    machine.write(0..1);
    let state = machine.ship_all();
    machine.end(&disk);
    assert_taken_over(&disk, "c", &state);
}

#[test]
fn a_rate_is_kept() {
    let (_, mut machine) = Machine::first(1, settings());
    drop(machine.ship_all());
    let config =
        ensile_durability::ShippingConfig { bytes_per_second: Some(10_000), ..shipping(&machine.store) };
    machine.restart_shipper(config);
    machine.write(0..40);
    machine.close_files();
    let from = machine.life.rig.clock.nanos();
    for _ in 0..10_000 {
        match machine.shipper.step() {
            ShipStep::Paced(wait) => {
                machine.life.rig.clock.advance(wait);
            }
            ShipStep::Worked => {}
            ShipStep::Idle | ShipStep::Stopped => break,
        }
    }
    let (bytes, taken) = (machine.shipper.stats().bytes, machine.life.rig.clock.nanos() - from);
    let seconds = bytes as f64 / 10_000.0;
    assert!(
        seconds > 2.0 && (seconds * 0.8..seconds * 1.2).contains(&(taken as f64 / 1e9)),
        "{bytes} in {taken} ns"
    );
}

#[test]
fn what_cannot_be_shipped_is_refused_or_told() {
    let (_, mut machine) = Machine::first(1, pictures());
    machine.write(0..10);
    machine.life.checkpoint().expect("is installed");
    machine.close_files();
    (0..50).for_each(|_| {
        machine.shipper.step();
    });
    let error = machine.shipper.stats().last_error.expect("is told");
    assert!(error.contains("pictures"), "{error}");
    // Another database does not ship to a store that is not its own.
    let disk = SimDisk::new();
    Machine::open(&disk, "a", 1, settings()).ship_all();
    let other = Machine::open(&disk, "c", 1, settings());
    (0..3).for_each(|_| {
        other.shipper.step();
    });
    let error = other.shipper.stats().last_error.expect("is told");
    assert!(error.contains("give an empty place"), "{error}");
    assert!(other.shipper.check().is_ok());
    // Nothing to take over from.
    let empty = SimDisk::new();
    let error = taken_over(&empty, "b").expect_err("there is nothing").to_string();
    assert!(error.contains("nothing was ever shipped"), "{error}");
    // A folder with something in it.
    let error = taken_over(&disk, "a").expect_err("it is a database's").to_string();
    assert!(error.contains("in use") || error.contains("already"), "{error}");
    assert_eq!(WhenFenced::default(), WhenFenced::Stop);
    assert_eq!(Epoch::ZERO, other.shipper.stats().shipped_epoch);
    assert!(disk.at(SHARED).files().iter().any(|name| name.contains("manifests/manifest-1")));
}
