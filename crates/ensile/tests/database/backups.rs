//! Backups as applications make them: of an open database, again and again into one folder, and restored.
//!
//! Neighbours: the durability crate tests what a crash at each call leaves; the tests of `ensile` kill the command.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Folder, cause};
use ensile::Tuning;
use ensile::checkpoint::{Schedule, Strategy};
use ensile::folder::{self, CopyOptions, CopyPhase};
use ensile::prelude::*;
use ensile::receipt::Epoch;
use ensile_durability::DurabilityError;

const ROWS: u64 = 4_000;
const TOTAL: u64 = ROWS * 100;

type Accounts = Table<u64, (u64, String)>;

/// A database that takes pictures on demand, in small pages, with as many accounts of a hundred each.
fn bank(path: &Path, has_log: bool) -> Result<(Database, Accounts)> {
    let tuning = Tuning {
        checkpoint_strategy: Some(Strategy::Pictures),
        checkpoint_page_bytes: 4096,
        checkpointers: Some(2),
        ..Tuning::default()
    };
    let builder = Database::builder(path).checkpoints(Schedule::on_demand()).tuning(tuning);
    let db = if has_log { builder.open()? } else { builder.without_log().open()? };
    let accounts = db.table("accounts")?;
    let filler = "x".repeat(60);
    for first in (0..ROWS).step_by(500) {
        db.run(|tx| {
            (first..first + 500).try_for_each(|key| tx.put(&accounts, &key, &(100, filler.clone())))
        })?;
    }
    Ok((db, accounts))
}

fn sum(db: &Database) -> Result<u64> {
    let accounts: Accounts = db.table("accounts")?;
    db.run(|tx| tx.range(&accounts, ..).try_fold(0, |sum, row| Ok(sum + row?.1.0)))
}

