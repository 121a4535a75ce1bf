//! Uploads that fail or whose process dies go on, an object at a time; and what they have left goes.

use super::rig::*;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const OBJECT_BYTES: u64 = 256 << 10;

fn one_file() -> CheckpointConfig {
    CheckpointConfig { checkpointers: 1, files: 1, ..settings() }
}

/// A machine that ships objects of at most 256 KiB.
fn in_pieces(machine: &mut Machine) {
    let config = ShippingConfig { object_bytes: OBJECT_BYTES, ..shipping(&machine.store) };
    machine.restart_shipper(config);
}

/// A machine that has shipped, with a checkpoint of 6 MB in one file of which nothing is there.
fn large(disk: &SimDisk) -> Machine {
    let mut machine = Machine::open(disk, "a", 1, one_file());
    in_pieces(&mut machine);
    machine.write(0..2);
    machine.ship_all();
    machine.write_large(0..12);
    machine.life.checkpoint().expect("is installed");
    machine.close_files();
    machine
}

/// The objects of checkpoints' files, each as often as it was named.
fn named_pieces(disk: &SimDisk) -> Vec<String> {
    let is_piece =
        |call: &&ensile_sim::Call| call.operation == Operation::Rename && call.name.contains("/ckpt-");
    disk.trace().iter().filter(is_piece).map(|call| call.name.clone()).collect()
}

fn pieces_there(disk: &SimDisk) -> usize {
    objects(disk).iter().filter(|name| name.contains("/ckpt-")).count()
}

/// Steps until so many objects of the checkpoint are there.
fn ship_pieces(disk: &SimDisk, machine: &Machine, wanted: usize) {
    for _ in 0..10_000 {
        if pieces_there(disk) >= wanted {
            return;
        }
        machine.step_after(1, SECOND / 1000);
    }
    panic!("{} objects of {wanted}", pieces_there(disk));
}

#[test]
fn a_large_file_is_several_objects_that_a_take_over_joins() {
    let disk = SimDisk::new();
    let mut machine = large(&disk);
    ship_pieces(&disk, &machine, 1);
    let waiting = machine.shipper.stats();
    assert!(waiting.waiting_files > 0 && waiting.waiting_bytes > 6_000_000, "all of the file: {waiting:?}");
    let state = machine.ship_all();
    let text = newest_manifest(&disk);
    assert!(text.contains(&format!(" objects {OBJECT_BYTES}\n")), "{text}");
    assert!(pieces_there(&disk) > 20, "{}", pieces_there(&disk));
    let last = objects(&disk).into_iter().rfind(|name| name.contains("/ckpt-")).expect("one");
    // One that is missing, or shorter, is named.
    for cut in [None, Some(100)] {
        let copy = copy_at_rest(&disk);
        let bytes = copy.at(SHARED).bytes(&last);
        match cut {
            None => copy.at(SHARED).remove(&last).expect("is there"),
            Some(cut) => copy.at(SHARED).put(&last, bytes[..bytes.len() - cut].to_vec()),
        }
        let error = taken_over(&copy, "b").expect_err("is damaged");
        assert!(matches!(error, DurabilityError::SharedDamaged { .. }), "{error}");
        assert!(error.to_string().contains(&last), "{error}");
    }
    machine.end_taken_over(&disk, &state);
}

#[test]
fn an_upload_that_fails_goes_on_with_the_object_that_it_was_at() {
    let disk = SimDisk::new();
    let mut machine = large(&disk);
    disk.record(true);
    for wanted in [4, 9, 15] {
        ship_pieces(&disk, &machine, wanted);
        machine.store.set_full(true);
        machine.step_after(3, 2 * SECOND);
        assert!(machine.error().contains("no space is left"));
        machine.store.set_full(false);
        machine.life.rig.clock.advance(2 * SECOND);
    }
    let state = machine.ship_all();
    let mut named = named_pieces(&disk);
    let all = named.len();
    named.sort_unstable();
    named.dedup_by_key(|name| {
        name.rsplit_once('.').and_then(|(name, _)| name.rsplit_once('.')).map(|name| name.0.to_owned())
    });
    assert_eq!(named.len(), all, "each object is put once");
    assert_taken_over(&disk, "b", &state);
}

/// Restarted in the midst of it, by far later than the grace, beside a backlog of log files.
#[test]
fn h4_the_next_life_goes_on_with_the_objects_that_are_there() {
    let disk = SimDisk::new();
    let machine = large(&disk);
    ship_pieces(&disk, &machine, 12);
    drop(machine);
    disk.kill();
    let mut machine = Machine::open(&disk, "a", 1, one_file());
    in_pieces(&mut machine);
    let there = pieces_there(&disk);
    disk.record(true);
    // What it compares first takes longer than the grace.
    machine.store.set_full(true);
    machine.step_after(40, MINUTE);
    assert_eq!(pieces_there(&disk), there, "what it will name stays");
    machine.store.set_full(false);
    machine.life.rig.clock.advance(2 * SECOND);
    let state = machine.ship_all();
    let (named, in_all) = (named_pieces(&disk).len(), pieces_there(&disk));
    assert_eq!(named + there, in_all, "{named} of {in_all}, {there} were there");
    assert_taken_over(&disk, "b", &state);
}

