//! The process-safe level (B1 to B6): what an append returned survives the process at every call and every stored word
//! of a life, and of the opens behind it; after a power cut D rules.

mod adopting;
mod backups;

use std::ops::ControlFlow;

use ensile_base::limits::LOG_BUFFER_BYTES;

use crate::prelude::*;

/// Rows by key: which value, by which commit.
type Found = BTreeMap<u64, (Tid, Vec<u8>)>;

fn safe(loggers: usize) -> LogConfig {
    LogConfig { process_safe: true, ..config(loggers) }
}

fn try_open(disk: &SimDisk, config: LogConfig) -> Result<Rig, DurabilityError> {
    Rig::open(Arc::new(disk.mounted()), config, Clock::manual())
}

fn open(disk: &SimDisk, config: LogConfig) -> Rig {
    try_open(disk, config).expect("opens")
}

/// A process-safe life on a new disk.
fn first_life(loggers: usize) -> (SimDisk, Rig) {
    let disk = SimDisk::new();
    let rig = open(&disk, safe(loggers));
    (disk, rig)
}

fn found(rig: &Rig) -> Found {
    rig.rows.iter().map(|(key, row)| (*key, row.clone())).collect()
}

/// Mapped buffers that are there.
fn buffers(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("/buffer-")).collect()
}

/// The lists of buffers that are there.
fn lists(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("/buffers-")).collect()
}

/// A process-safe life with one row that is durable at the end of this epoch, and one that only a buffer has.
fn durable_and_returned(disk: &SimDisk, loggers: usize) -> (Rig, Worker, Epoch) {
    let rig = open(disk, safe(loggers));
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"durable");
    let durable = rig.log.durable_epoch();
    worker.commit(&rig.epochs, 2, b"returned").expect("runs");
    (rig, worker, durable)
}

/// A life with one durable row, and one that only a buffer has; its process is dead.
fn left(loggers: usize) -> SimDisk {
    let disk = SimDisk::new();
    let (_rig, _worker, _) = durable_and_returned(&disk, loggers);
    disk.kill();
    disk
}

/// As [`left`], of two threads: a durable row, and one that each has returned since, in a buffer of its own. D, and the
/// epoch of the last row.
fn left_by_two() -> (SimDisk, Epoch, Epoch) {
    let (disk, rig) = first_life(1);
    let mut workers = [rig.worker(), rig.worker()];
    rig.commit_epoch(&mut workers[0], 1, b"durable");
    let durable = rig.log.durable_epoch();
    workers[0].commit(&rig.epochs, 2, b"returned").expect("runs");
    let last = workers[1].commit(&rig.epochs, 3, b"returned").expect("runs").epoch();
    disk.kill();
    (disk, durable, last)
}

/// What was returned and is not proven.
fn told(left: Option<&NotProven>) -> NotProven {
    left.cloned().expect("is told")
}

/// Adopts a folder, and gives up what that loses.
fn give_up(disk: &SimDisk) -> Result<Adopted, DurabilityError> {
    adopt_with(&handle(disk.mounted()), AdoptOptions { without_buffers: true })
}

/// An open and an examination both say that this file is damaged; a repair gives up what the buffers held and keeps
/// what is durable.
fn assert_damaged(disk: &SimDisk, loggers: usize, name: &str, durable: &[u64]) {
    let error = try_open(disk, safe(loggers)).err().expect("damaged");
    assert!(matches!(&error, DurabilityError::Damaged { file, .. } if file == name), "{name}: {error}");
    let on: Arc<dyn Disk> = Arc::new(disk.mounted());
    let examined = examine(&on, &Map::default()).expect("reads");
    assert!(examined.damage.iter().any(|damage| damage.file == name), "{name}: {:?}", examined.damage);
    let repaired = repair(&on, &Map::default()).expect("repairs").expect("is damaged");
    assert_eq!(repaired.loss.unreadable, [name]);
    drop(on);
    // A file that does not say whose it is stays.
    let mut stay =
        disk.files().into_iter().filter(|file| file.starts_with("log") && file.contains("/buffer"));
    assert!(stay.all(|file| file == name), "{name}");
    let kept = found(&open(disk, safe(loggers))).into_keys().collect::<Vec<_>>();
    assert_eq!(kept, durable, "{name}");
}

/// Changes a byte in the cache, where a dead process left it.
fn flip(disk: &SimDisk, name: &str, at: u64) {
    let (file, mut byte) = (disk.open(name).expect("is there"), [0]);
    assert_eq!(file.read_at(&mut byte, at).expect("reads"), 1);
    file.write_at(&[byte[0] ^ 1], at).expect("writes");
}

