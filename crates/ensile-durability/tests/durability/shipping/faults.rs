//! Faults that reviews have found: each scene as it was told.

use super::rig::*;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn shipped() -> (SimDisk, Machine) {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..20);
    machine.life.checkpoint().expect("is installed");
    machine.write(0..5);
    machine.ship_all();
    (disk, machine)
}

/// The name of the manifest behind this machine's newest one.
fn next_manifest(machine: &Machine) -> String {
    format!("manifests/manifest-{}", machine.shipper.stats().manifest + 1)
}

/// What stands in a folder.
fn contents(disk: &SimDisk, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = disk.at(folder);
    folder.files().into_iter().map(|name| (name.clone(), folder.bytes(&name))).collect()
}

/// Puts a folder back to this.
fn put_back(disk: &SimDisk, folder: &str, contents: &BTreeMap<String, Vec<u8>>) {
    let folder = disk.at(folder);
    for name in folder.files() {
        folder.remove(&name).expect("is there");
    }
    for (name, bytes) in contents {
        folder.put(name, bytes.clone());
    }
}

#[test]
fn h4_a_larger_manifest_that_is_damaged_or_of_a_newer_version_stays() {
    let (disk, machine) = shipped();
    let text = newest_manifest(&disk).replace("ensile shared manifest 3\n", "ensile shared manifest 5\n");
    let body = &text[..text.find("crc32c ").expect("the last line")];
    let newer = next_manifest(&machine);
    disk.at(SHARED).put(&newer, format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes())).into_bytes());
    assert_eq!(machine.step_after(1, 11 * SECOND), ShipStep::Stopped);
    let fenced = machine.shipper.stats().fenced.expect("is told");
    assert!(fenced.contains("newer version") && fenced.contains(&newer), "{fenced}");
    assert!(matches!(machine.life.rig.log.health(), Health::Poisoned(_)));
    machine.step_after(60, MINUTE);
    assert!(objects(&disk).contains(&newer));
    let (disk, machine) = shipped();
    taken_over(&disk, "b").expect("takes over");
    let claim = next_manifest(&machine);
    let mut bytes = disk.at(SHARED).bytes(&claim);
    bytes[100] ^= 1;
    disk.at(SHARED).put(&claim, bytes);
    let before = objects(&disk);
    machine.step_after(60, MINUTE);
    assert!(machine.error().contains(&claim));
    assert_eq!(objects(&disk), before, "nothing is removed while it cannot be read");
}

/// The machine sleeps between the listing and the removals.
#[test]
fn h4_a_machine_that_slept_looks_before_it_removes() {
    let (disk, mut machine) = shipped();
    for round in 0..4 {
        machine.write(round..round + 10);
        machine.life.checkpoint().expect("is installed");
        machine.ship_all();
    }
    // Until the first of what is due has gone.
    let before = objects(&disk).len();
    machine.step_after(1, 61 * SECOND);
    machine.life.rig.clock.advance(11 * MINUTE);
    for _ in 0..10 {
        machine.shipper.step();
        if objects(&disk).len() < before {
            break;
        }
    }
    let left = objects(&disk);
    assert!(left.len() < before, "one is gone: {left:?}");
    taken_over(&disk, "b").expect("takes over");
    let left = objects(&disk);
    assert_eq!(machine.step_after(1, 11 * MINUTE), ShipStep::Stopped);
    assert_eq!(objects(&disk), left);
}

