//! Directories: what a part may hold, and how one follows from the one before.

use std::collections::BTreeMap;

use ensile_base::random::Random;

use super::super::location::PageBound;
use super::*;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::picture::page::PagePlace;
use crate::files::picture::root::DirectoryPlace;

fn extent(first: u32) -> ExtentPlace {
    ExtentPlace { extent: Extent { folder: 0, first, units: 1 }, header_crc: first }
}

fn page(section: u32, key: &str, number: u64) -> PagePlace {
    PagePlace {
        bound: PageBound { section, first_key: key.as_bytes().into() },
        number,
        checkpoint: 4,
        entries: 1,
        payload_crc: 9,
        extents: [extent(1 + number as u32)].into(),
    }
}

fn taken(section: u32, from: &str, to: Option<&str>, number: u64) -> TakenRange {
    TakenRange { page: page(section, from, number), to: to.map(|to| to.as_bytes().into()) }
}

/// Each page as section, first key and number.
fn shown(directory: &PageDirectory) -> Vec<(u32, String, u64)> {
    let shown = |page: &PagePlace| {
        let key = String::from_utf8(page.bound.first_key.to_vec()).expect("text");
        (page.bound.section, key, page.number)
    };
    directory.pages().map(shown).collect()
}

fn numbers(directory: &PageDirectory) -> Vec<u64> {
    directory.pages().map(|page| page.number).collect()
}

/// As the writer does once a picture's parts are written.
fn written(mut directory: PageDirectory) -> PageDirectory {
    for (number, part) in directory.parts.iter_mut().enumerate().filter(|(_, part)| part.place.is_none()) {
        part.place = Some(place_of(&part.pages, number as u64));
    }
    directory
}

fn place_of(pages: &[PagePlace], number: u64) -> DirectoryPlace {
    DirectoryPlace {
        bound: pages[0].bound.clone(),
        number,
        checkpoint: 4,
        pages: pages.len() as u32,
        bytes: pages.iter().map(PagePlace::bytes).sum(),
        place: extent(1 + number as u32),
    }
}

/// Two sections, of three pages and of one.
fn before() -> PageDirectory {
    let first = [("", Some("g"), 0), ("g", Some("p"), 1), ("p", None, 2)];
    let mut all: Vec<_> = first.into_iter().map(|(from, to, number)| taken(3, from, to, number)).collect();
    all.push(taken(5, "", None, 3));
    written(PageDirectory::default().next(all).0)
}

#[test]
fn a_part_comes_back_as_it_was_written() {
    let pages: Vec<PagePlace> = before().pages().cloned().collect();
    let bytes = encode_part(&pages);
    assert_eq!(decode_part(&bytes, 4).as_ref(), Some(&pages));
    assert_eq!(
        (decode_part(&bytes, 3), decode_part(&bytes, 5)),
        (None, None),
        "other pages than the header says"
    );
    assert!((0..bytes.len()).all(|length| decode_part(&bytes[..length], 4).is_none()));
    for (why, pages) in [
        ("is out of order", vec![page(3, "b", 0), page(3, "a", 1)]),
        ("has a page twice", vec![page(3, "b", 0), page(3, "b", 1)]),
        ("begins a section in its midst", vec![page(3, "b", 0), page(4, "a", 1)]),
    ] {
        let mut bytes = Vec::new();
        pages.iter().for_each(|page| page.encode(&mut bytes));
        assert_eq!(decode_part(&bytes, 2), None, "it {why}");
    }
}

#[test]
fn a_part_is_at_its_place_only() {
    let pages = [page(3, "g", 0), page(3, "p", 1)];
    let place = place_of(&pages, 0);
    let next = |section, key: &str| {
        let first = page(section, key, 2);
        place_of(&[first], 1)
    };
    assert!(is_part(&pages, &place, None) && is_part(&pages, &place, Some(&next(3, "q"))));
    assert!(is_part(&pages, &place, Some(&next(4, ""))));
    assert!(!is_part(&pages, &place, Some(&next(3, "p"))), "a page is in the next part too");
    assert!(!is_part(&pages, &place, Some(&next(4, "a"))), "a section has no beginning");
    assert!(!is_part(&[], &place, None));
    for other in [
        DirectoryPlace { pages: 3, ..place.clone() },
        DirectoryPlace { bytes: place.bytes + 1, ..place.clone() },
        DirectoryPlace { checkpoint: 3, ..place.clone() },
        DirectoryPlace { bound: page(3, "f", 0).bound, ..place.clone() },
    ] {
        assert!(!is_part(&pages, &other, None), "{other:?}");
    }
}