/// What a dead machine, a creation that was cut short, and failed uploads have left.
#[test]
fn h4_what_was_cut_short_goes_once_the_grace_has_passed() {
    let disk = SimDisk::new();
    let mut old = Machine::open(&disk, "a", 1, settings());
    old.write(0..20);
    old.ship_all();
    let shipper = objects(&disk).iter().find(|name| name.contains("/log0/")).expect("one").clone();
    let shipper = shipper.split('/').next().expect("its folder").to_owned();
    drop(old);
    let left = [
        "manifests/manifest-99.0123456789abcdef.new".to_owned(),
        format!("{shipper}/log0/log-77-0.5e6f7a8b.0123456789abcdef.new"),
        format!("{shipper}/checkpoint0/ckpt-77-0.5e6f7a8b.0-65536.0123456789abcdef.new"),
    ];
    // Of a database that nobody has taken over from.
    let foreign = "00112233445566778899aabbccddeeff/log0/log-1-0.5e6f7a8b.0123456789abcdef.new".to_owned();
    for name in left.iter().chain([&foreign]) {
        disk.at(SHARED).put(name, vec![1; 100]);
    }
    taken_over(&disk, "b").expect("takes over");
    let mut new = Machine::open(&disk, "b", 1, settings());
    new.write(0..5);
    new.ship_all();
    let is_there = |name: &String| disk.at(SHARED).files().contains(name);
    new.step_after(5, MINUTE);
    assert!(left.iter().all(is_there), "a creation may be under way");
    new.step_after(20, MINUTE);
    assert_eq!(left.iter().find(|name| is_there(name)), None);
    assert!(is_there(&foreign), "it may be about to take over");
    let state = new.ship_all();
    assert_taken_over(&disk, "c", &state);
}

/// An object that is put for longer than the grace.
#[test]
fn h4_what_an_own_upload_has_written_stays_while_it_is_under_way() {
    let (disk, mut machine) = Machine::first(1, one_file());
    machine.write_large(0..12);
    machine.ship_all();
    machine.life.checkpoint().expect("is installed");
    machine.close_files();
    let is_under_way =
        || disk.at(SHARED).files().iter().any(|name| name.contains("/ckpt-") && name.ends_with(".new"));
    for _ in 0..1000 {
        if is_under_way() {
            break;
        }
        machine.step_after(1, SECOND / 1000);
    }
    assert!(is_under_way());
    // Some pieces, and many minutes between them.
    machine.step_after(3, 11 * MINUTE);
    assert!(is_under_way(), "{:?}", machine.shipper.stats());
    let failures = machine.shipper.stats().failures;
    let state = machine.ship_all();
    assert_eq!(machine.shipper.stats().failures, failures);
    assert_taken_over(&disk, "b", &state);
}

#[test]
fn objects_that_are_too_small_are_refused() {
    let disk = SimDisk::new();
    let machine = Machine::open(&disk, "a", 1, settings());
    let config = ShippingConfig { object_bytes: 1000, ..shipping(&machine.store) };
    let error =
        Shipper::start(&machine.life.rig.store, &machine.life.rig.log, config).expect_err("is refused");
    assert!(error.to_string().contains("too small"), "{error}");
}

/// A step hangs in a listing of manifests. The database is closed meanwhile, and its next life begins.
#[test]
fn a_step_that_returns_behind_the_end_takes_nothing_from_the_next_life() {
    // It finds its place, removes what no manifest names, or is about to install a manifest.
    for what in ["place", "clearing", "manifest"] {
        let (disk, mut machine) = Machine::first(1, settings());
        machine.write(0..20);
        machine.ship_all();
        let text = newest_manifest(&disk);
        let shipper = text.lines().find_map(|line| line.strip_prefix("shipper ")).expect("says so");
        let shipper = shipper.split(' ').next().expect("an identity").to_owned();
        let mut next_lifes = format!("{shipper}/log0/log-9-0.5e6f7a8b.0123456789abcdef.new");
        match what {
            "place" => {
                let config = shipping(&machine.store);
                machine.restart_shipper(config);
            }
            "clearing" => {
                // What was cut short is unnamed for long enough to go. Nobody has looked for others meanwhile.
                next_lifes = format!("{shipper}/log0/log-9-0.5e6f7a8b");
                disk.at(SHARED).put(&next_lifes, vec![1; 100]);
                machine.step_after(1, 61 * SECOND);
                machine.step_after(1, 11 * MINUTE);
                assert!(disk.at(SHARED).files().contains(&next_lifes), "it goes at the next step");
                machine.life.rig.clock.advance(2 * SECOND);
            }
            _ => {
                machine.write(0..5);
                machine.close_files();
                let before = machine.shipper.stats().files;
                while machine.shipper.stats().waiting_files > 0 || machine.shipper.stats().files == before {
                    machine.step_after(1, SECOND / 1000);
                }
            }
        }
        let (old, shared, put) =
            (std::sync::Arc::clone(&machine.shipper), disk.at(SHARED), next_lifes.clone());
        machine.store.meanwhile(move || {
            old.end().expect("it waits for no step of its own thread");
            shared.put(&put, vec![1; 100]);
        });
        let newest = newest_manifest(&disk);
        machine.shipper.step();
        assert_eq!(machine.shipper.step(), ShipStep::Stopped, "{what}");
        assert!(disk.at(SHARED).files().contains(&next_lifes), "{what}: it is the next life's");
        assert_eq!(newest_manifest(&disk), newest, "{what}: no manifest is offered");
    }
}
