//! An archive from outside: what `inspect` and `verify` say of it, and restores from it, one of them killed.
//!
//! Neighbours: the durability crate tests what is archived when, and what is found missing.

use std::process::{Command, Stdio};
use std::time::Duration;

use ensile::checkpoint::{Schedule, Strategy};
use ensile::receipt::Epoch;
use ensile::{Database, Error, Readable as _, Tuning};

use crate::outside::Folder;

/// A database with an archive, closed.
fn archived(folder: &Folder) {
    let db =
        Database::builder(folder.0.join("data")).archive(folder.0.join("archive")).open().expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    for key in 0..100 {
        db.run(|tx| tx.put(&table, &key, &(key * key))).expect("commits");
    }
    db.checkpoint().expect("is asked for").wait().expect("is installed");
    // What it covers is archived, then removed. There may be no closed file yet.
    let is_archived =
        || db.stats().log.is_some_and(|log| log.archived_files > 0 && log.unarchived_files == 0);
    for _ in 0..12_000 {
        if is_archived() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let stats = db.stats();
    assert!(is_archived(), "{stats:?}");
    assert!(stats.archive_error.is_none() && db.health().is_well(), "{stats:?}");
    db.close().expect("closes");
}

#[test]
fn an_archive_is_explained_and_verified_and_what_is_missing_is_named() {
    let folder = Folder::new("archive");
    archived(&folder);
    let run = |line: &str| folder.run(env!("CARGO_BIN_EXE_ensile"), line);
    for line in ["inspect archive", "verify archive"] {
        let (output, stdout, stderr) = run(line);
        assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
        assert!(stdout.contains("generation 1") && stdout.contains("from 0 on can be brought"), "{stdout}");
    }
    let (_, stdout, _) = run("inspect archive --json");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert_eq!(document["archive"]["ranges"].as_array().map(Vec::len), Some(1), "{document}");
    let (first, second) = (folder.0.join("archive/log0/log-1-0"), folder.0.join("archive/log0/log-1-1"));
    let whole = std::fs::read(&second).expect("it is there");
    let mut damaged = whole.clone();
    damaged[130] ^= 1;
    std::fs::write(&second, damaged).expect("can be written");
    let (output, stdout, _) = run("verify archive");
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("DAMAGED: log0/log-1-1"), "{stdout}");
    std::fs::write(&second, whole).expect("can be written");
    std::fs::remove_file(first).expect("it is there");
    let (output, stdout, _) = run("inspect archive");
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("log0/log-1-0 is missing") && !stdout.contains("from 0 on"), "{stdout}");
}

#[test]
fn an_archive_of_nothing_is_refused_and_one_is_ended() {
    let folder = Folder::new("archive-refused");
    let refused = Database::builder_in_memory().archive(folder.0.join("archive")).open().map(drop);
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    let without_log = Database::builder(folder.0.join("data")).without_log();
    let refused = without_log.archive(folder.0.join("archive")).open().map(drop);
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    archived(&folder);
    std::fs::rename(folder.0.join("archive"), folder.0.join("elsewhere")).expect("moves");
    let refused = Database::open(folder.0.join("data")).map(drop);
    assert!(refused.is_err(), "its archive is not there");
    let db = Database::builder(folder.0.join("data"))
        .archive(ensile::folder::Archiving::Ended)
        .open()
        .expect("it is given up");
    db.close().expect("closes");
    Database::open(folder.0.join("data")).expect("there is none").close().expect("closes");
}

/// The keys that a restored database has.
fn keys(folder: &std::path::Path) -> Vec<u64> {
    let db = Database::open_existing(folder).expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    let keys = db.run(|tx| tx.range(&table, ..).map(|row| Ok(row?.0)).collect()).expect("reads");
    db.close().expect("closes");
    keys
}

/// Thirty commits, each durable before the next, with what comes behind one; their epochs.
fn thirty_commits(db: &Database, behind: impl Fn(u64)) -> Vec<Epoch> {
    let table = db.table::<u64, u64>("numbers").expect("a table");
    let commit = |key| {
        let ((), receipt) = db.submit(|tx| tx.put(&table, &key, &key)).expect("commits");
        receipt.durable().expect("is durable");
        behind(key);
        receipt.epoch()
    };
    let epochs = (0..30).map(commit).collect();
    db.checkpoint().expect("is asked for").wait().expect("is installed");
    epochs
}

