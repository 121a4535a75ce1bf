//! Scenes over many lives: what an attempt left behind, and what a repair makes of it long after (L4, N13).
//!
//! Neighbours: `picture_files` has a manifest that is an older copy; `reopened` one life behind another.

use ensile_base::limits::UNMERGED_GENERATIONS_MAX;

use super::pictures::{History, at_end_of};
use crate::prelude::*;

fn examined(disk: &SimDisk) -> Examination {
    examine(&handle(disk.fork()), &Store::default()).expect("it can be read")
}

/// Opens, and finds what was committed and counts.
fn reopen(disk: &SimDisk, history: &mut History, at: &str) -> Life {
    let life = Life::open(disk, 1, pictures()).unwrap_or_else(|error| panic!("{at}: {error}"));
    let durable = life.rig.report.durable_epoch;
    history.retain(|(_, tid, _)| tid.epoch() <= durable);
    assert!(life.found == at_end_of(history, durable), "{at}: not the state at {durable}");
    life
}

fn change(life: &Life, history: &mut History, keys: std::ops::Range<u64>, value: Option<&[u8]>) {
    let mut worker = life.rig.worker();
    for key in keys {
        let tid = life.commit(&mut worker, key, value);
        history.push((key, tid, value.map(<[u8]>::to_vec)));
    }
    life.rig.settle();
}

/// The process ends, and the machine keeps all that it was given.
fn end(disk: &SimDisk, life: Life) {
    drop(life);
    disk.crash_with(Survival::Everything, 0);
}

/// A disk with a picture, whose next life ended at this call of its first picture; whether it came to that.
fn ended_in_a_picture(call: u64, history: &mut History) -> (SimDisk, bool) {
    let disk = SimDisk::new();
    let life = reopen(&disk, history, "first");
    change(&life, history, 0..KEYS, Some(&[1; 600]));
    life.checkpoint().expect("is installed");
    // Increments, which leave free units between pages: an open cuts off what an attempt has put behind the last one.
    for round in 0..3 {
        change(&life, history, 20 * round..20 * round + 12, Some(&[3; 500]));
        life.checkpoint().expect("is installed");
    }
    end(&disk, life);
    let life = reopen(&disk, history, "second");
    change(&life, history, 0..6, Some(&[2; 100]));
    change(&life, history, 6..8, None);
    disk.cut_power_at(disk.calls().all + call);
    let _ = life.checkpoint_until(|| disk.is_without_power());
    let was_cut = disk.is_without_power();
    drop(life);
    disk.heal();
    disk.crash_with(Survival::Everything, 0);
    (disk, was_cut)
}

/// The generations that a manifest lists, and the number of its checkpoint.
fn listed(disk: &SimDisk) -> (Vec<u64>, u64) {
    let found = examined(disk);
    let generations = found.generations.iter().map(|generation| generation.number).collect();
    (generations, found.checkpoint.expect("a picture").number)
}

/// A power cut behind the root of a picture, and before its manifest. Then lives enough for their logs to be merged, so
/// that no line says any longer where the life of that root ended. Damage is cut away all the same: the manifest has
/// seen the end of that life without its picture, so it is no older copy.
#[test]
fn l4_a_root_that_no_manifest_named_hinders_no_repair_once_its_life_is_over() {
    let (mut merged, mut cut, mut alone) = (0, 0, 0);
    for call in 1.. {
        let mut history = History::new();
        let (disk, was_cut) = ended_in_a_picture(call, &mut history);
        if !was_cut {
            break;
        }
        let installed = listed(&disk).1;
        for life in 0..=UNMERGED_GENERATIONS_MAX as u64 {
            let at = format!("call {call}, life {life}");
            let open = reopen(&disk, &mut history, &at);
            change(&open, &mut history, 10 + life..12 + life, Some(&[life as u8; 90]));
            end(&disk, open);
        }
        let life = reopen(&disk, &mut history, "last");
        change(&life, &mut history, 40..44, Some(&[9; 80]));
        end(&disk, life);
        let (generations, number) = listed(&disk);
        assert_eq!(number, installed, "none of these lives took a picture");
        merged += u64::from(generations.len() < 4);
        let logs = disk.files().into_iter().filter(|name| name.contains("/log-"));
        for log in logs {
            let used = disk.bytes(&log).iter().rposition(|byte| *byte != 0).expect("written") as u64;
            for at in (90..used).step_by(used as usize / 5) {
                let hurt = disk.fork();
                hurt.flip(&log, at, 1);
                let what = format!("call {call}, byte {at} of {log}");
                let found = examined(&hurt);
                let mut history = history.clone();
                match &found.remedy {
                    // A torn tail, or space.
                    None => assert!(found.is_whole(), "{what}: {found:?}"),
                    Some(Remedy::Cut(loss)) => {
                        if loss.epochs.is_some() || !loss.unreadable.is_empty() {
                            history.retain(|(_, tid, _)| tid.epoch() <= loss.durable);
                        }
                        repair(&handle(hurt.clone()), &Framing)
                            .unwrap_or_else(|error| panic!("{what}: {error}"));
                        cut += 1;
                    }
                    Some(Remedy::PictureAlone { .. }) => {
                        alone += 1;
                        continue;
                    }
                    Some(Remedy::Copy(why)) => panic!("{what}: {why}"),
                    Some(Remedy::Marks(marks)) => panic!("no mark was changed: {marks:?}"),
                }
                let life = reopen(&hurt, &mut history, &what);
                change(&life, &mut history, 20..22, Some(&[7; 70]));
                life.checkpoint().expect("and goes on");
                end(&hurt, life);
                reopen(&hurt, &mut history, &what);
            }
        }
    }
    assert!(merged > 20 && cut > 40, "{merged} merged, {cut} cut, {alone} have the picture alone");
}
