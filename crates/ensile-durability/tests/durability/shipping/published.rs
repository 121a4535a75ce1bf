//! What a manifest may say, and when: across lives, behind the hold, and of a store that shows old listings.

use ensile_base::limits::EPOCHS_RESERVED_MIN;

use super::rig::*;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// The next life finds a closed generation of which the store lacks a file.
#[test]
fn h3_what_was_shipped_stays_so_while_the_next_life_ships_the_rest() {
    for has_checkpoint in [false, true] {
        let (disk, mut machine) = Machine::first(2, settings());
        machine.write(0..12);
        if has_checkpoint {
            machine.life.checkpoint().expect("is installed");
        }
        machine.write(12..24);
        machine.ship_all();
        let shipped = machine.shipper.stats().shipped_epoch;
        machine.write(0..20);
        let mut machine = machine.killed(&disk, "a", 2);
        machine.write(20..30);
        machine.close_files();
        let manifests = ship_watched(&disk, &machine, shipped);
        assert!(manifests > 1, "{manifests} manifests");
        let state = machine.ship_all();
        machine.end_taken_over(&disk, &state);
    }
}

/// The last files of a closed generation go beyond the hold, once no manifest lists it any more.
#[test]
fn h3_a_generation_whose_last_files_went_unshipped_is_not_published_as_a_whole() {
    for with_more in [0, 12] {
        let (disk, mut machine) = Machine::first(1, settings());
        machine.write(0..20);
        machine.ship_all();
        let shipped = machine.shipper.stats().shipped_epoch;
        machine.write(0..20);
        let mut machine = machine.killed(&disk, "a", 1);
        // It finds its place, and then the store is away.
        assert_eq!(machine.shipper.step(), ShipStep::Worked);
        machine.store.set_unreachable(true);
        machine.write(0..with_more);
        machine.checkpoint_and_settle();
        machine.life.rig.clock.advance(601 * SECOND);
        machine.settle_steps();
        assert_eq!(machine.shipper.stats().overruns, 1);
        machine.write(0..10);
        machine.store.set_unreachable(false);
        machine.close_files();
        ship_watched(&disk, &machine, shipped);
        machine.write(0..10);
        machine.close_files();
        ship_watched(&disk, &machine, shipped);
        let state = machine.ship_all();
        machine.end_taken_over(&disk, &state);
    }
}

/// A process dies between the naming of an object and the sync of its name. The next one finds it, and power fails.
#[test]
fn h1_the_name_of_an_object_of_a_life_before_is_synced_before_a_manifest_has_it() {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..4);
    machine.ship_all();
    machine.write(4..16);
    // The next life puts nothing more into its files' folders, so nothing else syncs them.
    machine.life.checkpoint().expect("is installed");
    machine.close_files();
    disk.keep_moments();
    assert!(machine.ship());
    let states = machine.states.clone();
    let mut looked = 0;
    for moment in disk.take_moments() {
        let copy = copy_at_rest(&moment.disk);
        let machine = Machine::open(&copy, "a", 1, settings());
        assert!(machine.ship());
        let shipped = machine.shipper.stats().shipped_epoch;
        drop(machine);
        for survival in Survival::ALL {
            let at = format!("call {}, {survival:?}", moment.number);
            let copy = copy.fork();
            copy.crash_with(survival, moment.number);
            let report = taken_over(&copy, "b").unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(report.epoch, shipped, "{at}");
            let found = Machine::open(&copy, "b", 1, settings()).found();
            assert_eq!(&found, state_at(&states, shipped), "{at}");
        }
        looked += 1;
    }
    assert!(looked > 20, "{looked} calls");
}

