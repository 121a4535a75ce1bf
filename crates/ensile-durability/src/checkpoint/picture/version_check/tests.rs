//! Pictures whose every checksum is right, and in which a key has one TID or two: compared with any limit.

use super::*;
use crate::files::picture::reader::tests::{Draft, DraftPage, Keys, beside, page, whole, written};

/// Compares all of a picture, with this limit; how many spans it took.
fn compared(draft: &Draft, bytes_max: usize) -> Result<usize, DurabilityError> {
    let (disk, of) = written(draft);
    let reader = PictureReader::open(&disk, &of).expect("whole");
    let mut keys = BesideKeys::with_limit(bytes_max);
    for block in 0..reader.root().removes_block_count() {
        let mut buffers = PageBuffers::default();
        let read = reader.removes(block, &mut buffers)?;
        keys.add_block(&reader, block, &read, &Keys)?;
    }
    let mut spans = 1;
    for part in 0..reader.root().parts.len() {
        spans += usize::from(part >= keys.until);
        keys.turn_to(&reader, part, &Keys)?;
        assert!(keys.bytes() <= bytes_max || keys.until.min(reader.root().parts.len()) == keys.from + 1);
        reader.pages_of(part, &mut |read| {
            let damaged = |detail: &str| DurabilityError::damaged_file(read.file, read.offset, detail);
            for (section, entries) in read.by_section(&Keys).map_err(damaged)? {
                keys.compare(section, &entries, &Keys).map_err(damaged)?;
            }
            Ok(())
        })?;
    }
    // A block that is read once more is counted once.
    assert_eq!(
        reader.blocks_read().removes + reader.blocks_read().tails,
        reader.root().removes_block_count() as u64
    );
    reader.check_reached()?;
    Ok(spans)
}

fn damage(draft: &Draft, bytes_max: usize) -> Option<(u64, String)> {
    match compared(draft, bytes_max) {
        Ok(_) => None,
        Err(DurabilityError::Damaged { offset, detail, .. }) => Some((offset, detail)),
        Err(error) => panic!("{error}"),
    }
}

/// Twelve parts of a page each, in two sections, and a version beside each page that it lacks.
fn many_parts() -> Draft {
    let keys = ["", "b", "c", "d", "e", "f"];
    let part = |at: usize| -> Vec<DraftPage> {
        let (section, key) = (3 + (at / keys.len()) as u32 * 2, keys[at % keys.len()]);
        let entry = if key.is_empty() { "a" } else { key };
        vec![page(section, key, at as u64 + 1, &[(entry, 3)])]
    };
    let parts: Vec<Vec<DraftPage>> = (0..12).map(part).collect();
    let lacks = |page: &DraftPage| beside(page.section, &format!("{}-", page.entries[0].0), 7);
    let removes = parts.iter().flatten().rev().map(lacks).collect();
    Draft { parts, removes, tails: Vec::new(), ..whole() }
}

const LIMITS: [usize; 7] = [0, 40, 90, 150, 300, 450, usize::MAX];

#[test]
fn n11_one_tid_each_is_whole_with_any_limit_and_a_key_of_another_section_is_another_row() {
    for draft in [whole(), many_parts()] {
        let spans = LIMITS.map(|limit| compared(&draft, limit).expect("one TID each"));
        assert!(spans.is_sorted_by(|more, fewer| more >= fewer), "{spans:?}");
        assert_eq!((spans[0], spans[6]), (draft.parts.len(), 1), "a part at a time, or all at once");
    }
    let spans = LIMITS.map(|limit| compared(&many_parts(), limit).expect("one TID each"));
    assert!(spans.iter().any(|spans| (2..12).contains(spans)), "{spans:?}");
    let mut draft = whole();
    // Page 3 has "a" of epoch 3; section 5 has none.
    draft.removes.push(beside(5, "a", 9));
    assert_eq!(damage(&draft, usize::MAX), None);
}

#[test]
fn n12_a_block_that_is_read_once_more_for_the_next_span_is_reached_once() {
    let draft = many_parts();
    for limit in LIMITS {
        let (disk, of) = written(&draft);
        let reader = PictureReader::open(&disk, &of).expect("whole");
        let before: u64 = reader.files().map(|(file, _)| reader.blocks_read().bytes_in(file)).sum();
        let (mut keys, mut buffers) = (BesideKeys::with_limit(limit), PageBuffers::default());
        let mut blocks = 0;
        for block in 0..reader.root().removes_block_count() {
            let read = reader.removes(block, &mut buffers).expect("whole");
            blocks += read.bytes;
            keys.add_block(&reader, block, &read, &Keys).expect("one TID each");
        }
        for part in 0..reader.root().parts.len() {
            keys.turn_to(&reader, part, &Keys).expect("one TID each");
        }
        let reached: u64 = reader.files().map(|(file, _)| reader.blocks_read().bytes_in(file)).sum();
        assert_eq!(reached, before + blocks, "limit {limit}");
        // "Two blocks of the picture share this place", said of one that was added twice.
        assert_eq!(reader.check_reached().err().map(|error| error.to_string()), None, "limit {limit}");
    }
}

#[test]
fn n11_a_key_in_a_page_and_beside_it_with_two_tids_is_damage_at_the_page() {
    for draft in [whole(), many_parts()] {
        let all: Vec<_> = draft.parts.iter().flatten().flat_map(|page| page.entries.clone()).collect();
        assert!(all.len() > 10);
        for page in draft.parts.iter().flatten() {
            for (key, epoch) in &page.entries {
                for limit in LIMITS {
                    for at in [0, draft.removes.len()] {
                        let with = |epoch: u64| {
                            let mut draft = draft.clone();
                            draft.removes.retain(|known| *known != beside(page.section, key, 4));
                            let at = at.min(draft.removes.len());
                            draft.removes.insert(at, beside(page.section, key, epoch));
                            draft
                        };
                        let found = damage(&with(*epoch), limit);
                        assert_eq!(found, None, "{key} of {}, limit {limit}", page.section);
                        let other = if *epoch == 9 { 8 } else { 9 };
                        let found = damage(&with(other), limit);
                        let (_, detail) = found.unwrap_or_else(|| panic!("{key}, limit {limit}: not seen"));
                        assert_eq!(detail, IN_PAGE);
                    }
                }
            }
        }
    }
}

#[test]
fn n11_a_key_twice_beside_the_pages_with_two_tids_is_damage_at_the_later_block() {
    // Also of a section that has no page, before all of them and behind.
    for (section, key) in [(1, "a"), (3, "a-"), (3, "f-"), (5, "c-"), (5, "zz"), (9, "a")] {
        for limit in LIMITS {
            for (first, second) in [(0, 13), (5, 6), (12, 13)] {
                let mut draft = many_parts();
                draft.removes.retain(|known| *known != beside(section, key, 7));
                draft.removes.push(beside(5, "q", 2));
                draft.removes.push(beside(5, "r", 2));
                draft.removes.truncate(12);
                let mut same = draft.clone();
                for (into, epoch) in [(&mut draft, 6), (&mut same, 5)] {
                    into.removes.insert(first.min(into.removes.len()), beside(section, key, 5));
                    into.removes.insert(second.min(into.removes.len()), beside(section, key, epoch));
                }
                assert_eq!(damage(&same, limit), None, "one TID");
                let (disk, of) = written(&draft);
                let reader = PictureReader::open(&disk, &of).expect("whole");
                let later = reader.root().removes[second.min(13)].place.extent.offset();
                let found = damage(&draft, limit);
                assert_eq!(found, Some((later, TWICE.to_owned())), "{section}, {key}, limit {limit}");
            }
        }
    }
}
