//! Log files that a checkpoint or a merge has taken off the manifest's list while the archive was full, and that are
//! damaged before the next open archives them: nothing of them is lost unsaid (A1).

use super::rig::*;
use crate::prelude::*;

/// Files that are in no listed generation, and what the archive has once they are archived as they were written.
struct Unlisted {
    disk: SimDisk,
    files: Vec<String>,
    /// D of generation 1, and how many entries with its epochs it has.
    durable: Epoch,
    entries: u64,
}

fn of_first(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.starts_with("log") && name.contains("/log-1-")).collect()
}

/// Commits small rows, an epoch each.
fn write_small(life: &Life, workers: &mut [Worker], keys: std::ops::Range<u64>) {
    for key in keys {
        for worker in &mut *workers {
            life.commit(worker, key, Some(&[key as u8; 40]));
        }
        life.rig.settle();
    }
}

/// Three files a log in generation 1, which a checkpoint takes off the list while the archive has space for its list
/// only.
fn unlisted(loggers: usize, crashes: bool) -> Unlisted {
    let disk = disk_with_archive();
    disk.set_device(PLACE, Some(1100));
    let life = open(&disk, loggers, settings()).expect("opens");
    let mut workers: Vec<Worker> = (0..loggers).map(|_| life.rig.worker()).collect();
    for turn in 0..2 {
        write_small(&life, &mut workers, 6 * turn..6 * turn + 5);
        life.checkpoint().expect("is installed");
    }
    write_small(&life, &mut workers, 20..25);
    if crashes {
        // The other log has no mark of these: they are void.
        for key in 30..33 {
            life.commit(&mut workers[0], key, Some(&[9; 40]));
            life.rig.advance();
            life.rig.log.logger_step(0);
        }
        drop((workers, life));
        disk.kill();
    } else {
        drop(workers);
        close(&life);
        drop(life);
    }
    let life = open(&disk, loggers, settings()).expect("opens");
    let durable = life.rig.report.durable_epoch;
    assert_eq!(life.rig.report.ignored_entries > 0, crashes, "{:?}", life.rig.report);
    life.checkpoint().expect("is installed");
    assert!(life.rig.log.archive_error().is_some(), "it is full");
    drop(life);
    disk.kill();
    disk.set_device(PLACE, None);
    let files = of_first(&disk);
    assert!(files.len() >= 3 * loggers, "{files:?}");
    let entries = loggers as u64 * 15;
    Unlisted { disk, files, durable, entries }
}

#[derive(Debug, Default)]
struct Outcomes {
    reported: usize,
    whole: usize,
}

