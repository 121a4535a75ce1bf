//! Folders that released versions have written open for good: the format's documents say what, this says that it works.
//!
//! `fixtures/0.1` was written by `written` below (`ENSILE_WRITE_FIXTURE=crates/ensile/tests/fixtures/0.1 cargo test -p
//! ensile --test database compatibility::` writes such a folder; a kept one is never written again). It has two
//! generations, two logs each in several files, a checkpoint between them, deletes, a secondary index and a row larger
//! than a log buffer. `fixtures/before-0.1` is the same by the last version before the first release, whose formats are
//! refused by name. `fixtures/cycling` is the same with checkpoints that go round by ranges (manifest 4), closed in the
//! middle of a round; `ENSILE_WRITE_FIXTURE_OF=Cycling` chooses that. `fixtures/pictures` is the same with pictures: an
//! increment, with versions beside its pages. `fixtures/tails` is the same by a version that writes such versions into
//! tails of pages, too. `fixtures/backup` is a backup with a copy of files and two pictures
//! (`backed_up`, chosen by `Backup`), and `fixtures/archive` an archive of two lives (`archived`, chosen by `Archive`).
//! `fixtures/without-log` is a database of two lives without a log, of pictures alone (`written_without_log`, chosen by
//! `WithoutLog`).
//!
//! Neighbours: `docs/internals/formats`, whose examples are tied to the code byte by byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::Folder;
use ensile::checkpoint::{Schedule, Strategy};
use ensile::prelude::*;
use ensile::{Builder, Tuning, folder};
use folder::{BackupFacts, CopyOptions};

const KEPT: [&str; 4] = ["0.1", "cycling", "pictures", "tails"];
const REFUSED: [&str; 1] = ["before-0.1"];
const ALL: [Strategy; 3] = [Strategy::Fuzzy, Strategy::Cycling, Strategy::Pictures];
const LARGE_BYTES: usize = 600 << 10;
/// Of pictures: the table has several.
const PAGE_BYTES: usize = 4 << 10;

type Rows = BTreeMap<u32, String>;

/// What the folder holds: two tables' rows.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    people: Rows,
    large: BTreeMap<u64, Vec<u8>>,
}

fn builder(path: &Path) -> Builder {
    tuned(path, Tuning::default())
}

fn tuned(path: &Path, tuning: Tuning) -> Builder {
    let tuning = Tuning { loggers: Some(2), checkpoint_page_bytes: PAGE_BYTES, ..tuning };
    let builder = Database::builder(path).tuning(tuning);
    builder.checkpoints(Schedule::on_demand()).epoch_interval(Duration::from_millis(1))
}

fn without_log(path: &Path) -> Builder {
    let tuning = Tuning { checkpoint_page_bytes: PAGE_BYTES, ..Tuning::default() };
    let builder = Database::builder(path).tuning(tuning).without_log();
    builder.checkpoints(Schedule::on_demand()).epoch_interval(Duration::from_millis(1))
}

fn people(db: &Database) -> Result<Table<u32, String>> {
    db.define::<u32, String>("people")
        .index("by_length", 1, |_: &u32, name: &String| name.len() as u64)
        .open()
}

