//! Build of the secondary indexes of a table during its open (X1).
//!
//! Neighbours: [`super`] opens the table with the complete indexes.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use ensile_base::limits::INDEX_KEY_BYTES_MAX;
use ensile_base::sync::{AtomicUsize, Ordering, thread_local};
use ensile_epoch::Pinned;
use ensile_index::{Direction, Range};

use super::new_tree;
use crate::error::{Error, Result};
use crate::open::threads::in_parallel;
use crate::record::tid_word::Word;
use crate::record::tree::{RecordTree, RecordVisitor, UnseenTree};
use crate::record::{LeafWitness, Record, Seen};
use crate::session;
use crate::sets::rows::{BatchAsked, BatchRow, RowBatch};
use crate::shared_state::SharedState;
use crate::tables::{IndexSpec, TableSpec, check_length};
use crate::worker::Worker;

/// Number of parts of a table for each thread that rebuilds its indexes: the parts have unequal sizes.
const PARTS_PER_THREAD: usize = 8;
/// Largest number of rows copied under a pin.
const ROWS_PER_BATCH: usize = 512;

thread_local! {
    /// Number of nested fillings of indexes on this thread: a key function may open another table.
    static FILLINGS: Cell<u32> = const { Cell::new(0) };
}

/// True if this thread may be in a key function. Other threads may wait for such a thread.
pub(super) fn calls_key_functions() -> bool {
    FILLINGS.with(Cell::get) > 0
}

/// Marks this thread as a caller of key functions.
struct CallsKeyFunctions;

impl CallsKeyFunctions {
    fn begin() -> Self {
        FILLINGS.with(|fillings| fillings.set(fillings.get() + 1));
        Self
    }
}

impl Drop for CallsKeyFunctions {
    fn drop(&mut self) {
        debug_assert!(calls_key_functions(), "a filling that ends has begun");
        FILLINGS.with(|fillings| fillings.set(fillings.get() - 1));
    }
}

/// Trees for the entries of indexes during the open of their table. After a failure, or a panic in an index's key
/// function, the trees are freed: no thread has seen them.
pub(super) struct NewEntries<'c> {
    shared: &'c SharedState,
    pub(super) trees: Vec<UnseenTree>,
}

impl<'c> NewEntries<'c> {
    pub(super) fn new(shared: &'c SharedState, count: usize) -> Self {
        Self { shared, trees: (0..count).map(|_| new_tree(shared)).collect() }
    }

    /// Publishes the complete trees, and returns them for the tables of the indexes.
    pub(super) fn take(mut self) -> Vec<RecordTree> {
        std::mem::take(&mut self.trees).into_iter().map(UnseenTree::publish).collect()
    }
}

impl Drop for NewEntries<'_> {
    fn drop(&mut self) {
        let (shared, trees) = (self.shared, std::mem::take(&mut self.trees));
        if trees.is_empty() {
            return;
        }
        session::with_worker(shared, |worker| {
            trees.into_iter().for_each(|tree| tree.destroy(&mut worker.blocks));
            // Frees also nodes retired by the growth of the trees, here or at an earlier failure: the thread may never
            // commit.
            let mut pin = shared.epochs.register_pin();
            let call = pin.begin(shared.epochs.now());
            shared.collect(worker, 0, call.pin_token());
        });
    }
}

/// Enters every present row of the table into its indexes, with the number of recovery threads. No other thread has the
/// table yet.
pub(super) fn fill_indexes(
    shared: &SharedState,
    tree: &RecordTree,
    spec: &TableSpec,
    entries: &[UnseenTree],
) -> Result<()> {
    if spec.indexes.is_empty() {
        return Ok(());
    }
    let parts = shared.settings.recovery_threads * PARTS_PER_THREAD;
    let cuts = {
        let mut pin = shared.epochs.register_pin();
        let call = pin.begin(shared.epochs.now());
        if shared.settings.recovery_threads > 1 {
            tree.separators(parts, call.pin_token())
        } else {
            Vec::new()
        }
    };
    let taken = AtomicUsize::new(0);
    let fill = || {
        // Relaxed: hands out numbers.
        let part = taken.fetch_add(1, Ordering::Relaxed);
        if part > cuts.len() {
            return Ok(false);
        }
        let from = part.checked_sub(1).map_or(Bound::Unbounded, |before| Bound::Included(&*cuts[before]));
        let to = cuts.get(part).map_or(Bound::Unbounded, |cut| Bound::Excluded(&**cut));
        fill_part(shared, tree, spec, entries, Range { lower: from, upper: to }).map(|()| true)
    };
    in_parallel(shared.settings.recovery_threads.min(cuts.len() + 1), fill, |_| {})
}