/// All entries that count, in the order of the log.
fn entries(disk: &SimDisk) -> Vec<Tid> {
    let mut tids = Vec::new();
    let examined = visit_log(&handle(disk.mounted()), &Map::default(), &mut |entry| {
        tids.push(entry.tid);
        ControlFlow::Continue(())
    });
    assert!(examined.expect("reads").damage.is_empty());
    tids
}

/// A life of two workers and their loggers until the processes die; what its commits returned, and the one that died
/// with it. With it, whether it came to its end.
struct Lived {
    returned: Found,
    in_flight: Option<(u64, Vec<u8>)>,
    ended: bool,
}

/// Where the processes die.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// Once the call is done, and before it is.
    Call(u64),
    Before(u64),
    Word(u64),
}

impl Death {
    fn plan(self, disk: &SimDisk) {
        match self {
            Self::Call(count) => disk.cut_power_at(disk.calls().all + count),
            Self::Before(count) => disk.die_before(disk.calls().all + count),
            Self::Word(count) => disk.die_at_word(count),
        }
    }
}

fn live(disk: &SimDisk, rig: &Rig) -> Lived {
    let mut lived = Lived { returned: Found::new(), in_flight: None, ended: false };
    let mut workers = [rig.worker(), rig.worker()];
    let mut key = 100;
    let mut commit = |lived: &mut Lived, worker: usize, bytes: usize| {
        key += 1;
        let value = vec![key as u8; bytes];
        let committed = workers[worker].commit(&rig.epochs, key, &value);
        match committed {
            Ok(tid) if !disk.is_without_power() => drop(lived.returned.insert(key, (tid, value))),
            _ if lived.in_flight.is_none() => lived.in_flight = Some((key, value)),
            _ => {}
        }
        disk.is_without_power()
    };
    for round in 0..3 {
        // Lengths that end within a word, and one for which a buffer of its own is made.
        for (worker, bytes) in [(0, 5), (1, 13), (0, 40), (1, if round == 1 { LOG_BUFFER_BYTES } else { 7 })]
        {
            if commit(&mut lived, worker, bytes) {
                return lived;
            }
        }
        // One log is written and not marked, then both are marked and synced, then the other is behind.
        rig.log.logger_step(0);
        if round != 1 {
            rig.settle();
        }
        if commit(&mut lived, 0, 3) || commit(&mut lived, 1, 9) {
            return lived;
        }
        rig.advance();
        rig.log.logger_step(1);
        if disk.is_without_power() {
            return lived;
        }
    }
    lived.ended = true;
    lived
}

/// What is there is what was returned, with the one that was in flight or without it. With it or without?
fn has_in_flight(found: &Found, lived: &Lived, when: &str) -> bool {
    let mut others = found.clone();
    for (key, row) in &lived.returned {
        assert_eq!(others.remove(key).as_ref(), Some(row), "{when}: key {key} was returned");
    }
    let Some((key, (_, value))) = others.pop_first() else { return false };
    assert_eq!(Some((key, value)), lived.in_flight, "{when}: only what was in flight may be there");
    assert!(others.is_empty(), "{when}: one was in flight");
    true
}

/// One life of a process that dies, two opens behind it with a power cut between them; false behind the last death.
fn dies(death: Death, with: &mut [u64; 2]) -> bool {
    let (disk, rig) = first_life(2);
    death.plan(&disk);
    let lived = live(&disk, &rig);
    let was_cut = disk.is_without_power();
    disk.kill();
    drop(rig);
    if lived.ended && !was_cut {
        return false;
    }
    let when = format!("{death:?}");
    let again = open(&disk, safe(2));
    let there = found(&again);
    with[usize::from(has_in_flight(&there, &lived, &when))] += 1;
    assert!(there.values().all(|(tid, _)| tid.epoch() <= again.report.durable_epoch), "{when}: D covers all");
    // B5: what was served stays, whatever of the cache is lost.
    disk.crash_with(Survival::Nothing, 1);
    drop(again);
    let last = open(&disk, safe(1));
    assert_eq!(found(&last), there, "{when}: it was served");
    assert_eq!(last.report.taken_entries, 0, "{when}: another boot takes nothing");
    disk.kill();
    drop(last);
    let mut tids = entries(&disk);
    let count = tids.len();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!((tids.len(), count), (there.len(), there.len()), "{when}: each is in the log once (B6)");
    true
}

