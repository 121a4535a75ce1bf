//! The mark's text, its damages, and a crash while it is written.

use ensile_sim::{SimDisk, Survival};

use super::*;
use crate::samples::{changes, identity, text_example};

fn mark() -> Mark {
    let main = FolderId { inode: 131_073, born_nanos: Some(1_763_812_345_123_456_789) };
    Mark { database: identity(), name: "log0".to_owned(), main }
}

fn with(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    disk.put("log0/FOLDER", bytes.to_vec());
    disk
}

#[test]
fn the_documented_text_is_the_one_that_is_written() {
    let document = include_str!("../../../../../docs/internals/formats/folder.md");
    assert_eq!(text_example(document, 1), mark().to_string());
    let disk = with(mark().to_string().as_bytes());
    assert_eq!(Mark::read(&disk, "log0").expect("reads"), Some(mark()));
}

#[test]
fn a_changed_or_cut_mark_is_damaged_and_names_its_file() {
    for (at, bytes) in changes(&mark().to_string()) {
        for bytes in bytes {
            let error = Mark::read(&with(&bytes), "log0").expect_err("it is not whole").to_string();
            assert!(error.contains("log0/FOLDER"), "byte {at}: {error}");
        }
    }
}

#[test]
fn a_crash_while_a_mark_is_written_leaves_the_old_one_or_the_new_one() {
    let before = Mark { database: Identity::draw(), ..mark() };
    for seed in 0..60 {
        let disk = SimDisk::new();
        disk.create_folder("log0").expect("makes");
        disk.sync_folder("").expect("syncs");
        before.prepare(&disk).and_then(|()| before.place(&disk)).expect("writes");
        disk.cut_power_at(disk.calls().all + 1 + seed % 8);
        let done = mark().prepare(&disk).and_then(|()| mark().place(&disk));
        disk.crash_with(Survival::Random, seed);
        let found = Mark::read(&disk, "log0").expect("whole").expect("there is one");
        assert!(found == mark() || done.is_err() && found == before, "seed {seed}: {found:?}");
    }
}
