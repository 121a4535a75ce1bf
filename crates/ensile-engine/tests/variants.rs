//! The engine's variants keep what they promise: transfers between accounts lose nothing under contention, with
//! snapshots read beside them, and a log that holds data brings it back.
#![cfg(feature = "laboratory")]

mod own_folder;

use std::time::Duration;

use ensile_engine::{Builder, Database, Readable, Result, Table, Tuning, Variants};
use own_folder::Folder;

const ACCOUNTS: u64 = 64;
const OPENING: u64 = 1_000;
const TRANSFERS: u64 = 4_000;

/// Moves money between accounts from several threads, and reads sums on snapshots; then the present sum.
fn transfers(db: &Database) -> Result<u64> {
    let accounts: Table<u64, u64> = db.table("accounts")?;
    db.run(|tx| (0..ACCOUNTS).try_for_each(|id| tx.put(&accounts, &id, &OPENING)))?;
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let accounts = &accounts;
            scope.spawn(move || {
                for step in 0..TRANSFERS {
                    let (from, to) = ((step * 7 + thread) % ACCOUNTS, (step * 13 + thread * 5) % ACCOUNTS);
                    db.submit(|tx| {
                        let balance = tx.get(accounts, &from)?.unwrap_or(0);
                        if from == to || balance == 0 {
                            return Ok(());
                        }
                        tx.put(accounts, &from, &(balance - 1))?;
                        tx.update(accounts, &to, |balance| *balance += 1).map(|_| ())
                    })
                    .expect("a transfer commits");
                    if step % 500 == 0 {
                        let mut snapshot = db.snapshot_latest().expect("snapshots are kept");
                        assert_eq!(sum(&mut snapshot, accounts).expect("it reads"), ACCOUNTS * OPENING);
                    }
                }
            });
        }
    });
    db.run(|tx| sum(tx, &accounts))
}

fn sum(reader: &mut impl Readable, accounts: &Table<u64, u64>) -> Result<u64> {
    let mut total = 0;
    reader.scan(accounts, .., |_, balance| {
        total += balance;
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(total)
}

fn brisk(builder: Builder) -> Builder {
    let tuning = Tuning { snapshot_interval: Duration::from_millis(3), ..Tuning::default() };
    builder.epoch_interval(Duration::from_millis(1)).tuning(tuning)
}

#[test]
fn every_variant_in_memory_is_serializable() -> Result<()> {
    let usual = Variants::default();
    for variants in [
        usual,
        Variants { global_tid: true, ..usual },
        Variants { overwrite: false, ..usual },
        Variants { overwrite: false, slabs: false, ..usual },
        Variants { collect: false, ..usual },
    ] {
        let db = brisk(Database::builder_in_memory()).variants(variants).open()?;
        assert_eq!(transfers(&db)?, ACCOUNTS * OPENING, "{variants:?}");
        let stats = db.stats();
        assert_eq!(stats.memory.chunk_bytes == 0, !variants.slabs, "{variants:?}");
    }
    Ok(())
}

/// The sum after a reopening, and the bytes that were logged.
fn logged(log_data: bool) -> Result<(u64, u64)> {
    let folder = Folder::new(&format!("variants-{log_data:?}"));
    let variants = Variants { log_data, ..Variants::default() };
    // Each epoch adds marks to the log. There must be few of them, however long the run takes.
    let builder = brisk(folder.builder()).epoch_interval(Duration::from_secs(1));
    let db = builder.variants(variants).open()?;
    assert_eq!(transfers(&db)?, ACCOUNTS * OPENING);
    db.close()?;
    let bytes = db.stats().log.map_or(0, |log| log.bytes);
    drop(db);
    let db = Database::open(folder.path())?;
    let accounts = db.table("accounts")?;
    Ok((db.run(|tx| sum(tx, &accounts))?, bytes))
}

#[test]
fn what_is_logged_in_full_comes_back_and_small_records_do_not() -> Result<()> {
    let (full, full_bytes) = logged(true)?;
    let (small, small_bytes) = logged(false)?;
    assert_eq!((full, small), (ACCOUNTS * OPENING, 0));
    assert!(small_bytes < full_bytes, "{small_bytes} {full_bytes}");
    Ok(())
}
