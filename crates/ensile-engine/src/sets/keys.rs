//! The keys that a transaction has met, each once: by point reads, by writes, by announcement.
//!
//! A key's entry holds the key's record in the index, and the key's positions in the read-set and in the write-set. So
//! a put after any get of the key needs no second descent, a second get no second place in the read-set, and a read
//! finds the transaction's own write. Rows of scans and of multi-gets never enter.
//!
//! Invariants:
//! - A key stands once in the window: the keys of the running transaction, and the keys announced for the transaction.
//! - A search compares up to [`FEW`] keys of a window in sequence. Whenever the window has more keys, the filter has
//!   the bit of each key: the filter shows most new keys to be new.
//! - Whenever the window holds more than [`LINEAR_MAX`] keys, the hash table holds all of them.
//! - At the end of the pin all records are forgotten, because a search found them under the pin; announced keys stay.
//!
//! Bytes of keys lie in the write-set's arena.
//!
//! Neighbours: up, the write-set owns the table; reads and writes look keys up; a batch announces keys.

use std::ops::Range;

use crate::record::Handle;
use crate::record::pin_scope::forgets;

/// Largest number of keys in a window without a filter. A search compares these keys in sequence.
const FEW: usize = 4;
/// Largest number of keys in a window without a hash table. A search that the filter lets through compares these keys
/// in sequence.
const LINEAR_MAX: usize = 64;
/// Number of keys above which reads enter no more keys. For most rows a transaction that reads millions of rows keeps
/// only the read-set's entries.
pub(super) const READ_KEYS_MAX: usize = 4096;
/// Number of keys above which a transaction without writes stops using the table: a read neither looks its key up nor
/// enters the key. Such a transaction seldom reads a key twice, and the table takes a third of the transaction's time.
/// A second read of a key descends in the index again, and adds a second entry to the read-set.
const READ_KEYS_ALONE_MAX: usize = 16;
/// Number of reads above which a transaction without writes uses the table again. A transaction with so many reads may
/// read few keys many times.
const READS_ALONE_MAX: usize = 1024;
/// Value in place of a position: no position.
const NONE: u32 = u32::MAX;

const _: () = assert!(FEW < LINEAR_MAX && LINEAR_MAX < READ_KEYS_MAX && READ_KEYS_MAX < NONE as usize);
const _: () = assert!(FEW < READ_KEYS_ALONE_MAX && READ_KEYS_ALONE_MAX < LINEAR_MAX);

/// Data of a key that the transaction has met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetKey<'p> {
    short: ShortKey,
    /// Start of the key's bytes in the arena.
    start: u32,
    /// Position in the write-set, or [`NONE`].
    write: u32,
    /// Position in the read-set, or [`NONE`].
    read: u32,
    record: Option<Handle<'p>>,
}

/// A key's table, length and last bytes. Most keys differ in these fields, and the fields are the whole of a key with
/// eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortKey {
    table_and_length: u64,
    tail: u64,
}

impl ShortKey {
    #[inline(always)]
    fn new(table: u32, key: &[u8]) -> Self {
        debug_assert!(u32::try_from(key.len()).is_ok(), "a length is half of a word");
        // The first and last four bytes identify a key of four to seven bytes; all bytes identify a shorter key.
        let tail = match (key.last_chunk::<8>(), key.first_chunk::<4>(), key.last_chunk::<4>()) {
            (Some(tail), ..) => u64::from_le_bytes(*tail),
            (None, Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*last)) << 32 | u64::from(u32::from_le_bytes(*first))
            }
            _ => key.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Self { table_and_length: u64::from(table) << 32 | key.len() as u64, tail }
    }

    #[inline(always)]
    fn table(self) -> u32 {
        (self.table_and_length >> 32) as u32
    }

    #[inline(always)]
    fn length(self) -> u32 {
        self.table_and_length as u32
    }
}

forgets!(MetKey: emptied [], forgotten [record], free [short, start, write, read]);