/// Lives a database's first two lives in the folder, with checkpoints of this kind; what must be there afterwards.
fn written(path: &Path, checkpoint_strategy: Strategy) -> Result<Content> {
    let mut names: Rows = (0..200).map(|key| (key, format!("person {key}"))).collect();
    let large = vec![7; LARGE_BYTES];
    {
        let log_file_interval = Duration::from_millis(5);
        let db = tuned(
            path,
            Tuning { log_file_interval, checkpoint_strategy: Some(checkpoint_strategy), ..Tuning::default() },
        )
        .open()?;
        let table = people(&db)?;
        for (key, name) in &names {
            db.run(|tx| tx.put(&table, key, name))?;
        }
        db.run(|tx| (0..50).try_for_each(|key| tx.delete(&table, &key).map(drop)))?;
        names.retain(|key, _| *key >= 50);
        db.checkpoint()?.wait()?;
        db.run(|tx| tx.put(&table, &60, &"after the checkpoint".to_owned()))?;
        db.run(|tx| tx.delete(&table, &61).map(drop))?;
        names.insert(60, "after the checkpoint".to_owned());
        names.remove(&61);
        db.close()?;
    }
    let is_cycling = checkpoint_strategy == Strategy::Cycling;
    // Slow enough for commits beside a picture, however fast the machine is.
    let checkpoint_bandwidth = (checkpoint_strategy == Strategy::Pictures).then_some(16 << 20);
    let second =
        Tuning { checkpoint_strategy: Some(checkpoint_strategy), checkpoint_bandwidth, ..Tuning::default() };
    let schedule = if is_cycling { Schedule::on_demand().log_bytes(1) } else { Schedule::on_demand() };
    let db = tuned(path, second).checkpoints(schedule).open()?;
    let (table, bytes) = (people(&db)?, db.table::<u64, Vec<u8>>("large")?);
    db.run(|tx| tx.put(&bytes, &1, &large))?;
    if checkpoint_strategy == Strategy::Pictures {
        take_increment(&db, &table, (70, &names[&70]))?;
    }
    db.run(|tx| tx.put(&table, &10, &"deleted and put again".to_owned()))?;
    names.insert(10, "deleted and put again".to_owned());
    // A range's turn or a few: the others were written in the life before.
    while is_cycling && db.stats().checkpoints.is_none_or(|stats| stats.installed == 0) {
        std::thread::sleep(Duration::from_millis(1));
    }
    db.close()?;
    Ok(Content { people: names, large: BTreeMap::from([(1, large)]) })
}

/// Takes pictures, beside commits that leave a row as it is, until one keeps pages of the picture before, and has
/// versions in tails of its pages.
fn take_increment(db: &Database, table: &Table<u32, String>, (key, name): (u32, &String)) -> Result<()> {
    for _ in 0..1_000 {
        let picture = db.checkpoint()?;
        while picture.outcome().is_none() {
            db.run(|tx| {
                tx.set_durability(Durability::Relaxed);
                tx.put(table, &key, name)
            })?;
        }
        let report = picture.wait()?;
        if report.pages_kept > 0 && report.displaced_tail_bytes > 0 {
            return Ok(());
        }
    }
    panic!("of 1,000 pictures beside commits none has both pages of the one before and versions in tails")
}

/// Lives a database's two lives, the first with fuzzy checkpoints and the second with pictures, and backs it up once in
/// the first and twice in the second. The rows of each state, the oldest first.
fn backed_up(data: &Path, backup: &Path) -> Result<[Rows; 3]> {
    let options = CopyOptions { keep: Some(3), ..CopyOptions::default() };
    let back_up = |db: &Database| -> Result<Rows> {
        db.backup_with(backup, options, &mut |_| ControlFlow::Continue(()))?;
        Ok(content(db)?.people)
    };
    let open =
        |strategy| tuned(data, Tuning { checkpoint_strategy: Some(strategy), ..Tuning::default() }).open();
    let db = open(Strategy::Fuzzy)?;
    let table = people(&db)?;
    db.run(|tx| (0..200).try_for_each(|key| tx.put(&table, &key, &format!("person {key}"))))?;
    db.checkpoint()?.wait()?;
    db.run(|tx| tx.put(&table, &7, &"behind the checkpoint".to_owned()))?;
    let files = back_up(&db)?;
    db.close()?;
    let db = open(Strategy::Pictures)?;
    let table = people(&db)?;
    db.run(|tx| (0..20).try_for_each(|key| tx.delete(&table, &key).map(drop)))?;
    let picture = back_up(&db)?;
    db.run(|tx| tx.put(&table, &7, &"put again".to_owned()))?;
    let increment = back_up(&db)?;
    db.close()?;
    Ok([files, picture, increment])
}

