//! The damage matrix cell by cell: each test is a row, and each of its cells says where the damage is, and the verdict.
//!
//! *Below D*: an intact block elsewhere, the manifest or the hint shows it to have been durable. *At D*: the last mark
//! of a log that was not closed, which nothing repeats, unless there is a *witness*. *Above D*: synced in one log,
//! before the other had its mark. *Void*: above the D of a generation that is closed.

use super::folder::{Folder, History, Verdict, open, void_above};
use crate::prelude::*;

mod of_checkpoints_and_manifest;
mod of_logs;

/// Bytes of a value: the blocks of an epoch fill more than two sectors, those of three epochs a file.
const VALUE_BYTES: usize = 1_200;
const SECTOR_BYTES: u64 = 512;
const MANIFEST: &str = "MANIFEST";
const HINT: &str = "HINT";

/// What is there beside the last synced marks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// Nothing: no block shows the last epoch.
    Bare,
    /// A hint that shows D.
    Hinted,
    /// Entries above D in log 0, synced; they show D.
    Ahead,
    /// As much again, in the next file of log 0.
    FurtherAhead,
    /// The seal of a clean close.
    Closed,
}

/// What an epoch took in one log: a data block and a mark.
#[derive(Clone, Debug)]
struct Place {
    file: String,
    from: u64,
    end: u64,
}

impl Place {
    fn mark(&self) -> u64 {
        self.end - MARK_BYTES
    }
}

struct Cells {
    folder: Folder,
    /// In log 0 of the generation that is closed, above its D.
    void: Place,
    /// In log 1 of the open generation: the last two epochs.
    below: Place,
    at: Place,
    /// In log 0, what is above D, if there is something.
    above: Vec<Place>,
}

/// Writes epochs, and notes where they stand.
struct Writer<'l> {
    disk: &'l SimDisk,
    life: &'l Life,
    workers: [Worker; 2],
    history: &'l mut History,
}

impl<'l> Writer<'l> {
    fn new(disk: &'l SimDisk, life: &'l Life, history: &'l mut History) -> Self {
        Self { disk, life, workers: [life.rig.worker(), life.rig.worker()], history }
    }

    /// The file that log `log` is at, and how far it is written.
    fn end(&self, log: usize) -> (String, u64) {
        let folder = format!("log{log}/");
        let number = |name: &String| {
            name.split('-').filter_map(|part| part.parse::<u64>().ok()).take(2).collect::<Vec<_>>()
        };
        let files = self.disk.files().into_iter().filter(|name| name.starts_with(&folder));
        let file = files.max_by_key(number).expect("a log has a file");
        let end = self.end_of(&file);
        (file, end)
    }

    fn commit(&mut self, log: usize) {
        let key = (self.history.len() as u64 * 2 + log as u64) % 16;
        let value = vec![self.history.len() as u8 + 1; VALUE_BYTES];
        let tid = self.life.commit(&mut self.workers[log], key, Some(&value));
        self.history.push((tid, key, Some(value)));
    }

    /// Where what was written since `before` stands. A file that was closed since has another name.
    fn place(&self, (file, from): (String, u64)) -> Place {
        let closed = format!("{file}-to-");
        let renamed = self.disk.files().into_iter().find(|name| name.starts_with(&closed));
        match renamed {
            Some(file) => Place { from, end: self.disk.bytes(&file).len() as u64, file },
            None => Place { end: self.end_of(&file), file, from },
        }
    }

    fn end_of(&self, file: &str) -> u64 {
        let used = self.disk.bytes(file).iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1);
        // An opening block ends with zeros.
        used.next_multiple_of(8).max(OPENING_BYTES)
    }

    /// A durable epoch with a change in each log; where it stands in log 1.
    fn epoch(&mut self) -> Place {
        let before = self.end(1);
        (0..2).for_each(|log| self.commit(log));
        self.life.rig.settle();
        assert!(self.life.rig.log.durable_epoch() >= self.history.last().expect("written").0.epoch());
        self.place(before)
    }

    /// A change and its mark in log 0 alone: above D.
    fn epoch_above(&mut self) -> Place {
        let before = self.end(0);
        self.commit(0);
        self.life.rig.advance();
        self.life.rig.log.logger_step(0);
        self.place(before)
    }
}

impl Cells {
    fn build(ending: Ending) -> Self {
        let (disk, mut history, mut earlier) = (SimDisk::new(), History::new(), Vec::new());
        let life = open(&disk, 2);
        let mut writer = Writer::new(&disk, &life, &mut history);
        for _ in 0..2 {
            writer.epoch();
            writer.epoch();
            earlier.push(disk.fork());
            life.checkpoint().expect("nothing is in its way");
        }
        writer.epoch();
        writer.epoch();
        let void = writer.epoch_above();
        drop(writer);
        void_above(&mut history, life.rig.log.durable_epoch());
        disk.crash_with(Survival::Everything, 0);
        earlier.push(disk.fork());
        drop(life);

        let life = open(&disk, 2);
        let mut writer = Writer::new(&disk, &life, &mut history);
        // Three of them fill a file, so the last one begins another; what is further ahead then begins one more.
        let epochs = if ending == Ending::FurtherAhead { 5 } else { 4 };
        let mut places = Vec::new();
        let mut witnessed = Epoch::ZERO;
        for _ in 0..epochs {
            earlier.push(disk.fork());
            witnessed = life.rig.log.durable_epoch();
            places.push(writer.epoch());
        }
        earlier.push(disk.fork());
        let mut above = Vec::new();
        match ending {
            Ending::Bare | Ending::Closed => {}
            Ending::Hinted => life.rig.log.hint_step(),
            Ending::Ahead => above.push(writer.epoch_above()),
            Ending::FurtherAhead => above.extend([writer.epoch_above(), writer.epoch_above()]),
        }
        drop(writer);
        if ending != Ending::Bare {
            witnessed = life.rig.log.durable_epoch();
        }
        void_above(&mut history, life.rig.log.durable_epoch());
        if ending == Ending::Closed {
            life.checkpoints.close(&life.store);
            life.rig.log.close().expect("closes");
        }
        drop(life);
        let (at, below) = (places.pop().expect("the last"), places.pop().expect("the one before"));
        let cells = Self {
            folder: Folder::of(disk, earlier, history, witnessed, VALUE_BYTES as u64),
            void,
            below,
            at,
            above,
        };
        assert_eq!(cells.judge(&cells.folder.copy()), Verdict::Whole { told: false });
        cells
    }