#[test]
fn a_picture_keeps_the_pages_that_it_has_not_taken() {
    let before = before();
    let (next, dropped) = before.next(vec![taken(3, "g", Some("p"), 1)]);
    assert_eq!(numbers(&next), [0, 1, 2, 3]);
    assert_eq!(dropped.len(), 1, "the page as it was");
    assert!(next.parts.iter().all(|part| part.place.is_none()), "the one part has changed");
    let (same, dropped) = before.next(Vec::new());
    assert_eq!((same, dropped), (before, Vec::new()));
}

#[test]
fn n17_marked_pages_are_cut_and_joined() {
    let cut = vec![taken(3, "g", Some("k"), 10), taken(3, "k", Some("p"), 11), taken(5, "", None, 12)];
    let (next, dropped) = before().next(cut);
    let expected = [(3, "", 0), (3, "g", 10), (3, "k", 11), (3, "p", 2), (5, "", 12)];
    assert_eq!(shown(&next), expected.map(|(section, key, number)| (section, key.to_owned(), number)));
    assert_eq!(dropped.iter().map(|page| page.number).collect::<Vec<_>>(), [1, 3]);
    let (next, dropped) = before().next(vec![taken(3, "", Some("p"), 10)]);
    assert_eq!((numbers(&next), dropped.len()), (vec![10, 2, 3], 2));
    // A table that is new, and one that had no page yet in front of all others.
    let (next, dropped) = before().next(vec![taken(9, "", None, 10), taken(1, "", None, 11)]);
    assert_eq!((numbers(&next), dropped.len()), (vec![11, 0, 1, 2, 3, 10], 0));
}

#[test]
fn n17_a_page_that_was_not_taken_as_a_whole_is_a_bug() {
    for (why, ranges) in [
        ("begins within a page", vec![taken(3, "h", Some("p"), 10)]),
        ("ends within a page", vec![taken(3, "g", Some("k"), 10)]),
        ("leaves a gap", vec![taken(3, "g", Some("k"), 10), taken(3, "l", Some("p"), 11)]),
        ("is taken twice", vec![taken(3, "g", Some("p"), 10), taken(3, "g", Some("p"), 11)]),
        ("overlaps", vec![taken(3, "", Some("p"), 10), taken(3, "g", Some("p"), 11)]),
        ("goes on behind the section's end", vec![taken(3, "p", None, 10), taken(3, "q", None, 11)]),
        ("is no range", vec![taken(3, "p", Some("g"), 10)]),
        ("has no beginning", vec![taken(4, "a", None, 10)]),
    ] {
        let next = std::panic::catch_unwind(|| before().next(ranges));
        assert!(next.is_err(), "it {why}");
    }
}

#[test]
fn a_page_that_keeps_its_range_keeps_its_number() {
    let before = before();
    let number = |section, from: &str, to: Option<&str>| {
        let bound = PageBound { section, first_key: from.as_bytes().into() };
        before.number_of(&bound, to.map(str::as_bytes))
    };
    assert_eq!(number(3, "g", Some("p")), Some(1));
    assert_eq!((number(3, "p", None), number(5, "", None)), (Some(2), Some(3)));
    assert_eq!(
        (number(3, "g", Some("k")), number(3, "g", None), number(3, "p", Some("z"))),
        (None, None, None)
    );
    assert_eq!((number(3, "h", Some("p")), number(4, "", None), number(1, "", None)), (None, None, None));
}

/// Key number `at` of a section with many pages.
fn key(at: usize) -> String {
    if at == 0 { String::new() } else { format!("{at:08}") }
}

fn many(pages: usize) -> PageDirectory {
    let to = |at| (at + 1 < pages).then(|| key(at + 1));
    let all = (0..pages).map(|at| taken(3, &key(at), to(at).as_deref(), at as u64)).collect();
    written(PageDirectory::default().next(all).0)
}

