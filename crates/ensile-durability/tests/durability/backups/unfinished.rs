//! N24: a copy that has not ended is no database to any open. The process is killed, or power is cut, at every call of
//! a first backup and of restores; the tests of shipping have take-overs.

use ensile_durability::archive::restore_from_archive;

use super::*;
use crate::archives::restoring::lives_with;
use crate::archives::rig::{PLACE, disk_with_archive};

/// Makes a copy, or goes on with it.
type Make<'m> = dyn Fn(&SimDisk) -> Result<(), DurabilityError> + 'm;

fn open(disk: &SimDisk, folder: &str, opening: Opening) -> Result<Life, DurabilityError> {
    let config = LogConfig { opening, segment_bytes: 4096, ..config(1) };
    Life::open_with(&disk.at(folder), config, settings())
}

fn opened(disk: &SimDisk, folder: &str) -> Changes {
    open(&at_rest(disk), folder, Opening::OpenOrCreate).expect("opens").found
}

fn is_created(disk: &SimDisk, folder: &str) -> bool {
    manifest(disk, folder).contains("state created")
}

/// It says what has not ended, and the way out.
fn assert_unfinished<T>(outcome: Result<T, DurabilityError>, what: &str, at: &str) {
    match outcome.map(drop) {
        Err(error @ DurabilityError::Unfinished { .. }) => {
            let text = error.to_string();
            assert!(text.contains(what) && text.contains("has not ended"), "{at}: {text}");
            assert!(text.contains("run it again, or remove the folder"), "{at}: {text}");
        }
        other => panic!("{at}: {other:?}"),
    }
}

/// Nothing takes the folder, and nothing in it changes by that.
fn assert_nothing_takes(disk: &SimDisk, folder: &str, (what, at): (&str, &str)) {
    let before = disk.at(folder).files();
    for opening in [Opening::OpenOrCreate, Opening::Existing, Opening::New] {
        assert_unfinished(open(disk, folder, opening), what, &format!("{at}: {opening:?}"));
    }
    let target = of(disk, folder);
    assert_unfinished(examine(&target, &Framing), what, at);
    assert_unfinished(repair(&target, &Framing), what, at);
    assert_unfinished(adopt(&target), what, at);
    assert_unfinished(lease(&target), what, at);
    let (from, elsewhere) = (of(disk, folder), of(disk, "elsewhere"));
    assert_unfinished(crate::copies::backup(&from, &elsewhere, Default::default()), what, at);
    assert_unfinished(restore(&from, &elsewhere, None, None), what, at);
    assert!(disk.at("elsewhere").files().is_empty(), "{at}: nothing is made of it");
    let mut after = disk.at(folder).files();
    after.retain(|file| before.contains(file) || !["LOCK", "LEASES"].contains(&&**file));
    assert_eq!(after, before, "{at}");
}

/// The copy that `make` makes into `folder` is cut short at each of its calls, and then run again.
fn n24_cut_at_every_call(disk: &SimDisk, folder: &str, what: &str, make: &Make<'_>) {
    let whole = disk.fork();
    whole.keep_moments();
    make(&whole).expect("is made");
    let moments = whole.take_moments();
    let state = opened(&whole, folder);
    assert!(!state.is_empty());
    let (mut refused, mut begun, mut made) = (0, 0, 0);
    let ways = || Survival::ALL.into_iter().map(Some).chain([None]);
    for (moment, way) in moments.iter().flat_map(|moment| ways().map(move |way| (moment, way))) {
        let at = format!("{what}, call {}, {way:?}", moment.number);
        let copy = moment.disk.fork();
        match way {
            Some(survival) => copy.crash_with(survival, moment.number),
            None => copy.kill(),
        }
        if !copy.at(folder).files().contains(&"MANIFEST".to_owned()) {
            // As empty as it was.
            let files = copy.at(folder).files();
            let of_first = |file: &String| ["LOCK", "LEASES", "MANIFEST.new"].contains(&&**file);
            assert!(files.iter().all(of_first), "{at}: {files:?}");
            begun += 1;
        } else if is_created(&copy, folder) {
            assert!(opened(&copy, folder) == state, "{at}: it is whole");
            made += 1;
        } else {
            // Where folders cannot be locked a look makes the file.
            if moment.number % 5 == 0 {
                assert_nothing_takes(&copy, folder, (what, &at));
            } else {
                assert_unfinished(open(&copy, folder, Opening::OpenOrCreate), what, &at);
            }
            if moment.number % 3 == 0 {
                make(&copy).unwrap_or_else(|error| panic!("{at}: it goes on: {error}"));
                assert!(is_created(&copy, folder) && opened(&copy, folder) == state, "{at}");
            }
            refused += 1;
        }
    }
    assert!(refused > 20 && begun > 0 && made > 0, "{what}: {refused} refused, {begun} begun, {made} made");
}

