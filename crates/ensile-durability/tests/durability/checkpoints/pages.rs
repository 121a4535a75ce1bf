//! Pages of the smallest state: runs of a few keys. What a commit displaces is left until its page is closed: to the
//! page, or beside the pages.
//!
//! A page has changed if it has a change that the installed picture does not show, or was cut anew since then. Runs of
//! such pages are cut anew for each picture; a page that has not changed keeps its bounds.

use std::collections::BTreeSet;

use crate::prelude::*;

/// Keys of a page, of one picture after the other.
const PAGE_KEYS: [u64; 3] = [4, 2, 8];

/// The pages of one picture after the other.
#[derive(Debug)]
pub(crate) struct MadePages {
    /// What is displaced is left beside the pages.
    is_semi_fuzzy: bool,
    state: Mutex<State>,
    /// Versions that nothing displaced, and that the next picture gets beside its pages all the same.
    planted: Mutex<Vec<(u64, Tid, Vec<u8>)>>,
}

#[derive(Debug, Default)]
struct State {
    picture: Option<Picture>,
    /// How many were begun, and ended.
    published: u64,
    ended: u64,
    /// The one that was installed last, and its e_c.
    installed: u64,
    shown: Epoch,
    /// Where pages begin, by section, and with which key.
    bounds: BTreeSet<(u64, u64)>,
    /// The newest change of each key, deletes too.
    changed: BTreeMap<u64, Epoch>,
    /// Pages that were cut anew since a picture was installed.
    cut_anew: BTreeSet<(u64, u64)>,
}

impl State {
    /// The picture, if this attempt at it is under way.
    fn of(&mut self, attempt: PictureAttempt) -> Result<&mut Picture, PagesEnded> {
        let is_newest = attempt.number() == self.published;
        self.picture.as_mut().filter(|_| is_newest).ok_or(PagesEnded::Ended)
    }

    /// The page of a key.
    fn page_of(&self, key: u64) -> (u64, u64) {
        let section = key % SECTIONS;
        let mut before = self.bounds.range((section, 0)..=(section, key));
        *before.next_back().expect("a section's first page begins with its first key")
    }

    /// Where the page behind this one begins, or the section ends.
    fn end_of(&self, (section, first): (u64, u64)) -> u64 {
        self.bounds.range((section, first + 1)..(section, KEYS)).next().map_or(KEYS, |next| next.1)
    }

    /// Cuts runs of pages that are wanted anew; the others stay.
    fn cut(&mut self) {
        let wanted = self.picture.as_ref().expect("one is under way").wanted;
        let is_wanted = |state: &Self, page: (u64, u64)| {
            let end = state.end_of(page);
            let is_new = |key: u64| state.changed.get(&key).is_some_and(|epoch| *epoch > state.shown);
            let is_cut_anew = state.cut_anew.contains(&page);
            wanted == WantedPages::All
                || is_cut_anew
                || (page.1..end).any(|key| key % SECTIONS == page.0 && is_new(key))
        };
        let all: Vec<(u64, u64)> = self.bounds.iter().copied().collect();
        let (mut cut, mut dealt) = (BTreeSet::new(), BTreeSet::new());
        let width = PAGE_KEYS[self.published as usize % PAGE_KEYS.len()];
        let mut runs: Vec<(u64, u64, u64)> = Vec::new();
        for page in all {
            let end = self.end_of(page);
            match runs.last_mut().filter(|run| (run.0, run.2) == page) {
                _ if !is_wanted(self, page) => _ = cut.insert(page),
                Some(run) => run.2 = end,
                None => runs.push((page.0, page.1, end)),
            }
        }
        for (section, from, to) in runs {
            let begins = |key: &u64| *key == from || key.is_multiple_of(width);
            dealt.extend((from..to).filter(begins).map(|key| (section, key)));
        }
        cut.extend(&dealt);
        self.cut_anew.clone_from(&dealt);
        self.bounds = cut;
        let picture = self.picture.as_mut().expect("one is under way");
        picture.closed = self.bounds.difference(&dealt).copied().collect();
        picture.dealt = dealt;
    }
}

