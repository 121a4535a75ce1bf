//! `ARCHIVE` as it is documented, and which generations come into it.
//!
//! Neighbours: the tests of [`super`]; lives with an archive are in `tests/durability/archives`.

use ensile_sim::SimDisk;

use super::*;
use crate::samples::{changes, generation, identity, salt, text_example};

fn list(generations: Vec<Generation>) -> ArchiveList {
    ArchiveList { database: identity(), from: Epoch::new(60), generations }
}

#[test]
fn the_documented_list_is_read_and_written() {
    let expected = list(vec![generation(3, 61, Some(66)), generation(4, 70, None)]);
    let document = include_str!("../../../../../docs/internals/formats/archive.md");
    assert_eq!(text_example(document, 2), expected.to_string());
    let disk = SimDisk::new();
    disk.create_folder("archive").expect("makes");
    assert_eq!(ArchiveList::read(&disk, "archive").expect("reads"), None);
    expected.write(&disk, "archive").expect("writes");
    assert_eq!(ArchiveList::read(&disk, "archive").expect("reads"), Some(expected));
}

#[test]
fn each_changed_byte_is_damage_and_a_newer_format_is_said_to_be_one() {
    let text = list(vec![generation(3, 61, Some(66)), generation(4, 70, None)]).to_string();
    let disk = SimDisk::new();
    for (at, [changed, _]) in changes(&text) {
        disk.put(ARCHIVE, changed);
        let read = ArchiveList::read(&disk, "");
        assert!(matches!(read, Err(DurabilityError::Damaged { .. })), "byte {at}: {read:?}");
    }
    let newer = crate::files::text::with_checksum(
        &text[..text.find("crc32c").expect("a line")].replace("archive 1", "archive 2"),
    );
    disk.put(ARCHIVE, newer.into_bytes());
    assert!(matches!(ArchiveList::read(&disk, ""), Err(DurabilityError::Unknown { .. })));
}

#[test]
fn a_generation_comes_in_open_is_closed_once_and_stays() {
    let none = |_| false;
    let open = list(Vec::new()).with_generations(&[generation(3, 61, None)], none).expect("goes together");
    let closed = open
        .with_generations(&[generation(3, 61, Some(66)), generation(4, 70, None)], none)
        .expect("goes on");
    assert_eq!(closed, list(vec![generation(3, 61, Some(66)), generation(4, 70, None)]));
    // A checkpoint has taken the first off the manifest's list.
    assert_eq!(closed.with_generations(&[generation(4, 70, None)], none), Ok(closed.clone()));
    for other in [generation(3, 61, Some(65)), generation(3, 61, None)] {
        assert!(
            closed.with_generations(&[other, generation(4, 70, None)], none).is_err(),
            "it has ended at 66"
        );
    }
    let other = Generation { salt: salt("1a2b3c4e"), ..generation(4, 70, None) };
    assert!(closed.with_generations(&[other], none).is_err(), "another life has that number");
    assert!(
        closed.with_generations(&[generation(3, 61, Some(66))], none).is_err(),
        "the manifest is an older one"
    );
    assert!(
        open.with_generations(&[generation(4, 70, None)], none).is_err(),
        "A3: nothing says where generation 3 ended"
    );
}

#[test]
fn what_was_merged_and_what_holds_nothing_is_left_out() {
    let before =
        list(vec![generation(3, 61, Some(66)), generation(4, 70, Some(72)), generation(5, 80, Some(81))]);
    let merged = Generation { number: 7, ..generation(7, 61, Some(81)) };
    let next = before.with_generations(&[merged, generation(8, 90, None)], |_| false).expect("goes together");
    assert_eq!(next.generations.iter().map(|one| one.number).collect::<Vec<_>>(), [3, 4, 5, 8]);
    let next =
        before.with_generations(&[generation(6, 85, Some(86)), generation(8, 90, Some(91))], |one| one == 6);
    let next = next.expect("goes together");
    assert_eq!(next.generations.iter().map(|one| one.number).collect::<Vec<_>>(), [3, 4, 5, 8]);
    // One that was in the manifest when the archive was begun is as any.
    let begun = list(Vec::new())
        .with_generations(&[Generation { logs: 1, ..generation(7, 61, Some(81)) }], |_| false);
    assert!(begun.expect("goes together").lists(7));
}