#[test]
fn what_was_returned_survives_a_death_at_every_call() {
    let mut with = [0; 2];
    for death in [Death::Call, Death::Before] {
        let calls = (1..).take_while(|call| dies(death(*call), &mut with)).count();
        assert!(calls > 30, "{calls} calls");
    }
}

#[test]
fn b1_b2_what_was_returned_survives_a_death_at_every_stored_word() {
    let mut with = [0; 2];
    // The large entry has too many words to die at each: most of them are alike.
    let words = (1..400).chain((400..70_000).step_by(4001)).chain(70_000..70_200);
    let died = words.take_while(|word| dies(Death::Word(*word), &mut with)).count();
    assert!(died > 200 && with[0] > 100, "{died} deaths, without and with the one in flight: {with:?}");
}

#[test]
fn an_open_that_dies_at_any_call_is_repeated() {
    let (disk, rig) = first_life(2);
    let lived = live(&disk, &rig);
    disk.kill();
    drop(rig);
    let calls = {
        let disk = disk.fork();
        let before = disk.calls().all;
        let rig = open(&disk, safe(2));
        assert!(rig.report.taken_entries > 0 && !has_in_flight(&found(&rig), &lived, "at once"));
        disk.calls().all - before
    };
    let (mut kept, mut lost) = (0, 0);
    for call in 1..=calls {
        for survival in [None].into_iter().chain(Survival::ALL.map(Some)) {
            let (disk, when) = (disk.fork(), format!("call {call}, {survival:?}"));
            disk.cut_power_at(disk.calls().all + call);
            assert!(try_open(&disk, safe(2)).is_err() || call == calls, "{when}");
            let Some(survival) = survival else {
                disk.kill();
                let rig = open(&disk, safe(2));
                assert!(!has_in_flight(&found(&rig), &lived, &when), "{when}");
                continue;
            };
            disk.crash_with(survival, call);
            let rig = open(&disk, safe(2));
            // What one D covers: all that is not above it.
            let durable = rig.report.durable_epoch;
            let wanted = lived.returned.iter().filter(|(_, (tid, _))| tid.epoch() <= durable);
            let wanted: Found = wanted.map(|(key, row)| (*key, row.clone())).collect();
            assert_eq!(found(&rig), wanted, "{when}: D = {durable}");
            if wanted.len() == lived.returned.len() { kept += 1 } else { lost += 1 }
        }
    }
    assert!(kept > 20 && lost > 20, "{kept} kept all, {lost} what was durable");
}

/// `bytes`, four of them from `at` on changed so that the checksum of all is `wanted`.
fn forge(bytes: &mut [u8], at: usize, wanted: u32) {
    let mut crc_with = |word: u32| {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        crc32c(bytes)
    };
    // Each bit of the word changes the checksum by bits of its own, whatever the others are.
    let none = crc_with(0);
    let mut rows: Vec<(u32, u32)> = (0..32).map(|bit| (crc_with(1 << bit) ^ none, 1 << bit)).collect();
    let (mut left, mut word) = (wanted ^ none, 0);
    for bit in (0..32).rev().map(|bit| 1 << bit) {
        let at = rows.iter().position(|row| row.0 & bit != 0).expect("four bytes reach each checksum");
        let row = rows.swap_remove(at);
        rows.iter_mut().filter(|other| other.0 & bit != 0).for_each(|other| {
            *other = (other.0 ^ row.0, other.1 ^ row.1);
        });
        if left & bit != 0 {
            (left, word) = (left ^ row.0, word ^ row.1);
        }
    }
    assert_eq!(crc_with(word), wanted);
}

/// An entry as a log has it.
fn framed(tid: Tid, key: u64, value: &[u8]) -> Vec<u8> {
    let body = (KEY_BYTES + value.len()) as u32;
    [&tid.bits().to_le_bytes(), &body.to_le_bytes()[..], &key.to_le_bytes(), value].concat()
}

