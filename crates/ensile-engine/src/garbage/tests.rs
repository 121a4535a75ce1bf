//! Clean-up beside commits: one that holds the record's lock, and one that may stand on a version.

use std::time::Duration;

use ensile_base::sync::{AtomicBool, sleep};
use ensile_disk::Process;
use ensile_epoch::{Advance, EpochConfig};
use ensile_index::NodeChanges;
use ensile_memory::{Memory, MemoryConfig, SizeClass};

use super::*;
use crate::record::tree::{RecordLookup, RecordPlacing, RecordRun};

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
    garbage.add_unhook(epochs.now(), 0, KEY, absent, word, pinned);
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
    let pinned = call.pin_token();
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
            let taken = take_out(&unhook, &tree, worker.slot(), &epochs, call.pin_token());
            is_done.store(true, Ordering::Release);
            matches!(taken, Some(TakenOut::Removed(_)))
        });
        // It is bound as soon as it waits. The limit is for a cleaner that is never bound: a minute at least, as its
        // thread may begin late on a busy machine.
        let is_bound = (0..60_000).any(|_| {
            sleep(Duration::from_millis(1));
            worker.slot().bound_epoch().is_some()
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

/// However old a pin is, it holds back no page. A commit does that was bound when snapshots let the page go (V1).
#[test]
fn a_page_of_versions_waits_for_commits_and_for_no_pin() {
    let epochs = Epochs::new(&EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::ZERO });
    let mut blocks = Blocks::new(Memory::new(&MemoryConfig::default()).cache());
    let (mut garbage, tables, gate) = (Garbage::default(), Directory::new(), Gate::new(Process::current()));
    let (collector, committer) = (epochs.register_worker(), epochs.register_worker());
    let mut idle = epochs.register_pin();
    let idle = idle.begin(epochs.now());
    let mut nanos = 0;
    let mut advance = || {
        nanos += 1_000_000_000;
        let advanced = epochs.try_advance(nanos);
        epochs.scan();
        advanced
    };
    let mut room = Vec::new();
    let page = loop {
        if let Some(page) = blocks.full_page() {
            break page;
        }
        room.push(blocks.version(SizeClass::of_bytes(1_000), false));
    };
    let superseded = epochs.now();
    garbage.add_page(superseded, page);
    let mut collect = |garbage: &mut Garbage| {
        let commits = epochs.now().previous();
        let limits =
            EpochLimits { readers: epochs.limits(), unhooks: Epoch::ZERO, bare: Epoch::ZERO, commits };
        let horizon = Horizon { limits, epochs: &epochs, tables: &tables, gate: &gate, unhooked: None };
        garbage.collect(&mut blocks, collector.slot(), &horizon, idle.pin_token(), 100);
        garbage.len()
    };
    while epochs.limits().snapshots() <= superseded {
        assert_eq!(collect(&mut garbage), 1, "a snapshot may show a version in it");
        assert!(matches!(advance(), Advance::Advanced(_)));
    }
    // Bound before the page is let go: its walk may lead there.
    committer.slot().bind(epochs.now());
    assert_eq!(collect(&mut garbage), 1, "it waits as of now");
    assert!(matches!(advance(), Advance::Advanced(_)), "the commit is of the epoch before");
    assert!(matches!(advance(), Advance::Held(_)));
    assert_eq!(collect(&mut garbage), 1, "a commit may stand on a version in it");
    committer.slot().unbind();
    assert!(matches!(advance(), Advance::Advanced(_)));
    assert!(epochs.limits().pins() <= superseded, "the pin stands since then");
    assert_eq!(collect(&mut garbage), 0, "all commits of then have ended");
    assert_eq!(garbage.waiting_bytes().1.bytes, 0);
    drop(room);
}
