//! Ranges are about equal, and tile; slices of ranges have each key once.

use super::*;
use crate::checkpoint::walk::Slice;

fn key(number: u64) -> Box<[u8]> {
    number.to_be_bytes().into()
}

/// The ranges of rows of these bytes, and the bytes of each.
fn cut(most: usize, rows: impl Iterator<Item = u64> + Clone) -> (Vec<RangeStart>, Vec<u64>) {
    let mut cut = RangeCut::new(most);
    rows.clone().zip(0..).for_each(|(bytes, number)| cut.add(1, &key(number), bytes));
    let starts = cut.starts();
    let ranges = ranges_of(&starts);
    let bytes = ranges.iter().map(|range| {
        rows.clone().zip(0..).filter(|(_, number)| range.has(1, &key(*number))).map(|(bytes, _)| bytes).sum()
    });
    (starts.clone(), bytes.collect())
}

#[test]
fn ranges_have_about_equal_bytes_and_a_small_state_has_fewer() {
    let uneven = |number: u64| if number < 2_000 { 1_000 } else { 10 };
    for (rows, most) in [(50_000_u64, 16), (50_000, 3), (640, 64), (100, 7)] {
        for bytes in [cut(most, (0..rows).map(|_| 100)).1, cut(most, (0..rows).map(uneven)).1] {
            let (total, largest) = (bytes.iter().sum::<u64>(), bytes.iter().max().copied().unwrap_or(0));
            assert_eq!(bytes.len(), most, "{rows} rows");
            assert!(largest * most as u64 * 4 < total * 5, "{largest} of {total} in {most}");
        }
    }
    let all = RangeStart::default;
    assert_eq!(cut(4, std::iter::empty()).0, [all()]);
    assert_eq!(cut(4, std::iter::once(70)).0, [all()]);
    let (starts, bytes) = cut(4, [70_u64, 70].into_iter());
    assert_eq!((starts.len(), bytes), (2, vec![70, 70]));
    assert_eq!(starts[1], RangeStart { section: 1, key: key(1) });
    // One row that is as large as several ranges.
    assert!(cut(4, [1, 1, 1000, 1, 1].into_iter()).0.len() <= 4);
}

fn slice(section: u32, from: &[u8], to: Option<&[u8]>) -> Slice {
    Slice { section, from: from.into(), to: to.map(Into::into) }
}

#[test]
fn k4_slices_of_all_ranges_have_each_key_once() {
    let slices = [
        slice(0, b"", None),
        slice(1, b"", Some(b"d")),
        slice(1, b"d", Some(b"m")),
        slice(1, b"m", None),
        slice(2, b"", None),
    ];
    let start = |section, key: &[u8]| RangeStart { section, key: key.into() };
    let starts = [start(0, b""), start(1, b"b"), start(1, b"c"), start(1, b"m"), start(2, b"")];
    let ranges = ranges_of(&starts);
    let is_in = |slice: &Slice, section: u32, key: &[u8]| {
        slice.section == section && *slice.from <= *key && slice.to.as_deref().is_none_or(|to| key < to)
    };
    assert_eq!(clip(&slices, &ranges[1]), [slice(1, b"b", Some(b"c"))]);
    assert_eq!(clip(&slices, &ranges[4]), [slice(2, b"", None)]);
    for parts in [1, 2, 7] {
        let dealt = deal(slices.iter().rev().cloned().collect(), &ranges, parts);
        for section in 0..3 {
            for key in [&b""[..], b"a", b"b", b"bb", b"c", b"d", b"l", b"m", b"z"] {
                let found =
                    dealt.iter().flat_map(|part| part.iter().enumerate()).flat_map(|(range, slices)| {
                        slices.iter().filter(|slice| is_in(slice, section, key)).map(move |_| range)
                    });
                let found: Vec<usize> = found.collect();
                let expected = ranges.iter().position(|range| range.has(section, key)).expect("they tile");
                assert_eq!(found, [expected], "section {section} key {key:?}");
            }
        }
    }
}

#[test]
fn k4_ranges_of_the_longest_keys_fit_in_a_manifest() {
    let keys: Vec<Vec<u8>> = (0..4096_u32)
        .map(|number| [&number.to_be_bytes()[..], &[7; ensile_base::limits::KEY_BYTES_MAX - 4]].concat())
        .collect();
    let most = crate::number::RANGES_MAX as usize;
    let mut cut = RangeCut::new(most);
    keys.iter().for_each(|key| cut.add(1, key, 100));
    let starts = cut.starts();
    assert!(starts.len() > most / 2, "{} ranges", starts.len());
    // Two digits a byte, of 16 MiB.
    assert!(starts.iter().map(|start| 2 * start.key.len()).sum::<usize>() < 12 << 20);
    // Keys that begin alike are in one range, and the rest is cut.
    let mut cut = RangeCut::new(8);
    for number in 0..64_u8 {
        cut.add(0, &[&[1; 5000][..], &[number]].concat(), 100);
    }
    (0..64).for_each(|number| cut.add(0, &[2, number], 100));
    let starts = cut.starts();
    assert!(starts.windows(2).all(|pair| pair[0] < pair[1]) && starts.len() > 3, "{}", starts.len());
}
