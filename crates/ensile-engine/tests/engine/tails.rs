//! What pending removes cost on the disk: a picture beside commits, with what they displace in its pages, and beside
//! them in tails and blocks (SIREN §3.3). Nothing but counts: each step is the test's.

use crate::prelude::*;

const ROWS: u64 = 30_000;
const PAGE_BYTES: usize = 64 << 10;
const UNIT_BYTES: u64 = 4096;

/// A picture of all rows, of 100 bytes each, with so many updates of random rows before each page.
fn picture(semi_fuzzy: bool, updates_a_page: u64) -> CheckpointReport {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let db = Database::builder("unused")
        .disk(Arc::new(disk.mounted()))
        .manual_clock(clock.clone())
        .durability(Durability::Relaxed)
        .checkpoints(Schedule::on_demand())
        .tuning(Tuning {
            loggers: Some(1),
            checkpointers: Some(1),
            checkpoint_strategy: Some(Strategy::Pictures),
            checkpoint_page_bytes: PAGE_BYTES,
            semi_fuzzy,
            ..Tuning::default()
        })
        .without_threads();
    let db = db.open().expect("opens");
    let rows = db.table::<u64, Vec<u8>>("rows").expect("opens");
    let settle = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
        (0..2).for_each(|_| _ = db.logger_step(0));
    };
    for first in (0..ROWS).step_by(100) {
        db.run(|tx| (first..first + 100).try_for_each(|key| tx.put(&rows, &key, &vec![1; 100])))
            .expect("commits");
        settle();
    }
    let handle = db.checkpoint().expect("begins");
    let written =
        || db.stats().checkpoints.and_then(|stats| stats.running).map_or(0, |running| running.bytes);
    let mut random = Random::from_seed(7);
    while handle.outcome().is_none() {
        let before = written();
        if before > 0 {
            for _ in 0..updates_a_page {
                let key = random.next_below(ROWS);
                db.run(|tx| tx.put(&rows, &key, &vec![2; 100])).expect("commits");
            }
        }
        // Until a page is written: blocks are shorter.
        while written() < before + PAGE_BYTES as u64 / 2 && handle.outcome().is_none() {
            db.checkpoint_step(0).expect("it has a folder");
            settle();
        }
    }
    handle.outcome().expect("it has ended").expect("is installed")
}

#[test]
fn versions_that_fit_into_tails_of_pages_cost_no_units_of_their_own() {
    for updates_a_page in [1, 5, 20, 30, 100] {
        let [pages, beside] = [false, true].map(|semi_fuzzy| picture(semi_fuzzy, updates_a_page));
        assert!(pages.displaced == 0 && beside.entries >= pages.entries, "{pages:?}, {beside:?}");
        let more = beside.bytes_written as i64 - pages.bytes_written as i64;
        println!(
            "{updates_a_page} updates a page: {} pages, {} bytes with all in them; {} versions beside them take {more} \
             bytes more, {} bytes of them in tails",
            pages.pages_written, pages.bytes_written, beside.displaced, beside.displaced_tail_bytes,
        );
        assert!(beside.displaced > updates_a_page * 20, "{beside:?}");
        if updates_a_page <= 20 {
            // The root has their places.
            assert!(more <= UNIT_BYTES as i64, "{more} bytes more: {beside:?}");
        }
    }
}