#[test]
fn b6_a_buffer_with_the_length_and_the_checksum_of_a_logged_block_is_taken() {
    // Two of them fill a buffer, which is written before its epoch ends: its block stands behind the log's last mark.
    // With its frame an entry's length is a multiple of 8.
    let bytes = LOG_BUFFER_BYTES * 3 / 5 / 8 * 8 + 4;
    let live = |other: &[u8]| {
        let (disk, rig) = first_life(1);
        let mut workers = [rig.worker(), rig.worker()];
        let first = workers[0].commit(&rig.epochs, 1, &vec![1; bytes]).expect("runs");
        workers[0].commit(&rig.epochs, 2, &vec![2; bytes]).expect("runs");
        let other = workers[1].commit(&rig.epochs, 3, other).expect("runs");
        let before = rig.log.stats().blocks;
        rig.log.logger_step(0);
        assert_eq!(rig.log.stats().blocks, before + 1, "the full buffer is written");
        disk.kill();
        (disk, first, other)
    };
    let mut value = vec![3; bytes];
    let (_, first, other) = live(&value);
    let logged = framed(first, 1, &vec![1; bytes]);
    let mut unlogged = framed(other, 3, &value);
    assert!(unlogged.len().is_multiple_of(8) && unlogged.len() == logged.len());
    let end = unlogged.len() - 4;
    forge(&mut unlogged, end, crc32c(&logged));
    value[bytes - 4..].copy_from_slice(&unlogged[end..]);
    let (disk, ..) = live(&value);
    let rig = open(&disk, safe(1));
    assert_eq!(found(&rig).into_keys().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(rig.report.taken_entries, 2, "the block's entry is not taken again");
    assert_eq!(rig.rows[&3].1, value);
}

#[test]
fn b4_another_boot_takes_nothing() {
    let disk = SimDisk::new();
    let (_rig, _worker, durable) = durable_and_returned(&disk, 1);
    let same = copy_at_rest(&disk);
    assert_eq!(found(&open(&same, safe(1))).len(), 2);
    // Whole files, as the system may have written them out.
    disk.crash_with(Survival::Everything, 1);
    let old = buffers(&disk);
    assert_eq!(old.len(), 1);
    let rig = open(&disk, safe(1));
    assert_eq!(found(&rig).into_keys().collect::<Vec<_>>(), [1]);
    assert_eq!((rig.report.taken_entries, rig.report.durable_epoch), (0, durable));
    // A container that has a boot of its own may have been all that was started.
    let left = told(rig.report.not_proven.as_ref());
    assert_eq!((left.reason, &left.files), (NotProvenReason::OtherBoot, &old));
    assert!(left.to_string().contains(&old[0]), "{left}");
    assert!(
        left.is_left_out() && left.to_string().contains("the operating system has started again"),
        "{left}"
    );
    assert!(buffers(&disk).iter().all(|name| name.contains("buffer-2-")), "the old one is gone");
}

#[test]
fn b4_another_mount_in_the_same_boot_takes_nothing() {
    for survival in [Survival::Everything, Survival::Nothing, Survival::Random] {
        let disk = SimDisk::new();
        let (_rig, _worker, durable) = durable_and_returned(&disk, 1);
        let old = buffers(&disk);
        disk.lose_devices(survival, 1);
        let examined = examine(&handle(disk.mounted()), &Map::default()).expect("reads");
        assert!(examined.is_whole(), "{survival:?}: {:?}", examined.damage);
        let rig = open(&disk, safe(1));
        assert_eq!(found(&rig).into_keys().collect::<Vec<_>>(), [1], "{survival:?}");
        assert_eq!((rig.report.taken_entries, rig.report.durable_epoch), (0, durable));
        // The device may have lost every trace of the entry: that some may be lacking is told all the same.
        let left = told(rig.report.not_proven.as_ref());
        assert_eq!((left.reason, left.durable), (NotProvenReason::OtherMount, durable), "{survival:?}");
        assert!(left.is_left_out() && left.to_string().contains("mounted again"), "{left}");
        match survival {
            Survival::Everything => assert_eq!(left.files, old),
            Survival::Nothing => assert!(left.files.is_empty(), "{left}"),
            _ => {}
        }
        assert_eq!(examined.not_proven, Some(left), "{survival:?}");
    }
}

#[test]
fn b4_a_mount_that_was_not_told_or_is_not_told_now_is_not_another_one() {
    let disk = SimDisk::new();
    disk.set_no_mount_numbers(true);
    let (rig, _worker, _) = durable_and_returned(&disk, 1);
    assert_eq!(rig.report.unknown_mounts.len(), 2, "of the main folder and of the log's");
    disk.kill();
    assert_eq!(found(&open(&disk, safe(1))).len(), 2);
    assert!(open(&SimDisk::new(), safe(1)).report.unknown_mounts.is_empty());
    let disk = left(1);
    let before = disk.files();
    disk.set_no_mount_numbers(true);
    let refused = try_open(&disk, safe(1)).map(drop).expect_err("the mount is not told").to_string();
    assert!(refused.contains("/sys"), "{refused}");
    assert_eq!(disk.files(), before);
    disk.set_no_mount_numbers(false);
    assert_eq!(found(&open(&disk, safe(1))).len(), 2);
}

#[test]
fn b4_a_copied_buffer_is_not_believed() {
    let (machine, disk) = machine_with_original();
    let (_rig, _worker, _) = durable_and_returned(&disk, 1);
    machine.copy_tree("original", "copy");
    let copy = machine.at("copy");
    let old = buffers(&copy);
    assert_eq!(old.len(), 1);
    give_up(&copy).expect("adopts");
    let copied = open(&copy, safe(1));
    assert_eq!(found(&copied).into_keys().collect::<Vec<_>>(), [1]);
    let left = told(copied.report.not_proven.as_ref());
    assert_eq!((left.reason, &left.files, left.is_left_out()), (NotProvenReason::Copied, &old, true));
    disk.kill();
    assert_eq!(found(&open(&disk, safe(1))).len(), 2);
}

#[test]
fn b4_a_boot_that_cannot_be_read_is_not_another_one() {
    let disk = left(1);
    let before = disk.files();
    disk.set_no_boot(true);
    for config in [config(1), safe(1)] {
        let error = try_open(&disk, config).err().expect("it is unknown whether the buffers count");
        assert!(error.to_string().contains("boot"), "{error}");
    }
    assert_eq!(disk.files(), before);
    let examined = examine(&handle(disk.mounted()), &Map::default()).expect("reads");
    assert!(examined.damage.is_empty() && examined.refused.iter().any(|why| why.contains("boot")));
    disk.set_no_boot(false);
    assert_eq!(found(&open(&disk, config(1))).len(), 2);
}

#[test]
fn b4_a_copy_of_a_killed_process_is_examined_as_a_copy() {
    let (machine, disk) = machine_with_original();
    let (_rig, _worker, _) = durable_and_returned(&disk, 1);
    machine.copy_tree("original", "copy");
    let examined = examine(&handle(machine.at("copy").mounted()), &Map::default()).expect("reads");
    assert!(examined.is_whole() && !examined.refused.is_empty(), "{:?}", examined.damage);
    let left = told(examined.not_proven.as_ref());
    assert_eq!((left.reason, left.files), (NotProvenReason::Copied, buffers(&machine.at("copy"))));
}

#[test]
fn b4_a_buffer_that_holds_entries_and_is_not_listed_is_damage() {
    let disk = left(1);
    let (name, list) = (buffers(&disk).remove(0), lists(&disk).remove(0));
    // A stray store clears the bit of buffer 0.
    flip(&disk, &list, 128);
    assert_damaged(&disk.fork(), 1, &name, &[1]);
    // The manifest of a version that did not name the boot.
    let without = disk.fork();
    let manifest = without.open("MANIFEST").expect("is there");
    let mut text = vec![0; manifest.len().expect("has a length") as usize];
    manifest.read_at(&mut text, 0).expect("reads");
    let text = String::from_utf8(text).expect("is text");
    let (body, _) = text.rsplit_once("crc32c ").expect("a checksum");
    let lines = body.lines().filter(|line| !line.starts_with("mapped ")).skip(1);
    let lines: Vec<_> =
        ["ensile manifest 3".to_owned()].into_iter().chain(lines.map(str::to_owned)).collect();
    let body = lines.join("\n") + "\n";
    let text = format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes()));
    manifest.set_len(0).expect("cuts");
    manifest.write_at(text.as_bytes(), 0).expect("writes");
    drop(manifest);
    assert_damaged(&without, 1, &name, &[1]);
}

