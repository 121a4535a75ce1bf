//! Backups of objects beside their owner, and folders that are made of them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use ensile_durability::DurabilityError;
use ensile_objects::folder::{self, CopyOptions, CopyProgress};
use ensile_objects::{ObjectDurability, Objects, ObjectsBuilder};

use crate::cause;
use crate::tally::{Change, Tally};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ensile-objects-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("makes");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn watch(_: &CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn sums(objects: &Objects<u64, Tally>) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    objects
        .for_each(|key, tally| {
            sums.insert(*key, tally.sum);
        })
        .expect("shows");
    sums
}

#[test]
fn a_backup_beside_the_owner_has_all_that_was_changed_before_it() {
    let levels = [
        ObjectDurability::Strict,
        ObjectDurability::Relaxed,
        ObjectDurability::Process,
        ObjectDurability::NoLog,
    ];
    for level in levels {
        for has_threads in [true, false] {
            let folder = Folder::new(&format!("backup-{level:?}-{has_threads}"));
            let builder = ObjectsBuilder::new(folder.path("data")).durability(level);
            let builder = if has_threads { builder } else { builder.without_threads() };
            let objects: Objects<u64, Tally> = builder.open().expect("opens");
            // The second backup follows the first one, behind a checkpoint.
            for round in 0..2 {
                for key in 0..50 {
                    objects.submit(key, &Change::Add(key + round)).expect("is applied");
                }
                let before = sums(&objects);
                objects.backup(folder.path("backup")).expect("is made");
                objects.submit(7, &Change::Add(1_000)).expect("is applied");
                let copy = folder.path(&format!("copy-{round}"));
                folder::restore(&folder.path("backup"), &copy, None, None, &mut watch).expect("is restored");
                let copy: Objects<u64, Tally> = ObjectsBuilder::new(copy).open().expect("opens");
                assert_eq!(sums(&copy), before, "{level:?}, threads: {has_threads}, round {round}");
                objects.checkpoint().wait().expect("is installed");
            }
            objects.close().expect("closes");
        }
    }
}

#[test]
fn a_copy_of_something_else_is_refused_and_a_failed_restore_leaves_no_folder() {
    let folder = Folder::new("backup-refused");
    let objects: Objects<u64, Tally> = ObjectsBuilder::new(folder.path("data")).open().expect("opens");
    objects.update(1, &Change::Add(1)).expect("is durable");
    let refused = objects.backup(folder.path("data/backup")).expect_err("it lies in the folder");
    assert!(refused.to_string().contains("outside"), "{refused}");
    let none = CopyOptions { keep: Some(0), ..CopyOptions::default() };
    objects.backup_with(&folder.path("backup"), none, &mut watch).expect_err("it keeps no state");
    assert!(!folder.path("backup").exists());
    objects.backup(folder.path("backup")).expect("is made");
    let stop = &mut |_: &CopyProgress| ControlFlow::Break(());
    let cancelled = folder::restore(&folder.path("backup"), &folder.path("new"), None, None, stop)
        .expect_err("is cancelled");
    assert!(matches!(cause(&cancelled), Some(DurabilityError::Cancelled)), "{cancelled}");
    let unfinished =
        ObjectsBuilder::new(folder.path("new")).open::<u64, Tally>().map(drop).expect_err("is unfinished");
    assert!(unfinished.to_string().contains("run it again"), "{unfinished}");
    objects.close().expect("closes");
    objects.backup(folder.path("other")).expect_err("they are closed");
    drop(objects);
    let no_backup = folder::restore(&folder.path("data"), &folder.path("none"), None, None, &mut watch)
        .expect_err("is none");
    assert!(!folder.path("none").exists(), "an open would make empty objects there");
    assert!(matches!(cause(&no_backup), Some(DurabilityError::NotABackup { .. })), "{no_backup}");
}
