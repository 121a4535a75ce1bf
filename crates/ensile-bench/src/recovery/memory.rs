//! What memory a process has, and had at most, as Linux tells it.
//!
//! Zero where it is not told: the figures are then left at zero and not guessed.
//!
//! Neighbours: [`super`] asks before and after a recovery, and of the process that it kills.

/// Bytes that a process has in memory, this one's as `self`.
pub(super) fn resident(process: &str) -> Option<u64> {
    field(process, "VmRSS:")
}

/// Lets the peak begin anew. What the process has now.
pub(crate) fn forget_peak() -> u64 {
    // Only a writable /proc knows how; otherwise the peak is the one since the start of the process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    resident("self").unwrap_or_default()
}

/// The most that this process had since then.
pub(crate) fn peak() -> u64 {
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
