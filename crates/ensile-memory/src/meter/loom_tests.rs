//! Two threads count across the limit.

use super::{MemoryMeter, MemoryRoom};
use ensile_base::sync::Arc;

#[test]
fn loom_the_room_is_of_the_last_count_whoever_counts() {
    loom::model(|| {
        let meter = Arc::new(MemoryMeter::new(Some(10)));
        meter.count(8);
        let other = Arc::clone(&meter);
        let thread = loom::thread::spawn(move || other.count(-4));
        meter.count(4);
        thread.join().expect("no panic");
        assert_eq!((meter.bytes(), meter.room()), (8, MemoryRoom::Open));
    });
}

#[test]
fn loom_two_writers_set_the_same_room_aside_once() {
    loom::model(|| {
        let meter = Arc::new(MemoryMeter::new(Some(10)));
        let other = Arc::clone(&meter);
        let thread = loom::thread::spawn(move || other.set_aside(6));
        let own = meter.set_aside(6);
        let others = thread.join().expect("no panic");
        assert!(own != others, "one of two has the room");
        assert_eq!(meter.bytes(), 6);
    });
}
