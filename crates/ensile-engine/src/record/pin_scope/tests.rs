//! What is kept under a pin: followed call after call, forgotten with the pin.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ensile_base::Tid;
use ensile_epoch::EpochConfig;
use ensile_index::NodeChanges;
use ensile_memory::{Memory, MemoryConfig};

use super::*;
use crate::garbage::RetiredNodes;
use crate::record::blocks::Blocks;
use crate::record::tid_word::Word;
use crate::record::tree::{RecordInsert, RecordLookup, RecordTree};
use crate::record::{Handle, Scratch, Seen};

/// Kept: records in two shapes, and a figure that has nothing to do with records.
#[derive(Debug, Default)]
struct Found<'p> {
    all: Vec<Handle<'p>>,
    last: Option<Handle<'p>>,
    calls: u32,
}

forgets!(Found: emptied [all], forgotten [last], free [calls]);

struct Findings;

impl Family for Findings {
    type Under<'p> = Found<'p>;
}

/// A tree with one record.
struct Home {
    epochs: Epochs,
    tree: RecordTree,
    blocks: Blocks,
    nodes: RetiredNodes,
}

const KEY: &[u8] = b"key";

fn in_call<R>(
    kept: &mut Kept<Findings>,
    call: impl for<'p> FnOnce(Pinned<'p>, &mut Found<'p>) -> R,
) -> Result<R, Expired> {
    kept.enter(|pinned, found| Ok(call(pinned, found)), Err)
}

impl Home {
    fn new() -> Self {
        let epochs = Epochs::new(&EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::MAX });
        let mut blocks = Blocks::new(Memory::new(&MemoryConfig::default()).cache());
        let mut nodes = RetiredNodes::default();
        let tree = RecordTree::new(&mut nodes.node_memory(&mut blocks, &epochs));
        let home = Self { epochs, tree, blocks, nodes };
        home.with_record()
    }

    fn with_record(mut self) -> Self {
        let record = self.blocks.create_record(b"value", Word::for_write(Tid::first_of(Epoch::FIRST)));
        let mut pin = self.epochs.register_pin();
        let call = pin.begin(self.epochs.now());
        let mut nodes = self.nodes.node_memory(&mut self.blocks, &self.epochs);
        let added =
            self.tree.insert_if_absent(KEY, record, &mut nodes, &mut NodeChanges::new(), call.pin_token());
        assert!(matches!(added, RecordInsert::Inserted(_)));
        drop(call);
        self
    }

    fn begin(&self) -> Kept<Findings> {
        Resting::new(self.epochs.register_pin(), Found::default()).begin(self.epochs.now())
    }

    /// Looks the key up in a call, and keeps its record.
    fn find(&self, kept: &mut Kept<Findings>) {
        let calls = in_call(kept, |pinned, found| {
            let RecordLookup::Found(record) = self.tree.get(KEY, pinned) else { panic!("it is there") };
            found.all.push(record.handle());
            found.last = Some(record.handle());
            found.calls += 1;
        });
        calls.expect("nobody expires it");
    }
}

#[test]
fn what_one_call_finds_another_one_follows_until_the_pin_ends() {
    let home = Home::new();
    let mut kept = home.begin();
    home.find(&mut kept);
    home.find(&mut kept);
    let read = in_call(&mut kept, |pinned, found| {
        let mut scratch = Scratch::default();
        let reads = found.all.iter().map(|record| record.resolve(pinned).read(&mut scratch));
        assert!(reads.into_iter().all(|seen| matches!(seen, Seen::Present(_))));
        scratch.bytes().to_vec()
    });
    assert_eq!(read.expect("nobody expires it"), b"value");
    kept.renew_after(&home.epochs, || ());
    kept.run_outside_call(|found| assert!(found.all.is_empty() && found.last.is_none() && found.calls == 2));
    home.find(&mut kept);
    let resting = kept.end();
    let found = resting.get();
    assert!(found.all.is_empty() && found.last.is_none() && found.calls == 3);
    let (pins, limit) = (home.epochs.scan().pins(), home.epochs.now());
    assert_eq!(pins, limit, "the pin holds nothing back");
}

#[test]
fn each_call_of_a_snapshot_has_forgotten_what_was_found_before() {
    let home = Home::new();
    let mut kept = home.begin();
    home.find(&mut kept);
    let (mut kept, opened) = kept.open_snapshot(&home.epochs);
    for _ in 0..2 {
        let found_before = kept.enter(home.epochs.now(), |pinned, boundary, found| {
            let before = found.all.len() + found.last.iter().count();
            let RecordLookup::Found(record) = home.tree.get(KEY, pinned) else { panic!("it is there") };
            found.all.push(record.handle());
            (boundary.epoch(), before)
        });
        assert_eq!(found_before, Ok((opened, 0)));
    }
    assert!(kept.end().get().all.is_empty());
}

#[test]
fn an_expired_pin_lets_no_call_in_and_what_it_found_is_forgotten_unseen() {
    let home = Home::new();
    let mut kept = home.begin();
    home.find(&mut kept);
    home.epochs.try_advance(Duration::from_secs(1).as_nanos() as u64);
    assert_eq!(home.epochs.expire(Epoch::MAX, Epoch::ZERO), 1);
    home.epochs.scan();
    assert!(in_call(&mut kept, |_, _| ()).is_err());
    kept.run_outside_call(|found| {
        assert_eq!((found.all.len(), found.calls), (1, 1), "only followed no more")
    });
    let mut kept = kept.end().begin(home.epochs.now());
    assert_eq!(
        in_call(&mut kept, |_, found| found.all.len()),
        Ok(0),
        "the next transaction begins with nothing"
    );
}

#[test]
fn a_call_that_panics_leaves_what_is_kept_and_its_pin() {
    let home = Home::new();
    let mut kept = home.begin();
    home.find(&mut kept);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        in_call(&mut kept, |_, found| {
            found.calls += 1;
            panic!("as asked");
        })
    }));
    assert!(panicked.is_err());
    let seen = in_call(&mut kept, |pinned, found| found.all[0].resolve(pinned).read(&mut Scratch::default()));
    assert!(matches!(seen, Ok(Seen::Present(_))));
}

#[test]
fn space_for_handles_keeps_its_allocation_and_nothing_else() {
    let home = Home::new();
    let mut space = HandleSpace::default();
    let mut kept = home.begin();
    let used = in_call(&mut kept, |pinned, _| {
        let RecordLookup::Found(record) = home.tree.get(KEY, pinned) else { panic!("it is there") };
        let mut handles = space.take();
        handles.resize(100, Some(record.handle()));
        let start = handles.as_ptr() as usize;
        space.put(handles);
        start
    });
    assert!(space.kept_bytes() >= 100 * size_of::<usize>());
    let again = in_call(&mut kept, |_, _| {
        let handles = space.take();
        assert!(handles.is_empty());
        handles.as_ptr() as usize
    });
    assert_eq!(used, again, "one allocation");
}