/// Lives a database's two lives, with an archive that begins with it. The rows at the end of each.
fn archived(data: &Path, archive: &Path) -> Result<[Rows; 2]> {
    let log_file_interval = Duration::from_millis(5);
    let lived = |builder: Builder, keys: std::ops::Range<u32>| -> Result<Rows> {
        let db = builder.open()?;
        let table = people(&db)?;
        for key in keys {
            db.run(|tx| tx.put(&table, &key, &format!("person {key}")))?;
        }
        db.checkpoint()?.wait()?;
        db.run(|tx| tx.delete(&table, &7).map(drop))?;
        let rows = content(&db)?.people;
        db.close()?;
        Ok(rows)
    };
    let builder = || tuned(data, Tuning { log_file_interval, ..Tuning::default() });
    Ok([lived(builder().archive(archive), 0..100)?, lived(builder(), 50..150)?])
}

/// Lives the two lives of a database without a log; the second one's picture is an increment. What is in that.
fn written_without_log(path: &Path) -> Result<Content> {
    let mut names: Rows = (0..900).map(|key| (key, format!("person {key}"))).collect();
    let large = vec![9; LARGE_BYTES];
    let db = without_log(path).open()?;
    let (table, bytes) = (people(&db)?, db.table::<u64, Vec<u8>>("large")?);
    db.run(|tx| names.iter().try_for_each(|(key, name)| tx.put(&table, key, name)))?;
    db.run(|tx| tx.put(&bytes, &1, &large))?;
    db.checkpoint()?.wait()?;
    db.close()?;
    let db = without_log(path).open()?;
    let table = people(&db)?;
    db.run(|tx| (50..70).try_for_each(|key| tx.delete(&table, &key).map(drop)))?;
    db.run(|tx| tx.put(&table, &60, &"deleted and put again".to_owned()))?;
    names.retain(|key, _| !(50..70).contains(key));
    names.insert(60, "deleted and put again".to_owned());
    let report = db.checkpoint()?.wait()?;
    assert!(report.pages_kept > 3 && report.pages_written > 0, "an increment: {report:?}");
    db.close()?;
    Ok(Content { people: names, large: BTreeMap::from([(1, large)]) })
}

/// A copy of a folder that is kept.
fn kept(version: &str, to: &Path) -> PathBuf {
    let copied = to.join(format!("{version}-kept"));
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version), &copied);
    copied
}

fn content(db: &Database) -> Result<Content> {
    let (table, bytes) = (people(db)?, db.table::<u64, Vec<u8>>("large")?);
    let mut tx = db.begin();
    let content = Content {
        people: tx.range(&table, ..).collect::<Result<_>>()?,
        large: tx.range(&bytes, ..).collect::<Result<_>>()?,
    };
    let by_length = table.index::<u64>("by_length")?;
    let indexed: Rows = tx.range(&by_length, ..).collect::<Result<_>>()?;
    assert_eq!(indexed, content.people, "the index shows the same rows");
    Ok(content)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("read") {
        let entry = entry.expect("read");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("copied");
        }
    }
}

/// Opens what a version wrote, reads it, writes, makes a checkpoint of this kind, and opens it once more.
fn read_and_go_on(path: &Path, expected: &Content, checkpoint_strategy: Strategy) -> Result<()> {
    let examined = folder::verify(path)?;
    assert!(examined.damage.is_empty() && examined.torn_tails.is_empty(), "{examined:?}");
    {
        let db = tuned(path, Tuning { checkpoint_strategy: Some(checkpoint_strategy), ..Tuning::default() })
            .open()?;
        assert_eq!(&content(&db)?, expected);
        let table = people(&db)?;
        db.run(|tx| tx.put(&table, &1000, &"of today".to_owned()))?;
        let is_picture = db.checkpoint()?.wait()?.picture_epoch().is_some();
        assert_eq!(is_picture, checkpoint_strategy == Strategy::Pictures);
        db.close()?;
    }
    let db = builder(path).open()?;
    let mut found = content(&db)?;
    assert_eq!(found.people.remove(&1000).as_deref(), Some("of today"));
    assert_eq!(&found, expected);
    Ok(())
}

