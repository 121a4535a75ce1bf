//! Repair: a damaged folder is cut to its last consistent epoch, when asked for, and is whole then.
//!
//! That an examination finds what an open finds is checked wherever `damage` opens.

use crate::damage::{disk_with_entries, examined};
use crate::prelude::*;

/// What each of three commits takes in each of the two logs of `disk_with_entries`, its mark included.
const STEP_BYTES: u64 = 80 + 12 + 8 + 300 + 80;

fn repaired(disk: &SimDisk, target: &dyn Recoverable) -> Result<Option<Repaired>, DurabilityError> {
    repair(&handle(disk.clone()), target)
}

/// The keys that are there, in order.
fn keys(rig: &Rig) -> Vec<u64> {
    let mut keys: Vec<u64> = rig.rows.keys().copied().collect();
    keys.sort_unstable();
    keys
}

/// Repairs what must be damaged, and checks that nothing is afterwards.
fn whole_again(disk: &SimDisk) -> Repaired {
    let before = examined(disk);
    let Some(Remedy::Cut(loss)) = &before.remedy else { panic!("it can be cut: {before:?}") };
    let done = repaired(disk, &Map::default()).expect("it can be repaired").expect("something is damaged");
    assert_eq!(&done.loss, loss, "what is done is what was said");
    let after = examined(disk);
    assert!(after.damage.is_empty() && after.unneeded.is_empty() && after.torn_tails.is_empty(), "{after:?}");
    done
}

#[test]
fn a_log_that_is_damaged_in_the_middle_is_cut_there_and_opens() {
    let disk = disk_with_entries(false);
    let before = disk.bytes("log1/log-1-0");
    let cut = OPENING_BYTES + STEP_BYTES;
    disk.flip("log1/log-1-0", cut + 100, 4);
    let Repaired { loss, copies, .. } = whole_again(&disk);
    let copies = copies.expect("files were cut");
    assert_eq!(copies, "repaired-1");
    assert_eq!(loss.files, [("log1/log-1-0".to_owned(), cut)]);
    let (first, last) = loss.epochs.expect("epochs are lost");
    assert_eq!(first, loss.durable.next());
    assert!(loss.entries >= 2, "{loss:?}");
    let mut damaged = before[cut as usize..].to_vec();
    damaged[100] ^= 4;
    assert_eq!(disk.bytes(&format!("repaired-1/log1-log-1-0-from-{cut}")), damaged);
    // What is durable after a repair survives a crash, and its epochs are above all that was lost.
    disk.crash(7);
    let rig = Rig::simulated(&disk, 2);
    assert_eq!(keys(&rig), [0], "one epoch of three is left");
    assert!(rig.first > last, "{} after {last}", rig.first);
    rig.commit_epoch(&mut rig.worker(), 9, b"new");
    disk.crash(8);
    let rig = Rig::simulated(&disk, 2);
    assert_eq!(keys(&rig), [0, 9]);
}

#[test]
fn n18_a_folder_whose_last_life_had_no_log_is_repaired_as_any() {
    for is_cut in [false, true] {
        let disk = disk_with_entries(false);
        drop(Rig::simulated(&disk, 0));
        disk.crash(6);
        let examined = examined(&disk);
        assert!(examined.is_whole(), "{examined:?}");
        assert_eq!(examined.generations.iter().map(|facts| facts.logs).collect::<Vec<_>>(), [2, 0]);
        if is_cut {
            disk.flip("log1/log-1-0", OPENING_BYTES + STEP_BYTES + 100, 4);
            assert!(whole_again(&disk).loss.entries > 0);
        } else {
            assert!(
                repaired(&disk, &Map::default()).expect("it can be asked").is_none(),
                "there is nothing to cut"
            );
        }
        disk.crash(7);
        for loggers in [0, 2] {
            let expected: &[u64] = if is_cut { &[0] } else { &[0, 1, 2] };
            assert_eq!(keys(&Rig::simulated(&disk, loggers)), expected);
        }
    }
}