/// The first checkpoint takes an hour, and no manifest can be installed before.
#[test]
fn h5_the_limit_holds_while_nothing_can_be_published() {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..8);
    machine.checkpoint_and_settle();
    machine.write(0..30);
    machine.close_files();
    // Log files are put, and the checkpoint's files are not.
    machine.store.set_refuses_parts(true);
    machine.step_after(200, SECOND / 100);
    assert_eq!((machine.shipper.stats().manifest, machine.shipper.stats().shipped_epoch.number()), (0, 0));
    let count = |machine: &Machine| machine.life.rig.log.stats().files;
    let before = count(&machine);
    machine.checkpoint_and_settle();
    assert!(count(&machine) >= before, "{} of {before}", count(&machine));
    for _ in 0..61 {
        machine.step_after(3, 4 * SECOND);
        machine.settle_steps();
    }
    assert!(count(&machine) < before / 2, "{} of {before}", count(&machine));
    assert_eq!(machine.shipper.stats().overruns, 1);
    machine.store.set_refuses_parts(false);
    machine.write(0..10);
    let state = machine.ship_all();
    machine.end_taken_over(&disk, &state);
}

/// An object is gone from the store, and its file is about to go here.
#[test]
fn h5_the_file_of_an_object_that_is_gone_stays_until_it_is_put_again() {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..30);
    machine.ship_all();
    let text = newest_manifest(&disk);
    let is_named = |name: &&String| name.contains("/log0/") && text.contains(name.as_str());
    let gone = objects(&disk).iter().rfind(is_named).expect("one").clone();
    use ensile_disk::Disk as _;
    disk.at(SHARED).remove(&gone).expect("is there");
    machine.step_after(1, 61 * SECOND);
    assert!(machine.error().contains(&gone));
    let count = |machine: &Machine| machine.life.rig.log.stats().files;
    let before = count(&machine);
    machine.checkpoint_and_settle();
    assert!(count(&machine) < before, "those that are there go");
    let file = gone.split('/').nth(2).and_then(|name| name.split('.').next()).expect("a file");
    let is_here = || disk.at("a").files().iter().any(|name| name.contains(&format!("{file}-to-")));
    assert!(is_here(), "{file} is the only one");
    let shipped = machine.shipper.stats().shipped_epoch;
    machine.step_after(6, 2 * SECOND);
    assert!(objects(&disk).contains(&gone));
    assert!(machine.shipper.stats().shipped_epoch >= shipped, "it is put before anything is installed");
}

/// One log is ahead of the other: its last files are in the store, and behind the state that the manifest names.
#[test]
fn h5_a_file_that_was_put_is_held_until_a_manifest_names_it() {
    let (disk, mut machine) = Machine::first(2, settings());
    machine.write(0..8);
    machine.close_files();
    // The worker's log closes files, and the other one has nothing to close.
    machine.write(8..40);
    assert!(machine.ship());
    let stats = machine.shipper.stats();
    assert!(stats.manifest > 0 && stats.waiting_files == 0, "{stats:?}");
    let text = newest_manifest(&disk);
    let is_unnamed = |name: &String| name.contains("/log0/") && !text.contains(name.as_str());
    let unnamed: Vec<String> = objects(&disk).into_iter().filter(is_unnamed).collect();
    assert!(unnamed.len() > 3, "{unnamed:?}");
    machine.store.set_unreachable(true);
    machine.checkpoint_and_settle();
    let files = disk.at("a").files();
    for object in &unnamed {
        let file = object.split('/').nth(2).and_then(|name| name.split('.').next()).expect("a file");
        assert!(files.iter().any(|name| name.contains(&format!("{file}-to-"))), "{file} of {files:?}");
    }
    machine.store.set_unreachable(false);
    machine.life.rig.clock.advance(2 * SECOND);
    machine.end(&disk);
}

/// The object of the named log file whose last entries are of this epoch.
fn object_to(disk: &SimDisk, largest: u64) -> String {
    let text = newest_manifest(disk);
    let end = format!(" largest {largest}");
    let line = text.lines().find(|line| line.starts_with("log ") && line.ends_with(&end));
    let object = line.and_then(|line| line.split(' ').nth(1));
    object.unwrap_or_else(|| panic!("no log file ends in epoch {largest}: {text}")).to_owned()
}

