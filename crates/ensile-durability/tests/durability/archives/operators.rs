//! Archives begun late, full, and meddled with by hand: no log file goes whose whole copy is not there (A1).

use super::rig::*;
use crate::prelude::*;

#[test]
fn a1_a_merged_file_that_a_late_archive_lists_waits_for_it_in_the_next_life_too() {
    let disk = disk_with_archive();
    let mut merged = 0;
    while merged == 0 {
        let life = Life::open_with(&disk, archiving(1, Archiving::AsBefore), settings()).expect("opens");
        merged = life.rig.report.merged_generations;
        assert!(write(&life, &mut life.rig.worker(), 1..2));
        close(&life);
    }
    let is_merged = |name: &String| name.starts_with("log") && name.ends_with("-merged");
    let of_merge = || disk.files().into_iter().find(is_merged);
    let file = of_merge().expect("a merge has left it");
    // There is space for the list, and for no file.
    disk.set_device(PLACE, Some(4000));
    let life = open(&disk, 1, settings()).expect("opens");
    life.checkpoint().expect("is installed");
    assert!(life.rig.log.archive_error().is_some() && of_merge().is_some());
    drop(life);
    disk.crash(5);
    let life = open(&disk, 1, settings()).expect("opens");
    assert_eq!(of_merge(), Some(file.clone()), "the archive lists it, and has no copy");
    drop(life);
    disk.set_device(PLACE, None);
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(disk.at(PLACE).files().contains(&file), "{:?}", life.rig.log.archive_error());
    assert_eq!(of_merge(), None, "it is in the archive, and goes");
    close(&life);
    let facts = facts(&disk);
    assert!(
        facts.damage.is_empty() && facts.generations.iter().all(|one| one.lacks.is_empty()),
        "{facts:#?}"
    );
}

#[test]
fn a1_a_copy_that_was_cut_by_hand_is_made_again_while_its_original_is_there() {
    let (disk, life) = first_life(1, settings());
    assert!(write(&life, &mut life.rig.worker(), 0..12));
    close(&life);
    drop(life);
    let whole = disk.at(PLACE).bytes("log0/log-1-0");
    disk.at(PLACE).put("log0/log-1-0", whole[..whole.len() / 2].to_vec());
    let life = open(&disk, 1, settings()).expect("opens");
    life.checkpoint().expect("is installed");
    close(&life);
    assert!(!disk.files().iter().any(|name| name.starts_with("log0/log-1-0")), "the original is gone");
    assert!(disk.at(PLACE).bytes("log0/log-1-0") == whole);
    assert!(facts(&disk).damage.is_empty());
}
