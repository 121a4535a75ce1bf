//! Constructs and destroys records, and the index's nodes, in a worker's memory.
//!
//! A record begins as [`Fresh`], which its holder publishes in a tree or discards. Only `garbage` frees published
//! records, by unsafe functions, when the limits say that no pin and no snapshot can reach a record (E3, S1).
//!
//! Neighbours: commit builds, `garbage` destroys, the index allocates nodes through [`NodeBlocks`]. Recovery
//! (`open::replay`), the build of an index and the laboratory build too. `pictures` takes plain blocks for displaced
//! versions.

use std::alloc::Layout;
use std::ptr::NonNull;
// Methods of `Memory` take `self` by the `Arc` of std. The `Arc` of the sync door cannot be a receiver.
use std::sync::Arc;

use ensile_base::sync::{AtomicU64, Ordering, fence, plain_access};
use ensile_epoch::{Epochs, GarbageList};
use ensile_index::NodeMemory;
use ensile_memory::{Cache, Memory, MemoryRoom, SizeClass};

use super::layout::{ADDRESS_BITS, ADDRESS_MASK, DATA_WORD, HEADER_BYTES, PAGED};
use super::ownership::{RetiredRecord, VersionRoom};
use super::reference::{Address, Record};
use super::tid_word::Word;
use super::version_page::VersionPage;

/// A worker's memory for records and nodes.
#[derive(Debug)]
pub(crate) struct Blocks {
    cache: Cache,
    /// The page for the next copy of a version.
    page: VersionPage,
    /// Pages without room, until the commit that filled the pages knows its epoch.
    full: Vec<PageBlock>,
    /// Number of rooms for versions that were taken and not given back.
    rooms: usize,
    /// Room of the memory from which the present commit is refused; `None` for a commit that is never refused (M4).
    refused_from: Option<MemoryRoom>,
}

/// The place of the next version before a commit: [`Blocks::rewind`] goes back to the place if the commit fails. Not
/// `Copy`.
#[derive(Debug)]
pub(crate) struct VersionPlace {
    page: VersionPage,
    rooms: usize,
}

impl Blocks {
    pub(crate) fn new(cache: Cache) -> Self {
        Self { cache, page: VersionPage::null(), full: Vec::new(), rooms: 0, refused_from: None }
    }

    /// Begins a commit that is refused from this room of the memory on (M4).
    pub(crate) fn refuse_from(&mut self, room: Option<MemoryRoom>) {
        debug_assert!(!self.cache.has_set_aside(), "the commit before has given back what it set aside");
        self.refused_from = room;
    }

    /// True if the present commit is refused: the memory lacks room, and no bytes are left that were set aside.
    #[inline]
    pub(crate) fn lacks_room(&mut self) -> bool {
        self.refused_from.is_some_and(|room| self.cache.room() >= room) && self.lacks_room_now()
    }

    /// As [`Blocks::lacks_room`], after a count of the worker's own frees.
    #[cold]
    fn lacks_room_now(&mut self) -> bool {
        if self.cache.has_set_aside() {
            return false;
        }
        self.cache.report_now();
        self.refused_from.is_some_and(|room| self.cache.room() >= room)
    }

    /// True if new data must wait for memory.
    pub(crate) fn is_memory_full(&self) -> bool {
        self.cache.room() >= MemoryRoom::Full
    }

    /// Sets memory aside for a commit. False if the memory has less room.
    pub(crate) fn set_aside(&mut self, bytes: u64) -> bool {
        debug_assert!(self.refused_from.is_some(), "a commit that is never refused needs no promise");
        self.cache.set_aside(bytes)
    }

    /// Gives back the unused part of the memory that was set aside, at the end of a commit.
    pub(crate) fn end_set_aside(&mut self) {
        self.cache.end_set_aside();
        debug_assert!(!self.cache.has_set_aside(), "an ended commit holds no promise of memory (M4)");
    }