/// Its last entries are of e_l, and the checkpoint in the store has those of smaller epochs only.
#[test]
fn h5_a_file_that_ends_in_the_first_epoch_of_the_shared_checkpoint_is_not_covered_by_it() {
    use ensile_disk::Disk as _;
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..8);
    let handle = machine.life.checkpoints.demand();
    machine.life.step(0);
    let low = machine.write_now(40);
    machine.close_files();
    let report = loop {
        if let Some(outcome) = handle.outcome() {
            break outcome.expect("is installed");
        }
        (0..2).for_each(|checkpointer| _ = machine.life.step(checkpointer));
        machine.life.rig.settle();
    };
    assert_eq!(report.low, low, "the row is in the log alone");
    let state = machine.ship_all();
    assert_eq!(machine.shipper.stats().last_error, None);
    let object = object_to(&disk, low.number());
    let copy = copy_at_rest(&disk);
    assert_taken_over(&copy, "b", &state);
    // Its object is gone from the store, and the next checkpoint covers it here.
    disk.at(SHARED).remove(&object).expect("is there");
    machine.step_after(1, 61 * SECOND);
    assert!(machine.error().contains(&object));
    machine.write(0..4);
    machine.checkpoint_and_settle();
    let file = object.split('/').nth(2).and_then(|name| name.split('.').next()).expect("a file");
    let files = disk.at("a").files();
    assert!(files.iter().any(|name| name.contains(&format!("{file}-to-"))), "{file} of {files:?}");
    machine.step_after(6, 2 * SECOND);
    machine.end(&disk);
}

/// The epoch in the line that says what is reserved.
fn reserved(text: &str) -> u64 {
    let word = text.split("reserved ").nth(1).and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).expect("an epoch")
}

/// Epochs pass, and nothing is written: only what is reserved changes.
#[test]
fn l6_epochs_that_are_reserved_while_nothing_is_written_are_reserved_in_the_store() {
    let disk = SimDisk::new();
    // As few are reserved as there may be.
    let slow = LogConfig { epoch_interval: 3600 * SECOND, ..shipping_log(1, false) };
    let life = Life::open_with(&disk.at("a"), slow, settings()).expect("opens");
    let mut machine = Machine::of_life(Reached::on(&disk), life).expect("starts");
    machine.write(0..8);
    let state = machine.ship_all();
    let first = reserved(&newest_manifest(&disk));
    while machine.life.rig.epochs.now().number() < first {
        (0..EPOCHS_RESERVED_MIN / 2).for_each(|_| assert!(machine.life.rig.advance(), "more are reserved"));
        machine.life.rig.log.reserved_epochs_step();
        assert!(machine.ship());
        let folder = String::from_utf8(disk.at("a").bytes("MANIFEST")).expect("text");
        assert_eq!(reserved(&newest_manifest(&disk)), reserved(&folder));
    }
    let shown = machine.life.rig.epochs.now();
    drop(machine);
    disk.kill();
    taken_over(&disk, "b").expect("takes over");
    let other = Machine::open(&disk, "b", 1, settings());
    assert!(other.life.rig.report.first_epoch > shown, "{} was shown", shown);
    assert_eq!(other.found(), state);
}

/// The shared folder shows listings from a cache.
#[test]
fn h2_a_listing_that_lacks_the_own_manifest_is_an_error() {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..20);
    machine.ship_all();
    machine.step_after(1, 61 * SECOND);
    machine.store.set_caches_listings(true);
    machine.write(0..10);
    machine.close_files();
    let before = machine.shipper.stats().manifest;
    machine.step_after(30, SECOND);
    let error = machine.error();
    assert!(error.contains("lookupcache") && error.contains(&format!("manifest {}", before + 1)), "{error}");
    assert_eq!(machine.shipper.stats().manifest, before, "nobody knows whether it counts");
    machine.store.set_caches_listings(false);
    machine.step_after(2, 2 * SECOND);
    assert!(machine.shipper.stats().manifest > before);
    assert_eq!(machine.shipper.stats().fenced, None);
    // A look finds less than is known.
    machine.store.set_caches_listings(true);
    machine.step_after(1, 11 * SECOND);
    machine.write(0..10);
    machine.close_files();
    machine.step_after(30, SECOND);
    taken_over(&disk, "b").expect("takes over");
    assert!(machine.error().contains("lookupcache"));
}

