//! What a snapshot holds back while rows are written: versions that can still be shown, and no others (V1).
//!
//! Epochs move when the test says so; bytes are those of the database's own statistics.

use crate::prelude::*;

const ROWS: u64 = 500;
/// Ticks of a second: four snapshot intervals.
const SECOND: u32 = 25;
/// Of what rows take: versions that are unlinked and not yet found, or wait for pins, and those of a boundary that is
/// not served yet.
const WAITING_PERCENT: u64 = 30;

type Rows = Table<u64, Vec<u8>>;

/// A database with a table of rows of this length, and what a copy of all rows takes.
fn filled(length: usize) -> Result<(Driven, Rows, u64)> {
    let driven = Driven::open(|builder| builder);
    let table = driven.db.table::<u64, Vec<u8>>("rows")?;
    driven.db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &vec![0; length])))?;
    driven.pass_ticks(2 * SECOND);
    let record_bytes = (length as u64 + 20).next_multiple_of(8);
    Ok((driven, table, ROWS * record_bytes))
}

/// Bytes that wait for snapshots or pins, as the database counts them.
fn garbage_bytes(driven: &Driven) -> u64 {
    let stats = driven.db.stats();
    stats.garbage_version_bytes + stats.garbage_pinned_bytes
}

/// Rows in an order that looks random, some much more often than others if `skewed`.
fn next_key(step: u64, skewed: bool) -> u64 {
    let random = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let key = random % ROWS;
    if skewed && random >> 12 & 3 != 0 { key % 16 } else { key }
}

/// Updates rows one by one, `per_tick` of them between two ticks. Returns the most that was held back at any time.
fn update(driven: &Driven, table: &Rows, ticks: u32, skewed: bool, length: usize) -> Result<u64> {
    let per_tick = ROWS / 4;
    let mut most = 0;
    for tick in 0..u64::from(ticks) {
        for step in 0..per_tick {
            let key = next_key(tick * per_tick + step, skewed);
            driven.db.run(|tx| tx.put(table, &key, &vec![(tick % 200) as u8 + 1; length]))?;
        }
        most = most.max(garbage_bytes(driven));
        driven.pass_ticks(1);
    }
    Ok(most)
}

fn assert_shows(snapshot: &mut Snapshot<'_>, table: &Rows, byte: u8) -> Result<()> {
    let rows: Vec<(u64, Vec<u8>)> = snapshot.range(table, ..).collect::<Result<_>>()?;
    assert_eq!(rows.len() as u64, ROWS);
    assert!(rows.iter().all(|row| row.1.iter().all(|other| *other == byte)), "it shows one moment");
    Ok(())
}

/// What this number of versions of each row takes, and a little more.
fn versions(count: u64, latest_bytes: u64) -> u64 {
    latest_bytes * (100 * count + WAITING_PERCENT) / 100
}

/// One version of a row for the snapshot, and one for the boundary that is served.
fn check_one_held(skewed: bool, length: usize) -> Result<()> {
    let (driven, table, latest_bytes) = filled(length)?;
    let mut snapshot = driven.db.snapshot()?;
    let most = update(&driven, &table, 20 * SECOND, skewed, length)?;
    assert!(
        most <= versions(2, latest_bytes),
        "{most} bytes are held back for one snapshot of {latest_bytes}"
    );
    assert_shows(&mut snapshot, &table, 0)?;
    drop(snapshot);
    // Each commit frees a little.
    for step in 0..500 {
        driven.db.run(|tx| tx.put(&table, &0, &vec![1; length]))?;
        driven.pass_ticks(u32::from(step % 10 == 0));
    }
    let left = garbage_bytes(&driven);
    assert!(left < latest_bytes / 4, "{left} bytes are held back for nobody");
    Ok(())
}

/// Also where few rows are hot, and of rows too large for pages.
#[test]
fn v1_one_held_snapshot_holds_two_versions_a_row_at_most() -> Result<()> {
    [(false, 100), (true, 100), (false, 1500)]
        .into_iter()
        .try_for_each(|(is_hot, bytes)| check_one_held(is_hot, bytes))
}

