//! Names and niceness of the process's threads, as Linux reports them. For tests of threads that give way.
//!
//! Neighbours: tests of the engine and of objects, which check `ensile_disk::lower_priority`.

use std::fs;

/// The threads of the process: name, at most fifteen bytes, and niceness. A thread that ends meanwhile may be missing.
///
/// # Panics
/// If the format of Linux's files has changed.
#[must_use]
pub fn all() -> Vec<(String, i64)> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux has it");
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats.map(|stat| thread_of(&stat)).collect()
}

/// Niceness of the calling thread.
///
/// # Panics
/// As for [`all`].
#[must_use]
pub fn own_niceness() -> i64 {
    thread_of(&fs::read_to_string("/proc/thread-self/stat").expect("Linux has it")).1
}

/// `number (name) ..`: a name may have any character; niceness is field 19.
fn thread_of(stat: &str) -> (String, i64) {
    let (before, after) = stat.rsplit_once(") ").expect("a name");
    let name = before.split_once('(').expect("a name").1.to_owned();
    (name, after.split(' ').nth(19 - 3).expect("a niceness").parse().expect("a number"))
}

#[cfg(test)]
mod tests {
    use super::{all, own_niceness, thread_of};

    #[test]
    fn a_name_may_have_any_character() {
        let stat = "7 (a ) (b) S 1 7 7 0 -1 64 1 0 0 0 0 0 0 0 20 5 3 0 1 0 0";
        assert_eq!(thread_of(stat), ("a ) (b".to_owned(), 5));
        assert!(all().iter().any(|thread| thread.1 == own_niceness()));
    }
}
