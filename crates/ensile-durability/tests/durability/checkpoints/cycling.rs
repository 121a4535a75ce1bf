//! Checkpoints that go round by ranges (K4, K5): turns, what of the log stays, changes of the strategy, power cut at
//! any call, damage.

use crate::prelude::*;

const MANIFEST: &str = "MANIFEST";

fn open(disk: &SimDisk) -> Life {
    Life::open(disk, 2, cycling()).expect("opens")
}

/// Commits to all keys, the value says when.
fn fill(life: &Life, worker: &mut Worker, round: u8) {
    life.commit_all(worker, 0..KEYS, &[round; 40]);
}

/// A database with a checkpoint of four ranges, of which one has had a turn more.
fn life_with_ranges(disk: &SimDisk) -> (Life, Worker) {
    let life = open(disk);
    let mut worker = life.rig.worker();
    fill(&life, &mut worker, 1);
    life.checkpoint().expect("is installed");
    fill(&life, &mut worker, 2);
    let report = life.turn();
    assert_eq!(taken(&report), (0, 1, 4));
    (life, worker)
}

/// A disk with such a database, which has ended since, and what is present.
fn disk_with_ranges() -> (SimDisk, super::store::Changes) {
    let disk = SimDisk::new();
    let (life, mut worker) = life_with_ranges(&disk);
    fill(&life, &mut worker, 3);
    let present = life.store.present();
    drop((worker, life));
    disk.crash(1);
    (disk, present)
}

fn taken(report: &CheckpointReport) -> (u64, u64, u64) {
    let turn = report.turn.expect("it is a turn");
    (turn.first, turn.taken, turn.ranges)
}

fn parts(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("/ckpt-")).collect()
}

/// Bytes of log files.
fn log_bytes(disk: &SimDisk) -> usize {
    let logs = disk.files().into_iter().filter(|name| name.starts_with("log"));
    logs.map(|name| disk.bytes(&name).len()).sum()
}

/// The manifest with other lines, and their checksum.
fn rewrite(disk: &SimDisk, change: impl Fn(&str) -> String) {
    let text = String::from_utf8(disk.bytes(MANIFEST)).expect("text");
    let body = change(&text[..text.rfind("crc32c ").expect("a checksum")]);
    disk.put(MANIFEST, format!("{body}crc32c {:08x}\n", crc32c(body.as_bytes())).into_bytes());
}

#[test]
fn the_first_turn_takes_all_ranges_and_each_later_one_the_oldest() {
    let disk = SimDisk::new();
    let life = open(&disk);
    let mut worker = life.rig.worker();
    assert_eq!(taken(&life.turn()), (0, 1, 1), "a state of nothing has one range");
    fill(&life, &mut worker, 1);
    assert_eq!(taken(&life.turn()), (0, 1, 1), "whether it has grown is seen by its last turn");
    let all = life.turn();
    assert_eq!((taken(&all), all.entries), ((0, 4, 4), KEYS));
    let mut last = all;
    for round in 0..3 {
        for at in 0..4 {
            fill(&life, &mut worker, 2 + round);
            let report = life.turn();
            assert_eq!((taken(&report), report.entries), ((at, 1, 4), KEYS));
            assert!(report.low >= last.low && report.high > last.high && report.low < report.high);
            assert!(report.bytes_written < report.bytes / 2, "a quarter, about: {report:?}");
            last = report;
        }
    }
    assert_eq!(parts(&disk).len(), 4 * 4, "a set of files for each range");
    let asked = life.checkpoint().expect("is installed");
    assert_eq!(taken(&asked), (0, 4, 4), "a demand is answered by all of them");
    assert!(asked.low > last.high, "all have begun behind it");
    drop(worker);
    life.end();
}

#[test]
fn k5_the_log_is_cut_at_the_least_e_l_of_all_ranges() {
    let disk = SimDisk::new();
    let life = open(&disk);
    let mut worker = life.rig.worker();
    fill(&life, &mut worker, 1);
    life.checkpoint().expect("is installed");
    let mut lows = Vec::new();
    for turn in 0..8_u8 {
        for round in 0..6 {
            fill(&life, &mut worker, turn * 6 + round);
        }
        lows.push(life.turn().low);
    }
    assert!(
        lows[..3].windows(2).all(|pair| pair[0] == pair[1]),
        "the first round's e_l is the least: {lows:?}"
    );
    assert!(lows[3..].windows(2).all(|pair| pair[0] < pair[1]), "from then on one turn more goes: {lows:?}");
    // A round and a turn of six rounds of keys, a file more of each log, and what is set aside.
    let most = (5 * 6 + 6) * KEYS as usize * 90 + 4 * 4096;
    assert!(log_bytes(&disk) < most, "{} of {most}", log_bytes(&disk));
    let present = life.store.present();
    drop((worker, life));
    disk.crash(9);
    assert!(open(&disk).found == present);
}

