//! `slach process-write`: cost of an entry's hand-over to the operating system, so that the entry survives the process.
//! Compares a write to a file by a call for each entry with a store into a mapped, shared file (SLACH §6.5).
//!
//! ```text
//! write            `DiskFile::write_at`: one pwrite into the page cache, which is never synced
//! store            `MappedWords::store_bytes`: the same bytes into a mapping of such a file
//! store, counted   the same with its checksum, and a count behind it: what the process-safe level does
//! ```
//! Both files have [`FILE_BYTES`] bytes from the beginning, and entries go round in the files. The kinds take turns.
//!
//! Neighbours: `docs/internals/protocols/process.md` cites the figures; `ensile-disk` has both ways.

use std::path::Path;

use ensile::DurabilityError;
use ensile_base::clock::Clock;
use ensile_disk::{Disk, DiskError, DiskFile, MappedWords, RealDisk};
use ensile_objects::ObjectsError;

use super::arguments::SlachArguments;
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::number::grouped;
use crate::progress::Progress;
use crate::system::fresh_folder;

const FOLDER: &str = "slach-process-write";
const FILE_BYTES: usize = 1 << 20;
const WORD_BYTES: usize = 8;
/// Lengths of entries: whole words, without gaps.
const ENTRY_BYTES: [usize; 2] = [64, 200];
/// Words in front of the entries: the first word of a mapped file is the count.
const FRONT_WORDS: usize = 1;

const NANOS: (&str, &str) = ("time", "ns an entry");

/// Way to hand an entry over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Write,
    Store,
    StoreCounted,
}

impl Way {
    const ALL: [Self; 3] = [Self::Write, Self::Store, Self::StoreCounted];

    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Store => "store",
            Self::StoreCounted => "store, counted",
        }
    }
}

/// A written file, and a mapped file.
struct Files {
    written: Box<dyn DiskFile>,
    mapped: MappedWords,
}

impl Files {
    fn new(disk: &dyn Disk) -> Result<Self, DiskError> {
        let written = disk.create("written")?;
        written.write_at(&[1; FILE_BYTES], 0)?;
        let mapped = disk.create("mapped")?.map(FILE_BYTES as u64)?;
        Ok(Self { written, mapped })
    }

    /// Hands `calls` entries over, each different from the entry before.
    #[inline(never)]
    fn hand_over(&self, way: Way, entry: &mut [u8], calls: u64) -> Result<(), DiskError> {
        debug_assert!(entry.len().is_multiple_of(WORD_BYTES));
        let entries = (FILE_BYTES - FRONT_WORDS * WORD_BYTES) / entry.len();
        let (mut at, mut sum) = (0, 0);
        for call in 0..calls {
            entry[..WORD_BYTES].copy_from_slice(&call.to_le_bytes());
            let from = FRONT_WORDS * WORD_BYTES + at * entry.len();
            match way {
                Way::Write => self.written.write_at(entry, from as u64)?,
                Way::Store => self.mapped.store_bytes(from / WORD_BYTES, entry),
                Way::StoreCounted => {
                    sum = self.mapped.store_summed(from / WORD_BYTES, entry, sum).words;
                    self.mapped.publish(0, u64::from(sum) << 32 | (from + entry.len()) as u64);
                }
            }
            at = (at + 1) % entries;
        }
        Ok(())
    }
}

/// Measures.
pub(super) fn process_write(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let failed = |error| ObjectsError::from(DurabilityError::from(error));
    let measured = measured(arguments, &folder).map_err(failed)?;
    std::fs::remove_dir_all(&folder).map_err(Failure::io(format!("removing {}", folder.display())))?;
    let mut rows = Vec::new();
    for (bytes, nanos) in ENTRY_BYTES.into_iter().zip(measured) {
        let place = || Place::Bar(format!("{bytes} bytes"));
        for (way, nanos) in Way::ALL.into_iter().zip(&nanos) {
            rows.push(Row::new(way.name(), place(), NANOS, nanos.clone()));
        }
        rows.push(Row::ratio((Way::Write.name(), &nanos[0]), (Way::StoreCounted.name(), &nanos[2]), place()));
    }
    let title =
        format!("An entry is handed to the system, {} calls a round", grouped(arguments.calls as f64));
    let figure = Figure { name: "process-write", title, drawn: NANOS, rows, ..Figure::default() };
    Ok((figure, true, String::new()))
}

/// Nanoseconds of an entry: by its length, then by the way, then by the round.
fn measured(arguments: &SlachArguments, folder: &Path) -> Result<[[Vec<f64>; 3]; 2], DiskError> {
    let (clock, mut progress) = (Clock::machine(), Progress::new(arguments.rounds));
    let files = Files::new(&RealDisk::existing(folder)?)?;
    let mut measured: [[Vec<f64>; 3]; 2] = Default::default();
    for round in 0..arguments.rounds {
        for (bytes, of_bytes) in ENTRY_BYTES.into_iter().zip(&mut measured) {
            for (way, nanos) in Way::ALL.into_iter().zip(of_bytes) {
                progress.update(&format!("round {} of {}: {}", round + 1, arguments.rounds, way.name()));
                let mut entry = vec![2; bytes];
                let began = clock.nanos();
                files.hand_over(way, &mut entry, arguments.calls)?;
                nanos.push((clock.nanos() - began) as f64 / arguments.calls as f64);
            }
        }
    }
    progress.clear();
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use ensile_disk::RealDisk;

    use super::{ENTRY_BYTES, FILE_BYTES, FRONT_WORDS, Files, WORD_BYTES, Way};
    use crate::system::fresh_folder;

    #[test]
    fn both_files_hold_the_same_entries_behind_the_count() {
        let folder =
            fresh_folder(&std::env::temp_dir(), &format!("ensile-process-write-{}", std::process::id()))
                .expect("a folder");
        let files = Files::new(&RealDisk::existing(&folder).expect("a disk")).expect("two files");
        for bytes in ENTRY_BYTES {
            // Once round, and some more.
            let calls = (FILE_BYTES / bytes + 3) as u64;
            let read = |way, name| {
                files.hand_over(way, &mut vec![2; bytes], calls).expect("it is handed over");
                std::fs::read(folder.join(name)).expect("the file")
            };
            let front = FRONT_WORDS * WORD_BYTES;
            let end = front + (FILE_BYTES - front) / bytes * bytes;
            let written = read(Way::Write, "written");
            let stored = read(Way::Store, "mapped");
            let counted = read(Way::StoreCounted, "mapped");
            assert_eq!((written.len(), stored.len()), (FILE_BYTES, FILE_BYTES));
            assert!(written[front..end] == stored[front..end] && stored[front..] == counted[front..]);
            let last = (calls - 1) as usize % ((FILE_BYTES - front) / bytes);
            assert_eq!(written[front + last * bytes..][..WORD_BYTES], (calls - 1).to_le_bytes());
            assert_eq!(counted[..4], ((front + (last + 1) * bytes) as u32).to_le_bytes());
        }
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }
}