/// A database with an archive, closed, of thirty commits, whose epochs these are; and a backup from the midst of them.
fn backed_up(folder: &Folder, strategy: Strategy) -> Vec<Epoch> {
    let tuning = Tuning { checkpoint_strategy: Some(strategy), ..Tuning::default() };
    let builder = Database::builder(folder.0.join("data")).checkpoints(Schedule::on_demand());
    let db = builder.tuning(tuning).archive(folder.0.join("archive")).open().expect("opens");
    let epochs = thirty_commits(&db, |key| match key {
        4 => drop(db.checkpoint().expect("is asked for").wait().expect("is installed")),
        14 => drop(db.backup(folder.0.join("backup")).expect("is made")),
        _ => {}
    });
    db.close().expect("closes");
    epochs
}

#[test]
fn inspect_says_which_epochs_a_restore_has_of_a_backup() {
    for strategy in [Strategy::Pictures, Strategy::Fuzzy, Strategy::Cycling] {
        let folder = Folder::new("archive-reach");
        let epochs = backed_up(&folder, strategy);
        let run = |line: &str| folder.run(env!("CARGO_BIN_EXE_ensile"), line);
        for archive in ["", "--archive archive"] {
            let (output, stdout, stderr) = run(&format!("inspect backup --json {archive}"));
            assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
            let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
            let spans = document["restorable_epochs"].as_array().expect("it is a backup");
            let spans: Vec<_> = spans.iter().map(|span| (span[0].as_u64(), span[1].as_u64())).collect();
            let mut had = 0;
            for key in [0, 5, 11, 14, 15, 19, 29] {
                let epoch = epochs[key].number();
                let is_said = spans.iter().any(|(first, last)| *first <= Some(epoch) && Some(epoch) <= *last);
                let line = format!("restore backup new --to-epoch {epoch} {archive}");
                let (output, _, stderr) = run(&line);
                let is_had = output.status.code() == Some(0);
                assert_eq!(is_had, is_said, "{strategy:?}, {line}, key {key}: {spans:?}, {stderr}");
                assert_eq!(folder.0.join("new").exists(), is_had, "{line}: a folder is left behind");
                if is_had {
                    had += 1;
                    std::fs::remove_dir_all(folder.0.join("new")).expect("it was there");
                }
            }
            // What is behind the backup is in the archive only.
            assert!(archive.is_empty() || had >= 3, "{strategy:?}: {had} of {spans:?}");
            let (_, stdout, _) = run(&format!("inspect backup {archive}"));
            let by = if archive.is_empty() {
                "; `ensile inspect BACKUP --archive ARCHIVE` lists"
            } else {
                " with the archive archive\n"
            };
            let line = stdout
                .lines()
                .find(|line| line.starts_with("`ensile restore --to-epoch` can restore the end of "));
            assert!(line.is_some_and(|line| format!("{line}\n").contains(by)), "{stdout}");
        }
        for of in ["data", "archive"] {
            let (output, _, stderr) = run(&format!("inspect {of} --archive archive"));
            assert!(output.status.code() == Some(2) && stderr.contains("it is no backup"), "{of}: {stderr}");
            let (_, stdout, _) = run(&format!("inspect {of}"));
            assert!(!stdout.contains("--to-epoch` can restore"), "{stdout}");
        }
        let (output, _, stderr) = run("inspect backup --archive data");
        assert!(output.status.code() == Some(2) && stderr.contains("is not an archive"), "{stderr}");
    }
}

