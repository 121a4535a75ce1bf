//! N11: a picture in which a row has two TIDs is damaged to a verification and to a backup, as it is to an open.

use super::*;

const SAYS: &str = "with another TID (N11)";

#[test]
fn n11_a_row_with_two_tids_in_a_picture_is_damage_and_no_backup_of_it_counts() {
    let (disk, life, mut worker) = filled_disk(pictures());
    back_up_checkpoint(&disk, &life);
    let before = (manifest(&disk, "backup"), loaded(&disk, "backup"));
    put(&life, &mut worker, 5, 300);
    let (own, value) = life.store.present()[&7].clone();
    let value = value.expect("it is there");
    let made = life.store.pages.as_ref().expect("it has pages");
    // The same version in the page and beside it is none.
    made.leave_another(7, own, value.clone());
    let picture = life.checkpoint().expect("is installed");
    assert!(picture.displaced > 0, "{picture:?}");
    assert!(examined(&disk, "data").is_whole());
    let whole = disk.fork();
    back_up(&whole, "backup", 1).expect("is made");
    // One that was in that row before.
    let other = Tid::first_of(Epoch::new(own.epoch().number() - 1));
    made.leave_another(7, other, value);
    put(&life, &mut worker, 5, 301);
    life.checkpoint().expect("nobody compares while it is written");
    let found = examined(&disk, "data");
    assert!(found.damage.iter().any(|damage| damage.detail.contains(SAYS)), "{:?}", found.damage);
    let error = back_up(&disk, "backup", 1).expect_err("it is damaged");
    assert!(matches!(error, DurabilityError::TargetFailed { .. }), "{error}");
    assert!(error.to_string().contains(SAYS), "{error}");
    assert_eq!((manifest(&disk, "backup"), loaded(&disk, "backup")), before, "the last one counts");
    let opened = Life::open(&at_rest(&disk).at("data"), 1, pictures()).map(drop);
    assert!(opened.is_err(), "an open says so too");
}

/// A backup gathers them into blocks, and none of these has more than a reader takes.
#[test]
fn a_backup_of_more_versions_beside_pages_than_a_block_has_room_for_has_them_all() {
    let (disk, life, mut worker) = filled_disk(pictures());
    (0..12).for_each(|key| put(&life, &mut worker, key, 200 << 10));
    let made = life.store.pages.as_ref().expect("it has pages");
    for (key, (tid, value)) in life.store.present().into_iter().take(12) {
        made.leave_another(key, tid, value.expect("it is present"));
    }
    let picture = life.checkpoint().expect("is installed");
    assert!(picture.displaced >= 12, "{picture:?}");
    back_up(&disk, "backup", 1).expect("is made");
    let displaced = |folder: &str| {
        let checkpoint = examined(&disk, folder).checkpoint.expect("a picture");
        let picture = checkpoint.picture.expect("in page files");
        (picture.displaced_blocks, picture.displaced)
    };
    let (of_data, of_backup) = (displaced("data"), displaced("backup"));
    assert_eq!((of_data.1, of_backup.1), (picture.displaced, picture.displaced));
    assert!(of_data.0 > 2 * of_backup.0 && of_backup.0 >= 3, "2.4 MB, in blocks of a MiB: {of_backup:?}");
    assert_eq!(loaded(&disk, "backup"), life.store.present());
}

#[test]
fn n11_two_versions_of_a_row_beside_the_pages_are_damage() {
    let (disk, life, _worker) = filled_disk(pictures());
    let made = life.store.pages.as_ref().expect("it has pages");
    // No page has a row like this.
    for epoch in [2, 3] {
        made.leave_another(crate::checkpoints::store::KEYS + 1, Tid::first_of(Epoch::new(epoch)), vec![1]);
    }
    life.checkpoint().expect("is installed");
    let found = examined(&disk, "data");
    let said: Vec<&str> = found.damage.iter().map(|damage| &*damage.detail).collect();
    assert!(said.iter().any(|detail| detail.contains("twice, with two TIDs (N11)")), "{said:?}");
}

/// Says of no entry what its key is, so nothing can be compared.
struct WithoutKeys;

impl Recoverable for WithoutKeys {
    fn replay(&self, _: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _: u32, _: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

#[test]
fn n11_an_older_picture_of_a_backup_is_compared_too() {
    let (disk, life, mut worker) = filled_disk(pictures());
    let (own, value) = life.store.present()[&7].clone();
    let other = Tid::first_of(Epoch::new(own.epoch().number() - 1));
    let made = life.store.pages.as_ref().expect("it has pages");
    made.leave_another(7, other, value.expect("it is there"));
    life.checkpoint().expect("is installed");
    // As a version before this one made it.
    let picture = CopySource::picture(&of(&disk, "data"), CopyOptions::default()).expect("is there");
    let mut copy = picture.begin(&of(&disk, "backup")).expect("begins");
    let older = loop {
        if let CopyStep::Ended(report) = copy.step_at(&WithoutKeys, 0).expect("compares nothing") {
            break report.epoch;
        }
    };
    drop(copy);
    (0..crate::checkpoints::store::KEYS).for_each(|key| put(&life, &mut worker, key, 200));
    life.checkpoint().expect("is installed");
    let report = back_up_picture(&disk, "backup", 2).expect("the newest one is whole");
    assert_eq!(report.kept, [report.epoch, older]);
    let found = examined(&disk, "backup");
    let said: Vec<&str> = found.damage.iter().map(|damage| &*damage.detail).collect();
    let is_older = |detail: &&str| detail.contains(SAYS) && detail.contains("in an older picture");
    assert!(!said.is_empty() && said.iter().all(is_older), "{said:?}");
    let error = restored(&disk, "backup", "then", Some(older)).expect_err("it is damaged");
    assert!(matches!(error, DurabilityError::TargetFailed { .. }), "{error}");
    restored(&disk, "backup", "now", None).expect("is whole");
    assert_eq!(loaded(&disk, "now"), life.store.present());
}