#[test]
fn folders_of_released_versions_open() -> Result<()> {
    let fresh = Folder::new();
    let expected = written(&fresh.path().join("data"), Strategy::Fuzzy)?;
    for (version, strategy) in KEPT.into_iter().flat_map(|version| ALL.map(|strategy| (version, strategy))) {
        let copied = kept(version, &fresh.path().join(format!("{strategy:?}")));
        // A kept folder is a copy wherever it is checked out.
        assert!(builder(&copied).open().is_err_and(|error| error.to_string().contains("adopt")), "{version}");
        folder::adopt(&copied)?;
        read_and_go_on(&copied, &expected, strategy)?;
    }
    Ok(())
}

/// Every file below a folder, by name, but for the lock's.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).expect("read") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().is_some_and(|name| name != "LOCK" && name != "LEASES") {
            found.insert(path.clone(), fs::read(&path).expect("read"));
        }
    }
    found
}

#[test]
fn folders_of_before_the_first_release_are_refused_by_name_and_left_as_they_are() {
    let fresh = Folder::new();
    for version in REFUSED {
        let copied = kept(version, fresh.path());
        let before = files(&copied);
        assert!(before.len() > 8, "it has logs and a checkpoint");
        let Err(error) = builder(&copied).open() else { panic!("{version} is of formats that nobody reads") };
        assert!(error.to_string().contains("before its first release"), "{error}");
        let examined = folder::verify(&copied).expect("it can be read");
        assert!(examined.damage.iter().any(|damage| damage.is_refused), "{examined:?}");
        let repaired = folder::repair(&copied).map(drop).expect_err("there is nothing to cut");
        assert!(repaired.to_string().contains("before its first release"), "{repaired}");
        assert!(files(&copied) == before, "something was changed");
    }
}

#[test]
fn a_folder_of_this_version_opens() -> Result<()> {
    let fresh = Folder::new();
    for (before, after) in ALL.into_iter().flat_map(|before| ALL.map(|after| (before, after))) {
        let data = fresh.path().join(format!("{before:?}-{after:?}"));
        let expected = written(&data, before)?;
        keep(&data, &format!("{before:?}"));
        read_and_go_on(&data, &expected, after)?;
    }
    Ok(())
}

/// The folder of a cycling checkpoint is kept as it is in the middle of a round: ranges that begin at keys, turns of
/// two lives.
#[test]
fn the_kept_folder_of_a_cycling_checkpoint_is_in_the_middle_of_a_round() {
    let fresh = Folder::new();
    let copied = kept("cycling", fresh.path());
    let manifest = fs::read_to_string(copied.join("MANIFEST")).expect("read");
    assert!(manifest.starts_with("ensile manifest 4\n") && manifest.contains("\nranges "), "{manifest}");
    let generations: BTreeSet<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("range ")?.split_once(" generation ")?.1.split(' ').next())
        .collect();
    assert_eq!(generations.len(), 2, "{manifest}");
    let found = folder::verify(&copied).expect("it can be read");
    let checkpoint = found.checkpoint.expect("a checkpoint");
    assert!(checkpoint.ranges.len() > 4, "{:?}", checkpoint.ranges);
    let lows: BTreeSet<_> = checkpoint.ranges.iter().map(|range| range.low).collect();
    assert!(lows.len() > 1, "{lows:?}");
}

