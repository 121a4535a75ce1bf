//! The version word: under loom the shipped type with every order of memory, otherwise its arithmetic.

#[cfg(loom)]
mod loomed {
    use ensile_base::sync::{Ordering, fence};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use crate::seqlock_word::{GuardedPtr, GuardedU64};
    use crate::version::{Version, VersionWord};

    struct Node {
        version: VersionWord,
        left: GuardedU64,
        right: GuardedU64,
    }

    fn node() -> Arc<Node> {
        Arc::new(Node {
            version: VersionWord::new(Version::leaf(true)),
            left: GuardedU64::new(0),
            right: GuardedU64::new(0),
        })
    }

    /// The first change of a node, unless another was first. Locks at the version that is known, as loom explores too
    /// little of what others do before a thread's exchange when the thread has loaded the same word just before it.
    fn change(node: &Node) -> bool {
        let Some(mut held) = node.version.try_lock(Version::leaf(true)) else { return false };
        held.begin_change();
        let value = node.left.read() + 1;
        node.left.write(value);
        node.right.write(value);
        true
    }

    #[test]
    fn what_a_reader_validates_is_one_state() {
        loom::model(|| {
            let node = node();
            let writer = {
                let node = node.clone();
                thread::spawn(move || assert!(change(&node)))
            };
            // One look only: a reader that would wait for the writer makes loom's search endless.
            if let Some(seen) = node.version.at_rest() {
                let (left, right) = (node.left.read(), node.right.read());
                if node.version.is_unchanged(seen) {
                    assert_eq!(left, right, "a torn read was validated");
                    assert_eq!(left == 1, seen != Version::leaf(true), "a version names another state");
                }
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn a_lock_at_a_version_is_a_lock_on_what_was_read() {
        loom::model(|| {
            let node = node();
            let other = {
                let node = node.clone();
                thread::spawn(move || change(&node))
            };
            let mine = node.version.at_rest().is_some_and(|seen| {
                let left = node.left.read();
                node.version.try_lock(seen).is_some_and(|mut held| {
                    assert_eq!(node.left.read(), left, "the lock was had at another state");
                    held.begin_change();
                    node.left.write(left + 1);
                    node.right.write(left + 1);
                    true
                })
            });
            let other = other.join().unwrap();
            let changes = u64::from(mine) + u64::from(other);
            assert_eq!((node.left.read(), node.right.read()), (changes, changes), "no change is lost");
        });
    }

    /// A value published outside a change carries what it points to (`GuardedU64::publish`).
    #[test]
    fn a_published_value_brings_its_record() {
        loom::model(|| {
            let node = node();
            let record = Arc::new(GuardedU64::new(0));
            let writer = {
                let (node, record) = (node.clone(), record.clone());
                thread::spawn(move || {
                    record.write(7);
                    let held = node.version.try_lock(Version::leaf(true)).expect("no other writer");
                    node.left.publish(1);
                    drop(held);
                })
            };
            if let Some(seen) = node.version.at_rest() {
                let value = node.left.read();
                if node.version.is_unchanged(seen) && value == 1 {
                    assert_eq!(record.read(), 7, "the record behind the value is not seen");
                }
            }
            writer.join().unwrap();
        });
    }

    /// A lock and its release without a change leave the version as it was. A thread that locks at that version still
    /// sees what was published under the other lock (`Masstree::replace`).
    #[test]
    fn no_published_value_is_lost_between_two_locks_at_one_version() {
        loom::model(|| {
            let node = node();
            let count = |node: &Node| {
                let held = node.version.try_lock(Version::leaf(true));
                if held.is_some() {
                    node.left.publish(node.left.read() + 1);
                }
                u64::from(held.is_some())
            };
            let other = {
                let node = node.clone();
                thread::spawn(move || count(&node))
            };
            let mine = count(&node);
            let other = other.join().unwrap();
            assert_eq!(node.left.read(), mine + other, "a count is lost");
        });
    }

    /// C1 and C4: two transactions, each of which inserts where the other has missed, do not both find their witness
    /// as it was.
    #[test]
    fn of_two_inserts_into_each_others_gaps_one_is_seen() {
        loom::model(|| {
            let (left, right) = (node(), node());
            let witness = Version::leaf(true).bits();
            let commit = move |own: Arc<Node>, other: Arc<Node>| {
                assert!(change(&own));
                // SeqCst: the commit's fence between its last lock and its validation; partner: itself, over there.
                fence(Ordering::SeqCst);
                other.version.is_exactly(witness)
            };
            let first = {
                let (left, right) = (left.clone(), right.clone());
                thread::spawn(move || commit(left, right))
            };
            let second = commit(right, left);
            assert!(!(first.join().unwrap() && second), "both have missed the other's insert");
        });
    }

    /// A suffix block that replaces another one is read before the version is validated (`GuardedPtr::read_to_follow`).
    #[test]
    fn a_published_pointer_brings_what_it_points_to() {
        struct Bagged {
            version: VersionWord,
            suffixes: GuardedPtr<UnsafeCell<u64>>,
        }
        loom::model(|| {
            let leaf = Arc::new(Bagged {
                version: VersionWord::new(Version::leaf(true)),
                suffixes: GuardedPtr::new(std::ptr::null_mut()),
            });
            let writer = {
                let leaf = leaf.clone();
                thread::spawn(move || {
                    let held = leaf.version.try_lock(Version::leaf(true)).expect("no other writer");
                    leaf.suffixes.publish(Box::into_raw(Box::new(UnsafeCell::new(7))));
                    drop(held);
                })
            };
            // SAFETY: what was published stands until both threads are done with it.
            if let Some(suffixes) = unsafe { leaf.suffixes.read_to_follow().as_ref() } {
                // SAFETY: loom checks that the block was made before.
                suffixes.with(|value| assert_eq!(unsafe { *value }, 7));
            }
            writer.join().unwrap();
            // SAFETY: made by `Box::into_raw` in the writer, which is done, as are we.
            drop(unsafe { Box::from_raw(leaf.suffixes.read()) });
        });
    }

    /// A skip: its bytes never change, and its root is exchanged without a change of the leaf.
    struct Skip {
        bytes: UnsafeCell<u64>,
        root: GuardedPtr<UnsafeCell<u64>>,
    }

    struct Linked {
        version: VersionWord,
        value: GuardedPtr<Skip>,
    }

    fn root(number: u64) -> *mut UnsafeCell<u64> {
        Box::into_raw(Box::new(UnsafeCell::new(number)))
    }

    #[test]
    fn a_skip_that_a_validated_slot_names_is_seen_whole_and_so_is_its_root() {
        loom::model(|| {
            let leaf = Arc::new(Linked {
                version: VersionWord::new(Version::leaf(true)),
                value: GuardedPtr::new(std::ptr::null_mut()),
            });
            let writer = {
                let leaf = leaf.clone();
                thread::spawn(move || {
                    let first = root(1);
                    let skip = Skip { bytes: UnsafeCell::new(7), root: GuardedPtr::new(first) };
                    let skip = Box::into_raw(Box::new(skip));
                    let mut held = leaf.version.try_lock(Version::leaf(true)).expect("no other writer");
                    held.begin_change();
                    leaf.value.write(skip);
                    let linked = held.version_after();
                    drop(held);
                    let held = leaf.version.try_lock(linked).expect("no other writer");
                    let second = root(2);
                    // SAFETY: it was made above, and stands until both threads are done with it.
                    unsafe { (*skip).root.publish(second) };
                    drop(held);
                    (first, second)
                })
            };
            if let Some(seen) = leaf.version.at_rest() {
                let value = leaf.value.read();
                if leaf.version.is_unchanged(seen)
                    // SAFETY: what was linked stands until both threads are done with it.
                    && let Some(skip) = unsafe { value.as_ref() }
                {
                    // SAFETY: loom checks that the skip was made before.
                    skip.bytes.with(|bytes| assert_eq!(unsafe { *bytes }, 7));
                    // SAFETY: a skip's root is never null, and both stand until both threads are done.
                    let root = unsafe { &*skip.root.read_to_follow() };
                    // SAFETY: loom checks that the root was made before.
                    root.with(|root| assert!([1, 2].contains(unsafe { &*root })));
                }
            }
            let (first, second) = writer.join().unwrap();
            // SAFETY: made by `Box::into_raw` in the writer, which is done, as are we.
            drop(unsafe { (Box::from_raw(leaf.value.read()), Box::from_raw(first), Box::from_raw(second)) });
        });
    }
}

#[cfg(not(any(loom, shuttle)))]
mod plain {
    use crate::version::{Version, VersionWord};

    #[test]
    fn a_change_moves_the_version_and_a_bare_lock_does_not() {
        let word = VersionWord::new(Version::leaf(true));
        let seen = word.stable();
        let held = word.try_lock(seen).expect("free");
        assert!(!word.is_exactly(seen.bits()), "a locked node vouches for nothing");
        assert!(word.is_unchanged(seen), "a lock does not disturb readers");
        assert!(word.try_lock(seen).is_none());
        drop(held);
        assert!(word.is_exactly(seen.bits()));

        let mut held = word.try_lock(seen).expect("free");
        held.begin_change();
        assert!(!word.is_unchanged(seen) && !word.is_exactly(seen.bits()));
        let after = held.version_after();
        drop(held);
        assert!(word.is_exactly(after.bits()) && word.try_lock(seen).is_none());
    }

    #[test]
    fn flags_and_keys_stay_apart_from_the_counter() {
        let word = VersionWord::new(Version::internal(true, true));
        for keys in [1, 15, 0, 7] {
            let mut held = word.try_lock_now().expect("free");
            held.begin_change();
            held.set_keys(keys);
            drop(held);
            let seen = word.stable();
            assert_eq!(seen.keys(), keys);
            assert!(seen.is_root() && !seen.is_leaf() && !seen.is_deleted() && seen.is_above_leaves());
        }
        let mut held = word.try_lock_now().expect("free");
        held.begin_change();
        held.set_root(false);
        held.set_deleted();
        drop(held);
        let seen = word.stable();
        assert!(!seen.is_root() && seen.is_deleted() && !seen.is_live_root() && seen.keys() == 7);
    }
}
