//! Lives with an archive: what it has, what stops it and what does not, whose it is, and what is missing.

use ensile_sim::Fault;

use super::rig::*;
use crate::prelude::*;

fn archived(disk: &SimDisk) -> Vec<String> {
    disk.at(PLACE).files().into_iter().filter(|name| name.starts_with("log")).collect()
}

/// Three lives that leave three generations of several files each, all in the archive.
fn three_lives(disk: &SimDisk) -> Vec<Epoch> {
    let live = |from: u64| {
        let life = open(disk, 1, settings()).expect("opens");
        assert!(write(&life, &mut life.rig.worker(), from..from + 12));
        close(&life)
    };
    [0, 20, 40].map(live).to_vec()
}

#[test]
fn closed_files_are_archived_soon_and_a_close_archives_the_rest() {
    let (disk, life) = first_life(2, pictures());
    let mut worker = life.rig.worker();
    assert!(write(&life, &mut worker, 0..12));
    assert!(life.rig.log.stats().unarchived_files > 0);
    let_archive(&life);
    let stats = life.rig.log.stats();
    assert!(stats.archived_files > 1 && stats.archived_bytes > 4096, "{stats:?}");
    assert_eq!((stats.unarchived_files, stats.unarchived_bytes, stats.archive_failures), (0, 0, 0));
    let durable = life.rig.log.durable_epoch();
    assert_eq!(stats.archived_epoch, Epoch::ZERO, "a log has no file in the archive");
    assert!(facts(&disk).ranges.iter().all(|range| range.to < durable), "the last files are not closed");
    assert_whole(&disk, close(&life));
    // The next life's files follow, and nothing is copied twice.
    let before = archived(&disk);
    let life = open(&disk, 2, pictures()).expect("opens");
    let_archive(&life);
    assert_eq!((archived(&disk), life.rig.log.stats().archived_files), (before, 0));
    assert!(write(&life, &mut life.rig.worker(), 20..30));
    life.checkpoint().expect("is installed");
    assert_whole(&disk, close(&life));
    assert!(!disk.files().iter().any(|name| name.starts_with("log0/log-1-")), "what is archived goes");
}

#[test]
fn the_archive_has_the_epochs_up_to_the_archived_one() {
    let (disk, life) = first_life(1, settings());
    assert!(write(&life, &mut life.rig.worker(), 0..30));
    let_archive(&life);
    let (archived, ranges) = (life.rig.log.stats().archived_epoch, facts(&disk).ranges);
    assert!(Epoch::FIRST < archived && archived < life.rig.log.durable_epoch(), "{archived}");
    assert!(
        ranges.iter().any(|range| range.after < archived && archived <= range.to),
        "{archived}: {ranges:?}"
    );
}

#[test]
fn a_full_archive_keeps_the_log_and_says_so() {
    let (disk, life) = first_life(1, settings());
    let mut worker = life.rig.worker();
    disk.set_device(PLACE, Some(disk.at(PLACE).used_bytes() + 6000));
    assert!(write(&life, &mut worker, 0..30));
    archive_checkpoint(&life);
    let stats = life.rig.log.stats();
    assert!(stats.unarchived_files > 2 && stats.archive_failures > 1, "{stats:?}");
    assert!(life.rig.log.archive_error().is_some_and(|error| error.contains(".new")));
    assert!(life.checkpoints.stats().last_error.is_some_and(|error| error.contains(".new")));
    assert!(write(&life, &mut worker, 30..40), "commits go on");
    let whole: Vec<_> = archived(&disk).into_iter().filter(|name| name.ends_with(".new")).collect();
    assert!(whole.is_empty(), "a part gives its space back: {whole:?}");
    disk.set_device(PLACE, None);
    life.rig.clock.advance(Duration::from_secs(2));
    let_archive(&life);
    let stats = life.rig.log.stats();
    assert_eq!(stats.unarchived_files, 0, "{stats:?}");
    assert!(stats.files_removed > 2, "what the checkpoint covers goes now: {stats:?}");
    assert_eq!(life.rig.log.archive_error(), None);
    assert_whole(&disk, close(&life));
}