#[test]
fn damage_in_an_older_generation_gives_up_the_later_ones() {
    let disk = disk_with_entries(false);
    let rig = Rig::simulated(&disk, 1);
    rig.commit_epoch(&mut rig.worker(), 7, b"later");
    drop(rig);
    disk.crash(2);
    disk.flip("log0/log-1-0", OPENING_BYTES + 2 * STEP_BYTES + 90, 1);
    let Repaired { loss, copies, .. } = whole_again(&disk);
    let copies = copies.expect("files were cut");
    assert!(loss.files.contains(&("log0/log-2-0".to_owned(), 0)), "{loss:?}");
    assert!(!disk.bytes(&format!("{copies}/log0-log-2-0")).is_empty());
    assert_eq!(keys(&Rig::simulated(&disk, 2)), [0, 1]);
}

#[test]
fn a_log_that_is_gone_takes_its_generation_with_it() {
    let disk = disk_with_entries(false);
    disk.lose("log1/log-1-0");
    let Repaired { loss, .. } = whole_again(&disk);
    assert_eq!(loss.files, [("log0/log-1-0".to_owned(), 0)]);
    let rig = Rig::simulated(&disk, 2);
    assert!(rig.rows.is_empty() && rig.first > loss.epochs.expect("epochs are lost").1);
}

#[test]
fn a_file_that_is_missing_in_the_middle_ends_its_log() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.fill_files(&mut worker, 80);
    drop((worker, rig));
    disk.crash(3);
    let files: Vec<String> =
        disk.files().into_iter().filter(|name| name.starts_with("log0/log-1-")).collect();
    let missing = files.iter().find(|name| name.starts_with("log0/log-1-2")).expect("several files");
    disk.lose(missing);
    let Repaired { loss, .. } = whole_again(&disk);
    assert!(loss.entries > 10 && loss.files.len() == files.len() - 3, "{loss:?} of {files:?}");
    let kept = keys(&Rig::simulated(&disk, 1));
    let is_beginning = !kept.is_empty() && kept.iter().copied().eq(0..kept.len() as u64);
    assert!(is_beginning, "{kept:?} with {loss:?}");
}

#[test]
fn what_is_whole_not_understood_or_open_is_left_alone() {
    let disk = disk_with_entries(false);
    let before: Vec<String> = disk.files();
    assert_eq!(repaired(&disk, &Map::default()).expect("it can be read"), None);
    assert_eq!(disk.files(), before);
    let disk = disk_with_entries(false);
    let found =
        ensile_durability::examination::examine(&handle(disk.clone()), &Newer).expect("it can be read");
    assert!(found.damage.iter().all(|damage| damage.is_refused) && !found.damage.is_empty(), "{found:?}");
    assert!(matches!(&found.remedy, Some(Remedy::Copy(why)) if why.contains("newer version")), "{found:?}");
    let disk = disk_with_entries(false);
    let _rig = Rig::simulated(&disk, 2);
    let refused = ensile_durability::examination::examine(&handle(disk.clone()), &Map::default())
        .expect_err("it is in use");
    assert!(refused.to_string().contains("use"), "{refused}");
}

#[test]
fn a_manifest_is_not_made_up() {
    let disk = disk_with_entries(false);
    disk.flip("MANIFEST", 30, 1);
    let before = disk.files();
    assert!(matches!(examined(&disk).remedy, Some(Remedy::Copy(_))));
    let refused = repaired(&disk, &Map::default()).expect_err("nothing tells what was in it");
    assert!(refused.to_string().contains("MANIFEST"), "{refused}");
    assert_eq!(disk.files(), before);
}

/// A state that knows none of the entries.
struct Newer;

impl Recoverable for Newer {
    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Err(Refused { entry: 0, detail: "an unknown form".to_owned() })
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay(entries)
    }
}

/// Two checkpoints with changes between and after them.
pub(crate) fn disk_with_checkpoint() -> SimDisk {
    let (disk, life) = Life::first(2, settings());
    let mut workers = [life.rig.worker(), life.rig.worker()];
    for round in 0..6_u8 {
        for key in 0..40 {
            life.commit(&mut workers[(key % 2) as usize], key, Some(&[round; 50]));
        }
        life.rig.settle();
        if round < 2 {
            life.checkpoint().expect("it is installed");
        }
    }
    drop((workers, life));
    disk.crash(5);
    disk
}

