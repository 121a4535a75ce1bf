//! What the heartbeat frees, a step at a time.

use std::time::Duration;

use crate::database::Database;
use crate::error::Result;

/// A turn lasts for seconds, and nobody unhooks beside one: steps that free nothing must come to an end.
#[test]
fn the_heartbeat_does_not_look_again_and_again_at_what_waits_for_a_turn() -> Result<()> {
    let clock = ensile_base::clock::Clock::manual();
    let db = Database::builder_in_memory().manual_clock(clock.clone()).without_threads().open()?;
    let table = db.table::<u64, u64>("numbers")?;
    let tick = || {
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
    };
    db.run(|tx| (0..5000).try_for_each(|key| tx.put(&table, &key, &key)))?;
    db.run(|tx| (0..5000).try_for_each(|key| tx.delete(&table, &key).map(drop)))?;
    let shared = db.shared();
    let turn = shared.gate.take_turn(&shared.epochs, &shared.clock, Duration::from_secs(100), None)?;
    (0..100).for_each(|_| tick());
    let waits = db.stats().garbage_things;
    assert!(waits >= 5000, "{waits} wait for the end of the turn");
    let mut collector = shared.collector.lock();
    shared.collection_tick(&mut collector);
    let steps = (0..1000).take_while(|_| shared.collection_step(&mut collector)).count();
    assert!(steps < 10, "{steps} steps");
    drop((collector, turn));
    (0..100).for_each(|_| tick());
    assert_eq!(db.stats().garbage_things, 0);
    Ok(())
}