/// A database in `data`, with or without a picture, and rows behind its checkpoint.
fn database(disk: &SimDisk, settings: CheckpointConfig) -> Life {
    let (life, _worker) = filled(disk, settings);
    life.checkpoint().expect("is installed");
    life
}

#[test]
fn n24_a_first_backup_or_a_restore_that_has_not_ended_is_opened_by_nobody() {
    for settings in [pictures(), settings()] {
        let disk = SimDisk::new();
        let _life = database(&disk, settings);
        let what = "the first backup of database";
        n24_cut_at_every_call(&disk, "backup", what, &|disk| back_up(disk, "backup", 1).map(drop));
    }
    for settings in [pictures(), settings()] {
        let disk = SimDisk::new();
        let life = database(&disk, settings);
        back_up(&disk, "backup", 1).expect("is made");
        drop(life);
        n24_cut_at_every_call(&disk, "restored", "a restore of", &|disk| {
            restored(disk, "backup", "restored", None).map(drop)
        });
    }
}

#[test]
fn n24_restores_by_an_archive_that_have_not_ended_are_opened_by_nobody() {
    let disk = disk_with_archive();
    let mut back_up = |disk: &SimDisk, _| {
        let (source, target): (Arc<dyn Disk>, _) = (Arc::new(disk.mounted()), of(disk, "/backup"));
        let copy = crate::copies::backup(&source, &target, Default::default());
        run(copy.expect("begins")).expect("is made");
    };
    let history = lives_with(&disk, (1, &pictures()), 0, Some(&mut back_up));
    let to: Epoch = history.lives.last().expect("one").1;
    let archive = |disk: &SimDisk| -> Arc<dyn Disk> { Arc::new(disk.at(PLACE)) };
    n24_cut_at_every_call(&disk, "/restored", "a restore of", &|disk| {
        let target = of(disk, "/restored");
        restore_from_archive(&archive(disk), &target, to, &Framing).map(drop)
    });
    n24_cut_at_every_call(&disk, "/restored", "a restore of", &|disk| {
        let target = of(disk, "/restored");
        run(restore_to_epoch(&of(disk, "/backup"), Some(&archive(disk)), &target, to, None)?).map(drop)
    });
}

#[test]
fn n24_a_folder_of_an_unfinished_copy_takes_no_other_one() {
    let disk = SimDisk::new();
    let life = database(&disk, pictures());
    let other = Life::open(&disk.at("other"), 1, pictures()).expect("opens");
    other.commit(&mut other.rig.worker(), 1, Some(b"other"));
    other.rig.settle();
    other.checkpoint().expect("is installed");
    back_up(&disk, "backup", 1).expect("is made");
    let begin = |from: &str, to: &str| {
        crate::copies::backup(&of(&disk, from), &of(&disk, to), Default::default()).map(drop)
    };
    begin("data", "begun").expect("begins");
    restore(&of(&disk, "backup"), &of(&disk, "restored"), None, None).map(drop).expect("begins");
    let first = "the first backup of database";
    assert_unfinished(begin("other", "begun"), first, "a backup of another database");
    assert_unfinished(restored(&disk, "backup", "begun", None), first, "a restore");
    assert_unfinished(begin("data", "restored"), "a restore of", "a backup");
    // What was begun goes on, whichever of its states is restored.
    assert_eq!(back_up(&disk, "begun", 1).expect("goes on").entries, life.store.present().len() as u64);
    restored(&disk, "backup", "restored", None).expect("goes on");
}

/// A version before the line has left such a folder, and so does an open that is cut short.
#[test]
fn i2_a_folder_that_is_creating_and_says_no_more_is_finished_by_an_open_or_gets_a_copy() {
    let disk = SimDisk::new();
    let life = database(&disk, pictures());
    let dropped = crate::copies::backup(&of(&disk, "data"), &of(&disk, "begun"), Default::default());
    drop(dropped.expect("begins"));
    let text = manifest(&disk, "begun");
    assert!(text.starts_with("ensile manifest 5\n"), "{text}");
    let kept =
        text.lines().skip(1).filter(|line| !line.starts_with("unfinished ") && !line.starts_with("crc32c "));
    let body: String =
        ["ensile manifest 3"].into_iter().chain(kept).map(|line| format!("{line}\n")).collect();
    let crc = ensile_base::checksum::crc32c(body.as_bytes());
    disk.at("begun").put("MANIFEST", format!("{body}crc32c {crc:08x}\n").into_bytes());
    let text = manifest(&disk, "begun");
    assert!(text.contains("state creating") && !text.contains("unfinished"), "{text}");
    assert!(opened(&disk, "begun").is_empty(), "as ever");
    let copy = disk.fork();
    drop(crate::copies::backup(&of(&copy, "data"), &of(&copy, "begun"), Default::default()));
    assert!(manifest(&copy, "begun").contains("\nunfinished backup of "), "it says so before it copies");
    back_up(&disk, "begun", 1).expect("is made");
    assert_eq!(opened(&disk, "begun"), life.store.present());
}