/// At each manifest there is a state to take over, whatever has gone before it was shipped.
#[test]
fn h3_a_log_whose_first_files_are_missing_is_not_published() {
    for writes_behind in [0, 3] {
        let (disk, mut machine) = Machine::first(1, settings());
        machine.write(0..30);
        machine.life.checkpoint().expect("is installed");
        machine.write(0..writes_behind);
        machine.ship_all();
        machine.store.set_unreachable(true);
        machine.write(0..40);
        machine.checkpoint_and_settle();
        machine.life.rig.clock.advance(Duration::from_secs(601));
        machine.settle_steps();
        assert_eq!(machine.shipper.stats().overruns, 1);
        machine.write(0..10);
        machine.store.set_unreachable(false);
        machine.close_files();
        let mut manifest = 0;
        for round in 0..400 {
            machine.step_after(1, SECOND / 10);
            let newest = machine.shipper.stats().manifest;
            if newest > manifest {
                manifest = newest;
                let copy = copy_at_rest(&disk);
                taken_over(&copy, "b").unwrap_or_else(|error| panic!("step {round}, {newest}: {error}"));
                drop(Machine::open(&copy, "b", 1, settings()));
            }
        }
        let state = machine.ship_all();
        assert_taken_over(&disk, "b", &state);
    }
}

#[test]
fn h5_what_no_manifest_names_is_held() {
    let (disk, mut machine) = shipped();
    machine.write(0..30);
    machine.close_files();
    // All files are put, and no manifest is.
    machine.store.set_loses_answers(true);
    let named = newest_manifest(&disk);
    let number = machine.shipper.stats().manifest;
    let files = machine.shipper.stats().files;
    for _ in 0..200 {
        machine.step_after(1, SECOND / 100);
        disk.at(SHARED).remove(&next_manifest(&machine)).ok();
    }
    assert!(machine.shipper.stats().files > files + 3);
    assert_eq!((machine.shipper.stats().manifest, newest_manifest(&disk)), (number, named));
    let count = |machine: &Machine| machine.life.rig.log.stats().files;
    let unnamed = machine.shipper.stats().files - files;
    machine.checkpoint_and_settle();
    assert!(count(&machine) >= unnamed, "{} of {unnamed}", count(&machine));
    machine.store.set_loses_answers(false);
    let state = machine.ship_all();
    machine.settle_steps();
    assert!(count(&machine) < unnamed, "{} of {unnamed}", count(&machine));
    machine.end_taken_over(&disk, &state);
}

#[test]
fn an_answer_that_is_lost_is_no_second_manifest() {
    let (disk, mut machine) = shipped();
    machine.write(0..10);
    machine.close_files();
    machine.store.set_loses_answers(true);
    machine.step_after(50, SECOND);
    let claimed = newest_manifest(&disk);
    assert!(machine.error().contains("the answer was lost"));
    machine.store.set_loses_answers(false);
    assert!(machine.step_after(1, 2 * SECOND) == ShipStep::Worked);
    assert_eq!(newest_manifest(&disk), claimed);
    assert!(claimed.contains(&format!("number {} ", machine.shipper.stats().manifest)));
    machine.ship_all();
    assert_eq!(machine.shipper.stats().fenced, None);
}

#[test]
fn a_database_that_was_put_back_installs_nothing_and_removes_nothing() {
    for has_restarted in [false, true] {
        let (disk, mut machine) = shipped();
        let snapshot = contents(&disk, "a");
        if has_restarted {
            drop(machine);
            machine = Machine::open(&disk, "a", 1, settings());
        }
        machine.write(0..20);
        let state = machine.ship_all();
        drop(machine);
        put_back(&disk, "a", &snapshot);
        let before = contents(&disk, SHARED);
        let mut machine = Machine::open(&disk, "a", 1, settings());
        machine.write(0..20);
        machine.life.checkpoint().expect("is installed");
        machine.close_files();
        machine.step_after(40, MINUTE);
        let error = machine.error();
        assert!(error.contains("older copy") && error.contains("Take over"), "{error}");
        assert_eq!(contents(&disk, SHARED), before);
        drop(machine);
        assert_taken_over(&disk, "b", &state);
    }
}