#[test]
fn a_backup_is_restored_to_an_epoch_by_an_archive() {
    for strategy in [Strategy::Pictures, Strategy::Fuzzy, Strategy::Cycling] {
        let folder = Folder::new("archive-backup");
        let epochs = backed_up(&folder, strategy);
        let run = |line: &str| folder.run(env!("CARGO_BIN_EXE_ensile"), line);
        let is_copy = strategy != Strategy::Pictures;
        let back = is_copy.then_some(("back", 11, ""));
        let forward = [("then", 19, "--archive archive"), ("last", 29, "--archive archive")];
        for (to, key, archive) in back.into_iter().chain(forward) {
            let epoch = epochs[key].number();
            let (output, stdout, stderr) = run(&format!("restore backup {to} --to-epoch {epoch} {archive}"));
            assert_eq!(output.status.code(), Some(0), "{strategy:?}, {to}: {stdout}\n{stderr}");
            assert!(stdout.contains(&format!("at the end of epoch {epoch}")), "{stdout}");
            let expected: Vec<u64> = (0..30).filter(|key| epochs[*key as usize].number() <= epoch).collect();
            assert_eq!(keys(&folder.0.join(to)), expected, "{strategy:?}, {to}");
        }
        for line in [
            "restore backup later --to-epoch 999999999 --archive archive",
            "restore backup later --to-epoch 999999999",
            "restore backup earlier --to-epoch 1",
        ] {
            let (output, _, stderr) = run(line);
            assert_eq!(output.status.code(), Some(2), "{strategy:?}, {line}: {stderr}");
            assert!(stderr.contains("What can be had from this backup"), "{strategy:?}, {line}: {stderr}");
        }
    }
}

#[test]
fn a_database_is_made_as_it_was_at_an_epoch_and_what_cannot_be_had_is_named() {
    let folder = Folder::new("archive-restore");
    let db =
        Database::builder(folder.0.join("data")).archive(folder.0.join("archive")).open().expect("opens");
    let epochs = thirty_commits(&db, |_| ());
    db.close().expect("closes");
    let run = |line: &str| folder.run(env!("CARGO_BIN_EXE_ensile"), line);
    let (first, middle) = (epochs[0].number(), epochs[14].number());
    let (output, stdout, stderr) = run(&format!("restore-archive archive then --to-epoch {middle}"));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains(&format!("at the end of epoch {middle}")), "{stdout}");
    let then = Database::open_existing(folder.0.join("then")).expect("opens");
    let table = then.table::<u64, u64>("numbers").expect("a table");
    let rows: Vec<u64> = then.run(|tx| tx.range(&table, ..).map(|row| Ok(row?.0)).collect()).expect("reads");
    let expected: Vec<u64> = (0..30).filter(|key| epochs[*key as usize].number() <= middle).collect();
    assert_eq!(rows, expected);
    then.close().expect("closes");
    let (output, _, stderr) = run(&format!("restore-archive archive then --to-epoch {first}"));
    assert!(output.status.code() == Some(2) && stderr.contains("already"), "{stderr}");
    let (output, _, stderr) = run("restore-archive archive later --to-epoch 999999999");
    assert!(output.status.code() == Some(2) && stderr.contains("can be had"), "{stderr}");
    assert!(!folder.0.join("later").exists(), "nothing was made");
    let (output, _, stderr) = run(&format!("restore-archive archive later --to-epoch {middle} --rate-mb 0"));
    assert!(output.status.code() == Some(2) && stderr.contains("--rate-mb"), "{stderr}");
    let (output, stdout, stderr) =
        run(&format!("restore-archive archive again --to-epoch {middle} --rate-mb 1000 --json"));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let said: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert_eq!((&said["epoch"], &said["folder"]), (&middle.into(), &"again".into()), "{said}");
    assert!(said["log_entries"].as_u64() > Some(0) && said["bytes_written"].as_u64() > Some(0), "{said}");
    // What is damaged is the archive's, as for a backup.
    let file = folder.0.join("archive/log0/log-1-0");
    let whole = std::fs::read(&file).expect("reads");
    let blocks = || whole.windows(8).enumerate().filter(|(_, bytes)| bytes.starts_with(b"EnsB"));
    // Of a data block, what stands behind its header; of another one, the header.
    let data = blocks().find(|(_, bytes)| bytes[6] == 0).expect("a block with entries").0 + 100;
    let header = blocks().nth(1).expect("a block behind the first one").0 + 20;
    for at in [data, header] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, damaged).expect("writes");
        let (output, _, stderr) = run(&format!("restore-archive archive damaged --to-epoch {middle}"));
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("ensile: archive: ") && stderr.contains("log0/log-1-0"), "{stderr}");
    }
    std::fs::write(&file, whole).expect("writes");
    let (output, stdout, stderr) = run(&format!("restore-archive archive damaged --to-epoch {middle}"));
    assert_eq!(output.status.code(), Some(0), "it goes on: {stdout}{stderr}");
    std::fs::remove_file(folder.0.join("archive/log0/log-1-0")).expect("it is there");
    let (output, _, stderr) = run(&format!("restore-archive archive gap --to-epoch {middle}"));
    assert!(output.status.code() == Some(2) && stderr.contains("log0/log-1-0 is missing"), "{stderr}");
    assert!(stderr.starts_with("ensile: archive: ") && !folder.0.join("gap").exists(), "{stderr}");
}

