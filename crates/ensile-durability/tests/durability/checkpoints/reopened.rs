//! Pictures over lives: the first one of a life keeps pages of the one that was loaded, in the same files (N10, N14),
//! and the one that was loaded stays whole until then (N12).
//!
//! Neighbours: `page_files` has one life after the other by itself; `simulation` has all of it at random.

use std::collections::BTreeSet;

use ensile_sim::Fault;

use super::pictures::{History, at_end_of, checkpoint, commit};
use crate::prelude::*;

fn with(checkpointers: usize) -> CheckpointConfig {
    CheckpointConfig { checkpointers, ..pictures() }
}

fn page_files(disk: &SimDisk) -> BTreeSet<String> {
    disk.files().into_iter().filter(|name| name.contains("/pages-")).collect()
}

fn bytes_of(disk: &SimDisk) -> u64 {
    page_files(disk).iter().map(|name| disk.bytes(name).len() as u64).sum()
}

/// What the installed checkpoint holds, and nothing of the log.
fn loaded(disk: &SimDisk) -> Changes {
    let (disk, store) = (disk.fork(), Store::default());
    disk.crash(3);
    let recovery = Recovery::open(Arc::new(disk), config(1)).expect("reads");
    while recovery.load_step(&store).expect("loads") {}
    present(&store.rows.lock().expect("no panic"))
}

/// The first picture of a disk whose rows take a page for each few, and the power cut behind it.
fn with_picture(loggers: usize, checkpointers: usize) -> SimDisk {
    let (disk, life) = Life::first(loggers, with(checkpointers));
    change(&life, 0..KEYS, Some(&[1; 3000]));
    let report = life.checkpoint().expect("is installed");
    assert_eq!((report.pages_kept, report.entries), (0, KEYS), "a database's first picture has all pages");
    end(&disk, life);
    disk
}

fn change(life: &Life, keys: impl IntoIterator<Item = u64>, value: Option<&[u8]>) {
    let mut worker = life.rig.worker();
    for key in keys {
        life.commit_epoch(&mut worker, key, value);
    }
}

/// Power fails. What a life wrote is durable by then, if it has a log.
fn end(disk: &SimDisk, life: Life) {
    life.rig.settle();
    drop(life);
    disk.crash(1);
}

/// A picture that kept most pages, and holds all that there is.
fn increment(disk: &SimDisk, life: &Life) -> CheckpointReport {
    let report = life.checkpoint().expect("is installed");
    assert!(report.pages_kept > report.pages_written, "{report:?}");
    assert_eq!(loaded(disk), life.store.present(), "{report:?}");
    report
}

#[test]
fn a_lifes_first_picture_writes_what_its_log_and_its_commits_have_changed_into_the_same_files() {
    let disk = with_picture(1, 2);
    let (files, bytes) = (page_files(&disk), bytes_of(&disk));
    // Nothing.
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    assert_eq!(increment(&disk, &life).pages_written, 0);
    end(&disk, life);
    // What the log has of two lives, and what this one has committed.
    for keys in [3..4, 40..42] {
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        change(&life, keys, Some(&[2; 100]));
        end(&disk, life);
    }
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    change(&life, [20], Some(&[3; 50]));
    let report = increment(&disk, &life);
    assert!((4..12).contains(&report.pages_written), "{report:?}");
    end(&disk, life);
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    assert_eq!(life.found.len() as u64, KEYS);
    assert_eq!(page_files(&disk), files, "no file is made, and none goes");
    change(&life, 0..KEYS, Some(&[4; 10]));
    life.checkpoint().expect("is installed");
    change(&life, [1], Some(&[4; 10]));
    increment(&disk, &life);
    assert!(bytes_of(&disk) < 3 * bytes, "what is free is used again, and cut");
    life.end();
}

#[test]
fn n14_a_delete_that_was_replayed_is_in_the_next_picture() {
    for keys in [vec![7], vec![8, 9], (0..KEYS).collect()] {
        let disk = with_picture(1, 2);
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        change(&life, keys.clone(), None);
        // Of keys that are not there any more, and of one that never was.
        change(&life, keys.clone(), None);
        end(&disk, life);
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        life.checkpoint().expect("is installed");
        assert_eq!(loaded(&disk), life.store.present(), "without {keys:?}");
        end(&disk, life);
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        assert_eq!(life.found.len() as u64, KEYS - keys.len() as u64);
    }
}