#[test]
fn a_repair_tells_what_it_gives_up_of_a_killed_process() {
    let (disk, durable, last) = left_by_two();
    let (all, list) = (buffers(&disk), lists(&disk).remove(0));
    assert_eq!(all.len(), 2);
    let repaired = |disk: &SimDisk| {
        repair(&handle(disk.mounted()), &Map::default()).expect("repairs").expect("is damaged").loss
    };
    let without_list = disk.fork();
    without_list.remove(&list).expect("is there");
    let loss = repaired(&without_list);
    assert_eq!((loss.durable, &loss.unreadable[..]), (durable, &[list][..]));
    let is_told = |loss: &Loss| loss.epochs.is_some_and(|(low, high)| low == durable.next() && high >= last);
    assert!(is_told(&loss), "{:?}", loss.epochs);
    // L4: the next life's epochs are above those that were given up.
    assert!(open(&without_list, safe(1)).report.first_epoch > last);
    let broken = disk.fork();
    flip(&broken, &all[1], 128);
    let loss = repaired(&broken);
    assert_eq!((loss.durable, &loss.unreadable[..]), (durable, &all[1..]));
    assert!(loss.epochs.is_some_and(|(low, _)| low == durable.next()), "{:?}", loss.epochs);
}

#[test]
fn a_buffer_of_which_a_power_cut_left_zeros_goes() {
    let disk = left(1);
    let name = buffers(&disk).remove(0);
    disk.open(&name).expect("is there").write_at(&[0; 200], 0).expect("writes");
    disk.crash_with(Survival::Everything, 1);
    drop(open(&disk, safe(1)));
    assert!(!buffers(&disk).contains(&name));
}

