//! Snapshots and durability: a database in a folder, a report over one moment while writers go on, and receipts.
//!
//! Run: `cargo run --example snapshot -- /tmp/sensors` (a second run goes on at the end of the first run)
#![forbid(unsafe_code)]

use std::thread;
use std::time::Duration;

use ensile::prelude::*;

/// Sensor, then time, newest first: `first` of a sensor's prefix is the sensor's newest reading.
type ReadingKey = (String, Descending<u64>);

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "sensors.ensile".to_string());
    let db = Database::builder(folder).epoch_interval(Duration::from_millis(5)).open()?;
    let readings = db.table::<ReadingKey, i64>("readings")?;
    let clock = db.table::<(), u64>("clock")?;
    let start = db.run(|tx| tx.get(&clock, &()))?.unwrap_or(0);
    println!("{start} rounds so far");

    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut newest = None;
            for time in start..start + 200 {
                // Returns at commit, with a receipt: nothing waits for the disk.
                let ((), receipt) = db.submit(|tx| {
                    tx.put(&clock, &(), &(time + 1))?;
                    for (sensor, offset) in [("attic", 5), ("cellar", -5)] {
                        tx.put(&readings, &(sensor, Descending(time)), &(time as i64 % 20 + offset))?;
                    }
                    Ok(())
                })?;
                newest = Some(receipt);
            }
            // Epochs become durable in order: once the newest epoch is, the earlier epochs are.
            newest.map_or(Ok(()), |receipt| receipt.durable())
        });
        let reader = scope.spawn(|| {
            for _ in 0..5 {
                // The reads of a snapshot see one moment, whatever the writer does meanwhile, and never conflict.
                let mut snapshot = db.snapshot_latest()?;
                let rounds = snapshot.get(&clock, &())?.unwrap_or(0);
                let count = snapshot.range(&readings, Prefix(("attic",))).count() as u64;
                assert_eq!(rounds, count, "each round wrote one reading of each sensor");
                let newest = snapshot.first(&readings, Prefix(("cellar",)))?;
                println!(
                    "epoch {}: {count} readings of each sensor, newest of the cellar {newest:?}",
                    snapshot.epoch()
                );
                thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        });
        let both: [Result<()>; 2] = [writer, reader].map(|thread| thread.join().expect("neither panics"));
        both.into_iter().collect::<Result<()>>()
    })?;
    db.close()
}
