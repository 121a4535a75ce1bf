//! Processor time of the process, from Linux. Beside busy programs, processor time tells more than elapsed time.
//!
//! The time is zero on systems without `/proc`.
//!
//! Neighbours: [`super`] reads the time before and after a recovery.

/// Ticks of `/proc/<process>/stat` in a second, on every Linux.
const TICKS_A_SECOND: f64 = 100.0;
/// Fields between the program's name and the user time.
const FIELDS_BEFORE: usize = 11;

/// Seconds of the process in user and system mode, summed over live and ended threads.
pub(super) fn seconds() -> f64 {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| parse(&stat)).unwrap_or_default()
}

fn parse(stat: &str) -> Option<f64> {
    // The name of the program may contain spaces and brackets.
    let fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let times = fields.skip(FIELDS_BEFORE).take(2).map(str::parse::<u64>);
    Some(times.sum::<Result<u64, _>>().ok()? as f64 / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn user_and_system_time_are_added_whatever_the_program_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 9 9 20 0 1 0";
        assert_eq!(parse(stat), Some(1.75));
        assert_eq!(parse("7 (cut"), None);
    }
}