impl<'p> MetKey<'p> {
    #[inline(always)]
    fn bytes<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start as usize..self.start as usize + self.short.length() as usize]
    }

    /// True if the entry is of this key.
    #[inline(always)]
    fn is(&self, arena: &[u8], short: ShortKey, key: &[u8]) -> bool {
        self.short == short && (key.len() <= 8 || self.bytes(arena) == key)
    }

    /// The key's record in the index.
    #[inline(always)]
    pub(crate) fn record(&self) -> Option<Handle<'p>> {
        self.record
    }

    /// The key's position in the write-set.
    #[inline(always)]
    pub(crate) fn write(&self) -> Option<usize> {
        (self.write != NONE).then_some(self.write as usize)
    }

    /// The key's position in the read-set.
    #[inline(always)]
    pub(crate) fn read(&self) -> Option<usize> {
        (self.read != NONE).then_some(self.read as usize)
    }

    /// As [`MetKey::read`], in the size of an entry of the write-set.
    #[inline(always)]
    pub(crate) fn read_position(&self) -> Option<u32> {
        (self.read != NONE).then_some(self.read)
    }

    /// The key's place in the arena.
    #[inline(always)]
    pub(super) fn span(&self) -> ArenaSpan {
        ArenaSpan { start: self.start, length: self.short.length() }
    }
}

/// A part of the arena, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArenaSpan {
    pub(super) start: u32,
    pub(super) length: u32,
}

impl ArenaSpan {
    #[inline]
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

/// Place of a key that the transaction has met, or meets now. Both fields are `None` for a new key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyPlace<'p> {
    /// Position in the table of keys.
    pub(crate) met: Option<usize>,
    /// Result of the read that noted the key as the only key.
    pub(crate) only_read: Option<FoundPlace<'p>>,
}

/// Result of a point read: the key's record, and the key's position in the read-set if the read entered the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundPlace<'p> {
    pub(crate) record: Handle<'p>,
    pub(crate) read: Option<u32>,
}

/// The table of keys that a transaction has met.
#[derive(Debug)]
pub(crate) struct KeyTable<'p> {
    met: Vec<MetKey<'p>>,
    /// Positions of the keys announced for the running request of a batch. Without such keys, both ends are the start
    /// of the own keys.
    announced: (usize, usize),
    /// Position of the first key that the running transaction has met by itself.
    own: usize,
    /// Largest number of keys in the table for which the window has at most [`FEW`] keys.
    few_until: usize,
    /// Position of the last key found or entered: a put follows the get of its key.
    last: usize,
    /// Position behind the last key that was found elsewhere than at `last`: transactions use keys in about the order
    /// of announcements, or of reads.
    next: usize,
    only: OnlyKey<'p>,
    filter: KeyFilter,
    hashed: HashedPositions,
}

/// The first read key, until another key comes: most small transactions meet no other key.
#[derive(Debug, Default)]
struct OnlyKey<'p> {
    /// The key's record; `None` if no key is noted.
    record: Option<Handle<'p>>,
    table: u32,
    length: u32,
    bytes: [u8; OnlyKey::<'static>::BYTES_MAX],
}

forgets!(OnlyKey: emptied [], forgotten [record], free [table, length, bytes]);

forgets!(
    KeyTable: emptied [],
    forgotten [met, only],
    free [announced, own, few_until, last, next, filter, hashed]
);

impl OnlyKey<'_> {
    /// Largest length of a noted key in bytes. Longer keys are entered at once.
    const BYTES_MAX: usize = 32;
}

impl Default for KeyTable<'_> {
    fn default() -> Self {
        Self {
            met: Vec::new(),
            announced: (0, 0),
            own: 0,
            few_until: FEW,
            last: 0,
            next: 0,
            only: OnlyKey::default(),
            filter: KeyFilter::default(),
            hashed: HashedPositions::default(),
        }
    }
}

impl<'p> KeyTable<'p> {
    /// The key's position in the table; `None` for a key that the transaction meets now.
    #[inline(always)]
    pub(crate) fn find(&mut self, arena: &mut Vec<u8>, table: u32, key: &[u8]) -> Option<usize> {
        self.find_unless(arena, table, key, |_| false)
    }

