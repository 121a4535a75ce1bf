//! Costs of recoveries of this folder, in picoseconds of a single thread. The next life predicts the duration of a
//! recovery from the costs. `docs/internals/formats/rates.md` has the text.
//!
//! Invariants: I1. No part of the database depends on the file, so the file is written without a sync, and a disk error
//! is no failure.
//!
//! Neighbours: The start of checkpoints reads and writes the file. `control::recovery_time` defines the costs.

use ensile_disk::{Disk, DiskError};

use super::names::RATES;
use super::text::{self, checked_body, values, with_checksum};
use crate::control::recovery_time::{MeasuredRecovery, RecoveryCosts};
use crate::identity::Identity;

const TITLE: &str = "ensile rates 2";
/// Title of the first format, without the cost of applying an entry.
const FIRST_TITLE: &str = "ensile rates 1";
/// Limit far above the size of a real file, in bytes.
const BYTES_MAX: u64 = 1 << 12;
/// Picoseconds in a nanosecond, the unit of [`RecoveryCosts`].
const PICOSECONDS: f64 = 1e3;
/// Bound of a valid cost in picoseconds: more than a day.
const COST_MAX: f64 = 1e17;
const _: () = assert!(COST_MAX < u64::MAX as f64, "a valid cost is written as an integer");

/// Returns the costs of this folder's recoveries, corrected by the new measurement. The start of the checkpoints calls
/// once; changed costs are written to the file.
pub(crate) fn learn(disk: &dyn Disk, database: Identity, measured: &MeasuredRecovery) -> RecoveryCosts {
    let known = read(disk, database).ok().flatten();
    let mut costs = known.unwrap_or_default();
    costs.learn(measured);
    // Assumed costs are not written, because a later program may have better assumptions.
    let text = text_of(database, &costs);
    let reread = parse(&text, database);
    debug_assert!(reread.is_none_or(|known| text_of(database, &known) == text), "they read back: {costs:?}");
    if costs.is_measured && known.is_none_or(|known| text_of(database, &known) != text) {
        // After a disk error, the next open tries again.
        let _ = disk.create(RATES).and_then(|file| file.write_at(text.as_bytes(), 0));
    }
    costs
}

fn read(disk: &dyn Disk, database: Identity) -> Result<Option<RecoveryCosts>, DiskError> {
    let Some(bytes) = text::read(disk, RATES, BYTES_MAX)? else { return Ok(None) };
    Ok(std::str::from_utf8(&bytes).ok().and_then(|text| parse(text, database)))
}

fn text_of(database: Identity, costs: &RecoveryCosts) -> String {
    let ps = |nanos: f64| (nanos * PICOSECONDS).round().max(1.0) as u64;
    let (load, replay, rest) = (costs.load.map(ps), costs.replay.map(ps), ps(costs.rest));
    let applied_entry = (costs.applied_entry * PICOSECONDS).round() as u64;
    with_checksum(&format!(
        "{TITLE}\ndatabase {database}\nrest {rest}\nload_byte {} load_entry {}\n\
         replay_byte {} replay_entry {} applied {} applied_entry {applied_entry}\n",
        load[0], load[1], replay[0], replay[1], replay[2]
    ))
}

/// Reads the costs of this database. `None` for a file of another database, or with an error.
fn parse(text: &str, database: Identity) -> Option<RecoveryCosts> {
    let mut lines = checked_body(text).ok()?.lines();
    let title = lines.next()?;
    let [whose] = values(lines.next()?, "database")?;
    let [rest] = values(lines.next()?, "rest")?;
    let [load_byte, load_entry] = values(lines.next()?, "load_byte load_entry")?;
    let [byte, entry, applied, applied_entry] = match (title, lines.next()?) {
        (TITLE, line) => values(line, "replay_byte replay_entry applied applied_entry")?,
        (FIRST_TITLE, line) => {
            let [byte, entry, applied] = values(line, "replay_byte replay_entry applied")?;
            [byte, entry, applied, "0"]
        }
        _ => return None,
    };
    if Identity::parse(whose)? != database || lines.next().is_some() {
        return None;
    }
    let nanos = |word: &str| {
        let picoseconds = word.parse::<u64>().ok()? as f64;
        (1.0..COST_MAX).contains(&picoseconds).then_some(picoseconds / PICOSECONDS)
    };
    Some(RecoveryCosts {
        rest: nanos(rest)?,
        load: [nanos(load_byte)?, nanos(load_entry)?],
        replay: [nanos(byte)?, nanos(entry)?, nanos(applied)?],
        applied_entry: if applied_entry == "0" { 0.0 } else { nanos(applied_entry)? },
        is_measured: true,
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
