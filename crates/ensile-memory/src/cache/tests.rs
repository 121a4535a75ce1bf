//! Blocks are disjoint and aligned, come back once freed, and outlive no memory.

use std::collections::HashSet;
use std::ptr::NonNull;

use ensile_base::random::Random;

use crate::memory::SPARSE_MIN;
use crate::span::slots;
use crate::testing::{CheckedMemory, blocks, free};
use crate::{Cache, Memory, MemoryConfig, SizeClass};

#[test]
fn blocks_do_not_overlap_and_keep_their_alignment() {
    let memory = CheckedMemory::default();
    let mut cache = memory.cache();
    let mut taken = Vec::new();
    for bytes in [8, 24, 120, 320, 64, 4096, 8192, 9000, 100_000] {
        for _ in 0..50 {
            let class = SizeClass::of_bytes(bytes);
            let block = cache.allocate(class);
            assert_eq!(block.as_ptr() as usize % 8, 0);
            if class.bytes().is_multiple_of(64) {
                assert_eq!(block.as_ptr() as usize % 64, 0);
            }
            // SAFETY: the block is ours and this long.
            unsafe { block.as_ptr().write_bytes(0xAB, class.bytes()) };
            taken.push((block.as_ptr() as usize, class));
        }
    }
    taken.sort_unstable();
    for pair in taken.windows(2) {
        assert!(pair[0].0 + pair[0].1.bytes() <= pair[1].0);
    }
    for (address, class) in taken {
        // SAFETY: allocated above under this class, freed once.
        unsafe { cache.free(std::ptr::NonNull::new(address as *mut u8).unwrap(), class) };
    }
    assert_eq!(memory.stats().large_bytes, 0);
}

#[test]
fn freed_blocks_come_back_before_new_spans_are_cut() {
    let memory = CheckedMemory::default();
    let class = SizeClass::of_bytes(120);
    let mut seen = HashSet::new();
    let mut cache = memory.cache();
    for _ in 0..100_000 {
        let block = cache.allocate(class);
        seen.insert(block.as_ptr() as usize);
        // SAFETY: just allocated.
        unsafe { cache.free(block, class) };
    }
    assert_eq!(seen.len(), 1);
}

#[test]
fn a_consumer_of_anothers_blocks_gives_them_back_to_the_pool() {
    let memory = CheckedMemory::default();
    let class = SizeClass::of_bytes(120);
    let (mut producer, mut consumer) = (memory.cache(), memory.cache());
    for _ in 0..40 {
        let blocks: Vec<_> = (0..10_000).map(|_| producer.allocate(class)).collect();
        for block in blocks {
            // SAFETY: just allocated from the same memory.
            unsafe { consumer.free(block, class) };
        }
    }
    assert!(memory.stats().chunk_bytes <= 16 << 20, "{:?}", memory.stats());
}

#[test]
fn a_cache_may_be_dropped_after_its_memory_was_released() {
    let memory = Memory::new(&MemoryConfig::default());
    let mut cache = memory.cache();
    for bytes in [24, 120, 4096, 100_000] {
        let class = SizeClass::of_bytes(bytes);
        let blocks: Vec<_> =
            (0..10_000_usize.min((8 << 20) / bytes)).map(|_| cache.allocate(class)).collect();
        for block in blocks.into_iter().step_by(2) {
            // SAFETY: allocated above under this class, freed once.
            unsafe { cache.free(block, class) };
        }
    }
    assert!(memory.stats().chunk_bytes > 0 && memory.stats().large_bytes > 0);
    // SAFETY: the blocks are used no more, and the cache is only dropped.
    unsafe { memory.release() };
    assert_eq!(memory.stats(), crate::MemoryStats::default());
    drop(cache);
    assert_eq!(memory.stats(), crate::MemoryStats::default(), "nothing came back");
}

#[test]
fn what_one_size_leaves_free_serves_every_other() {
    let memory = CheckedMemory::default();
    let mut cache = memory.cache();
    for bytes in [24, 120, 1000, 72, 4096, 300, 8192, 56] {
        let mut taken = blocks(&mut cache, bytes, 32 << 20);
        // In an order of its own: no block is freed beside its neighbour.
        let later = taken.iter().copied().skip(1).step_by(2).collect::<Vec<_>>();
        taken = taken.into_iter().step_by(2).collect();
        free(&mut cache, bytes, taken);
        free(&mut cache, bytes, later);
    }
    let stats = memory.stats();
    assert!(stats.chunk_bytes + stats.empty_bytes <= 48 << 20, "{stats:?}");
}

#[test]
fn a_span_with_a_block_in_use_stays_with_its_size() {
    let memory = CheckedMemory::default();
    let mut cache = memory.cache();
    let mut small = blocks(&mut cache, 120, 16 << 20);
    // One block of each span stays in use, with bytes of its own.
    let kept: Vec<_> = small.iter().copied().step_by(500).collect();
    small = small.into_iter().enumerate().filter(|(at, _)| at % 500 != 0).map(|(_, block)| block).collect();
    for block in &kept {
        // SAFETY: ours, and this long.
        unsafe { block.as_ptr().write_bytes(0xCD, 120) };
    }
    free(&mut cache, 120, small);
    let large = blocks(&mut cache, 1000, 32 << 20);
    for block in &large {
        // SAFETY: just allocated.
        unsafe { block.as_ptr().write_bytes(0xEE, 1000) };
    }
    for block in &kept {
        // SAFETY: ours, written above.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), 120) };
        assert!(bytes.iter().all(|byte| *byte == 0xCD));
    }
    free(&mut cache, 120, kept);
    free(&mut cache, 1000, large);
}

