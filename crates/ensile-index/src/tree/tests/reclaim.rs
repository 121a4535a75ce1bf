//! The tree on memory that is used again as soon as no pin can reach it: what is retired too early, or reached too
//! late, meets poison or another node. More threads than cores, so that pins rest in every place.

use std::alloc::Layout;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicUsize, Ordering, fence};
use ensile_epoch::{EpochConfig, Epochs, GarbageList, Pinned};

use crate::testing::{Collected, hostile_key, probes};
use crate::{Direction, Insert, Lookup, Masstree, NodeChanges, NodeMemory, Range};

const WHOLE: Range<'static> = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };
const POISON: u8 = 0xa5;

/// Every block that was allocated, freed when all threads are done, and the number of those that came back.
#[derive(Default)]
struct Book {
    allocated: Mutex<Vec<(usize, Layout)>>,
    returned: AtomicUsize,
}

impl Drop for Book {
    fn drop(&mut self) {
        for (block, layout) in self.allocated.get_mut().expect("no panic").drain(..) {
            // SAFETY: allocated by a `Recycler` with this layout, and in the book once; the tree is not used any more.
            unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(block), layout) };
        }
    }
}

/// A worker's memory as the engine has it: retired blocks wait for the pins, then they are used again.
struct Recycler<'e> {
    epochs: &'e Epochs,
    book: &'e Book,
    garbage_list: GarbageList<(NonNull<u8>, Layout)>,
    free: HashMap<Layout, Vec<NonNull<u8>>>,
    reused: usize,
}

impl<'e> Recycler<'e> {
    fn new(epochs: &'e Epochs, book: &'e Book) -> Self {
        Self { epochs, book, garbage_list: GarbageList::default(), free: HashMap::new(), reused: 0 }
    }

    fn collect(&mut self) {
        let limit = self.epochs.limits().pins();
        while let Some((block, layout)) = self.garbage_list.pop_below(limit) {
            // SAFETY: the block is ours again, of this size.
            unsafe { block.write_bytes(POISON, layout.size()) };
            self.free.entry(layout).or_default().push(block);
        }
    }
}

impl Drop for Recycler<'_> {
    fn drop(&mut self) {
        let returned = self.garbage_list.len() + self.free.values().map(Vec::len).sum::<usize>();
        // Relaxed: read once all threads are done.
        self.book.returned.fetch_add(returned, Ordering::Relaxed);
    }
}

// SAFETY: blocks come from the global allocator with the layout asked for; a retired one is used again once the limit
// of the pins has passed the epoch that was read after it was unlinked (E3), and is given back by the book at the end.
unsafe impl NodeMemory for Recycler<'_> {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        self.collect();
        if let Some(block) = self.free.get_mut(&layout).and_then(Vec::pop) {
            self.reused += 1;
            return block;
        }
        // SAFETY: no node or suffix block has size zero.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) }).expect("memory for a test");
        self.book.allocated.lock().expect("no panic").push((block.as_ptr().expose_provenance(), layout));
        block
    }

    unsafe fn retire(&mut self, block: NonNull<u8>, layout: Layout) {
        // SeqCst: the unlink comes before the tag is read (E3); partner: the scan's fence.
        fence(Ordering::SeqCst);
        self.garbage_list.push(self.epochs.now(), (block, layout));
    }

    unsafe fn discard(&mut self, block: NonNull<u8>, layout: Layout) {
        self.free.entry(layout).or_default().push(block);
    }
}

/// What one worker knows: the keys that end in its number.
struct Own<'t> {
    tree: &'t Masstree,
    thread: u8,
    random: Random,
    keys: BTreeMap<Vec<u8>, u64>,
    changes: NodeChanges,
}

