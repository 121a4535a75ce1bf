//! Lengths of time on the command line.
//!
//! Neighbours: options of experiments are parsed here.

/// Parses a length of time above zero, in seconds.
pub(super) fn positive_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if seconds > 0.0 && seconds < 1e6 { Ok(seconds) } else { Err("it is to be above zero".to_owned()) }
}