/// Enters the rows of a range of keys, batch by batch. A step copies a batch of rows, calls the application's functions
/// for the keys of the entries, and enters the entries. No pin is held during the functions, because the functions may
/// take long (E6).
fn fill_part(
    shared: &SharedState,
    tree: &RecordTree,
    spec: &TableSpec,
    entries: &[UnseenTree],
    range: Range<'_>,
) -> Result<()> {
    let _calls = CallsKeyFunctions::begin();
    let mut pin = shared.epochs.register_pin();
    let (mut copied, mut last) = (CopiedRows::default(), None::<Vec<u8>>);
    loop {
        let memory = shared.memory.memory_use();
        if memory.is_beyond_excess() {
            return Err(Error::memory_full(memory));
        }
        copied.begin();
        let call = pin.begin(shared.epochs.now());
        let lower = last.as_deref().map_or(range.lower, Bound::Excluded);
        tree.scan(Range { lower, ..range }, Direction::Forward, &mut copied, call.pin_token());
        drop(call);
        pin.end();
        let indexed = |row| spec.indexes.iter().map(move |index| entry_key(spec, index, row));
        let entry_keys = copied.rows.rows().flat_map(indexed).collect::<Result<Vec<_>>>()?;
        let call = pin.begin(shared.epochs.now());
        session::with_worker(shared, |worker| {
            let mut entering = Entering { shared, worker, spec, entries, pinned: call.pin_token() };
            let rows = copied.rows.rows().zip(&copied.words);
            rows.zip(entry_keys.chunks(entries.len()))
                .try_for_each(|((row, &word), keys)| entering.row(row.key, word, keys))
        })?;
        drop(call);
        pin.end();
        let Some(row) = copied.rows.rows().last().filter(|_| copied.rows.is_full()) else { return Ok(()) };
        last = Some(row.key.to_vec());
    }
}

/// The key of a row's entry in an index; `None` for a row outside the index.
fn entry_key(spec: &TableSpec, index: &IndexSpec, row: BatchRow<'_>) -> Result<Option<Vec<u8>>> {
    let mut entry_key = Vec::new();
    let indexed = (index.key)(row.key, row.row, &mut entry_key)
        .map_err(|detail| Error::decode(&spec.name, spec.value_type.clone(), detail))?;
    if !indexed {
        return Ok(None);
    }
    if !index.unique {
        entry_key.extend_from_slice(row.key);
    }
    check_length("the key of an index's entry", entry_key.len(), INDEX_KEY_BYTES_MAX)?;
    Ok(Some(entry_key))
}

/// Rows of a table that no other thread has yet, with their words.
#[derive(Default)]
struct CopiedRows {
    rows: RowBatch,
    words: Vec<Word>,
}

impl CopiedRows {
    fn begin(&mut self) {
        let _ = self.rows.begin(BatchAsked { rows_max: ROWS_PER_BATCH, keys_only: false }, false);
        self.words.clear();
    }
}

impl<'p> RecordVisitor<'p> for CopiedRows {
    fn witness(&mut self, _witness: LeafWitness<'p>) {}

    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
        let (rows, list) = self.rows.parts();
        let Seen::Present(word) = record.read(rows) else { return ControlFlow::Continue(()) };
        self.words.push(word);
        list.push(key, None, rows, 0)
    }
}

/// Insertion of rows into indexes that no other thread has yet.
struct Entering<'f> {
    shared: &'f SharedState,
    worker: &'f mut Worker,
    spec: &'f TableSpec,
    entries: &'f [UnseenTree],
    pinned: Pinned<'f>,
}

impl Entering<'_> {
    /// Enters a row into each index for which the row has an entry key. Fails if a unique index has the key already.
    fn row(&mut self, key: &[u8], word: Word, entry_keys: &[Option<Vec<u8>>]) -> Result<()> {
        debug_assert_eq!(entry_keys.len(), self.entries.len(), "a key, or none, for each index");
        for ((index, tree), entry_key) in self.spec.indexes.iter().zip(self.entries).zip(entry_keys) {
            let Some(entry_key) = entry_key else { continue };
            // The entry is as old as its row: a snapshot shows the entry and the row together.
            let record = self.worker.blocks.create_record(key, word);
            let (mut nodes, changes) = self.worker.nodes(&self.shared.epochs);
            changes.clear();
            let inserted = tree.insert(entry_key, record, &mut nodes, changes, self.pinned);
            if let Err(record) = inserted {
                self.worker.blocks.discard(record);
                return Err(Error::NotUnique { table: self.spec.name.clone(), index: index.name.clone() });
            }
        }
        Ok(())
    }
}