/// Whether a command is killed once it has written a piece of what an archive has into this folder, and before that
/// counts. A command that is through by then is no such one, however it ends.
fn is_killed_in_the_archive(folder: &Folder, line: &str, to: &str) -> bool {
    let mut restore = Command::new(env!("CARGO_BIN_EXE_ensile"))
        .args(line.split_whitespace())
        .current_dir(&folder.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let log = folder.0.join(to).join("log0");
    let has_piece = || {
        let files = std::fs::read_dir(&log).into_iter().flatten().flatten();
        let merged = files.filter(|file| file.file_name().to_string_lossy().contains("merged"));
        merged.filter_map(|file| file.metadata().ok()).any(|file| file.len() > 100_000)
    };
    while !has_piece() && restore.try_wait().expect("is a child of this process").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    restore.kill().expect("is a child of this process");
    let is_through = restore.wait().expect("has ended").success();
    let manifest = std::fs::read_to_string(folder.0.join(to).join("MANIFEST")).unwrap_or_default();
    !is_through && has_piece() && manifest.contains(" state creating\n")
}

#[test]
fn a_restore_that_is_killed_in_what_an_archive_has_is_refused_and_begun_again_to_another_epoch() {
    for strategy in [Strategy::Pictures, Strategy::Fuzzy] {
        let folder = Folder::new("archive-killed");
        let tuning = Tuning { checkpoint_strategy: Some(strategy), ..Tuning::default() };
        let builder = Database::builder(folder.0.join("data")).checkpoints(Schedule::on_demand());
        let db = builder.tuning(tuning).archive(folder.0.join("archive")).open().expect("opens");
        let table = db.table::<u64, Vec<u8>>("rows").expect("a table");
        let commit = |key: u64| {
            let ((), receipt) =
                db.submit(|tx| tx.put(&table, &key, &vec![key as u8; 200_000])).expect("commits");
            receipt.durable().expect("is durable");
            if key == 4 {
                db.backup(folder.0.join("backup")).expect("is made");
            }
            receipt.epoch().number()
        };
        let epochs: Vec<u64> = (0..30).map(commit).collect();
        db.close().expect("closes");
        for (to, line) in [
            ("alone", "restore-archive archive alone"),
            ("behind", "restore backup behind --archive archive"),
        ] {
            let slow = format!("{line} --rate-mb 1 --to-epoch {}", epochs[29]);
            let killed = (0..10).any(|_| {
                let is_killed = is_killed_in_the_archive(&folder, &slow, to);
                if !is_killed {
                    std::fs::remove_dir_all(folder.0.join(to)).expect("it was made");
                }
                is_killed
            });
            assert!(killed, "it ends before it is killed");
            let run = |line: &str| folder.run(env!("CARGO_BIN_EXE_ensile"), line);
            for line in [format!("verify {to}"), format!("inspect {to}"), format!("backup {to} other")] {
                let (output, stdout, stderr) = run(&line);
                let is_said = stderr.contains("has not ended") && stdout.is_empty();
                assert!(output.status.code() == Some(2) && is_said, "{line}: {stdout}{stderr}");
            }
            assert!(Database::open(folder.0.join(to)).is_err(), "{to} is no database");
            let (output, stdout, stderr) = run(&format!("{line} --to-epoch {}", epochs[19]));
            assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
            let (output, stdout, stderr) = run(&format!("verify {to}"));
            assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
            let then = Database::open_existing(folder.0.join(to)).expect("opens");
            let table = then.table::<u64, Vec<u8>>("rows").expect("a table");
            let keys: Vec<u64> =
                then.run(|tx| tx.range(&table, ..).map(|row| Ok(row?.0)).collect()).expect("reads");
            let expected: Vec<u64> = (0..30).filter(|key| epochs[*key as usize] <= epochs[19]).collect();
            assert_eq!(keys, expected, "{strategy:?}, {to}");
            then.close().expect("closes");
        }
    }
}