    /// Adds the worker's own count to the count of the memory.
    pub(crate) fn report_use(&mut self) {
        self.cache.report_now();
    }

    /// Gives free blocks to the pool, if most of the memory in use is free.
    pub(crate) fn give_scattered(&mut self) {
        self.cache.give_scattered();
    }

    /// A record with at least the capacity `capacity`, with this word, no data and no version before.
    #[inline]
    fn create(&mut self, capacity: usize, word: Word) -> Address {
        let class = SizeClass::of_bytes((HEADER_BYTES + capacity).max((DATA_WORD + 1) * 8));
        debug_assert!(class.bytes() >= HEADER_BYTES + capacity, "the class has the room that is asked for");
        let block = self.cache.allocate(class);
        Self::begin(block, class, word, 0)
    }

    /// Writes a record's header into a block of at least `class` bytes, with these marks in the chain word.
    #[inline]
    fn begin(block: NonNull<u8>, class: SizeClass, word: Word, marks: u64) -> Address {
        let address = block.expose_provenance();
        assert_eq!(address.get() as u64 & !ADDRESS_MASK, 0, "user addresses fit 48 bits");
        let words = block.cast::<AtomicU64>();
        debug_assert!(words.is_aligned(), "blocks and pages are cut at words");
        debug_assert!(class.bytes() >= (DATA_WORD + 1) * 8, "a record holds its header and its length");
        let chain = (class.index() as u64) << ADDRESS_BITS | marks;
        // SAFETY: the block belongs to this call alone, is aligned to words and is at least three words long; the
        // block's words become atomics here.
        unsafe {
            words.write(AtomicU64::new(word.bits()));
            words.add(1).write(AtomicU64::new(chain));
            words.add(DATA_WORD).write(AtomicU64::new(0));
        }
        plain_access::store(block.as_ptr(), (DATA_WORD + 1) * 8);
        Address(address)
    }

    /// An absent record with TID 0 and room for `capacity` bytes (§4.5 inserts; C3).
    #[inline]
    pub(crate) fn placeholder(&mut self, capacity: usize) -> Placeholder {
        Placeholder(Fresh(self.create(capacity, Word::PLACEHOLDER)))
    }

    /// A record with `value` and the word `word`: for a replacement before its publication, for recovery, or for an
    /// index's build.
    #[inline]
    pub(crate) fn create_record(&mut self, value: &[u8], word: Word) -> Fresh {
        let fresh = Fresh(self.create(value.len(), word));
        fresh.record().store_data(value);
        fresh
    }

    /// Room for a preserved version of a record of `class` (§4.9). The room is in the page, unless the version must be
    /// freed `by_itself`, because a reader holds an older boundary (V1). Versions too large for a page are not copied.
    #[inline]
    pub(crate) fn version(&mut self, class: SizeClass, by_itself: bool) -> VersionRoom {
        debug_assert!(VersionPage::takes(class), "the record of a larger version is replaced (V1)");
        let word = Word::from_bits(0);
        self.rooms += 1;
        if by_itself {
            return VersionRoom(Self::begin(self.cache.allocate(class), class, word, 0));
        }
        let room = match self.page.take(class.bytes()) {
            Some(room) => room,
            None => self.turn_page(class),
        };
        VersionRoom(Self::begin(room, class, word, PAGED))
    }

    /// Begins a new page of versions, and takes room for a version of this class from the page. The full page waits for
    /// the end of the commit.
    #[cold]
    fn turn_page(&mut self, class: SizeClass) -> NonNull<u8> {
        debug_assert!(VersionPage::takes(class), "the record of a larger version is replaced (V1)");
        let fresh = VersionPage::new(self.cache.allocate(VersionPage::class()));
        let full = std::mem::replace(&mut self.page, fresh);
        self.full.extend(full.start().map(|start| PageBlock { address: start.as_ptr() as u64 }));
        let Some(room) = self.page.take(class.bytes()) else {
            unreachable!("an empty page takes any version")
        };
        room
    }

