//! Page files as they are found again: damage in them, in the log beside them; files that nothing names; other folders
//! at the next open; a copy that was adopted.

use crate::prelude::*;

const ALONE: RepairOptions = RepairOptions { picture_alone: true, without_missing_folders: false };

fn on(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// All keys, and then a few, so that the second picture is an increment.
fn commit(life: &Life, random: &mut Random, keys: impl Iterator<Item = u64>) {
    let mut worker = life.rig.worker();
    for key in keys {
        let mut value = vec![0; 40 + random.next_below(400) as usize];
        random.fill(&mut value);
        life.commit(&mut worker, key, Some(&value));
    }
    life.rig.settle();
}

/// A disk with an installed picture, the third of its life, which has lost power since; what the picture shows, and its
/// report.
fn disk_with_picture() -> (SimDisk, Changes, CheckpointReport) {
    let (disk, mut random) = (SimDisk::new(), Random::from_seed(1));
    let life = Life::open(&disk, 2, pictures()).expect("opens");
    commit(&life, &mut random, 0..KEYS);
    life.checkpoint().expect("installs");
    commit(&life, &mut random, 3..6);
    life.checkpoint().expect("installs");
    commit(&life, &mut random, 30..31);
    let shown = life.store.present();
    let report = life.checkpoint().expect("installs");
    assert!(report.pages_kept > 0, "the third one is an increment: {report:?}");
    for round in 0..4 {
        commit(&life, &mut random, 10 * round..10 * round + 5);
    }
    drop(life);
    disk.crash(1);
    (disk, shown, report)
}

fn page_files(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("/pages-")).collect()
}

fn examined(disk: &SimDisk) -> Examination {
    examine(&on(disk), &Store::default()).expect("it can be read")
}

#[test]
fn an_examination_says_what_a_picture_has() {
    let (disk, _, report) = disk_with_picture();
    let found = examined(&disk);
    assert!(found.is_whole(), "{found:?}");
    let checkpoint = found.checkpoint.expect("a picture");
    assert_eq!((checkpoint.bytes, checkpoint.entries), (report.bytes, report.entries));
    assert_eq!(checkpoint.picture_epoch(), report.picture_epoch());
    let picture = checkpoint.picture.expect("a picture in page files");
    let pages: u64 = picture.sections.iter().map(|section| section.pages).sum();
    let entries: u64 = picture.sections.iter().map(|section| section.entries).sum();
    assert_eq!(
        (pages, entries + picture.displaced),
        (report.pages_written + report.pages_kept, report.entries)
    );
    assert!(picture.sections.iter().all(|section| section.used_bytes < section.bytes));
    assert_eq!(picture.ages.iter().map(|age| age.pages).sum::<u64>(), pages);
    assert!(picture.ages.len() > 1, "{picture:?}");
    assert_eq!(picture.ages.last().map(|age| age.pages), Some(report.pages_written));
    assert_eq!(picture.files.iter().map(|file| file.used_bytes).sum::<u64>(), report.bytes);
    let roles = found.files.iter().filter(|file| file.role == Role::Checkpoint { number: checkpoint.number });
    let names: Vec<&str> = roles.map(|file| &*file.name).collect();
    assert_eq!(names, page_files(&disk));
}

#[test]
fn a_report_and_an_examination_count_the_same_bytes_of_tails() {
    let (disk, _, _) = disk_with_picture();
    let life = Life::open(&disk, 2, pictures()).expect("opens");
    commit(&life, &mut Random::from_seed(4), 0..9);
    leave_one(&life, 3);
    let report = life.checkpoint().expect("installs");
    drop(life);
    let picture = examined(&disk).checkpoint.and_then(|checkpoint| checkpoint.picture).expect("a picture");
    assert_eq!((picture.displaced_tails, picture.displaced), (1, report.displaced));
    assert_eq!(picture.displaced_tail_bytes, report.displaced_tail_bytes);
    // A header of 80 bytes, an entry's 12, section, key, whether it is a put, and its value of 40 at least.
    assert!(report.displaced_tail_bytes > 80 + 12 + 4 + 8 + 1 + 39, "{report:?}");
}

