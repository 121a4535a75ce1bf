//! Rows as they were copied.

use super::*;
use crate::record::CopyTarget;

type Pushed<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

fn push((rows, list): (&mut RowSpace, &mut RowList), (place, key, row): Pushed<'_>) -> ControlFlow<()> {
    rows.copy(row);
    list.push(place, key, rows, 7)
}

#[test]
fn rows_come_out_as_they_went_in() {
    let mut batch = RowBatch::default();
    let (rows, list) = batch.begin(BatchAsked { rows_max: 3, keys_only: false }, true);
    assert_eq!(push((rows, list), (b"entry", Some(b"k1"), b"row")), ControlFlow::Continue(()));
    assert_eq!(push((rows, list), (b"other", Some(b"k2"), b"")), ControlFlow::Continue(()));
    assert_eq!(push((rows, list), (b"", Some(b""), b"x")), ControlFlow::Break(()), "three are asked for");
    let rows: Vec<_> = batch.rows().map(|row| (row.place, row.key, row.row, row.mark)).collect();
    let (first, second) = ((&b"entry"[..], &b"k1"[..]), (&b"other"[..], &b"k2"[..]));
    let expected = [(first.0, first.1, &b"row"[..], 7), (second.0, second.1, b"", 7), (b"", b"", b"x", 7)];
    assert_eq!(rows, expected);
    let (rows, list) = batch.begin(BatchAsked { rows_max: 3, keys_only: true }, false);
    assert_eq!(push((rows, list), (b"k", None, b"row")), ControlFlow::Continue(()));
    assert_eq!(push((rows, list), (b"l", None, b"row")), ControlFlow::Continue(()));
    let keys: Vec<_> = batch.rows().map(|row| (row.place, row.key, row.row.len())).collect();
    assert_eq!(keys, [(&b"k"[..], &b"k"[..], 0), (b"l", b"l", 0)], "keys only");
    assert!(!batch.is_full());
}

#[test]
fn a_batch_is_full_after_many_bytes_too() {
    let mut batch = RowBatch::default();
    let (rows, list) = batch.begin(BatchAsked { rows_max: 512, keys_only: false }, false);
    let row = vec![0; BATCH_BYTES_MAX / 2];
    assert_eq!(push((rows, list), (b"a", None, &row)), ControlFlow::Continue(()));
    assert_eq!(push((rows, list), (b"b", None, &row)), ControlFlow::Break(()));
    assert!(batch.is_full() && batch.kept_bytes() >= BATCH_BYTES_MAX);
}

#[test]
fn a_multi_get_tells_absent_rows_from_empty_ones() {
    let mut batch = RowBatch::default();
    let (rows, list) = batch.begin(BatchAsked::FOUND, false);
    let finds = [Some(&b"one"[..]), None, Some(b""), Some(b"two")];
    list.found_rows(finds.into_iter().map(|found| {
        rows.copy(found.unwrap_or(b"not kept"));
        if found.is_some() { rows.keep() } else { KeptRow::NONE }
    }));
    let found: Vec<_> = batch.found_rows().collect();
    assert_eq!(found, [Some(&b"one"[..]), None, Some(b""), Some(b"two")]);
}