#[test]
fn v1_three_held_snapshots_hold_four_versions_a_row_at_most() -> Result<()> {
    let (driven, table, latest_bytes) = filled(100)?;
    let mut held = Vec::new();
    let mut most = 0;
    for byte in 0..3u8 {
        // All rows at once, so that each snapshot shows one value.
        driven.db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &vec![200 + byte; 100])))?;
        driven.pass_ticks(SECOND);
        held.push((driven.db.snapshot()?, 200 + byte));
        most = most.max(update(&driven, &table, 8 * SECOND, false, 100)?);
    }
    assert!(
        most <= versions(4, latest_bytes),
        "{most} bytes are held back for three snapshots of {latest_bytes}"
    );
    // The middle one goes first: what it alone showed goes with the next updates.
    drop(held.remove(1));
    update(&driven, &table, 4 * SECOND, false, 100)?;
    let left = garbage_bytes(&driven);
    assert!(
        left <= versions(3, latest_bytes),
        "{left} bytes are held back for two snapshots of {latest_bytes}"
    );
    for (mut snapshot, byte) in held {
        assert_shows(&mut snapshot, &table, byte)?;
    }
    Ok(())
}

#[test]
fn v1_a_snapshot_that_is_opened_while_a_boundary_is_not_yet_served_holds_no_more_than_others() -> Result<()> {
    // One of these ticks begins a boundary.
    for ticks in 0..8 {
        let (driven, table, latest_bytes) = filled(100)?;
        update(&driven, &table, SECOND + ticks, false, 100)?;
        driven.tick();
        let mut snapshot = driven.db.snapshot()?;
        driven.serve_boundary();
        let most = update(&driven, &table, 4 * SECOND, false, 100)?;
        assert!(most <= versions(2, latest_bytes), "{most} bytes are held back for one of {latest_bytes}");
        assert!(snapshot.get(&table, &0)?.is_some());
    }
    Ok(())
}

#[test]
fn v1_snapshots_of_the_latest_state_make_boundaries_that_leave_no_versions_behind() -> Result<()> {
    let (driven, table, latest_bytes) = filled(100)?;
    let mut snapshot = driven.db.snapshot()?;
    driven.pass_ticks(SECOND);
    let mut most = 0;
    // No tick comes meanwhile.
    for byte in 1..=20u8 {
        driven.db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &vec![byte; 100])))?;
        assert_shows(&mut driven.db.snapshot_latest()?, &table, byte)?;
        most = most.max(driven.db.stats().garbage_version_bytes);
    }
    assert!(most <= versions(3, latest_bytes), "{most} bytes of versions, and rows of {latest_bytes}");
    assert_shows(&mut snapshot, &table, 0)
}

/// Rows that come and go under a snapshot leave nothing behind.
fn check_come_and_go(length: usize) -> Result<()> {
    let (driven, table, latest_bytes) = filled(length)?;
    let mut snapshot = driven.db.snapshot()?;
    let mut most = 0;
    for tick in 0..40 * SECOND {
        for step in 0..20 {
            let key = next_key(u64::from(tick) * 20 + step, true) % 16;
            driven.db.run(|tx| tx.delete(&table, &key))?;
            driven.db.run(|tx| tx.put(&table, &key, &vec![1; length]))?;
        }
        most = most.max(garbage_bytes(&driven));
        driven.pass_ticks(1);
    }
    assert!(most <= latest_bytes, "{most} bytes for 16 rows that come and go; all rows take {latest_bytes}");
    assert_shows(&mut snapshot, &table, 0)
}

/// Also one too large for pages.
#[test]
fn v1_a_row_that_is_deleted_and_written_again_leaves_nothing_behind_under_a_snapshot() -> Result<()> {
    [100, 1500].into_iter().try_for_each(check_come_and_go)
}

#[test]
fn v1_more_snapshots_than_are_kept_one_by_one_show_their_moments() -> Result<()> {
    let (driven, table, _) = filled(100)?;
    let mut held = Vec::new();
    for byte in 1..=20u8 {
        driven.db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &vec![byte; 100])))?;
        driven.pass_ticks(SECOND);
        held.push((driven.db.snapshot()?, byte));
    }
    // From either end, so that what is kept one by one changes.
    for turn in 0..20 {
        driven.db.run(|tx| (0..ROWS).try_for_each(|key| tx.put(&table, &key, &vec![100 + turn; 100])))?;
        driven.pass_ticks(SECOND / 2);
        drop(held.remove(if turn % 3 == 0 { held.len() - 1 } else { 0 }));
        for (snapshot, byte) in &mut held {
            assert_shows(snapshot, &table, *byte)?;
        }
    }
    Ok(())
}