#[test]
fn what_could_not_be_archived_before_the_end_of_its_life_is_archived_by_the_next() {
    for settings in [settings(), pictures()] {
        let (disk, life) = first_life(1, settings.clone());
        let mut worker = life.rig.worker();
        assert!(write(&life, &mut worker, 0..6));
        life.checkpoint().expect("is installed");
        disk.set_device(PLACE, Some(disk.at(PLACE).used_bytes()));
        assert!(write(&life, &mut worker, 6..30));
        life.checkpoint().expect("is installed");
        drop((worker, life));
        disk.crash(3);
        // Nothing can be said in the archive of where generation 1 ended: it stays on the manifest's list.
        let life = open(&disk, 1, settings.clone()).expect("opens");
        assert!(write(&life, &mut life.rig.worker(), 30..36));
        assert!(life.checkpoint().is_err(), "A3: generation 1 would leave the list");
        drop(life);
        disk.crash(4);
        disk.set_device(PLACE, None);
        let life = open(&disk, 1, settings.clone()).expect("opens");
        life.checkpoint().expect("is installed");
        assert_whole(&disk, close(&life));
    }
}

#[test]
fn what_a_checkpoint_has_taken_off_the_list_waits_for_the_archive_in_the_next_life_too() {
    for settings in [settings(), pictures()] {
        let disk = disk_with_archive();
        // There is space for the list, and for no log file but a short one.
        disk.set_device(PLACE, Some(3700));
        let life = open(&disk, 1, settings.clone()).expect("opens");
        assert!(write(&life, &mut life.rig.worker(), 0..12));
        close(&life);
        for _ in 0..2 {
            let life = open(&disk, 1, settings.clone()).expect("opens");
            assert!(write(&life, &mut life.rig.worker(), 20..26));
            life.checkpoint().expect("is installed");
            assert!(life.rig.log.archive_error().is_some());
            assert!(!archived(&disk).contains(&"log0/log-1-0".to_owned()), "a whole file does not fit");
            drop(life);
            disk.crash(5);
        }
        disk.set_device(PLACE, None);
        let life = open(&disk, 1, settings.clone()).expect("opens");
        life.checkpoint().expect("is installed");
        assert_whole(&disk, close(&life));
    }
}

#[test]
fn an_archive_that_is_not_there_is_refused_until_it_is_ended() {
    let disk = disk_with_archive();
    three_lives(&disk);
    disk.unmount(PLACE);
    for again in [Archiving::AsBefore, Archiving::To(PLACE.into())] {
        let refused = Life::open_with(&disk, archiving(1, again), settings()).map(drop);
        assert!(matches!(refused, Err(DurabilityError::NotMounted { .. })), "{refused:?}");
    }
    assert_eq!(archived(&disk), [""; 0]);
    disk.mount(PLACE);
    let life =
        Life::open_with(&disk, archiving(1, Archiving::AsBefore), settings()).expect("it is remembered");
    assert_whole(&disk, close(&life));
    disk.unmount(PLACE);
    let life = Life::open_with(&disk, archiving(1, Archiving::Ended), settings()).expect("it is given up");
    close(&life);
    let life = Life::open_with(&disk, archiving(1, Archiving::AsBefore), settings()).expect("there is none");
    close(&life);
    // What it lacks by now cannot be known to be missing: it does not go on.
    disk.mount(PLACE);
    let refused = open(&disk, 1, settings()).map(drop);
    assert!(
        matches!(&refused, Err(DurabilityError::Config(why)) if why.contains("has ended")),
        "{refused:?}"
    );
    disk.lose("archive");
    disk.set_device("/another", None);
    let life =
        Life::open_with(&disk, archiving(1, Archiving::To("/another".into())), settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 70..80));
    life.checkpoint().expect("is installed");
    close(&life);
    assert!(disk.at("/another").files().iter().any(|name| name == "ARCHIVE"));
}

