//! What a commit does when the value under the lock is longer than what was reserved for.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ensile_durability::Health;
use ensile_sim::SimDisk;

use super::*;
use crate::commit::tests::{prepare, with_commit};
use crate::open::folder;
use crate::open::folder::Before;
use crate::{Database, Error, Readable, Result, Table, Tuning};

/// A database with before-images, in a folder that goes with it.
struct Home {
    path: PathBuf,
    db: Database,
    table: Table<u64, Vec<u8>>,
}

impl Home {
    fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("ensile-images-{name}-{}", std::process::id()));
        // Without snapshots: a boundary between two steps of a commit would send it back by itself.
        let db = Database::builder(&path).before_images(true).snapshots(false).open()?;
        let table = db.table("rows")?;
        Ok(Self { path, db, table })
    }

    fn put(&self, value: &[u8]) -> Result<()> {
        self.db.run(|tx| tx.put(&self.table, &1, value))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A folder left behind in the temporary folder fails no test.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[test]
fn a_value_that_grew_after_space_was_reserved_is_recorded_whole_in_a_second_round() -> Result<()> {
    let home = Home::new("grown")?;
    let long = vec![7; 3000];
    // A record that holds the long value, with a short one in it now.
    home.put(&long)?;
    home.put(b"short")?;
    let mut tx = home.db.begin();
    tx.put(&home.table, &1, b"new".as_slice())?;
    with_commit(&mut tx, prepare)?;
    home.put(&long)?;
    with_commit(&mut tx, |commit| {
        assert!(matches!(commit.bind_and_take_effect(), Err(Error::Conflict)));
        assert!(commit.worker.images.fell_short() && !commit.worker.images.fell_short(), "asked once");
        assert!(
            commit.worker.commit.slot().bound_epoch().is_none(),
            "it has let go: the log may wait for the disk (E1)"
        );
        reserve_again(commit)?;
        let committed = commit.bind_and_take_effect()?;
        commit.register_garbage(committed);
        Ok::<_, Error>(())
    })?;
    drop(tx);
    home.db.clone().close()?;
    let mut last = None;
    folder::changes(&home.path, &mut |change| {
        if let Before::Value(before) = change.before {
            last = Some((before.to_vec(), change.after.map(<[u8]>::to_vec)));
        }
        ControlFlow::Continue(())
    })?;
    assert_eq!(last, Some((long, Some(b"new".to_vec()))));
    Ok(())
}

#[test]
fn an_entry_is_too_large_by_the_values_that_are_replaced_and_not_by_what_their_records_could_hold()
-> Result<()> {
    let home = Home::new("large")?;
    home.put(&[7; 3000])?;
    home.put(&[7; 10])?;
    let mut tx = home.db.begin();
    tx.put(&home.table, &1, b"new".as_slice())?;
    with_commit(&mut tx, |commit| {
        prepare(commit)?;
        if let Some(appender) = &mut commit.worker.appender {
            appender.release();
        }
        let write = &mut commit.sets.writes.entries[0];
        write.before = write.record_at(commit.pinned).word();
        for (left, fits) in [(10, true), (9, false)] {
            commit.worker.images.entry_bytes = TRANSACTION_BYTES_MAX - left;
            commit.worker.images.bytes = 0;
            // What is asked of the log is never more than it may take, though the record could hold 3,000 bytes.
            reserve_again(commit)?;
            if let Some(appender) = &mut commit.worker.appender {
                appender.release();
            }
            assert_eq!(commit.worker.images.bytes, left);
            match check(commit) {
                Ok(()) => assert!(fits),
                Err(Error::TooLarge { bytes, bytes_max, .. }) => {
                    assert!(!fits && bytes == bytes_max + 1, "{bytes} of {bytes_max}");
                }
                Err(other) => panic!("{other}"),
            }
        }
        Ok(())
    })
}

/// What frames the writes counts too, so a write-set that is just small enough may be too much for the log.
#[test]
fn an_entry_that_is_too_large_whatever_it_replaces_is_the_same_error() -> Result<()> {
    let home = Home::new("framed")?;
    let mut tx = home.db.begin();
    with_commit(&mut tx, |commit| {
        let refused = commit.reserve_log(TRANSACTION_BYTES_MAX + 1);
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    });
    drop(tx);
    home.put(b"the next one is good")
}

/// The disk fills up between the rounds: nothing is left behind but placeholders, and the worker's next commits are
/// good.
#[test]
fn a_second_round_that_finds_no_space_leaves_no_trace() -> Result<()> {
    let disk = SimDisk::new();
    let on = Arc::new(disk.clone());
    // A snapshot boundary between the rounds is a conflict before the images fall short.
    let builder =
        Database::builder("unused").disk(on).epoch_interval(Duration::from_millis(2)).snapshots(false);
    let db =
        builder.before_images(true).tuning(Tuning { log_file_bytes: 8192, ..Tuning::default() }).open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    let put = |key: u64, value: &[u8]| db.submit(|tx| tx.put(&table, &key, value)).map(drop);
    let long = vec![7; 3000];
    put(1, &long)?;
    put(1, b"short")?;
    let mut tx = db.begin();
    tx.put(&table, &1, b"new".as_slice())?;
    tx.insert(&table, &2, b"new".as_slice())?;
    let versions = with_commit(&mut tx, |commit| {
        let versions = commit.worker.blocks.place();
        prepare(commit).map(|()| versions)
    })?;
    put(1, &long)?;
    with_commit(&mut tx, |commit| {
        assert!(matches!(commit.bind_and_take_effect(), Err(Error::Conflict)));
        assert!(commit.worker.images.fell_short());
    });
    // The log stays full, even if a file is given up.
    disk.set_capacity(Some(0));
    while !matches!(db.stats().log_health, Some(Health::Full(_))) {
        let filled = put(3, &long);
        assert!(matches!(filled, Ok(()) | Err(Error::DiskFull(_))), "{filled:?}");
    }
    with_commit(&mut tx, |commit| {
        let refused = reserve_again(commit);
        assert!(matches!(refused, Err(Error::DiskFull(_))), "{refused:?}");
        assert!(commit.worker.commit.slot().bound_epoch().is_none() && !commit.worker.images.fell_short());
        commit.abandon(versions);
    });
    drop(tx);
    let rows = || db.submit(|tx| Ok((tx.get(&table, &1)?, tx.get(&table, &2)?))).map(|(rows, _)| rows);
    assert_eq!(rows()?, (Some(long), None));
    disk.set_capacity(None);
    while db.stats().log_health != Some(Health::Running) {
        std::thread::sleep(Duration::from_millis(1));
    }
    db.run(|tx| {
        tx.put(&table, &1, b"late".as_slice())?;
        tx.insert(&table, &2, b"came".as_slice())
    })?;
    assert_eq!(rows()?, (Some(b"late".to_vec()), Some(b"came".to_vec())));
    db.close()
}