#[test]
fn the_kept_folder_of_pictures_has_an_increment_and_versions_beside_its_pages() {
    let fresh = Folder::new();
    let found = folder::verify(&kept("pictures", fresh.path())).expect("it can be read");
    let checkpoint = found.checkpoint.expect("a checkpoint");
    let picture = checkpoint.picture.as_ref().expect("it is a picture");
    assert!(picture.ages.len() > 1 && picture.displaced_blocks > 0 && picture.displaced > 0, "{picture:?}");
    assert_eq!(
        (picture.displaced_tails, picture.displaced_tail_bytes),
        (0, 0),
        "of a version that wrote none"
    );
    let entries: u64 = found.generations.iter().map(|generation| generation.entries).sum();
    assert!(entries > 0, "a log behind it: {:?}", found.generations);
}

/// Page blocks of a folder's page files, by page number: the checkpoint that wrote the newest, and whether a block of
/// pending removes stands behind it in its last unit (`docs/internals/formats/pictures.md`).
fn newest_pages(path: &Path) -> BTreeMap<u64, (u64, bool)> {
    const UNIT_BYTES: usize = 4 << 10;
    const HEADER_BYTES: usize = 80;
    let u64_at =
        |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    let is_of = |file: &[u8], at: usize, kind: u8| {
        file.get(at..).is_some_and(|block| block.starts_with(b"EnsB") && block.get(6) == Some(&kind))
    };
    let mut newest = BTreeMap::new();
    for (name, file) in files(path) {
        if !name.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pages-")) {
            continue;
        }
        for at in (0..file.len()).step_by(UNIT_BYTES).filter(|at| is_of(&file, *at, 6)) {
            let bytes = u64_at(&file, at + 8) >> 32;
            let end = at + HEADER_BYTES + (bytes as usize).next_multiple_of(8);
            let found = (u64_at(&file, at + 56), !end.is_multiple_of(UNIT_BYTES) && is_of(&file, end, 8));
            let known = newest.entry(u64_at(&file, at + 24)).or_insert(found);
            *known = found.max(*known);
        }
    }
    newest
}

#[test]
fn the_kept_folder_of_tails_has_some_that_count_and_some_that_are_void() {
    let fresh = Folder::new();
    let copied = kept("tails", fresh.path());
    let found = folder::verify(&copied).expect("it can be read");
    let checkpoint = found.checkpoint.expect("a checkpoint");
    let picture = checkpoint.picture.as_ref().expect("it is a picture");
    assert!(picture.ages.len() > 1 && picture.displaced_tails > 0 && picture.displaced > 0, "{picture:?}");
    let pages = newest_pages(&copied);
    let with_tail = |is_own: bool| {
        pages.values().filter(|(by, has_tail)| *has_tail && (*by == checkpoint.number) == is_own).count()
            as u64
    };
    assert_eq!(with_tail(true), picture.displaced_tails, "{pages:?}");
    assert!(with_tail(false) > 0, "N10: a page that is kept has a tail of the picture before: {pages:?}");
}

#[test]
fn a_kept_backup_and_one_of_this_version_restore_each_of_their_states() -> Result<()> {
    let fresh = Folder::new();
    let backup = fresh.path().join("backup");
    let expected = backed_up(&fresh.path().join("data"), &backup)?;
    keep(&backup, "Backup");
    let kept = kept("backup", fresh.path());
    // A kept folder is a copy wherever it is checked out.
    folder::adopt(&kept)?;
    for (number, backup) in [backup, kept].into_iter().enumerate() {
        let found = folder::verify(&backup)?;
        assert!(found.is_whole(), "{found:?}");
        let Some(BackupFacts::Backup { pictures, files, .. }) = found.backup else {
            panic!("a backup: {found:?}")
        };
        let ([newest, picture], [files]) = (&pictures[..], &files[..]) else {
            panic!("{pictures:?}, {files:?}")
        };
        assert!(files < picture && picture < newest, "{pictures:?}, {files:?}");
        for (epoch, rows) in [files, picture, newest].into_iter().zip(&expected) {
            let again = fresh.path().join(format!("again-{number}-{}", epoch.number()));
            folder::restore(&backup, &again, Some(*epoch))?;
            let db = builder(&again).open()?;
            assert_eq!(&content(&db)?.people, rows, "{epoch}");
            db.close()?;
        }
    }
    Ok(())
}