#[test]
fn two_databases_do_not_share_an_archive() {
    let disk = disk_with_archive();
    let one = open(&disk.at("/one"), 1, settings()).expect("opens");
    // A link that is made by hand leads there too: the mark, and the lock, are the first one's.
    let other = disk.at("/two");
    let refused = open(&other, 1, settings()).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Disk(_))), "it holds files: {refused:?}");
    disk.link("/two/archive", std::path::Path::new(PLACE));
    let refused = open(&other, 1, settings()).map(drop);
    assert!(matches!(refused, Err(DurabilityError::ForeignFolder { .. })), "{refused:?}");
    assert!(write(&one, &mut one.rig.worker(), 0..12));
    let durable = close(&one);
    let refused = open(&other, 1, settings()).map(drop);
    assert!(refused.is_err(), "{refused:?}");
    assert_whole(&disk, durable);
}

#[test]
fn without_a_log_there_is_nothing_to_archive() {
    let disk = disk_with_archive();
    let refused = Life::open_with(&disk, archiving(0, Archiving::To(PLACE.into())), pictures()).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Config(_))), "{refused:?}");
    three_lives(&disk);
    let refused = Life::open_with(&disk, archiving(0, Archiving::AsBefore), pictures()).map(drop);
    assert!(matches!(refused, Err(DurabilityError::Config(_))), "{refused:?}");
    let ended = Life::open_with(&disk, archiving(0, Archiving::Ended), pictures()).expect("opens");
    close(&ended);
}

#[test]
fn a2_what_is_missing_is_named_and_no_range_goes_over_it() {
    let disk = disk_with_archive();
    let ends = three_lives(&disk);
    assert_eq!(facts(&disk).ranges, [span(0, ends[2])]);
    let first = |facts: &ensile_durability::archive::ArchiveFacts, at: usize| facts.generations[at].first;
    for (lost, generation) in [("log0/log-1-1", 0), ("log0/log-2-0", 1), ("log0/log-2-2", 1)] {
        let disk = disk.fork();
        disk.at(PLACE).lose(lost);
        let facts = facts(&disk);
        let [before, after] = facts.ranges[..] else { panic!("two ranges without {lost}: {facts:#?}") };
        assert!(before.after == Epoch::ZERO && after.to == ends[2], "{facts:#?}");
        assert!(before.to < ends[generation] && after.after > before.to, "{facts:#?}");
        assert!(!facts.generations[generation].lacks.is_empty() && facts.damage.is_empty(), "{facts:#?}");
    }
    let last = archived(&disk).into_iter().rfind(|name| name.contains("log-2-")).expect("one");
    disk.at(PLACE).lose(&last);
    let found = facts(&disk);
    let [before, after] = found.ranges[..] else { panic!("two ranges: {found:#?}") };
    assert!(before.to < ends[1], "the end of generation 2 is missing: {found:#?}");
    assert_eq!(after, span(first(&found, 2).previous().number(), ends[2]));
    assert!(found.generations[1].lacks[0].contains(&format!("epoch {}", ends[1])), "{found:#?}");
}

#[test]
fn a2_damage_is_named_and_left_out() {
    let disk = disk_with_archive();
    let ends = three_lives(&disk);
    for file in archived(&disk) {
        let whole = disk.at(PLACE).bytes(&file);
        for offset in (0..whole.len() as u64).step_by(97) {
            let disk = disk.fork();
            disk.at(PLACE).flip(&file, offset, 4);
            let facts = facts(&disk);
            assert!(facts.damage.iter().any(|damage| damage.file == file), "{file} at {offset}: {facts:#?}");
            assert_ne!(facts.ranges, [span(0, ends[2])], "{file} at {offset}: its epochs cannot be had");
        }
        for length in (0..whole.len()).step_by(80) {
            let disk = disk.fork();
            disk.at(PLACE).put(&file, whole[..length].to_vec());
            let facts = facts(&disk);
            let is_seen = !facts.damage.is_empty() || facts.ranges != [span(0, ends[2])];
            let is_mark = facts.ranges[0].to >= ends[2].previous();
            assert!(is_seen || is_mark, "{file} cut to {length}: {facts:#?}");
        }
        let disk = disk.fork();
        disk.at(PLACE).put(&file.replace("log-", "log-7"), whole);
        assert!(facts(&disk).damage.iter().any(|damage| damage.file == "ARCHIVE"), "of no listed generation");
    }
}