#[derive(Debug)]
struct Picture {
    /// The newest freeze when its pages were published.
    since: Epoch,
    /// E, read behind the publication.
    published: Epoch,
    /// Marks were carried over.
    is_marked: bool,
    wanted: WantedPages,
    /// Pages that are to be taken.
    dealt: BTreeSet<(u64, u64)>,
    /// Its pages that are closed, by section and first key.
    closed: BTreeSet<(u64, u64)>,
    /// What commits have left.
    left: BTreeMap<u64, (Tid, Vec<u8>)>,
}

impl MadePages {
    pub(crate) fn new(is_semi_fuzzy: bool) -> Self {
        let bounds = (0..SECTIONS).map(|section| (section, 0)).collect();
        let state = Mutex::new(State { bounds, ..State::default() });
        Self { is_semi_fuzzy, state, planted: Mutex::default() }
    }

    /// Puts this version beside the pages of the next picture.
    pub(crate) fn leave_another(&self, key: u64, tid: Tid, value: Vec<u8>) {
        self.planted.lock().expect("no panic").push((key, tid, value));
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

    /// The number of the picture that was installed last, as its pages were told.
    pub(crate) fn installed(&self) -> u64 {
        self.state.lock().expect("no panic").installed
    }

    /// The picture that is loaded shows the end of `epoch`, and has these pages of the section, some of which are to be
    /// moved.
    pub(crate) fn load(
        &self,
        section: u64,
        (first_keys, to_move): (impl Iterator<Item = u64>, impl Iterator<Item = u64>),
        epoch: Epoch,
    ) {
        let mut state = self.state.lock().expect("no panic");
        state.bounds.retain(|bound| bound.0 != section);
        state.bounds.extend(first_keys.map(|key| (section, key)));
        state.cut_anew.extend(to_move.map(|key| (section, key)));
        state.shown = epoch;
    }

    /// The page of this key lacks its row on the disk.
    pub(crate) fn mark_loaded(&self, key: u64) {
        let shown = self.state.lock().expect("no panic").shown;
        self.mark(key, shown.next());
    }

    /// A commit of this epoch has changed a row, or a replay.
    pub(crate) fn mark(&self, key: u64, epoch: Epoch) {
        let mut state = self.state.lock().expect("no panic");
        let newest = state.changed.entry(key).or_default();
        *newest = epoch.max(*newest);
    }

    /// A commit whose freeze is `freeze` displaces this version, and has seen the pages of picture `seen`.
    pub(crate) fn leave(&self, seen: u64, freeze: Epoch, (key, tid, value): (u64, Tid, &[u8])) {
        let mut state = self.state.lock().expect("no panic");
        let (is_seen, page) = (state.published == seen, state.page_of(key));
        let Some(picture) = state.picture.as_mut().filter(|picture| is_seen && freeze > picture.since) else {
            return;
        };
        // Some commits are late beside the pages: they had seen the page open, and leave what stands in it too.
        let is_late = self.is_semi_fuzzy && key.is_multiple_of(3);
        if tid.epoch() < freeze && (is_late || !picture.closed.contains(&page)) {
            let before = picture.left.insert(key, (tid, value.to_vec()));
            assert!(before.is_none(), "N4: a key's version is left once");
        }
    }
}

impl Pages for Store {
    fn publish_pages(&self, _page_bytes: usize, wanted: WantedPages) -> PublishedPages {
        let pages = self.pages.as_ref().expect("it was asked for them");
        let mut state = pages.state.lock().expect("no panic");
        assert!(state.picture.is_none(), "N13: the pages of the attempt before were ended");
        let (since, published) = (self.epochs().newest_freeze(), self.epochs().now());
        let (dealt, closed, left) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        state.picture = Some(Picture { since, published, is_marked: false, wanted, dealt, closed, left });
        state.published += 1;
        PublishedPages { attempt: PictureAttempt::new(state.published), epoch: published }
    }

    fn carry_marks(&self, attempt: PictureAttempt) -> Result<(), PagesEnded> {
        let pages = self.pages.as_ref().expect("it has published them");
        let mut state = pages.state.lock().expect("no panic");
        let picture = state.of(attempt)?;
        let (freeze, epoch) = (self.epochs().newest_freeze(), self.epochs().now());
        assert_eq!(freeze, picture.since, "N7: its freeze is announced behind this");
        assert!(epoch >= picture.published.plus(2), "N7: every commit that missed the pages has ended");
        assert!(!std::mem::replace(&mut picture.is_marked, true), "marks are carried over once");
        Ok(())
    }