fn examined_store(disk: &SimDisk) -> Examination {
    ensile_durability::examination::examine(&handle(disk.clone()), &Store::default()).expect("it can be read")
}

#[test]
fn a_checkpoint_is_read_to_its_last_byte() {
    let disk = disk_with_checkpoint();
    let whole = examined_store(&disk);
    let checkpoint = whole.checkpoint.as_ref().expect("one is installed");
    assert!(whole.damage.is_empty() && checkpoint.entries > 0, "{whole:?}");
    let parts = whole.files.iter().filter(|file| file.role == Role::Checkpoint { number: checkpoint.number });
    let parts: Vec<(String, u64)> = parts.map(|file| (file.name.clone(), file.bytes)).collect();
    assert_eq!(parts.len() as u64, checkpoint.files);
    for (name, bytes) in &parts {
        for at in (0..*bytes).step_by(37) {
            disk.flip(name, at, 0x10);
            let found = examined_store(&disk);
            assert!(found.damage.iter().any(|damage| damage.file == *name), "{name} at {at}: {found:?}");
            assert!(matches!(found.remedy, Some(Remedy::Copy(_))), "the log before it is gone");
            assert!(Life::open(&disk.fork(), 2, settings()).is_err(), "{name} at {at}");
            disk.flip(name, at, 0x10);
        }
    }
    assert_eq!(examined_store(&disk), whole);
}

#[test]
fn nothing_is_cut_below_a_checkpoint_and_all_above_it_can_be() {
    let whole = disk_with_checkpoint();
    let checkpoint = examined_store(&whole).checkpoint.expect("one is installed");
    let (mut cut, mut kept) = (0, 0);
    let logs: Vec<String> = whole.files().into_iter().filter(|name| name.starts_with("log0/log-")).collect();
    for name in logs {
        for at in (0..whole.bytes(&name).len() as u64).step_by(61) {
            let disk = whole.fork();
            disk.flip(&name, at, 2);
            let found = examined_store(&disk);
            let opens = Life::open(&disk.fork(), 2, settings()).map(|life| life.found);
            assert_eq!(opens.is_ok(), found.damage.is_empty(), "{name} at {at}: {found:?}");
            match found.remedy {
                Some(Remedy::Cut(loss)) => {
                    assert!(loss.durable >= checkpoint.high, "{loss:?}");
                    repaired(&disk, &Framing).expect("as it was said").expect("damaged");
                    let life = Life::open(&disk, 2, settings()).expect("it is whole again");
                    assert_eq!(life.found.len(), 40, "the checkpoint has every key");
                    cut += 1;
                }
                Some(Remedy::Copy(why)) => {
                    assert!(why.contains("checkpoint"), "{why}");
                    kept += 1;
                }
                Some(Remedy::PictureAlone { .. } | Remedy::Marks(_)) => {
                    panic!("it is no picture, and no mark")
                }
                None => {}
            }
        }
    }
    assert!(cut > 0 && kept > 0, "{cut} cut, {kept} not");
}

/// One log in several files, the names of those that are closed, and all keys.
fn disk_with_closed_files() -> (SimDisk, Vec<String>, Vec<u64>) {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.fill_files(&mut worker, 80);
    drop((worker, rig));
    disk.crash(3);
    let closed: Vec<String> = disk.files().into_iter().filter(|name| name.contains("-to-")).collect();
    assert!(closed.len() > 2);
    let all = keys(&Rig::simulated(&disk.fork(), 1));
    (disk, closed, all)
}

/// Adds bytes behind the end of a file.
fn lengthen(disk: &SimDisk, name: &str, more: &[u8]) {
    let mut bytes = disk.bytes(name);
    bytes.extend_from_slice(more);
    disk.put(name, bytes);
}