    /// Takes back unused room for a version. In a page the last taken room is used again; other room is lost until the
    /// free of the page.
    pub(crate) fn unused_version(&mut self, room: VersionRoom) {
        let record = room.record();
        debug_assert!(record.previous_address().is_none(), "room that was not needed is part of no chain");
        debug_assert!(self.rooms > 0, "what comes back was taken");
        self.rooms -= 1;
        if record.is_paged() {
            self.page.untake(room.0.value() as usize, record.class().bytes());
        } else {
            // SAFETY: nothing links to unused room, and the room's holder gives it away.
            unsafe { self.destroy(RetiredRecord(room.0)) };
        }
    }

    /// Place of the next version. A commit that may fail keeps the place.
    #[inline]
    pub(crate) fn place(&self) -> VersionPlace {
        debug_assert!(self.full.is_empty(), "a commit leaves no full page behind");
        VersionPlace { page: self.page, rooms: self.rooms }
    }

    /// Goes back to the place before a failed commit. The commit has given back all of its room, so pages that the
    /// commit began are freed at once.
    pub(crate) fn rewind(&mut self, VersionPlace { page: before, rooms }: VersionPlace) {
        assert_eq!(self.rooms, rooms, "nothing was preserved in a page that is freed");
        let begun = std::mem::replace(&mut self.page, before);
        let turned = std::mem::take(&mut self.full);
        let begun = begun.start().map(|start| PageBlock { address: start.as_ptr() as u64 });
        let kept = before.start().map(|start| start.as_ptr() as u64);
        for page in turned.into_iter().chain(begun).filter(|page| Some(page.address) != kept) {
            debug_assert!(page.address != 0, "a page that was begun lies somewhere");
            // SAFETY: the page was begun after `place`, and all room taken since then has come back: no version in the
            // page was published.
            unsafe { self.destroy_page(page) };
        }
    }

    /// A full page that was not handed out yet. The caller retires the page under the epoch of the commit that filled
    /// it.
    #[inline]
    pub(crate) fn full_page(&mut self) -> Option<PageBlock> {
        self.full.pop()
    }

    /// Frees a page of versions. Returns the page's length in bytes.
    ///
    /// # Safety
    /// Nothing reaches a version in the page any more: no snapshot (S1), and no commit (V1).
    pub(crate) unsafe fn destroy_page(&mut self, page: PageBlock) -> usize {
        let class = VersionPage::class();
        debug_assert_eq!(class.bytes(), PageBlock::BYTES);
        // SAFETY: the caller promises that nothing reaches a version in the page; `turn_page` allocated the page under
        // this class.
        unsafe { self.cache.free(NonNull::new_unchecked(page.address as *mut u8), class) };
        class.bytes()
    }

    /// Frees a record without publication.
    #[inline]
    pub(crate) fn discard(&mut self, fresh: Fresh) {
        // SAFETY: only the record's holder knew the record, and gives it away.
        unsafe { self.destroy(RetiredRecord(fresh.0)) };
    }

    /// Frees a placeholder that was not placed.
    #[inline]
    pub(crate) fn discard_placeholder(&mut self, Placeholder(fresh): Placeholder) {
        debug_assert!(fresh.record().word().is_placeholder(), "nobody has filled it");
        self.discard(fresh);
    }

    /// A block of this class, for data that is no record, such as a pending remove. The block belongs to the caller
    /// alone.
    #[inline]
    pub(crate) fn allocate_block(&mut self, class: SizeClass) -> NonNull<u8> {
        debug_assert!(class.bytes() >= size_of::<u64>(), "a freed block has room for a word");
        self.cache.allocate(class)
    }

