//! Objects: the rows of larger collections, under a number that the header of the key has.
//!
//! Invariants:
//! - An object's number is used once: each loop gives numbers of its own.
//! - A transaction that reads or writes rows of an object has read the header with the object's number. The removal of
//!   the key changes the header, so no transaction finds rows of a removed object.
//! - Y2: the object of a removed value has a row in `removed_objects` until the sweeper has removed all its rows.
//!
//! Neighbours: [`super::Keyspace`] removes and copies objects with their keys; `elements`, `list` and `stream` have
//! their rows;
//! the sweeper removes the rows of removed objects.

use std::ops::{Bound, ControlFlow};

use ensile::codec::KeyBounds;
use ensile::{Error, Key, Prefix, Readable, Result, Table, Transaction, Value};

use super::Model;
use super::stored_value::Kind;

/// Bits of an object's number that count the objects of a loop.
const COUNT_BITS: u32 = 40;

/// Numbers of the ends of a stream in `streams`.
pub(super) const STREAM_HEAD: u32 = 0;
pub(super) const STREAM_TAIL: u32 = 1;

/// A number for a new object.
///
/// # Errors
/// [`Error::Misuse`] if the loop's numbers are used up.
pub(crate) fn new_number(tx: &mut Transaction<'_>, model: &Model, stripe: u32) -> Result<u64> {
    let count = tx.get(&model.object_counts, &stripe)?.unwrap_or(0);
    let number = (u64::from(stripe) << COUNT_BITS) + count;
    if count >> COUNT_BITS != 0 || u64::from(stripe) >> (u64::BITS - COUNT_BITS) != 0 {
        let text = "all numbers of collections are used up: copy the keys to a new folder";
        return Err(Error::Misuse(text.to_owned()));
    }
    tx.put(&model.object_counts, &stripe, &(count + 1))?;
    Ok(number)
}

/// Notes that no header has the object any more.
pub(crate) fn abandon(tx: &mut Transaction<'_>, model: &Model, object: u64) -> Result<()> {
    tx.put(&model.removed_objects, &object, &())
}

/// Reads the rows that change with each write of the object's elements, one for each stripe, and returns their number.
/// All are present, so the transaction rests on no gap between rows, and other objects can come and go.
pub(crate) fn watch(
    tx: &mut Transaction<'_>,
    model: &Model,
    object: u64,
    kind: Kind,
    stripes: u32,
) -> Result<usize> {
    if kind == Kind::Stream {
        for end in [STREAM_HEAD, STREAM_TAIL] {
            tx.get(&model.streams, &(object, end))?;
        }
        return Ok(2);
    }
    (0..stripes).try_for_each(|stripe| tx.get(&model.stripes, &(object, stripe)).map(drop))?;
    Ok(stripes as usize)
}

/// Bytes of the rows of an object's elements. The mean length of `samples` rows of each table stands for all rows.
pub(crate) fn row_bytes(
    tx: &mut Transaction<'_>,
    model: &Model,
    object: u64,
    kind: Kind,
    samples: usize,
) -> Result<usize> {
    let number = size_of::<u64>();
    if kind == Kind::Stream {
        let count = entry_count(tx, model, object)?;
        let bytes_of = |_: &(u64, u128), fields: &Vec<u8>| 3 * number + fields.len();
        return sampled_bytes(tx, &model.entries, object, RowSample { count, samples }, bytes_of);
    }
    let mut counts: Vec<i64> = Vec::new();
    tx.scan(&model.stripes, Prefix((object,)), |_, (count, _)| {
        counts.push(*count);
        ControlFlow::Continue(())
    })?;
    let count = match (kind, counts.as_slice()) {
        // The stripes of a list have the positions of both ends.
        (Kind::List, [first, end]) => end.saturating_sub(*first),
        _ => counts.iter().sum(),
    };
    let count = usize::try_from(count).unwrap_or(0);
    let mut bytes = 0;
    bytes += sampled_bytes(
        tx,
        &model.elements,
        object,
        RowSample { count, samples },
        |(_, _, element), value| 2 * number + element.len() + value.len(),
    )?;
    bytes += sampled_bytes(tx, &model.items, object, RowSample { count, samples }, |_, value| {
        2 * number + value.len()
    })?;
    bytes += sampled_bytes(tx, &model.scores, object, RowSample { count, samples }, |(_, _, member), _| {
        2 * number + member.len()
    })?;
    Ok(bytes)
}

/// Number of entries of a stream.
fn entry_count(tx: &mut Transaction<'_>, model: &Model, object: u64) -> Result<usize> {
    let removed = tx.get(&model.streams, &(object, STREAM_HEAD))?.map_or(0, |(count, ..)| count);
    let added = tx.get(&model.streams, &(object, STREAM_TAIL))?.map_or(0, |(count, ..)| count);
    Ok(usize::try_from(added.saturating_sub(removed)).unwrap_or(0))
}

/// Rows of a table, and rows among them whose length is read.
#[derive(Clone, Copy)]
struct RowSample {
    /// Number of rows.
    count: usize,
    /// Largest number of rows that are read.
    samples: usize,
}

