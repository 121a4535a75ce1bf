//! Facts of the machine and of this process from the system's files, and the priority of a thread.
//!
//! Neighbours: the engine's threads ask when a database opens; checkpointers and the shipper lower their priority at
//! their start; `ensile-server` shows the use of the process.

use std::io;

/// File of Linux with the numbers of the memory nodes: `0`, or `0-1`. The file is missing on a kernel built for one
/// node.
const NODES: &str = "/sys/devices/system/node/online";

/// True if the machine's memory is equally near to every core. True if the system does not tell.
///
/// ```
/// // A machine has one node or several, and says the same each time.
/// assert_eq!(ensile_disk::has_one_memory_node(), ensile_disk::has_one_memory_node());
/// ```
#[must_use]
pub fn has_one_memory_node() -> bool {
    std::fs::read_to_string(NODES).map_or(true, |nodes| is_one(&nodes))
}

/// Files of Linux with the memory and the times of this process.
const OWN_STATUS: &str = "/proc/self/status";
const OWN_TIMES: &str = "/proc/self/stat";

/// Resources that this process uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessUsage {
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Processor time outside of the kernel in seconds, ended threads included.
    pub user_seconds: f64,
    /// Processor time in the kernel in seconds, ended threads included.
    pub system_seconds: f64,
}

/// Resources that this process uses now; `None` if the system does not tell.
///
/// ```
/// let used = ensile_disk::process_usage();
/// assert!(used.is_none_or(|used| used.resident_bytes > 0));
/// ```
#[must_use]
pub fn process_usage() -> Option<ProcessUsage> {
    let read = |path| std::fs::read_to_string(path).ok();
    usage_of(&read(OWN_STATUS)?, &read(OWN_TIMES)?, rustix::param::clock_ticks_per_second())
}

/// The resources from the texts of both files.
fn usage_of(status: &str, times: &str, ticks_per_second: u64) -> Option<ProcessUsage> {
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident_kib: u64 = resident.split_whitespace().next()?.parse().ok()?;
    // The name of the program, in parentheses, may have spaces. Behind the name the 12th and the 13th field are times.
    let (_, fields) = times.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(|ticks| ticks.parse::<u64>().ok());
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second as f64;
    Some(ProcessUsage {
        resident_bytes: resident_kib * 1024,
        user_seconds: seconds(ticks.next()??),
        system_seconds: seconds(ticks.next()??),
    })
}

/// Lowers the priority of the calling thread by this niceness. The niceness is added to the inherited niceness, up to
/// [`NICENESS_MAX`](ensile_base::limits::NICENESS_MAX). 0 changes nothing. Linux asks for no privilege.
///
/// ```
/// std::thread::spawn(|| ensile_disk::lower_priority(10)).join().expect("no panic")?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] on systems other than Linux, where the whole process has one niceness: nothing was
/// changed. On Linux, the system's error.
pub fn lower_priority(niceness: u8) -> io::Result<()> {
    if niceness == 0 { Ok(()) } else { add_niceness(niceness) }
}

/// Linux has a niceness per thread. The calling thread needs no identifier.
#[cfg(target_os = "linux")]
fn add_niceness(niceness: u8) -> io::Result<()> {
    use ensile_base::limits::NICENESS_MAX;
    use rustix::process::{getpriority_process, setpriority_process};

    let inherited = getpriority_process(None)?;
    Ok(setpriority_process(None, (inherited + i32::from(niceness)).min(i32::from(NICENESS_MAX)))?)
}

#[cfg(not(target_os = "linux"))]
fn add_niceness(_: u8) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no priority of a single thread"))
}

fn is_one(nodes: &str) -> bool {
    nodes.trim().parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::{ProcessUsage, is_one, lower_priority, usage_of};

    #[test]
    fn one_node_is_one_number() {
        assert!(is_one("0\n"));
        assert!(!is_one("0-1\n"));
        assert!(!is_one("0,2\n"));
    }

    #[test]
    fn the_use_of_a_process_stands_behind_its_name() {
        let status = "Name:\ta b) c\nVmHWM:\t  9 kB\nVmRSS:\t    1024 kB\n";
        let times = "17 (a b) c) S 1 17 17 0 -1 4194560 9 0 0 0 250 50 7 7 20 0 1 0\n";
        let used = ProcessUsage { resident_bytes: 1 << 20, user_seconds: 2.5, system_seconds: 0.5 };
        assert_eq!(usage_of(status, times, 100), Some(used));
        assert_eq!(usage_of("", times, 100), None);
        assert_eq!(usage_of(status, "17 (a", 100), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_lowers_its_own_priority_by_what_it_is_asked_and_no_other_threads() {
        use ensile_base::limits::NICENESS_MAX;
        use rustix::process::getpriority_process;

        let own = || getpriority_process(None).expect("a thread has a niceness");
        let before = own();
        let of = |steps: &[u8]| {
            let lower = || {
                steps.iter().for_each(|&step| lower_priority(step).expect("is allowed"));
                own()
            };
            std::thread::scope(|scope| scope.spawn(lower).join().expect("no panic"))
        };
        let most = i32::from(NICENESS_MAX);
        assert_eq!(of(&[]), before, "it is inherited");
        assert_eq!(of(&[0]), before);
        assert_eq!(of(&[3]), (before + 3).min(most));
        assert_eq!(of(&[3, 4]), (before + 7).min(most));
        assert_eq!(of(&[NICENESS_MAX, NICENESS_MAX]), most.min(before + 2 * most));
        assert_eq!(own(), before);
    }
}
