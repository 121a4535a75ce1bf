//! Transactions: reads that remember, writes kept private, until commit (Silo §4.4 to §4.7).
//!
//! ```text
//! get/scan -> reading -> record: what was seen     -> read-set, node-set
//! put      -> kept private: what will change       -> write-set
//! commit   -> place, reserve, bind, lock, validate, stamp, install, append, unbind   (`commit.rs`)
//! ```
//! A transaction belongs to no thread and holds nothing that another one waits for: open as long as its client
//! likes, it delays the reclamation of memory, within a stated limit (E4), and nothing else.
//!
//! Neighbours: up, `typed` gives these byte-string calls their types, `database` runs closures; down, `reading`,
//! `table`, `commit`.

pub(crate) mod receipt;
mod run;

use ensile_epoch::{Call, Pinned};
use ensile_index::{Direction, Lookup, Range, Witness};

use crate::codec::KeyBuffer;
use crate::commit::{self, Committed};
use crate::database::{Core, CoreRef};
use crate::error::{Error, Result};
use crate::reading::{self, Held, Own, RawRead, Reader, Scan, Visit, VisitIndexed};
use crate::record::{Handle, Record, Scratch, Seen};
use crate::session::{self, Seat};
use crate::sets::context::{Context, LastRead, Read, Sets};
use crate::sets::hints::Touch;
use crate::sets::node_set::NodeSet;
use crate::sets::write_set::{Expect, Kind, WriteSet};
use crate::tables::{IndexCore, TableCore};
use crate::transaction::receipt::{Durability, Receipt};

/// A serializable transaction. Dropping it aborts it.
///
/// It sees its own writes, and takes effect as if at one moment, at commit. It may stay open for as long as its
/// client likes and move between threads. Reads may see states that never stood together if another transaction
/// commits in between; then commit fails with [`Error::Conflict`], and so does a closure that was run on such reads.
pub struct Transaction<'db> {
    pub(crate) core: CoreRef<'db>,
    pub(crate) seat: Option<Seat>,
    durability: Durability,
    /// Why nothing can be read or committed any more.
    failed: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
enum Failure {
    /// A call found the pin taken away (E4).
    Expired,
    /// The database was closed before the transaction began.
    Closed,
    /// It began in a process that was forked from the one that opened the database.
    Forked,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("failed", &self.failed).finish_non_exhaustive()
    }
}

/// Reads the latest versions and remembers what it saw.
struct LatestReader<'t> {
    reads: &'t mut Vec<Read>,
    nodes: &'t mut NodeSet,
    writes: &'t WriteSet,
    last_read: &'t mut LastRead,
}

impl Reader for LatestReader<'_> {
    #[inline]
    fn read(&mut self, record: Record<'_>, scratch: &mut Scratch) -> Held {
        let (word, held) = match record.read(scratch) {
            Seen::Present(word) => (word, Held::Present),
            Seen::Absent(word) => (word, Held::Absent),
            Seen::Superseded => return Held::Superseded,
        };
        self.reads.push(Read { record: record.handle(), word });
        held
    }

    #[inline]
    fn witness(&mut self, witness: Witness) {
        self.nodes.push(witness);
    }

    #[inline]
    fn own(&self) -> Option<&WriteSet> {
        Some(self.writes)
    }

    #[inline]
    fn found(&mut self, table: &TableCore, key: &[u8], record: Handle) {
        self.last_read.remember(table.id, key, record);
    }
}

impl Sets {
    fn reader<'t>(&'t mut self, last_read: &'t mut LastRead) -> LatestReader<'t> {
        LatestReader { reads: &mut self.reads, nodes: &mut self.nodes, writes: &self.writes, last_read }
    }

    /// Enters a write into the write-set, over an earlier one of the same key.
    fn write(
        &mut self,
        write: (u32, &[u8], &[u8]),
        kind: Kind,
        expect: Expect,
        record: Option<Handle>,
    ) -> Result<()> {
        match self.writes.find(write.0, write.1) {
            Some(at) => self.writes.change(at, kind, write.2),
            None => self.writes.add(write, kind, expect, record),
        }
    }
}

