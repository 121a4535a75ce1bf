//! The manifest's text, its order, and its replacement as a whole.

use super::{Generation, MANIFEST, Manifest};
use ensile_base::Epoch;
use ensile_disk::Disk;
use ensile_sim::SimDisk;

fn generation(number: u64, first: u64, durable: Option<u64>) -> Generation {
    Generation { number, first: Epoch::new(first), logs: 2, durable: durable.map(Epoch::new) }
}

fn manifest() -> Manifest {
    Manifest { generations: vec![generation(1, 1, Some(57)), generation(3, 61, None)] }
}

#[test]
fn the_documented_text_is_the_one_that_is_written() {
    let document = include_str!("../../../../docs/formats/manifest.md");
    let example =
        document.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    assert_eq!(example, manifest().to_string());
    assert_eq!(Manifest::parse(example), Ok(manifest()));
}

#[test]
fn every_changed_byte_is_seen() {
    let text = manifest().to_string();
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        assert!(String::from_utf8(bytes).map_or(true, |text| Manifest::parse(&text).is_err()), "at {at}");
    }
    for length in 0..text.len() {
        assert!(Manifest::parse(&text[..length]).is_err(), "cut to {length}");
    }
}

#[test]
fn l4_generations_out_of_order_are_refused() {
    for generations in [
        vec![],
        vec![generation(1, 1, Some(5))],
        vec![generation(1, 1, None), generation(2, 9, None)],
        vec![generation(1, 1, Some(9)), generation(2, 9, None)],
        vec![generation(2, 1, Some(5)), generation(2, 9, None)],
        vec![generation(1, 8, Some(5)), generation(2, 9, None)],
        vec![Generation { logs: 0, ..generation(1, 1, None) }],
    ] {
        let manifest = Manifest { generations };
        assert!(Manifest::parse(&manifest.to_string()).is_err(), "{manifest:?}");
    }
}

#[test]
fn a_crash_leaves_the_old_one_or_the_new_one() {
    for seed in 0..100 {
        let disk = SimDisk::new();
        manifest().write(&disk).expect("writes");
        let next = Manifest { generations: vec![generation(1, 1, Some(57)), generation(4, 70, None)] };
        // Everything up to the last sync has happened, or nothing has.
        let file = disk.create("MANIFEST.new").expect("creates");
        file.write_at(next.to_string().as_bytes(), 0).expect("writes");
        file.sync_all().expect("syncs");
        disk.rename("MANIFEST.new", MANIFEST).expect("renames");
        disk.crash(seed);
        let found = Manifest::read(&disk).expect("whole").expect("there");
        assert!(found == manifest() || found == next);
    }
}
