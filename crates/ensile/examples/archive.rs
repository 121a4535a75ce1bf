//! An archive and a backup: rows destroyed by mistake are restored as of the end of the epoch before the mistake.
//!
//! A backup is made now and then; the archive gets every log file once the file is closed. Backup and archive have the
//! database at the end of any epoch since the backup. The receipt of a commit names the commit's epoch, and later
//! `ensile inspect FOLDER --changes` does. `ensile inspect ARCHIVE` names the available epochs.
//!
//! Run: `cargo run --example archive -- /tmp/orders` (into a folder that is not there)
#![forbid(unsafe_code)]

use std::ops::ControlFlow;
use std::path::PathBuf;

use ensile::folder;
use ensile::prelude::*;

fn main() -> Result<()> {
    let root = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "orders.ensile".to_string()));
    std::fs::create_dir_all(&root).expect("the folder can be made");
    let (backup, archive, again) = (root.join("backup"), root.join("archive"), root.join("again"));

    // The best place is another device. Later opens go on with the archive unasked.
    let db = Database::builder(root.join("data")).archive(archive.as_path()).open()?;
    let orders = db.table::<u64, String>("orders")?;
    for order in 0..1_000 {
        db.run(|tx| tx.put(&orders, &order, &format!("order {order}")))?;
    }
    let report = db.backup(&backup)?;
    println!("backed up: epoch {}", report.epoch);

    let ((), good) = db.submit(|tx| tx.put(&orders, &1_000, &"the last good one".to_string()))?;
    good.durable()?;
    println!("all is well at the end of epoch {}", good.epoch());
    while db.epoch() <= good.epoch() {
        std::thread::yield_now();
    }
    for order in 0..=1_000 {
        db.run(|tx| tx.delete(&orders, &order))?;
    }
    // The close brings the open log file into the archive.
    db.close()?;

    // As `ensile restore BACKUP FOLDER --to-epoch EPOCH --archive ARCHIVE` does.
    let watch = &mut |_: &folder::CopyProgress| ControlFlow::Continue(());
    folder::restore_to_epoch(&backup, Some(&archive), &again, good.epoch(), None, watch)?;
    let db = Database::open_existing(&again)?;
    let orders = db.table::<u64, String>("orders")?;
    let count = db.run(|tx| Ok(tx.range(&orders, ..).count()))?;
    println!("restored: {count} orders, {:?}", db.run(|tx| tx.get(&orders, &1_000))?);
    assert_eq!(count, 1_001);
    db.close()
}
