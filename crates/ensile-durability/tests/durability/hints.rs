//! Whose a hint is (I1): one of another database is neither believed nor written over.

use crate::prelude::*;

/// A database with this number of rows, an epoch each, closed.
fn closed(rows: u64) -> SimDisk {
    let disk = SimDisk::new();
    let rig = Rig::open(on(&disk), config(1), Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    for row in 0..rows {
        rig.commit_epoch(&mut worker, row, b"row");
    }
    rig.log.close().expect("closes");
    drop((worker, rig));
    disk.kill();
    disk
}

fn rows(disk: &SimDisk) -> Result<usize, DurabilityError> {
    let opened = Rig::open(on(disk), config(1), Clock::manual()).map(|rig| rig.rows.len());
    disk.kill();
    opened
}

fn all(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    disk.files().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

#[test]
fn i1_a_hint_of_another_database_is_refused_and_never_believed() {
    // Of the same generation, with a larger D and with a smaller one.
    for others in [9, 1] {
        let (disk, other) = (closed(3), closed(others));
        let own = disk.bytes("HINT");
        disk.put("HINT", other.bytes("HINT"));
        let before = all(&disk);
        let refused = rows(&disk);
        assert!(
            matches!(&refused, Err(DurabilityError::NotOurs { file, .. }) if **file == *"HINT"),
            "{refused:?}"
        );
        let found = examine(&on(&disk), &Map::default()).expect("it can be read");
        let [damage] = &found.damage[..] else { panic!("{found:?}") };
        assert!(damage.file == "HINT" && damage.is_refused, "{damage:?}");
        assert!(matches!(found.remedy, Some(Remedy::Copy(_))), "{found:?}");
        assert!(repair(&on(&disk), &Map::default()).is_err());
        assert_eq!(all(&disk), before, "it was not written over");
        disk.kill();
        let without = disk.fork();
        without.lose("HINT");
        assert_eq!(rows(&without).expect("moved away"), 3);
        disk.put("HINT", own);
        assert_eq!(rows(&disk).expect("put back"), 3);
    }
}

#[test]
fn i1_an_adopted_copy_keeps_its_hint_as_a_witness_and_its_originals_next_one_says_nothing() {
    let disk = closed(3);
    let original = disk.fork();
    adopt(&on(&disk)).expect("adopts");
    disk.kill();
    let damaged = disk.fork();
    let log = "log0/log-1-0";
    let bytes = damaged.bytes(log);
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it is used");
    damaged.put(log, bytes[..used - 8].to_vec());
    let refused = rows(&damaged);
    assert!(matches!(&refused, Err(DurabilityError::Damaged { file, .. }) if file == log), "{refused:?}");
    assert_eq!(rows(&disk).expect("opens"), 3);
    // Both are in their second generation now.
    assert_eq!(rows(&original).expect("opens"), 3);
    let rig = Rig::open(on(&original), config(1), Clock::manual()).expect("opens");
    rig.commit_epoch(&mut rig.worker(), 9, b"row");
    rig.log.close().expect("closes");
    disk.put("HINT", original.bytes("HINT"));
    assert_eq!(rows(&disk).expect("the parent's hint is as none"), 3);
}