/// Bytes of the rows of an object in a table, from the mean length of the read rows.
fn sampled_bytes<K: Key, V: Value>(
    tx: &mut Transaction<'_>,
    table: &Table<K, V>,
    object: u64,
    sample: RowSample,
    bytes_of: impl Fn(&K, &V) -> usize,
) -> Result<usize>
where
    Prefix<(u64,)>: KeyBounds<K>,
{
    let RowSample { count, samples } = sample;
    let (mut seen, mut seen_bytes) = (0, 0);
    if samples > 0 {
        tx.scan(table, Prefix((object,)), |key, value| {
            seen += 1;
            seen_bytes += bytes_of(&key, value);
            if seen < samples { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    let is_whole = seen < samples || seen == 0;
    Ok(if is_whole { seen_bytes } else { (seen_bytes as f64 / seen as f64 * count as f64) as usize })
}

/// Copies all rows of an object to the rows of a new object. Returns the length of the copied values in bytes.
///
/// # Errors
/// [`Error::TooLarge`] for an object that a transaction cannot write at once.
pub(crate) fn copy(tx: &mut Transaction<'_>, model: &Model, from: u64, to: u64) -> Result<usize> {
    let mut copied_bytes = 0;
    copy_rows(tx, &model.stripes, from, |(of, stripe)| (*of == from).then_some((to, *stripe)), |_| 0)?;
    copied_bytes += copy_rows(
        tx,
        &model.elements,
        from,
        |(of, hash, element)| (*of == from).then(|| (to, *hash, element.clone())),
        Vec::len,
    )?;
    copied_bytes +=
        copy_rows(tx, &model.items, from, |(of, at)| (*of == from).then_some((to, *at)), Vec::len)?;
    copied_bytes +=
        copy_rows(tx, &model.entries, from, |(of, id)| (*of == from).then_some((to, *id)), Vec::len)?;
    copy_rows(tx, &model.streams, from, |(of, end)| (*of == from).then_some((to, *end)), |_| 0)?;
    copy_rows(
        tx,
        &model.scores,
        from,
        |(of, score, member)| (*of == from).then(|| (to, *score, member.clone())),
        |()| 0,
    )?;
    copy_rows(
        tx,
        &model.ranks,
        from,
        |(of, level, score, member)| (*of == from).then(|| (to, *level, *score, member.clone())),
        |_| 0,
    )?;
    Ok(copied_bytes)
}

/// Number of rows that a copy reads at once, and the length of their values in bytes after which it reads no more.
const COPIED_ROWS: usize = 256;
const COPIED_BYTES: usize = 1 << 20;

/// Copies the rows of an object in a table. `renamed` returns the new key of a row, and `None` behind the object.
/// Returns the length of the copied values in bytes.
fn copy_rows<K: Key + Clone, V: Value + Clone>(
    tx: &mut Transaction<'_>,
    table: &Table<K, V>,
    object: u64,
    renamed: impl Fn(&K) -> Option<K>,
    bytes: impl Fn(&V) -> usize,
) -> Result<usize>
where
    Prefix<(u64,)>: KeyBounds<K>,
    (Bound<K>, Bound<K>): KeyBounds<K>,
{
    let (mut copied_bytes, mut last) = (0, None::<K>);
    loop {
        let (mut rows, mut read_bytes): (Vec<(K, V)>, usize) = (Vec::new(), 0);
        let visit = |key: K, value: &V| {
            read_bytes += bytes(value);
            rows.push((key, value.clone()));
            let is_full = rows.len() >= COPIED_ROWS || read_bytes >= COPIED_BYTES;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match last.take() {
            None => tx.scan(table, Prefix((object,)), visit)?,
            Some(key) => tx.scan(table, (Bound::Excluded(key), Bound::Unbounded), visit)?,
        }
        let Some((key, _)) = rows.last() else { return Ok(copied_bytes) };
        last = Some(key.clone());
        for (key, value) in &rows {
            let Some(key) = renamed(key) else { return Ok(copied_bytes) };
            copied_bytes += bytes(value);
            tx.put(table, &key, value)?;
        }
    }
}

/// Removes rows of the first removed object, `rows_max` at most. True if no removed object is left.
pub(crate) fn sweep(tx: &mut Transaction<'_>, model: &Model, rows_max: usize) -> Result<bool> {
    let Some((object, ())) = tx.first(&model.removed_objects, ..)? else { return Ok(true) };
    let mut left = rows_max;
    remove_rows(tx, &model.elements, object, &mut left)?;
    remove_rows(tx, &model.items, object, &mut left)?;
    remove_rows(tx, &model.scores, object, &mut left)?;
    remove_rows(tx, &model.ranks, object, &mut left)?;
    remove_rows(tx, &model.stripes, object, &mut left)?;
    remove_rows(tx, &model.entries, object, &mut left)?;
    remove_rows(tx, &model.streams, object, &mut left)?;
    if left > 0 {
        tx.delete(&model.removed_objects, &object)?;
    }
    Ok(false)
}

/// Removes rows of an object, `left` at most, and takes their number from `left`.
fn remove_rows<K: Key, V: Value>(
    tx: &mut Transaction<'_>,
    table: &Table<K, V>,
    object: u64,
    left: &mut usize,
) -> Result<()>
where
    Prefix<(u64,)>: KeyBounds<K>,
{
    let mut keys: Vec<K> = Vec::new();
    if *left > 0 {
        tx.scan_keys(table, Prefix((object,)), |key| {
            keys.push(key);
            if keys.len() < *left { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    *left -= keys.len();
    keys.iter().try_for_each(|key| tx.delete(table, key).map(drop))
}
