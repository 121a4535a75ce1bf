//! Archives that are put back to an older state, in the same folder: nothing goes on in them, and nothing is lost (A2).

use super::rig::*;
use crate::prelude::*;

/// All files of the archive.
type Archived = Vec<(String, Vec<u8>)>;

fn archived(disk: &SimDisk) -> Archived {
    let at = disk.at(PLACE);
    // Who holds the folder is no part of it.
    let names = at.files().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), at.bytes(&name))).collect()
}

fn put_back(disk: &SimDisk, archived: &Archived) {
    let at = disk.at(PLACE);
    at.files().iter().filter(|name| *name != "LOCK").for_each(|name| at.lose(name));
    archived.iter().for_each(|(name, bytes)| at.put(name, bytes.clone()));
}

fn logs(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.starts_with("log") && name.contains("/log-")).collect()
}

#[test]
fn a2_an_archive_that_is_put_back_gets_nothing_more_until_the_newest_is_back() {
    let disk = disk_with_archive();
    let mut states = Vec::new();
    for number in 0..4 {
        let life = open(&disk, 1, settings()).expect("opens");
        // The list says where the life before ended, and nothing of this one.
        states.push(archived(&disk));
        assert!(write(&life, &mut life.rig.worker(), 20 * number..20 * number + 12));
        archive_checkpoint(&life);
        states.push(archived(&disk));
        close(&life);
    }
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 80..86));
    life.checkpoint().expect("is installed");
    close(&life);
    drop(life);
    let newest = archived(&disk);
    for (at, state) in states.iter().enumerate() {
        let disk = disk.fork();
        put_back(&disk, state);
        let before = logs(&disk);
        for again in 0..2 {
            let life = open(&disk, 1, settings()).expect("the database itself is whole");
            let error = life.rig.log.archive_error().unwrap_or_else(|| panic!("state {at} goes on"));
            assert!(error.contains("put back to an older state") || error.contains("missing"), "{error}");
            assert!(error.contains("ended and another one begun"), "what to do: {error}");
            assert!(write(&life, &mut life.rig.worker(), 100..112), "commits go on");
            assert!(life.checkpoint().is_err(), "A3");
            let_archive(&life);
            let there = logs(&disk);
            // Only what was renamed when it was closed.
            let is_there = |name: &String| there.iter().any(|found| found.starts_with(name));
            assert!(before.iter().all(is_there), "state {at}, {again}: {before:?}, {there:?}");
            assert!(archived(&disk) == *state, "state {at}: nothing comes into it");
            drop(life);
            disk.kill();
        }
        let (ended, back) = (disk.fork(), disk);
        put_back(&back, &newest);
        let life = open(&back, 1, settings()).expect("opens");
        archive_checkpoint(&life);
        assert_eq!(life.rig.log.archive_error(), None);
        assert_whole(&back, close(&life));
        let life = Life::open_with(&ended, archiving(1, Archiving::Ended), settings()).expect("opens");
        assert_eq!(life.rig.log.archive_error(), None);
        life.checkpoint().expect("is installed");
        close(&life);
    }
}

#[test]
fn a2_the_newest_archive_may_come_back_while_the_database_is_open() {
    let (disk, life) = first_life(1, settings());
    close(&life);
    let older = archived(&disk);
    for number in 0..2 {
        let life = open(&disk, 1, settings()).expect("opens");
        assert!(write(&life, &mut life.rig.worker(), 20 * number..20 * number + 12));
        life.checkpoint().expect("is installed");
        close(&life);
    }
    let newest = archived(&disk);
    put_back(&disk, &older);
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(life.checkpoint().is_err() && life.rig.log.archive_error().is_some());
    put_back(&disk, &newest);
    life.rig.clock.advance(std::time::Duration::from_secs(2));
    archive_checkpoint(&life);
    assert_eq!(life.rig.log.archive_error(), None);
    assert_whole(&disk, close(&life));
}

#[test]
fn a2_a_checkpoint_remembers_the_archive_whose_generations_it_takes_off_the_list() {
    let disk = disk_with_archive();
    for keys in [0..12, 20..32] {
        let life = open(&disk, 1, settings()).expect("opens");
        assert!(write(&life, &mut life.rig.worker(), keys));
        close(&life);
    }
    let life = open(&disk, 1, settings()).expect("opens");
    let ended = life.rig.first;
    let older = archived(&disk);
    // Neither where this generation ends, nor that it was, can be said until the next life is under way.
    disk.set_device(PLACE, Some(disk.at(PLACE).used_bytes()));
    assert!(write(&life, &mut life.rig.worker(), 40..52));
    drop(life);
    disk.kill();
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(life.rig.log.archive_error().is_some());
    disk.set_device(PLACE, None);
    assert!(write(&life, &mut life.rig.worker(), 60..72));
    archive_checkpoint(&life);
    assert_eq!(life.rig.log.archive_error(), None);
    drop(life);
    disk.kill();
    let (put, whole) = (disk.fork(), disk);
    put_back(&put, &older);
    let life = open(&put, 1, settings()).expect("opens");
    assert!(life.checkpoint().is_err() && life.rig.log.archive_error().is_some(), "it lacks a generation");
    assert!(facts(&put).ranges.iter().all(|range| range.to < ended), "no range goes over it");
    let life = open(&whole, 1, settings()).expect("opens");
    let durable = close(&life);
    assert_whole(&whole, durable);
    assert_eq!(facts(&whole).ranges, [span(0, durable)]);
}

#[test]
fn a2_an_open_remembers_the_archive_as_the_open_leaves_it() {
    let (disk, life) = first_life(1, settings());
    assert!(write(&life, &mut life.rig.worker(), 0..12));
    close(&life);
    drop(life);
    let older = archived(&disk);
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(archived(&disk) != older, "the archive says where the first life ended");
    drop(life);
    disk.kill();
    put_back(&disk, &older);
    let life = open(&disk, 1, settings()).expect("the database itself is whole");
    let error = life.rig.log.archive_error().expect("the archive is older than the open left it");
    assert!(error.contains("put back to an older state"), "{error}");
}
