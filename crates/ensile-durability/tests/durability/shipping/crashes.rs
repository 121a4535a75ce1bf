//! Power fails, or a process is killed, at every call of shipping and of a take-over.

use std::collections::BTreeMap;

use ensile_base::Epoch;
use ensile_disk::Operation;
use ensile_sim::{SimDisk, Survival};

use super::rig::{Machine, Seen, newest_manifest, taken_over};
use crate::checkpoints::store::settings;

/// The states that were there, by the epochs at whose ends they were.
type States = BTreeMap<u64, Seen>;

/// A database that ships twice, with a checkpoint in between; each call's moment, and what is to be found.
fn lived(disk: &SimDisk) -> (Vec<ensile_sim::Moment>, States, u64) {
    let mut machine = Machine::open(disk, "a", 2, settings());
    machine.write(0..12);
    let mut states = States::new();
    let note = |states: &mut States, machine: &mut Machine| {
        let state = machine.ship_all();
        states.insert(machine.shipper.stats().shipped_epoch.number(), state);
    };
    note(&mut states, &mut machine);
    let least = machine.shipper.stats().shipped_epoch.number();
    machine.write(12..18);
    machine.life.checkpoint().expect("is installed");
    machine.write(18..22);
    disk.keep_moments();
    note(&mut states, &mut machine);
    (disk.take_moments(), states, least)
}

/// What a take-over finds, which must be a state that was there, and shipped before the crash if `least` says so.
fn check(copy: &SimDisk, folder: &str, least: u64, at: &str) -> (Epoch, Seen) {
    let report = taken_over(copy, folder).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert!(report.epoch.number() >= least, "{at}: {} of {least}", report.epoch);
    let machine = Machine::open(copy, folder, 1, settings());
    (report.epoch, machine.found())
}

#[test]
fn h1_h3_power_that_fails_at_any_call_of_shipping_leaves_a_state_to_take_over() {
    let disk = SimDisk::new();
    let (moments, states, least) = lived(&disk);
    assert!(moments.len() > 40, "{} calls", moments.len());
    let (mut news, mut olds) = (0, 0);
    for moment in &moments {
        for survival in Survival::ALL {
            let at = format!("call {}, {survival:?}", moment.number);
            let copy = moment.disk.fork();
            copy.crash_with(survival, moment.number);
            let (epoch, found) = check(&copy, "b", least, &at);
            let (_, expected) = states.range(..=epoch.number()).next_back().expect("one");
            if states.contains_key(&epoch.number()) {
                assert_eq!(&found, expected, "{at}");
            }
            news += u64::from(epoch.number() > least);
            olds += u64::from(epoch.number() == least);
        }
    }
    assert!(news > 0 && olds > 0, "{news} new, {olds} old");
}

#[test]
fn a_shipper_that_dies_at_any_call_goes_on_behind_it() {
    let disk = SimDisk::new();
    let (moments, states, least) = lived(&disk);
    let (_, last) = states.iter().next_back().expect("one");
    for (at, moment) in moments.iter().enumerate().filter(|(at, _)| at % 3 == 0) {
        let copy = moment.disk.fork();
        if at % 2 == 0 {
            copy.kill();
        } else {
            copy.crash_with(Survival::Random, moment.number);
        }
        let mut machine = Machine::open(&copy, "a", 2, settings());
        assert_eq!(&machine.found(), last, "call {}: all of it was durable", moment.number);
        machine.ship_all();
        assert_eq!(machine.shipper.stats().fenced, None);
        let (_, found) = check(&copy, "b", least, &format!("call {}", moment.number));
        assert_eq!(&found, last, "call {}", moment.number);
    }
}

#[test]
fn h7_a_take_over_that_dies_at_any_call_is_run_again() {
    let disk = SimDisk::new();
    let (_, states, least) = lived(&disk);
    disk.kill();
    let (_, last) = states.iter().next_back().expect("one");
    let before = newest_manifest(&disk);
    let whole = disk.fork();
    whole.keep_moments();
    let report = taken_over(&whole, "b").expect("takes over");
    let (mut claimed, mut unclaimed, mut whole_ones) = (0, 0, 0);
    for moment in whole.take_moments() {
        for survival in [None, Some(Survival::Random), Some(Survival::ALL[0])] {
            let at = format!("call {}, {survival:?}", moment.number);
            let copy = moment.disk.fork();
            match survival {
                None => copy.kill(),
                Some(survival) => copy.crash_with(survival, moment.number),
            }
            let is_claimed = newest_manifest(&copy) != before;
            if copy.at("b").files().contains(&"MANIFEST".to_owned())
                && String::from_utf8(copy.at("b").bytes("MANIFEST")).expect("text").contains("state created")
            {
                assert!(is_claimed, "{at}: a database without its claim");
                assert_eq!(&Machine::open(&copy, "b", 1, settings()).found(), last, "{at}");
                whole_ones += 1;
                continue;
            }
            claimed += u64::from(is_claimed);
            unclaimed += u64::from(!is_claimed);
            let again = taken_over(&copy, "b").unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!((again.epoch, again.parent.clone()), (report.epoch, report.parent.clone()), "{at}");
            if is_claimed {
                assert!(again.term == 2 || again.database != report.database, "{at}: {again:?}");
            }
            assert!(again.epoch.number() >= least);
            let mut machine = Machine::open(&copy, "b", 1, settings());
            assert_eq!(&machine.found(), last, "{at}");
            machine.write(0..3);
            machine.ship_all();
            assert_eq!(machine.shipper.stats().fenced, None, "{at}");
        }
    }
    assert!(claimed > 0 && unclaimed > 0 && whole_ones > 0, "{claimed} {unclaimed} {whole_ones}");
}

#[test]
fn calls_of_the_shared_folder_that_fail_are_tried_again() {
    let disk = SimDisk::new();
    let mut machine = Machine::open(&disk, "a", 1, settings());
    machine.write(0..12);
    machine.ship_all();
    for (round, operation) in
        [Operation::Rename, Operation::AddName, Operation::SyncFolder, Operation::Sync, Operation::Create]
            .into_iter()
            .enumerate()
    {
        machine.write(0..6);
        machine.close_files();
        // The next such call is the shipper's: nothing else runs meanwhile.
        let before = machine.shipper.stats().failures;
        let from = disk.calls().all;
        disk.record(true);
        let copy = disk.fork();
        drop(copy);
        let mut failed = false;
        for number in from + 1..from + 400 {
            if failed {
                break;
            }
            disk.fail_calls(number..=number, ensile_sim::Fault::INPUT_OUTPUT);
            let step = machine.shipper.step();
            failed =
                disk.trace().last().is_some_and(|call| call.operation == operation && call.outcome == "EIO");
            disk.heal();
            if let ensile_durability::ShipStep::Paced(wait) = step {
                machine.life.rig.clock.advance(wait);
            }
        }
        assert!(round == 0 || machine.shipper.stats().failures >= before);
        let state = machine.ship_all();
        let copy = disk.fork();
        copy.kill();
        taken_over(&copy, "b").expect("takes over");
        assert_eq!(Machine::open(&copy, "b", 1, settings()).found(), state, "{operation:?}");
    }
}
