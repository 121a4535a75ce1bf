//! L5: what was durable and cannot be read is an error that names file and offset, never dropped in silence.

use ensile_disk::{DiskLock, RealDisk};

use crate::prelude::*;

/// Two logs, three durable epochs in each, on a disk that has lost power since.
pub(crate) fn disk_with_entries(closed: bool) -> SimDisk {
    let (disk, rig) = Rig::first_life(2);
    let mut workers = [rig.worker(), rig.worker()];
    for key in 0..3 {
        for worker in &mut workers {
            worker.commit(&rig.epochs, key, &[1; 300]).expect("runs");
        }
        rig.settle();
    }
    if closed {
        rig.log.close().expect("closes");
    }
    disk.crash(1);
    disk
}

/// What an open says, which an examination must have said before, without changing anything.
fn damage_found(disk: &SimDisk) -> (String, u64, String) {
    let examined = examined(disk);
    let found = damage_at_open(disk);
    let is_same =
        |damage: &Damage| (&damage.file, damage.offset, &damage.detail) == (&found.0, found.1, &found.2);
    assert!(examined.damage.iter().any(is_same), "{found:?} is not in {:?}", examined.damage);
    assert_eq!(examined.durable_epoch, None);
    found
}

/// An examination of the disk, which must be as before.
pub(crate) fn examined(disk: &SimDisk) -> Examination {
    let all = |disk: &SimDisk| {
        let files = disk.files().into_iter().filter(|name| !["LOCK", "LEASES"].contains(&&**name));
        files.map(|name| (disk.bytes(&name), name)).collect::<Vec<_>>()
    };
    let before = all(disk);
    let found = examination::examine(&handle(disk.clone()), &Map::default()).expect("it can be read");
    assert!(all(disk) == before, "an examination changed something");
    found
}

fn damage_at_open(disk: &SimDisk) -> (String, u64, String) {
    match Rig::open(Arc::new(disk.clone()), config(2), Clock::manual()).map(|_| ()) {
        Err(DurabilityError::Damaged { file, offset, detail }) => (file, offset, detail),
        Err(DurabilityError::NotOurs { file, found, own }) => {
            (file.into(), 0, format!("it belongs to another database ({found}, and this one is {own})"))
        }
        other => panic!("damage must be found, not {other:?}"),
    }
}

#[test]
fn a_folder_that_must_not_be_written_is_examined() {
    let [whole, damaged] = [false, true].map(disk_with_entries);
    damaged.flip("log0/log-1-0", 200, 1);
    for disk in [whole, damaged] {
        let writable = examined(&disk);
        disk.set_read_only(true);
        assert_eq!(examined(&disk), writable);
    }
}

/// Takes the folder while it is being examined, as an open by another process would.
struct OpensMeanwhile {
    disk: Arc<dyn Disk>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl Recoverable for OpensMeanwhile {
    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut lock = self.lock.lock().expect("no panic");
        lock.get_or_insert_with(|| self.disk.lock("LOCK").expect("there was nothing to lock"));
        Ok(())
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay(entries)
    }
}

