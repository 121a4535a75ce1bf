//! A tour of the database, one stop after the other: `cargo run --example tour`.
//!
//! Neighbours: `tests/database/face.rs` runs the tour. `bank` transfers money on several threads. `secondary_index` and
//! `snapshot` say more of their subjects.

use std::ops::ControlFlow;
use std::time::Duration;

use ensile::checkpoint::Schedule;
use ensile::prelude::*;
use ensile::{Tuning, folder};

/// Reason for a refused order.
#[derive(Debug)]
enum Refused {
    /// The stock has too little of the item.
    SoldOut { left: u32 },
    /// The database returned an error.
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

struct Shop {
    db: Database,
    /// Number of pieces by item.
    stock: Table<String, u32>,
    /// Item by customer and number of the order.
    orders: Table<(String, u64), String>,
    /// Orders by item.
    by_item: Index<String, (String, u64), String>,
}

pub(crate) fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("ensile-tour-{}", std::process::id()));
    let shop = open(&path)?;
    writes(&shop)?;
    closures(&shop)?;
    reads(&shop)?;
    snapshots(&shop)?;
    receipts(&shop)?;
    batches(&shop)?;
    report(&shop)?;
    shop.db.close()?;
    inspect(&path)?;
    std::fs::remove_dir_all(&path).expect("the folder was there");
    Ok(())
}

/// A database is a folder; `Database::in_memory` makes a database without a folder. All settings have defaults.
fn open(path: &std::path::Path) -> Result<Shop> {
    let db = Database::builder(path)
        .durability(Durability::Strict) // a returned result is on disk
        .epoch_interval(Duration::from_millis(5)) // a crash may lose relaxed results of this time
        .checkpoints(Schedule::default().interval(Duration::from_secs(30)))
        .tuning(Tuning { log_file_bytes: 16 << 20, ..Tuning::default() })
        .open()?;
    let stock = db.table("stock")?;
    let orders = db.define("orders").index("by_item", 1, |_order, item: &String| item.clone()).open()?;
    let by_item = orders.index("by_item")?;
    Ok(Shop { db, stock, orders, by_item })
}

/// `run` runs a closure as one serializable transaction: every write takes effect, or nothing does.
fn writes(shop: &Shop) -> Result<()> {
    shop.db.run(|tx| {
        tx.insert(&shop.stock, "tea", &10)?; // fails if the row exists
        tx.put(&shop.stock, "rice", &5)?; // overwrites the row
        tx.update(&shop.stock, "rice", |left| *left += 1)?;
        assert!(!tx.delete(&shop.stock, "salt")?, "there is no salt");
        Ok(())
    })?;
    let again = shop.db.run(|tx| tx.insert(&shop.stock, "tea", &99));
    assert!(matches!(again, Err(Error::KeyExists { .. })));
    Ok(())
}