#[test]
fn a_clean_close_and_other_levels_leave_no_buffer_and_nothing_to_take() {
    let (disk, rig) = first_life(2);
    rig.worker().commit(&rig.epochs, 1, b"closed").expect("runs");
    assert!(buffers(&disk).len() >= 2);
    rig.log.close().expect("closes");
    assert_eq!((buffers(&disk), lists(&disk)), (Vec::new(), Vec::new()));
    drop(rig);
    let rig = open(&disk, safe(2));
    assert_eq!((found(&rig).len(), rig.report.taken_entries), (1, 0));
    let (disk, rig) = first_life(2);
    rig.worker().commit(&rig.epochs, 1, b"returned").expect("runs");
    disk.kill();
    let rig = open(&disk, config(1));
    assert_eq!((found(&rig).len(), rig.report.taken_entries), (1, 1));
    assert_eq!((buffers(&disk), lists(&disk)), (Vec::new(), Vec::new()));
}

#[test]
fn a_log_that_was_stopped_keeps_what_was_returned() {
    let (disk, rig) = first_life(1);
    let mut worker = rig.worker();
    worker.commit(&rig.epochs, 1, b"before").expect("runs");
    rig.advance();
    disk.fail_sync(1);
    rig.step_all();
    assert!(worker.commit(&rig.epochs, 2, b"refused").is_err(), "a failed sync has stopped the log");
    drop(worker);
    assert!(rig.log.close().is_err());
    drop(rig);
    let rig = open(&disk, safe(1));
    assert_eq!(found(&rig).into_keys().collect::<Vec<_>>(), [1]);
    // It was written again and synced, as the failed sync has lost it.
    disk.crash_with(Survival::Nothing, 1);
    assert_eq!(found(&open(&disk, safe(1))).into_keys().collect::<Vec<_>>(), [1]);
}

#[test]
fn b5_what_a_failed_sync_has_lost_is_written_again_before_blocks_rest_on_it() {
    let (disk, rig) = first_life(1);
    let mut workers = [rig.worker(), rig.worker()];
    let first = workers[0].commit(&rig.epochs, 1, &[1; 2000]).expect("runs");
    rig.advance();
    // Above the mark whose sync fails: only its buffer has it.
    let second = workers[1].commit(&rig.epochs, 2, b"later").expect("runs");
    disk.fail_sync(1);
    rig.log.logger_step(0);
    disk.kill();
    drop((workers, rig));
    let calls = {
        let disk = disk.fork();
        let before = disk.calls().all;
        assert_eq!(open(&disk, safe(1)).report.taken_entries, 1);
        disk.calls().all - before
    };
    let mut kept = 0;
    for call in 1..calls {
        for survival in Survival::ALL {
            let (disk, when) = (disk.fork(), format!("call {call}, {survival:?}"));
            disk.cut_power_at(disk.calls().all + call);
            assert!(try_open(&disk, safe(1)).is_err(), "{when}");
            disk.crash_with(survival, call);
            let rig = try_open(&disk, safe(1)).unwrap_or_else(|error| panic!("{when}: {error}"));
            let durable = rig.report.durable_epoch;
            let wanted = [(1, first), (2, second)].into_iter().filter(|(_, tid)| tid.epoch() <= durable);
            assert_eq!(
                found(&rig).into_keys().collect::<Vec<_>>(),
                wanted.map(|(key, _)| key).collect::<Vec<_>>(),
                "{when}"
            );
            kept += rig.rows.len();
        }
    }
    assert!(kept > 10, "{kept} rows kept");
}

