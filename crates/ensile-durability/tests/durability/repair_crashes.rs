//! Power fails at each call of a repair: the folder is damaged as before, and repaired again with the same end, or it
//! is whole at D'. Nothing that was given up comes back, and no epoch of it is used again (L4).

use crate::damage::disk_with_entries;
use crate::prelude::*;
use crate::repairing::disk_with_checkpoint;

/// How a state is made, and what an open of the folder finds: all rows, and the first epoch.
#[derive(Clone, Copy)]
struct Kind {
    state: fn() -> Box<dyn Recoverable>,
    open: fn(&SimDisk) -> (String, Epoch),
}

const MAP: Kind = Kind {
    state: || Box::new(Map::default()),
    open: |disk| {
        let rig = Rig::simulated(disk, 2);
        let mut rows: Vec<_> = rig.rows.iter().collect();
        rows.sort_unstable();
        (format!("{rows:?}"), rig.first)
    },
};

const STORE: Kind = Kind {
    state: || Box::new(Framing),
    open: |disk| {
        let life = Life::open(disk, 2, settings()).expect("it is whole");
        (format!("{:?}", life.found), life.rig.first)
    },
};

impl Kind {
    fn examine(self, disk: &SimDisk) -> Examination {
        examine(&handle(disk.mounted()), &*(self.state)()).expect("it can be read")
    }

    fn repair(self, disk: &SimDisk) -> Repaired {
        repair(&handle(disk.mounted()), &*(self.state)())
            .expect("it can be repaired")
            .expect("something is damaged")
    }
}

/// Every call of the repair of `damaged`, and every way of losing what was not synced.
fn every_call(damaged: &SimDisk, kind: Kind) {
    let before = kind.examine(damaged);
    let Some(Remedy::Cut(loss)) = &before.remedy else { panic!("it can be cut: {before:?}") };
    let given_up = loss.epochs.map_or(Epoch::ZERO, |(_, last)| last);
    let manifest = damaged.bytes("MANIFEST");
    let disk = damaged.fork();
    disk.keep_moments();
    assert_eq!(&kind.repair(&disk).loss, loss);
    let moments = disk.take_moments();
    let (rows, first) = (kind.open)(&disk);
    assert!(first > given_up);
    let (mut again, mut whole) = (0, 0);
    for moment in moments {
        for survival in Survival::ALL {
            let (call, disk) = (moment.number, moment.disk.fork());
            disk.crash_with(survival, call);
            let found = kind.examine(&disk);
            if found.damage.is_empty() {
                whole += 1;
            } else {
                let is_replaced = disk.bytes("MANIFEST") != manifest;
                assert!(is_replaced || found.damage == before.damage, "call {call}, {survival:?}: {found:?}");
                assert_eq!(kind.repair(&disk).loss.durable, loss.durable, "call {call}, {survival:?}");
                again += 1;
            }
            let (found, first) = (kind.open)(&disk);
            assert_eq!(found, rows, "call {call}, {survival:?}");
            assert!(first > given_up, "call {call}, {survival:?}: {first} after {given_up} was given up");
        }
    }
    assert!(again > 5 && whole > 5, "{again} repaired again, {whole} whole");
}

#[test]
fn a_repair_of_a_log_that_is_damaged_in_the_middle_may_be_cut_off_at_every_call() {
    let disk = disk_with_entries(false);
    disk.flip("log1/log-1-0", 700, 4);
    every_call(&disk, MAP);
}

#[test]
fn a_repair_that_gives_up_later_generations_may_be_cut_off_at_every_call() {
    let disk = disk_with_entries(false);
    for key in [7, 8] {
        let rig = Rig::simulated(&disk, 1);
        rig.commit_epoch(&mut rig.worker(), key, b"later");
        drop(rig);
        disk.crash(2);
    }
    disk.flip("log0/log-1-0", 700, 4);
    every_call(&disk, MAP);
}

#[test]
fn a_repair_that_gives_up_a_whole_generation_may_be_cut_off_at_every_call() {
    let disk = disk_with_entries(false);
    disk.lose("log1/log-1-0");
    every_call(&disk, MAP);
}

/// A crashed database with at least four files of its first log.
fn disk_with_four_files() -> SimDisk {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.fill_files(&mut worker, 50);
    drop((worker, rig));
    disk.crash(3);
    let files = disk.files();
    assert!(files.iter().filter(|name| name.starts_with("log0/log-1-")).count() >= 4, "{files:?}");
    disk
}

#[test]
fn a_repair_behind_a_missing_file_may_be_cut_off_at_every_call() {
    let disk = disk_with_four_files();
    let files = disk.files();
    disk.lose(files.iter().find(|name| name.starts_with("log0/log-1-1")).expect("several files"));
    every_call(&disk, MAP);
}

/// The files behind a damaged one go for good one after the other, the last one first.
#[test]
fn l5_a_repair_that_is_cut_off_behind_its_manifest_leaves_no_gap_in_a_log() {
    let disk = disk_with_four_files();
    let files = disk.files();
    disk.flip(files.iter().find(|name| name.starts_with("log0/log-1-0")).expect("the first"), 2_000, 4);
    let manifest = disk.bytes("MANIFEST");
    disk.keep_moments();
    MAP.repair(&disk);
    let mut replaced = 0;
    for moment in disk.take_moments() {
        for survival in Survival::ALL {
            let (call, disk) = (moment.number, moment.disk.fork());
            disk.crash_with(survival, call);
            if disk.bytes("MANIFEST") != manifest {
                let damage = MAP.examine(&disk).damage;
                assert!(damage.is_empty(), "call {call}, {survival:?}: {damage:?}");
                replaced += 1;
            }
        }
    }
    assert!(replaced > 5, "{replaced} behind the manifest");
}

#[test]
fn a_repair_above_a_checkpoint_may_be_cut_off_at_every_call() {
    let disk = disk_with_checkpoint();
    let files = disk.files();
    let closed = |name: &&String| name.starts_with("log0/") && name.contains("-to-");
    let log = files.iter().rfind(closed).expect("a log");
    let used = disk.bytes(log).iter().rposition(|byte| *byte != 0).expect("written");
    disk.flip(log, used as u64 * 3 / 4, 4);
    every_call(&disk, STORE);
}
