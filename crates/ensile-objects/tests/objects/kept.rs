//! Folders of objects that are kept: what a version has written opens for good.
//!
//! `tests/fixtures/nameless` was written by `written` below without a name, as versions before the name wrote, and
//! `tests/fixtures/named` with one, in a manifest of format 4, as was done for a few days. The manifest of `named-5` is
//! of format 5. The manifest of `named-7` is of format 7, with the type of the keys
//! (`ENSILE_WRITE_FIXTURE=crates/ensile-objects/tests/fixtures cargo test -p ensile-objects --test objects kept` writes
//! such folders there; a kept one is never written again). Each has a checkpoint, a life before it and one behind it,
//! removals, and an object that stands in pieces.
//!
//! Neighbours: `docs/internals/formats`, whose examples are tied to the code byte by byte; `ensile`'s `compatibility`
//! has folders of databases.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensile_disk::{Disk, RealDisk};
use ensile_durability::{Adopted, DurabilityError, adopt};
use ensile_objects::folder::judge_folder;
use ensile_objects::{CheckpointPolicy, Objects, ObjectsBuilder, ObjectsResult};

use crate::rig::Rows;
use crate::tally::{Change, Tally};

const NAME: &str = "tallies, partition 0 of 4";
/// Each with the format of its manifest.
const KEPT: [(&str, Option<&str>, &str); 4] = [
    ("nameless", None, "ensile manifest 4\n"),
    ("named", Some(NAME), "ensile manifest 4\n"),
    ("named-5", Some(NAME), "ensile manifest 5\n"),
    ("named-7", Some(NAME), "ensile manifest 7\n"),
];
/// It stands in pieces.
const LARGE_BYTES: u32 = 100_000;

fn open(folder: &Path, name: Option<&str>) -> ObjectsResult<Objects<u64, Tally>> {
    let builder = ObjectsBuilder::new(folder).policy(&CheckpointPolicy::on_demand());
    name.map_or(builder.clone(), |name| builder.application_name(name)).open()
}

fn rows(objects: &Objects<u64, Tally>) -> Rows {
    let mut rows = Rows::new();
    objects.for_each(|key: &u64, tally: &Tally| drop(rows.insert(*key, tally.clone()))).expect("reads");
    rows
}

/// Lives two lives in the folder; what must be there afterwards.
fn written(folder: &Path, name: Option<&str>) -> Rows {
    let objects = open(folder, name).expect("is new");
    for key in 0..20 {
        objects.update(key, &Change::Add(key)).expect("is durable");
    }
    objects.close().expect("closes");
    let objects = open(folder, name).expect("opens");
    objects.update(7, &Change::Grow(LARGE_BYTES)).expect("is durable");
    objects.update(8, &Change::Toggle).expect("is durable");
    objects.checkpoint().wait().expect("is installed");
    for key in 5..10 {
        objects.update(key, &Change::Add(key)).expect("is durable");
    }
    objects.remove(9).expect("logs").durable().expect("is durable");
    let rows = rows(&objects);
    objects.close().expect("closes");
    rows
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("read") {
        let from = entry.expect("read").path();
        let to = to.join(from.file_name().expect("a name"));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, to).expect("copied");
        }
    }
}

fn adopted(folder: &Path) -> Result<Adopted, DurabilityError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_existing(folder)?);
    adopt(&disk)
}

#[test]
fn i5_folders_that_are_kept_open_with_their_name_and_without_one() {
    let fresh = std::env::temp_dir().join(format!("ensile-objects-kept-{}", std::process::id()));
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir_all(&fresh).expect("made");
    let begins = |folder: &Path, title: &str| {
        let text = fs::read_to_string(folder.join("MANIFEST")).expect("is there");
        assert!(text.starts_with(title), "{text}");
    };
    for (kind, name, title) in KEPT {
        let today = fresh.join(format!("{kind}-today"));
        let expected = written(&today, name);
        assert_eq!(expected[&7].padding.len(), LARGE_BYTES as usize);
        if let Some(keep) = std::env::var_os("ENSILE_WRITE_FIXTURE").map(PathBuf::from) {
            let keep = keep.join(kind);
            assert!(!keep.exists(), "a kept folder is never written again: {}", keep.display());
            copy(&today, &keep);
        }
        let kept = fresh.join(kind);
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind), &kept);
        begins(&kept, title);
        // A program that does not know types says that it is newer (L7).
        begins(&today, "ensile manifest 7\n");
        // A kept folder is a copy wherever it is checked out.
        adopted(&kept).expect("is adopted");
        for folder in [today, kept] {
            let found = judge_folder(&folder).expect("is read");
            assert!(found.is_whole(), "{found:?}");
            assert_eq!((found.examination.application.as_deref(), found.loaded), (name, 19));
            let refused = open(&folder, Some("stock")).map(drop);
            assert_eq!(refused.is_err(), name.is_some(), "{kind}");
            if name.is_some() {
                assert!(open(&folder, None).is_err());
                let objects = open(&folder, name).expect("is its own");
                assert_eq!(rows(&objects), expected);
                objects.close().expect("closes");
            } else {
                // It got the name that it was opened for.
                let objects = open(&folder, Some("stock")).expect("is its own now");
                assert_eq!(rows(&objects), expected);
                objects.close().expect("closes");
                assert!(open(&folder, Some(NAME)).is_err());
            }
        }
    }
    fs::remove_dir_all(&fresh).expect("is removed");
}
