//! Folders of restores that fail.
//!
//! Neighbours: kills of restores are in `ci/copies.sh` and in the tests of backups.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::files::manifest::creation_marker::UnfinishedCopy;
use crate::identity::Identity;
use crate::store::open::{Opening, Store};

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ensile-{name}-{}", std::process::id()))
}

/// Writes the first manifest, and ends without a copy.
fn begin(target: &RestoreTarget) -> Result<(), DurabilityError> {
    let copy = UnfinishedCopy::Restore { of: Identity::draw() };
    Store::open_for_copy(Arc::clone(target.disk()), Opening::New, copy).map(|_| ())
}

fn fail(target: RestoreTarget) {
    target.finish::<(), _>(Err(DurabilityError::config("it fails")), false).expect_err("it failed");
}

#[test]
fn n24_a_restore_that_comes_second_leaves_the_folder_of_the_first_one() {
    let path = path("two-restores");
    let open = || RestoreTarget::open(&path, &[]).expect("makes");
    let (first, second) = (open(), open());
    assert!(!path.exists(), "no manifest names a copy yet");
    begin(&first).expect("nothing is there");
    let late = begin(&second);
    second.finish(late, false).expect_err("the folder is there");
    assert!(path.exists());
    fail(first);
    assert!(!path.exists(), "it was made for nothing");
}

#[test]
fn n24_a_failed_restore_leaves_a_folder_that_has_taken_its_place() {
    let (path, moved) = (path("taken-place"), path("taken-place-moved"));
    let target = RestoreTarget::open(&path, &[]).expect("makes");
    begin(&target).expect("nothing is there");
    fs::rename(&path, &moved).expect("moves");
    fs::create_dir(&path).expect("makes");
    fs::write(path.join("notes"), "mine").expect("writes");
    fail(target);
    assert_eq!(fs::read_to_string(path.join("notes")).expect("is there"), "mine");
    fs::remove_dir_all(&path).and_then(|()| fs::remove_dir_all(&moved)).expect("both are there");
}
