//! Power fails, or a process is killed, at every call of shipping and of a take-over.

use super::rig::*;
use crate::prelude::*;

/// A database that ships twice, with a checkpoint in between; each call's moment, and what is to be found.
fn lived(disk: &SimDisk) -> (Vec<ensile_sim::Moment>, States, u64) {
    let mut machine = Machine::open(disk, "a", 2, settings());
    machine.write(0..12);
    machine.ship_all();
    let least = machine.shipper.stats().shipped_epoch.number();
    machine.write(12..18);
    machine.life.checkpoint().expect("is installed");
    machine.write(18..22);
    disk.keep_moments();
    machine.ship_all();
    (disk.take_moments(), machine.states, least)
}

const SECOND: Duration = Duration::from_secs(1);

/// Whose the manifest with this text is.
fn shipper_of(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("shipper "));
    line.and_then(|line| line.split(' ').next()).expect("a manifest says so").to_owned()
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
            let copy = crashed(moment, survival);
            let (epoch, found) = check(&copy, "b", least, &at);
            assert_eq!(&found, state_at(&states, epoch), "{at}");
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
        let before = newest_manifest(&copy);
        machine.ship_all();
        assert_eq!(machine.shipper.stats().fenced, None);
        assert!(newest_manifest(&copy) != before, "call {}: it goes on", moment.number);
        // What it has installed survives a power failure too.
        drop(machine);
        copy.crash_with(Survival::ALL[at % Survival::ALL.len()], moment.number);
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
            // Behind its claim it goes on from there, as the same database; before it another identity may be drawn.
            assert_eq!(again.term, report.term, "{at}: {again:?}");
            if is_claimed {
                assert_eq!(again.database, shipper_of(&newest_manifest(&copy)), "{at}");
                assert_eq!(again.database, report.database, "{at}");
                assert_eq!(again.manifest, report.manifest, "{at}");
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
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..12);
    machine.ship_all();
    for operation in
        [Operation::Rename, Operation::AddName, Operation::SyncFolder, Operation::Sync, Operation::Create]
    {
        machine.write(0..6);
        machine.close_files();
        // Within a step nothing else makes or names files.
        disk.fail_next(operation, 1);
        let failures = machine.shipper.stats().failures;
        for _ in 0..100 {
            if machine.shipper.step() == ShipStep::Paced(SECOND) {
                break;
            }
        }
        disk.heal();
        assert_eq!(machine.shipper.stats().failures, failures + 1, "{operation:?} is counted");
        assert!(machine.error().contains("shared store"), "{operation:?}: {}", machine.error());
        let state = machine.ship_all();
        let copy = copy_at_rest(&disk);
        taken_over(&copy, "b").expect("takes over");
        assert_eq!(Machine::open(&copy, "b", 1, settings()).found(), state, "{operation:?}");
    }
}
