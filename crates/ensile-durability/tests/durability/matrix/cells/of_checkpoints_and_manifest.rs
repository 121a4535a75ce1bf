//! Cells of the checkpoint, the manifest and the hint: none of them has a place before or after D.

use super::*;
use crate::matrix::folder::{Folder, Verdict, open};

/// A part of the installed checkpoint that holds entries.
fn part(cells: &Cells) -> String {
    let parts = cells.folder.disk.files().into_iter().filter(|name| name.starts_with("checkpoint"));
    parts.max_by_key(|name| cells.bytes(name).len()).expect("one is installed")
}

/// The damage is an error that names the file.
fn check(name: &str, file: impl Fn(&Cells) -> String, damage: impl Fn(&Cells, &str) -> Change) {
    let cells = Cells::build(Ending::Bare);
    let file = file(&cells);
    let verdict = cells.after(damage(&cells, &file));
    assert!(is_error_in(&verdict, &file), "{name}: {verdict:?}");
}

// ---- a part of the installed checkpoint

#[test]
fn a_damaged_part_of_a_checkpoint_is_an_error_that_names_it() {
    // Its first two blocks' headers and payloads; the last block's header.
    for (at, block) in [(20, 0), (90, 0), (150, 128), (300, 128)] {
        let cells = Cells::build(Ending::Bare);
        let file = part(&cells);
        assert_eq!(cells.after(|disk| disk.flip(&file, at, 1)), error(&file, block), "bit at {at}");
    }
    let length = |cells: &Cells, file: &str| cells.bytes(file).len() as u64;
    check("bit", part, |cells, file| {
        let (at, file) = (length(cells, file) - 9, file.to_owned());
        Box::new(move |disk| disk.flip(&file, at, 1))
    });
    check("sector", part, |cells, file| {
        let mut bytes = cells.bytes(file);
        bytes[512..1024].fill(0);
        replaced(file, bytes)
    });
    for short in [1, 64, 700, u64::MAX] {
        let shorter = |cells: &Cells, file: &str| cut(file, length(cells, file).saturating_sub(short));
        check(&format!("{short} bytes shorter"), part, shorter);
    }
    check("missing", part, |_, file| lost(file));
    check("another file of it", part, |cells, file| {
        let files = cells.folder.disk.files();
        let other = files.iter().find(|name| name.starts_with("checkpoint") && *name != file);
        replaced(file, cells.bytes(other.expect("several files")))
    });
    check("a file of an older one", part, |cells, file| {
        let (folder, name) = file.split_once('/').expect("a folder");
        let number = name.rsplit('-').next().expect("a number");
        let is_older =
            |name: &String| name.starts_with(folder) && name.ends_with(&format!("-{number}")) && name != file;
        let mut copies = cells.folder.earlier.iter();
        let older =
            copies.find_map(|disk| disk.files().into_iter().find(is_older).map(|name| disk.bytes(&name)));
        replaced(file, older.expect("there was one before"))
    });
}

#[test]
fn a_checkpoint_of_another_database_is_an_error() {
    let (cells, other) = (Cells::build(Ending::Bare), Folder::build(8, 400, false));
    let parts = |disk: &SimDisk| disk.files().into_iter().filter(|name| name.starts_with("checkpoint"));
    let verdict = cells.after(|disk| {
        assert_eq!(parts(disk).count(), parts(&other.disk).count());
        for (file, others) in parts(disk).zip(parts(&other.disk)) {
            disk.put(&file, other.disk.bytes(&others));
        }
    });
    assert!(matches!(verdict, Verdict::Damaged { .. }), "{verdict:?}");
}

#[test]
fn a_second_copy_of_a_checkpoints_file_is_ignored() {
    let cells = Cells::build(Ending::Bare);
    let file = part(&cells);
    let (folder, name) = file.split_once('/').expect("a folder");
    let number = name.rsplit('-').next().expect("a number");
    assert_eq!(cells.after(|disk| disk.put(&format!("{folder}/ckpt-99-{number}"), disk.bytes(&file))), WHOLE);
}

// ---- the manifest

fn manifest(_: &Cells) -> String {
    MANIFEST.to_owned()
}

#[test]
fn a_damaged_manifest_is_an_error_that_names_it() {
    for at in [0, 20, 60] {
        check(&format!("bit at {at}"), manifest, |_, _| Box::new(move |disk| disk.flip(MANIFEST, at, 1)));
    }
    for to in [0, 1, 40] {
        check(&format!("cut to {to}"), manifest, |_, file| cut(file, to));
    }
    check("a byte shorter", manifest, |cells, file| cut(file, cells.bytes(file).len() as u64 - 1));
    check("missing", manifest, |_, file| lost(file));
    check("of the generation before", manifest, |cells, file| replaced(file, cells.stale_copy(file)));
}