fn nothing(_: &folder::CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn each_backup_holds_what_was_committed_before_it_and_writes_what_has_changed() -> Result<()> {
    for has_log in [true, false] {
        let folder = Folder::new();
        let backup = folder.path().join("backup");
        let (db, accounts) = bank(&folder.path().join("data"), has_log)?;
        let keep = CopyOptions { keep: Some(2), ..CopyOptions::default() };
        let full = db.backup_with(&backup, keep, &mut nothing)?;
        assert_eq!((full.pages_written, full.kept.len()), (full.pages, 1));
        db.run(|tx| tx.update(&accounts, &7, |account| account.0 = 93))?;
        let second = db.backup_with(&backup, keep, &mut nothing)?;
        assert!(second.pages_written <= 3 && second.bytes_written < full.bytes / 10, "{second:?}");
        assert_eq!(second.kept, [second.epoch, full.epoch]);
        assert!(folder::verify(&backup)?.is_whole());
        db.close()?;
        for (at, is) in [(None, TOTAL - 7), (Some(second.epoch), TOTAL - 7), (Some(full.epoch), TOTAL)] {
            let again = folder.path().join(format!("again{is}{}", at.is_some()));
            let restored = folder::restore(&backup, &again, at)?;
            assert_eq!(restored.epoch, at.unwrap_or(second.epoch));
            assert_ne!(restored.database, second.database, "it has an identity of its own");
            let db = Database::open(&again)?;
            assert_eq!(sum(&db)?, is);
            db.close()?;
        }
        let error =
            folder::restore(&backup, &folder.path().join("never"), Some(full.epoch.previous())).unwrap_err();
        assert!(matches!(cause(&error), Some(DurabilityError::NotABackup { .. })), "{error}");
    }
    Ok(())
}

#[test]
fn a_backup_beside_transfers_shows_one_moment() -> Result<()> {
    let folder = Folder::new();
    let (db, accounts) = bank(&folder.path().join("data"), true)?;
    let is_over = AtomicBool::new(false);
    let backup = folder.path().join("backup");
    let keep = CopyOptions { keep: Some(3), ..CopyOptions::default() };
    std::thread::scope(|scope| -> Result<()> {
        let transfers = scope.spawn(|| -> Result<()> {
            let mut from = 1;
            while !is_over.load(Ordering::Relaxed) {
                let to = (from * 31 + 7) % ROWS;
                db.submit(|tx| {
                    tx.update(&accounts, &from, |account| account.0 = account.0.wrapping_sub(1))?;
                    tx.update(&accounts, &to, |account| account.0 = account.0.wrapping_add(1))
                })?;
                from = to;
            }
            Ok(())
        });
        let backups = (0..3).try_for_each(|_| db.backup_with(&backup, keep, &mut nothing).map(drop));
        is_over.store(true, Ordering::Relaxed);
        transfers.join().expect("transfers do not panic")?;
        backups
    })?;
    let kept = db.backup_with(&backup, keep, &mut nothing)?.kept;
    assert_eq!(kept.len(), 3);
    for epoch in kept {
        let again = folder.path().join(format!("at{}", epoch.number()));
        folder::restore(&backup, &again, Some(epoch))?;
        let again = Database::open(&again)?;
        let rows: Accounts = again.table("accounts")?;
        let all =
            again.run(|tx| tx.range(&rows, ..).try_fold(0_u64, |sum, row| Ok(sum.wrapping_add(row?.1.0))))?;
        assert_eq!(all, TOTAL, "transfers move money and make none");
        again.close()?;
    }
    db.close()
}

#[test]
fn a_backup_that_is_cancelled_leaves_the_one_before() -> Result<()> {
    let folder = Folder::new();
    let backup = folder.path().join("backup");
    let (db, accounts) = bank(&folder.path().join("data"), true)?;
    let first = db.backup(&backup)?;
    for phase in [CopyPhase::Checkpoint, CopyPhase::Copying, CopyPhase::Verifying] {
        db.run(|tx| {
            (0..ROWS).try_for_each(|key| tx.update(&accounts, &key, |account| account.0 += 1).map(drop))
        })?;
        let mut stop = |progress: &folder::CopyProgress| {
            let is_reached =
                progress.phase == phase && (progress.bytes > 0 || phase == CopyPhase::Checkpoint);
            if is_reached { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match db.backup_with(&backup, CopyOptions::default(), &mut stop) {
            Err(Error::Storage(why)) if matches!(why.cause(), DurabilityError::Cancelled) => {}
            // The checkpoint may be quicker than the first look.
            Ok(_) if phase == CopyPhase::Checkpoint => return db.close(),
            other => panic!("{phase:?}: {other:?}"),
        }
        let again = folder.path().join(format!("{phase:?}"));
        assert_eq!(folder::restore(&backup, &again, None)?.epoch, first.epoch);
        let again = Database::open(&again)?;
        assert_eq!(sum(&again)?, TOTAL);
        again.close()?;
    }
    db.close()
}

/// A database without pictures, and its table.
fn plain(path: &Path, strategy: Strategy) -> Result<(Database, Table<u64, u64>)> {
    let tuning = Tuning { checkpoint_strategy: Some(strategy), ..Tuning::default() };
    let db = Database::builder(path).checkpoints(Schedule::on_demand()).tuning(tuning).open()?;
    let table = db.table("table")?;
    Ok((db, table))
}

fn rows(path: &Path) -> Result<Vec<(u64, u64)>> {
    let db = Database::open_existing(path)?;
    let table = db.table::<u64, u64>("table")?;
    let rows = db.run(|tx| tx.range(&table, ..).collect())?;
    db.close()?;
    Ok(rows)
}

#[test]
fn without_pictures_the_files_are_copied_and_again_only_what_is_new() -> Result<()> {
    for strategy in [Strategy::Fuzzy, Strategy::Cycling] {
        let folder = Folder::new();
        let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
        let (db, table) = plain(&data, strategy)?;
        db.run(|tx| (0..20_000).try_for_each(|key| tx.put(&table, &key, &key)))?;
        db.checkpoint()?.wait()?;
        let keep = CopyOptions { keep: Some(3), ..CopyOptions::default() };
        let first = db.backup_with(&backup, keep, &mut nothing)?;
        assert_eq!((first.pages, &first.kept[..]), (0, &[first.epoch][..]));
        db.run(|tx| tx.put(&table, &1, &0))?;
        // From within, without a checkpoint.
        let second = db.backup_with(&backup, keep, &mut nothing)?;
        assert!(second.bytes_written < first.bytes_written / 4, "{second:?} behind {first:?}");
        assert_eq!(second.kept, [second.epoch, first.epoch]);
        // By another handle of the folder, while it is open, and once it is closed.
        db.run(|tx| tx.put(&table, &2, &0))?;
        let third = folder::backup(&data, &backup, keep, &mut nothing)?;
        assert!(third.bytes_written < first.bytes_written / 4, "{third:?} behind {first:?}");
        db.run(|tx| tx.put(&table, &3, &0))?;
        db.close()?;
        let fourth = folder::backup(&data, &backup, keep, &mut nothing)?;
        assert_eq!(fourth.kept, [fourth.epoch, third.epoch, second.epoch]);
        assert!(folder::verify(&backup)?.is_whole());
        for (report, changed) in [(&second, 1), (&third, 2), (&fourth, 3)] {
            let again = folder.path().join(format!("again{changed}"));
            assert_eq!(folder::restore(&backup, &again, Some(report.epoch))?.epoch, report.epoch);
            let expected = (0..20_000).map(|key| (key, if (1..=changed).contains(&key) { 0 } else { key }));
            assert!(rows(&again)?.into_iter().eq(expected), "{changed}");
        }
        let expected = rows(&folder.path().join("again3"))?;
        assert_eq!(rows(&backup)?, expected, "the backup itself opens");
        let error = folder::backup(&data, &backup, keep, &mut nothing).unwrap_err();
        assert!(matches!(cause(&error), Some(DurabilityError::NotItsBackup { .. })), "{error}");
    }
    Ok(())
}

#[test]
fn a_backup_by_files_that_is_cancelled_or_slowed_leaves_the_one_before() -> Result<()> {
    let folder = Folder::new();
    let (db, table) = plain(&folder.path().join("data"), Strategy::Fuzzy)?;
    let backup = folder.path().join("backup");
    db.run(|tx| (0..5_000).try_for_each(|key| tx.put(&table, &key, &1)))?;
    let first = db.backup(&backup)?;
    for phase in [CopyPhase::Copying, CopyPhase::Verifying] {
        db.run(|tx| (0..5_000).try_for_each(|key| tx.put(&table, &key, &2)))?;
        let outcome = db.backup_with(&backup, CopyOptions::default(), &mut |progress| match progress.phase {
            now if now == phase => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert!(
            matches!(outcome.as_ref().err().and_then(cause), Some(DurabilityError::Cancelled)),
            "{outcome:?}"
        );
        let again = folder.path().join(format!("{phase:?}"));
        assert_eq!(folder::restore(&backup, &again, None)?.epoch, first.epoch);
        assert!(rows(&again)?.into_iter().eq((0..5_000).map(|key| (key, 1))));
    }
    db.backup(&backup)?;
    db.close()?;
    assert!(rows(&backup)?.into_iter().eq((0..5_000).map(|key| (key, 2))));
    Ok(())
}

#[test]
fn a_backup_goes_on_where_the_strategy_was_changed() -> Result<()> {
    let folder = Folder::new();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let keep = CopyOptions { keep: Some(4), ..CopyOptions::default() };
    let mut reports = Vec::new();
    for (at, strategy) in
        (1..).zip([Strategy::Fuzzy, Strategy::Pictures, Strategy::Fuzzy, Strategy::Pictures])
    {
        let (db, table) = plain(&data, strategy)?;
        db.run(|tx| (0..100).try_for_each(|key| tx.put(&table, &key, &at)))?;
        let report = db.backup_with(&backup, keep, &mut nothing)?;
        assert_eq!(report.pages > 0, strategy == Strategy::Pictures, "{report:?}");
        db.close()?;
        reports.push((report, at));
    }
    assert!(folder::verify(&backup)?.is_whole());
    for (report, at) in &reports {
        let again = folder.path().join(format!("again{at}"));
        folder::restore(&backup, &again, Some(report.epoch))?;
        assert!(rows(&again)?.into_iter().eq((0..100).map(|key| (key, *at))), "{at}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_backed_up_says_why() -> Result<()> {
    let folder = Folder::new();
    let backup = folder.path().join("backup");
    let error = Database::in_memory()?.backup(&backup).unwrap_err();
    assert!(matches!(error, Error::Misuse(_)), "{error}");
    assert!(!backup.exists(), "nothing was made");
    let (one, _) = bank(&folder.path().join("one"), true)?;
    let (other, _) = bank(&folder.path().join("other"), true)?;
    one.backup(&backup)?;
    for target in [backup.clone(), folder.path().join("one")] {
        let error = other.backup(&target).unwrap_err();
        assert!(matches!(error, Error::Storage(_)), "{error}");
    }
    one.close()?;
    assert!(matches!(one.backup(&backup), Err(Error::Closed)));
    other.close()?;
    let missing = folder.path().join("missing");
    let error = folder::backup(&missing, &backup, CopyOptions::default(), &mut nothing).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    // An open makes a database of its own of a backup.
    Database::open(&backup)?.close()?;
    let options = CopyOptions::default();
    let error = folder::backup(&folder.path().join("one"), &backup, options, &mut nothing).unwrap_err();
    assert!(matches!(cause(&error), Some(DurabilityError::NotItsBackup { .. })), "{error}");
    Ok(())
}

#[test]
fn a_close_ends_a_backup_and_nothing_is_made_for_what_is_refused() -> Result<()> {
    let root = Folder::new();
    let (db, _) = bank(&root.path().join("data"), true)?;
    let backup = root.path().join("backup");
    for options in [
        CopyOptions { keep: Some(0), ..CopyOptions::default() },
        CopyOptions { bytes_per_second: Some(0), keep: Some(1) },
    ] {
        let refused = db.backup_with(&backup, options, &mut nothing);
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    }
    assert!(!backup.exists());
    let first = db.backup(&backup)?;
    let outcome = db.backup_with(&backup, CopyOptions::default(), &mut |progress| {
        if progress.phase == CopyPhase::Copying {
            db.close().expect("closes");
        }
        ControlFlow::Continue(())
    });
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    let report = folder::restore(&backup, &root.path().join("restored"), None)?;
    assert_eq!(report.epoch, first.epoch);
    std::fs::create_dir_all(root.path().join("empty")).expect("can be made");
    let (nobody, new) = (root.path().join("empty"), root.path().join("new"));
    assert!(folder::backup(&nobody, &new, CopyOptions::default(), &mut nothing).is_err());
    assert!(!new.exists(), "nothing was made of nothing");
    Ok(())
}

/// What an archive has is one step of the library below: `watch` is asked within it, also while the rate waits.
#[test]
fn a_restore_that_takes_from_an_archive_is_cancelled_while_it_does() -> Result<()> {
    let root = Folder::new();
    let [backup, archive, one, other] =
        ["backup", "archive", "one", "other"].map(|name| root.path().join(name));
    let db = Database::builder(root.path().join("data")).archive(archive.as_path()).open()?;
    let table = db.table::<u64, u64>("table")?;
    db.run(|tx| tx.put(&table, &1, &1))?;
    db.backup(&backup)?;
    let ((), receipt) = db.submit(|tx| tx.put(&table, &2, &2))?;
    receipt.durable()?;
    let to = receipt.epoch();
    db.close()?;
    let mut stop = |progress: &folder::CopyProgress| {
        let is_reached = progress.phase == CopyPhase::Archive && progress.bytes > 0;
        if is_reached { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let is_cancelled = |error| matches!(cause(&error), Some(DurabilityError::Cancelled));
    // At a byte a second its first block alone would take an hour.
    let error = folder::restore_from_archive_with(&archive, &one, to, Some(1), &mut stop).unwrap_err();
    assert!(is_cancelled(error));
    let error = folder::restore_to_epoch(&backup, Some(&archive), &other, to, None, &mut stop).unwrap_err();
    assert!(is_cancelled(error));
    for folder in [&one, &other] {
        let opened = Database::open(folder).map(drop);
        let is_unfinished =
            matches!(opened.as_ref().err().and_then(cause), Some(DurabilityError::Unfinished { .. }));
        assert!(is_unfinished, "{opened:?}");
    }
    folder::restore_from_archive(&archive, &one, to)?;
    folder::restore_to_epoch(&backup, Some(&archive), &other, to, None, &mut nothing)?;
    for folder in [&one, &other] {
        assert_eq!(rows(folder)?, [(1, 1), (2, 2)]);
    }
    Ok(())
}

/// A first backup and a restore that are cancelled behind each of their steps, as a kill there leaves them.
#[test]
fn n24_an_unfinished_copy_is_refused_by_every_open_and_goes_on_when_it_is_run_again() -> Result<()> {
    for strategy in [Strategy::Pictures, Strategy::Fuzzy] {
        let root = Folder::new();
        let tuning =
            Tuning { checkpoint_strategy: Some(strategy), checkpoint_page_bytes: 4096, ..Tuning::default() };
        let data = root.path().join("data");
        let db = Database::builder(&data).checkpoints(Schedule::on_demand()).tuning(tuning).open()?;
        let accounts: Accounts = db.table("accounts")?;
        db.run(|tx| (0..300).try_for_each(|key| tx.put(&accounts, &key, &(100, "x".repeat(60)))))?;
        db.checkpoint()?.wait()?;
        db.close()?;
        let (backup, restored) = (root.path().join("backup"), root.path().join("restored"));
        for target in [&backup, &restored] {
            let copy = |watch: &mut dyn FnMut(&folder::CopyProgress) -> ControlFlow<()>| {
                if target == &backup {
                    folder::backup(&data, target, CopyOptions::default(), watch)
                } else {
                    folder::restore_with(&backup, target, None, None, watch)
                }
            };
            let mut cancelled = 0;
            loop {
                let mut steps = 0;
                let outcome = copy(&mut |_| {
                    steps += 1;
                    if steps > cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                if outcome.is_ok() {
                    break;
                }
                assert!(
                    matches!(outcome.as_ref().err().and_then(cause), Some(DurabilityError::Cancelled)),
                    "{outcome:?}"
                );
                cancelled += 1;
                let builder = || Database::builder(target);
                for opened in [builder().open(), builder().open_existing(), builder().create_new()] {
                    let Err(Error::Storage(why)) = &opened else {
                        panic!("{strategy:?}, step {cancelled}: {:?}", opened.map(drop));
                    };
                    assert!(matches!(why.cause(), DurabilityError::Unfinished { .. }), "{cancelled}: {why}");
                }
                let refused = [folder::verify(target).map(drop), folder::inspect(target).map(drop)];
                for outcome in refused {
                    let error = outcome.expect_err("nothing in it counts");
                    assert!(error.to_string().contains("run it again, or remove the folder"), "{error}");
                }
            }
            assert!(cancelled > 3, "{cancelled} steps");
            assert!(folder::verify(target)?.is_whole());
        }
        let db = Database::open(&restored)?;
        assert_eq!(sum(&db)?, 300 * 100);
        db.close()?;
    }
    Ok(())
}

#[test]
fn a_target_within_the_source_is_refused_also_by_way_of_a_link_and_nothing_is_made() -> Result<()> {
    let folder = Folder::new();
    let (data, device) = (folder.path().join("data"), folder.path().join("device"));
    let db = Database::builder(&data).log_folders([&device]).open()?;
    std::os::unix::fs::symlink(&data, folder.path().join("link")).expect("links");
    let targets =
        [data.join("backup"), folder.path().join("link/backup"), device.join("backup"), data.clone()];
    for target in &targets {
        for refused in
            [db.backup(target), folder::backup(&data, target, CopyOptions::default(), &mut nothing)]
        {
            let refused = refused.expect_err("it lies in the source").to_string();
            assert!(refused.contains("outside"), "{refused}");
        }
        assert!(*target == data || !target.exists(), "{}", target.display());
    }
    db.backup(folder.path().join("data-backup"))?;
    db.close()
}

#[test]
fn a_failed_restore_removes_no_folder_in_which_there_is_something_else() -> Result<()> {
    let folder = Folder::new();
    let (data, backup, new) =
        (folder.path().join("data"), folder.path().join("backup"), folder.path().join("new"));
    let db = Database::open(&data)?;
    db.backup(&backup)?;
    db.close()?;
    // Nothing can be had, and the folder is not there.
    folder::restore(&backup, &new, Some(Epoch::new(1 << 40))).expect_err("no such epoch");
    assert!(!new.exists());
    // Another restore, or a user, was there first.
    std::fs::create_dir(&new).expect("makes");
    std::fs::write(new.join("notes"), "mine").expect("writes");
    folder::restore(&backup, &new, None).expect_err("it is not empty");
    assert_eq!(std::fs::read_to_string(new.join("notes")).expect("is there"), "mine");
    Ok(())
}