impl<'db> Transaction<'db> {
    /// Begins a transaction that may stay open: it takes a worker at commit only.
    #[inline]
    pub(crate) fn begin(core: CoreRef<'db>, durability: Durability) -> Self {
        let seat = session::take_seat_to_keep(&core);
        let failed = match core.check_open() {
            Ok(()) => None,
            Err(Error::Forked) => Some(Failure::Forked),
            Err(_) => Some(Failure::Closed),
        };
        let mut tx = Self::seated(core, seat, durability);
        tx.failed = failed;
        tx
    }

    /// Begins a transaction that commits before its thread does anything else: it takes the worker right away.
    #[inline(always)]
    pub(crate) fn begin_at_once(core: CoreRef<'db>, durability: Durability) -> Self {
        let seat = session::take_seat(&core);
        Self::seated(core, seat, durability)
    }

    #[inline(always)]
    fn seated(core: CoreRef<'db>, seat: Seat, durability: Durability) -> Self {
        drop(seat.context.pin.begin(core.epochs.now()));
        Self { core, seat: Some(seat), durability, failed: None }
    }

    #[inline]
    pub(crate) fn context(&mut self) -> &mut Context {
        let Some(seat) = &mut self.seat else { unreachable!("taken when the transaction ends") };
        &mut seat.context
    }

    /// The database and the context, once the table is known to be the database's and the transaction to be alive.
    #[inline]
    fn enter(&mut self, table: &TableCore) -> Result<(&CoreRef<'db>, &mut Context)> {
        self.check_alive()?;
        self.core.check_table(table)?;
        let Some(seat) = &mut self.seat else { unreachable!("taken when the transaction ends") };
        Ok((&self.core, &mut seat.context))
    }

    /// Refuses what comes after a failure.
    #[inline]
    fn check_alive(&self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            Some(failure) => Err(failed(failure)),
        }
    }

    /// Notes that the pin was taken away, and says so.
    #[cold]
    fn expire<R>(&mut self) -> Result<R> {
        self.failed = Some(Failure::Expired);
        Err(Error::Expired)
    }
}

impl RawRead for Transaction<'_> {
    #[inline]
    fn raw_get<R>(
        &mut self,
        table: &TableCore,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, last_read, hints, .. } = context;
        match reading::own_write(Some(&sets.writes), table.id, key) {
            Own::Put(value) => return Ok(Some(read(value))),
            Own::Deleted => return Ok(None),
            Own::Unwritten => {}
        }
        let Ok(call) = pin.enter() else { return self.expire() };
        let hint = hints.find(table.id, key);
        let mut reader = sets.reader(last_read);
        let present = reading::lookup(&mut reader, table, key, hint, scratch, call.pinned());
        Ok(present.then(|| read(scratch.bytes())))
    }

    fn raw_get_many(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, last_read, hints, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        hints.descend(table, keys, table.fetch, call.pinned());
        for (at, (key, hint)) in hints.found().enumerate() {
            match reading::own_write(Some(&sets.writes), table.id, key) {
                Own::Put(value) => found(at, Some(value)),
                Own::Deleted => found(at, None),
                Own::Unwritten => {
                    let mut reader = sets.reader(last_read);
                    let present = reading::lookup(&mut reader, table, key, hint, scratch, call.pinned());
                    found(at, present.then(|| scratch.bytes()));
                }
            }
        }
        hints.end_many();
        Ok(())
    }

    fn raw_scan(
        &mut self,
        table: &TableCore,
        range: Range<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, last_read, .. } = context;
        sets.writes.sort_table(table.id);
        let Ok(call) = pin.enter() else { return self.expire() };
        let mut reader = sets.reader(last_read);
        let own = reader.writes.in_order(range.lower, range.upper);
        let scan = Scan { table, range, direction, own };
        reading::scan(&mut reader, &scan, scratch, call.pinned(), &mut |_, key, value| visit(key, value));
        Ok(())
    }

    fn raw_scan_index(
        &mut self,
        table: &TableCore,
        index: &IndexCore,
        range: Range<'_>,
        direction: Direction,
        visit: &mut VisitIndexed<'_>,
    ) -> Result<()> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, row_scratch, last_read, .. } = context;
        sets.writes.sort_table(index.entries.id);
        let Ok(call) = pin.enter() else { return self.expire() };
        let mut reader = sets.reader(last_read);
        let own = reader.writes.in_order(range.lower, range.upper);
        let scan = Scan { table: &index.entries, range, direction, own };
        reading::scan_index(&mut reader, (table, index), &scan, (scratch, row_scratch), call.pinned(), visit);
        Ok(())
    }
}