    fn page_slices(&self, attempt: PictureAttempt, parts: usize) -> Result<Vec<Vec<Slice>>, PagesEnded> {
        let pages = self.pages.as_ref().expect("it has published them");
        let mut state = pages.state.lock().expect("no panic");
        assert!(state.of(attempt)?.is_marked, "N7: and before pages are dealt out");
        state.cut();
        let width = KEYS.div_ceil(parts as u64);
        let mut result = vec![Vec::<Slice>::new(); parts];
        let dealt = state.of(attempt)?.dealt.clone();
        for page in dealt {
            let (section, part) = (page.0 as u32, &mut result[(page.1 / width) as usize]);
            let (from, to) = (lower(page.1), Some(state.end_of(page)).filter(|end| *end < KEYS).map(bound));
            match part.last_mut().filter(|last| last.section == section && last.to.as_ref() == Some(&from)) {
                Some(last) => last.to = to,
                None => part.push(Slice { section, from, to }),
            }
        }
        Ok(result)
    }

    fn take_page(
        &self,
        attempt: PictureAttempt,
        slice: &Slice,
        resume: &mut Vec<u8>,
        freeze: Epoch,
        page: &mut PageContents,
    ) -> Result<TakenPage, PagesEnded> {
        page.clear();
        let rows = self.rows.lock().expect("no panic");
        let pages = self.pages.as_ref().expect("it has published them");
        let mut state = pages.state.lock().expect("no panic");
        let from = if resume.is_empty() { &slice.from } else { &resume[..] };
        let (section, first) = (u64::from(slice.section), if from.is_empty() { 0 } else { key_of(from) });
        let next = state.end_of((section, first));
        let picture = state.of(attempt)?;
        assert!(freeze > picture.since, "N1: it was announced behind the publication");
        assert!(picture.dealt.contains(&(section, first)), "slices are made of whole pages");
        assert!(picture.closed.insert((section, first)), "a page is taken once");
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
        let has_more = slice.to.as_deref().map_or(KEYS, key_of) > next;
        Ok(if has_more { TakenPage::More } else { TakenPage::Last })
    }

    fn take_displaced(
        &self,
        attempt: PictureAttempt,
        freeze: Epoch,
        block: &mut DisplacedBlock<'_>,
    ) -> Result<bool, PagesEnded> {
        let pages = self.pages.as_ref().expect("it has published them");
        let mut state = pages.state.lock().expect("no panic");
        let picture = state.of(attempt)?;
        assert!(freeze > picture.since, "N1: it was announced behind the publication");
        if !pages.is_semi_fuzzy {
            return Ok(false);
        }
        let mut planted = pages.planted.lock().expect("no panic");
        while let Some((key, tid, value)) = planted.pop() {
            let body = body(key, Some(&value));
            if !block.has_room(body.len()) {
                planted.push((key, tid, value));
                return Ok(true);
            }
            block.push((key % SECTIONS) as u32, tid, |out| out.extend_from_slice(&body));
        }
        let mut added = 0;
        // In no order of keys: the newest version first.
        while let Some((key, (tid, value))) = picture.left.iter().max_by_key(|(_, (tid, _))| *tid) {
            let (key, tid, body) = (*key, *tid, body(*key, Some(value)));
            if added == self.step_entries || !block.has_room(body.len()) {
                return Ok(true);
            }
            block.push((key % SECTIONS) as u32, tid, |out| out.extend_from_slice(&body));
            picture.left.remove(&key);
            added += 1;
        }
        Ok(false)
    }

    fn end_pages(&self, attempt: PictureAttempt) {
        let mut state = self.pages.as_ref().expect("it has published them").state.lock().expect("no panic");
        if state.of(attempt).is_ok() {
            state.picture = None;
            state.ended += 1;
        }
    }

    fn picture_installed(&self, attempt: PictureAttempt) {
        let mut state = self.pages.as_ref().expect("it has published them").state.lock().expect("no panic");
        assert_eq!(attempt.number(), state.published, "N13: the next attempt has not begun");
        assert!(state.installed < attempt.number(), "a picture is installed once");
        state.installed = attempt.number();
        state.cut_anew.clear();
        state.shown = self.epochs().newest_freeze().previous();
    }
}

/// Where a page begins with this key: a section's first one with the empty bound.
fn lower(key: u64) -> Box<[u8]> {
    if key == 0 { Box::default() } else { bound(key) }
}
