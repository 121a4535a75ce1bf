//! Figures of the index alone: nanoseconds and bytes per key, one thread, huge pages.
//!
//! `cargo run --release -p ensile-index --example probe -- [keys in millions]`
//!
//! Neighbours: none; the house's own benchmarks live in `ensile-bench`.

use std::alloc::Layout;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::ptr::NonNull;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_epoch::Pinned;
use ensile_index::{
    Direction, Insert, Lookup, Masstree, NodeChanges, NodeMemory, Probe, Range, ScanVisitor, Witness,
};

const CHUNK_BYTES: usize = 64 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bump allocation from chunks on huge pages. Frees nothing: the process ends soon.
#[derive(Default)]
struct Chunks {
    at: usize,
    end: usize,
    bytes: usize,
}

// SAFETY: blocks come from chunks that are never freed, each block once, aligned as asked.
unsafe impl NodeMemory for Chunks {
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        let mut at = self.at.next_multiple_of(layout.align());
        if at + layout.size() > self.end {
            at = chunk().expose_provenance();
            self.end = at + CHUNK_BYTES;
        }
        self.at = at + layout.size();
        self.bytes += layout.size();
        NonNull::new(std::ptr::with_exposed_provenance_mut(at)).expect("a chunk has an address")
    }

    unsafe fn retire(&mut self, _block: NonNull<u8>, layout: Layout) {
        self.bytes -= layout.size();
    }

    unsafe fn discard(&mut self, _block: NonNull<u8>, layout: Layout) {
        self.bytes -= layout.size();
    }
}

/// A chunk that asks for huge pages, touched once so that no figure below pays for that.
fn chunk() -> *mut u8 {
    let layout = Layout::from_size_align(CHUNK_BYTES, HUGE_PAGE_BYTES).expect("a constant layout");
    // SAFETY: the size is not zero; the advice only asks for huge pages of our own block, which is then written whole.
    unsafe {
        let block = std::alloc::alloc(layout);
        assert!(!block.is_null(), "out of memory");
        let _ = rustix::mm::madvise(block.cast(), CHUNK_BYTES, rustix::mm::Advice::LinuxHugepage);
        block.write_bytes(0, CHUNK_BYTES);
        block
    }
}

struct Count(u64);

impl ScanVisitor for Count {
    fn witness(&mut self, witness: Witness) {
        black_box(witness);
    }

    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        black_box(key);
        self.0 += u64::from(value > 0);
        ControlFlow::Continue(())
    }
}

struct Timer<'c>(&'c Clock, u64);

impl<'c> Timer<'c> {
    fn start(clock: &'c Clock) -> Self {
        Self(clock, clock.nanos())
    }

    fn report(self, what: &str, count: u64) {
        println!("{what:<44} {:>8.1} ns", (self.0.nanos() - self.1) as f64 / count as f64);
    }
}

fn load(clock: &Clock, what: &str, keys: impl Iterator<Item = u64>, memory: &mut Chunks) -> Masstree {
    // SAFETY: nothing is ever freed.
    let pinned = unsafe { Pinned::assume() };
    let tree = Masstree::new(memory);
    let mut changes = NodeChanges::new();
    // Chunks are touched before the clock runs.
    let before = memory.bytes;
    let timer = Timer::start(clock);
    let mut count = 0;
    for key in keys {
        changes.clear();
        let insert = tree.insert_if_absent(&key.to_be_bytes(), key + 1, memory, &mut changes, pinned);
        count += u64::from(insert == Insert::Inserted);
    }
    timer.report(what, count);
    println!("{:<44} {:>8.2} bytes per key", "", (memory.bytes - before) as f64 / count as f64);
    tree
}

fn reads(clock: &Clock, tree: &Masstree, key_of: impl Fn(u64) -> u64, keys: u64) {
    // SAFETY: nothing is ever freed.
    let pinned = unsafe { Pinned::assume() };
    let count = 4_000_000;
    let mut random = Random::from_seed(1);
    let draws: Vec<[u8; 8]> = (0..count).map(|_| key_of(random.next_below(keys)).to_be_bytes()).collect();
    for round in 0..2 {
        let timer = Timer::start(clock);
        let mut sum = 0;
        for key in &draws {
            match tree.get(key, pinned) {
                Lookup::Found(value) => sum += value,
                Lookup::Missing(_) => panic!("every key is there"),
            }
        }
        black_box(sum);
        timer.report(&format!("get, uniform, round {round}"), count);
    }
    for batch in [16, 64, 256] {
        let timer = Timer::start(clock);
        let mut sum = 0;
        for keys in draws.chunks(batch) {
            let probes = keys.iter().map(|key| Probe { tree, key, label: () });
            Masstree::get_batch(probes, pinned, &mut |(), lookup| match lookup {
                Lookup::Found(value) => sum += value,
                Lookup::Missing(_) => panic!("every key is there"),
            });
        }
        black_box(sum);
        timer.report(&format!("get_batch of {batch}"), count);
    }
    let timer = Timer::start(clock);
    for key in &draws {
        let missing = (u64::from_be_bytes(*key) ^ 1 << 63).to_be_bytes();
        black_box(tree.get(&missing, pinned));
    }
    timer.report("get, missing", count);
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut count = Count(0);
        let timer = Timer::start(clock);
        tree.scan(Range { lower: Bound::Unbounded, upper: Bound::Unbounded }, direction, &mut count, pinned);
        timer.report(&format!("scan, whole, {direction:?}, per key"), count.0);
    }
    let mut seen = Count(0);
    let timer = Timer::start(clock);
    for key in draws.iter().take(200_000) {
        let upper = (u64::from_be_bytes(*key).saturating_add(50)).to_be_bytes();
        let range = Range { lower: Bound::Included(key), upper: Bound::Included(&upper) };
        tree.scan(range, Direction::Forward, &mut seen, pinned);
    }
    timer.report("scan of a short range, per scan", 200_000);
}

fn main() {
    let millions: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let keys = millions * 1_000_000;
    let clock = Clock::machine();
    let scatter = |n: u64| n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;

    let mut memory = Chunks::default();
    let tree = load(&clock, "insert, in order", 0..keys, &mut memory);
    reads(&clock, &tree, |n| n, keys);
    println!();
    let mut memory = Chunks::default();
    let tree = load(&clock, "insert, at random", (0..keys).map(scatter), &mut memory);
    reads(&clock, &tree, scatter, keys);
}
