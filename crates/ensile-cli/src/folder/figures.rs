//! Figures of the output in text: sizes, epochs, shares and keys.
//!
//! Neighbours: `verdict`, `details`, `backup_facts` and the commands of copies print the figures.

use std::fmt::Write as _;

use ensile::receipt::Epoch;

/// Unit of `--rate-mb`, in bytes.
pub(crate) const MEGABYTE: u64 = 1_000_000;

/// Text of a number of bytes, in a unit that keeps the number short.
pub(crate) fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

pub(super) fn format_epoch_range(low: Epoch, high: Epoch) -> String {
    if low == high {
        format!("epoch {}", low.number())
    } else {
        format!("epochs {} to {}", low.number(), high.number())
    }
}

pub(super) fn format_epoch_list(epochs: &[Epoch]) -> String {
    epochs.iter().map(|epoch| epoch.number().to_string()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
