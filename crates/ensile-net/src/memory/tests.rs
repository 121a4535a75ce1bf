//! Counts of a loop and of all: within the limit, in blocks, and all given back.

use ensile_base::sync::Arc;

use super::{ConnectionMemory, LoopMemory, MemoryAccount, MemoryFit};

fn account(shared: &Arc<ConnectionMemory>) -> MemoryAccount {
    MemoryAccount::new(&LoopMemory::new(Arc::clone(shared)), 10)
}

#[test]
fn w16_what_is_counted_is_within_the_limit_and_goes_back() {
    let shared = ConnectionMemory::new(1000);
    let (mut one, mut other) = (account(&shared), account(&shared));
    one.set(10);
    assert_eq!(shared.bytes(), 0, "what each may have by itself does not count");
    assert!(one.try_set(910) && shared.bytes() >= 900);
    assert!(other.has_some() && !other.try_set(200));
    assert_eq!(other.fits(200, 200), MemoryFit::Later, "W16");
    assert_eq!(other.fits(1011, 1011), MemoryFit::Never, "W16");
    assert_eq!(other.fits(1011, 900), MemoryFit::Later, "W16: its replies go");
    assert!(other.try_set(110), "W16: a hundred are free");
    assert!(!other.has_some() && account(&shared).has_some());
    one.set(500);
    assert_eq!(other.fits(200, 200), MemoryFit::Fits, "what one loop gives back another may have");
    other.set(1100);
    assert_eq!(shared.bytes(), 490 + 1090, "a reply that was carried out is counted");
    assert!(!one.has_some());
    drop((one, other));
    assert_eq!(shared.bytes(), 0, "W16: all is given back");
}

#[test]
fn a_loop_takes_blocks_and_keeps_few() {
    let shared = ConnectionMemory::new(256 << 20);
    let mut one = account(&shared);
    one.set(100);
    assert_eq!(shared.bytes(), 1 << 20);
    (0..1000).for_each(|bytes| one.set(100 + bytes * 1000));
    assert_eq!(shared.bytes(), 1 << 20, "within a block nothing is taken");
    one.set(100 << 20);
    one.set(100);
    assert!(shared.bytes() <= 3 << 20, "{}", shared.bytes());
    one.set(0);
    assert_eq!(shared.bytes(), 0);
}

#[test]
fn no_limit_is_none() {
    let shared = ConnectionMemory::new(usize::MAX);
    let mut one = account(&shared);
    assert!(one.try_set(usize::MAX / 2) && one.has_some());
    one.set(0);
}