#[test]
fn damage_in_a_picture_is_told_with_file_and_offset_and_no_repair_guesses() {
    let (disk, shown, _) = disk_with_picture();
    let (mut random, mut harmless) = (Random::from_seed(3), 0);
    let whole = Life::open(&disk.fork(), 2, pictures()).expect("opens").found;
    assert_ne!(whole, shown, "there is a log behind it");
    for file in page_files(&disk) {
        let bytes = disk.bytes(&file);
        for number in 0..300 {
            let hurt = disk.fork();
            let at = random.next_below(bytes.len() as u64);
            if number % 4 == 0 {
                hurt.put(&file, bytes[..at as usize].to_vec());
            } else {
                hurt.flip(&file, at, 1 << random.next_below(8));
            }
            let found = examined(&hurt);
            match Life::open(&hurt.fork(), 2, pictures()).map(|life| life.found) {
                Err(DurabilityError::Damaged { file: named, offset, .. }) => {
                    assert!(named == file && offset <= at, "{named} at {offset}, not {file} at {at}");
                    assert_eq!((&found.damage[0].file, found.damage[0].offset), (&file, offset));
                    assert!(matches!(&found.remedy, Some(Remedy::Copy(why)) if why.contains(&file)));
                    let before = hurt.bytes(&file);
                    assert!(matches!(repair(&on(&hurt), &Framing), Err(DurabilityError::Config(_))));
                    let alone = repair_with(&on(&hurt), &Framing, ALONE);
                    assert!(matches!(alone, Err(DurabilityError::Config(_))), "it is damaged itself");
                    assert_eq!(hurt.bytes(&file), before);
                }
                Ok(state) => {
                    assert!(state == whole && found.is_whole(), "byte {at} of {file}");
                    harmless += 1;
                }
                Err(other) => panic!("byte {at} of {file}: {other}"),
            }
        }
    }
    assert!(harmless > 0, "what no block has says nothing");
}

#[test]
fn where_no_cut_of_the_log_helps_the_picture_can_be_kept_alone() {
    let (whole, shown, report) = disk_with_picture();
    let epoch = report.picture_epoch().expect("a picture");
    let (mut cut, mut alone) = (0, 0);
    let logs: Vec<String> = whole.files().into_iter().filter(|name| name.contains("/log-")).collect();
    for name in logs {
        for at in (0..whole.bytes(&name).len() as u64).step_by(61) {
            let disk = whole.fork();
            disk.flip(&name, at, 2);
            match examined(&disk).remedy {
                Some(Remedy::Cut(loss)) => {
                    assert!(loss.durable >= epoch, "{loss:?}");
                    let refused = repair_with(&on(&disk), &Framing, ALONE).map(drop);
                    assert!(
                        matches!(&refused, Err(DurabilityError::Config(why)) if why.contains("keeps more")),
                        "{refused:?}"
                    );
                    cut += 1;
                }
                Some(Remedy::PictureAlone { why, loss: offered }) => {
                    assert!(why.contains("the picture at epoch"), "{why}");
                    let refused = repair(&on(&disk), &Framing).map(drop);
                    assert!(
                        matches!(&refused, Err(DurabilityError::Config(why)) if why.contains("--picture-alone")),
                        "{refused:?}"
                    );
                    let Repaired { loss, copies, .. } =
                        repair_with(&on(&disk), &Framing, ALONE).expect("is done").expect("is damaged");
                    let copies = copies.expect("files were cut");
                    assert_eq!((&loss, loss.durable), (&offered, epoch));
                    assert!(disk.files().contains(&format!("{copies}/{}", name.replace('/', "-"))));
                    assert!(examined(&disk).is_whole());
                    disk.crash(at);
                    let life = Life::open(&disk, 2, pictures()).expect("opens");
                    assert!(life.found == shown, "the state at the end of {epoch}");
                    assert!(life.rig.report.first_epoch > offered.epochs.map_or(epoch, |(_, last)| last));
                    goes_on(&disk, life);
                    alone += 1;
                }
                Some(Remedy::Copy(why)) => panic!("{name} at {at}: {why}"),
                Some(Remedy::Marks(marks)) => panic!("no mark was changed: {marks:?}"),
                None => {}
            }
        }
    }
    assert!(cut > 0 && alone > 0, "{cut} cut, {alone} alone");
}

/// Commits, takes a picture, and finds both again.
fn goes_on(disk: &SimDisk, life: Life) {
    commit(&life, &mut Random::from_seed(9), 0..4);
    life.checkpoint().expect("installs");
    commit(&life, &mut Random::from_seed(10), 2..7);
    let state = life.store.present();
    drop(life);
    disk.crash(2);
    assert!(Life::open(disk, 2, pictures()).expect("opens").found == state);
}

/// Puts a version that stands in its page too beside the pages of the next picture.
fn leave_one(life: &Life, key: u64) {
    let (tid, value) = life.store.present().remove(&key).expect("it is there");
    let pages = life.store.pages.as_ref().expect("it has pages");
    pages.leave_another(key, tid, value.expect("it is present"));
}

#[test]
fn a_root_that_no_manifest_names_keeps_a_cut_from_giving_up_what_it_shows() {
    a_later_root_keeps_a_cut_from_giving_up_what_it_shows(false);
    // Such a root is a block of another kind.
    a_later_root_keeps_a_cut_from_giving_up_what_it_shows(true);
}

