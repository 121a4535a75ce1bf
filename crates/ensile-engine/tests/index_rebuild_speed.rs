//! What it costs to rebuild an index at the opening of its table: printed.
//!
//! `turn cargo test --release -p ensile-engine --test index_rebuild_speed -- --ignored --nocapture`

use ensile_base::clock::Clock;
use ensile_engine::{Database, Durability, Result};

#[test]
#[ignore = "a measurement, in release and on a quiet machine"]
fn an_index_of_two_million_rows() -> Result<()> {
    const ROWS: u64 = 2_000_000;
    let folder = std::env::temp_dir().join(format!("ensile-index-rebuild-{}", std::process::id()));
    {
        let db = Database::builder(&folder).durability(Durability::Relaxed).open()?;
        let table = db.table::<u64, u64>("table")?;
        for from in (0..ROWS).step_by(500) {
            db.run(|tx| (from..from + 500).try_for_each(|id| tx.put(&table, &id, &(id * 7919 % ROWS))))?;
        }
        db.close()?;
    }
    for threads in [1, 2, 1, 2, 1, 2] {
        let db = Database::builder(&folder).recovery_threads(threads).open()?;
        let clock = Clock::machine();
        let table = db.define::<u64, u64>("table").index("by_row", 1, |_id, row| *row).open()?;
        println!("{threads} threads: {} ns a row", clock.nanos() / ROWS);
        assert!(!table.index::<u64>("by_row")?.is_unique());
        db.close()?;
    }
    std::fs::remove_dir_all(&folder).expect("removes");
    Ok(())
}