/// Two processes that both believe to be the one that runs the database: a machine was copied with its memory.
#[test]
fn of_two_copies_of_a_machine_one_ships() {
    let (disk, mut machine) = shipped();
    let first = std::sync::Arc::clone(&machine.shipper);
    let config = shipping(&machine.store);
    machine.restart_shipper(config);
    machine.write(0..10);
    machine.ship_all();
    let newest = newest_manifest(&disk);
    machine.life.rig.clock.advance(11 * SECOND);
    for _ in 0..4 {
        first.step();
        machine.life.rig.clock.advance(11 * SECOND);
    }
    let error = first.stats().last_error.expect("is told");
    assert!(error.contains("does a copy of the machine run"), "{error}");
    assert_eq!(newest_manifest(&disk), newest);
}

/// An object that was put in a life before, and what becomes of its bytes.
fn put_before(change: impl FnOnce(&mut Vec<u8>)) -> (SimDisk, String) {
    let (disk, mut machine) = shipped();
    machine.write(0..20);
    machine.close_files();
    let before = objects(&disk);
    for _ in 0..3 {
        machine.step_after(2, SECOND / 100);
    }
    let text = newest_manifest(&disk);
    let is_put = |name: &&String| !before.contains(name) && !text.contains(name.as_str());
    let left = objects(&disk);
    let put = left.iter().filter(is_put).find(|name| name.contains("/log0/")).expect("one is put").clone();
    let mut bytes = disk.at(SHARED).bytes(&put);
    change(&mut bytes);
    drop(machine);
    disk.kill();
    disk.at(SHARED).put(&put, bytes);
    (disk, put)
}

#[test]
fn what_was_put_before_is_compared_with_the_file_to_its_last_byte() {
    let places: [fn(usize) -> usize; 4] = [|_| 0, |_| 600, |bytes| bytes / 2, |bytes| bytes - 1];
    for place in places {
        let (disk, put) = put_before(|bytes| {
            let at = place(bytes.len());
            bytes[at] ^= 1;
        });
        let mut machine = Machine::open(&disk, "a", 1, settings());
        machine.step_after(20, SECOND);
        let error = machine.error();
        assert!(error.contains(&put) && error.contains("other bytes"), "{error}");
        disk.at(SHARED).remove(&put).expect("is there");
        machine.step_after(2, 2 * SECOND);
        let state = machine.ship_all();
        assert_taken_over(&disk, "b", &state);
    }
}

/// One that was cut is not the file: it is put again, and nothing has failed.
#[test]
fn what_was_put_before_with_another_length_is_put_again() {
    for is_longer in [false, true] {
        let (disk, put) = put_before(|bytes| match is_longer {
            true => bytes.push(0),
            false => bytes.truncate(bytes.len() - 1),
        });
        let mut machine = Machine::open(&disk, "a", 1, settings());
        let state = machine.ship_all();
        let stats = machine.shipper.stats();
        assert_eq!((stats.failures, stats.last_error), (0, None), "{put}");
        machine.end_taken_over(&disk, &state);
    }
}

#[test]
fn an_object_that_is_gone_is_told_and_put_again() {
    let (disk, mut machine) = shipped();
    machine.write(0..10);
    machine.ship_all();
    let text = newest_manifest(&disk);
    let mut logs =
        objects(&disk).into_iter().filter(|name| name.contains("/log0/") && text.contains(name.as_str()));
    let gone = logs.next_back().expect("one");
    disk.at(SHARED).remove(&gone).expect("is there");
    let failures = machine.shipper.stats().failures;
    machine.step_after(1, 61 * SECOND);
    assert!(machine.error().contains(&gone) && machine.shipper.stats().failures > failures);
    let state = machine.ship_all();
    assert!(objects(&disk).contains(&gone));
    assert_taken_over(&disk, "b", &state);
}

