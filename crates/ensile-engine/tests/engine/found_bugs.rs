//! Bugs that a hunt through the engine's core once found, each as the smallest run that showed it.
//!
//! Databases here are driven by hand where epochs and garbage must move at one point of the run and no other.
//!
//! Neighbours: `histories` hunts at random; these runs hit their spot every time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use ensile_base::limits::VALUE_BYTES_MAX;

use crate::prelude::*;

type Bytes = Table<u64, Vec<u8>>;
type Numbers = Table<u64, u64>;

/// Without snapshots, so that a replaced record waits for pins alone.
fn without_snapshots() -> Driven {
    Driven::open(|builder| builder.snapshots(false))
}

/// Frees what can be freed, and fills freed blocks of small rows with rows under keys from 1000 on.
fn reuse_freed_blocks(driven: &Driven, table: &Bytes) {
    for key in 1000..1050 {
        driven.pass_ticks(1);
        driven.db.run(|tx| tx.put(table, &key, &vec![0xEE; 40])).expect("commits");
    }
}

#[test]
fn hints_of_a_batch_end_with_the_pin_that_they_were_found_under() -> Result<()> {
    let driven = without_snapshots();
    let (db, table) = (&driven.db, driven.db.table::<u64, Vec<u8>>("bytes")?);
    db.run(|tx| [1, 100].iter().try_for_each(|key| tx.put(&table, key, &vec![*key as u8; 40])))?;
    let mut runs = 0;
    let results = db.run_batch(
        &[100u64, 1],
        |key, prefetch| prefetch.key(&table, key),
        |tx, key| {
            if *key == 100 {
                runs += 1;
                tx.get(&table, &100)?;
                if runs == 1 {
                    // The next request's record is replaced; this request runs again, under a new pin.
                    db.run(|other| other.put(&table, &1, &vec![7; 400]))?;
                    driven.pass_ticks(1);
                    db.run(|other| other.put(&table, &100, &vec![8; 40]))?;
                    tx.put(&table, &101, &vec![])?;
                } else {
                    reuse_freed_blocks(&driven, &table);
                }
            }
            tx.get(&table, key)
        },
    );
    assert_eq!(runs, 2);
    let rows: Vec<_> = results.into_iter().map(|result| result.expect("commits").0).collect();
    assert_eq!(rows, [Some(vec![8; 40]), Some(vec![7; 400])]);
    Ok(())
}

#[test]
fn a_multi_get_within_a_batch_leaves_the_batchs_hints_alone() -> Result<()> {
    let driven = without_snapshots();
    let (db, table) = (&driven.db, driven.db.table::<u64, Vec<u8>>("bytes")?);
    db.run(|tx| (0..60).try_for_each(|key| tx.put(&table, &key, &vec![key as u8; 40])))?;
    let results = db.run_batch(
        &[0u64, 1, 2, 3],
        |key, prefetch| prefetch.key(&table, key),
        |tx, key| {
            tx.put(&table, &50, &vec![0xFF; 40])?;
            let many = tx.get_many(&table, &[50, 51])?;
            assert_eq!(many, [Some(vec![0xFF; 40]), Some(vec![51; 40])]);
            tx.get(&table, key)
        },
    );
    for (key, result) in (0u8..).zip(results) {
        assert_eq!(result?.0, Some(vec![key; 40]));
    }
    Ok(())
}

#[test]
fn a_batch_that_panics_leaves_no_hints_to_the_next_transaction() -> Result<()> {
    let driven = without_snapshots();
    let (db, table) = (&driven.db, driven.db.table::<u64, Vec<u8>>("bytes")?);
    db.run(|tx| tx.put(&table, &1, &vec![1; 40]))?;
    let panicked = db.run_batch(
        &[1u64],
        |key, prefetch| prefetch.key(&table, key),
        |_tx, _key| -> Result<()> { panic!("planned") },
    );
    assert!(panicked[0].is_err());
    db.run(|tx| {
        // A blind write by a handle of the old pin would already be wrong; get rid of the record first.
        tx.delete(&table, &1)?;
        tx.put(&table, &1, &vec![7; 400])
    })?;
    reuse_freed_blocks(&driven, &table);
    assert_eq!(db.run(|tx| tx.get(&table, &1))?, Some(vec![7; 400]));
    Ok(())
}