#[test]
fn a2_what_a_crash_has_discarded_is_in_no_generation() {
    let (disk, life) = first_life(2, settings());
    let mut worker = life.rig.worker();
    assert!(write(&life, &mut worker, 0..10));
    // Entries whose epochs have a mark in one log only.
    for key in 0..3 {
        life.commit(&mut worker, key, Some(&[9; 1000]));
        life.rig.advance();
        life.rig.log.logger_step(0);
    }
    drop((worker, life));
    disk.kill();
    let life = open(&disk, 2, settings()).expect("opens");
    let (ended, first) = (life.rig.report.durable_epoch, life.rig.first);
    assert!(life.rig.report.ignored_entries > 0 && first > ended.next(), "{:?}", life.rig.report);
    assert!(write(&life, &mut life.rig.worker(), 20..30));
    life.checkpoint().expect("is installed");
    let durable = close(&life);
    assert_whole(&disk, durable);
    let facts = facts(&disk);
    assert_eq!((facts.generations[0].durable, facts.generations[1].first), (Some(ended), first));
}

#[test]
fn short_lives_are_merged_and_the_archive_has_their_own_files() {
    let disk = disk_with_archive();
    let mut merged = 0;
    for _ in 0..60 {
        let life = open(&disk, 1, settings()).expect("opens");
        merged += life.rig.report.merged_generations;
        life.commit(&mut life.rig.worker(), 1, Some(b"short"));
        close(&life);
    }
    assert!(merged > 20);
    assert!(!archived(&disk).iter().any(|name| name.contains("merged")), "{:?}", archived(&disk));
    let life = open(&disk, 1, settings()).expect("opens");
    life.checkpoint().expect("is installed");
    assert_whole(&disk, close(&life));
    assert!(facts(&disk).generations.len() >= 60);
}

#[test]
fn an_archive_is_begun_with_what_the_checkpoint_needs() {
    let disk = disk_with_archive();
    let life = Life::open(&disk, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 0..12));
    let low = life.checkpoint().expect("is installed").low;
    assert!(write(&life, &mut life.rig.worker(), 20..30));
    close(&life);
    let life = open(&disk, 1, settings()).expect("opens");
    let_archive(&life);
    assert!(write(&life, &mut life.rig.worker(), 40..50));
    let durable = close(&life);
    let facts = facts(&disk);
    assert_eq!(
        (facts.from, &facts.ranges[..]),
        (low.previous(), &[span(low.previous().number(), durable)][..])
    );
    assert!(facts.damage.is_empty(), "{facts:#?}");
}

#[test]
fn a_file_that_is_damaged_is_neither_archived_nor_removed() {
    let (disk, life) = first_life(1, settings());
    let mut worker = life.rig.worker();
    assert!(write(&life, &mut worker, 0..12));
    let closed =
        disk.files().into_iter().find(|name| name.starts_with("log0/log-1-0-to-")).expect("it is closed");
    disk.flip(&closed, 700, 1);
    archive_checkpoint(&life);
    let error = life.rig.log.archive_error().expect("it is said");
    assert!(error.contains(&closed), "{error}");
    assert!(disk.files().contains(&closed) && archived(&disk).is_empty());
}