/// The store is emptied under a running database, and perhaps given to another one.
#[test]
fn h1_a_store_that_was_emptied_gets_no_manifest_of_what_is_gone() {
    for is_given in [false, true] {
        let (disk, mut machine) = shipped();
        put_back(&disk, SHARED, &BTreeMap::new());
        let mut other = is_given.then(|| Machine::open(&disk, "c", 1, settings()));
        if let Some(other) = &mut other {
            other.write(0..3);
            other.ship_all();
        }
        machine.write(0..10);
        machine.close_files();
        machine.step_after(40, SECOND);
        let error = machine.error();
        assert!(error.contains("is gone") || error.contains("another store"), "{error}");
        let manifests = objects(&disk).into_iter().filter(|name| name.starts_with("manifests/"));
        let own = machine.shipper.stats().manifest;
        assert!(manifests.into_iter().all(|name| name != format!("manifests/manifest-{}", own + 1)));
        assert_eq!(machine.shipper.stats().fenced, None);
        if let Some(other) = &mut other {
            other.write(0..3);
            other.ship_all();
            assert_eq!(other.shipper.stats().fenced, None);
        }
    }
}

fn one_file() -> CheckpointConfig {
    CheckpointConfig { checkpointers: 1, files: 1, ..settings() }
}

/// Is a checkpoint's file on its way?
fn is_part_under_way(disk: &SimDisk) -> bool {
    disk.at(SHARED).files().iter().any(|name| name.contains("/ckpt-") && name.ends_with(".new"))
}

#[test]
fn log_files_and_manifests_go_on_while_a_large_file_is_shipped() {
    let (disk, mut machine) = Machine::first(1, one_file());
    machine.write_large(0..12);
    machine.ship_all();
    machine.life.checkpoint().expect("is installed");
    // What no manifest names, and goes in its time.
    let shipper = objects(&disk)[0].split('/').next().expect("its folder").to_owned();
    let unnamed = format!("{shipper}/log0/log-900-0.5e6f7a8b");
    disk.at(SHARED).put(&unnamed, vec![1; 100]);
    machine.close_files();
    for _ in 0..1000 {
        if is_part_under_way(&disk) {
            break;
        }
        machine.step_after(1, SECOND / 1000);
    }
    assert!(is_part_under_way(&disk));
    let before = machine.shipper.stats();
    machine.write(20..24);
    machine.close_files();
    for _ in 0..30 {
        machine.step_after(1, SECOND / 1000);
        if machine.shipper.stats().manifest > before.manifest {
            break;
        }
    }
    let stats = machine.shipper.stats();
    assert!(stats.shipped_epoch > before.shipped_epoch && stats.manifest > before.manifest, "{stats:?}");
    assert!(is_part_under_way(&disk), "a manifest between two pieces");
    // Clearing has its turn.
    machine.step_after(2, MINUTE + SECOND);
    assert!(objects(&disk).contains(&unnamed));
    machine.step_after(2, 11 * MINUTE);
    assert!(!objects(&disk).contains(&unnamed));
    // So has a look for others.
    let copy = copy_at_rest(&disk);
    taken_over(&copy, "b").expect("takes over");
    taken_over(&disk, "b").expect("takes over");
    assert_eq!(machine.step_after(1, 11 * SECOND), ShipStep::Stopped);
}

#[test]
fn a_store_that_is_full_is_cleared_too() {
    let (disk, mut machine) = shipped();
    machine.write(0..20);
    machine.life.checkpoint().expect("is installed");
    machine.ship_all();
    machine.store.set_full(true);
    machine.write(0..20);
    machine.close_files();
    let before = objects(&disk).len();
    machine.step_after(60, 20 * SECOND);
    assert!(machine.error().contains("no space is left"));
    machine.step_after(40, 2 * SECOND);
    assert!(objects(&disk).len() < before, "{before} objects");
    machine.store.set_full(false);
    let state = machine.ship_all();
    assert_taken_over(&disk, "b", &state);
}