fn on_disk(disk: &Arc<SimDisk>) -> Result<Database> {
    Database::builder_in_memory()
        .disk(Arc::clone(disk) as Arc<_>)
        .epoch_interval(Duration::from_millis(1))
        .open()
}

#[test]
fn rows_survive_an_opening_whose_key_function_panics() -> Result<()> {
    let disk = Arc::new(SimDisk::new());
    {
        let db = on_disk(&disk)?;
        let table = db.table::<u64, u64>("numbers")?;
        db.run(|tx| (0..10).try_for_each(|key| tx.put(&table, &key, &key)))?;
        db.close()?;
    }
    // As if in another process: threads of this one may still hold what the first opening lent them.
    disk.kill();
    let db = on_disk(&disk)?;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let define = db.define::<u64, u64>("numbers");
        define.index("bad", 1, |_key, row: &u64| if *row == 5 { panic!("planned") } else { *row }).open()
    }));
    assert!(panicked.is_err());
    let table = db.define::<u64, u64>("numbers").index("good", 1, |_key, row: &u64| *row).open()?;
    assert_eq!(db.run(|tx| tx.range(&table, ..).collect::<Result<Vec<_>>>())?.len(), 10);
    assert_eq!(db.run(|tx| tx.find(&table.index::<u64>("good")?, &5).collect::<Result<Vec<_>>>())?, [(5, 5)]);
    Ok(())
}

#[test]
fn rows_survive_an_opening_that_the_log_refuses() -> Result<()> {
    let disk = Arc::new(SimDisk::new());
    {
        let db = on_disk(&disk)?;
        let table = db.table::<u64, u64>("numbers")?;
        db.run(|tx| (0..10).try_for_each(|key| tx.put(&table, &key, &key)))?;
        db.close()?;
    }
    // As if in another process: threads of this one may still hold what the first opening lent them.
    disk.kill();
    let db = on_disk(&disk)?;
    let other = db.table::<u64, u64>("other")?;
    disk.fail_all_syncs(true);
    assert!(db.run(|tx| tx.put(&other, &1, &1)).is_err(), "the log is stopped");
    let refused = db.define::<u64, u64>("numbers").index("new", 1, |_key, row: &u64| *row).open();
    assert!(matches!(refused, Err(Error::Storage(_))), "{refused:?}");
    let table = db.table::<u64, u64>("numbers")?;
    let rows = db.run(|tx| {
        tx.set_durability(Durability::Relaxed);
        tx.range(&table, ..).collect::<Result<Vec<_>>>()
    })?;
    assert_eq!(rows.len(), 10);
    Ok(())
}

#[test]
fn a_write_refused_for_one_index_leaves_nothing_in_another() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db
        .define::<u64, String>("people")
        .unique_index("by_first", 1, |_key, name: &String| name.chars().next().unwrap_or(' ').to_string())
        .index("by_name", 1, |_key, name: &String| name.clone())
        .open()?;
    let long = format!("a{}", "x".repeat(70_000));
    db.run(|tx| {
        for refused in [tx.put(&table, &1, &long), tx.insert(&table, &1, &long)] {
            assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
        }
        tx.put(&table, &2, "ada")
    })?;
    let by_first = table.index::<String>("by_first")?;
    assert_eq!(db.run(|tx| tx.get(&by_first, "a"))?, Some((2, "ada".to_owned())));
    Ok(())
}