#[test]
fn a_local_file_that_is_missing_or_damaged_is_told_and_holds_nothing_up() {
    use ensile_disk::Disk as _;
    for is_missing in [false, true] {
        let (disk, mut machine) = Machine::first(1, settings());
        machine.write(0..20);
        machine.ship_all();
        machine.write(0..20);
        machine.life.checkpoint().expect("is installed");
        machine.write(0..20);
        machine.close_files();
        let is_closed = |name: &String| name.starts_with("log0/") && name.contains("-to-");
        let mut closed: Vec<String> = disk.at("a").files().into_iter().filter(is_closed).collect();
        closed.sort_by_key(|name| name.split('-').nth(2).and_then(|number| number.parse::<u64>().ok()));
        let text = newest_manifest(&disk);
        let is_shipped =
            |name: &String| text.contains(&format!("{}.", name.split("-to-").next().expect("one")));
        let lost = closed.iter().find(|name| !is_shipped(name)).expect("one is to be shipped").clone();
        if is_missing {
            disk.at("a").remove(&lost).expect("is there");
        } else {
            disk.at("a").flip(&lost, 600, 1);
        }
        let mut told = false;
        for _ in 0..400 {
            let step = machine.step_after(1, SECOND / 20);
            told |= machine.shipper.stats().last_error.is_some_and(|error| error.contains(&lost));
            assert!(told || step != ShipStep::Idle);
        }
        assert!(told, "{lost}");
        // The checkpoint behind it is there, with the log behind that.
        machine.write(0..4);
        let state = machine.ship_all();
        taken_over(&disk, "b").expect("takes over");
        assert_eq!(Machine::open(&disk, "b", 1, settings()).found(), state, "missing {is_missing}");
    }
}

/// A take-over that has read the manifest before may still be reading them.
#[test]
fn h4_objects_that_no_manifest_names_any_more_stay_for_the_whole_grace() {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..30);
    machine.ship_all();
    let named = objects(&disk);
    machine.life.checkpoint().expect("is installed");
    machine.write(0..3);
    machine.ship_all();
    let text = newest_manifest(&disk);
    let unnamed: Vec<_> = named.into_iter().filter(|name| !text.contains(&format!(" {name} "))).collect();
    assert!(unnamed.len() > 3, "{unnamed:?}");
    let are_there = || objects(&disk).iter().filter(|name| unnamed.contains(name)).count();
    let grace = shipping(&machine.store).grace.as_secs();
    machine.step_after(grace as u32 - 2, SECOND);
    assert_eq!(are_there(), unnamed.len(), "the grace has not passed");
    // A look is taken every minute, and one object goes at a step.
    machine.step_after(2 + 2 * 60 + 200, SECOND);
    assert_eq!(are_there(), 0);
    machine.end(&disk);
}

#[test]
fn a_grace_of_no_time_holds_nothing_up() {
    let (disk, mut machine) = Machine::first(1, settings());
    let config = ShippingConfig { grace: Duration::ZERO, ..shipping(&machine.store) };
    machine.restart_shipper(config);
    for round in 0..3 {
        machine.write(round..round + 20);
        machine.life.checkpoint().expect("is installed");
        machine.write(0..3);
        machine.close_files();
        machine.step_after(100, SECOND / 50);
    }
    assert!(machine.shipper.stats().files > 3, "{:?}", machine.shipper.stats());
    machine.step_after(60, SECOND);
    let text = newest_manifest(&disk);
    let is_unnamed = |name: &&String| !name.starts_with("manifests/") && !text.contains(&format!(" {name} "));
    assert_eq!(objects(&disk).iter().find(is_unnamed), None, "what is not named goes");
    let state = machine.ship_all();
    machine.end_taken_over(&disk, &state);
}