#[test]
fn bytes_behind_closed_files_are_cut_and_nothing_is_given_up() {
    let (disk, closed, all) = disk_with_closed_files();
    let ends: Vec<u64> = closed.iter().map(|name| disk.bytes(name).len() as u64).collect();
    // In one file garbage, in another one a block of the log once more.
    lengthen(&disk, &closed[0], &[7; 100]);
    lengthen(&disk, &closed[1], &disk.bytes(&closed[1])[..800]);
    let Repaired { loss, copies, .. } = whole_again(&disk);
    let copies = copies.expect("files were cut");
    assert_eq!((loss.epochs, loss.entries, &loss.unreadable[..]), (None, 0, &[][..]));
    assert_eq!(loss.files, [(closed[0].clone(), ends[0]), (closed[1].clone(), ends[1])]);
    let copy = format!("{copies}/{}-from-{}", closed[0].replace('/', "-"), ends[0]);
    assert_eq!(disk.bytes(&copy), [7; 100]);
    assert_eq!(keys(&Rig::simulated(&disk, 1)), all);
}

#[test]
fn bytes_behind_a_closed_file_of_an_older_generation_give_up_no_later_one() {
    let (disk, closed, all) = disk_with_closed_files();
    let rig = Rig::simulated(&disk, 1);
    rig.commit_epoch(&mut rig.worker(), 1_000, b"later");
    drop(rig);
    disk.crash(4);
    lengthen(&disk, &closed[1], &[7; 100]);
    let loss = whole_again(&disk).loss;
    assert_eq!((loss.epochs, &loss.unreadable[..]), (None, &[][..]));
    assert_eq!(keys(&Rig::simulated(&disk, 1)), [&all[..], &[1_000]].concat());
}

#[test]
fn a_file_that_cannot_be_read_is_unknown_and_no_repair_gives_it_up() {
    for name in ["log1/log-1-0", "MANIFEST", "HINT"] {
        let disk = disk_with_entries(false);
        disk.put("HINT", b"a hint".to_vec());
        disk.flip("log0/log-1-0", 700, 4);
        disk.make_unreadable(name);
        let before: Vec<_> = disk.files().into_iter().map(|name| (disk.bytes(&name), name)).collect();
        let found = examined(&disk);
        assert!(found.unread.iter().any(|unread| unread.path.ends_with(name)), "{name}: {found:?}");
        assert!(!found.is_whole() && found.durable_epoch.is_none());
        assert!(matches!(&found.remedy, Some(Remedy::Copy(why)) if why.contains("unknown")), "{found:?}");
        let refused = repaired(&disk, &Map::default()).expect_err("nothing tells what stands there");
        assert!(refused.to_string().contains("unknown"), "{refused}");
        let after: Vec<_> = disk.files().into_iter().map(|name| (disk.bytes(&name), name)).collect();
        assert!(before == after, "{name}: a repair that was refused changed something");
    }
}

/// Damages a file of an older generation while those of a later one are read.
struct DamagesMeanwhile {
    disk: SimDisk,
    later: ensile_base::Epoch,
    is_done: Mutex<bool>,
}

