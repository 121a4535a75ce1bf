//! Clean-up beside a commit that holds the record's lock.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, Ordering, sleep};
use ensile_epoch::{Advance, EpochConfig, Epochs, Pinned};
use ensile_index::NodeChanges;
use ensile_memory::{Memory, MemoryConfig};

use super::{Garbage, RetiredNodes, TakenOut, Unhook, take_out};
use crate::record::blocks::Blocks;
use crate::record::tree::{RecordLookup, RecordPlacing, RecordRun, RecordTree};

const KEY: &[u8] = b"key";

/// A placeholder that nobody filled, registered to be unhooked.
fn absent<'p>(
    tree: &RecordTree,
    blocks: &mut Blocks,
    garbage: &mut Garbage,
    epochs: &Epochs,
    pinned: Pinned<'p>,
) -> Unhook {
    let placeholder = blocks.placeholder(8);
    let mut retired = RetiredNodes::default();
    let (mut nodes, mut changes) = (retired.node_memory(blocks, epochs), NodeChanges::new());
    let placed = RecordRun::new(tree).place(KEY, placeholder, &mut nodes, &mut changes, pinned);
    let RecordPlacing::Placed(record, absent, _) = placed else { panic!("the tree is empty") };
    let word = record.word();
    garbage.unhook(epochs.now(), (0, KEY), (absent, word), pinned);
    garbage.unhooks.pop_below(Epoch::MAX).expect("it was registered")
}

/// Were the cleaner not bound, a bound commit that waits for the record's lock would wait for a thread that nothing
/// shows, and the epoch would move by any number meanwhile.
#[test]
fn clean_up_is_bound_while_it_waits_for_a_record_and_holds_it() {
    let epochs = Epochs::new(&EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::MAX });
    let mut blocks = Blocks::new(Memory::new(&MemoryConfig::default()).cache());
    let mut garbage = Garbage::default();
    let tree = RecordTree::new(&mut RetiredNodes::default().node_memory(&mut blocks, &epochs));
    let worker = epochs.register_worker();
    let mut pin = epochs.register_pin();
    let call = pin.begin(epochs.now());
    let pinned = call.pinned();
    let unhook = absent(&tree, &mut blocks, &mut garbage, &epochs, pinned);
    let mut nanos = 0;
    let mut advance = || {
        nanos += 1_000_000_000;
        epochs.try_advance(nanos)
    };
    let RecordLookup::Found(record) = tree.get(KEY, pinned) else { panic!("the placeholder is there") };
    let word = record.lock();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            let mut pin = epochs.register_pin();
            let call = pin.begin(epochs.now());
            let taken = take_out(&unhook, &tree, worker.slot(), &epochs, call.pinned());
            is_done.store(true, Ordering::Release);
            matches!(taken, Some(TakenOut::Removed(_)))
        });
        // It is bound as soon as it waits. The limit is for a cleaner that is never bound.
        let is_bound = (0..20_000).any(|_| {
            sleep(Duration::from_millis(1));
            worker.slot().bound().is_some()
        });
        if !is_bound {
            record.unlock_with(word);
        }
        assert!(is_bound, "clean-up waits for a record's lock unbound");
        assert!(matches!(advance(), Advance::Advanced(_)), "it is bound to the present epoch");
        assert!(matches!(advance(), Advance::Held(_)), "the next epoch waits for the record's lock");
        assert!(!is_done.load(Ordering::Acquire), "the record is locked");
        record.unlock_with(word);
        assert!(cleaner.join().expect("no panic"), "the record was still the registered one");
    });
    assert!(matches!(advance(), Advance::Advanced(_)), "the binding ended with the lock");
    assert!(matches!(tree.get(KEY, pinned), RecordLookup::Missing(_)));
}