#[test]
fn a_full_disk_refuses_a_commit_that_needs_a_buffer_and_an_open_without_space() {
    let (disk, rig) = first_life(1);
    let mut workers = [rig.worker(), rig.worker()];
    workers[0].commit(&rig.epochs, 1, b"has a buffer").expect("runs");
    disk.set_capacity(Some(disk.used_bytes() + 1000));
    let refused = workers[1].commit(&rig.epochs, 2, b"needs one").expect_err("has no space");
    assert!(matches!(refused, DurabilityError::DiskFull(_)), "{refused}");
    workers[0].commit(&rig.epochs, 3, b"goes on").expect("runs");
    disk.set_capacity(None);
    workers[1].commit(&rig.epochs, 4, b"has space").expect("runs");
    disk.kill();
    assert_eq!(found(&open(&disk, safe(1))).into_keys().collect::<Vec<_>>(), [1, 3, 4]);
    let (disk, rig) = first_life(1);
    rig.worker().commit(&rig.epochs, 1, &[7; 300_000]).expect("runs");
    disk.kill();
    drop(rig);
    // The file's zeros are cut behind the log's end, and what is taken is longer than they were.
    disk.set_capacity(Some(1));
    let error = try_open(&disk, safe(1)).err().expect("has no space");
    assert!(error.to_string().contains("No space") || error.to_string().contains("full"), "{error}");
    disk.set_capacity(None);
    assert_eq!(found(&open(&disk, safe(1))).len(), 1);
}

#[test]
fn where_it_cannot_be_had_an_open_says_so_and_changes_nothing() {
    let disk = SimDisk::new();
    disk.set_no_boot(true);
    let error = try_open(&disk, safe(1)).err().expect("no boot");
    assert!(error.to_string().contains("does not tell its boot"), "{error}");
    assert_eq!(disk.files(), Vec::<String>::new());
    disk.set_no_boot(false);
    disk.set_no_maps(true);
    assert!(try_open(&disk, safe(1)).is_err(), "no file can be mapped");
    assert_eq!(buffers(&disk), Vec::<String>::new());
    drop(open(&disk, config(1)));
    let error = try_open(&SimDisk::new(), LogConfig { loggers: 0, ..safe(1) }).err().expect("no log");
    assert!(error.to_string().contains("without a log"), "{error}");
}

#[test]
fn bytes_that_no_death_leaves_are_damage() {
    let (disk, rig) = first_life(1);
    rig.worker().commit(&rig.epochs, 1, b"returned").expect("runs");
    disk.kill();
    drop(rig);
    let name = buffers(&disk).pop().expect("a buffer");
    for at in [120, 124, 128, 140] {
        let disk = disk.fork();
        flip(&disk, &name, at);
        let error = try_open(&disk, safe(1)).err().expect("damaged");
        assert!(
            matches!(&error, DurabilityError::Damaged { file, .. } if *file == name),
            "byte {at}: {error}"
        );
        let examined = examine(&handle(disk.mounted()), &Map::default()).expect("reads");
        assert!(examined.damage.iter().any(|damage| damage.file == name), "byte {at}");
    }
    // The header, of the buffer and of the list.
    for name in [&name, &lists(&disk)[0]] {
        for at in [0, 20, 40, 50, 66, 73, 93] {
            let disk = disk.fork();
            flip(&disk, name, at);
            assert_damaged(&disk, 1, name, &[]);
        }
    }
}

#[test]
fn b4_a_buffer_or_a_list_that_is_missing_is_damage_that_names_it() {
    let disk = left(2);
    let all: Vec<_> = buffers(&disk).into_iter().chain(lists(&disk)).collect();
    assert_eq!(all.len(), 4, "each log has a buffer and a list: {all:?}");
    for name in &all {
        let disk = disk.fork();
        disk.remove(name).expect("is there");
        assert_damaged(&disk, 2, name, &[1]);
    }
    // All of them, as somebody who tidies up would take them.
    let tidied = disk.fork();
    all.iter().for_each(|name| tidied.remove(name).expect("is there"));
    assert_damaged(&tidied, 2, "log0/buffers-1", &[1]);
    assert_eq!(found(&open(&disk, safe(2))).len(), 2);
}

#[test]
fn b4_a_copy_in_a_buffers_place_is_damage_and_a_file_that_is_numbered_anew_is_none() {
    let disk = left(1);
    let name = buffers(&disk).pop().expect("a buffer");
    let copied = disk.fork();
    let bytes = {
        let file = copied.open(&name).expect("is there");
        let mut bytes = vec![0; file.len().expect("has a length") as usize];
        file.read_at(&mut bytes, 0).expect("reads");
        bytes
    };
    copied.remove(&name).expect("is there");
    copied.create(&name).expect("makes it").write_at(&bytes, 0).expect("writes");
    for has_births in [true, false] {
        let copied = copied.fork();
        copied.set_no_births(!has_births);
        assert_damaged(&copied, 1, &name, &[1]);
    }
    // As another mount of the same file system may do.
    disk.renumber_files(1000);
    let unknown = disk.fork();
    unknown.set_no_births(true);
    assert!(matches!(try_open(&unknown, safe(1)), Err(DurabilityError::Damaged { .. })), "it is not silent");
    assert_eq!(found(&open(&disk, safe(1))).len(), 2);
}

