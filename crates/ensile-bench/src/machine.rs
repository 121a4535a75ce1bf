//! The measured machine: its description, memory and processor time of this process, and pinning of threads to cores.
//!
//! Every figure comes from `/proc` and `/sys`. An unreadable figure is reported as unknown, never guessed.
//!
//! Neighbours: `report` prints the machine; systems ask for the growth of resident memory over their load.

pub mod memory;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::number::grouped;

/// Description of the machine under the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) huge_pages: String,
    pub(crate) load_average: String,
    pub(crate) ensile_version: &'static str,
    /// The commit of this program's build, with `+changes` if the tree had uncommitted changes.
    pub(crate) ensile_commit: &'static str,
}

impl Machine {
    /// Describes the machine of this process.
    pub fn look() -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib: u64 = field_after(&meminfo, "MemTotal")
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or(0);
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: field_after(&cpuinfo, "model name").map_or_else(unknown, str::to_owned),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib * 1024,
            kernel: line_of("/proc/sys/kernel/osrelease"),
            huge_pages: selected(&line_of("/sys/kernel/mm/transparent_hugepage/enabled")),
            load_average: line_of("/proc/loadavg"),
            ensile_version: env!("CARGO_PKG_VERSION"),
            // From this crate's build script.
            ensile_commit: env!("ENSILE_COMMIT"),
        }
    }
}

impl Machine {
    /// The description in one line.
    pub fn line(&self) -> String {
        format!(
            "{}, {} cores, {:.1} GiB, Linux {}, huge pages {}, load {}, ensile {} ({})",
            self.cpu,
            self.cores,
            self.memory_bytes as f64 / (1u64 << 30) as f64,
            self.kernel,
            self.huge_pages,
            self.load_average.split_whitespace().next().unwrap_or("unknown"),
            self.ensile_version,
            self.ensile_commit,
        )
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The text behind `name :` in a file of such lines.
fn field_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The first line of a file.
fn line_of(path: &str) -> String {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(unknown)
}

/// The bracketed word of a line such as `always [madvise] never`.
fn selected(line: &str) -> String {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .map_or_else(|| line.to_owned(), str::to_owned)
}

/// Bytes of memory resident in this process.
///
/// The kernel reports the figure in KiB here, so the size of a page is not needed: under valgrind `rustix` cannot tell
/// the page size.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field_after(&status, "VmRSS")
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Bytes of resident memory of this process on huge pages; 0 if the kernel does not say.
pub(crate) fn huge_page_bytes() -> u64 {
    memory_of(std::process::id()).1
}

/// Bytes of resident memory of a process of this user, and bytes of its memory on huge pages; 0 if the kernel does not
/// say.
pub fn memory_of(process: u32) -> (u64, u64) {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let bytes = |name: &str| {
        field_after(&rollup, name)
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024)
    };
    (bytes("Rss"), bytes("AnonHugePages"))
}

/// Nanoseconds of processor time of this process, including ended threads, in steps of some milliseconds. 0 if the
/// kernel does not say.
pub fn processor_nanos() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may have spaces. Behind the name the 12th and 13th fields are the time in and out of
    // the program.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second()
}

/// Nanoseconds of processor time of this process's living threads whose names begin with `threads`. 0 if the kernel
/// does not say.
pub fn processor_nanos_of(threads: &str) -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0 };
    let paths = tasks.filter_map(|task| Some(task.ok()?.path()));
    let named = paths
        .filter(|path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with(threads)));
    named
        .filter_map(|path| {
            let taken = fs::read_to_string(path.join("schedstat")).ok()?;
            taken.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum()
}

/// The environment variable of the C library's settings; a process reads the variable only at its start.
const C_LIBRARY: &str = "GLIBC_TUNABLES";
/// The setting that puts the C library's allocator on huge pages.
const HUGE_ALLOCATOR: &str = "glibc.malloc.hugetlb=";

/// The environment variable and its value for the C library's allocator on huge pages: this process's settings, plus
/// the setting for huge pages.
pub fn huge_pages_setting() -> (&'static str, String) {
    let settings = std::env::var(C_LIBRARY).unwrap_or_default();
    if settings.split(':').any(|setting| setting.starts_with(HUGE_ALLOCATOR)) {
        return (C_LIBRARY, settings);
    }
    let others = if settings.is_empty() { String::new() } else { format!("{settings}:") };
    (C_LIBRARY, format!("{others}{HUGE_ALLOCATOR}1"))
}

/// Starts this program again with the C library's allocator on huge pages, unless the setting is present.
pub(crate) fn restart_on_huge_pages() -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    let (name, value) = huge_pages_setting();
    if std::env::var(name).is_ok_and(|settings| settings == value) {
        return Ok(());
    }
    let doing = || Failure::io("starting this program again on huge pages");
    let program = std::env::current_exe().map_err(doing())?;
    let failed = Command::new(program).args(std::env::args_os().skip(1)).env(name, value).exec();
    Err(doing()(failed))
}