/// Without a log nothing says what was committed beside a picture. Its pages lack what was left beside them.
#[test]
fn n10_a_row_that_stood_beside_a_page_is_in_the_next_picture_without_a_log() {
    let (mut displaced, mut tails) = (0, 0);
    for seed in 0..30 {
        let (mut random, mut history) = (Random::from_seed(seed), History::new());
        let (disk, life, mut worker) = Life::first_with_worker(0, pictures());
        for _ in 0..100 {
            commit(&life, &mut worker, &mut random, &mut history);
        }
        let report = checkpoint(&life, &mut worker, &mut random, &mut history, &disk).expect("is installed");
        displaced += report.displaced;
        tails += u64::from(report.displaced_tail_bytes > 0);
        drop(worker);
        end(&disk, life);
        let shown = at_end_of(&history, report.high);
        for _ in 0..2 {
            let life = Life::open(&disk, 0, pictures()).expect("opens");
            assert_eq!(life.found, shown, "seed {seed}");
            let next = life.checkpoint().expect("is installed");
            assert_eq!(next.displaced, 0, "nothing was committed beside it");
            assert_eq!(loaded(&disk), shown, "seed {seed}");
            end(&disk, life);
        }
    }
    assert!(displaced > 100, "{displaced} versions beside pages");
    assert!(tails > 10, "{tails} pictures with tails");
}

#[test]
fn an_attempt_that_power_cut_short_leaves_what_was_loaded_and_none_of_its_bytes() {
    for steps in 1..100 {
        let disk = with_picture(1, 2);
        let (bytes, shown) = (bytes_of(&disk), loaded(&disk));
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        change(&life, 0..KEYS, Some(&[2; 4000]));
        change(&life, 0..10, None);
        let (handle, manifest) = (life.checkpoints.demand(), disk.bytes("MANIFEST"));
        for step in 0..steps {
            life.step(step % 2);
            life.rig.settle();
        }
        if disk.bytes("MANIFEST") != manifest {
            assert!(steps > 10, "{steps} steps");
            return;
        }
        assert!(handle.outcome().is_none(), "it is under way");
        let expected = life.store.present();
        drop(life);
        disk.crash(steps as u64);
        assert_eq!(loaded(&disk), shown, "{steps} steps (N12)");
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        assert_eq!(life.found, expected, "{steps} steps");
        assert!(bytes_of(&disk) < bytes + 2 * 4096, "{steps} steps: cut behind what the picture has");
        life.checkpoint().expect("is installed");
        assert_eq!(loaded(&disk), expected, "{steps} steps");
    }
    panic!("no attempt has ended");
}