#[test]
fn b4_a_log_that_lacks_what_its_buffers_were_written_as_is_damage() {
    let (disk, rig) = first_life(1);
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"durable");
    let before = disk.fork();
    rig.commit_epoch(&mut worker, 2, b"logged");
    worker.commit(&rig.epochs, 3, b"returned").expect("runs");
    disk.kill();
    assert_eq!(found(&open(&disk.fork(), safe(1))).len(), 3);
    let log = disk.files().into_iter().rfind(|name| name.starts_with("log0/log-")).expect("a log");
    // The log is put back as it was a moment before: its end is that of a torn log.
    let (older, file) = (before.open(&log).expect("is there"), disk.open(&log).expect("is there"));
    let mut bytes = vec![0; older.len().expect("has a length") as usize];
    older.read_at(&mut bytes, 0).expect("reads");
    file.write_at(&bytes, 0).expect("writes");
    let error = try_open(&disk, safe(1)).err().expect("an older log");
    assert!(matches!(&error, DurabilityError::Damaged { file, .. } if *file == log), "{error}");
}

#[test]
fn b4_a_buffer_that_was_changed_after_its_process_died_is_told() {
    let disk = left(1);
    let name = buffers(&disk).pop().expect("a buffer");
    for (seconds, is_told) in [(0, false), (i128::from(u64::MAX), true)] {
        let disk = disk.fork();
        disk.set_changed(&name, seconds * 1_000_000_000);
        let examined = examine(&handle(disk.mounted()), &Map::default()).expect("reads");
        let files = examined.not_proven.iter().flat_map(|left| left.files.clone());
        assert_eq!(files.collect::<Vec<_>>(), if is_told { vec![name.clone()] } else { Vec::new() });
        let says = examined.not_proven.as_ref().map(ToString::to_string).unwrap_or_default();
        assert_eq!(says.starts_with(&format!("{name} was changed after the process had died")), is_told);
        let rig = open(&disk, safe(1));
        assert_eq!(rig.report.not_proven, examined.not_proven);
        assert_eq!(found(&rig).len(), 2, "it is taken all the same");
    }
}

#[test]
fn an_examination_of_a_damaged_log_of_a_killed_process_says_what_is_damaged() {
    let (disk, rig) = first_life(1);
    let mut worker = rig.worker();
    for key in 1..4 {
        rig.commit_epoch(&mut worker, key, b"durable");
    }
    worker.commit(&rig.epochs, 4, b"returned").expect("runs");
    disk.kill();
    drop(worker);
    drop(rig);
    let log = disk.files().into_iter().rfind(|name| name.contains("log0/") && !name.contains("/buffer-"));
    let log = log.expect("a log file");
    let bytes = disk.open(&log).expect("is there").len().expect("has a length");
    for at in (0..bytes.min(2048)).step_by(7) {
        let disk = disk.fork();
        flip(&disk, &log, at);
        let examined = examine(&handle(disk.mounted()), &Map::default()).expect("reads");
        let opened = try_open(&disk, safe(1));
        assert_eq!(opened.is_err(), !examined.damage.is_empty(), "byte {at}: {:?}", examined.damage);
    }
}

#[test]
fn an_examination_says_what_an_open_takes_and_changes_nothing() {
    let (disk, rig) = first_life(1);
    let epoch = rig.worker().commit(&rig.epochs, 1, b"returned").expect("runs").epoch();
    disk.kill();
    drop(rig);
    let before = disk.fork();
    let examined = examine(&handle(disk.mounted()), &Map::default()).expect("reads");
    assert_eq!((examined.damage.len(), examined.to_take), (0, Some((1, epoch))));
    assert_eq!(disk.files(), before.files());
    let rig = open(&disk, safe(1));
    assert_eq!((rig.report.taken_entries, rig.report.durable_epoch), (1, epoch));
}

#[test]
fn i4_a_forked_child_stores_nothing_and_removes_nothing() {
    let disk = SimDisk::new();
    let process = disk.mounted();
    let rig = Rig::open(Arc::new(process.clone()), safe(1), Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    worker.commit(&rig.epochs, 1, b"parent").expect("runs");
    {
        let _child = process.in_child();
        assert!(rig.log.close().is_err());
        rig.step_all();
    }
    worker.commit(&rig.epochs, 2, b"parent").expect("runs");
    disk.kill();
    assert_eq!(found(&open(&disk, safe(1))).len(), 2);
}