    /// As [`KeyTable::find`], without a search if the table has keys and `skips` is true.
    #[inline(always)]
    pub(crate) fn find_unless(
        &mut self,
        arena: &mut Vec<u8>,
        table: u32,
        key: &[u8],
        skips: impl FnOnce(&Self) -> bool,
    ) -> Option<usize> {
        if self.only.record.is_some() {
            self.enter_only(arena);
        } else if self.met.is_empty() || skips(self) {
            return None;
        }
        self.find_entered(arena, table, key)
    }

    /// As [`KeyTable::find`], once the only key is entered: tries the expected positions first.
    #[inline]
    fn find_entered(&mut self, arena: &[u8], table: u32, key: &[u8]) -> Option<usize> {
        debug_assert!(self.only.record.is_none(), "the first key is entered before others are looked for");
        let short = ShortKey::new(table, key);
        let is_it = |at: usize| self.met.get(at).is_some_and(|met| met.is(arena, short, key));
        if is_it(self.last) {
            debug_assert!(self.is_in_window(self.last), "other requests' keys are not found");
            return Some(self.last);
        }
        let mut at = self.next;
        if !is_it(at) {
            at = self.find_elsewhere(arena, short, key)?;
        }
        debug_assert!(self.is_in_window(at), "other requests' keys are not found");
        self.last = at;
        // Behind the announcements of a request come the announcements of another request.
        self.next = if at + 1 == self.announced.1 { self.own } else { at + 1 };
        Some(at)
    }

    /// As [`KeyTable::find`], for a caller that does not use the key next: no expectation moves.
    #[inline]
    pub(crate) fn find_among(&self, arena: &[u8], table: u32, key: &[u8]) -> Option<usize> {
        self.find_elsewhere(arena, ShortKey::new(table, key), key)
    }

    /// Searches the window for a key. The filter answers first for most new keys.
    #[inline]
    fn find_elsewhere(&self, arena: &[u8], short: ShortKey, key: &[u8]) -> Option<usize> {
        if self.has_many() && !self.filter.may_have(short) {
            return None;
        }
        self.find_by_comparing(arena, short, key)
    }

    /// True if the window has more than [`FEW`] keys.
    #[inline(always)]
    fn has_many(&self) -> bool {
        self.met.len() > self.few_until
    }

    /// Searches the hash table, or compares the keys of the window in sequence.
    #[inline(never)]
    fn find_by_comparing(&self, arena: &[u8], short: ShortKey, key: &[u8]) -> Option<usize> {
        let is_it = |met: &MetKey<'_>| met.is(arena, short, key);
        if self.hashed.filled > 0 {
            return self.hashed.find(hash_key(short.table(), key), |at| is_it(&self.met[at]));
        }
        let (from, to) = self.announced;
        let next = self.next.clamp(from, to);
        let find = |from: usize, to: usize| self.met[from..to].iter().position(is_it).map(|at| from + at);
        find(next, to).or_else(|| find(from, next)).or_else(|| find(self.own, self.met.len()))
    }

    /// Enters the first read key, because another key comes.
    #[inline(never)]
    fn enter_only(&mut self, arena: &mut Vec<u8>) {
        debug_assert!(self.met.is_empty(), "no other key has been met");
        let Some(record) = self.only.record.take() else { return };
        let OnlyKey { table, length, bytes, .. } = &self.only;
        let (table, start) = (*table, arena.len());
        arena.extend_from_slice(&bytes[..*length as usize]);
        let at = self.enter(arena, table, start);
        self.set_found(at, FoundPlace { record, read: Some(0) });
    }

