//! Where the pages of installed pictures begin, and what becomes of them from one picture to the next. Lives in which
//! no page is kept, split or joined say nothing about marks, cuts and what a picture keeps (N5 to N7, N13, N17).
//!
//! Neighbours: `shuttle_simulation` and `crashes` read pictures from their disks, and ask at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ensile_durability::LoadedPages;
use ensile_durability::examination::CheckpointFacts;

/// The section of the catalogue (`docs/internals/formats/rows.md`), whose pages do not count here.
const CATALOGUE: u32 = 0;

/// The first keys of a picture's pages, by section.
type FirstKeys = BTreeMap<u32, BTreeSet<Vec<u8>>>;

/// Takes what a load says of pages.
#[derive(Debug, Default)]
pub(crate) struct LoadedFirstKeys(Mutex<FirstKeys>);

impl LoadedFirstKeys {
    /// The pages of one section.
    pub(crate) fn note(&self, pages: &LoadedPages<'_>) {
        let keys = pages.first_keys.iter().map(|key| key.to_vec()).collect();
        let before = self.0.lock().expect("no panic").insert(pages.section, keys);
        assert!(before.is_none(), "a load names each section once");
    }
}

/// The picture that was seen last.
#[derive(Debug, Default)]
pub(crate) struct LastPicture {
    number: u64,
    first_keys: FirstKeys,
    has_tails: bool,
}

/// What became of pages in all runs of this process. Only increments count: a picture that writes all pages may cut
/// them as it likes.
#[derive(Debug)]
pub(crate) struct PagesSeen {
    /// Pictures that kept a page of one before, of a table.
    increments: AtomicU64,
    /// Pages that they kept.
    kept: AtomicU64,
    /// Increments in which a page became several, or several became one.
    splits: AtomicU64,
    joins: AtomicU64,
    /// Pictures with versions in tails of pages, and increments behind one: pages that they keep may have such a tail,
    /// which is void (N10).
    with_tails: AtomicU64,
    behind_tails: AtomicU64,
}

impl PagesSeen {
    pub(crate) const fn new() -> Self {
        Self {
            increments: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            splits: AtomicU64::new(0),
            joins: AtomicU64::new(0),
            with_tails: AtomicU64::new(0),
            behind_tails: AtomicU64::new(0),
        }
    }

    /// Counts what an installed checkpoint has, if it is a picture and was not counted yet.
    pub(crate) fn count(&self, last: &mut LastPicture, checkpoint: &CheckpointFacts, keys: LoadedFirstKeys) {
        let Some(picture) = &checkpoint.picture else { return };
        if checkpoint.number <= last.number {
            return;
        }
        let first_keys = keys.0.into_inner().expect("no panic");
        let older = picture.ages.iter().filter(|age| age.checkpoint < checkpoint.number);
        let of_catalogue = picture.sections.iter().filter(|section| section.section == CATALOGUE);
        let of_catalogue: u64 = of_catalogue.map(|section| section.pages).sum();
        // That a page of the catalogue is kept says nothing: tables are hardly ever made.
        let kept = older.map(|age| age.pages).sum::<u64>().saturating_sub(of_catalogue);
        if kept > 0 {
            self.increments.fetch_add(1, SeqCst);
            self.kept.fetch_add(kept, SeqCst);
            self.splits.fetch_add(u64::from(has_split(&last.first_keys, &first_keys)), SeqCst);
            self.joins.fetch_add(u64::from(has_split(&first_keys, &last.first_keys)), SeqCst);
            self.behind_tails.fetch_add(u64::from(last.has_tails), SeqCst);
        }
        let has_tails = picture.displaced_tails > 0;
        self.with_tails.fetch_add(u64::from(has_tails), SeqCst);
        *last = LastPicture { number: checkpoint.number, first_keys, has_tails };
    }

    /// The least of what was seen: how many increments kept a page, split one and joined some, how many pictures had
    /// tails, and how many increments came behind one that had.
    pub(crate) fn least(&self) -> u64 {
        let [increments, kept, splits, joins] =
            [&self.increments, &self.kept, &self.splits, &self.joins].map(|count| count.load(SeqCst));
        let [with_tails, behind_tails] =
            [&self.with_tails, &self.behind_tails].map(|count| count.load(SeqCst));
        println!(
            "{increments} increments kept {kept} pages; pages were split in {splits} of them, and joined in {joins}; \
             {with_tails} pictures had versions in tails of pages, and {behind_tails} increments came behind one"
        );
        increments.min(splits).min(joins).min(with_tails).min(behind_tails)
    }
}

/// Whether some page of `before` is several pages of `after`: both of its ends are there, and others between them.
fn has_split(before: &FirstKeys, after: &FirstKeys) -> bool {
    let is_split = |before: &BTreeSet<Vec<u8>>, after: &BTreeSet<Vec<u8>>| {
        let ends = before.iter().skip(1).map(Some).chain([None]);
        before.iter().zip(ends).any(|(from, to)| {
            let has_both = after.contains(from) && to.is_none_or(|to| after.contains(to));
            let inner = (Excluded(from), to.map_or(Unbounded, Excluded));
            has_both && after.range::<Vec<u8>, _>(inner).next().is_some()
        })
    };
    let tables = before.iter().filter(|(section, _)| **section != CATALOGUE);
    tables.filter_map(|(section, before)| Some((before, after.get(section)?))).any(|(a, b)| is_split(a, b))
}
