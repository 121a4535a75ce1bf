//! Many short lives: few files, opens that do not grow, and merged generations that say what their sources said.

use ensile_base::limits::UNMERGED_GENERATIONS_MAX;

use crate::prelude::*;

/// Lives that are enough for a merge at the next open.
const LIVES: u64 = UNMERGED_GENERATIONS_MAX as u64 + 1;

fn open(disk: &SimDisk, config: LogConfig) -> Rig {
    Rig::open(Arc::new(disk.mounted()), config, Clock::manual()).expect("opens")
}

/// A life of one row, which ends by a close or without.
fn live(disk: &SimDisk, config: &LogConfig, key: u64, value: &[u8], close: bool) -> (Rig, Tid) {
    let rig = open(disk, config.clone());
    let tid = rig.commit_epoch(&mut rig.worker(), key, value);
    if close {
        rig.log.close().expect("closes");
    } else {
        disk.kill();
    }
    (rig, tid)
}

fn log_files(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.starts_with("log")).collect()
}

fn is_merged(name: &str) -> bool {
    name.ends_with("-merged")
}

/// Rows by key: which value, by which commit.
fn sorted(rows: &Rows) -> BTreeMap<u64, (Tid, Vec<u8>)> {
    rows.iter().map(|(key, row)| (*key, row.clone())).collect()
}

fn entries_in_order(disk: &SimDisk) -> Vec<Tid> {
    let mut tids = Vec::new();
    let found = visit_log(&handle(disk.mounted()), &Map::default(), &mut |entry| {
        tids.push(entry.tid);
        std::ops::ControlFlow::Continue(())
    });
    assert!(found.expect("reads").damage.is_empty());
    tids
}

#[test]
fn many_short_lives_leave_few_files_and_an_open_does_not_grow() {
    for ends in ["closes", "kills", "crashes", "all"] {
        let disk = SimDisk::new();
        let (mut rows, mut calls_max) = (BTreeMap::new(), [0; 2]);
        for life in 0..400u64 {
            let before = disk.calls();
            let rig = open(&disk, config(1));
            let after = disk.calls();
            let half = usize::from(life >= 200);
            calls_max[half] = calls_max[half].max(after.all - before.all);
            // The first one makes the manifest, the folder and its mark besides.
            let syncs_max = if life == 0 { 8 } else { 5 };
            assert!(after.folder_syncs - before.folder_syncs <= syncs_max, "{ends}, life {life}");
            assert_eq!(sorted(&rig.rows), rows, "{ends}, life {life}");
            let tid = rig.worker().commit(&rig.epochs, life % 100, &life.to_le_bytes()).expect("runs");
            rows.insert(life % 100, (tid, life.to_le_bytes().to_vec()));
            rig.settle();
            match (ends, life % 3) {
                ("closes", _) | ("all", 0) => rig.log.close().expect("closes"),
                ("kills", _) | ("all", 1) => disk.kill(),
                _ => disk.crash(life),
            }
            let files = log_files(&disk);
            assert!(files.len() <= UNMERGED_GENERATIONS_MAX + 2, "{ends}, life {life}: {files:?}");
        }
        let [early, late] = calls_max;
        assert!(late <= early + early / 4, "{ends}: an open makes {late} calls, {early} in the first lives");
    }
}

#[test]
fn a_merged_generation_has_the_entries_of_its_sources_in_the_order_of_their_tids() {
    let disk = SimDisk::new();
    let several = config(3);
    let mut tids = Vec::new();
    for life in 0..LIVES {
        let rig = open(&disk, several.clone());
        let mut workers: Vec<_> = (0..3).map(|_| rig.worker()).collect();
        for round in 0..4 {
            for (key, worker) in (0..).zip(&mut workers) {
                // Beyond a buffer's length too.
                let bytes = if (life, round, key) == (3, 2, 1) { 3 << 20 } else { 700 * round };
                tids.push(worker.commit(&rig.epochs, key, &vec![life as u8; bytes]).expect("runs"));
            }
            rig.settle();
        }
        rig.log.close().expect("closes");
    }
    tids.sort_unstable();
    assert_eq!(entries_in_order(&disk), tids);
    let rows = sorted(&open(&disk.fork(), config(1)).rows);
    let rig = open(&disk, several.clone());
    assert_eq!(rig.report.merged_generations, LIVES);
    assert_eq!(sorted(&rig.rows), rows);
    rig.log.close().expect("closes");
    assert_eq!(log_files(&disk).iter().filter(|name| is_merged(name)).count(), 1);
    assert_eq!(entries_in_order(&disk), tids, "changes show the same");
    assert!(examine(&handle(disk.mounted()), &Map::default()).expect("reads").damage.is_empty());
    assert_eq!(sorted(&open(&disk, several).rows), rows);
}