    /// Takes the place of the only read key, if one is noted: the caller enters the key with more data.
    #[inline(always)]
    pub(crate) fn take_only(&mut self) -> Option<FoundPlace<'p>> {
        debug_assert!(self.only.record.is_none() || self.met.is_empty(), "no other key has been met");
        self.only.record.take().map(|record| FoundPlace { record, read: Some(0) })
    }

    /// Enters the only read key, if one is noted.
    #[inline]
    pub(crate) fn flush_only(&mut self, arena: &mut Vec<u8>) {
        if self.only.record.is_some() {
            self.enter_only(arena);
        }
    }

    /// Notes a read key if the key is the transaction's first, and short. False if the caller must enter the key.
    #[inline(always)]
    pub(crate) fn note_only(&mut self, table: u32, key: &[u8], record: Handle<'p>) -> bool {
        let only = &mut self.only;
        if !self.met.is_empty() || key.len() > OnlyKey::BYTES_MAX {
            return false;
        }
        debug_assert!(only.record.is_none(), "only the first key is noted here");
        // A copy of its own for the usual length: one store.
        if let Ok(word) = <[u8; 8]>::try_from(key) {
            only.bytes[..8].copy_from_slice(&word);
        } else {
            only.bytes[..key.len()].copy_from_slice(key);
        }
        (only.record, only.table, only.length) = (Some(record), table, key.len() as u32);
        true
    }

    /// Number of keys that searches can find.
    #[inline]
    fn window_len(&self) -> usize {
        let (from, to) = self.announced;
        debug_assert!(
            from <= to && to <= self.own && self.own <= self.met.len(),
            "the window lies in the table"
        );
        self.announced.1 - self.announced.0 + self.met.len() - self.own
    }

    /// True if the key at a position is the running transaction's, or was announced for the transaction.
    #[inline]
    fn is_in_window(&self, at: usize) -> bool {
        let (from, to) = self.announced;
        (from..to).contains(&at) || (self.own..self.met.len()).contains(&at)
    }

    /// The entry at a position in the table.
    #[inline(always)]
    pub(crate) fn key_at(&self, at: usize) -> &MetKey<'p> {
        &self.met[at]
    }

    /// Enters a key after a search without result. The key is the arena's bytes from `start` to the end. Returns the
    /// key's position in the table.
    #[inline(always)]
    pub(crate) fn enter(&mut self, arena: &[u8], table: u32, start: usize) -> usize {
        debug_assert!(start <= arena.len(), "the key is the arena's end");
        let key = ArenaSpan { start: start as u32, length: (arena.len() - start) as u32 };
        self.enter_at(arena, table, key)
    }

    /// As [`KeyTable::enter`], with the key's place in the arena.
    #[inline(always)]
    pub(super) fn enter_at(&mut self, arena: &[u8], table: u32, key: ArenaSpan) -> usize {
        self.enter_short(arena, ShortKey::new(table, &arena[key.range()]), key.start)
    }

    /// As [`KeyTable::enter`], with the computed short key and the start of the key in the arena. Returns the position.
    #[inline(always)]
    fn enter_short(&mut self, arena: &[u8], short: ShortKey, start: u32) -> usize {
        let at = self.met.len();
        self.met.push(MetKey { short, start, write: NONE, read: NONE, record: None });
        self.last = at;
        if self.has_many() {
            self.enter_among_many(arena, short);
        }
        at
    }

    /// Adds the last entered key to the filter and to the hash table, as far as the window has them.
    #[inline(never)]
    fn enter_among_many(&mut self, arena: &[u8], short: ShortKey) {
        let keys = self.window_len();
        debug_assert!(keys > FEW, "few keys are compared one by one");
        if keys == FEW + 1 {
            self.filter_window();
        } else {
            self.filter.add(short);
        }
        if keys > LINEAR_MAX {
            self.hash_last(arena);
        }
    }

    /// Rebuilds the filter from the keys of the window alone.
    fn filter_window(&mut self) {
        self.filter = KeyFilter::default();
        let (from, to) = self.announced;
        for met in self.met[from..to].iter().chain(&self.met[self.own..]) {
            self.filter.add(met.short);
        }
    }

    /// Enters a key of a future use, unless the transaction has met the key.
    #[inline]
    pub(crate) fn announce(&mut self, arena: &mut Vec<u8>, table: u32, key: &[u8]) {
        self.flush_only(arena);
        let short = ShortKey::new(table, key);
        if self.window_len() > 0 && self.find_elsewhere(arena, short, key).is_some() {
            return;
        }
        let start = arena.len();
        append(arena, key);
        self.enter_short(arena, short, start as u32);
    }

    /// True if the next read of a transaction with `reads` reads and no writes looks its key up, and enters the key.
    #[inline(always)]
    pub(crate) fn serves_reads_alone(&self, reads: usize) -> bool {
        let is_long = !(READ_KEYS_ALONE_MAX..READS_ALONE_MAX).contains(&reads);
        self.met.len() < READ_KEYS_ALONE_MAX || is_long || self.announced.1 > self.announced.0
    }

    /// True if there is room for the keys of reads.
    #[inline]
    pub(crate) fn has_room_for_reads(&self) -> bool {
        self.met.len() < READ_KEYS_MAX
    }

    /// Notes the position of the key's entry in the write-set.
    #[inline]
    pub(crate) fn set_write(&mut self, at: usize, position: usize) {
        debug_assert!(self.met[at].write == NONE, "a key has one entry in the write-set");
        debug_assert!(position < NONE as usize, "a position is half of a word");
        self.met[at].write = position as u32;
    }

    /// Notes that a read of the key at `at`, with a known record, has entered the read-set at `position`.
    #[inline(always)]
    pub(crate) fn set_read(&mut self, at: usize, position: usize) {
        debug_assert!(position < NONE as usize, "a position is half of a word");
        self.met[at].read = position as u32;
    }

    /// Notes the result of a point read of the key at `at`.
    #[inline(always)]
    pub(crate) fn set_found(&mut self, at: usize, FoundPlace { record, read }: FoundPlace<'p>) {
        debug_assert!(read != Some(NONE), "a position is half of a word");
        let met = &mut self.met[at];
        (met.record, met.read) = (Some(record), read.unwrap_or(met.read));
    }

    /// Notes the record of the key at `at`; `None` if the index has no record.
    #[inline]
    pub(crate) fn set_record(&mut self, at: usize, record: Option<Handle<'p>>) {
        self.met[at].record = record;
    }

    /// Adds the last key to the hash table. Rebuilds the table if it lacks room or other keys of the window.
    #[inline(never)]
    fn hash_last(&mut self, arena: &[u8]) {
        debug_assert!(self.window_len() > LINEAR_MAX, "few keys are compared one by one");
        if self.hashed.filled + 1 != self.window_len() || !self.hashed.has_room() {
            return self.hash_window(arena);
        }
        let at = self.met.len() - 1;
        let met = &self.met[at];
        self.hashed.insert(hash_key(met.short.table(), met.bytes(arena)), at);
        debug_assert_eq!(self.hashed.filled, self.window_len(), "all of the window");
    }

    /// Rebuilds the hash table from the keys of the window.
    #[cold]
    fn hash_window(&mut self, arena: &[u8]) {
        self.hashed.make_room(self.window_len());
        for at in (self.announced.0..self.announced.1).chain(self.own..self.met.len()) {
            let met = &self.met[at];
            self.hashed.insert(hash_key(met.short.table(), met.bytes(arena)), at);
        }
        debug_assert!(self.hashed.filled == self.window_len(), "all of the window");
    }

    /// The table of the key at a position.
    #[inline]
    pub(crate) fn table(&self, at: usize) -> u32 {
        self.met[at].short.table()
    }

    /// Number of keys, which is the position of the next key.
    pub(crate) fn len(&self) -> usize {
        self.met.len()
    }

    /// The keys from a position on, as table and bytes, for a common descent.
    pub(crate) fn from<'k>(
        &'k self,
        at: usize,
        arena: &'k [u8],
    ) -> impl ExactSizeIterator<Item = (u32, &'k [u8])> {
        debug_assert!(at <= self.met.len(), "announcements begin within the table");
        self.met[at..].iter().map(move |met| (met.short.table(), met.bytes(arena)))
    }

    /// Expects the key at this position to be the next used key.
    pub(crate) fn expect_from(&mut self, at: usize) {
        debug_assert!(at <= self.met.len(), "the next key stands in the table, or comes next");
        self.next = at;
    }

    /// Begins the announcements of a batch's next request. The window leaves out the keys of other requests.
    #[inline]
    pub(crate) fn begin_request(&mut self) {
        debug_assert!(self.only.record.is_none(), "announcements come before reads");
        let end = self.met.len();
        self.set_window(end, end);
    }

    /// Lets searches find the keys `from..to`, which were announced for the running request. All announcements have
    /// been made. If a closure has exchanged the batch's transaction for another, the table may have fewer keys.
    #[inline]
    pub(crate) fn activate(&mut self, arena: &[u8], from: usize, to: usize) {
        let to = to.min(self.met.len());
        let from = if from < to { from } else { self.met.len() };
        self.set_window(from, from.max(to));
        (self.last, self.next) = (from, from);
        if self.has_many() {
            self.filter_window();
            if self.window_len() > LINEAR_MAX {
                self.hash_window(arena);
            }
        }
    }

    /// Sets the window of searches: the keys `from..to`, announced for the running request of a batch, and all keys
    /// that the transaction meets from here on.
    #[inline]
    fn set_window(&mut self, from: usize, to: usize) {
        let own = self.met.len();
        debug_assert!(from <= to && to <= own, "own keys stand behind announced ones");
        (self.announced, self.own) = ((from, to), own);
        let keys = to - from;
        self.few_until = if keys > FEW { own - 1 } else { own + FEW - keys };
        self.hashed.clear();
    }

    /// True if the transaction has met no key.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.met.is_empty()
    }

    /// Forgets the only read key, if one is noted.
    #[inline(always)]
    pub(crate) fn forget_only(&mut self) {
        self.only.record = None;
    }

    /// Forgets the keys that the running transaction has met by itself. Keeps the keys announced for the transaction
    /// and for others of its batch. Returns the start of the unused bytes in the arena.
    pub(crate) fn restart(&mut self, arena: &[u8]) -> usize {
        if self.own == 0 {
            self.met.clear();
            (self.last, self.next) = (0, 0);
            self.hashed.clear();
            return 0;
        }
        self.met.truncate(self.own);
        // Bits of forgotten keys in the filter do no harm.
        self.restart_announced();
        self.hashed.clear();
        if self.window_len() > LINEAR_MAX {
            self.hash_window(arena);
        }
        debug_assert_eq!(self.met.len(), self.own, "what the transaction met by itself is forgotten");
        self.met.last().map_or(0, |met| (met.start + met.short.length()) as usize)
    }

    /// True if the running transaction has met only keys announced for the transaction.
    #[inline(always)]
    pub(crate) fn has_announced_only(&self) -> bool {
        self.met.len() == self.own
    }

    /// Forgets the reads and writes of the running transaction at announced keys.
    #[inline(always)]
    pub(crate) fn restart_announced(&mut self) {
        let (from, to) = self.announced;
        self.met[from..to].iter_mut().for_each(|met| (met.write, met.read) = (NONE, NONE));
        (self.last, self.next) = (from, from);
    }

    /// Forgets all keys, the announced keys too, for `WriteSet::end_batch`. Between the transactions of a batch,
    /// [`restart`](Self::restart) keeps the announced keys.
    pub(crate) fn forget_all(&mut self) {
        self.forget_only();
        self.met.clear();
        self.set_window(0, 0);
        (self.last, self.next) = (0, 0);
    }

    /// Memory of the table in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.met.capacity() * size_of::<MetKey<'_>>() + self.hashed.slots.capacity() * size_of::<(u32, u32)>()
    }

    /// Panics if an invariant does not hold.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn check(&self, arena: &[u8]) {
        assert!(self.only.record.is_none() || self.met.is_empty());
        let (from, to) = self.announced;
        assert!(from <= to && to <= self.own && self.own <= self.met.len());
        let window: Vec<usize> = (from..to).chain(self.own..self.met.len()).collect();
        for at in &window {
            let met = &self.met[*at];
            assert!(window.len() <= FEW || self.filter.may_have(met.short));
            assert_eq!(met.short, ShortKey::new(met.short.table(), met.bytes(arena)));
            let found = self.find_among(arena, met.short.table(), met.bytes(arena));
            assert_eq!(found, Some(*at), "a key stands once");
        }
        assert_eq!(window.len() > FEW, self.has_many());
        assert!(window.len() <= LINEAR_MAX || self.hashed.filled == window.len());
    }
}