    /// Frees a block from [`Blocks::allocate_block`]. Returns the length of the block in bytes.
    ///
    /// # Safety
    /// The block was allocated under this class, and its only holder gives the block away.
    #[inline]
    pub(crate) unsafe fn free_block(&mut self, block: NonNull<u8>, class: SizeClass) -> usize {
        debug_assert!(class.bytes() >= size_of::<u64>(), "the class that it was allocated under");
        // SAFETY: the caller's promise.
        unsafe { self.cache.free(block, class) };
        class.bytes()
    }

    /// Frees a record. Returns the length of its block in bytes.
    ///
    /// # Safety
    /// Nothing reaches the record any more (E3).
    #[inline]
    pub(crate) unsafe fn destroy(&mut self, retired: RetiredRecord) -> usize {
        let address = retired.0;
        // SAFETY: the record is not freed yet, and only `retired` can free the record.
        let class = unsafe { address.record() }.class();
        // SAFETY: the caller promises that nothing reaches the record; the record was allocated under this class.
        unsafe { self.cache.free(NonNull::new_unchecked(address.value() as *mut u8), class) };
        class.bytes()
    }

    /// Frees an index node. Returns the length of its block in bytes.
    ///
    /// # Safety
    /// Nothing reaches the node any more (E3).
    pub(crate) unsafe fn destroy_node(&mut self, node: NodeBlock) -> usize {
        debug_assert!(node.address != 0 && node.address.is_multiple_of(8), "a node lies at a word's address");
        // SAFETY: the caller promises that nothing reaches the node; class and address are the allocation's.
        unsafe { self.cache.free(NonNull::new_unchecked(node.address as *mut u8), node.class) };
        node.class.bytes()
    }
}

#[cfg(feature = "audit")]
impl Drop for Blocks {
    /// A worker that ends leaves its present page until the end of the memory: a snapshot may show versions in the
    /// page.
    fn drop(&mut self) {
        let pages = self.full.len() + usize::from(self.page.start().is_some());
        (0..pages).for_each(|_| self.cache.leave(VersionPage::class()));
    }
}

/// A record that no tree has. Only its holder knows the record, and publishes or discards it. Not `Copy`.
#[derive(Debug)]
#[must_use = "publish it or discard it: its memory is lost otherwise"]
pub(crate) struct Fresh(Address);

impl Fresh {
    /// The record. Nothing frees the record during the borrow.
    #[inline]
    pub(crate) fn record(&self) -> Record<'_> {
        // SAFETY: no other thread knows the record, and a free takes `self` by value.
        unsafe { self.0.record() }
    }

    /// The value for a tree.
    #[inline]
    pub(super) fn value(&self) -> u64 {
        self.0.value()
    }

    /// The record's address, for a tree: other threads know the record from here on.
    #[inline]
    pub(super) fn publish(self) -> Address {
        self.0
    }

    /// Gives the record its final word and version chain, before its publication.
    #[inline]
    pub(super) fn finish(&self, word: Word, previous: Option<Address>) {
        let record = self.record();
        debug_assert!(word.is_latest() && !word.is_locked(), "what is published is its key's latest record");
        record.link(previous);
        record.unlock_with(word);
    }
}

/// A new absent record: the commit that puts the record into a tree fills or unhooks it. Not `Copy`.
#[derive(Debug)]
#[must_use = "place it or discard it: its memory is lost otherwise"]
pub(crate) struct Placeholder(pub(super) Fresh);

/// A page of versions that waits for its free. Not `Copy`: a page is freed once.
#[derive(Debug)]
pub(crate) struct PageBlock {
    address: u64,
}

impl PageBlock {
    /// Length of a page in bytes.
    pub(crate) const BYTES: usize = VersionPage::class().bytes();
}

/// An index node that waits for its free. Not `Copy`: a node is freed once.
#[derive(Debug)]
pub(crate) struct NodeBlock {
    address: u64,
    class: SizeClass,
}

/// The index's view of a worker's memory: nodes come from the slabs and leave through the garbage list.
pub(crate) struct NodeBlocks<'w> {
    pub(crate) blocks: &'w mut Blocks,
    pub(crate) garbage_list: &'w mut GarbageList<NodeBlock>,
    pub(crate) epochs: &'w Epochs,
    /// Counter of the bytes of retired nodes.
    pub(crate) retired_bytes: &'w mut usize,
}

