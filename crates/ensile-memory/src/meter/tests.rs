//! The room follows the count, and many caches leave less of it.

use super::{DELETES_EXCESS, MemoryMeter, MemoryRoom, WORKER_BYTES, WRITES_EXCESS};

#[test]
fn the_room_is_full_at_the_limit_and_exhausted_at_half_of_the_excess_more() {
    let meter = MemoryMeter::new(Some(1000));
    for (difference, room) in [
        (999, MemoryRoom::Open),
        (1, MemoryRoom::Full),
        (DELETES_EXCESS as i64 - 1, MemoryRoom::Full),
        (1, MemoryRoom::Exhausted),
        (-1, MemoryRoom::Full),
        (-(DELETES_EXCESS as i64), MemoryRoom::Open),
    ] {
        meter.count(difference);
        assert_eq!(meter.room(), room, "{:?}", meter.memory_use());
    }
}

#[test]
fn a_memory_without_a_limit_is_never_full() {
    let meter = MemoryMeter::new(None);
    meter.count(i64::MAX);
    assert_eq!((meter.room(), meter.bytes_max()), (MemoryRoom::Unlimited, None));
}

#[test]
fn room_is_set_aside_up_to_the_limit_and_no_further() {
    let meter = MemoryMeter::new(Some(1000));
    assert!(!meter.set_aside(1001));
    assert!(meter.set_aside(600));
    assert_eq!(meter.bytes(), 600);
    assert!(!meter.set_aside(401));
    assert!(meter.set_aside(400));
    assert_eq!(meter.room(), MemoryRoom::Full);
}

/// The excess is the same whatever the number of caches: what they may have beyond a look is taken off the limit.
#[test]
fn many_caches_are_full_below_the_limit() {
    let limit = 1 << 30;
    let free = WRITES_EXCESS / WORKER_BYTES;
    for caches in [1, free, free + 1, 10 * free] {
        let meter = MemoryMeter::new(Some(limit));
        (0..caches).for_each(|_| meter.add_cache());
        let off = caches.saturating_sub(free) * WORKER_BYTES;
        meter.count((limit - off) as i64 - 1);
        assert_eq!(meter.room(), MemoryRoom::Open, "{caches} caches");
        meter.count(1);
        assert_eq!(meter.room(), MemoryRoom::Full, "{caches} caches");
        let writes = meter.bytes() + caches * WORKER_BYTES;
        assert!(writes <= limit + WRITES_EXCESS, "{caches} caches");
        (0..caches).for_each(|_| meter.remove_cache(0));
        assert_eq!(meter.room() == MemoryRoom::Open, off > 0, "{caches} caches");
    }
}