#[test]
fn large_transactions_do_not_leave_more_garbage_than_is_freed() -> Result<()> {
    let driven = without_snapshots();
    let (db, table) = (&driven.db, driven.db.table::<u64, Vec<u8>>("bytes")?);
    let mut most = 0;
    for round in 0..200u64 {
        db.run(|tx| {
            (0..200).try_for_each(|key| {
                tx.delete(&table, &(round * 200 + key))?;
                tx.put(&table, &((round + 1) * 200 + key), &vec![0; 40])
            })
        })?;
        driven.pass_ticks(30);
        most = most.max(db.stats().garbage_things);
    }
    assert!(most < 4_000, "{most} things wait, and nobody holds them back");
    Ok(())
}

#[test]
fn a_key_and_its_unique_entry_that_appear_together_are_a_taken_key() -> Result<()> {
    let driven = without_snapshots();
    let db = driven.db.clone();
    // Empty once it was used, so the key function does not keep its own database for ever.
    let armed: Arc<Mutex<Option<(Database, Numbers)>>> = Arc::default();
    let trigger = Arc::clone(&armed);
    let table = db
        .define::<u64, u64>("numbers")
        .unique_index("by_row", 1, move |_key, row: &u64| {
            // Between the outer insert's look at its key and its look at the index, somebody else inserts the row.
            let armed = trigger.lock().expect("nobody panicked").take();
            if let Some((db, table)) = armed {
                db.run(|tx| tx.insert(&table, &1, &11)).expect("commits");
            }
            *row
        })
        .open()?;
    *armed.lock().expect("nobody panicked") = Some((db.clone(), table.clone()));
    let refused = db.run(|tx| tx.insert(&table, &1, &11));
    assert!(matches!(refused, Err(Error::KeyExists { .. })), "{refused:?}");
    Ok(())
}

#[test]
fn what_was_committed_before_close_returned_is_durable() -> Result<()> {
    for round in 0..30 {
        let disk = Arc::new(SimDisk::new());
        let db = on_disk(&disk)?;
        let table = db.table::<u64, u64>("numbers")?;
        let receipts = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3u64)
                .map(|thread| {
                    let (db, table) = (&db, &table);
                    scope.spawn(move || {
                        let mut receipts = Vec::new();
                        for key in 0.. {
                            match db.submit(|tx| tx.put(table, &(thread << 32 | key), &key)) {
                                Ok((_, receipt)) => receipts.push(receipt),
                                Err(_) => return receipts,
                            }
                        }
                        receipts
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(3));
            db.close().expect("closes");
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        for receipt in receipts {
            receipt
                .durable()
                .unwrap_or_else(|error| panic!("round {round}, epoch {}: {error}", receipt.epoch()));
        }
    }
    Ok(())
}

/// An opening that fails gives back what it built and took: else this table could be opened a few thousand times at
/// most.
#[test]
fn a_table_can_be_opened_after_any_number_of_openings_that_failed() -> Result<()> {
    const ROWS: u64 = 200;
    let disk = Arc::new(SimDisk::new());
    {
        let db = on_disk(&disk)?;
        let table = db.table::<u64, u64>("rows")?;
        db.run(|tx| {
            tx.set_durability(Durability::Relaxed);
            (0..ROWS).try_for_each(|key| tx.put(&table, &key, &key))
        })?;
        db.close()?;
    }
    // As if in another process: threads of this one may still hold what the first opening lent them.
    disk.kill();
    // Garbage goes by ticks, and each opening has as many.
    let clock = Clock::manual();
    let builder = Database::builder_in_memory().disk(Arc::clone(&disk) as Arc<_>).manual_clock(clock.clone());
    let db = builder.durability(Durability::Relaxed).without_threads().open()?;
    let tick = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
        while db.logger_step(0) {}
    };
    let define = || db.define::<u64, u64>("rows").index("by_digit", 1, |_, row| row % 10);
    let fail = |times: u64| {
        for at in 0..times {
            (0..3).for_each(|_| tick());
            // The last row of all fails: the indexes are almost there.
            let refused = define().unique_index("by_row", 1, |_, row| *row.min(&(ROWS - 2))).open();
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{at}");
            let panics = || {
                define()
                    .index("none", 1, |_, row| if *row == ROWS - 1 { panic!("planned") } else { 0 })
                    .open()
            };
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err(), "{at}");
        }
    };
    fail(3);
    let before = db.stats().memory.chunk_bytes;
    fail(1100);
    let after = db.stats().memory.chunk_bytes;
    // A chunk for what waits for an epoch or two.
    assert!(after <= before + (2 << 20), "{before} bytes before and {after} after openings that failed");
    let table = define().unique_index("by_row", 1, |_, row| *row).open()?;
    let (by_digit, by_row) = (table.index::<u64>("by_digit")?, table.index::<u64>("by_row")?);
    let mut tx = db.begin();
    assert_eq!(tx.find(&by_digit, &7).count() as u64, ROWS / 10);
    assert_eq!(tx.get(&by_row, &199)?, Some((199, 199)));
    Ok(())
}

