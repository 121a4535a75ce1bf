//! The processor's time that a process has used, as Linux tells it: beside other programs it says more than the
//! clock's.
//!
//! Zero where it is not told.
//!
//! Neighbours: [`super`] asks before and after a recovery.

/// Ticks of `/proc/<process>/stat` in a second, on every Linux.
const TICKS_A_SECOND: f64 = 100.0;
/// Fields between the program's name and the user's time.
const FIELDS_BEFORE: usize = 11;

/// Seconds of this process in user and system mode, all its threads together, those that have ended among them.
pub(super) fn seconds() -> f64 {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| parse(&stat)).unwrap_or_default()
}

fn parse(stat: &str) -> Option<f64> {
    // The name of the program may hold spaces and brackets of its own.
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