impl Unlisted {
    fn loggers(&self) -> usize {
        self.files.iter().map(|file| file.split('/').next()).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Nothing is missing in what the archive has of generation 1.
    fn assert_archived(&self, disk: &SimDisk, what: &str) {
        let facts = facts(disk);
        let first = &facts.generations[0];
        assert!(facts.damage.is_empty() && first.lacks.is_empty(), "{what}: {facts:#?}");
        assert!(first.entries >= self.entries && first.durable == Some(self.durable), "{what}: {facts:#?}");
        assert!(
            facts.ranges[0].after == Epoch::ZERO && facts.ranges[0].to >= self.durable,
            "{what}: {facts:#?}"
        );
    }

    /// Opens it with this file in place of what stood there: either nothing is missing in the archive, or the file
    /// stays and the open says so.
    fn open_with(&self, file: &str, bytes: Vec<u8>, outcomes: &mut Outcomes, what: &str) {
        let disk = self.disk.fork();
        disk.put(file, bytes.clone());
        let life = open(&disk, self.loggers(), settings())
            .unwrap_or_else(|error| panic!("{file}, {what}: the database does not need it: {error}"));
        let said = life.rig.log.archive_error();
        let reported = life.rig.report.not_archived.clone();
        assert_eq!(said.is_some(), !reported.is_empty(), "{file}, {what}: {said:?}");
        drop(life);
        if let Some(error) = said {
            outcomes.reported += 1;
            assert!(disk.files().iter().any(|name| name == file), "{file}, {what}: it stays");
            assert!(disk.bytes(file) == bytes, "{file}, {what}: as it is");
            assert!(
                error.contains("is damaged") && error.contains("restores") | error.contains("restore"),
                "{error}"
            );
            if outcomes.reported.is_multiple_of(97) {
                self.put_back_or_give_up(&disk, file, what);
            }
        } else {
            outcomes.whole += 1;
            self.assert_archived(&disk, &format!("{file}, {what}"));
        }
    }

    /// Once a whole copy is back in its place it is archived; once it is moved away nothing is said any more, and the
    /// archive says what it lacks.
    fn put_back_or_give_up(&self, disk: &SimDisk, file: &str, what: &str) {
        let (again, without) = (disk.fork(), disk.fork());
        again.put(file, self.disk.bytes(file));
        let life = open(&again, self.loggers(), settings()).expect("opens");
        assert_eq!((life.rig.log.archive_error(), of_first(&again)), (None, Vec::new()), "{file}, {what}");
        self.assert_archived(&again, what);
        without.lose(file);
        let life = open(&without, self.loggers(), settings()).expect("opens");
        assert_eq!(life.rig.log.archive_error(), None, "{file}, {what}");
        let lacks = &facts(&without).generations[0].lacks;
        assert!(!lacks.is_empty(), "{file}, {what}: it is missing");
    }

    /// Every byte changed, every length, and a byte more, of each file. One of `sample` bytes and lengths, unless the
    /// environment asks for all.
    fn damage_everywhere(&self, sample: usize) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let step = if damages_all() { 1 } else { sample };
        for file in &self.files {
            let whole = self.disk.bytes(file);
            for at in (0..whole.len()).step_by(step) {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                self.open_with(file, bytes, &mut outcomes, &format!("byte {at} changed"));
            }
            for length in (0..whole.len()).step_by(step) {
                let bytes = whole[..length].to_vec();
                self.open_with(file, bytes, &mut outcomes, &format!("cut to {length}"));
            }
            for byte in [0, 7] {
                let bytes = [&whole[..], &[byte]].concat();
                self.open_with(file, bytes, &mut outcomes, "longer");
            }
        }
        outcomes
    }
}

#[test]
fn a1_a_file_that_no_manifest_lists_is_damaged_at_each_byte_and_length_and_nothing_is_lost_unsaid() {
    let unlisted = unlisted(1, false);
    let outcomes = unlisted.damage_everywhere(1);
    assert!(outcomes.reported > 10 * outcomes.whole && outcomes.whole > 3, "{outcomes:?}");
}

#[test]
fn a1_so_is_one_of_a_life_that_ended_in_a_crash() {
    let unlisted = unlisted(2, true);
    let outcomes = unlisted.damage_everywhere(5);
    assert!(outcomes.reported > outcomes.whole && outcomes.whole > 3, "{outcomes:?}");
}

#[test]
fn a1_a_damaged_file_holds_up_no_other() {
    let unlisted = unlisted(1, false);
    let disk = unlisted.disk.fork();
    disk.flip(&unlisted.files[1], 300, 4);
    let life = open(&disk, 1, settings()).expect("opens");
    assert_eq!(of_first(&disk), unlisted.files[1..2], "the others are archived, and gone");
    assert!(write(&life, &mut life.rig.worker(), 40..52));
    archive_checkpoint(&life);
    assert_eq!(life.rig.log.stats().unarchived_files, 0);
    let error = life.rig.log.archive_error().expect("it is still said");
    assert!(error.contains(&unlisted.files[1]), "{error}");
    let durable = close(&life);
    let lacks = facts(&disk);
    assert!(
        !lacks.generations[0].lacks.is_empty() && lacks.ranges.last().map(|last| last.to) == Some(durable)
    );
    // Who ends the archive needs none of it.
    let life = Life::open_with(&disk, archiving(1, Archiving::Ended), settings()).expect("opens");
    assert_eq!((life.rig.log.archive_error(), of_first(&disk)), (None, Vec::new()));
}