#[test]
fn an_error_that_rests_on_a_key_found_free_is_never_returned_beside_a_later_state() -> Result<()> {
    let driven = without_snapshots();
    let (db, table) = (&driven.db, driven.db.table::<u64, u64>("numbers")?);
    for is_deleted in [false, true] {
        db.run(|tx| {
            tx.delete(&table, &1)?;
            tx.put(&table, &2, &0)
        })?;
        if is_deleted {
            db.run(|tx| tx.insert(&table, &1, &0))?;
            db.run(|tx| tx.delete(&table, &1))?;
        }
        let mut runs = 0;
        let refused = db.run(|tx| {
            runs += 1;
            tx.insert(&table, &1, &11)?;
            if runs == 1 {
                db.run(|other| {
                    other.insert(&table, &1, &7)?;
                    other.put(&table, &2, &1)
                })?;
            }
            match tx.get(&table, &2)? {
                Some(1) => {
                    Err::<(), _>(Error::Misuse("1 was free, though 2 says that it is taken".to_owned()))
                }
                _ => Ok(()),
            }
        });
        assert!(matches!(refused, Err(Error::KeyExists { .. })), "{refused:?}");
        assert_eq!(runs, 2);
    }
    Ok(())
}

#[test]
fn a_batch_whose_transaction_was_exchanged_goes_on_without_its_announcements() -> Result<()> {
    let driven = without_snapshots();
    let (db, table) = (&driven.db, driven.db.table::<u64, u64>("numbers")?);
    db.run(|tx| (0..100).try_for_each(|key| tx.put(&table, &key, &key)))?;
    // The other one has announced nothing, fewer keys, more keys.
    for announced in [0, 3, 99] {
        let results = db.run_batch(
            &[10u64, 20, 30],
            |key, prefetch| (0..*key).for_each(|key| prefetch.key(&table, &key)),
            |tx, key| {
                if *key == 10 {
                    let mut other = db.begin_owned();
                    other.prefetch(|prefetch| (0..announced).for_each(|key| prefetch.key(&table, &key)))?;
                    *tx = other;
                }
                (0..*key).try_for_each(|key| tx.update(&table, &key, |value| *value += 1).map(drop))?;
                tx.get(&table, key)
            },
        );
        let rows: Vec<_> = results.into_iter().map(|result| result.expect("commits").0).collect();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(Option::is_some));
    }
    assert_eq!(
        db.run(|tx| Ok((tx.get(&table, &5)?, tx.get(&table, &15)?, tx.get(&table, &25)?)))?,
        (Some(5 + 9), Some(15 + 6), Some(25 + 3))
    );
    Ok(())
}

