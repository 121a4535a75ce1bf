//! Checkpointers give way by the niceness that was set, and no other thread of the database does. One test: the threads
//! of another one would have the same names.
#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use ensile_engine::checkpoint::{Schedule, Strategy};
use ensile_engine::{Database, Result, Tuning};
use ensile_sim::SimDisk;
use ensile_sim::process_threads::{all, own_niceness};

/// Waits until the threads whose names begin so have these nicenesses. A thread gives itself its name and its niceness
/// once it runs, and one that has ended may be listed a while longer.
///
/// # Panics
/// If they have not after a minute of looks.
fn wait_until_threads_are(expected: &[(&str, Vec<i64>)], what: &str) {
    let mut threads = Vec::new();
    for _ in 0..60_000 {
        threads = all();
        let of = |start: &str| -> Vec<i64> {
            threads.iter().filter(|thread| thread.0.starts_with(start)).map(|thread| thread.1).collect()
        };
        if expected.iter().all(|(start, nicenesses)| of(start) == *nicenesses) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("{what}: {threads:?}, but expected {expected:?}");
}

#[test]
fn checkpointers_have_the_niceness_that_was_set_above_the_opening_threads() -> Result<()> {
    for strategy in [Strategy::Fuzzy, Strategy::Pictures] {
        for (set, added) in [(None, 5), (Some(0), 0), (Some(8), 8), (Some(19), 19)] {
            let mut tuning =
                Tuning { checkpointers: Some(2), checkpoint_strategy: Some(strategy), ..Tuning::default() };
            if let Some(niceness) = set {
                tuning.checkpoint_niceness = niceness;
            }
            let builder = Database::builder("unused").disk(Arc::new(SimDisk::new().mounted()));
            let db = builder.checkpoints(Schedule::on_demand()).tuning(tuning).open()?;
            let table = db.table::<u64, u64>("rows")?;
            db.run(|tx| tx.put(&table, &1, &1))?;
            db.checkpoint()?.wait()?;
            let own = own_niceness();
            let expected = [
                ("ensile-ckpt-", vec![(own + added).min(19); 2]),
                ("ensile-log-", vec![own]),
                ("ensile-heartbea", vec![own]),
            ];
            wait_until_threads_are(&expected, &format!("{strategy:?}, {set:?}"));
            let stats = db.stats().checkpoints.expect("it has a folder");
            assert_eq!(stats.niceness_refused, None);
            db.close()?;
        }
    }
    Ok(())
}