#[test]
fn k5_a_delete_and_what_it_deletes_come_from_the_log_together() {
    let disk = SimDisk::new();
    let life = open(&disk);
    let mut worker = life.rig.worker();
    fill(&life, &mut worker, 1);
    let all = life.checkpoint().expect("is installed");
    // Between the least e_l and the e_l of the next turns: keys of every range go, and some come back.
    for key in 0..KEYS {
        life.commit_epoch(&mut worker, key, Some(b"between"));
        life.commit(&mut worker, key, None);
        if key % 3 == 0 {
            life.commit(&mut worker, key, Some(b"back"));
        }
    }
    life.rig.settle();
    for turn in 0..3 {
        let report = life.turn();
        assert_eq!((taken(&report), report.low), ((turn, 1, 4), all.low));
        let present = life.store.present();
        let copy = disk.fork();
        copy.crash(turn);
        let next = open(&copy);
        assert!(next.found == present, "behind turn {turn}");
        assert_eq!(next.rig.report.checkpoint, Some((report.low, report.high)));
    }
}

#[test]
fn a_listed_generation_keeps_a_file_of_each_log_whatever_is_covered() {
    let disk = SimDisk::new();
    let life = open(&disk);
    let mut worker = life.rig.worker();
    fill(&life, &mut worker, 1);
    life.checkpoint().expect("is installed");
    // Something for the next open to replay, so that the generation stays listed; of the other log nothing.
    let mut other = life.rig.worker();
    life.commit_epoch(&mut other, 1, Some(b"behind"));
    let mut present = life.store.present();
    drop((worker, other, life));
    disk.crash(3);
    for round in 0..6_u8 {
        let life = open(&disk);
        assert!(life.found == present, "life {round}");
        let mut worker = life.rig.worker();
        life.commit(&mut worker, u64::from(round), Some(&[round; 50]));
        assert_eq!(taken(&life.turn()).1, 1, "one range");
        present = life.store.present();
        drop((worker, life));
        disk.crash(u64::from(round));
    }
    let listed = String::from_utf8(disk.bytes(MANIFEST)).expect("text").matches("\ngeneration ").count();
    assert!(listed < 6, "generations go with the ranges that were written in them: {listed} are left");
}

#[test]
fn k5_a_log_that_ends_below_the_e_h_of_any_range_is_damage() {
    let (disk, life, mut worker) = Life::first_with_worker(1, cycling());
    fill(&life, &mut worker, 1);
    let all = life.checkpoint().expect("is installed");
    fill(&life, &mut worker, 2);
    let turn = life.turn();
    assert!(turn.low == all.low && turn.high > all.high, "one range is from then on");
    drop((worker, life));
    disk.crash(1);
    // Only the manifest is a witness of the last marks.
    disk.lose("HINT");
    let log = disk.files().into_iter().rfind(|name| name.starts_with("log0/log-")).expect("a log");
    let end = disk.bytes(&log).iter().rposition(|byte| *byte != 0).expect("written") as u64;
    disk.flip(&log, end - 20, 1);
    let error = Life::open(&disk, 1, cycling()).err().expect("damage").to_string();
    assert!(error.contains(&log) && error.contains(&format!("epoch {}", turn.high)), "{error}");
}

