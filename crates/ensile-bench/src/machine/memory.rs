//! Current and peak memory of a process, from Linux.
//!
//! Without `/proc` the figures are zero, not guesses.
//!
//! Neighbours: `recovery` reads the memory before and after a recovery, and the memory of the killed process.

/// Resident bytes of a process; `self` is the calling process.
pub(crate) fn resident(process: &str) -> Option<u64> {
    field(process, "VmRSS:")
}

/// Resets the peak, and returns the resident bytes of the calling process.
pub fn forget_peak() -> u64 {
    // Only a writable /proc can reset the peak. With a read-only /proc, the peak counts from the start of the process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    resident("self").unwrap_or_default()
}

/// Peak of the resident bytes since the reset.
pub fn peak() -> u64 {
    field("self", "VmHWM:").unwrap_or_default()
}

fn field(process: &str, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{forget_peak, peak};

    #[test]
    fn a_peak_is_seen_after_what_made_it_is_gone() {
        let before = forget_peak();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(peak() >= before + (48 << 20), "{before} {}", peak());
    }
}
