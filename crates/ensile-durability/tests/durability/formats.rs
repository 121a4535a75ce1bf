//! L7 and I1 in the blocks: what a newer version wrote, and what is another database's, is said to be that by open,
//! verify, changes and repair alike; nothing is cut or removed for it.

use std::ops::ControlFlow;

use ensile_base::checksum::crc32c_append;

use crate::damage::disk_with_entries;
use crate::prelude::*;

const LOG: &str = "log0/log-1-0";
const HEADER_BYTES: usize = 80;
/// Where an opening block names the salt.
const SALT_AT: usize = 96;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Where each block begins, and its kind.
fn blocks(bytes: &[u8]) -> Vec<(usize, u8)> {
    let (mut at, mut blocks) = (0, Vec::new());
    while bytes.get(at..at + 4) == Some(b"EnsB") {
        blocks.push((at, bytes[at + 6]));
        at += HEADER_BYTES + (u32_at(bytes, at + 12) as usize).next_multiple_of(8);
    }
    blocks
}

/// Changes the header of the block at `index`, and gives all behind it the checksums that they would have been written
/// with.
fn rewrite(bytes: &mut [u8], index: usize, change: impl Fn(&mut [u8])) {
    let (salt, list) = (u32_at(bytes, SALT_AT), blocks(bytes));
    let mut previous = u32_at(bytes, list[index - 1].0 + 76);
    for (number, &(at, _)) in list.iter().enumerate().skip(index) {
        let header = &mut bytes[at..at + HEADER_BYTES];
        if number == index {
            change(header);
        }
        header[68..72].copy_from_slice(&previous.to_le_bytes());
        previous = crc32c_append(salt, &header[..76]);
        header[76..].copy_from_slice(&previous.to_le_bytes());
    }
}

/// All files but the lock's.
fn files(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.files().into_iter().filter(|name| !["LOCK", "LEASES"].contains(&&**name));
    names.map(|name| (name.clone(), disk.bytes(&name))).collect()
}

/// Every way into the folder refuses it for this file, and changes nothing.
fn assert_refused(disk: &SimDisk, file: &str, is_it: impl Fn(&DurabilityError) -> bool) {
    let before = files(disk);
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    match Rig::open(Arc::clone(&on), config(2), Clock::manual()).map(drop) {
        Err(error) if is_it(&error) => assert!(error.to_string().contains(file), "{error}"),
        other => panic!("an open says {other:?}"),
    }
    let found = examine(&on, &Map::default()).expect("it can be read");
    assert!(found.damage.iter().any(|damage| damage.file == file && damage.is_refused), "{found:?}");
    assert!(matches!(found.remedy, Some(Remedy::Copy(_))), "{found:?}");
    assert_eq!(found.durable_epoch, None);
    assert!(matches!(repair(&on, &Map::default()), Err(DurabilityError::Config(_))));
    let mut shown = 0;
    let mut show = |_: Entry<'_>| {
        shown += 1;
        ControlFlow::Continue(())
    };
    let changes = visit_log(&on, &Map::default(), &mut show).expect("it can be read");
    assert!(!changes.damage.is_empty() && shown == 0, "changes show nothing of such a folder");
    assert!(files(disk) == before, "something was changed");
}

fn is_newer(error: &DurabilityError) -> bool {
    matches!(error, DurabilityError::Unknown { detail, .. } if detail.contains("newer version"))
}

#[test]
fn l7_a_block_of_a_newer_version_is_never_a_torn_tail_nor_damage() {
    let whole = disk_with_entries(false);
    let count = blocks(&whole.bytes(LOG)).len();
    assert!(count > 5);
    // An unknown kind, an unknown flag, a later format: of each block, the last one too; with and without a hint.
    for index in 1..count {
        for (at, value) in [(6, 77), (7, 2), (4, 5)] {
            for keep_hint in [true, false] {
                let disk = whole.fork();
                let mut bytes = disk.bytes(LOG);
                rewrite(&mut bytes, index, |header| header[at] = value);
                disk.put(LOG, bytes);
                if !keep_hint {
                    disk.lose("HINT");
                }
                assert_refused(&disk, LOG, is_newer);
            }
        }
    }
}

