//! Rounds of a walk: what one pin stands for.

use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::Arc;

use super::*;
use crate::tables::logged_tables::LoggedTable;
use crate::{Database, Result};

/// The section of the first table that is opened.
const FIRST_TABLE: u32 = 1;
/// Two and a half of these are the bytes of a round.
const LARGE: usize = BYTES_PER_PIN / 5 * 2;

/// A database of this number of rows, each of this length.
fn open(rows: u64, bytes: usize) -> Result<(Database, Clock)> {
    let clock = Clock::manual();
    let db = Database::builder_in_memory().pictures().manual_clock(clock.clone()).without_threads().open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    for key in 0..rows {
        db.run(|tx| tx.put(&table, &key, &vec![7; bytes]))?;
    }
    Ok((db, clock))
}

fn first_table(shared: &SharedState) -> Arc<LoggedTable> {
    shared.tables.logged.get(FIRST_TABLE).expect("it was opened")
}

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// One round of the table's rows from the key of this number on.
fn round(shared: &SharedState, from: u64, low: Epoch, target: &mut impl RowTarget) -> Option<Stopped> {
    let mut pin = shared.epochs.register_pin();
    let call = pin.begin(shared.epochs.now());
    let from = key(from);
    let range = Range { lower: Bound::Included(&from[..]), upper: Bound::Unbounded };
    copy_rows(&first_table(shared).tree, range, low, target, &mut Scratch::default(), call.pin_token())
}

#[test]
fn a_round_ends_behind_a_mib_of_rows_or_some_thousand_keys_or_for_want_of_room() -> Result<()> {
    let (db, _) = open(7, LARGE)?;
    let mut page = PageContents::new();
    let stopped = |number| Some(Stopped { at: key(number), is_full: false });
    for (from, ends, rows) in [(0, stopped(3), 3), (3, stopped(6), 6), (6, None, 7)] {
        assert_eq!(round(db.shared(), from, Epoch::MAX, &mut page), ends);
        assert_eq!(page.entries(), rows);
    }
    let (db, _) = open(KEYS_PER_PIN as u64 + 5, 0)?;
    for (low, rows) in [(Epoch::MAX, KEYS_PER_PIN), (Epoch::FIRST, 0)] {
        let mut page = PageContents::new();
        let over = Stopped { at: key(KEYS_PER_PIN as u64), is_full: false };
        assert_eq!(round(db.shared(), 0, low, &mut page), Some(over));
        assert_eq!(page.entries() as usize, rows);
    }
    let (db, _) = open(3, LARGE)?;
    let mut block = CheckpointBlock::new();
    let full = Stopped { at: key(1), is_full: true };
    assert_eq!(round(db.shared(), 0, Epoch::MAX, &mut block), Some(full), "a large block holds one entry");
    assert_eq!(block.entries(), 1);
    Ok(())
}

fn whole_table() -> Slice {
    Slice { section: FIRST_TABLE, from: Box::default(), to: None }
}

/// A block is handed back once it is full, or the slice has ended: a round that is over says nothing of either.
#[test]
fn a_walk_goes_on_from_round_to_round_until_its_block_is_full() -> Result<()> {
    let rows = 2 * KEYS_PER_PIN as u64 + 5;
    let (db, _) = open(rows, 20)?;
    let (mut block, mut resume) = (CheckpointBlock::new(), Vec::new());
    assert!(!db.shared().walk(&whole_table(), &mut resume, Epoch::FIRST, &mut block), "all rows are newer");
    assert_eq!(block.entries(), 0);
    let mut entries = 0;
    resume.clear();
    while db.shared().walk(&whole_table(), &mut resume, Epoch::MAX, &mut block) {
        assert!(block.entries() > 0 && !block.has_room(100), "it stopped for lack of room");
        entries += u64::from(block.entries());
        block = CheckpointBlock::new();
    }
    assert_eq!(entries + u64::from(block.entries()), rows);
    Ok(())
}

/// Takes rows, and lets epochs pass meanwhile.
struct Passing<'d> {
    db: &'d Database,
    clock: Clock,
    /// As each row came: E, and the limit of what pins hold back.
    seen: Vec<(Epoch, Epoch)>,
}

impl RowTarget for Passing<'_> {
    fn has_room(&mut self, _body_bytes: usize) -> bool {
        true
    }

    fn add(&mut self, _tid: Tid, _key: &[u8], _value: &[u8]) {
        for _ in 0..3 {
            self.clock.advance(Duration::from_millis(40));
            self.db.heartbeat_step();
        }
        let epochs = &self.db.shared().epochs;
        self.seen.push((epochs.now(), epochs.limits().pins()));
    }
}

#[test]
fn no_pin_stands_from_one_round_to_the_next() -> Result<()> {
    let (db, clock) = open(9, LARGE)?;
    let mut target = Passing { db: &db, clock, seen: Vec::new() };
    let table = first_table(db.shared());
    assert!(!db.shared().copy_rounds(&table.tree, &whole_table(), &mut Vec::new(), Epoch::MAX, &mut target));
    let seen = target.seen;
    assert_eq!(seen.len(), 9);
    assert!(seen[2].1 < seen[0].0, "a round is one pin: {seen:?}");
    for (row, round_before) in [(3, 0), (6, 3)] {
        assert!(seen[row].1 >= seen[round_before].0, "the pin of the round before is gone: {seen:?}");
    }
    Ok(())
}
