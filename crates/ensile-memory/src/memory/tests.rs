//! Memory is ready before it is written (M3).

use crate::testing::{CheckedMemory, blocks, free};
use crate::{Memory, MemoryConfig, MemoryRoom, SizeClass};

const BLOCK_BYTES: usize = 4096;

/// Ends the preparing, however a test ends: its other thread must not wait for ever.
struct StopsPreparing<'m>(&'m Memory);

impl Drop for StopsPreparing<'_> {
    fn drop(&mut self) {
        self.0.stop_preparing();
    }
}

#[test]
fn a_chunk_that_was_made_ready_is_the_next_to_be_used() {
    let memory = CheckedMemory::default();
    memory.begin_preparing();
    let mut cache = memory.cache();
    let ready = || memory.stats().empty_bytes;
    assert!(memory.prepare());
    assert_eq!(ready(), 2 << 20);
    // The more is in use the more is kept ready, but no more than that.
    let mut in_use = Vec::new();
    for (taken, kept) in [(2, 2), (62, 4), (190, 16), (400, 16)] {
        in_use.extend(blocks(&mut cache, BLOCK_BYTES, taken << 20));
        while memory.lock().wants_ready() {
            assert!(memory.prepare());
        }
        assert_eq!(ready(), kept << 20);
        let before = memory.stats();
        in_use.extend(blocks(&mut cache, BLOCK_BYTES, 2 << 20));
        let after = memory.stats();
        assert_eq!(
            after.chunk_bytes - before.chunk_bytes,
            before.empty_bytes - after.empty_bytes,
            "{after:?}"
        );
    }
    free(&mut cache, BLOCK_BYTES, in_use);
}

#[test]
fn who_makes_memory_ready_waits_until_some_is_wanted_or_nothing_will_be() {
    let memory = CheckedMemory::default();
    assert!(!memory.prepare(), "nobody asked for it");
    memory.begin_preparing();
    std::thread::scope(|scope| {
        let preparer = scope.spawn(|| (0..).take_while(|_| memory.prepare()).count());
        // Each cache takes a chunk, and waits for another one to be ready.
        let mut caches: Vec<_> = (0..10).map(|_| memory.cache()).collect();
        for cache in &mut caches {
            while memory.stats().empty_bytes == 0 {
                std::thread::yield_now();
            }
            let block = cache.allocate(SizeClass::of_bytes(64));
            free(cache, 64, [block]);
        }
        memory.stop_preparing();
        assert!(preparer.join().expect("it does not panic") >= caches.len());
    });
}

#[test]
fn what_is_made_ready_stays_ready_while_nothing_happens() {
    let memory = CheckedMemory::default();
    memory.begin_preparing();
    assert!(memory.prepare());
    (0..2000).for_each(|_| assert_eq!(memory.give_back_step(), 0));
    assert_eq!(memory.stats().empty_bytes, 2 << 20);
    // Nobody makes any ready from now on: what is left goes as all that stays empty.
    memory.stop_preparing();
    (0..2000).for_each(|_| {
        memory.give_back_step();
    });
    assert_eq!(memory.stats().empty_bytes, 0);
}

#[test]
fn a_chunk_that_is_made_ready_is_nobodys_meanwhile() {
    let memory = CheckedMemory::default();
    memory.begin_preparing();
    std::thread::scope(|scope| {
        scope.spawn(|| while memory.prepare() {});
        let _stops = StopsPreparing(&memory);
        let mut cache = memory.cache();
        // Chunks go back and are taken again, so that touched ones are of both kinds.
        for round in 0..if cfg!(miri) { 2 } else { 10_u8 } {
            let taken = blocks(&mut cache, BLOCK_BYTES, 24 << 20);
            for block in &taken {
                // SAFETY: just allocated.
                unsafe { block.as_ptr().write_bytes(round | 0x80, BLOCK_BYTES) };
            }
            (0..512).for_each(|_| {
                memory.give_back_step();
            });
            for block in &taken {
                // SAFETY: ours, written above.
                let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), BLOCK_BYTES) };
                assert!(bytes.iter().all(|byte| *byte == round | 0x80));
            }
            free(&mut cache, BLOCK_BYTES, taken);
        }
        memory.stop_preparing();
    });
}