#[test]
fn l7_a_newer_block_whose_payload_is_cut_or_behind_a_gap_is_no_torn_tail() {
    let disk = disk_with_entries(false);
    let mut bytes = disk.bytes(LOG);
    let list = blocks(&bytes);
    let (index, &(at, _)) = list.iter().enumerate().rfind(|(_, block)| block.1 == 0).expect("a data block");
    rewrite(&mut bytes, index, |header| header[6] = 77);
    bytes.truncate(at + HEADER_BYTES + 8);
    disk.put(LOG, bytes);
    assert_refused(&disk, LOG, is_newer);
    let disk = disk_with_entries(false);
    let mut bytes = disk.bytes(LOG);
    let list = blocks(&bytes);
    rewrite(&mut bytes, list.len() - 1, |header| header[6] = 77);
    let torn = list[list.len() - 2].0;
    bytes[torn + 20] ^= 1;
    disk.put(LOG, bytes);
    assert_refused(&disk, LOG, is_newer);
}

#[test]
fn l7_an_opening_block_of_another_format_than_the_manifest_says_is_damage() {
    let disk = disk_with_entries(false);
    let mut bytes = disk.bytes(LOG);
    bytes[4] = 5;
    let crc = crc32c_append(0, &bytes[..76]);
    bytes[76..80].copy_from_slice(&crc.to_le_bytes());
    disk.put(LOG, bytes);
    match Rig::open(Arc::new(disk.clone()), config(2), Clock::manual()).map(drop) {
        Err(DurabilityError::Damaged { file, offset: 0, detail }) => {
            assert!(file == LOG && detail.contains("format"), "{file}: {detail}");
        }
        other => panic!("{other:?}"),
    }
}

fn is_foreign(error: &DurabilityError) -> bool {
    matches!(error, DurabilityError::NotOurs { found, own, .. } if found != own)
}

#[test]
fn i1_a_log_file_of_another_database_is_refused_and_kept_wherever_it_stands() {
    let other = disk_with_entries(true).bytes(LOG);
    // A listed one's place; the next file's; that of a generation not yet begun, or dropped long ago; beyond the
    // loggers.
    for place in ["log0/log-1-0", "log0/log-1-1", "log0/log-2-0", "log1/log-9-0", "log0/log-0-7"] {
        let disk = disk_with_entries(true);
        disk.put(place, other.clone());
        assert_refused(&disk, place, is_foreign);
    }
}

#[test]
fn i1_a_void_checkpoint_file_of_another_database_is_refused_and_kept() {
    let disk = SimDisk::new();
    let with_checkpoint = |disk: &SimDisk| {
        let (life, mut worker) = Life::with_worker(disk, 1, settings());
        life.commit_epoch(&mut worker, 1, Some(b"value"));
        life.checkpoint().expect("installs");
        drop((worker, life));
        disk.crash(1);
    };
    with_checkpoint(&disk);
    let part = disk.files().into_iter().find(|name| name.starts_with("checkpoint0/ckpt-")).expect("a part");
    let other = SimDisk::new();
    with_checkpoint(&other);
    disk.put("checkpoint0/ckpt-77-0", other.bytes(&part));
    let before = files(&disk);
    match Life::open(&disk, 1, settings()).map(drop) {
        Err(DurabilityError::NotOurs { file, .. }) => assert_eq!(&*file, "checkpoint0/ckpt-77-0"),
        found => panic!("{found:?}"),
    }
    let found = examine(&handle(disk.clone()), &Store::default()).expect("it can be read");
    assert!(found.damage.iter().any(|damage| damage.file == "checkpoint0/ckpt-77-0"), "{found:?}");
    assert!(files(&disk) == before, "something was changed");
    // What tells nothing stays where it is, and keeps nobody from opening. What was being made goes.
    disk.put("checkpoint0/ckpt-77-0", vec![7; 1000]);
    disk.put("checkpoint0/ckpt-78-0", other.bytes(&part)[..60].to_vec());
    drop(Life::open(&disk, 1, settings()).expect("opens"));
    let names = disk.files();
    assert!(
        names.contains(&"checkpoint0/ckpt-77-0".to_owned())
            && !names.contains(&"checkpoint0/ckpt-78-0".to_owned())
    );
}

/// Takes operations only, or nothing.
struct Takes(EntryKind);

