//! The end of a life. Every handle, lock, unit, buffer and file of the life is given back once.
//!
//! Invariants:
//! - N12: a unit of a page file is in the installed picture or free, and not both.
//! - Every file of the folder is listed, and the figures of the log count it.
//!
//! Neighbours: [`crate::counted`] counts handles and locks; tests end their lives by [`Life::end`].

use ensile_base::limits::LOG_BUFFER_BYTES;

use crate::prelude::*;

/// Buffers that a log keeps beyond one for each worker.
const SPARE_BUFFERS: u64 = 4;
/// A page file begins with a unit that is no page's.
const UNIT_BYTES: u64 = 4 << 10;

/// A folder at rest as an examination sees it, on a copy of the disk.
pub(crate) fn examined_at_rest(disk: &SimDisk) -> Examination {
    let copy = copy_at_rest(disk);
    copy.heal();
    examine(&(Arc::new(copy) as Arc<dyn Disk>), &Framing).expect("is read")
}

/// Every file is one that counts.
pub(crate) fn check_listed(found: &Examination) {
    let is_stray = |facts: &&FileFacts| matches!(facts.role, Role::Discarded(_) | Role::Foreign);
    assert_eq!(found.files.iter().find(is_stray), None, "a file that nothing lists");
}

impl Life {
    /// Lets checkpointers remove what they may, and ends the life: no file stays that nothing lists.
    pub(crate) fn end(self) {
        self.settle_removals();
        check_listed(&self.end_here());
    }

    /// Closes the database after its workers have gone, and checks that all resources are back. The folder may keep
    /// files that a checkpoint has just covered: the next open removes them.
    pub(crate) fn end_here(self) -> Examination {
        self.check_leases();
        self.check_buffers();
        self.check_handles();
        self.check_log_bytes();
        let (disk, files, locks) =
            (self.disk.clone(), self.counted.files.clone(), self.counted.locks.clone());
        self.checkpoints.close(&self.store);
        self.rig.log.close().expect("closes");
        let (log, checkpoints) = (self.rig.log.stats(), self.checkpoints.stats());
        assert_eq!(checkpoints.running, None, "an attempt goes on behind the close");
        drop(self);
        assert_eq!(files.names(), [""; 0], "files that are open behind the close");
        assert_eq!(locks.names(), [""; 0], "locks that are held behind the close");
        let found = examined_at_rest(&disk);
        assert!(found.is_whole() && found.torn_tails.is_empty(), "{found:?}");
        let of_log = found.files.iter().filter(|facts| matches!(facts.role, Role::Log { .. })).count();
        assert_eq!(of_log as u64, log.files, "log files: {found:?}");
        if let Some(checkpoint) = &found.checkpoint {
            check_units(checkpoint, &checkpoints);
        }
        found
    }

    /// Lets checkpointers remove what no reader keeps.
    fn settle_removals(&self) {
        for _ in 0..4 {
            self.rig.clock.advance(Duration::from_secs(2));
            (0..self.checkpoints.checkpointers()).for_each(|checkpointer| _ = self.step(checkpointer));
            self.rig.settle();
        }
    }

    fn check_leases(&self) {
        // The file is there once a checkpoint has removed something.
        drop(self.disk.mounted().lock("LEASES").expect("no lease is held"));
        let stats = self.rig.log.stats();
        assert!(stats.leases_overrun <= stats.removals_put_off, "a removal is put off first: {stats:?}");
    }

    /// Buffers of workers that have gone are free, and no large one is kept.
    fn check_buffers(&self) {
        let (stats, loggers) = (self.rig.log.stats(), self.rig.log.loggers() as u64);
        let usual = LOG_BUFFER_BYTES as u64;
        assert_eq!(stats.buffer_bytes % usual, 0, "a large buffer is kept: {stats:?}");
        let most = self.rig.attached() + SPARE_BUFFERS * loggers;
        assert!(stats.buffer_bytes / usual <= most, "more than {most} buffers: {stats:?}");
    }

    /// The log counts the bytes of its files, the one that comes next among them.
    fn check_log_bytes(&self) {
        let is_log = |name: &String| name.starts_with("log") && name.contains("/log-");
        let logs = self.disk.files().into_iter().filter(is_log);
        let bytes: u64 = logs.map(|name| self.disk.bytes(&name).len() as u64).sum();
        let stats = self.rig.log.stats();
        assert_eq!(stats.file_bytes, bytes, "bytes of {:?}: {stats:?}", self.disk.files());
    }

    /// Checks that no removed file is open, and no file twice.
    fn check_handles(&self) {
        let (open, there) = (self.counted.files.names(), self.disk.files());
        // A closed log file has another name than it was opened by.
        let is_there = |name: &String| there.iter().any(|file| file == name);
        let (open, gone): (Vec<_>, Vec<_>) = open.into_iter().partition(is_there);
        assert_eq!(gone, [""; 0], "files that are open and have no name");
        assert!(open.windows(2).all(|pair| pair[0] != pair[1]), "files that are open twice: {open:?}");
    }
}

/// Checks that every unit of the page files belongs to the picture or is free, and that no file has other units.
fn check_units(checkpoint: &CheckpointFacts, stats: &CheckpointStats) {
    let Some(picture) = &checkpoint.picture else { return };
    let used: u64 = picture.files.iter().map(|file| file.used_bytes + UNIT_BYTES).sum();
    assert_eq!(stats.page_file_bytes - stats.page_file_bytes_free, used, "units in use: {picture:?}");
    // Of a file without pages the opening block alone is written.
    let bytes: u64 = picture.files.iter().map(|file| file.bytes.next_multiple_of(UNIT_BYTES)).sum();
    assert_eq!(stats.page_file_bytes, bytes, "units of the files: {picture:?}");
}