#[test]
fn a_kept_archive_and_one_of_this_version_restore_each_of_their_lives() -> Result<()> {
    let fresh = Folder::new();
    let archive = fresh.path().join("archive");
    let expected = archived(&fresh.path().join("data"), &archive)?;
    keep(&archive, "Archive");
    for (number, archive) in [archive, kept("archive", fresh.path())].into_iter().enumerate() {
        let found = folder::verify_archive(&archive)?;
        assert!(found.damage.is_empty() && found.ranges.len() == 1, "{found:?}");
        let ends: Vec<_> = found.generations.iter().map(|generation| generation.durable).collect();
        let [Some(first), _] = ends[..] else { panic!("two lives: {found:?}") };
        assert!(found.generations[0].files > 2, "several files: {found:?}");
        for (epoch, rows) in [first, found.ranges[0].to].into_iter().zip(&expected) {
            let again = fresh.path().join(format!("again-{number}-{}", epoch.number()));
            folder::restore_from_archive(&archive, &again, epoch)?;
            let db = builder(&again).open()?;
            assert_eq!(&content(&db)?.people, rows, "{epoch}");
            db.close()?;
        }
    }
    Ok(())
}

#[test]
fn a_kept_database_without_a_log_and_one_of_this_version_open_with_a_log_and_without_one() -> Result<()> {
    let fresh = Folder::new();
    let data = fresh.path().join("data");
    let expected = written_without_log(&data)?;
    keep(&data, "WithoutLog");
    let kept = kept("without-log", fresh.path());
    // A kept folder is a copy wherever it is checked out.
    assert!(without_log(&kept).open().is_err_and(|error| error.to_string().contains("adopt")));
    folder::adopt(&kept)?;
    for written in [data, kept] {
        let found = folder::verify(&written)?;
        assert!(found.is_whole() && found.torn_tails.is_empty(), "{found:?}");
        let picture = found.checkpoint.and_then(|checkpoint| checkpoint.picture).expect("a picture");
        assert!(picture.ages.len() > 1, "pages of two pictures: {picture:?}");
        assert!(files(&written).keys().all(|name| !name.display().to_string().contains("log0")), "no log");
        // Each way on its own copy; the first goes on without a log, and comes back with what its next picture has.
        let with_log = written.with_extension("logged");
        copy(&written, &with_log);
        folder::adopt(&with_log)?;
        read_and_go_on(&with_log, &expected, Strategy::Fuzzy)?;
        let db = without_log(&written).open()?;
        assert_eq!(content(&db)?, expected);
        let table = people(&db)?;
        db.run(|tx| tx.put(&table, &1000, &"of today".to_owned()))?;
        db.checkpoint()?.wait()?;
        db.close()?;
        let db = without_log(&written).open()?;
        let mut found = content(&db)?;
        assert_eq!(found.people.remove(&1000).as_deref(), Some("of today"));
        assert_eq!(found, expected);
        db.close()?;
    }
    Ok(())
}

/// Keeps a folder of the kind that is asked for: with checkpoints of a strategy, fuzzy ones if nothing is said, a
/// backup, an archive, or a database without a log.
fn keep(data: &Path, kind: &str) {
    let wanted = std::env::var("ENSILE_WRITE_FIXTURE_OF").unwrap_or_else(|_| "Fuzzy".to_owned());
    if kind == wanted
        && let Some(keep) = std::env::var_os("ENSILE_WRITE_FIXTURE").map(PathBuf::from)
    {
        assert!(!keep.exists(), "a kept folder is never written again: {}", keep.display());
        copy(data, &keep);
    }
}