impl Own<'_> {
    fn key(&mut self) -> Vec<u8> {
        let mut key = match self.random.next_below(4) {
            // A queue-like end, a few full leaves, layers.
            0 => self.random.next_below(4_000).to_be_bytes().to_vec(),
            1 => [&[7; 8][..], &self.random.next_below(60).to_be_bytes()].concat(),
            _ => hostile_key(&mut self.random),
        };
        key.truncate(64);
        key.push(self.thread);
        key
    }

    /// A miss, then perhaps an insert; or a replace, or a removal.
    fn write(&mut self, round: u64, grows: bool, memory: &mut Recycler<'_>, pinned: Pinned<'_>) {
        let key = self.key();
        let Some(&value) = self.keys.get(&key) else {
            let Lookup::Missing(miss) = self.tree.get(&key, pinned) else { panic!("{key:?} came back") };
            if self.random.percent(if grows { 80 } else { 20 }) {
                self.changes.clear();
                let insert = self.tree.insert_if_absent(&key, round, memory, &mut self.changes, pinned);
                assert_eq!(insert, Insert::Inserted, "{key:?}");
                assert!(!miss.holds(pinned), "{key:?} came behind a witness");
                self.keys.insert(key, round);
            }
            return;
        };
        assert_eq!(self.tree.get(&key, pinned), Lookup::Found(value), "{key:?}");
        if self.random.percent(if grows { 20 } else { 80 }) {
            assert!(self.tree.remove(&key, value, memory, pinned), "{key:?}");
            self.keys.remove(&key);
        } else {
            assert!(self.tree.replace(&key, value, round, pinned), "{key:?}");
            self.keys.insert(key, round);
        }
    }

    fn batch(&mut self, pinned: Pinned<'_>) {
        let keys: Vec<_> = (0..24).map(|_| self.key()).collect();
        Masstree::get_batch(probes(self.tree, &keys), pinned, &mut |index, lookup| {
            let found = if let Lookup::Found(value) = lookup { Some(value) } else { None };
            assert_eq!(found, self.keys.get(&keys[index]).copied(), "{:?}", keys[index]);
        });
    }

    /// A scan tells of all own keys; and if its leaves still are as they were, another one the other way tells the
    /// same.
    fn scan(&mut self, pinned: Pinned<'_>) {
        let directions = [Direction::Forward, Direction::Reverse];
        let turn = self.random.next_below(2) as usize;
        let [first, second] = [turn, 1 - turn].map(|index| {
            let mut collected = Collected::default();
            self.tree.scan(WHOLE, directions[index], &mut collected, pinned);
            collected
        });
        let keys = |collected: &Collected| -> Vec<Vec<u8>> {
            collected.entries.iter().map(|(key, _)| key.clone()).collect()
        };
        let (seen, mut again) = (keys(&first), keys(&second));
        if first.witnesses.iter().all(|witness| witness.holds(pinned)) {
            again.reverse();
            assert_eq!(seen, again, "the witnesses hold and the keys are others");
        }
        let mine = seen.iter().filter(|key| key.last() == Some(&self.thread)).count();
        assert_eq!(mine, self.keys.len(), "a scan misses or invents keys");
    }
}

/// Rounds of each worker, and at most. It goes on until it has used blocks again: that rests on another thread, which
/// moves the epochs.
const ROUNDS: u64 = 6_000;
const ROUNDS_MAX: u64 = 600_000;
/// Blocks that each worker uses again at least.
const REUSED: usize = 20;

fn work(thread: u8, seed: u64, tree: &Masstree, epochs: &Epochs, book: &Book) -> usize {
    let mut pin = epochs.register_pin();
    let mut memory = Recycler::new(epochs, book);
    let random = Random::from_seed(seed * 100 + u64::from(thread));
    let mut own = Own { tree, thread, random, keys: BTreeMap::new(), changes: NodeChanges::new() };
    for round in 0..ROUNDS_MAX {
        let is_longer = round >= ROUNDS;
        if is_longer && memory.reused >= REUSED {
            break;
        }
        let call = pin.begin(epochs.now());
        for _ in 0..own.random.next_below(4) {
            own.write(round, round % 1_500 < 700, &mut memory, call.pin_token());
        }
        match own.random.next_below(200) {
            0 => own.scan(call.pin_token()),
            1..20 => own.batch(call.pin_token()),
            _ => {}
        }
        drop(call);
        pin.end();
        // Mostly rest where nothing is pinned, or nothing would be freed.
        if own.random.percent(10) || is_longer {
            std::thread::yield_now();
        }
    }
    let call = pin.begin(epochs.now());
    for (key, value) in std::mem::take(&mut own.keys) {
        assert!(tree.remove(&key, value, &mut memory, call.pin_token()));
    }
    drop(call);
    pin.end();
    memory.reused
}

#[test]
fn nothing_is_reached_that_is_used_for_something_else() {
    const THREADS: u8 = 6;
    for seed in 0..2 {
        let config = EpochConfig { first: Epoch::new(1), snapshot_interval: Duration::MAX };
        let epochs = Epochs::new(&config);
        let book = Book::default();
        let mut memory = Recycler::new(&epochs, &book);
        let tree = Masstree::new(&mut memory);
        let running = AtomicUsize::new(usize::from(THREADS));
        let reused: usize = std::thread::scope(|scope| {
            let (tree, epochs, book, running) = (&tree, &epochs, &book, &running);
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let reused = std::panic::catch_unwind(|| work(thread, seed, tree, epochs, book));
                        // Relaxed: only tells the heartbeat when to stop.
                        running.fetch_sub(1, Ordering::Relaxed);
                        reused.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    })
                })
                .collect();
            let mut beats = 0;
            // Relaxed: only tells when to stop.
            while running.load(Ordering::Relaxed) > 0 {
                beats += 1;
                let _ = epochs.try_advance(beats * 1_000_000);
                let _ = epochs.scan();
                std::thread::yield_now();
            }
            workers.into_iter().map(|worker| worker.join().expect("no worker panics")).sum()
        });
        assert!(reused >= REUSED * usize::from(THREADS), "blocks are used again: {reused}");
        // SAFETY: all threads are done.
        let shape = tree.check(unsafe { Pinned::assume() }).expect("a whole tree");
        assert_eq!((shape.keys, shape.layers, shape.leaves), (0, 1, 1));
        drop(memory);
        let allocated = book.allocated.lock().expect("no panic").len();
        // Relaxed: all threads are done.
        let returned = book.returned.load(Ordering::Relaxed);
        let linked = shape.leaves + shape.suffix_blocks;
        assert_eq!(returned + linked, allocated, "memory that is neither linked nor given back");
    }
}