/// A manifest comes by the clock, although there is always more to ship.
#[test]
fn a_backlog_without_an_end_is_published() {
    let (_, mut machine) = shipped();
    machine.write(0..40);
    machine.close_files();
    let before = machine.shipper.stats();
    for round in 0..60 {
        // More is written than is shipped.
        machine.write(round..round + 2);
        machine.close_files();
        machine.step_after(1, SECOND);
    }
    let stats = machine.shipper.stats();
    assert!(stats.waiting_files > 3, "{stats:?}");
    assert!(stats.manifest > before.manifest && stats.shipped_epoch > before.shipped_epoch, "{stats:?}");
}

/// The machine starts again, and the store's device is not mounted: an empty folder is in its place.
#[test]
fn another_store_and_an_empty_place_are_refused() {
    let (disk, mut machine) = shipped();
    drop(machine);
    let store = contents(&disk, SHARED);
    put_back(&disk, SHARED, &BTreeMap::new());
    machine = Machine::open(&disk, "a", 1, settings());
    machine.write(0..5);
    machine.close_files();
    machine.step_after(10, SECOND);
    let error = machine.error();
    assert!(error.contains("it is empty") && error.contains("mount"), "{error}");
    assert_eq!(objects(&disk), Vec::<String>::new());
    // Mounted, it goes on.
    put_back(&disk, SHARED, &store);
    let state = machine.ship_all();
    let copy = copy_at_rest(&disk);
    assert_taken_over(&copy, "b", &state);
    // A new place is one that is said to be.
    drop(machine);
    put_back(&disk, SHARED, &BTreeMap::new());
    machine = Machine::open(&disk, "a", 1, settings());
    let config = ShippingConfig { is_new_place: true, ..shipping(&machine.store) };
    machine.restart_shipper(config);
    machine.write(0..5);
    let state = machine.ship_all();
    drop(machine);
    machine = Machine::open(&disk, "a", 1, settings());
    machine.write(0..5);
    drop(state);
    let state = machine.ship_all();
    assert_taken_over(&disk, "c", &state);
}

#[test]
fn h6_a_fenced_database_is_so_while_its_store_cannot_be_reached() {
    let (disk, machine) = shipped();
    taken_over(&disk, "b").expect("takes over");
    assert_eq!(machine.step_after(1, 11 * SECOND), ShipStep::Stopped);
    drop(machine);
    put_back(&disk, SHARED, &BTreeMap::new());
    let mut machine = Machine::open_fenced(&disk, "a");
    assert!(machine.shipper.check().is_err());
    assert!(matches!(machine.life.rig.log.health(), Health::Poisoned(why) if why.contains("fenced")));
    assert!(!machine.write(0..1));
    assert_eq!(machine.shipper.step(), ShipStep::Stopped);
}

/// The machine dies before the folder is a database: before anything is fetched, too, and behind the claim (N24).
#[test]
fn h7_a_take_over_that_has_not_ended_is_no_new_database() {
    let disk = shipped().0;
    let before = newest_manifest(&disk);
    let whole = disk.fork();
    whole.keep_moments();
    taken_over(&whole, "b").expect("takes over");
    let (mut refused, mut claimed) = (0, 0);
    for moment in whole.take_moments() {
        let copy = copy_at_rest(&moment.disk);
        let is_claimed = newest_manifest(&copy) != before;
        let is_begun = copy.at("b").files().contains(&"MANIFEST".to_owned());
        let manifest = |copy: &SimDisk| String::from_utf8(copy.at("b").bytes("MANIFEST")).expect("text");
        if !is_begun || manifest(&copy).contains("state created") {
            assert!(is_begun || !is_claimed, "call {}", moment.number);
            continue;
        }
        refused += 1;
        claimed += usize::from(is_claimed);
        let error =
            Machine::try_open(&copy, "b", 1, settings()).map(drop).expect_err("has not ended").to_string();
        assert!(error.contains("has not ended") && error.contains("run it again"), "{error}");
        taken_over(&copy, "b").expect("is run again");
        drop(Machine::open(&copy, "b", 1, settings()));
    }
    assert!(claimed > 0 && refused > claimed + 10, "{refused} refused, {claimed} of them behind the claim");
}
