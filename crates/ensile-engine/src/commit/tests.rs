//! Steps of a commit, one at a time.

use super::Commit;
use crate::session::{self, Session};
use crate::sets::context::Context;
use crate::{Database, Readable, Result, Transaction};

/// Runs some steps of the transaction's commit.
pub(super) fn with_commit<R>(tx: &mut Transaction<'_>, run: impl FnOnce(&mut Commit<'_, '_>) -> R) -> R {
    let Some(Session { kept, worker }) = &mut *tx.session else { unreachable!("it has not ended") };
    let worker = session::worker_of(&tx.database, worker);
    kept.enter(
        |pinned, Context { sets, .. }| {
            run(&mut Commit {
                shared: &tx.database,
                worker,
                sets,
                pinned,
                turned: crate::commit::Turned::default(),
            })
        },
        |_| panic!("nobody expires it"),
    )
}

/// The steps before binding.
pub(super) fn prepare(commit: &mut Commit<'_, '_>) -> Result<()> {
    commit.place()?;
    commit.reserve().map(drop)
}

/// The new record takes no word from the one that it is to replace: it would be locked for ever.
#[test]
fn a_commit_that_is_abandoned_beside_another_ones_lock_leaves_no_locked_record() -> Result<()> {
    let db = Database::in_memory()?;
    let table = db.table::<u64, Vec<u8>>("rows")?;
    db.run(|tx| tx.put(&table, &1, b"short".as_slice()))?;
    let mut tx = db.begin();
    tx.put(&table, &1, [7; 3000].as_slice())?;
    with_commit(&mut tx, |commit| {
        let versions = commit.worker.blocks.place();
        commit.place()?;
        let record = commit.sets.writes.entries[0].record_at(commit.pinned);
        let before = record.lock();
        commit.reserve()?;
        record.unlock_with(before);
        let replacement = commit.sets.writes.entries[0].replacement.as_ref();
        assert!(replacement.is_some_and(|fresh| !fresh.record().word().is_locked()));
        commit.abandon(versions);
        Ok::<_, crate::Error>(())
    })?;
    drop(tx);
    assert_eq!(db.run(|tx| tx.get(&table, &1))?.as_deref(), Some(b"short".as_slice()));
    Ok(())
}

/// Its locks took longer than the pause between two turns: it would be turned away for as long as others have turns.
#[test]
fn a_commit_that_is_turned_away_twice_takes_a_turn_itself() -> Result<()> {
    let db = Database::in_memory()?;
    let mut turned = super::Turned::default();
    turned.away(db.shared())?;
    assert!(turned.passing.is_some() && !db.shared().gate.has_turn());
    turned.away(db.shared())?;
    assert!(turned.turn.is_some() && turned.passing.is_none() && db.shared().gate.has_turn());
    drop(turned);
    assert!(!db.shared().gate.has_turn());
    Ok(())
}
