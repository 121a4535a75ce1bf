//! Mapped words of real files, read back as another process reads them.

use std::panic::AssertUnwindSafe;

use ensile_base::checksum::crc32c;

use crate::test_folder::TestFolder;
use crate::{Disk, MappedWords, RealDisk, StoredSum};

#[test]
fn what_is_stored_is_in_the_file_at_once_and_stays_when_the_mapping_goes() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("opens");
    let file = disk.create("buffer").expect("made");
    let words = file.map(8192 + 8).expect("maps");
    assert_eq!((words.len(), file.len().expect("has a length")), (1025, 8200));
    words.store_bytes(1, b"eleven byte");
    words.publish(1024, 7);
    let mut found = [0xff; 24];
    assert_eq!(file.read_at(&mut found, 0).expect("reads"), 24);
    assert_eq!(&found, b"\0\0\0\0\0\0\0\0eleven byte\0\0\0\0\0");
    words.store_bytes(2, b"en bytes");
    words.retract(1024, 0);
    words.touch(8200);
    drop(words);
    let read = std::fs::read(folder.path().join("buffer")).expect("reads");
    assert_eq!(&read[8..24], b"eleven ben bytes");
    assert!(read[24..].iter().all(|byte| *byte == 0), "all of it was written, and the last word taken back");
}

/// What is stored piece by piece, each from the last whole word on, is summed as one whole, whatever the pieces'
/// lengths.
fn check_sums(words: &MappedWords, seed: u8) {
    let mut bytes = Vec::new();
    let mut sum = StoredSum { words: 0, bytes: 0 };
    for length in (1..40).chain([200, 3, 8, 64]) {
        let from = bytes.len() / 8 * 8;
        bytes.extend((0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)));
        sum = words.store_summed(from / 8, &bytes[from..], sum.words);
        assert_eq!(sum.bytes, crc32c(&bytes), "{length} bytes to {}", bytes.len());
        assert_eq!(sum.words, crc32c(&bytes[..bytes.len() / 8 * 8]));
    }
}

#[test]
fn what_is_stored_in_pieces_is_summed_as_a_whole_and_stands_in_the_file() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("opens");
    let mut words = disk.create("buffer").expect("made").map(4096).expect("maps");
    check_sums(&words, 7);
    let by_the_processor = std::fs::read(folder.path().join("buffer")).expect("reads");
    words.forget_instructions();
    check_sums(&words, 8);
    check_sums(&words, 7);
    assert_eq!(std::fs::read(folder.path().join("buffer")).expect("reads"), by_the_processor);
}

#[test]
fn bytes_that_do_not_fit_are_refused() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("opens");
    let words = disk.create("buffer").expect("made").map(64).expect("maps");
    let beyond = std::panic::catch_unwind(AssertUnwindSafe(|| words.store_bytes(7, &[1; 9])));
    assert!(beyond.is_err());
    let beyond = AssertUnwindSafe(|| words.store_summed(7, &[1; 9], 0));
    assert!(std::panic::catch_unwind(beyond).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_was_opened_to_read_is_not_mapped() {
    let folder = TestFolder::new();
    let disk = RealDisk::open(folder.path()).expect("opens");
    drop(disk.create("buffer").expect("made"));
    let read = disk.open_to_read("buffer").expect("opens");
    assert!(read.map(64).is_err(), "it cannot be written");
}
