//! Threads on cores.

use super::*;
use crate::{Database, Result, Tuning};

/// The cores that the calling thread may run on, after a transaction of its own.
fn cores_after_a_commit(db: &Database) -> Vec<usize> {
    let table = db.table::<u64, u64>("numbers").expect("opens");
    db.run(|tx| tx.put(&table, &1, &1)).expect("commits");
    cores_of(&sched_getaffinity(None).expect("asked")).collect()
}

#[test]
fn own_threads_are_kept_from_the_last_core_on() {
    let free: Vec<usize> = cores_of(&sched_getaffinity(None).expect("asked")).collect();
    let cores = Cores::of_this_thread().expect("asked");
    let cores = &cores;
    std::thread::scope(|scope| {
        for number in 0..2 * free.len() {
            let kept = scope.spawn(move || {
                cores.keep_own_thread(number);
                cores_of(&sched_getaffinity(None).expect("asked")).collect::<Vec<_>>()
            });
            assert_eq!(kept.join().expect("runs"), [free[free.len() - 1 - number % free.len()]]);
        }
    });
}

#[test]
fn worker_threads_are_kept_on_cores_in_turn_and_others_are_left_alone() -> Result<()> {
    let free: Vec<usize> = cores_of(&sched_getaffinity(None).expect("asked")).collect();
    let db = Database::builder_in_memory().open()?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| cores_after_a_commit(&db));
        assert_eq!(thread.join().expect("runs"), free, "nobody asked for it");
    });
    let pinned =
        Database::builder_in_memory().tuning(Tuning { pin_workers: true, ..Tuning::default() }).open()?;
    let mut seen = Vec::new();
    for _ in 0..2 * free.len() {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| cores_after_a_commit(&pinned));
            seen.push(thread.join().expect("runs"));
        });
    }
    assert!(seen.iter().all(|cores| cores.len() == 1), "{seen:?}");
    for core in &free {
        assert!(seen.contains(&vec![*core]), "core {core} is nobody's: {seen:?}");
    }
    Ok(())
}