#[test]
fn a_picture_writes_the_parts_with_a_changed_place_and_cuts_one_that_becomes_too_large() {
    let before = many(3000);
    assert!(before.parts.len() > 8, "{}", before.parts.len());
    assert!(before.parts.iter().all(|part| part.place_bytes() <= PART_BYTES));
    let (next, _) = before.next(vec![taken(3, &key(1500), Some(&key(1501)), 1500)]);
    let changed = next.parts.iter().filter(|part| part.place.is_none()).count();
    assert_eq!((changed, next.parts.len()), (1, before.parts.len()));
    // Most of its pages become one: what is left of neighbours that are written joins.
    let (next, _) = before.next(vec![taken(3, &key(10), Some(&key(2990)), 5000)]);
    assert_eq!((next.parts.len(), numbers(&next).len()), (1, 21));
    let before = many(400);
    let [part] = &before.parts[..] else { panic!("one part") };
    assert!((PART_BYTES..PART_BYTES_MAX).contains(&part.place_bytes()));
    let halves = (0..400).flat_map(|at| {
        let (half, next) = (format!("{at:08}x"), key(at + 1));
        let to = (at < 399).then_some(next);
        [
            TakenRange { page: page(3, &key(at), 500 + at as u64), to: Some(half.as_bytes().into()) },
            TakenRange { page: page(3, &half, 1000 + at as u64), to: to.map(|to| to.as_bytes().into()) },
        ]
    });
    let (next, dropped) = before.next(halves.collect());
    assert_eq!((next.pages().count(), dropped.len()), (800, 400));
    assert!(next.parts.len() > 1 && next.parts.iter().all(|part| part.place_bytes() <= PART_BYTES_MAX));
}

/// Against a map: whatever runs of pages are taken, the next directory is the one before with these in place of them.
#[test]
fn any_runs_of_pages_are_replaced() {
    for seed in 0..200 {
        let mut random = Random::from_seed(seed);
        let mut directory = many(1 + random.next_below(900) as usize);
        let mut next_number = 10_000;
        for _ in 0..20 {
            let old: Vec<PagePlace> = directory.pages().cloned().collect();
            let mut expected: BTreeMap<PageBound, u64> =
                old.iter().map(|page| (page.bound.clone(), page.number)).collect();
            let (mut ranges, mut at) = (Vec::new(), random.next_below(300) as usize);
            while at < old.len() {
                // A run of pages becomes one to three.
                let run = (1 + random.next_below(5) as usize).min(old.len() - at);
                let (from, end) = (old[at].bound.clone(), old.get(at + run).map(|next| next.bound.clone()));
                expected.retain(|bound, _| old[at..at + run].iter().all(|page| page.bound != *bound));
                let mut bounds = vec![from.clone()];
                // Where the next page begins right behind this key, there is no room for a bound.
                let has_room = end.as_ref().is_none_or(|end| !end.first_key.starts_with(&from.first_key));
                for part in 1..=if has_room { random.next_below(3) } else { 0 } {
                    let cut = [&from.first_key[..], &[0, part as u8]].concat().into();
                    bounds.push(PageBound { section: 3, first_key: cut });
                }
                for (index, bound) in bounds.iter().enumerate() {
                    let to = bounds.get(index + 1).or(end.as_ref()).map(|to| to.first_key.clone());
                    let page = PagePlace { bound: bound.clone(), ..page(3, "", next_number) };
                    expected.insert(bound.clone(), next_number);
                    ranges.push(TakenRange { page, to });
                    next_number += 1;
                }
                at += run + random.next_below(400) as usize;
            }
            ranges.reverse();
            let next = directory.next(ranges).0;
            let found: BTreeMap<PageBound, u64> =
                next.pages().map(|page| (page.bound.clone(), page.number)).collect();
            assert_eq!((found.len(), &found), (next.pages().count(), &expected), "seed {seed}");
            let kept: Vec<&DirectoryPart> = next.parts.iter().filter(|part| part.place.is_some()).collect();
            assert!(
                kept.iter().all(|part| directory.parts.contains(part)),
                "a part that is kept is as it was"
            );
            directory = written(next);
        }
    }
}
