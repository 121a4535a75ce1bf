//! The machine, the memory of a process and the bytes of a folder on disk.
//!
//! The facts come from `/proc` and from the file system. A missing fact is reported as unknown.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::Result;

/// Bytes of the unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The machine of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) huge_pages: String,
    /// File system of the folder of the databases, and its device.
    pub(crate) file_system: String,
}

impl Machine {
    /// The machine of this process, and the file system of `folder`.
    pub(crate) fn look(folder: &Path) -> Result<Self> {
        let memory = fs::read_to_string("/proc/meminfo")?;
        Ok(Self {
            processor: field(&fs::read_to_string("/proc/cpuinfo")?, "model name"),
            cores: cores(),
            memory_bytes: kibibytes(&memory, "MemTotal"),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            huge_pages: first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
            file_system: file_system(&fs::read_to_string("/proc/mounts")?, &fs::canonicalize(folder)?),
        })
    }

    /// The machine as one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} cores, {:.1} GiB, Linux {}, {}, huge pages {}",
            self.processor,
            self.cores,
            self.memory_bytes as f64 / (1u64 << 30) as f64,
            self.kernel,
            self.file_system,
            self.huge_pages,
        )
    }
}

/// Number of cores for this process.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processes that ran or waited for a core in the last minute, on average.
pub(crate) fn load_average() -> String {
    first_line("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned()
}

/// Bytes of memory resident in this process, mapped files included.
pub(crate) fn resident_bytes() -> Result<u64> {
    Ok(kibibytes(&fs::read_to_string("/proc/self/status")?, "VmRSS"))
}

/// Bytes on disk of the files in a folder, without holes.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += metadata.blocks() * BLOCK_BYTES;
        if metadata.is_dir() {
            bytes += disk_bytes(&entry.path())?;
        }
    }
    Ok(bytes)
}

/// Type and device of the mount with the longest mount point above a path.
fn file_system(mounts: &str, path: &Path) -> String {
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let of_path = fields.filter(|(_device, point, _kind)| path.starts_with(point));
    // The later of two mounts on one point hides the earlier.
    let longest = of_path.max_by_key(|(_device, point, _kind)| point.len());
    longest.map_or_else(|| "unknown".to_owned(), |(device, _point, kind)| format!("{kind} on {device}"))
}

fn field(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_else(|| "unknown".to_owned())
}

fn kibibytes(text: &str, name: &str) -> u64 {
    field(text, name)
        .split(' ')
        .next()
        .and_then(|number| number.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::file_system;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount_point() {
        let mounts = "/dev/a / ext4 rw\n/dev/b /data xfs rw\ntmpfs /data/c tmpfs rw\n";
        assert_eq!(file_system(mounts, Path::new("/data/b/d")), "xfs on /dev/b");
        assert_eq!(file_system(mounts, Path::new("/database")), "ext4 on /dev/a");
    }
}