fn a_later_root_keeps_a_cut_from_giving_up_what_it_shows(has_tails: bool) {
    let (disk, _, _) = disk_with_picture();
    // The next life's picture, as if its manifest had been lost for an older one.
    let later = disk.fork();
    let life = Life::open(&later, 2, pictures()).expect("opens");
    commit(&life, &mut Random::from_seed(4), 0..9);
    if has_tails {
        leave_one(&life, 3);
    }
    let report = life.checkpoint().expect("installs");
    assert_eq!(report.displaced_tail_bytes > 0, has_tails, "{report:?}");
    drop(life);
    later.crash(1);
    let both = disk.fork();
    for name in page_files(&disk) {
        // In the same files: what the older manifest reaches is not written over before the next picture.
        both.put(&name, later.bytes(&name));
    }
    assert!(examined(&both).is_whole());
    let (log, mut refused) = ("log0/", 0);
    let log = disk.files().into_iter().rfind(|name| name.starts_with(log)).expect("a log");
    for at in (0..disk.bytes(&log).len() as u64).step_by(61) {
        let remedy = |disk: &SimDisk| {
            let hurt = disk.fork();
            hurt.flip(&log, at, 1);
            examined(&hurt).remedy
        };
        let gives_up = match remedy(&disk) {
            Some(Remedy::Cut(loss)) => !loss.unreadable.is_empty(),
            other => matches!(other, Some(Remedy::PictureAlone { .. })),
        };
        let found = remedy(&both);
        let is_refused = matches!(&found, Some(Remedy::Copy(why)) if why.contains("does not list"));
        assert_eq!(is_refused, gives_up, "byte {at} of {log}: {found:?}, beside {report:?}");
        refused += usize::from(is_refused);
    }
    assert!(refused > 0);
}

#[test]
fn i1_page_files_that_nothing_names_are_removed_if_they_are_ours_and_only_then() {
    let (disk, _, _) = disk_with_picture();
    let (other, _, _) = disk_with_picture();
    let own = page_files(&disk).swap_remove(0);
    let (bytes, strange) = (disk.bytes(&own), other.bytes(&own));
    let place = "checkpoint0/pages-77";
    let hurt = disk.fork();
    hurt.put(place, strange);
    match Life::open(&hurt, 2, pictures()).map(drop) {
        Err(DurabilityError::NotOurs { file, .. }) => assert_eq!(&*file, place),
        found => panic!("{found:?}"),
    }
    assert!(examined(&hurt).damage.iter().any(|damage| damage.file == place && damage.is_refused));
    // Ours, ours and cut short, and what says nothing.
    for (bytes, stays) in [(bytes.clone(), false), (bytes[..100].to_vec(), false), (vec![7; 9000], true)] {
        let disk = disk.fork();
        disk.put(place, bytes);
        let found = examined(&disk);
        let role = found.files.iter().find(|file| file.name == place).map(|file| &file.role);
        assert!(found.is_whole() && matches!(role, Some(Role::Discarded(_))), "{found:?}");
        let life = Life::open(&disk, 2, pictures()).expect("opens");
        assert_eq!(disk.files().contains(&place.to_owned()), stays);
        life.checkpoint().expect("installs");
        drop(life);
        disk.crash(2);
        // A new folder gets a file, and one of a later number is not written over.
        let life = Life::open(&disk, 2, CheckpointConfig { checkpointers: 3, ..pictures() }).expect("opens");
        life.checkpoint().expect("installs");
        let number = |name: &String| name.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
        let mut numbers: Vec<u64> =
            page_files(&disk).iter().filter(|name| *name != place).filter_map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, if stays { 78 } else { 3 }]);
    }
}

#[test]
fn another_number_of_folders_at_the_next_open_loses_nothing() {
    let with = |checkpointers| CheckpointConfig { checkpointers, ..pictures() };
    let (disk, _, _) = disk_with_picture();
    let state = Life::open(&disk.fork(), 2, pictures()).expect("opens").found;
    for checkpointers in [1, 3] {
        let disk = disk.fork();
        let life = Life::open(&disk, 2, with(checkpointers)).expect("opens");
        assert!(life.found == state);
        life.checkpoint().expect("installs");
        commit(&life, &mut Random::from_seed(7), 0..3);
        life.checkpoint().expect("installs");
        assert_eq!(page_files(&disk).len(), checkpointers);
        let state = life.store.present();
        drop(life);
        disk.crash(4);
        assert!(examined(&disk).is_whole());
        let life = Life::open(&disk, 2, pictures()).expect("opens");
        assert!(life.found == state);
    }
}

#[test]
fn i1_an_adopted_copys_picture_is_its_originals_until_it_takes_one_of_its_own() {
    let (disk, _, _) = disk_with_picture();
    let state = Life::open(&disk.fork(), 2, pictures()).expect("opens").found;
    let original = disk.fork();
    adopt(&on(&disk)).expect("adopts");
    assert!(examined(&disk).is_whole());
    let life = Life::open(&disk, 2, pictures()).expect("opens");
    assert!(life.found == state);
    let before = page_files(&disk);
    let bytes: Vec<_> = before.iter().map(|name| original.bytes(name)).collect();
    assert!(
        before.iter().zip(&bytes).all(|(name, bytes)| disk.bytes(name) == *bytes),
        "it is not written to"
    );
    goes_on(&disk, life);
    let now = page_files(&disk);
    assert!(now.iter().all(|name| !before.contains(name)), "{now:?}");
    // Of the original, by now.
    let file = now[0].clone();
    disk.put(&file, bytes[0].clone());
    let found = examined(&disk);
    assert!(found.damage.iter().any(|damage| damage.file == file), "{found:?}");
}
