//! Lives of a database with an archive on a device of its own.

use ensile_durability::archive::{ArchiveFacts, EpochSpan, verify_archive};

use crate::prelude::*;

/// Where the archive is, from the machine's top.
pub(crate) const PLACE: &str = "/archive";

pub(crate) fn disk_with_archive() -> SimDisk {
    let disk = SimDisk::new();
    disk.set_device(PLACE, None);
    disk
}

pub(crate) fn archiving(loggers: usize, archiving: Archiving) -> LogConfig {
    LogConfig { segment_bytes: 4096, archiving, ..config(loggers) }
}

pub(crate) fn open(
    disk: &SimDisk,
    loggers: usize,
    settings: CheckpointConfig,
) -> Result<Life, DurabilityError> {
    Life::open_with(disk, archiving(loggers, Archiving::To(PLACE.into())), settings)
}

/// What the archive has, every byte of it read.
pub(crate) fn facts(disk: &SimDisk) -> ArchiveFacts {
    let archive: Arc<dyn Disk> = Arc::new(disk.at(PLACE));
    verify_archive(&archive, &Framing).expect("there is an archive")
}

pub(crate) fn span(after: u64, to: Epoch) -> EpochSpan {
    EpochSpan { after: Epoch::new(after), to }
}

/// Nothing is missing, from the beginning to this epoch at least.
pub(crate) fn assert_whole(disk: &SimDisk, durable: Epoch) {
    let facts = facts(disk);
    assert!(facts.damage.is_empty(), "{facts:#?}");
    assert!(facts.generations.iter().all(|generation| generation.lacks.is_empty()), "{facts:#?}");
    assert_eq!(facts.from, Epoch::ZERO, "it was begun with the database");
    let [range] = facts.ranges[..] else { panic!("one range: {facts:#?}") };
    assert!(range.after == Epoch::ZERO && range.to >= durable, "up to {durable}: {facts:#?}");
}

/// Commits rows of a kilobyte, an epoch each, so that files are closed; false once the log takes no more.
pub(crate) fn write(life: &Life, worker: &mut Worker, keys: std::ops::Range<u64>) -> bool {
    for key in keys {
        if worker.appender.check().is_err() {
            return false;
        }
        let value = (!key.is_multiple_of(5)).then(|| vec![key as u8; 1000]);
        life.commit_epoch(worker, key % 16, value.as_deref());
    }
    true
}

/// The archive has all closed files now, or cannot be written.
pub(crate) fn let_archive(life: &Life) {
    for _ in 0..200 {
        life.step(0);
        life.rig.settle();
    }
}

pub(crate) fn archive_checkpoint(life: &Life) {
    life.checkpoint().expect("is installed");
    let_archive(life);
}

/// The first life on a disk with an archive.
pub(crate) fn first_life(loggers: usize, settings: CheckpointConfig) -> (SimDisk, Life) {
    let disk = disk_with_archive();
    let life = open(&disk, loggers, settings).expect("opens");
    (disk, life)
}

/// Closes cleanly; D.
pub(crate) fn close(life: &Life) -> Epoch {
    life.checkpoints.close(&life.store);
    life.rig.log.close().expect("closes");
    life.rig.log.durable_epoch()
}