#[test]
fn a_manifest_of_the_checkpoint_before_or_of_another_database_is_an_error_and_a_second_copy_is_ignored() {
    let cells = Cells::build(Ending::Bare);
    let before = cells.folder.earlier[1].bytes(MANIFEST);
    assert_ne!(before, cells.stale_copy(MANIFEST));
    let verdict = cells.after(|disk| disk.put(MANIFEST, before));
    assert!(matches!(verdict, Verdict::Damaged { .. }), "{verdict:?}");
    let (cells, other) = (Cells::build(Ending::Bare), Cells::build(Ending::Bare));
    let verdict = cells.after(|disk| disk.put(MANIFEST, other.bytes(MANIFEST)));
    assert!(matches!(verdict, Verdict::Damaged { .. }), "{verdict:?}");
    let cells = Cells::build(Ending::Bare);
    assert_eq!(cells.after(|disk| disk.put("MANIFEST.new", disk.bytes(MANIFEST))), WHOLE);
}

/// A manifest that lists one log, beside a second life with two: `has_entries` in the second one's, and nowhere else.
fn manifest_of_one_log(has_entries: bool) -> SimDisk {
    let disk = SimDisk::new();
    let life = open(&disk, 1);
    let mut worker = life.rig.worker();
    life.commit_epoch(&mut worker, 0, Some(b"in log 0"));
    drop((worker, life));
    disk.crash_with(Survival::Everything, 0);
    let before = disk.bytes(MANIFEST);
    let life = open(&disk, 2);
    let mut workers = [life.rig.worker(), life.rig.worker()];
    if has_entries {
        life.commit_epoch(&mut workers[1], 1, Some(b"in log 1"));
    }
    drop((workers, life));
    disk.crash_with(Survival::Everything, 0);
    disk.put(MANIFEST, before);
    disk
}

#[test]
fn a_manifest_from_before_the_only_log_with_entries_is_an_error_however_many_logs_are_opened() {
    let disk = manifest_of_one_log(true);
    let found =
        examine(&(Arc::new(disk.fork()) as Arc<dyn Disk>), &Store::default()).expect("it can be read");
    for loggers in 1..4 {
        let opened = recover(Arc::new(disk.fork()), config(loggers), &Store::default()).map(drop);
        let Err(DurabilityError::Damaged { file, offset, detail }) = opened else { panic!("{opened:?}") };
        assert_eq!((&*file, offset), (MANIFEST, 0), "{detail}");
        assert!(detail.contains("log1/log-2-0 holds entries"), "{detail}");
        let is_it =
            |damage: &Damage| (&damage.file, damage.offset, &damage.detail) == (&file, offset, &detail);
        assert!(found.damage.iter().any(is_it), "{detail} is not in {:?}", found.damage);
    }
    assert!(matches!(found.remedy, Some(Remedy::Copy(_))), "{:?}", found.remedy);
}

#[test]
fn a_file_without_entries_in_a_folder_that_is_not_listed_stays_until_the_folder_is_claimed() {
    let disk = manifest_of_one_log(false);
    let left = disk.bytes("log1/log-2-0");
    drop(open(&disk, 1));
    assert_eq!(disk.bytes("log1/log-2-0"), left);
    disk.crash_with(Survival::Everything, 0);
    drop(open(&disk, 2));
    assert!(!disk.files().contains(&"log1/log-2-0".to_owned()), "it was removed");
}

// ---- the hint: nothing depends on it, and one that is whole is a witness

#[test]
fn a_hint_that_is_damaged_missing_or_older_says_nothing() {
    let cells = Cells::build(Ending::Hinted);
    let long = cells.bytes(HINT).len() as u64;
    for at in 0..long {
        assert_eq!(cells.after(|disk| disk.flip(HINT, at, 1)), WHOLE, "byte {at}");
        assert_eq!(cells.after(cut(HINT, at)), WHOLE, "cut to {at}");
    }
    assert_eq!(cells.after(|disk| disk.lose(HINT)), WHOLE);
    let older = cells.folder.earlier.last().expect("copies").bytes(HINT);
    assert_eq!(cells.after(|disk| disk.put(HINT, older)), WHOLE);
}

#[test]
fn a_hint_of_a_larger_d_is_an_error_and_one_of_another_database_is_another_error() {
    let cells = Cells::build(Ending::Bare);
    let manifest = String::from_utf8(cells.bytes(MANIFEST)).expect("text");
    let own = manifest.split(' ').nth(3).expect("its identity");
    let hint = |database: &str, durable: u64| {
        let body = format!("ensile hint 2\ndatabase {database}\ngeneration 2 durable {durable}\n");
        format!("{body}crc32c {:08x}\n", ensile_base::checksum::crc32c(body.as_bytes())).into_bytes()
    };
    let durable = cells.folder.durable.number();
    assert_eq!(cells.after(|disk| disk.put(HINT, hint(own, durable))), WHOLE);
    let verdict = cells.after(|disk| disk.put(HINT, hint(own, durable + 1)));
    assert!(matches!(verdict, Verdict::Damaged { .. }), "{verdict:?}");
    let stranger = "0123456789abcdef0123456789abcdef";
    for durable in [0, durable, durable + 1] {
        let verdict = cells.after(|disk| disk.put(HINT, hint(stranger, durable)));
        assert!(is_error_in(&verdict, HINT), "{verdict:?}");
    }
}