impl NodeBlocks<'_> {
    /// Size class for a node. A node with an alignment above a word gets a class that is aligned to a cache line.
    fn class(layout: Layout) -> SizeClass {
        let bytes = if layout.align() > 8 { layout.size().next_multiple_of(64) } else { layout.size() };
        assert!(layout.align() <= 64, "slabs align to a cache line at most");
        SizeClass::of_bytes(bytes)
    }
}

// SAFETY: blocks are at least as large and as aligned as asked (classes that are multiples of 64 are aligned to 64),
// and belong to no other holder. `collect` frees retired blocks only once every pin has passed (E3).
unsafe impl NodeMemory for NodeBlocks<'_> {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        let block = self.blocks.cache.allocate(Self::class(layout));
        debug_assert!(block.as_ptr().addr().is_multiple_of(layout.align()), "a node lies as it asks");
        block
    }

    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout) {
        let class = Self::class(layout);
        debug_assert!(class.bytes() >= layout.size(), "the class that the node was allocated under");
        // SeqCst: the unlink comes before the read of the tag's epoch (E3); partner: the heavy fence of the scan.
        fence(Ordering::SeqCst);
        self.garbage_list.push(self.epochs.now(), NodeBlock { address: block.as_ptr() as u64, class });
        *self.retired_bytes += class.bytes();
    }

    unsafe fn discard(&mut self, block: NonNull<u8>, layout: Layout) {
        let class = Self::class(layout);
        debug_assert!(class.bytes() >= layout.size(), "the class that the node was allocated under");
        // SAFETY: the block was allocated under this class; by the caller's promise no other thread has seen the block.
        unsafe { self.blocks.cache.free(block, class) };
    }
}

/// The memory of a database, a part of the data that all of the database's transactions and threads share.
#[derive(Debug)]
pub(crate) struct OwnedMemory(Arc<Memory>);

impl OwnedMemory {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self(memory)
    }

    /// Gives all memory back to the system, whatever other threads keep of the database.
    ///
    /// The exclusive reference says that no thread shares the database any more. Each transaction, snapshot and thread
    /// of the database shares the database, and tables and indexes are read only through them: nothing reaches a block.
    /// Other threads' sessions may still have workers and contexts of this database. A session is taken with the shared
    /// data of its database, so no session is taken any more. Workers and contexts are only dropped, and the drop of a
    /// cache, a record's address or a witness reads no block.
    pub(crate) fn release(&mut self) {
        // SAFETY: nothing reaches a block any more, and caches are only dropped (above).
        unsafe { self.0.release() };
    }
}

impl std::ops::Deref for OwnedMemory {
    type Target = Arc<Memory>;

    #[inline]
    fn deref(&self) -> &Arc<Memory> {
        &self.0
    }
}

/// Memory of a tree without other users: frees retired blocks at once.
pub(super) struct Unseen<'b>(pub(super) &'b mut Blocks);

// SAFETY: blocks as in `NodeBlocks`. Retired blocks need not wait, since `RecordTree::destroy` is their only user.
unsafe impl NodeMemory for Unseen<'_> {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        self.0.cache.allocate(NodeBlocks::class(layout))
    }

    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the block was allocated under this class, and the caller promises that nothing uses a retired block.
        unsafe { self.0.cache.free(block, NodeBlocks::class(layout)) };
    }

    unsafe fn discard(&mut self, block: NonNull<u8>, layout: Layout) {
        let class = NodeBlocks::class(layout);
        debug_assert!(class.bytes() >= layout.size(), "the class that the node was allocated under");
        // SAFETY: the block was allocated under this class; by the caller's promise no other thread has seen the block.
        unsafe { self.0.cache.free(block, class) };
    }
}
