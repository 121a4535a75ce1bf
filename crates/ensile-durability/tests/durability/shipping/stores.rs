//! What is wrong with a shared store is named, and nothing is claimed then.

use super::rig::*;
use crate::prelude::*;

fn shipped() -> SimDisk {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..20);
    machine.life.checkpoint().expect("is installed");
    machine.write(0..10);
    machine.ship_all();
    disk
}

/// The objects that the newest manifest names.
fn named(disk: &SimDisk) -> Vec<String> {
    let text = newest_manifest(disk);
    objects(disk).into_iter().filter(|object| text.contains(&format!(" {object} "))).collect()
}

#[test]
fn an_object_that_is_missing_cut_or_changed_is_named_and_nothing_is_claimed() {
    let disk = shipped();
    let (claim, named) = (newest_manifest(&disk), named(&disk));
    assert!(named.len() > 4, "{named:?}");
    type Damage = fn(&SimDisk, &str);
    let damages: [(&str, Damage); 3] = [
        ("missing", |disk, name| {
            use ensile_disk::Disk as _;
            disk.remove(name).expect("is there");
        }),
        ("bytes", |disk, name| {
            let bytes = disk.bytes(name);
            disk.put(name, bytes[..bytes.len() - 1].to_vec());
        }),
        ("checksum", |disk, name| {
            let mut bytes = disk.bytes(name);
            let at = bytes.len() / 2;
            bytes[at] ^= 4;
            disk.put(name, bytes);
        }),
    ];
    for object in &named {
        for (what, damage) in damages {
            let copy = copy_at_rest(&disk);
            damage(&copy.at(SHARED), object);
            let error = taken_over(&copy, "b").expect_err("is damaged");
            assert!(matches!(error, DurabilityError::SharedDamaged { .. }), "{object} {what}: {error}");
            assert!(error.to_string().contains(object) && error.to_string().contains(what), "{error}");
            assert_eq!(newest_manifest(&copy), claim, "{object} {what}: nothing is claimed");
            // Put back, it is taken over into the same folder.
            copy.at(SHARED).put(object, disk.at(SHARED).bytes(object));
            taken_over(&copy, "b").unwrap_or_else(|error| panic!("{object} {what}: {error}"));
        }
    }
}

#[test]
fn a_damaged_newest_manifest_is_named_by_both_sides() {
    let disk = shipped();
    disk.kill();
    let newest = objects(&disk).into_iter().rfind(|name| name.starts_with("manifests/")).expect("one");
    let mut bytes = disk.at(SHARED).bytes(&newest);
    bytes[100] ^= 1;
    disk.at(SHARED).put(&newest, bytes);
    let error = taken_over(&disk, "b").expect_err("is damaged");
    assert!(matches!(error, DurabilityError::SharedDamaged { .. }), "{error}");
    let machine = Machine::open(&disk, "a", 1, settings());
    (0..4).for_each(|_| {
        machine.shipper.step();
    });
    let error = machine.shipper.stats().last_error.expect("is told");
    assert!(error.contains(&newest), "{error}");
}

#[test]
fn a_damaged_log_file_is_not_shipped_and_told() {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..20);
    machine.close_files();
    let is_closed = |name: &String| name.starts_with("log0/") && name.contains("-to-");
    let closed = disk.at("a").files().into_iter().find(is_closed).expect("one");
    let bytes = disk.at("a").bytes(&closed);
    let mut wrong = bytes.clone();
    wrong[600] ^= 1;
    disk.at("a").put(&closed, wrong);
    (0..4).for_each(|_| {
        machine.shipper.step();
    });
    let error = machine.shipper.stats().last_error.expect("is told");
    assert!(error.contains(&closed) && error.contains("not shipped"), "{error}");
    disk.at("a").put(&closed, bytes);
    // Others go first for a while.
    machine.life.rig.clock.advance(std::time::Duration::from_secs(11));
    let state = machine.ship_all();
    assert_taken_over(&disk, "b", &state);
}
