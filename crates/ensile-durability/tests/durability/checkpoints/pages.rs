//! Pages of the smallest state: runs of a few keys. What a commit displaces is left until its page is closed: to the
//! page, or beside the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use ensile_base::{Epoch, Tid};
use ensile_durability::{DisplacedBlock, PageContents, Pages, Slice};

use super::store::{KEYS, SECTIONS, Store, body, bound, key_of};

/// Keys of a page.
const PAGE_KEYS: u64 = 4;

/// The pages of one picture after the other.
#[derive(Debug)]
pub(crate) struct MadePages {
    /// What is displaced is left beside the pages.
    is_semi_fuzzy: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    picture: Option<Picture>,
    /// How many were begun, and ended.
    published: u64,
    ended: u64,
}

#[derive(Debug)]
struct Picture {
    /// The newest freeze when its pages were published.
    since: Epoch,
    /// Its pages that are closed, by section and first key.
    closed: BTreeSet<(u64, u64)>,
    /// What commits have left.
    left: BTreeMap<u64, (Tid, Vec<u8>)>,
}

fn page_of(key: u64) -> (u64, u64) {
    (key % SECTIONS, key - key % PAGE_KEYS)
}

impl MadePages {
    pub(crate) fn new(is_semi_fuzzy: bool) -> Self {
        Self { is_semi_fuzzy, state: Mutex::default() }
    }

    /// The number of the picture whose pages are published.
    pub(crate) fn under_way(&self) -> Option<u64> {
        let state = self.state.lock().expect("no panic");
        state.picture.as_ref().map(|_| state.published)
    }

    /// Pictures whose pages were published, and those of them that were ended.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock().expect("no panic");
        (state.published, state.ended)
    }

    /// A commit whose freeze is `freeze` displaces this version, and has seen the pages of picture `seen`.
    pub(crate) fn leave(&self, seen: u64, freeze: Epoch, (key, tid, value): (u64, Tid, &[u8])) {
        let mut state = self.state.lock().expect("no panic");
        let is_seen = state.published == seen;
        let Some(picture) = state.picture.as_mut().filter(|picture| is_seen && freeze > picture.since) else {
            return;
        };
        // Some commits are late beside the pages: they had seen the page open, and leave what stands in it too.
        let is_late = self.is_semi_fuzzy && key.is_multiple_of(3);
        if tid.epoch() < freeze && (is_late || !picture.closed.contains(&page_of(key))) {
            let before = picture.left.insert(key, (tid, value.to_vec()));
            assert!(before.is_none(), "N4: a key's version is left once");
        }
    }
}

impl Pages for Store {
    fn publish_pages(&self, _page_bytes: usize) -> Epoch {
        let pages = self.pages.as_ref().expect("it was asked for them");
        let mut state = pages.state.lock().expect("no panic");
        assert!(state.picture.is_none(), "N13: the pages of the attempt before were ended");
        let since = self.epochs().newest_freeze();
        state.picture = Some(Picture { since, closed: BTreeSet::new(), left: BTreeMap::new() });
        state.published += 1;
        self.epochs().now()
    }

    fn page_slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        let width = KEYS.div_ceil(parts as u64).next_multiple_of(PAGE_KEYS);
        let slice = |part: u64, section: u64| Slice {
            section: section as u32,
            from: bound(part * width),
            to: ((part + 1) * width < KEYS).then(|| bound((part + 1) * width)),
        };
        (0..parts as u64).map(|part| (0..SECTIONS).map(|section| slice(part, section)).collect()).collect()
    }

    fn take_page(&self, slice: &Slice, resume: &mut Vec<u8>, freeze: Epoch, page: &mut PageContents) -> bool {
        page.clear();
        let rows = self.rows.lock().expect("no panic");
        let pages = self.pages.as_ref().expect("it has published them");
        let mut state = pages.state.lock().expect("no panic");
        let Some(picture) = state.picture.as_mut().filter(|picture| freeze > picture.since) else {
            return false;
        };
        let (section, first) =
            (u64::from(slice.section), key_of(if resume.is_empty() { &slice.from } else { resume }));
        assert!(first.is_multiple_of(PAGE_KEYS), "slices are made of whole pages");
        assert!(picture.closed.insert((section, first)), "a page is taken once");
        let next = first + PAGE_KEYS;
        for key in (first..next).filter(|key| key % SECTIONS == section) {
            let walked = rows.get(&key).filter(|(tid, _)| tid.epoch() < freeze);
            let left = if pages.is_semi_fuzzy { None } else { picture.left.remove(&key) };
            let (tid, value) = match (walked, left) {
                (Some((tid, value)), None) => (*tid, value.clone().expect("a delete leaves nothing")),
                (None, Some(left)) => left,
                (None, None) => continue,
                (Some(_), Some(_)) => panic!("N4: what is left is older than what displaced it"),
            };
            page.push(tid, |out| out.extend_from_slice(&body(key, Some(&value))));
        }
        *resume = bound(next).to_vec();
        slice.to.as_deref().map_or(KEYS, key_of) > next
    }

    fn take_displaced(&self, freeze: Epoch, block: &mut DisplacedBlock<'_>) -> bool {
        let pages = self.pages.as_ref().expect("it has published them");
        let mut state = pages.state.lock().expect("no panic");
        let picture = state.picture.as_mut().filter(|picture| freeze > picture.since);
        let Some(picture) = picture.filter(|_| pages.is_semi_fuzzy) else { return false };
        let mut added = 0;
        // In no order of keys: the newest version first.
        while let Some((key, (tid, value))) = picture.left.iter().max_by_key(|(_, (tid, _))| *tid) {
            let (key, tid, body) = (*key, *tid, body(*key, Some(value)));
            if added == self.step_entries || !block.has_room(body.len()) {
                return true;
            }
            block.push((key % SECTIONS) as u32, tid, |out| out.extend_from_slice(&body));
            picture.left.remove(&key);
            added += 1;
        }
        false
    }

    fn end_pages(&self) {
        let mut state = self.pages.as_ref().expect("it has published them").state.lock().expect("no panic");
        if state.picture.take().is_some() {
            state.ended += 1;
        }
    }
}
