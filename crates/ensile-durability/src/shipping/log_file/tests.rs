//! A closed log file before it is shipped or archived: it is the file that its name says, from its first block to its
//! last.
//!
//! Neighbours: the tests of [`super`]; the archive asks as much of a file.

use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::random::Random;
use ensile_disk::Disk;
use ensile_sim::SimDisk;

use super::*;
use crate::buffers::Buffer;
use crate::files::block::origin::Origin;
use crate::files::names::SegmentFile;
use crate::identity::Identity;
use crate::log::LogConfig;
use crate::log::segments::Segments;
use crate::near_duplicates;
use crate::recoverable::EntryKind;
use crate::store::archive::whole_to;

const NAME: SegmentName = SegmentName { generation: 3, logger: 1, number: 0 };

/// A file with an entry and a mark in each of three epochs from 11 on, and what a log says of it.
fn written() -> (SimDisk, ClosedFile) {
    let disk = SimDisk::new();
    disk.create_folder("log1").expect("is made");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let salt = Salt::draw(&mut Random::from_seed(7));
    let origin = Origin { identity: Identity::draw(), salt, entries: EntryKind::Values };
    let config = LogConfig::default();
    let mut segments = Segments::create(&shared, NAME, &config, Epoch::new(10), origin).expect("creates");
    for epoch in [11, 12, 13].map(Epoch::new) {
        let mut buffer = Buffer::usual();
        buffer.push(Tid::first_of(epoch), |body| body.extend_from_slice(&[9; 20]));
        assert!(segments.data(buffer, epoch.previous(), Epoch::new(9)).is_some());
        segments.mark(epoch, Epoch::new(9));
        segments.flush(|_| {}).expect("writes");
    }
    segments.sync().expect("syncs");
    let closed = segments.as_closed().expect("it has blocks");
    (disk, closed)
}

fn looked(disk: &SimDisk, closed: &ClosedFile) -> Result<LookedFile, DurabilityError> {
    look(disk.open_to_read(&NAME.to_string()).expect("opens"), closed)
}

#[test]
fn h1_a_closed_file_is_looked_at_to_its_end_and_each_mark_is_where_its_block_ends() {
    let (disk, closed) = written();
    let LookedFile { before, marks, .. } = looked(&disk, &closed).expect("it is whole");
    assert_eq!(before, Epoch::ZERO, "no file comes before it");
    let epochs: Vec<u64> = marks.iter().map(|(mark, _)| mark.number()).collect();
    assert_eq!(epochs, [10, 11, 12, 13]);
    assert_eq!((marks[0].1, marks[3].1), (OPENING_BYTES as u64, closed.bytes));
    // It may have space behind its last block.
    let file = disk.open_to_read(&NAME.to_string()).expect("opens");
    assert_eq!(whole_to(file, closed.file).expect("is read"), closed.bytes);
}

#[test]
fn h1_a_file_that_ends_elsewhere_than_its_log_says_is_not_shipped() {
    let (disk, closed) = written();
    for (bytes, why) in [
        (closed.bytes - 1, "ends within a block"),
        (closed.bytes + 1, "not the next block"),
        (closed.bytes + 80, "not the next block"),
    ] {
        let error = looked(&disk, &ClosedFile { bytes, ..closed.clone() }).expect_err("it ends elsewhere");
        assert!(error.to_string().contains(why), "{bytes} of {}: {error}", closed.bytes);
    }
}

#[test]
fn h1_a_file_under_the_name_of_another_log_is_neither_shipped_nor_archived() {
    let (disk, closed) = written();
    let generations =
        near_duplicates::words(NAME.generation).map(|generation| SegmentName { generation, ..NAME });
    let loggers = near_duplicates::half_words(NAME.logger).map(|logger| SegmentName { logger, ..NAME });
    for name in generations.into_iter().chain(loggers) {
        let file = SegmentFile::from(name);
        let error = looked(&disk, &ClosedFile { file, ..closed.clone() }).expect_err("it is another log's");
        assert!(error.to_string().contains("it is of another log"), "{name}: {error}");
        let opened = disk.open_to_read(&NAME.to_string()).expect("opens");
        assert_eq!(whole_to(opened, file).expect("is read"), 0, "{name}");
    }
}