#[test]
fn a_folder_without_a_lock_that_is_opened_while_it_is_examined_is_in_use() {
    let folder = std::env::temp_dir().join(format!("ensile-examined-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&folder).expect("opens"));
    let rig = Rig::open(Arc::clone(&disk), config(1), Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, &[1; 300]);
    rig.log.close().expect("closes");
    drop((worker, rig));
    std::fs::remove_file(folder.join("LOCK")).expect("was there");
    assert!(examination::examine(&disk, &Map::default()).expect("can be read").damage.is_empty());
    let other = OpensMeanwhile { disk: Arc::clone(&disk), lock: Mutex::new(None) };
    let found = examination::examine(&disk, &other);
    assert!(matches!(found, Err(DurabilityError::InUse { .. })), "{found:?}");
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// Header, key, value, frame, padded.
const DATA_BLOCK_BYTES: u64 = 80 + 12 + 8 + 300;
const STEP_BYTES: u64 = DATA_BLOCK_BYTES + 80;

#[test]
fn damage_below_d_names_its_file() {
    const LOGS: [&str; 2] = ["log0/log-1-0", "log1/log-1-0"];
    type Row = (&'static str, fn(&SimDisk), &'static str, Option<u64>, &'static str);
    let rows: [Row; 8] = [
        (
            "a bit of a payload",
            |disk| disk.flip(LOGS[1], OPENING_BYTES + STEP_BYTES + 100, 4),
            LOGS[1],
            Some(OPENING_BYTES + STEP_BYTES),
            "checksum",
        ),
        (
            "a bit of a header",
            |disk| disk.flip(LOGS[0], OPENING_BYTES + 20, 1),
            LOGS[0],
            Some(OPENING_BYTES),
            "",
        ),
        (
            "an older generation",
            |disk| {
                drop(Rig::simulated(disk, 1));
                disk.crash(2);
                disk.flip(LOGS[0], OPENING_BYTES + 2 * STEP_BYTES + 90, 1);
            },
            LOGS[0],
            None,
            "",
        ),
        ("a listed log is missing", |disk| disk.lose(LOGS[1]), LOGS[1], None, "missing"),
        ("no manifest, and entries", |disk| disk.lose("MANIFEST"), "MANIFEST", None, ""),
        ("a byte of the manifest", |disk| disk.flip("MANIFEST", 30, 1), "MANIFEST", None, ""),
        (
            "logs that are not listed and cannot be read, and are not removed",
            |disk| {
                disk.lose("MANIFEST");
                LOGS.iter().for_each(|log| disk.flip(log, 20, 1));
            },
            "MANIFEST",
            None,
            "",
        ),
        (
            "a log of another database, whose own bytes are whole",
            |disk| {
                let [closed, other] = [true, true].map(disk_with_entries);
                closed.files().iter().for_each(|file| disk.put(file, closed.bytes(file)));
                disk.put(LOGS[1], other.bytes(LOGS[1]));
            },
            LOGS[1],
            None,
            "another database",
        ),
    ];
    for (name, change, file, offset, detail) in rows {
        let disk = disk_with_entries(false);
        change(&disk);
        let found = damage_found(&disk);
        assert!(found.0 == file && offset.is_none_or(|at| at == found.1), "{name}: {found:?}");
        assert!(found.2.contains(detail), "{name}: {found:?}");
    }
}

/// It cannot be read, or a later one stands in its place.
#[test]
fn a_damaged_first_file_is_damage_and_no_other_stands_in_for_it() {
    let (disk, files) = disk_with_files();
    let unread = disk.fork();
    unread.flip(&files[0], 32, 16);
    disk.put(&files[0], disk.bytes(&files[2]));
    assert_eq!([unread, disk].map(|disk| damage_found(&disk).0), [files[0].clone(), files[0].clone()]);
}

#[test]
fn every_flipped_byte_of_a_closed_log_is_found() {
    let whole = disk_with_entries(true).bytes("log0/log-1-0").len() as u64;
    // Of the last mark every byte.
    for at in (0..whole).filter(|at| at % 41 == 0 || *at >= whole - 80) {
        let disk = disk_with_entries(true);
        disk.flip("log0/log-1-0", at, 0x80);
        let (file, offset, _) = damage_found(&disk);
        assert_eq!(file, "log0/log-1-0");
        assert!(offset <= at && at < offset + DATA_BLOCK_BYTES, "at {at}: {offset}");
    }
}

#[test]
fn a_closed_log_cut_anywhere_is_damaged_and_without_the_hint_loses_nothing_or_is_damaged() {
    let whole = disk_with_entries(true).bytes("log0/log-1-0").len() as u64;
    for length in 0..whole {
        for hint in [true, false] {
            let disk = disk_with_entries(true);
            disk.open("log0/log-1-0").expect("opens").set_len(length).expect("cuts");
            if hint {
                assert_eq!(damage_found(&disk).0, "log0/log-1-0", "cut to {length}");
                continue;
            }
            disk.lose("HINT");
            match Rig::open(Arc::new(disk.clone()), config(2), Clock::manual()) {
                Ok(rig) => assert_eq!(rig.rows.len(), 3, "cut to {length}"),
                Err(error) => assert!(matches!(error, DurabilityError::Damaged { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn a_hint_written_while_the_database_ran_tells_damage_from_a_torn_tail() {
    for keep_hint in [true, false] {
        let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
        rig.commit_epoch(&mut worker, 1, b"one");
        let end = rig.log.stats().bytes + OPENING_BYTES;
        rig.commit_epoch(&mut worker, 2, b"two");
        rig.log.hint_step();
        drop((worker, rig));
        // It is not synced: the process dies, the machine lives on.
        disk.kill();
        disk.flip("log0/log-1-0", end + 4, 1);
        if keep_hint {
            let (file, offset, _) = damage_found(&disk);
            assert_eq!((&*file, offset), ("log0/log-1-0", end));
        } else {
            disk.lose("HINT");
            let rig = Rig::simulated(&disk, 1);
            assert_eq!(
                (rig.rows.len(), rig.report.torn_tails.len()),
                (1, 1),
                "nothing else shows what was durable"
            );
        }
    }
}

#[test]
fn the_hint_is_written_about_every_second_and_nobody_waits_for_it() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    for (key, nanos, is_written) in [(1, 0, true), (2, 900, false), (3, 200, true)] {
        rig.commit_epoch(&mut worker, key, b"x");
        rig.clock.advance(Duration::from_millis(nanos));
        let before = disk.calls();
        rig.log.hint_step();
        let after = disk.calls();
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (u64::from(is_written), 0));
    }
    let before = disk.calls();
    rig.clock.advance(Duration::from_secs(2));
    rig.log.hint_step();
    assert_eq!(disk.calls(), before, "D stands still");
}

#[test]
fn an_emptied_log_is_damage_though_no_other_log_shows_what_it_held() {
    let (disk, rig) = Rig::first_life(1);
    rig.commit_epoch(&mut rig.worker(), 1, b"durable");
    disk.crash(1);
    disk.open("log0/log-1-0").expect("opens").set_len(0).expect("cuts");
    let (file, offset, detail) = damage_found(&disk);
    assert_eq!((&*file, offset), ("log0/log-1-0", 0));
    assert!(detail.contains("begins with a mark"), "{detail}");
}

#[test]
fn a_missing_file_in_the_middle_of_a_log_is_damage() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.fill_files(&mut worker, 80);
    assert!(rig.log.stats().rolls >= 3);
    disk.crash(3);
    let closed = disk.list("log0").expect("lists").into_iter().find(|name| name.starts_with("log-1-2-to-"));
    disk.lose(&format!("log0/{}", closed.expect("a closed file")));
    assert_eq!(damage_found(&disk).0, "log0/log-1-2");
}

/// One log with a durable epoch in its first file and another in its second, on a disk that has lost power since.
fn disk_with_two_files() -> SimDisk {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.commit_epoch(&mut worker, 1, &[1; 20_000]);
    assert_eq!(rig.log.stats().rolls, 1);
    let tid = rig.commit_epoch(&mut worker, 2, b"durable");
    assert!(rig.log.durable_epoch() >= tid.epoch());
    drop((worker, rig));
    disk.crash(4);
    disk
}

#[test]
fn a_damaged_opening_mark_with_blocks_behind_it_is_not_a_torn_tail() {
    for at in [4, 20, 64, 76, 90, 127] {
        let disk = disk_with_two_files();
        disk.lose("HINT");
        disk.flip("log0/log-1-1", at, 1);
        let (file, offset, _) = damage_found(&disk);
        assert_eq!((&*file, offset), ("log0/log-1-1", 0), "at {at}");
    }
}

#[test]
fn a_damaged_mark_that_the_next_file_shows_to_be_synced_is_not_a_torn_tail() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(2);
    let tid = worker.commit(&rig.epochs, 1, &[1; 20_000]).expect("runs");
    rig.advance();
    // This log's mark is synced and its file closed before the other log has its mark: so no block shows this D.
    rig.log.logger_step(0);
    assert_eq!(rig.log.stats().rolls, 1);
    rig.log.logger_step(1);
    assert!(rig.log.durable_epoch() >= tid.epoch());
    drop((worker, rig));
    disk.crash_with(Survival::Everything, 5);
    let closed = disk.list("log0").expect("lists").into_iter().find(|name| name.starts_with("log-1-0-to-"));
    let closed = format!("log0/{}", closed.expect("a closed file"));
    let mark_at = disk.bytes(&closed).len() as u64 - 80;
    disk.flip(&closed, mark_at + 50, 1);
    assert_eq!(
        damage_found(&disk),
        (
            closed,
            mark_at,
            "the block header's checksum is wrong; a later block of this log was written after it was synced"
                .to_owned()
        )
    );
}

#[test]
fn a_damaged_mark_that_a_later_block_shows_to_be_synced_is_not_a_torn_tail() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(2);
    let tid = worker.commit(&rig.epochs, 1, b"durable").expect("runs");
    rig.advance();
    rig.log.logger_step(0);
    let end = disk.bytes("log0/log-1-0").iter().rposition(|byte| *byte != 0).expect("written") as u64;
    // Written before the other log has its mark, so it shows no D, only what was synced here.
    worker.commit(&rig.epochs, 2, b"later").expect("runs");
    rig.advance();
    rig.log.logger_step(0);
    rig.log.logger_step(1);
    assert!(rig.log.durable_epoch() >= tid.epoch());
    drop((worker, rig));
    disk.kill();
    disk.lose("HINT");
    disk.flip("log0/log-1-0", end - 20, 1);
    assert_eq!(damage_found(&disk).0, "log0/log-1-0");
}

/// A block as the log writes them, under a checksum that everybody can work out: it says that a far epoch is durable.
fn forged_block() -> [u8; 80] {
    let mut block = [0; 80];
    block[..8].copy_from_slice(b"EnsB\x04\0\x01\0");
    block[16..24].copy_from_slice(&1u64.to_le_bytes());
    block[24..32].copy_from_slice(&1000u64.to_le_bytes());
    for at in [32, 40, 48, 56] {
        block[at..at + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    }
    let crc = crc32c(&block[..76]);
    block[76..].copy_from_slice(&crc.to_le_bytes());
    block
}

#[test]
fn a_block_forged_inside_a_value_of_a_torn_tail_keeps_no_database_closed() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.commit_epoch(&mut worker, 1, b"durable");
    let value_at =
        disk.bytes("log0/log-1-0").iter().rposition(|byte| *byte != 0).expect("written") as u64 + 1;
    // At each offset that a block can have, whatever stands before the value.
    let hostile = (0..8).fold(Vec::new(), |mut value, shift| {
        value.resize(shift * 89, 0);
        value.extend_from_slice(&forged_block());
        value
    });
    rig.commit_epoch(&mut worker, 2, &hostile);
    drop((worker, rig));
    disk.crash(1);
    // Its block is torn: the last one, so that nothing shows that its epoch was durable.
    disk.flip("log0/log-1-0", value_at.next_multiple_of(8) + 20, 1);
    let judged = examined(&disk);
    assert!(judged.damage.is_empty(), "{:?}", judged.damage);
    assert_eq!(judged.torn_tails.len(), 1);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows.keys().collect::<Vec<_>>(), [&1]);
    assert!(rig.first.number() < 1 << 39, "what is forged in the value is not believed");
    assert_eq!(rig.report.torn_tails.len(), 1);
}

#[test]
fn the_hint_shows_no_epoch_that_passed_without_a_synced_mark() {
    let (disk, rig) = Rig::first_life(1);
    for _ in 0..5 {
        rig.settle();
    }
    assert!(rig.log.durable_epoch() > rig.first, "D passes epochs without entries, and writes nothing");
    rig.log.hint_step();
    drop(rig);
    disk.kill();
    assert!(Rig::simulated(&disk, 1).report.torn_tails.is_empty(), "nothing was lost");
}

/// One log in several files, and their names in order.
fn disk_with_files() -> (SimDisk, Vec<String>) {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.fill_files(&mut worker, 80);
    disk.crash(3);
    let files: Vec<_> = disk.files().into_iter().filter(|name| name.contains("log-")).collect();
    assert!(files.len() > 3);
    (disk, files)
}

#[test]
fn an_emptied_newest_file_of_an_only_log_is_damage_as_the_one_before_was_closed() {
    let (disk, files) = disk_with_files();
    let newest = files.last().expect("several");
    disk.lose("HINT");
    disk.put(newest, Vec::new());
    let (file, offset, detail) = damage_found(&disk);
    assert_eq!((&file, offset), (newest, 0));
    assert!(detail.contains("the file is empty") && detail.contains("closed"), "{detail}");
}

#[test]
fn the_first_file_of_a_log_under_a_later_number_is_damage() {
    // A number behind a gap is that of a log whose beginning a checkpoint covers; the first file needs none to cover
    // it.
    let disk = disk_with_two_files();
    disk.lose("HINT");
    let files = disk.files();
    let first = files.iter().find(|name| name.starts_with("log0/log-1-0")).expect("it is closed");
    disk.put("log0/log-1-3", disk.bytes(first));
    disk.lose(first);
    let (file, _, detail) = damage_found(&disk);
    assert_eq!(file, "log0/log-1-3");
    assert!(detail.contains("in place of a later one"), "{detail}");
}