    /// The verdict of recovery. What it calls damage an examination names with the same file and offset, and nothing
    /// else is damage to it.
    fn judge(&self, damaged: &SimDisk) -> Verdict {
        let examined = examine(&handle(damaged.fork()), &Store::default()).expect("it can be read").damage;
        let verdict = self.folder.judge(damaged).unwrap_or_else(|error| panic!("{error}"));
        match &verdict {
            Verdict::Damaged { file, offset } => {
                let is_it = |found: &examination::Damage| (&found.file, found.offset) == (file, *offset);
                assert!(examined.iter().any(is_it), "{verdict:?} is not in {examined:?}");
            }
            _ => assert!(examined.is_empty(), "{examined:?}"),
        }
        verdict
    }

    /// The verdict after this damage.
    fn after(&self, damage: impl FnOnce(&SimDisk)) -> Verdict {
        let disk = self.folder.copy();
        damage(&disk);
        self.judge(&disk)
    }

    /// The name of a file of log `log`, generation and number.
    fn file(&self, log: u32, generation: u64, number: u64) -> String {
        let open = format!("log{log}/log-{generation}-{number}");
        let closed = format!("{open}-to-");
        let files = self.folder.disk.files();
        files.into_iter().find(|name| *name == open || name.starts_with(&closed)).expect("it is there")
    }

    /// The file of this log, generation and number as it was before, the newest copy that is another one: behind the
    /// same blocks there is less.
    fn stale(&self, log: u32, generation: u64, number: u64) -> Vec<u8> {
        let open = format!("log{log}/log-{generation}-{number}");
        let now = used(self.folder.disk.bytes(&self.file(log, generation, number)));
        let has_it = |disk: &&SimDisk| disk.files().contains(&open);
        let copies = self.folder.earlier.iter().rev().filter(has_it).map(|disk| used(disk.bytes(&open)));
        copies.into_iter().find(|bytes| bytes.len() < now.len()).expect("it was shorter")
    }

    /// The newest copy of a file that is not as it is now.
    fn stale_copy(&self, file: &str) -> Vec<u8> {
        let now = self.folder.disk.bytes(file);
        let has_it = |disk: &&SimDisk| disk.files().iter().any(|name| name == file);
        let copies = self.folder.earlier.iter().rev().filter(has_it).map(|disk| disk.bytes(file));
        copies.into_iter().find(|bytes| *bytes != now).expect("it was another one")
    }

    fn bytes(&self, file: &str) -> Vec<u8> {
        self.folder.disk.bytes(file)
    }
}

/// Up to the last byte that is not zero, and little of the space behind.
fn used(mut bytes: Vec<u8>) -> Vec<u8> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes.truncate(used + 64);
    bytes
}

/// A change of the folder.
type Change = Box<dyn FnOnce(&SimDisk)>;

fn bit(place: &Place, at: u64) -> Change {
    let file = place.file.clone();
    Box::new(move |disk| disk.flip(&file, at, 4))
}

/// Zeroes the sector in which the last byte of the place stands.
fn sector(place: &Place) -> Change {
    let place = place.clone();
    Box::new(move |disk| {
        let mut bytes = disk.bytes(&place.file);
        let from = (place.end - 1) / SECTOR_BYTES * SECTOR_BYTES;
        assert!(from >= place.from, "nothing else stands in it");
        let end = (from + SECTOR_BYTES).min(bytes.len() as u64);
        bytes[from as usize..end as usize].fill(0);
        disk.put(&place.file, bytes);
    })
}

fn cut(file: &str, to: u64) -> Change {
    let file = file.to_owned();
    Box::new(move |disk| {
        let mut bytes = disk.bytes(&file);
        bytes.truncate(to as usize);
        disk.put(&file, bytes);
    })
}

fn lost(file: &str) -> Change {
    let file = file.to_owned();
    Box::new(move |disk| disk.lose(&file))
}

fn replaced(file: &str, bytes: Vec<u8>) -> Change {
    let file = file.to_owned();
    Box::new(move |disk| disk.put(&file, bytes))
}

const WHOLE: Verdict = Verdict::Whole { told: false };
const TOLD: Verdict = Verdict::Whole { told: true };

fn error(file: &str, offset: u64) -> Verdict {
    Verdict::Damaged { file: file.to_owned(), offset }
}

/// Is it an error that names this file, at any offset?
fn is_error_in(verdict: &Verdict, file: &str) -> bool {
    matches!(verdict, Verdict::Damaged { file: named, .. } if named == file)
}