#[test]
fn a_database_that_was_put_back_does_not_go_on_in_its_archive() {
    let disk = disk_with_archive();
    three_lives(&disk);
    let older = disk.fork();
    let life = open(&disk, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 60..72));
    close(&life);
    // Another life with the same numbers, and the archive of the first.
    for name in disk.at(PLACE).files() {
        older.at(PLACE).put(&name, disk.at(PLACE).bytes(&name));
    }
    let before = archived(&older);
    let life = open(&older, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 80..92));
    assert!(life.checkpoint().is_err(), "A3");
    let_archive(&life);
    let error = life.rig.log.archive_error().expect("it is said");
    assert!(error.contains("put back"), "{error}");
    assert_eq!(archived(&older), before);
}

#[test]
fn an_adopted_copy_has_no_archive_and_who_only_reads_needs_none() {
    let disk = disk_with_archive();
    let one = disk.at("/one");
    let life = open(&one, 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 0..12));
    close(&life);
    drop(life);
    disk.copy_tree("/one", "/copy");
    let copy: std::sync::Arc<dyn ensile_disk::Disk> = std::sync::Arc::new(disk.at("/copy").mounted());
    adopt(&copy).expect("its archive is the original's, and stays so");
    drop(copy);
    let before = archived(&disk);
    let life = Life::open(&disk.at("/copy"), 1, settings()).expect("opens");
    assert!(write(&life, &mut life.rig.worker(), 20..32));
    life.checkpoint().expect("is installed");
    close(&life);
    assert_eq!(archived(&disk), before, "nothing of the copy comes into it");
    // To look at a folder, or to lease it, the archive need not be there.
    disk.unmount(PLACE);
    let reader: std::sync::Arc<dyn ensile_disk::Disk> = std::sync::Arc::new(one.mounted());
    assert!(examine(&reader, &Framing).expect("can be read").is_whole());
    assert!(
        lease(&reader).expect("can be leased").files().iter().all(|file| !file.name().starts_with("archive"))
    );
    drop(reader);
    disk.mount(PLACE);
    let life = open(&one, 1, settings()).expect("opens");
    assert_whole(&disk, close(&life));
}

#[test]
fn a_repair_ends_the_archive_which_keeps_what_was_cut() {
    let disk = disk_with_archive();
    let ends = three_lives(&disk);
    let last = disk.files().into_iter().rfind(|name| name.starts_with("log0/log-3-")).expect("one");
    disk.flip(&last, 700, 1);
    let on: std::sync::Arc<dyn ensile_disk::Disk> = std::sync::Arc::new(disk.clone());
    let done = repair(&on, &Framing).expect("can be cut").expect("is damaged");
    assert!(done.loss.durable < ends[2], "{done:?}");
    assert_whole(&disk, ends[2]);
    let refused = open(&disk, 1, settings()).map(drop);
    assert!(
        matches!(&refused, Err(DurabilityError::Config(why)) if why.contains("has ended")),
        "{refused:?}"
    );
    close(&Life::open_with(&disk, archiving(1, Archiving::AsBefore), settings()).expect("opens without"));
}

#[test]
fn an_archive_that_fails_stops_no_commit_and_no_open() {
    let disk = disk_with_archive();
    three_lives(&disk);
    // Whatever call of the archive fails, and whichever else: the database opens or says why, and nothing is missing.
    let calls = disk.fork();
    let before = calls.calls().all;
    close(&open(&calls, 1, settings()).expect("opens"));
    for call in before + 1..=calls.calls().all {
        let disk = disk.fork();
        disk.fail_calls(call..=call, Fault::INPUT_OUTPUT);
        if let Ok(life) = open(&disk, 1, settings()) {
            write(&life, &mut life.rig.worker(), 60..66);
        }
        disk.heal();
        disk.kill();
        let life =
            open(&disk, 1, settings()).unwrap_or_else(|error| panic!("failed at call {call}: {error}"));
        archive_checkpoint(&life);
        assert_whole(&disk, close(&life));
    }
}