#[test]
fn i3_an_open_beside_a_lease_writes_over_nothing_that_was_there() {
    let disk = with_picture(1, 2);
    let reader = lease(&on(&disk)).expect("a lease");
    // Two pictures of this life: the leased one has no unit in the second any more.
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    for round in 0..2 {
        change(&life, 0..KEYS, Some(&[round; 2900]));
        life.checkpoint().expect("is installed");
    }
    life.rig.settle();
    drop(life);
    let before: Vec<_> = page_files(&disk).into_iter().map(|name| (disk.bytes(&name), name)).collect();
    // The open itself waits for no lease, but it cuts nothing; nor does the first picture write over what is free.
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    change(&life, 0..KEYS, Some(&[7; 2900]));
    life.checkpoint().expect("is installed");
    for (bytes, name) in &before {
        assert!(disk.bytes(name).starts_with(bytes), "{name} has all that the reader may want");
    }
    assert_eq!(loaded(&disk), life.store.present());
    drop(reader);
    life.rig.clock.advance(std::time::Duration::from_secs(2));
    (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
    let stats = life.checkpoints.stats();
    assert!(stats.page_file_bytes_free > stats.page_file_bytes / 2, "{stats:?}");
    life.end();
}

/// Opens a database that says at once how many checkpointers it is going to have, as an engine does.
fn open_with(disk: &SimDisk, checkpointers: usize) -> Life {
    let log = LogConfig { checkpointers, segment_bytes: 4096, ..config(1) };
    Life::open_with(disk, log, with(checkpointers)).expect("opens")
}

#[test]
fn other_folders_at_the_next_open_take_the_pages_and_leave_no_file() {
    for (before, now) in [(1, 3), (2, 3), (3, 1), (3, 2), (2, 1)] {
        let disk = with_picture(1, before);
        let (files, bytes) = (page_files(&disk), bytes_of(&disk));
        let life = open_with(&disk, now);
        change(&life, [5], Some(&[5; 10]));
        let report = life.checkpoint().expect("is installed");
        assert_eq!(loaded(&disk), life.store.present());
        // What stood in folders that are left out is written, and what has changed; the others stay.
        let all = report.pages_kept + report.pages_written;
        let moved = all * before.saturating_sub(now) as u64 / before as u64;
        assert!(report.pages_written >= moved / 2, "{before} and {now}: {report:?}");
        assert!(report.pages_written <= moved + moved / 3 + 4, "{before} and {now}: {report:?}");
        assert!(report.bytes_written < bytes, "{before} and {now}: {report:?} of {bytes}");
        let own = page_files(&disk);
        assert_eq!(own.len(), now, "{own:?}");
        assert_eq!(own.intersection(&files).count(), before.min(now), "what there was is gone on with");
        change(&life, [6], Some(&[6; 10]));
        increment(&disk, &life);
        end(&disk, life);
        assert!(examine(&on(&disk), &Framing).expect("reads").is_whole());
        let life = open_with(&disk, before);
        assert_eq!(life.found.len() as u64, KEYS);
        life.checkpoint().expect("is installed");
        change(&life, [7], Some(&[7; 10]));
        increment(&disk, &life);
    }
}

/// A recovery that is not told how many checkpointers there are going to be has no page marked for that.
#[test]
fn fewer_folders_that_are_named_behind_the_load_get_all_pages() {
    let disk = with_picture(1, 3);
    let life = Life::open(&disk, 1, with(2)).expect("opens");
    let report = life.checkpoint().expect("is installed");
    assert_eq!((report.pages_kept, page_files(&disk).len()), (0, 2), "{report:?}");
    assert_eq!(loaded(&disk), life.store.present());
    change(&life, [6], Some(&[6; 10]));
    increment(&disk, &life);
    life.end();
}

#[test]
fn n12_a_state_that_does_not_move_pages_out_of_a_folder_gets_no_picture_and_is_told_why() {
    let disk = with_picture(1, 3);
    let before = loaded(&disk);
    let log = LogConfig { checkpointers: 2, segment_bytes: 4096, ..config(1) };
    let mut store = Store::default();
    store.moves_pages = false;
    let life = Life::open_into(&disk, log, with(2), store).expect("opens");
    change(&life, [5], Some(&[5; 10]));
    for _ in 0..2 {
        let error = life.checkpoint().expect_err("a page stands in a folder that goes").to_string();
        assert!(error.contains("as many checkpoint folders as before"), "{error}");
        assert_eq!(loaded(&disk), before, "the older picture stands");
    }
    drop(life);
    disk.kill();
    let life = open_with(&disk, 3);
    life.checkpoint().expect("is installed");
    assert_eq!(loaded(&disk), life.store.present());
}

#[test]
fn n12_power_that_fails_as_pages_leave_a_folder_leaves_the_picture_before_or_the_one_behind() {
    let (mut before, mut behind) = (0, 0);
    for call in 1.. {
        let disk = with_picture(1, 3);
        let life = open_with(&disk, 2);
        change(&life, [5], Some(&[5; 10]));
        let (expected, at) = (life.store.present(), disk.calls().all + call);
        disk.cut_power_at(at);
        let is_installed = life.checkpoint().is_ok();
        let is_reached = disk.calls().all >= at;
        drop(life);
        disk.crash(call);
        let manifest = String::from_utf8(disk.bytes("MANIFEST")).expect("text");
        let names_left_out = manifest.contains("\npages 2 ");
        (before, behind) = (before + u64::from(names_left_out), behind + u64::from(!names_left_out));
        assert!(!is_installed || !names_left_out, "call {call}: it counted");
        let life = open_with(&disk, 2);
        assert_eq!(life.found, expected, "call {call}");
        life.checkpoint().unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert_eq!((loaded(&disk), page_files(&disk).len()), (expected, 2), "call {call}");
        change(&life, [6], Some(&[6; 10]));
        increment(&disk, &life);
        if !is_reached {
            break;
        }
    }
    assert!(before > 20 && behind > 2, "{before} before, {behind} behind");
}

/// A file that was made for an attempt goes with it, beside the files of the picture that was loaded.
#[test]
fn n13_an_attempt_that_fails_in_a_new_folder_leaves_no_file_that_the_next_one_would_write_to() {
    let mut failed = 0;
    for call in 1.. {
        let disk = with_picture(1, 1);
        let life = Life::open(&disk, 1, with(2)).expect("opens");
        change(&life, [3], Some(&[3; 10]));
        let at = disk.calls().all + call;
        disk.fail_calls(at..=at, Fault::INPUT_OUTPUT);
        let first = life.checkpoint();
        let is_reached = disk.calls().all >= at;
        disk.heal();
        failed += u64::from(first.is_err());
        if life.checkpoint().is_ok() {
            assert_eq!(loaded(&disk), life.store.present(), "call {call}");
            assert_eq!(page_files(&disk).len(), 2, "call {call}");
        }
        end(&disk, life);
        let life = Life::open(&disk, 1, with(2)).unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert_eq!(life.found.len() as u64, KEYS, "call {call}");
        if !is_reached {
            break;
        }
    }
    assert!(failed > 10, "{failed} attempts");
}

#[test]
fn i1_an_adopted_copy_writes_all_pages_into_files_of_its_own() {
    let disk = with_picture(1, 2);
    let files = page_files(&disk);
    let original = disk.fork();
    adopt(&(Arc::new(disk.clone()) as Arc<dyn Disk>)).expect("adopts");
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    change(&life, [3], Some(&[3; 10]));
    assert!(files.iter().all(|name| disk.bytes(name) == original.bytes(name)), "the original's");
    let report = life.checkpoint().expect("is installed");
    assert_eq!(report.pages_kept, 0);
    assert!(page_files(&disk).is_disjoint(&files));
    change(&life, [4], Some(&[4; 10]));
    increment(&disk, &life);
    end(&disk, life);
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    change(&life, [5], Some(&[5; 10]));
    increment(&disk, &life);
}

#[test]
fn pages_stay_over_a_life_whose_checkpoints_would_be_fuzzy_and_go_with_the_first_of_those() {
    for takes_fuzzy in [false, true] {
        let disk = with_picture(1, 2);
        let life = Life::open(&disk, 1, settings()).expect("opens");
        change(&life, 5..7, None);
        change(&life, 30..32, Some(&[30; 20]));
        if takes_fuzzy {
            life.checkpoint().expect("is installed");
            assert_eq!(page_files(&disk).len(), 0);
        }
        end(&disk, life);
        let life = Life::open(&disk, 1, pictures()).expect("opens");
        let report = life.checkpoint().expect("is installed");
        assert_eq!(report.pages_kept == 0, takes_fuzzy, "{report:?}");
        assert_eq!(loaded(&disk), life.store.present());
        change(&life, [1], None);
        increment(&disk, &life);
    }
}

#[test]
fn a_first_picture_needs_room_for_what_has_changed_only() {
    let disk = with_picture(1, 2);
    disk.set_capacity(Some(disk.used_bytes() + 150_000));
    assert!(bytes_of(&disk) > 150_000, "there is no room for all pages");
    let life = Life::open(&disk, 1, pictures()).expect("opens");
    change(&life, [3], Some(&[3; 10]));
    increment(&disk, &life);
}