#[test]
fn a_commit_that_rests_on_a_refused_insert_rests_on_its_keys_absence() -> Result<()> {
    let driven = without_snapshots();
    let (db, flags) = (&driven.db, driven.db.table::<u64, u64>("flags")?);
    let plain = db.table::<u64, Vec<u8>>("plain")?;
    let too_long = vec![0; VALUE_BYTES_MAX + 1];
    let long = |_: &u64, row: &u64| vec![1; if *row == 7 { 70_000 } else { 1 }];
    let indexed = db.define::<u64, u64>("indexed").index("by_length", 1, long).open()?;
    for is_indexed in [false, true] {
        db.run(|tx| tx.put(&flags, &1, &1))?;
        let mut runs = 0;
        let (flag, is_free) = db.run(|tx| {
            runs += 1;
            let refused = match is_indexed {
                true => tx.insert(&indexed, &1, &7),
                false => tx.insert(&plain, &1, &too_long),
            };
            let is_free = matches!(refused, Err(Error::TooLarge { .. }));
            assert!(is_free || matches!(refused, Err(Error::KeyExists { .. })), "{refused:?}");
            if runs == 1 {
                db.run(|other| {
                    other.put(&flags, &1, &0)?;
                    if is_indexed { other.put(&indexed, &1, &5) } else { other.put(&plain, &1, &vec![5]) }
                })?;
            }
            let flag = tx.get(&flags, &1)?;
            tx.put(&flags, &2, &1)?;
            Ok((flag, is_free))
        })?;
        assert_eq!((flag, is_free), (Some(0), false), "indexed: {is_indexed}");
    }
    Ok(())
}

#[test]
fn a_key_function_that_panics_leaves_row_and_entries_in_step() -> Result<()> {
    let db = Database::in_memory()?;
    let armed = Arc::new(Mutex::new(0));
    let calls = Arc::clone(&armed);
    let second = move |_: &u64, row: &u64| {
        let mut left = calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *left > 0 {
            *left -= 1;
            assert!(*left > 0, "a key function's own");
        }
        row + 1
    };
    let table = db
        .define::<u64, u64>("numbers")
        .index("by_row", 1, |_, row| *row)
        .index("by_next", 1, second)
        .open()?;
    let (by_row, by_next) = (table.index::<u64>("by_row")?, table.index::<u64>("by_next")?);
    db.run(|tx| tx.put(&table, &1, &10))?;
    for panics_at in 1..6 {
        db.run(|tx| {
            *armed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = panics_at;
            let _ = catch_unwind(AssertUnwindSafe(|| tx.put(&table, &1, &(10 + panics_at))));
            *armed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = 0;
            Ok(())
        })?;
        let row = db.run(|tx| tx.get(&table, &1))?.expect("nobody deletes it");
        let (rows, nexts) = db.run(|tx| {
            let rows: Result<Vec<_>> = tx.range(&by_row, ..).collect();
            let nexts: Result<Vec<_>> = tx.range(&by_next, ..).collect();
            Ok((rows?, nexts?))
        })?;
        assert_eq!((rows, nexts), (vec![(1, row)], vec![(1, row)]), "a panic in call {panics_at}");
    }
    assert_eq!(db.run(|tx| Ok(tx.find(&by_next, &16).count()))?, 1, "calls behind the last one do not panic");
    Ok(())
}

/// A database on a simulated disk that was closed with a hundred rows in `numbers`.
fn with_a_hundred_rows() -> Result<Database> {
    let disk = Arc::new(SimDisk::new());
    let db = on_disk(&disk)?;
    let table = db.table::<u64, u64>("numbers")?;
    db.run(|tx| (0..100).try_for_each(|row| tx.put(&table, &row, &row)))?;
    db.close()?;
    on_disk(&disk)
}

