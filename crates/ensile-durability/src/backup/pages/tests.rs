//! Pages that the target has already, and pictures that follow on what is there: by every part of what they say.

use super::*;
use crate::backup::target::TargetPicture;
use crate::files::manifest::backup_states::FilesState;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::{FuzzyCheckpoint, ListedPageFile};
use crate::files::names::PageFileName;
use crate::files::picture::location::PageBound;
use crate::near_duplicates;
use crate::samples::{self, identity, part_salt};

fn place(first: u32) -> ExtentPlace {
    ExtentPlace { extent: Extent { folder: 0, first, units: 1 }, header_crc: 77 + first }
}

fn page(number: u64) -> PagePlace {
    PagePlace {
        bound: PageBound { section: 3, first_key: [5, 9].into() },
        number,
        checkpoint: 7,
        entries: 12,
        payload_crc: 0x0a1b_2c3d,
        extents: [place(4), place(9)].into(),
    }
}

fn picture() -> PictureCheckpoint {
    PictureCheckpoint {
        number: 9,
        generation: 4,
        epoch: Epoch::new(60),
        entries: 24,
        bytes: 100_000,
        pages: 2,
        next_page: 30,
        root: place(20),
        database: identity(),
        files: vec![ListedPageFile { name: PageFileName { folder: 0, number: 1 }, salt: part_salt() }],
    }
}

fn newest() -> TargetPicture {
    let parts = vec![DirectoryPart { pages: vec![page(12), page(13)], place: None }];
    TargetPicture { picture: picture(), parts, reached: BTreeSet::new() }
}

/// True if the picture that this makes of the target's newest one may follow that.
fn follows(change: impl FnOnce(&mut PictureCheckpoint)) -> bool {
    let mut of = picture();
    change(&mut of);
    may_follow(&of, &[vec![page(12), page(13)]], &newest())
}

#[test]
fn n21_a_page_that_is_in_all_but_one_part_the_one_that_is_there_is_copied() {
    assert!(is_same(&page(12), &page(12)));
    let elsewhere = PagePlace { extents: [place(40), place(41)].into(), ..page(12) };
    assert!(is_same(&elsewhere, &page(12)), "the target has its blocks in places of its own");
    for (part, twin) in near_duplicates::pages(&page(12)) {
        assert!(!is_same(&page(12), &twin) && !is_same(&twin, &page(12)), "{part}: {twin:?}");
    }
}

#[test]
fn n23_a_later_picture_follows_if_its_number_is_larger_and_its_generation_no_smaller() {
    assert!(follows(|of| (of.epoch, of.number) = (Epoch::new(61), 10)));
    assert!(follows(|of| (of.epoch, of.number, of.generation) = (Epoch::new(61), 10, 5)));
    assert!(!follows(|of| of.epoch = Epoch::new(61)), "the number of another one");
    assert!(!follows(|of| (of.epoch, of.number) = (Epoch::new(61), 8)));
    assert!(!follows(|of| (of.epoch, of.number, of.generation) = (Epoch::new(61), 10, 3)));
    assert!(!follows(|of| (of.epoch, of.number) = (Epoch::new(59), 10)), "it is of an earlier epoch");
}

#[test]
fn n23_a_picture_of_the_same_epoch_follows_if_it_is_the_same_one() {
    assert!(follows(|_| {}));
    // What is of the target alone.
    assert!(follows(|of| (of.root, of.bytes, of.next_page) = (place(3), 5, 99)));
    for number in near_duplicates::words(9) {
        assert!(!follows(|of| of.number = number), "number {number}");
    }
    for generation in near_duplicates::words(4) {
        assert!(!follows(|of| of.generation = generation), "generation {generation}");
    }
    for entries in near_duplicates::words(24) {
        assert!(!follows(|of| of.entries = entries), "{entries} entries");
    }
    assert!(!follows(|of| of.pages = 3));
    for (part, twin) in near_duplicates::pages(&page(13)) {
        let parts = [vec![page(12), twin]];
        assert!(!may_follow(&picture(), &parts, &newest()), "{part}");
    }
}

#[test]
fn n23_a_picture_follows_files_of_no_later_epoch_and_a_smaller_number() {
    let fuzzy =
        FuzzyCheckpoint { low: Epoch::new(50), high: Epoch::new(52), files: samples::part_files(8, 4) };
    // Without a generation the state is of no epoch.
    let of = |number: u64, epoch: u64| {
        let mut fuzzy = fuzzy.clone();
        fuzzy.files.number = number;
        let checkpoint = Some(InstalledCheckpoint::Fuzzy(fuzzy));
        let open = Generation { logs: 0, ..samples::generation(5, epoch + 1, None) };
        KeptState::Files(FilesState { checkpoint, generations: vec![open] })
    };
    assert!(may_follow_files(&picture(), &of(8, 60)) && may_follow_files(&picture(), &of(8, 59)));
    assert!(!may_follow_files(&picture(), &of(8, 61)), "its epoch is smaller");
    assert!(!may_follow_files(&picture(), &of(9, 60)) && !may_follow_files(&picture(), &of(10, 59)));
}