#[test]
fn what_was_touched_beforehand_is_not_touched_again() {
    let memory = CheckedMemory::new(&MemoryConfig::with_prefault(8 << 20));
    memory.begin_preparing();
    let mut cache = memory.cache();
    assert!(!memory.lock().wants_ready(), "four chunks are ready");
    let in_use = blocks(&mut cache, BLOCK_BYTES, 7 << 20);
    assert!(memory.lock().wants_ready(), "all of it is in use: {:?}", memory.stats());
    free(&mut cache, BLOCK_BYTES, in_use);
}

#[test]
fn a_surplus_that_is_wanted_again_is_not_given_back() {
    let memory = CheckedMemory::default();
    memory.begin_preparing();
    let mut cache = memory.cache();
    let taken = blocks(&mut cache, BLOCK_BYTES, 64 << 20);
    free(&mut cache, BLOCK_BYTES, taken);
    // A window ends with a surplus, of which the first step gives some back; then all of it is in use again, but for
    // what is ready.
    let first = (0..600).map(|_| memory.give_back_step()).find(|bytes| *bytes > 0);
    assert_eq!(first, Some(8 << 20));
    let mut in_use = Vec::new();
    while memory.stats().empty_bytes > 2 << 20 {
        in_use.extend(blocks(&mut cache, BLOCK_BYTES, BLOCK_BYTES));
    }
    (0..200).for_each(|_| assert_eq!(memory.give_back_step(), 0));
    free(&mut cache, BLOCK_BYTES, in_use);
}

#[test]
fn live_bytes_are_what_is_in_use_whatever_cache_takes_it_back() {
    const REPORTED: u64 = 64 << 10;
    let memory = CheckedMemory::default();
    let (mut one, mut other) = (memory.cache(), memory.cache());
    let taken = blocks(&mut one, BLOCK_BYTES, 10 << 20);
    let live = || memory.stats().live_bytes;
    assert!((10u64 << 20).abs_diff(live()) <= REPORTED, "{}", live());
    free(&mut other, BLOCK_BYTES, taken);
    assert!(live() <= 2 * REPORTED, "{}", live());
    drop((one, other));
    assert_eq!(live(), 0);
}

fn limited(bytes_max: u64) -> CheckedMemory {
    CheckedMemory::new(&MemoryConfig { bytes_max: Some(bytes_max), ..MemoryConfig::default() })
}

/// Blocks in a cache's lists are free: no cache must give them to the pool first.
#[test]
fn memory_is_full_while_its_blocks_are_in_use_and_no_longer() {
    let memory = limited(8 << 20);
    let (mut one, mut other) = (memory.cache(), memory.cache());
    let mut taken = blocks(&mut one, BLOCK_BYTES, 7 << 20);
    assert_eq!(memory.room(), MemoryRoom::Open);
    taken.extend(blocks(&mut one, BLOCK_BYTES, 1 << 20));
    one.report_now();
    assert_eq!(memory.room(), MemoryRoom::Full);
    free(&mut other, BLOCK_BYTES, taken.drain(..64));
    other.report_now();
    assert_eq!(memory.room(), MemoryRoom::Open);
    taken.extend(blocks(&mut one, BLOCK_BYTES, 33 << 20));
    assert_eq!(memory.room(), MemoryRoom::Exhausted);
    free(&mut one, BLOCK_BYTES, taken);
}

#[test]
fn bytes_set_aside_count_once_and_come_back_unused() {
    let memory = limited(8 << 20);
    let (mut one, mut other) = (memory.cache(), memory.cache());
    assert!(one.set_aside(6 << 20));
    assert!(!other.set_aside(3 << 20), "the room is another's");
    let taken = blocks(&mut one, BLOCK_BYTES, 4 << 20);
    assert_eq!(memory.stats().live_bytes, 6 << 20);
    one.end_set_aside();
    assert_eq!(memory.stats().live_bytes, 4 << 20);
    // More than was set aside counts as all does.
    assert!(one.set_aside(1 << 20));
    let more = blocks(&mut one, BLOCK_BYTES, 2 << 20);
    assert!(!one.has_set_aside());
    one.end_set_aside();
    one.report_now();
    assert_eq!(memory.stats().live_bytes, 6 << 20);
    free(&mut other, BLOCK_BYTES, taken.into_iter().chain(more));
}
