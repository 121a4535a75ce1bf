//! Memory is ready before it is written (M3).

use std::ptr::NonNull;

use crate::{Cache, Memory, MemoryConfig, SizeClass};

const BLOCK_BYTES: usize = 4096;

/// Blocks, this many bytes together.
fn blocks(cache: &mut Cache, bytes: usize) -> Vec<NonNull<u8>> {
    (0..bytes / BLOCK_BYTES).map(|_| cache.allocate(SizeClass::of_bytes(BLOCK_BYTES))).collect()
}

/// Ends the preparing, however a test ends: its other thread must not wait for ever.
struct StopsPreparing<'m>(&'m Memory);

impl Drop for StopsPreparing<'_> {
    fn drop(&mut self) {
        self.0.stop_preparing();
    }
}

#[test]
fn a_chunk_that_was_made_ready_is_the_next_to_be_used() {
    let memory = Memory::new(&MemoryConfig::default());
    memory.begin_preparing();
    let mut cache = memory.cache();
    let ready = || memory.stats().empty_bytes;
    assert!(memory.prepare());
    assert_eq!(ready(), 2 << 20);
    // The more is in use the more is kept ready, but no more than that.
    for (taken, kept) in [(2, 2), (62, 4), (190, 16), (400, 16)] {
        blocks(&mut cache, taken << 20);
        while memory.lock().wants_ready() {
            assert!(memory.prepare());
        }
        assert_eq!(ready(), kept << 20);
        let before = memory.stats();
        blocks(&mut cache, 2 << 20);
        let after = memory.stats();
        assert_eq!(
            after.chunk_bytes - before.chunk_bytes,
            before.empty_bytes - after.empty_bytes,
            "{after:?}"
        );
    }
}

#[test]
fn who_makes_memory_ready_waits_until_some_is_wanted_or_nothing_will_be() {
    let memory = Memory::new(&MemoryConfig::default());
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
            cache.allocate(SizeClass::of_bytes(64));
        }
        memory.stop_preparing();
        assert!(preparer.join().expect("it does not panic") >= caches.len());
    });
}

#[test]
fn what_is_made_ready_stays_ready_while_nothing_happens() {
    let memory = Memory::new(&MemoryConfig::default());
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
    let memory = Memory::new(&MemoryConfig::default());
    memory.begin_preparing();
    std::thread::scope(|scope| {
        scope.spawn(|| while memory.prepare() {});
        let _stops = StopsPreparing(&memory);
        let mut cache = memory.cache();
        // Chunks go back and are taken again, so that touched ones are of both kinds.
        for round in 0..if cfg!(miri) { 2 } else { 10_u8 } {
            let taken = blocks(&mut cache, 24 << 20);
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
            // SAFETY: allocated under this class from the same memory, freed once.
            taken
                .into_iter()
                .for_each(|block| unsafe { cache.free(block, SizeClass::of_bytes(BLOCK_BYTES)) });
        }
        memory.stop_preparing();
    });
}

#[test]
fn what_was_touched_beforehand_is_not_touched_again() {
    let memory = Memory::new(&MemoryConfig::prefaulted(8 << 20));
    memory.begin_preparing();
    let mut cache = memory.cache();
    assert!(!memory.lock().wants_ready(), "four chunks are ready");
    blocks(&mut cache, 7 << 20);
    assert!(memory.lock().wants_ready(), "all of it is in use: {:?}", memory.stats());
}

#[test]
fn a_surplus_that_is_wanted_again_is_not_given_back() {
    let memory = Memory::new(&MemoryConfig::default());
    memory.begin_preparing();
    let mut cache = memory.cache();
    let taken = blocks(&mut cache, 64 << 20);
    // SAFETY: allocated under this class from the same memory, freed once.
    taken.into_iter().for_each(|block| unsafe { cache.free(block, SizeClass::of_bytes(BLOCK_BYTES)) });
    // A window ends with a surplus, of which the first step gives some back; then all of it is in use again, but for
    // what is ready.
    let first = (0..600).map(|_| memory.give_back_step()).find(|bytes| *bytes > 0);
    assert_eq!(first, Some(8 << 20));
    while memory.stats().empty_bytes > 2 << 20 {
        cache.allocate(SizeClass::of_bytes(BLOCK_BYTES));
    }
    (0..200).for_each(|_| assert_eq!(memory.give_back_step(), 0));
}
