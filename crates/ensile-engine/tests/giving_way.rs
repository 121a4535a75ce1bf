//! Checkpointers give way by the niceness that was set, and no other thread of the database does. One test: the threads
//! of another one would have the same names.
#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]

use std::sync::Arc;

use ensile_engine::checkpoint::{Schedule, Strategy};
use ensile_engine::{Database, Result, Tuning};
use ensile_sim::SimDisk;
use ensile_sim::process_threads::{all, own_niceness};

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
            // A checkpoint ends once each checkpointer has walked its part: all have begun.
            db.checkpoint()?.wait()?;
            let threads = all();
            let of = |start: &str| {
                let those = threads.iter().filter(|thread| thread.0.starts_with(start));
                those.map(|thread| thread.1).collect::<Vec<i64>>()
            };
            assert_eq!(
                of("ensile-ckpt-"),
                [(own_niceness() + added).min(19); 2],
                "{strategy:?}, {set:?}: {threads:?}"
            );
            assert_eq!(of("ensile-log-"), [own_niceness()], "{threads:?}");
            assert_eq!(of("ensile-heartbea"), [own_niceness()], "{threads:?}");
            let stats = db.stats().checkpoints.expect("it has a folder");
            assert_eq!(stats.niceness_refused, None);
            db.close()?;
        }
    }
    Ok(())
}