#[test]
fn a_key_function_opens_other_tables_while_its_own_is_being_opened() -> Result<()> {
    let db = with_a_hundred_rows()?;
    let other = db.clone();
    let key = move |key: &u64, row: &u64| {
        let factors = other.table::<u64, u64>("factors").expect("another table");
        other.run(|tx| tx.put(&factors, key, &2)).expect("commits");
        other.run(|tx| tx.get(&factors, key)).expect("reads").unwrap_or(1) * row
    };
    let table = db.define::<u64, u64>("numbers").index("by_product", 1, key).open()?;
    let by_product = table.index::<u64>("by_product")?;
    assert_eq!(db.run(|tx| tx.range(&by_product, 198..).collect::<Result<Vec<_>>>())?, [(99, 99)]);
    Ok(())
}

#[test]
fn a_key_function_that_asks_for_its_own_table_is_told_so_and_the_table_can_be_opened_after() -> Result<()> {
    let db = with_a_hundred_rows()?;
    let (other, told) = (db.clone(), Arc::new(Mutex::new(None)));
    let tell = Arc::clone(&told);
    let key = move |_: &u64, row: &u64| -> u64 {
        let own = other.table::<u64, u64>("numbers");
        *tell.lock().expect("nobody panicked") = own.err();
        panic!("a key function's own, at row {row}");
    };
    let open = || db.define::<u64, u64>("numbers").index("by_row", 1, key).open();
    assert!(catch_unwind(AssertUnwindSafe(open)).is_err(), "the key function panics");
    let told = told.lock().expect("nobody panicked").take();
    assert!(matches!(told, Some(Error::Misuse(_))), "{told:?}");
    let table = db.define::<u64, u64>("numbers").index("by_row", 1, |_, row| *row).open()?;
    assert_eq!(db.run(|tx| Ok(tx.range(&table, ..).count()))?, 100);
    Ok(())
}

#[test]
fn threads_that_open_one_table_while_its_indexes_are_filled_get_the_same_table() -> Result<()> {
    let db = with_a_hundred_rows()?;
    let fillings = Arc::new(Mutex::new(0));
    let open = || {
        let fillings = Arc::clone(&fillings);
        let key = move |_: &u64, row: &u64| {
            *fillings.lock().expect("nobody panicked") += 1;
            *row
        };
        db.define::<u64, u64>("numbers").index("by_row", 1, key).open()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic").map(drop))
    })?;
    assert_eq!(*fillings.lock().expect("nobody panicked"), 100, "the index is filled once");
    Ok(())
}

/// Rounds of a tick's time, in each of which a strict result waits and its logger closes the epoch early; `tick` is
/// what the heartbeat does then. Returns the boundary before and after.
fn boundaries_beside_early_closes(
    round: Duration,
    tick: impl Fn(&Database),
) -> Result<(ensile_base::Epoch, ensile_base::Epoch)> {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
    let db = builder.without_threads().open()?;
    let table = db.table::<u64, u64>("rows")?;
    let first = db.snapshot()?.epoch();
    for key in 0..50 {
        let receipt = db.submit(|tx| tx.put(&table, &key, &key))?.1;
        let mut durable = std::pin::pin!(receipt.durable_async());
        let mut poll = || durable.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        clock.advance(round);
        while db.logger_step(0) {}
        tick(&db);
        assert!(matches!(poll(), Poll::Ready(Ok(_))));
    }
    let last = db.snapshot()?.epoch();
    db.close()?;
    Ok((first, last))
}

#[test]
fn boundaries_come_where_an_early_close_is_just_before_each_tick() -> Result<()> {
    let (first, last) = boundaries_beside_early_closes(Duration::from_millis(40), |db| {
        db.heartbeat_step();
        db.boundary_step();
    })?;
    assert!(last > first, "two seconds, and no boundary after {first:?}");
    Ok(())
}

#[test]
fn boundaries_come_where_ticks_are_far_apart_and_epochs_close_early() -> Result<()> {
    let (first, last) = boundaries_beside_early_closes(Duration::from_millis(10), |_| {})?;
    assert!(last > first, "half a second without a tick, and no boundary after {first:?}");
    Ok(())
}