#[test]
fn the_strategy_may_change_between_any_two_opens_and_nothing_is_lost() {
    type Kind = (&'static str, fn() -> CheckpointConfig, usize);
    let kinds: [Kind; 4] = [
        ("fuzzy", settings, 2),
        ("cycling", cycling, 1),
        ("pictures", pictures, 2),
        ("without a log", pictures, 0),
    ];
    let more_ranges: Kind = ("more ranges", || CheckpointConfig { ranges: 7, ..cycling() }, 3);
    for (first, one, one_loggers) in kinds {
        for (second, other, other_loggers) in kinds.into_iter().chain([more_ranges]) {
            let disk = SimDisk::new();
            let mut expected = Default::default();
            for (round, (settings, loggers)) in
                [(one, one_loggers), (other, other_loggers)].into_iter().cycle().take(5).enumerate()
            {
                let life = Life::open(&disk, loggers, settings()).expect("opens");
                assert!(life.found == expected, "{first}, {second}: before life {round}");
                let mut worker = life.rig.worker();
                fill(&life, &mut worker, round as u8);
                life.checkpoint().expect("is installed");
                life.commit(&mut worker, round as u64, None);
                if settings().log_bytes.is_some() {
                    life.turn();
                }
                life.rig.settle();
                if loggers == 0 {
                    life.checkpoint().expect("is installed");
                }
                expected = life.store.present();
                drop((worker, life));
                disk.crash(round as u64);
            }
        }
    }
}

/// Cuts the power at each call of `act`, which works in a life that `prepare` has begun: what was durable before is
/// there.
fn cut_power_everywhere(prepare: impl Fn(&Life, &mut Worker), act: impl Fn(&Life)) -> u64 {
    let mut call = 1;
    loop {
        let disk = SimDisk::new();
        let life = open(&disk);
        let mut worker = life.rig.worker();
        prepare(&life, &mut worker);
        let (present, before) = (life.store.present(), disk.calls().all);
        disk.cut_power_at(before + call);
        act(&life);
        let was_cut = disk.is_without_power();
        drop((worker, life));
        disk.heal();
        disk.crash(call);
        let life = open(&disk);
        assert!(life.found == present, "power was cut at call {call}");
        // It goes on from there.
        life.checkpoint().expect("is installed");
        assert_eq!(parts(&disk).len(), 4 * 4, "nothing is left over");
        if !was_cut {
            return call;
        }
        call += 1;
    }
}

/// Steps until a turn is installed and what it covers is removed, or nothing more happens.
fn try_turn(life: &Life) {
    let before = life.checkpoints.stats().installed;
    for _ in 0..120 {
        for checkpointer in 0..2 {
            life.step(checkpointer);
        }
        if life.checkpoints.stats().installed > before {
            life.step(0);
            return;
        }
        life.rig.settle();
    }
}

#[test]
fn power_cut_at_any_call_of_a_turn_leaves_the_ranges_before_it_or_behind_it() {
    let prepare = |life: &Life, worker: &mut Worker| {
        fill(life, worker, 1);
        life.checkpoint().expect("is installed");
        fill(life, worker, 2);
        life.turn();
        life.commit(worker, 3, None);
        life.commit_epoch(worker, 40, Some(b"new"));
    };
    let calls = cut_power_everywhere(prepare, try_turn);
    assert!(calls > 40, "{calls} calls only");
}

#[test]
fn power_cut_at_any_call_of_a_turn_that_takes_all_leaves_what_was_there() {
    let prepare = |life: &Life, worker: &mut Worker| {
        fill(life, worker, 1);
        life.checkpoint().expect("is installed");
        life.commit_epoch(worker, 3, None);
    };
    let all = |life: &Life| {
        drop(life.checkpoints.demand());
        try_turn(life);
    };
    let calls = cut_power_everywhere(prepare, all);
    assert!(calls > 100, "{calls} calls only");
}

#[test]
fn a_close_in_the_middle_of_a_turn_leaves_nothing_that_the_next_open_keeps() {
    for steps in 0..30 {
        let disk = SimDisk::new();
        let life = open(&disk);
        let mut worker = life.rig.worker();
        fill(&life, &mut worker, 1);
        life.checkpoint().expect("is installed");
        fill(&life, &mut worker, 2);
        for step in 0..steps {
            life.step(step % 2);
            life.rig.settle();
        }
        let present = life.store.present();
        drop(worker);
        life.end_here();
        assert!(open(&disk).found == present, "after {steps} steps");
        assert_eq!(parts(&disk).len(), 4 * 4, "after {steps} steps");
    }
}

#[test]
fn a_failed_sync_of_a_log_in_the_midst_of_a_turn_ends_writing_and_nothing_is_lost() {
    let mut midst = 0;
    for (steps, is_killed) in (0..40).flat_map(|steps| [(steps, false), (steps, true)]) {
        let disk = SimDisk::new();
        let (life, mut worker) = life_with_ranges(&disk);
        life.commit_epoch(&mut worker, 3, None);
        for step in 0..steps {
            life.step(step % 2);
            life.rig.settle();
        }
        midst += u64::from(life.checkpoints.stats().running.is_some());
        let (present, manifest) = (life.store.present(), disk.bytes(MANIFEST));
        let (taken_last, ..) = taken(&life.checkpoints.stats().last.expect("installed"));
        life.commit(&mut worker, 5, Some(b"unknown"));
        let unknown = life.store.present();
        disk.fail_sync(1);
        life.rig.settle();
        assert!(matches!(life.rig.log.health(), Health::Poisoned(_)), "after {steps} steps");
        // The disk works again. Nothing is written any more, by the log or by turns; what the last turn covered goes.
        let mut behind = Vec::new();
        for _ in 0..20 {
            life.rig.settle();
            behind.extend([life.step(0), life.step(1)]);
        }
        let last = behind.iter().rposition(|step| *step != CheckpointStep::Stopped);
        assert!(last.is_none_or(|at| at < 2), "after {steps} steps: {behind:?}");
        assert!(disk.bytes(MANIFEST) == manifest, "no turn is installed beside a log that has stopped");
        assert!(matches!(worker.appender.reserve(1), Err(DurabilityError::Stopped(_))));
        let error = life.checkpoints.demand().outcome().expect("an answer").expect_err("it has stopped");
        let said = error.to_string();
        assert!(said.contains("/log-1-") && said.contains("open the database again"), "{said}");
        drop((worker, life));
        if is_killed {
            disk.kill()
        } else {
            disk.crash(steps as u64)
        };
        let life = open(&disk);
        assert!(life.found == present || life.found == unknown, "after {steps} steps");
        fill(&life, &mut life.rig.worker(), 4);
        assert_eq!(taken(&life.turn()), ((taken_last + 1) % 4, 1, 4), "the round goes on where it was");
    }
    assert!(midst > 40, "{midst} in the midst of a turn");
}

#[test]
fn damage_of_ranges_is_named_with_its_file() {
    let (disk, present) = disk_with_ranges();
    assert!(open(&disk.fork()).found == present);
    let refused = |change: &dyn Fn(&SimDisk)| {
        let hurt = disk.fork();
        change(&hurt);
        match Life::open(&hurt, 2, cycling()).map(drop) {
            Err(DurabilityError::Damaged { file, detail, .. }) => (file, detail),
            other => panic!("damage must be found, not {other:?}"),
        }
    };
    let files: Vec<String> = parts(&disk).into_iter().filter(|name| disk.bytes(name).len() > 300).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in &files {
        assert_eq!(refused(&|disk| disk.lose(file)).0, *file);
        assert_eq!(refused(&|disk| disk.flip(file, 150, 1)).0, *file);
        let other = files.iter().find(|other| *other != file).expect("another");
        let (found, detail) = refused(&|disk| disk.put(file, disk.bytes(other)));
        assert!(found == *file && detail.contains("another checkpoint"), "{found}: {detail}");
    }
    // A range that begins later or earlier than it did: an entry is in a range that is not its own.
    let text = String::from_utf8(disk.bytes(MANIFEST)).expect("text");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("range ")).collect();
    assert_eq!(lines.len(), 4);
    let start = |line: &str| line.split(" checkpoint ").next().expect("a start").to_owned();
    let (section, key) =
        start(lines[1]).rsplit_once(" key ").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a key");
    let number = u64::from_str_radix(&key, 16).expect("a number");
    for shifted in [number - 4, number + 4] {
        let (file, detail) = refused(&|disk| {
            rewrite(disk, |text| text.replace(&start(lines[1]), &format!("{section} key {shifted:016x}")));
        });
        assert!(files.contains(&file) && detail.contains("not in its range"), "{file}: {detail}");
    }
    // Two ranges have each other's place, a line is missing, one is there twice, or begins where another one does.
    let swapped = |text: &str| {
        let (one, other) = (start(lines[1]), start(lines[2]));
        text.replace(&one, "range x").replace(&other, &one).replace("range x", &other)
    };
    let without = |text: &str| text.replace(&format!("{}\n", lines[2]), "");
    let twice = |text: &str| text.replace(lines[2], lines[1]);
    let late = |text: &str| text.replace(&start(lines[0]), "range 0 key 00");
    let changes: [&dyn Fn(&str) -> String; 4] = [&swapped, &without, &twice, &late];
    for change in changes {
        assert_eq!(refused(&|disk| rewrite(disk, change)).0, MANIFEST);
    }
}