/// Appends a key's bytes, without a call for the usual lengths.
#[inline(always)]
pub(crate) fn append(arena: &mut Vec<u8>, key: &[u8]) {
    if let Ok(word) = <[u8; 8]>::try_from(key) {
        arena.extend_from_slice(&word);
    } else if let (4..8, Some(first), Some(last)) = (key.len(), key.first_chunk(), key.last_chunk()) {
        // The two halves overlap in equal bytes; `truncate` cuts off the bytes behind the key.
        let (first, last) = (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)));
        let end = arena.len() + key.len();
        arena.extend_from_slice(&(first | last << (8 * (key.len() - 4))).to_le_bytes());
        arena.truncate(end);
    } else {
        arena.extend_from_slice(key);
    }
}

/// Filter with a bit for each key: a key without its bit is not in the window.
#[derive(Debug, Default)]
struct KeyFilter([u64; 8]);

impl KeyFilter {
    /// The word and the bit of a key.
    #[inline(always)]
    fn place(ShortKey { table_and_length, tail }: ShortKey) -> (usize, u64) {
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        // Numbers are stored with the lowest byte last, which is the tail's highest byte.
        let product = (tail ^ table_and_length.rotate_left(21)).swap_bytes().wrapping_mul(MULTIPLIER);
        ((product >> 61) as usize, 1 << (product >> 55 & 63))
    }

