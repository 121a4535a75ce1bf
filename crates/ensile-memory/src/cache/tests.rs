//! Blocks are disjoint and aligned, come back once freed, and outlive no memory.

use std::collections::HashSet;

use crate::{Memory, MemoryConfig, SizeClass};

#[test]
fn blocks_do_not_overlap_and_keep_their_alignment() {
    let memory = Memory::new(&MemoryConfig::default());
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
    let memory = Memory::new(&MemoryConfig::default());
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
    let memory = Memory::new(&MemoryConfig::default());
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

/// Blocks of a class.
fn blocks(cache: &mut crate::Cache, bytes: usize, total_bytes: usize) -> Vec<std::ptr::NonNull<u8>> {
    let class = SizeClass::of_bytes(bytes);
    (0..total_bytes / class.bytes()).map(|_| cache.allocate(class)).collect()
}

fn free(cache: &mut crate::Cache, bytes: usize, blocks: Vec<std::ptr::NonNull<u8>>) {
    for block in blocks {
        // SAFETY: allocated under this class from the same memory, freed once.
        unsafe { cache.free(block, SizeClass::of_bytes(bytes)) };
    }
}

#[test]
fn what_one_size_leaves_free_serves_every_other() {
    let memory = Memory::new(&MemoryConfig::default());
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
    let memory = Memory::new(&MemoryConfig::default());
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
    for block in blocks(&mut cache, 1000, 32 << 20) {
        // SAFETY: just allocated.
        unsafe { block.as_ptr().write_bytes(0xEE, 1000) };
    }
    for block in kept {
        // SAFETY: ours, written above.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), 120) };
        assert!(bytes.iter().all(|byte| *byte == 0xCD));
    }
}

#[test]
fn what_stays_empty_goes_back_to_the_system_and_what_is_used_again_does_not() {
    let memory = Memory::new(&MemoryConfig::default());
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
    for block in blocks(&mut cache, 4096, 24 << 20) {
        // SAFETY: just allocated.
        unsafe { block.as_ptr().write_bytes(1, 4096) };
    }
    assert!(memory.stats().chunk_bytes <= 36 << 20, "{:?}", memory.stats());
}

#[test]
fn what_was_touched_beforehand_is_kept() {
    let memory = Memory::new(&MemoryConfig::prefaulted(8 << 20));
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
    let memory = Memory::new(&MemoryConfig::prefaulted(1 << 20));
    for _ in 0..100 {
        let mut cache = memory.cache();
        for _ in 0..100 {
            cache.allocate(SizeClass::of_bytes(64));
        }
    }
    assert_eq!(memory.stats().chunk_bytes, 2 << 20);
}
