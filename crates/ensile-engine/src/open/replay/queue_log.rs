//! The log of a queue on a simulated disk, for tests of replay: rows are put and deleted a little later.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_durability::{LogConfig, Recovery};
use ensile_sim::SimDisk;

use crate::checkpoint::Schedule;
use crate::{Database, Durability, Tuning};

/// The id of the queue's table: the first behind the catalogue's.
pub(super) const TABLE: u32 = 1;

/// Sizes of a queue, of its transactions, and of its log files.
pub(super) struct Queue {
    pub(super) rows: u64,
    /// Number of rows in the queue at a time: the row put this many puts earlier is deleted.
    pub(super) left: u64,
    /// Number of rows put by a transaction. Each transaction has an epoch of its own.
    pub(super) together: u64,
    pub(super) value_bytes: usize,
    pub(super) file_bytes: u64,
}

impl Queue {
    /// Runs the queue in a new database on a simulated disk, and then cuts the power. Returns the disk.
    pub(super) fn write(&self) -> SimDisk {
        let (disk, clock) = (SimDisk::new(), Clock::manual());
        let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
        let builder = builder.tuning(Tuning {
            log_file_bytes: self.file_bytes,
            recovery_threads: 1,
            ..Tuning::default()
        });
        let builder = builder.durability(Durability::Relaxed);
        let builder = builder.checkpoints(Schedule::on_demand());
        let db = builder.without_threads().open().expect("a new database");
        let table = db.table::<u64, Vec<u8>>("queue").expect("a new table");
        for first in (0..self.rows).step_by(self.together as usize) {
            db.submit(|tx| {
                for key in first..self.rows.min(first + self.together) {
                    tx.put(&table, &key, &vec![key as u8; self.value_bytes])?;
                    if let Some(old) = key.checked_sub(self.left) {
                        tx.delete(&table, &old)?;
                    }
                }
                Ok(())
            })
            .expect("commits");
            // The epoch ends, and the logger writes its entries.
            clock.advance(Duration::from_millis(1));
            db.heartbeat_step();
            db.logger_step(0);
        }
        clock.advance(Duration::from_millis(1));
        db.heartbeat_step();
        db.logger_step(0);
        disk.crash(17);
        disk
    }

    /// Begins a recovery from a copy of the disk of [`Queue::write`].
    pub(super) fn recovery(disk: &SimDisk) -> Recovery {
        Recovery::open(Arc::new(disk.fork()), LogConfig::default()).expect("opens")
    }
}
