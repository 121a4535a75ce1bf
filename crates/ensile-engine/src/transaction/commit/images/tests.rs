//! What a commit does when the value under the lock is longer than what was reserved for.

use std::ops::ControlFlow;
use std::path::PathBuf;

use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_epoch::Pinned;

use super::super::{bound, prepare, register_garbage};
use super::{check, reserve_again};
use crate::database::Core;
use crate::folder::{self, Before};
use crate::session::{self, Seat};
use crate::transaction::context::{Context, Sets};
use crate::worker::Worker;
use crate::{Database, Error, Result, Table, Transaction};

/// A database with before-images, in a folder that goes with it.
struct Home {
    path: PathBuf,
    db: Database,
    table: Table<u64, Vec<u8>>,
}

impl Home {
    fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("ensile-images-{name}-{}", std::process::id()));
        let db = Database::builder(&path).before_images(true).open()?;
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

fn with_parts<R>(
    tx: &mut Transaction<'_>,
    run: impl FnOnce(&Core, &mut Worker, &mut Sets, Pinned<'_>) -> R,
) -> R {
    let Some(Seat { context, worker }) = &mut tx.seat else { unreachable!("it has not ended") };
    let Context { pin, sets, .. } = &mut **context;
    let call = pin.enter().expect("not expired");
    run(&tx.core, session::seated_worker(&tx.core, worker), sets, call.pinned())
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
    with_parts(&mut tx, prepare)?;
    home.put(&long)?;
    with_parts(&mut tx, |core, worker, sets, pinned| {
        assert!(matches!(bound(core, worker, sets, pinned), Err(Error::Conflict)));
        assert!(worker.images.fell_short() && !worker.images.fell_short(), "told once");
        assert!(worker.commit.slot().bound().is_none(), "it has let go: the log may wait for the disk (E1)");
        reserve_again(worker, sets, pinned)?;
        let committed = bound(core, worker, sets, pinned)?;
        register_garbage(core, worker, sets, committed, pinned);
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
    with_parts(&mut tx, |core, worker, sets, pinned| {
        prepare(core, worker, sets, pinned)?;
        if let Some(appender) = &mut worker.appender {
            appender.release();
        }
        let write = &mut sets.writes.entries[0];
        write.before = write.record_at(pinned).word();
        for (left, fits) in [(10, true), (9, false)] {
            worker.images.entry_bytes = TRANSACTION_BYTES_MAX - left;
            worker.images.room = 0;
            // What is asked of the log is never more than it may take, though the record could hold 3,000 bytes.
            reserve_again(worker, sets, pinned)?;
            if let Some(appender) = &mut worker.appender {
                appender.release();
            }
            assert_eq!(worker.images.room, left);
            match check(worker, sets, pinned) {
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
