//! An installed checkpoint is whole, and so is the log up to its e_h; anything else is damage (K1).

use crate::prelude::*;

/// A disk with an installed checkpoint of twenty keys with this value, which has lost power since.
fn disk_with_checkpoint(value: &[u8]) -> SimDisk {
    disk_with_keys(0, value)
}

/// The same with the keys from `first` on.
fn disk_with_keys(first: u64, value: &[u8]) -> SimDisk {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    for key in first..first + 20 {
        life.commit(&mut worker, key, Some(value));
    }
    life.rig.settle();
    let report = life.checkpoint().expect("installs");
    assert_eq!(report.entries, 20);
    drop((worker, life));
    disk.crash(1);
    disk.lose("HINT");
    disk
}

/// The files of the installed checkpoint that hold rows.
fn parts(disk: &SimDisk) -> Vec<String> {
    let is_part = |name: &String| name.contains("/ckpt-") && disk.bytes(name).len() > 128 + 96;
    disk.files().into_iter().filter(is_part).collect()
}

fn damage_found(disk: &SimDisk) -> String {
    match Life::open(disk, 1, settings()).map(|_| ()) {
        Err(DurabilityError::Damaged { file, .. }) => file,
        other => panic!("damage must be found, not {other:?}"),
    }
}

#[test]
fn a_file_of_an_installed_checkpoint_that_is_lost_cut_lengthened_or_changed_is_damage() {
    let disk = disk_with_checkpoint(b"value");
    let part = parts(&disk).swap_remove(0);
    let bytes = disk.bytes(&part);
    let hurt = |change: &dyn Fn(&SimDisk)| {
        let hurt = disk.fork();
        change(&hurt);
        assert_eq!(damage_found(&hurt), part);
    };
    hurt(&|disk| disk.lose(&part));
    for at in 0..bytes.len() {
        hurt(&|disk| disk.put(&part, bytes[..at].to_vec()));
        hurt(&|disk| disk.flip(&part, at as u64, 0x10));
    }
    hurt(&|disk| disk.put(&part, [&*bytes, &[0; 8]].concat()));
}

#[test]
fn i1_a_whole_file_of_another_databases_checkpoint_is_said_to_be_that() {
    // Numbers, epochs and counts are the same; only the values differ. Or keys would be loaded twice, which the store
    // refuses.
    for (first, value) in [(0, b"your"), (6, b"your")] {
        let (disk, other) = (disk_with_keys(0, b"mine"), disk_with_keys(first, value));
        let names = parts(&disk);
        assert_eq!(names.len(), 2);
        for part in names {
            let mixed = disk.fork();
            mixed.put(&part, other.bytes(&part));
            match Life::open(&mixed, 1, settings()).map(drop) {
                Err(DurabilityError::NotOurs { file, .. }) => assert_eq!(*file, *part),
                found => panic!("{found:?}"),
            }
        }
    }
}

#[test]
fn a_file_says_what_to_do_with_it() {
    let disk = disk_with_checkpoint(b"value");
    let part = parts(&disk).swap_remove(0);
    let told = |bytes: Vec<u8>| {
        let hurt = disk.fork();
        hurt.put(&part, bytes);
        Life::open(&hurt, 1, settings()).map(drop).expect_err("it is not what was written").to_string()
    };
    let mut newer = disk.bytes(&part);
    newer[4] = 9;
    let crc = ensile_base::checksum::crc32c(&newer[..76]);
    newer[76..80].copy_from_slice(&crc.to_le_bytes());
    let text = told(newer);
    assert!(text.contains(&part) && text.contains("use the version that wrote it"), "{text}");
    let log = disk.files().into_iter().find(|name| name.starts_with("log0/log-")).expect("a log");
    let text = told(disk.bytes(&log));
    assert!(
        text.contains(&part) && text.contains("not a file of a checkpoint; restore it from a copy"),
        "{text}"
    );
}

#[test]
fn a_log_that_ends_below_e_h_is_damage_though_no_block_shows_more() {
    let disk = disk_with_checkpoint(b"value");
    let log = disk.files().into_iter().rfind(|name| name.starts_with("log0/log-")).expect("a log");
    let end = disk.bytes(&log).iter().rposition(|byte| *byte != 0).expect("written") as u64;
    disk.flip(&log, end - 20, 1);
    assert_eq!(damage_found(&disk), log);
}