    #[inline(always)]
    fn add(&mut self, short: ShortKey) {
        let (word, bit) = Self::place(short);
        self.0[word] |= bit;
        debug_assert!(self.may_have(short), "what is added is let through");
    }

    #[inline(always)]
    fn may_have(&self, short: ShortKey) -> bool {
        let (word, bit) = Self::place(short);
        self.0[word] & bit != 0
    }
}

/// Hash of a table and a key by a folded multiplication for each word. Both halves of the product count, so keys that
/// differ only in the last byte (the highest of a little-endian word) differ in the low bits that pick a slot.
#[inline]
fn hash_key(table: u32, key: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
        (product >> 64) as u64 ^ product as u64
    };
    let mut hash = fold(u64::from(table) << 32 | key.len() as u64, MULTIPLIER);
    let mut chunks = key.chunks_exact(8);
    for chunk in chunks.by_ref() {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = fold(hash, u64::from_le_bytes(word));
    }
    let tail = chunks.remainder();
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = fold(hash, u64::from_le_bytes(word));
    }
    (hash >> 32) as u32 ^ hash as u32
}

/// Hash table of positions with open addressing.
#[derive(Debug, Default)]
struct HashedPositions {
    /// Hash and position of each key; the position is [`NONE`] in an empty slot.
    slots: Vec<(u32, u32)>,
    /// Number of positions in the slots.
    filled: usize,
}

