//! Isolation, shown: one script per anomaly that weaker levels let through (`docs/internals/isolation.md` has the
//! table).
//!
//! Each is an interleaving of open transactions on one thread, drawn above its test, time going to the right. `!` marks
//! the call that the engine refuses. Names are those of Berenson et al. (1995), Adya (1999), Fekete et al. (2004).
//!
//! Neighbours: schedules of many threads are the simulator's and the stress tests' part.

mod phantoms;
mod reads;
mod skews;
mod width;
mod writes;

use ensile::prelude::*;

type Rows = Table<u32, i64>;

/// A database with one table that holds `rows`.
fn open(rows: &[(u32, i64)]) -> Result<(Database, Rows)> {
    let db = Database::in_memory()?;
    let table = db.table("table")?;
    db.run(|tx| rows.iter().try_for_each(|(key, row)| tx.put(&table, key, row)))?;
    Ok((db, table))
}

/// Whether the commit was refused by the one error that says: run it again.
fn is_conflict(result: Result<Receipt<'_>>) -> bool {
    result.is_err_and(|error| matches!(error, Error::Conflict) && error.is_retryable())
}

/// All rows, as a transaction of its own sees them.
fn rows(db: &Database, table: &Rows) -> Result<Vec<(u32, i64)>> {
    db.run(|tx| tx.range(table, ..).collect())
}

/// The scripts of a file, as `docs/internals/isolation.md` names them.
fn scripts(module: &str, source: &str) -> Vec<String> {
    let after_test = source.split("#[test]\nfn ").skip(1);
    after_test.map(|rest| format!("`{module}::{}`", rest.split('(').next().unwrap_or_default())).collect()
}

#[test]
fn the_document_names_every_script_and_no_other() {
    let document = include_str!("../../../../../docs/internals/isolation.md");
    let all = [
        scripts("writes", include_str!("writes.rs")),
        scripts("reads", include_str!("reads.rs")),
        scripts("skews", include_str!("skews.rs")),
        scripts("phantoms", include_str!("phantoms.rs")),
    ]
    .concat();
    assert!(all.len() > 20);
    for script in &all {
        assert!(document.contains(script), "docs/internals/isolation.md lacks {script}");
    }
    let named = document.split('`').skip(1).step_by(2).filter(|code| {
        ["writes::", "reads::", "skews::", "phantoms::"].iter().any(|module| code.starts_with(module))
    });
    for name in named {
        assert!(all.contains(&format!("`{name}`")), "there is no script {name}");
    }
}