impl Recoverable for DamagesMeanwhile {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut is_done = self.is_done.lock().expect("no panic");
        if !*is_done && entries.iter().any(|entry| entry.tid.epoch() >= self.later) {
            self.disk.flip("log0/log-1-0", OPENING_BYTES + 100, 1);
            *is_done = true;
        }
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

#[test]
fn a_repair_that_leaves_damage_does_not_say_that_it_repaired() {
    let disk = disk_with_entries(false);
    let rig = Rig::simulated(&disk, 1);
    let later = rig.first;
    let mut worker = rig.worker();
    for key in 7..10 {
        rig.commit_epoch(&mut worker, key, &[1; 300]);
    }
    drop((worker, rig));
    disk.crash(2);
    disk.flip("log0/log-2-0", OPENING_BYTES + STEP_BYTES + 90, 1);
    let hostile = DamagesMeanwhile { disk: disk.clone(), later, is_done: Mutex::new(false) };
    let refused = repaired(&disk, &hostile).expect_err("generation 1 is damaged by now");
    let DurabilityError::Damaged { file, detail, .. } = &refused else { panic!("{refused}") };
    assert_eq!(file, "log0/log-1-0");
    assert!(detail.contains("a repair has cut what it could") && detail.contains("repaired-1"), "{detail}");
}

#[test]
fn a_manifest_of_another_database_is_no_reason_to_cut_the_logs() {
    let (disk, other) = (disk_with_entries(false), disk_with_entries(false));
    disk.put("MANIFEST", other.bytes("MANIFEST"));
    let before = disk.files();
    let found = examined(&disk);
    assert!(
        matches!(&found.remedy, Some(Remedy::Copy(why)) if why.contains("another database")),
        "{found:?}"
    );
    repaired(&disk, &Map::default()).expect_err("it would remove every log");
    assert_eq!(disk.files(), before);
}

#[test]
fn a_manifest_from_before_a_checkpoint_is_no_reason_to_cut() {
    let (disk, life) = Life::first(1, settings());
    let before = disk.bytes("MANIFEST");
    let mut worker = life.rig.worker();
    life.commit_epochs(&mut worker, 0..40, &[1; 500]);
    life.checkpoint().expect("it is installed");
    drop((worker, life));
    disk.crash(5);
    disk.put("MANIFEST", before);
    let files = disk.files();
    let found = examined_store(&disk);
    assert!(matches!(&found.remedy, Some(Remedy::Copy(why)) if why.contains("older copy")), "{found:?}");
    repaired(&disk, &Framing).expect_err("the checkpoint would be removed with all rows");
    assert_eq!(disk.files(), files);
}

#[test]
fn epochs_that_only_a_file_without_its_first_block_shows_are_not_used_again() {
    let (disk, ..) = disk_with_closed_files();
    disk.lose("HINT");
    let newest = disk.files().into_iter().rfind(|name| name.contains("log-1-")).expect("a log");
    // All but its first block is whole.
    disk.flip(&newest, 20, 1);
    let last = Rig::simulated(&disk_with_closed_files().0, 1).report.durable_epoch;
    let loss = whole_again(&disk).loss;
    assert!(loss.epochs.is_some_and(|(_, high)| high >= last), "{loss:?}, {last} was durable");
    assert_eq!(loss.unreadable.len(), 1, "{loss:?}");
    let first = Rig::simulated(&disk, 1).first;
    assert!(first > last, "{first} after {last}");
}

/// The folder of a log has files of the database, and the one of a checkpointer has none.
#[test]
fn i1_a_lost_or_damaged_mark_is_written_anew_where_the_folder_proves_whose_it_is() {
    let lost: fn(&SimDisk, &str) = |disk, mark| disk.lose(mark);
    let damaged: fn(&SimDisk, &str) = |disk, mark| disk.flip(mark, 20, 1);
    for (folder, harm) in [("log0", lost), ("log0", damaged), ("checkpoint0", lost), ("checkpoint0", damaged)]
    {
        let (disk, life) = Life::first(1, settings());
        let tid = life.commit_epoch(&mut life.rig.worker(), 1, Some(b"one"));
        assert!(life.rig.log.durable_epoch() >= tid.epoch());
        life.rig.log.close().expect("closes");
        drop(life);
        let mark = format!("{folder}/FOLDER");
        harm(&disk, &mark);
        let refused =
            Life::open(&disk, 1, settings()).map(drop).expect_err("the mark is not there").to_string();
        assert!(refused.contains(&mark) && refused.contains("--repair"), "{refused}");
        let found = examined(&disk);
        let told: Vec<_> =
            found.damage.iter().map(|damage| damage.detail.clone()).chain(found.refused).collect();
        assert!(told.iter().any(|why| why.contains("--repair")), "{mark}: {told:?}");
        let done = repaired(&disk, &Map::default()).expect("can be done").expect("a mark is lost");
        assert_eq!((&done.marks[..], &done.copies), (&[mark.clone()][..], &None));
        let life = Life::open(&disk, 1, settings()).unwrap_or_else(|error| panic!("{mark}: {error}"));
        assert_eq!(life.found.len(), 1);
    }
}
