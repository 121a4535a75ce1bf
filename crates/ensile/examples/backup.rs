//! Backups: a running database is copied beside its writers. The second backup copies only the changes. A restore makes
//! a new database from the backup.
//!
//! Run: `cargo run --example backup -- /tmp/shop` (a second run goes on at the end of the first run)
#![forbid(unsafe_code)]

use std::ops::ControlFlow;
use std::path::PathBuf;

use ensile::checkpoint::Strategy;
use ensile::folder::{self, CopyOptions};
use ensile::prelude::*;
use ensile::{Builder, Tuning};

/// A backup copies consistent checkpoints page by page. Of other checkpoints a backup copies all files, log included.
fn with_pictures(builder: Builder) -> Builder {
    builder.tuning(Tuning { checkpoint_strategy: Some(Strategy::Pictures), ..Tuning::default() })
}

fn main() -> Result<()> {
    let root = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "shop.ensile".to_string()));
    std::fs::create_dir_all(&root).expect("the folder can be made");
    let db = with_pictures(Database::builder(root.join("data")).durability(Durability::Relaxed)).open()?;
    let stock = db.table::<u64, String>("stock")?;
    for item in 0..10_000 {
        db.run(|tx| tx.put(&stock, &item, &format!("item {item}, in stock: {}", item % 7)))?;
    }

    // The first backup writes everything. Seven pictures are kept, 20 MB a second are read and written at most, and the
    // call-back could end the backup.
    let options = CopyOptions { keep: Some(7), bytes_per_second: Some(20_000_000) };
    let mut shown = 0;
    let first = db.backup_with(&root.join("backup"), options, &mut |progress| {
        if progress.bytes_total > 0 && progress.bytes * 4 / progress.bytes_total > shown {
            shown = progress.bytes * 4 / progress.bytes_total;
            println!("{:?}: {} of {} bytes", progress.phase, progress.bytes, progress.bytes_total);
        }
        ControlFlow::Continue(())
    })?;
    println!("epoch {}: {} of {} pages written", first.epoch, first.pages_written, first.pages);

    // The next backup writes only the changes.
    db.run(|tx| tx.put(&stock, &4711, &"item 4711, sold out".to_string()))?;
    let next = db.backup_with(&root.join("backup"), options, &mut |_| ControlFlow::Continue(()))?;
    println!("epoch {}: {} of {} pages written", next.epoch, next.pages_written, next.pages);
    db.close()?;

    // A kept picture is an older state. The backup stays a backup.
    for (name, epoch) in [("then", first.epoch), ("now", next.epoch)] {
        let folder = root.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).expect("it can be removed");
        }
        folder::restore(&root.join("backup"), &folder, Some(epoch))?;
        let restored = Database::open_existing(&folder)?;
        let stock = restored.table::<u64, String>("stock")?;
        println!("{name}: {:?}", restored.run(|tx| tx.get(&stock, &4711))?);
        restored.close()?;
    }
    Ok(())
}