impl HashedPositions {
    #[inline]
    fn clear(&mut self) {
        if self.filled > 0 {
            self.slots.clear();
            self.filled = 0;
        }
    }

    /// True if one more position leaves half of the slots empty.
    #[inline]
    fn has_room(&self) -> bool {
        (self.filled + 1) * 2 <= self.slots.len()
    }

    /// Forgets all positions, and makes room for twice `positions`.
    fn make_room(&mut self, positions: usize) {
        let slots = (positions * 4).next_power_of_two();
        self.slots.clear();
        self.slots.resize(slots, (0, NONE));
        self.filled = 0;
        debug_assert!(self.slots.len().is_power_of_two() && positions * 2 <= self.slots.len());
    }

    #[inline]
    fn insert(&mut self, hash: u32, at: usize) {
        debug_assert!(self.has_room(), "half of the slots stay empty");
        let mut slot = hash as usize & (self.slots.len() - 1);
        while self.slots[slot].1 != NONE {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (hash, at as u32);
        self.filled += 1;
    }

    /// The position under this hash for which `is_it` is true.
    #[inline]
    fn find(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        debug_assert!(self.filled < self.slots.len(), "a search ends at an empty slot");
        let mut slot = hash as usize & (self.slots.len() - 1);
        loop {
            let (slot_hash, at) = self.slots[slot];
            if at == NONE {
                return None;
            }
            if slot_hash == hash && is_it(at as usize) {
                return Some(at as usize);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