/// A closure with its own error, a relaxed transaction, and a transaction without a closure.
fn closures(shop: &Shop) -> Result<()> {
    for (customer, number, count) in [("ada", 1, 4), ("bob", 2, 7)] {
        match order(shop, customer, number, "tea", count) {
            Ok(()) => println!("{customer} has {count} of tea"),
            Err(Refused::SoldOut { left }) => {
                println!("{customer} wants {count} of tea, and {left} are left")
            }
            Err(Refused::Failed(error)) => return Err(error),
        }
    }

    shop.db.run(|tx| {
        tx.set_durability(Durability::Relaxed); // a relaxed transaction returns at commit
        tx.put(&shop.stock, "salt", &1)
    })?;

    let mut tx = shop.db.begin(); // open as long as you like; the transaction locks nothing
    let left = tx.get(&shop.stock, "salt")?.unwrap_or(0);
    tx.put(&shop.stock, "salt", &(left + 1))?;
    match tx.commit() {
        Ok(_receipt) => {}
        Err(error) if error.is_retryable() => println!("another transaction was faster: begin again"),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// An error of the closure undoes the earlier writes of the closure.
fn order(shop: &Shop, customer: &str, number: u64, item: &str, count: u32) -> Result<(), Refused> {
    shop.db.try_run(|tx| {
        tx.put(&shop.orders, &(customer, number), item)?;
        let left = tx.get(&shop.stock, item)?.unwrap_or(0);
        let fewer = left.checked_sub(count).ok_or(Refused::SoldOut { left })?;
        tx.put(&shop.stock, item, &fewer)?;
        Ok(())
    })
}

/// Every read takes a table or an index, in a transaction or in a snapshot.
fn reads(shop: &Shop) -> Result<()> {
    let Shop { db, stock, orders, by_item } = shop;
    db.run(|tx| {
        assert_eq!(tx.get(stock, "tea")?, Some(6));
        assert_eq!(tx.get_many(stock, &["tea", "cake"])?, [Some(6), None]);
        assert_eq!(tx.get_with(stock, "tea", |left| *left > 5)?, Some(true));
        assert!(tx.contains(orders, &("ada", 1))?);
        let first = tx.range(stock, "s"..).next().transpose()?;
        assert_eq!(first, Some(("salt".to_owned(), 2)));
        assert_eq!(tx.last(stock, ..)?.map(|row| row.0).as_deref(), Some("tea"));
        let of_ada = tx.range(orders, Prefix(("ada",))).rev().collect::<Result<Vec<_>>>()?;
        assert_eq!(of_ada.len(), 1);
        let of_tea = tx.find(by_item, "tea").collect::<Result<Vec<_>>>()?;
        assert_eq!(of_tea, [(("ada".to_owned(), 1), "tea".to_owned())]);
        let mut sum = 0;
        tx.scan(stock, .., |_item, left| {
            sum += left;
            ControlFlow::Continue(())
        })?;
        assert_eq!(sum, 14);
        Ok(())
    })
}

/// A snapshot shows one moment, and conflicts with no transaction.
fn snapshots(shop: &Shop) -> Result<()> {
    let mut snapshot = shop.db.snapshot_latest()?;
    shop.db.run(|tx| tx.put(&shop.stock, "tea", &0))?;
    assert_eq!(snapshot.get(&shop.stock, "tea")?, Some(6));
    Ok(())
}

/// `submit` returns at commit. The receipt tells when the result is durable.
fn receipts(shop: &Shop) -> Result<()> {
    let mut receipts = Vec::new();
    for number in 10..20 {
        let ((), receipt) = shop.db.submit(|tx| tx.put(&shop.orders, &("eve", number), "rice"))?;
        receipts.push(receipt);
    }
    receipts.iter().try_for_each(|receipt| receipt.durable()) // the receipts wait for the disk together
}

/// The keys of a batch of small transactions are fetched from memory together. The keys of a large transaction are too.
fn batches(shop: &Shop) -> Result<()> {
    let items = ["tea", "rice", "salt"];
    let results = shop.db.run_batch(
        &items,
        |item, prefetch| prefetch.key(&shop.stock, *item),
        |tx, item| tx.get(&shop.stock, *item),
    );
    assert_eq!(results.into_iter().filter_map(|result| result.ok()?.0).sum::<u32>(), 8);
    shop.db.run(|tx| {
        tx.prefetch(|prefetch| items.iter().for_each(|item| prefetch.key(&shop.stock, *item)))?;
        items.iter().try_for_each(|item| tx.update(&shop.stock, *item, |left| *left += 1).map(drop))
    })
}

/// Reports checkpoint, statistics and health of the database.
fn report(shop: &Shop) -> Result<()> {
    let checkpoint = shop.db.checkpoint()?.wait()?;
    println!("a checkpoint of {} entries, {} bytes", checkpoint.entries, checkpoint.bytes);
    let stats = shop.db.stats();
    println!("{} commits, {} aborts, epoch {}", stats.commits, stats.aborts, stats.epoch);
    assert!(shop.db.health().is_well());
    Ok(())
}

/// A folder can be examined without an open.
fn inspect(path: &std::path::Path) -> Result<()> {
    let db = Database::open_existing(path)?;
    let recovered = db.recovery_report().expect("it has a log");
    println!(
        "recovered {} entries of a checkpoint, {} of the log",
        recovered.checkpoint_entries, recovered.entries
    );
    db.close()?;
    let verified = folder::verify(path)?;
    println!("{verified:?}");
    Ok(())
}