#[test]
fn what_stays_empty_goes_back_to_the_system_and_what_is_used_again_does_not() {
    let memory = CheckedMemory::default();
    let mut cache = memory.cache();
    let steps = || (0..600).map(|_| memory.give_back_step()).sum::<usize>();
    // Taken and freed within each window: it is needed.
    for _ in 0..10 {
        let taken = blocks(&mut cache, 1000, 32 << 20);
        (0..100).for_each(|_| assert_eq!(memory.give_back_step(), 0));
        free(&mut cache, 1000, taken);
    }
    let empty = memory.stats().empty_bytes;
    assert!(empty >= 24 << 20, "{:?}", memory.stats());
    assert_eq!(steps() as u64, empty);
    assert_eq!(memory.stats().empty_bytes, 0);
    // It is there again when it is wanted, all zeros, and no more is mapped for it.
    let again = blocks(&mut cache, 4096, 24 << 20);
    for block in &again {
        // SAFETY: just allocated.
        unsafe { block.as_ptr().write_bytes(1, 4096) };
    }
    assert!(memory.stats().chunk_bytes <= 36 << 20, "{:?}", memory.stats());
    free(&mut cache, 4096, again);
}

#[test]
fn what_was_touched_beforehand_is_kept() {
    let memory = CheckedMemory::new(&MemoryConfig::with_prefault(8 << 20));
    let mut cache = memory.cache();
    let taken = blocks(&mut cache, 1000, 30 << 20);
    free(&mut cache, 1000, taken);
    (0..2000).for_each(|_| {
        memory.give_back_step();
    });
    assert_eq!(memory.stats().empty_bytes, 8 << 20);
}

#[test]
fn an_ended_cache_leaves_everything_to_the_next() {
    let memory = CheckedMemory::new(&MemoryConfig::with_prefault(1 << 20));
    let mut taken = Vec::new();
    for _ in 0..100 {
        taken.extend(blocks(&mut memory.cache(), 64, 6400));
    }
    assert_eq!(memory.stats().chunk_bytes, 2 << 20);
    free(&mut memory.cache(), 64, taken);
}

/// Blocks with their sizes, each of which has its own address in its first word.
fn marked(cache: &mut Cache, bytes: usize, total_bytes: usize) -> Vec<(NonNull<u8>, usize)> {
    let taken = blocks(cache, bytes, total_bytes);
    for block in &taken {
        // SAFETY: ours, and at least one word long.
        unsafe { block.cast::<usize>().write(block.addr().get()) };
    }
    taken.into_iter().map(|block| (block, bytes)).collect()
}

/// Caches that end with free blocks of all kinds: in lists, in batches, uncut, and in spans that no class has yet.
#[test]
fn whatever_caches_take_and_give_and_leave_is_there_at_the_end_and_has_one_owner() {
    const BYTES: [usize; 8] = [8, 24, 120, 1000, 4096, 8192, 9000, 100_000];
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        let (memory, mut random) = (CheckedMemory::default(), Random::from_seed(seed));
        let mut caches: Vec<_> = (0..3).map(|_| memory.cache()).collect();
        let mut taken: Vec<(NonNull<u8>, usize)> = Vec::new();
        // All blocks of a span but one, which is uncut when the cache ends.
        for class in [8, 24].map(SizeClass::of_bytes) {
            let all_but_one = (slots(class) as usize - 1) * class.bytes();
            taken.extend(marked(&mut memory.cache(), class.bytes(), all_but_one));
        }
        for step in 0..400 {
            let cache = &mut caches[random.next_below(3) as usize];
            if random.percent(10) {
                *cache = memory.cache();
            }
            if random.percent(if step % 100 < 60 { 60 } else { 20 }) {
                let bytes = BYTES[random.next_below(8) as usize];
                let most = [1 << 10, 1 << 14, 1 << 18][random.next_below(3) as usize];
                taken.extend(marked(cache, bytes, random.next_below(most) as usize));
            } else {
                let most = random.next_below(1 + taken.len() as u64) as usize;
                // Some of many spans, or all of few.
                let is_scattered = random.percent(50);
                for _ in 0..most {
                    let last = taken.len() - 1;
                    let at = if is_scattered { random.next_below(1 + last as u64) as usize } else { last };
                    let (block, bytes) = taken.swap_remove(at);
                    // SAFETY: ours, written above.
                    assert_eq!(unsafe { block.cast::<usize>().read() }, block.addr().get(), "another has it");
                    free(cache, bytes, [block]);
                }
            }
            memory.give_back_step();
        }
        taken.into_iter().for_each(|(block, bytes)| free(&mut caches[0], bytes, [block]));
    }
}

/// Every hundredth block is freed last, so that each span has a block in the cache's last list.
#[test]
fn a_cache_of_an_emptied_memory_keeps_no_chunks_by_scattered_blocks() {
    let memory = CheckedMemory::default();
    let mut cache = memory.cache();
    let taken = blocks(&mut cache, 120, 24 << 20);
    let full = memory.stats().chunk_bytes;
    let (last, first): (Vec<_>, Vec<_>) = taken.into_iter().enumerate().partition(|(at, _)| at % 100 == 0);
    free(&mut cache, 120, first.into_iter().chain(last).map(|(_, block)| block));
    cache.give_scattered();
    let left = memory.stats().chunk_bytes;
    assert!(left <= SPARSE_MIN, "{left} of {full} bytes of chunks are in use without a block in use");
}