#[test]
fn an_examination_lists_ranges_and_a_copy_that_is_adopted_keeps_them() {
    let (disk, present) = disk_with_ranges();
    let found = examine(&handle(disk.clone()), &Store::default()).expect("it can be read");
    assert!(found.damage.is_empty(), "{found:?}");
    let checkpoint = found.checkpoint.expect("a checkpoint");
    assert_eq!((checkpoint.ranges.len(), checkpoint.files), (4, 16));
    assert_eq!(checkpoint.ranges.iter().map(|range| range.bytes).sum::<u64>(), checkpoint.bytes);
    assert_eq!(checkpoint.ranges.iter().map(|range| range.low).min(), Some(checkpoint.low));
    assert_eq!(checkpoint.ranges.iter().map(|range| range.high).max(), Some(checkpoint.high));
    let of_checkpoint = found.files.iter().filter(|file| matches!(file.role, Role::Checkpoint { .. }));
    assert_eq!(of_checkpoint.count(), 16);
    let copy = disk.fork();
    let adopted = adopt(&(Arc::new(copy.clone()) as Arc<dyn Disk>)).expect("is adopted");
    assert_ne!(adopted.database, adopted.parent);
    let life = open(&copy);
    assert!(life.found == present);
    // Turns of the copy stand beside ranges of the original.
    for _ in 0..3 {
        life.turn();
    }
    drop(life);
    copy.crash(2);
    assert!(open(&copy).found == present);
}