impl<'db> Transaction<'db> {
    #[inline]
    pub(crate) fn raw_put(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        table.check_key(key)?;
        table.check_value(value)?;
        if !table.indexes.is_empty() {
            return self.put_indexed(table, key, value);
        }
        let (_, context) = self.enter(table)?;
        let record = context.last_read.find(table.id, key).or_else(|| context.hints.find(table.id, key));
        context.sets.write((table.id, key, value), Kind::Put, Expect::Anything, record)
    }

    /// A put into a table with indexes needs the old row, and so depends on it (X1).
    fn put_indexed(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        let old = self.raw_get(table, key, <[u8]>::to_vec)?;
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, last_read, entry_keys, row_scratch, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let mut maintenance =
            Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned: call.pinned() };
        maintenance.run(table, key, old.as_deref(), Some(value))?;
        let record = last_read.find(table.id, key);
        sets.write((table.id, key, value), Kind::Put, Expect::Anything, record)
    }

    pub(crate) fn raw_insert(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        table.check_key(key)?;
        table.check_value(value)?;
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, last_read, entry_keys, row_scratch, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let taken = match reading::own_write(Some(&sets.writes), table.id, key) {
            Own::Put(_) => true,
            Own::Deleted => false,
            Own::Unwritten => probe_insert(table, key, sets, last_read, scratch, &call),
        };
        if taken {
            return Err(Error::KeyExists { table: table.name().to_owned() });
        }
        if !table.indexes.is_empty() {
            let pinned = call.pinned();
            let kept = Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned }.run(
                table,
                key,
                None,
                Some(value),
            );
            // The entry may be the key's own, come since the key was found free. What is told must rest on one
            // moment, so the key's absence goes into the sets beside the entry's presence.
            if matches!(kept, Err(Error::NotUnique { .. }))
                && sets.writes.find(table.id, key).is_none()
                && reading::lookup(&mut sets.reader(last_read), table, key, None, scratch, pinned)
            {
                return Err(Error::KeyExists { table: table.name().to_owned() });
            }
            kept?;
        }
        let record = last_read.find(table.id, key);
        sets.write((table.id, key, value), Kind::Put, Expect::Absent, record)
    }

    pub(crate) fn raw_delete(&mut self, table: &TableCore, key: &[u8]) -> Result<bool> {
        table.check_key(key)?;
        let indexed = !table.indexes.is_empty();
        let old = self.raw_get(table, key, |value| if indexed { value.to_vec() } else { Vec::new() })?;
        let Some(old) = old else { return Ok(false) };
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, last_read, entry_keys, row_scratch, .. } = context;
        if indexed {
            let Ok(call) = pin.enter() else { return self.expire() };
            let pinned = call.pinned();
            Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned }.run(
                table,
                key,
                Some(&old),
                None,
            )?;
        }
        let record = last_read.find(table.id, key);
        sets.write((table.id, key, &[]), Kind::Delete, Expect::Anything, record)?;
        Ok(true)
    }

    /// Reads a row, lets `change` make its new value, and puts that: one descent.
    #[inline]
    pub(crate) fn raw_update(
        &mut self,
        table: &TableCore,
        key: &[u8],
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, last_read, hints, value, .. } = context;
        value.clear();
        let own = sets.writes.find(table.id, key);
        let record = match own.map(|at| (at, sets.writes.entries[at].kind)) {
            Some((_, Kind::Delete)) => return Ok(false),
            Some((at, Kind::Put)) => {
                change(sets.writes.value(&sets.writes.entries[at]), value)?;
                None
            }
            None => {
                let Ok(call) = pin.enter() else { return self.expire() };
                let hint = hints.find(table.id, key);
                let mut reader = sets.reader(last_read);
                if !reading::lookup(&mut reader, table, key, hint, scratch, call.pinned()) {
                    return Ok(false);
                }
                change(scratch.bytes(), value)?;
                last_read.latest()
            }
        };
        table.check_value(value)?;
        if !table.indexes.is_empty() {
            let value = std::mem::take(value);
            let kept = self.put_indexed_after_read(table, key, &value);
            self.give_value_buffer(value);
            return kept.map(|()| true);
        }
        match own {
            Some(at) => sets.writes.change(at, Kind::Put, value)?,
            None => sets.writes.add((table.id, key, value), Kind::Put, Expect::Anything, record)?,
        }
        Ok(true)
    }

    /// As `put_indexed`, for a row that has just been read: its old value is still in the scratch buffer, unless
    /// it was an own write.
    fn put_indexed_after_read(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        let (_, context) = self.enter(table)?;
        if context.sets.writes.find(table.id, key).is_some() {
            return self.put_indexed(table, key, value);
        }
        let Context { pin, sets, scratch, last_read, entry_keys, row_scratch, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let record = last_read.find(table.id, key);
        let pinned = call.pinned();
        Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned }.run(
            table,
            key,
            Some(scratch.bytes()),
            Some(value),
        )?;
        sets.write((table.id, key, value), Kind::Put, Expect::Anything, record)
    }

    /// Says which keys the transaction is about to read or write, and fetches them from memory together: their ways
    /// down the index overlap, and the reads and writes that follow start from what was found. It costs nothing to be
    /// wrong. Best called once, first thing, in about the order of use.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::Readable;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// db.run(|tx| (0..100).try_for_each(|item| tx.put(&stock, &item, &10)))?;
    /// let wanted = [3, 14, 15, 92];
    /// db.run(|tx| {
    ///     tx.touch(|touch| wanted.iter().for_each(|item| touch.key(&stock, item)))?;
    ///     wanted.iter().try_for_each(|item| tx.update(&stock, item, |left| *left -= 1).map(drop))
    /// })?;
    /// assert_eq!(db.run(|tx| tx.get(&stock, &92))?, Some(9));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Expired`]: run the transaction again.
    pub fn touch(&mut self, keys: impl FnOnce(&mut Touch<'_>)) -> Result<()> {
        self.check_alive()?;
        self.core.check_process()?;
        let Some(Seat { context, .. }) = &mut self.seat else {
            unreachable!("taken when the transaction ends")
        };
        let Context { pin, hints, .. } = &mut **context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let core = &self.core;
        let from = hints.begin_touching();
        keys(&mut Touch { database: core.id, hints });
        hints.descend_touched(|id| core.table(id), call.pinned());
        hints.activate(from, hints.touched_len());
        Ok(())
    }

    /// A buffer to encode a value into; give it back with [`Transaction::give_value_buffer`].
    #[inline]
    pub(crate) fn raw_value_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.context().value);
        buffer.clear();
        buffer
    }

    #[inline]
    pub(crate) fn give_value_buffer(&mut self, buffer: Vec<u8>) {
        self.context().value = buffer;
    }

    /// Commits without waiting: the result must not be shown to anyone before the receipt is durable, unless losing
    /// it in a crash is accepted.
    ///
    /// # Errors
    /// [`Error::Conflict`] and [`Error::Expired`]: nothing was written, run the transaction again.
    /// [`Error::Durability`]: the log takes no more writes.
    pub fn submit(mut self) -> Result<Receipt<'db>> {
        let committed = self.finish()?;
        Ok(Receipt::new(committed, self.core.another()))
    }

    /// Commits, and with [`Durability::Strict`] waits until the result is durable.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Error, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let stock = db.table::<u64, u64>("stock")?;
    /// let mut slow = db.begin();
    /// assert_eq!(slow.get(&stock, &1)?, None);
    /// db.run(|tx| tx.put(&stock, &1, &9))?;
    /// slow.put(&stock, &1, &5)?;
    /// assert!(matches!(slow.commit(), Err(Error::Conflict)), "what it read has changed: nothing is written");
    /// # assert_eq!(db.run(|tx| tx.get(&stock, &1))?, Some(9));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::submit`]; and [`Error::Durability`] with an unknown outcome if the log stops while this
    /// waits.
    pub fn commit(self) -> Result<Receipt<'db>> {
        let durability = self.durability;
        let receipt = self.submit()?;
        if durability == Durability::Strict {
            receipt.durable()?;
        }
        Ok(receipt)
    }

    /// Ends the transaction without a trace; the same as dropping it.
    pub fn rollback(self) {}

    /// Commits the sets; the context stays with the transaction.
    ///
    /// Always inline, as all that a short transaction passes through is: the fewer instructions stand between one
    /// transaction's last miss to memory and the next one's first, the more the processor overlaps the two.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> Result<Committed> {
        self.check_alive()?;
        self.core.check_open()?;
        let Some(Seat { context, worker }) = &mut self.seat else {
            unreachable!("taken when the transaction ends")
        };
        let Context { pin, sets, .. } = &mut **context;
        let call = pin.enter()?;
        let core = &self.core;
        let worker = session::seated_worker(core, worker);
        if sets.writes.is_empty() {
            commit::commit_reads(core, worker, sets, call.pinned())
        } else {
            commit::commit_writes(core, worker, sets, call.pinned())
        }
    }

    /// Whether what was read so far stood together at one moment; and the epoch that it rests on.
    pub(crate) fn validate_reads(&mut self) -> Result<Committed> {
        self.check_alive()?;
        self.core.check_process()?;
        let context = self.context();
        let call = context.pin.enter()?;
        commit::commit_read_only(&context.sets, call.pinned())
    }

    /// Starts over with an empty transaction under the same pin: for the next of a batch.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.context().clear();
        self.failed = None;
    }

    /// Starts over with an empty transaction under a new pin: for the next attempt. Hints were found under the old
    /// pin, so all of them go with it, those of a batch's later requests too.
    #[cold]
    pub(crate) fn renew(&mut self) {
        self.restart();
        let now = self.core.epochs.now();
        let context = self.context();
        context.hints.forget();
        context.pin.end();
        drop(context.pin.begin(now));
    }

    /// Whether it is this database's. Who is lent a transaction can exchange it for another one.
    #[inline(always)]
    pub(crate) fn is_of(&self, core: &Core) -> bool {
        std::ptr::eq(&raw const *self.core, core)
    }
}

