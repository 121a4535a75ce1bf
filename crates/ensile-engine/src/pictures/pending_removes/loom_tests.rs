//! Loom on the shipped lists of a page and of a worker, beside the shipped record: N3, N8 and N9, from both sides.
//!
//! A commit of an epoch from the freeze on changes a row while a checkpointer takes the row's page. The tests repeat
//! the steps of commit and checkpointer. The order of the steps is the shipped order (`leave_before`,
//! `leave_beside_before`, `close_behind`).

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;

use ensile_base::sync::Arc;
use loom::thread;

use super::*;
use crate::commit::serialization_point;
use crate::record::Scratch;
use crate::record::loom_tests::{Block, SHORT, epochs, lock, tid};
use crate::record::tid_word::Word;

// Counts over all runs of a model, which loom must not know.

/// Versions below it are the picture's.
const FREEZE: Epoch = Epoch::new(2);

/// A version in memory that stays: loom's runs are short.
fn copy_of(tid: Tid, value: &[u8]) -> PendingRemove {
    let words = PendingRemove::class(0, value.len()).bytes().div_ceil(size_of::<u64>());
    let block = NonNull::from(Box::leak(vec![0_u64; words].into_boxed_slice())).cast();
    // SAFETY: the block was just allocated, in words, for a row of these lengths.
    unsafe { PendingRemove::begin(block, RemovePlace { table: 1, since: Epoch::FIRST }, tid, &[], value) }
}

/// A commit of the freeze's epoch. The commit leaves the displaced version before it changes the row: to the worker's
/// list if `own` is given.
fn displace(block: &Block, page: &PageState, own: Option<&WorkerList>) {
    let (record, epochs) = (block.record(), epochs());
    let before = lock(record);
    let _ = serialization_point(&epochs, true);
    let change = || {
        record.overwrite(b"xy");
        record.unlock_with(Word::for_write(tid(FREEZE.number())));
    };
    if page.is_closed_with(PageMarks::AFTER) || page.is_closed() {
        return change();
    }
    // The list takes it, or it comes back; loom's memory stays.
    let version = copy_of(before.tid(), &SHORT);
    let (_taken, ()) = match own {
        None => page.leave_before(version, change),
        Some(own) => page.leave_beside_before(own, version, change),
    };
}

/// The versions of the row that a checkpointer finds: by the walk, in the page's list, and in the worker's list.
fn take(
    block: &Block,
    page: &PageState,
    worker: Option<&WorkerList>,
) -> (Option<(Tid, Vec<u8>)>, Vec<(Tid, Vec<u8>)>) {
    let mut scratch = Scratch::default();
    let (walked, list) = page.close_behind(|| block.record().read_older(FREEZE, &mut scratch));
    let list = list.into_iter().chain(worker.and_then(WorkerList::take)).flatten();
    let walked = walked.map(|word| (word.tid(), scratch.bytes().to_vec()));
    (walked, list.map(|left| (left.tid(), left.value().to_vec())).collect())
}

#[test]
fn loom_n3_n8_a_version_below_the_freeze_is_walked_or_left() {
    walked_or_left(PageMarks::NONE, || None);
}

/// The commit reads mark and close in one load, and finds the mark.
#[test]
fn loom_n3_n8_a_version_below_the_freeze_is_walked_or_left_in_a_page_with_its_mark() {
    walked_or_left(PageMarks::AFTER, || None);
}

/// The checkpointer takes the list once, right behind the close. No thread waits for the commit.
#[test]
fn loom_n3_n9_a_version_below_the_freeze_is_walked_or_in_the_workers_list() {
    walked_or_left(PageMarks::NONE, || Some(Arc::default()));
}

fn walked_or_left(marks: PageMarks, list: fn() -> Option<Arc<WorkerList>>) {
    let outcomes: StdArc<[AtomicUsize; 3]> = StdArc::default();
    let counted = outcomes.clone();
    loom::model(move || {
        let (block, page, own) = (Block::new(&SHORT, 1), Arc::new(PageState::new(marks)), list());
        let writer = {
            let (block, page, own) = (block.clone(), page.clone(), own.clone());
            thread::spawn(move || displace(&block, &page, own.as_deref()))
        };
        let (walked, left) = take(&block, &page, own.as_deref());
        let version = (tid(1), SHORT.to_vec());
        assert!(walked.is_some() || !left.is_empty(), "the version is nowhere");
        assert!(left.len() <= 1 && walked.iter().chain(&left).all(|found| *found == version));
        let outcome = usize::from(walked.is_some()) + 2 * left.len() - 1;
        // Relaxed: figures.
        counted[outcome].fetch_add(1, Ordering::Relaxed);
        writer.join().unwrap();
    });
    // Relaxed: the model is over.
    let explored = outcomes.each_ref().map(|outcome| outcome.load(Ordering::Relaxed));
    assert!(explored.iter().all(|runs| *runs > 0), "walked, left, and both: {explored:?}");
}

/// Two commits of one page: neither push loses the other's.
#[test]
fn loom_n8_of_two_versions_none_is_lost() {
    loom::model(|| {
        let page = Arc::new(PageState::new(PageMarks::NONE));
        let push = |page: &PageState, epoch| page.leave_before(copy_of(tid(epoch), &SHORT), || ()).0.is_ok();
        let other = {
            let page = page.clone();
            thread::spawn(move || push(&page, 1))
        };
        let closer = {
            let page = page.clone();
            thread::spawn(move || {
                let ((), list) = page.close_behind(|| ());
                list.expect("nobody else closes the page").map(|left| left.tid()).collect::<Vec<_>>()
            })
        };
        let own = push(&page, 2);
        let (other, mut list) = (other.join().unwrap(), closer.join().unwrap());
        list.sort_unstable();
        let pushed = [(other, tid(1)), (own, tid(2))];
        let expected: Vec<_> = pushed.iter().filter(|(pushed, _)| *pushed).map(|(_, tid)| *tid).collect();
        assert_eq!(list, expected, "what was taken is what was pushed");
    });
}

/// A worker pushes twice while two checkpointers take its list: each version is found once.
#[test]
fn loom_n9_a_workers_versions_are_taken_once() {
    loom::model(|| {
        let (page, own) = (PageState::new(PageMarks::NONE), Arc::new(WorkerList::default()));
        let take =
            |own: &WorkerList| own.take().into_iter().flatten().map(|left| left.tid()).collect::<Vec<_>>();
        let takers = [0; 2].map(|_| {
            let own = own.clone();
            thread::spawn(move || take(&own))
        });
        for epoch in [1, 2] {
            let (pushed, ()) = page.leave_beside_before(&own, copy_of(tid(epoch), &SHORT), || ());
            assert!(pushed.is_ok(), "nobody closes the page");
        }
        let mut taken: Vec<_> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        taken.extend(take(&own));
        taken.sort_unstable();
        assert_eq!(taken, [tid(1), tid(2)]);
    });
}