/// Bytes of memory available without swapping; `u64::MAX` if the kernel does not say.
pub fn available_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field_after(&meminfo, "MemAvailable")
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(u64::MAX, |kib| kib * 1024)
}

/// Refuses `records` of `bytes_per_record` bytes each if the records do not fit into the free memory. The error has the
/// number of records that fit.
pub fn must_fit(records: u64, bytes_per_record: u64) -> Result<()> {
    fit(records, bytes_per_record, available_bytes())
}

fn fit(records: u64, bytes_per_record: u64, available: u64) -> Result<()> {
    let most = available / bytes_per_record;
    if records <= most {
        return Ok(());
    }
    let [records, said] = [records, most].map(|count| grouped(count as f64));
    let words =
        format!("{records} records do not fit into the memory that is free; {said} do: --records {most}");
    Err(Failure::Usage(words))
}

/// True if the files of a folder stay in memory. The folder need not exist yet.
pub fn is_in_memory(folder: &Path) -> Result<bool> {
    /// Type of a tmpfs in the result of `statfs`.
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    let asked = || Failure::io(format!("asking for the file system of {}", folder.display()));
    let whole = std::path::absolute(folder).map_err(asked())?;
    let existing = whole.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    Ok(rustix::fs::statfs(existing).map_err(|error| asked()(error.into()))?.f_type == TMPFS)
}

/// The command that started this process, for a repetition, without the folders of its files.
pub fn command() -> String {
    let mut words = std::env::args();
    let program = PathBuf::from(words.next().unwrap_or_default());
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    without_folders(&name, words)
}

fn without_folders(program: &str, mut words: impl Iterator<Item = String>) -> String {
    let mut command = program.to_owned();
    while let Some(word) = words.next() {
        let (option, has_value) = word.split_once('=').map_or((&*word, false), |(option, _)| (option, true));
        if !["--data", "--out", "--tmpfs"].contains(&option) {
            command.push(' ');
            command.push_str(&word);
        } else if !has_value {
            words.next();
        }
    }
    command
}

/// Keeps the calling thread on one of the cores that this process may use; `index` counts around the cores.
pub(crate) fn pin_to_core(index: usize) -> Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let asked = |source: rustix::io::Errno| Failure::Io {
        what: "pinning a worker to a core".to_owned(),
        source: source.into(),
    };
    let allowed = sched_getaffinity(None).map_err(asked)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let mut one = CpuSet::new();
    one.set(cores[index % cores.len()]);
    sched_setaffinity(None, &one).map_err(asked)
}

/// Runs `open` while the calling thread may use only the cores from the `first`th on. Threads started by `open` keep to
/// these cores.
pub(crate) fn on_cores_from<R>(first: usize, open: impl FnOnce() -> Result<R>) -> Result<R> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let asked = |source: rustix::io::Errno| Failure::Io {
        what: "keeping threads of a database off the workers' cores".to_owned(),
        source: source.into(),
    };
    let allowed = sched_getaffinity(None).map_err(asked)?;
    let mut rest = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).skip(first).for_each(|core| rest.set(core));
    sched_setaffinity(None, &rest).map_err(asked)?;
    let opened = open();
    sched_setaffinity(None, &allowed).map_err(asked)?;
    opened
}

#[cfg(test)]
mod tests;