/// Whether an insert finds its key taken. A miss needs no witness, nor an absent record a place in the read-set: the
/// lock of the key's record at commit says whether it is still absent.
fn probe_insert(
    table: &TableCore,
    key: &[u8],
    sets: &mut Sets,
    last_read: &mut LastRead,
    scratch: &mut Scratch,
    call: &Call<'_>,
) -> bool {
    last_read.forget();
    loop {
        let Lookup::Found(value) = table.tree.get(key, call.pinned()) else { return false };
        let record = Handle::from_value(value);
        match record.at(call.pinned()).read(scratch) {
            Seen::Present(word) => {
                sets.reads.push(Read { record, word });
                return true;
            }
            Seen::Absent(_) => {
                last_read.remember(table.id, key, record);
                return false;
            }
            Seen::Superseded => ensile_base::sync::spin_loop(),
        }
    }
}

/// Keeps a row's secondary index entries in step with the row (§4.7).
struct Maintenance<'m> {
    sets: &'m mut Sets,
    last_read: &'m mut LastRead,
    entry_keys: &'m mut (Vec<u8>, Vec<u8>),
    scratch: &'m mut Scratch,
    pinned: Pinned<'m>,
}

impl Maintenance<'_> {
    /// Moves the entries of `key` from its `old` row to its `new` one. All or nothing: every index's keys are made and
    /// checked, every unique index is asked, and room is made sure of, for the row too, before anything is written.
    fn run(&mut self, table: &TableCore, key: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Result<()> {
        let (mut writes, mut bytes) = (1, key.len() + new.map_or(0, <[u8]>::len));
        let mut moves = None;
        for index in &table.indexes {
            moves = self.entry_keys(index, key, old, new)?;
            let Some((leaves, enters)) = moves else { continue };
            writes += usize::from(leaves) + usize::from(enters);
            bytes += self.entry_keys.0.len() + self.entry_keys.1.len() + key.len();
            if enters && index.unique {
                self.check_unique(table, index)?;
            }
        }
        self.sets.writes.check_room(writes, bytes)?;
        for index in &table.indexes {
            // With one index its keys are still there.
            if table.indexes.len() > 1 {
                moves = self.entry_keys(index, key, old, new)?;
            }
            let Some((leaves, enters)) = moves else { continue };
            let entries = index.entries.id;
            if leaves {
                let write = (entries, self.entry_keys.0.as_slice(), &[][..]);
                self.sets.write(write, Kind::Delete, Expect::Anything, None)?;
            }
            if enters {
                let write = (entries, self.entry_keys.1.as_slice(), key);
                self.sets.write(write, Kind::Put, Expect::Anything, None)?;
            }
        }
        Ok(())
    }

    /// Computes both entry keys; says whether the old one goes and the new one comes, or `None` if nothing changes.
    fn entry_keys(
        &mut self,
        index: &IndexCore,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Option<(bool, bool)>> {
        let (old_key, new_key) = &mut *self.entry_keys;
        let leaves = old.map_or(Ok(false), |old| index.entry_key(key, old, old_key))?;
        let enters = new.map_or(Ok(false), |new| index.entry_key(key, new, new_key))?;
        if enters {
            index.entries.check_key(new_key)?;
        }
        let unchanged = leaves == enters && (!leaves || old_key == new_key);
        Ok((!unchanged).then_some((leaves, enters)))
    }

    /// Whether the new entry key is free, now and, by what the lookup leaves in the sets, at commit.
    fn check_unique(&mut self, table: &TableCore, index: &IndexCore) -> Result<()> {
        let entry_key = &self.entry_keys.1;
        let taken = match reading::own_write(Some(&self.sets.writes), index.entries.id, entry_key) {
            Own::Put(_) => true,
            Own::Deleted => false,
            Own::Unwritten => {
                let mut reader = self.sets.reader(self.last_read);
                let taken =
                    reading::lookup(&mut reader, &index.entries, entry_key, None, self.scratch, self.pinned);
                self.last_read.forget();
                taken
            }
        };
        if taken {
            return Err(Error::NotUnique { table: table.name().to_owned(), index: index.name.clone() });
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.context.pin.end();
            session::give_seat(&mut self.seat);
        }
    }
}

/// Out of line: which failure it is need not be asked on the way of a transaction that has none.
#[cold]
fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Expired => Error::Expired,
        Failure::Closed => Error::Closed,
        Failure::Forked => Error::Forked,
    }
}

#[cfg(test)]
mod tests;
