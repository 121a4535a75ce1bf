//! A commit looks at the room at its beginning, and again between its entries (M4).

use crate::commit::tests::with_commit;
use crate::record::blocks::Blocks;
use crate::record::tid_word::Word;
use crate::shared_state::SharedState;
use crate::{Database, Error, Readable, Result};

const LIMIT: u64 = 2 << 20;
const RECORD_BYTES: usize = 4000;

/// Runs `work` while another worker's records take all memory up to the limit.
fn while_full<R>(shared: &SharedState, work: impl FnOnce() -> R) -> R {
    let mut blocks = Blocks::new(shared.memory.cache());
    let record = |blocks: &mut Blocks| blocks.create_record(&[0; RECORD_BYTES], Word::PLACEHOLDER);
    let records: Vec<_> = (0..LIMIT as usize / RECORD_BYTES).map(|_| record(&mut blocks)).collect();
    let result = work();
    records.into_iter().for_each(|record| blocks.discard(record));
    result
}

#[test]
fn m4_a_commit_looks_again_between_its_entries() -> Result<()> {
    let db = Database::builder_in_memory().memory_bytes_max(LIMIT).open()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&table, &1, b"row".as_slice()))?;
    let mut tx = db.begin();
    tx.put(&table, &1, [7; 3000].as_slice())?;
    tx.put(&table, &2, b"row".as_slice())?;
    with_commit(&mut tx, |commit| {
        commit.take_room()?;
        let placed = while_full(commit.shared, || commit.place_watched());
        assert!(matches!(placed, Err(Error::MemoryFull { bytes_max: LIMIT, .. })), "{placed:?}");
        let reserved = while_full(commit.shared, || commit.reserve_watched());
        assert!(matches!(reserved, Ok(0)), "nothing is placed: {reserved:?}");
        Ok::<_, Error>(())
    })?;
    drop(tx);
    assert_eq!(db.run(|tx| Ok(tx.range(&table, ..).count()))?, 1);
    Ok(())
}
