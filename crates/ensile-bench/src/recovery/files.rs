//! The files of a database as the system sees them: evicted from the page cache, and read at the full speed of the
//! device.
//!
//! Neighbours: [`super`] evicts before each recovery, and compares the recovery with reading the same files.

use std::fs::{self, File};
use std::io::{IoSliceMut, Read as _};
use std::path::{Path, PathBuf};

use ensile_base::clock::Clock;
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::failure::{Failure, Result};

/// Bytes of one read.
const READ_BYTES: usize = 4 << 20;
/// Distance of two pages that are looked up in memory, in bytes.
const SAMPLE_BYTES: u64 = 1 << 20;

/// The files of a folder and its subfolders.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = || Failure::io(format!("listing {}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail())? {
        let path = entry.map_err(fail())?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Evicts the files of a folder from the page cache. Returns the share still in the cache, between 0 and 1.
pub(super) fn evict(folder: &Path) -> Result<f64> {
    let (mut sampled, mut cached) = (0u64, 0u64);
    for path in files(folder)? {
        let fail = || Failure::io(format!("evicting {}", path.display()));
        let file = File::open(&path).map_err(fail())?;
        // Only synced pages can leave the cache.
        file.sync_all().map_err(fail())?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| fail()(error.into()))?;
        let length = file.metadata().map_err(fail())?.len();
        for offset in (0..length).step_by(SAMPLE_BYTES as usize) {
            let mut byte = [0];
            // A page that is not in memory is not read, but refused.
            let read = preadv2(&file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
            sampled += 1;
            cached += u64::from(read.is_ok());
        }
    }
    Ok(cached as f64 / sampled.max(1) as f64)
}

/// Reads the files of a folder one after the other; returns bytes and seconds.
pub(super) fn read_all(folder: &Path) -> Result<(u64, f64)> {
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    let clock = Clock::machine();
    for path in files(folder)? {
        let fail = || Failure::io(format!("reading {}", path.display()));
        let mut file = File::open(&path).map_err(fail())?;
        loop {
            match file.read(&mut buffer).map_err(fail())? {
                0 => break,
                read => bytes += read as u64,
            }
        }
    }
    Ok((bytes, clock.nanos() as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::{evict, read_all};

    #[test]
    fn every_file_is_evicted_and_read() {
        let folder = std::env::temp_dir().join(format!("ensile-bench-files-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).expect("a temporary folder");
        std::fs::write(folder.join("a"), vec![1; 3 << 20]).expect("a file");
        std::fs::write(folder.join("inner/b"), vec![2; 100]).expect("a file");
        let cached = evict(&folder).expect("files of our own");
        assert!((0.0..=1.0).contains(&cached));
        assert_eq!(read_all(&folder).expect("files of our own").0, (3 << 20) + 100);
        assert!(evict(&folder.join("nowhere")).is_err());
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