impl Recoverable for Takes {
    fn entries(&self) -> EntryKind {
        self.0
    }

    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

#[test]
fn entries_of_a_kind_that_the_state_does_not_take_are_refused() {
    let kinds = [EntryKind::Values, EntryKind::Operations];
    for written in kinds {
        let disk = SimDisk::new();
        let on: Arc<dyn Disk> = Arc::new(disk.clone());
        let rig =
            Rig::open_into(Arc::clone(&on), config(1), Clock::manual(), &Takes(written)).expect("opens");
        let mut worker = rig.worker();
        rig.commit_epoch(&mut worker, 1, b"x");
        drop((worker, rig));
        disk.crash(1);
        let kind_at = OPENING_BYTES as usize - 28;
        assert_eq!(disk.bytes(LOG)[kind_at], u8::from(written == EntryKind::Operations));
        for taken in kinds {
            let on: Arc<dyn Disk> = Arc::new(disk.fork());
            let opened = Rig::open_into(on, config(1), Clock::manual(), &Takes(taken)).map(drop);
            match opened {
                Ok(()) => assert_eq!(taken, written),
                Err(DurabilityError::OtherEntries { found, .. }) => {
                    assert_eq!((found, taken != written), (written, true));
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn an_examination_says_what_entries_are_also_where_there_is_none() {
    for kind in [EntryKind::Values, EntryKind::Operations] {
        let on: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let rig = Rig::open_into(Arc::clone(&on), config(1), Clock::manual(), &Takes(kind)).expect("opens");
        rig.log.close().expect("closes");
        drop(rig);
        let found = examine(&on, &Takes(kind)).expect("it can be read");
        assert!(found.is_whole(), "{found:?}");
        assert_eq!(found.entries, Some(kind));
    }
}

#[test]
fn l5_a_block_of_another_checkpoint_has_a_wrong_checksum() {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    let mut checkpoint = |key| {
        life.commit_epoch(&mut worker, key, Some(b"value"));
        life.checkpoint().expect("installs");
        let has_rows =
            |name: &String| name.starts_with("checkpoint0/") && blocks(&disk.bytes(name)).len() > 2;
        let name = disk.files().into_iter().find(has_rows).expect("a part with rows");
        (disk.bytes(&name), name)
    };
    let ((earlier, _), (installed, name)) = (checkpoint(1), checkpoint(1));
    assert_ne!(u32_at(&earlier, SALT_AT), u32_at(&installed, SALT_AT), "each checkpoint has its own");
    drop((worker, life));
    disk.crash(1);
    let mut mixed = installed.clone();
    let end = blocks(&earlier)[2].0;
    mixed[OPENING_BYTES as usize..end].copy_from_slice(&earlier[OPENING_BYTES as usize..end]);
    disk.put(&name, mixed);
    match Life::open(&disk, 1, settings()).map(drop) {
        Err(DurabilityError::Damaged { file, offset, detail }) => {
            assert_eq!((file, offset), (name, OPENING_BYTES));
            assert!(detail.contains("header's checksum is wrong"), "{detail}");
        }
        found => panic!("{found:?}"),
    }
}

#[test]
fn l5_a_file_whose_first_block_contradicts_itself_is_damage_whatever_stands_behind_it() {
    let (disk, rig) = Rig::first_life(1);
    rig.commit_epoch(&mut rig.worker(), 1, b"row");
    disk.kill();
    drop(rig);
    let mut bytes = disk.bytes("log0/log-1-0");
    // D before the mark of the block itself.
    bytes[56..64].copy_from_slice(&1_000_u64.to_le_bytes());
    let crc = crc32c_append(0, &bytes[..76]);
    bytes[76..80].copy_from_slice(&crc.to_le_bytes());
    // A mark that stands in the place of the first block.
    let salt = u32::from_le_bytes(bytes[96..100].try_into().expect("four bytes"));
    let mut mark = bytes[..80].to_vec();
    mark[6] = 1;
    mark[12..16].fill(0);
    mark[72..76].fill(0);
    let crc = crc32c_append(salt, &mark[..76]);
    mark[76..80].copy_from_slice(&crc.to_le_bytes());
    bytes[128..208].copy_from_slice(&mark);
    disk.put("log0/log-1-0", bytes);
    let opened = Rig::open(
        std::sync::Arc::new(disk.clone()),
        crate::rig::config(1),
        ensile_base::clock::Clock::manual(),
    );
    let error = opened.err().expect("refused");
    assert!(matches!(error, ensile_durability::DurabilityError::Damaged { .. }), "{error}");
}