#[test]
fn l4_what_was_void_before_a_merge_is_void_after_it() {
    let disk = SimDisk::new();
    let two = config(2);
    let mut void = Vec::new();
    for life in 0..LIVES {
        let rig = open(&disk, two.clone());
        let (mut a, mut b) = (rig.worker(), rig.worker());
        rig.commit_epoch(&mut a, life, b"kept");
        // Whole and synced in log 0 with its mark; log 1 never gets so far.
        void.push(a.commit(&rig.epochs, 1000 + life, b"void").expect("runs"));
        b.commit(&rig.epochs, 2000 + life, b"void too").expect("runs");
        rig.advance();
        rig.log.logger_step(0);
        disk.kill();
    }
    for open_again in 0..3 {
        let rig = open(&disk, two.clone());
        assert_eq!(rig.report.merged_generations, if open_again == 0 { LIVES } else { 0 });
        let keys: Vec<u64> = sorted(&rig.rows).into_keys().collect();
        assert_eq!(keys, (0..LIVES).collect::<Vec<_>>(), "open {open_again}");
        assert!(rig.first > void.last().expect("some").epoch(), "epochs in between never come back");
        disk.kill();
    }
}

#[test]
fn power_fails_at_every_call_of_an_open_that_merges() {
    let disk = SimDisk::new();
    let mut used = Tid::ZERO;
    for life in 0..LIVES {
        used = live(&disk, &config(2), life, b"row", life % 2 == 0).1;
    }
    let work = disk.fork();
    work.keep_moments();
    let rig = open(&work, config(2));
    let (rows, first) = (sorted(&rig.rows), rig.first);
    assert_eq!((rows.len() as u64, rig.report.merged_generations), (LIVES, LIVES));
    let moments = work.take_moments();
    assert!(moments.len() > 20);
    let (mut merged, mut unmerged) = (0, 0);
    for moment in moments {
        for survival in Survival::ALL {
            let (call, disk) = (moment.number, moment.disk.fork());
            disk.crash_with(survival, call);
            if log_files(&disk).iter().filter(|name| !is_merged(name)).count() < LIVES as usize {
                merged += 1;
            } else {
                unmerged += 1;
            }
            // Twice: what the first open leaves must be whole as well.
            for round in 0..2 {
                let rig = open(&disk, config(2));
                assert_eq!(sorted(&rig.rows), rows, "call {call}, {survival:?}, open {round}");
                assert!(rig.first > used.epoch() && first > used.epoch());
                disk.crash_with(survival, call);
            }
            let (_, tid) = live(&disk, &config(2), 77, b"later", true);
            let after = open(&disk, config(2));
            assert_eq!(after.rows[&77], (tid, b"later".to_vec()), "call {call}, {survival:?}");
            let files = log_files(&disk).len();
            assert!(files <= 2 * (UNMERGED_GENERATIONS_MAX + 2), "call {call}, {survival:?}: {files}");
        }
    }
    assert!(merged > 10 && unmerged > 10, "{merged} had removed sources, {unmerged} had not");
}

#[test]
fn a_repair_beside_a_merge_that_had_not_ended_leaves_a_folder_that_opens() {
    let disk = SimDisk::new();
    for life in 0..LIVES {
        live(&disk, &config(1), life, b"row", true);
    }
    let work = disk.fork();
    work.keep_moments();
    drop(open(&work, config(1)));
    let unfinished = |disk: &SimDisk| {
        log_files(disk).iter().any(|name| is_merged(name)) && log_files(disk).len() > LIVES as usize
    };
    let moment = work.take_moments().into_iter().find(|moment| unfinished(&moment.disk));
    let disk = moment.expect("a merge under way").disk.fork();
    disk.crash_with(Survival::Everything, 1);
    assert!(unfinished(&disk));
    // The newest life's only entry: it is given up.
    let newest = log_files(&disk).into_iter().filter(|name| !is_merged(name)).max_by_key(|name| name.len());
    disk.flip(&newest.expect("a file"), 100, 1);
    assert!(repair(&handle(disk.mounted()), &Map::default()).expect("repairs").is_some());
    let rig = open(&disk, config(1));
    assert!(rig.rows.len() < LIVES as usize && !rig.rows.is_empty());
}

#[test]
fn a_full_disk_leaves_the_generations_as_they_are() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(disk.used_bytes() + (5 << 20)));
    let small = LogConfig { segment_bytes: 4096, ..config(1) };
    for life in 0..2 * LIVES {
        live(&disk, &small, life, &[1; 1 << 17], true);
    }
    let files = log_files(&disk);
    assert!(files.len() > LIVES as usize && !files.iter().any(|name| is_merged(name)), "{files:?}");
    disk.set_capacity(None);
    let rig = open(&disk, small);
    assert_eq!(rig.report.merged_generations, 2 * LIVES);
    assert_eq!(rig.rows.len() as u64, 2 * LIVES);
}