#[test]
fn a1_a_damaged_payload_holds_up_no_other_file_that_waits_for_space() {
    let unlisted = unlisted(1, false);
    let disk = unlisted.disk.fork();
    // In a payload that later blocks show to be synced: headers alone look whole.
    let row = disk.bytes(&unlisted.files[1]).windows(40).position(|bytes| bytes == [7; 40]).expect("a row");
    disk.flip(&unlisted.files[1], row as u64, 4);
    disk.set_device(PLACE, Some(disk.at(PLACE).used_bytes() + 600));
    let life = open(&disk, 1, settings()).expect("opens");
    let [reported] = &life.rig.report.not_archived[..] else { panic!("{:?}", life.rig.report.not_archived) };
    assert!(
        reported.contains(&unlisted.files[1]) && reported.contains("the block's checksum is wrong"),
        "{reported}"
    );
    assert!(of_first(&disk).len() > 1, "others wait");
    disk.set_device(PLACE, None);
    life.rig.clock.advance(std::time::Duration::from_secs(2));
    assert!(write(&life, &mut life.rig.worker(), 40..52));
    let_archive(&life);
    assert_eq!(life.rig.log.stats().unarchived_files, 0);
    assert!(life.rig.log.archive_error().is_some_and(|error| error.contains(&unlisted.files[1])));
}

#[test]
fn a1_a_damaged_file_goes_once_its_copy_proves_to_be_whole() {
    let unlisted = unlisted(1, false);
    let archived = unlisted.disk.fork();
    drop(open(&archived, 1, settings()).expect("opens"));
    assert_eq!(of_first(&archived), [""; 0]);
    for file in &unlisted.files {
        let copy = file.split("-to-").next().expect("its name");
        // As a kill behind the copy leaves it; and a copy that somebody has cut.
        for cut in [0, 80] {
            let disk = unlisted.disk.fork();
            disk.at(PLACE).put("ARCHIVE", archived.at(PLACE).bytes("ARCHIVE"));
            let mut bytes = archived.at(PLACE).bytes(copy);
            bytes.truncate(bytes.len() - cut);
            disk.at(PLACE).put(copy, bytes);
            disk.flip(file, 300, 4);
            let life = open(&disk, 1, settings()).expect("opens");
            let stays = disk.files().contains(file);
            // A close writes its last mark twice, so without it the last file has all that counts.
            let is_short = cut > 0 && Some(file) != unlisted.files.last();
            let said = life.rig.log.archive_error().is_some();
            assert_eq!((stays, said), (is_short, is_short), "{file}, {cut}");
            if !is_short {
                unlisted.assert_archived(&disk, file);
            }
        }
    }
}

#[test]
fn a1_what_a_cut_short_open_leaves_of_merged_generations_is_no_damage() {
    let disk = disk_with_archive();
    // There is space for the list, and for no file.
    disk.set_device(PLACE, Some(9000));
    let commit = |life: &Life| life.commit(&mut life.rig.worker(), 1, Some(&[1; 9000]));
    for _ in 0..8 {
        let life = open(&disk, 1, settings()).expect("opens");
        assert_eq!(life.rig.report.merged_generations, 0);
        commit(&life);
        close(&life);
    }
    // The last one ends with a torn tail.
    let life = open(&disk, 1, settings()).expect("opens");
    commit(&life);
    life.rig.settle();
    drop(life);
    disk.kill();
    let last = disk.files().into_iter().rfind(|name| name.starts_with("log0/log-9-")).expect("one");
    let mut bytes = disk.bytes(&last);
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .expect("blocks")
        .next_multiple_of(8)
        .max(OPENING_BYTES as usize);
    bytes.resize(bytes.len().max(end + 100), 0);
    bytes[end..end + 100].fill(7);
    disk.put(&last, bytes);
    let before = disk.calls().all;
    let merging = disk.fork();
    let life = open(&merging, 1, settings()).expect("opens");
    let report = &life.rig.report;
    assert!(report.merged_generations > 2 && report.torn_tails.len() == 1, "{report:?}");
    drop(life);
    for call in before..=merging.calls().all {
        let disk = disk.fork();
        disk.cut_power_at(call);
        drop(open(&disk, 1, settings()));
        disk.crash(call);
        disk.set_device(PLACE, None);
        let life = open(&disk, 1, settings()).unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert!(life.rig.report.not_archived.is_empty(), "call {call}: {:?}", life.rig.report.not_archived);
        archive_checkpoint(&life);
        assert_whole(&disk, close(&life));
    }
}
