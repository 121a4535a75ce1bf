//! Loom on the shipped maps of a table: N7, a commit that marks a map while another one takes its place and gets its
//! marks.
//!
//! The steps of a commit, and of a picture's beginning, are repeated here; maps, marks, epochs and fences are the
//! shipped ones.

// Counts over all runs of a model, which loom must not know.
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;

use ensile_durability::PictureAttempt;
use loom::thread;

use super::*;
use crate::commit::serialization_point;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::page_map::{PageMap, PictureOfMaps};
use crate::pictures::pending_removes::PageMarks;
use crate::record::loom_tests::{MILLI, epochs, pinned};

fn map(attempt: u64) -> PageMap {
    let picture = PictureOfMaps::new(PictureAttempt::new(attempt), Epoch::FIRST);
    PageMap::new(&picture, PageBounds::default(), PageMarks::NONE)
}

#[test]
fn loom_n7_a_mark_is_carried_over_whenever_it_was_set() {
    let outcomes: StdArc<[AtomicUsize; 2]> = StdArc::default();
    let counted = outcomes.clone();
    loom::model(move || {
        let (epochs, table) = (epochs(), Arc::new(TablePages::new(Some(map(1)), &Arc::default())));
        let worker = epochs.register_worker();
        let committer = {
            let (epochs, table) = (epochs.clone(), table.clone());
            thread::spawn(move || {
                worker.bind(epochs.now());
                let _ = serialization_point(&epochs, false);
                table.load(pinned()).expect("one is published").page(0).mark(PageMarks::BEFORE);
                worker.unbind();
                worker
            })
        };
        table.publish(map(2), true, &epochs);
        // SeqCst: the map comes before E is read, as in `publish_pages`; partner: the commit's fence behind its
        // binding.
        fence(Ordering::SeqCst);
        let published = epochs.now();
        for step in 1..=2 {
            let _ = epochs.try_advance(step * MILLI);
        }
        let is_carried_over = epochs.now() >= published.plus(2);
        if is_carried_over {
            table.carry_over(PageMarks::BOTH, &epochs, pinned());
        }
        let _worker = committer.join().unwrap();
        let next = table.load(pinned()).expect("one is published");
        assert!(
            !is_carried_over || next.page(0).has_any(PageMarks::BEFORE),
            "the mark is in no map that counts"
        );
        // Relaxed: figures.
        counted[usize::from(is_carried_over)].fetch_add(1, Ordering::Relaxed);
    });
    // Relaxed: the model is over.
    let explored = outcomes.each_ref().map(|outcome| outcome.load(Ordering::Relaxed));
    assert!(explored.iter().all(|runs| *runs > 0), "the commit was waited for, or was not: {explored:?}");
}
