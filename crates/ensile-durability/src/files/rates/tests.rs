//! The text of the rates, and what a damaged one says.

use ensile_sim::SimDisk;

use super::*;
use crate::control::recovery_time::LogWork;
use crate::files::names::RATES;
use crate::files::text::with_checksum;
use crate::samples::{changes, identity, text_example};

fn assumed() -> RecoveryCosts {
    RecoveryCosts { is_measured: true, ..RecoveryCosts::default() }
}

fn measured(seconds: u64) -> MeasuredRecovery {
    let replayed = LogWork { bytes: 1 << 30, entries: 1 << 20, applied_nanos: 0 };
    MeasuredRecovery {
        threads: 1,
        replay_nanos: seconds * 1_000_000_000,
        replayed,
        ..MeasuredRecovery::default()
    }
}

#[test]
fn the_documented_text_is_the_one_that_is_written_and_the_first_version_is_understood() {
    let document = include_str!("../../../../../docs/internals/formats/rates.md");
    assert_eq!(text_example(document, 1), text_of(identity(), &assumed()));
    let applied = RecoveryCosts { applied_entry: 250.0, ..assumed() };
    for costs in [assumed(), applied] {
        assert_eq!(parse(&text_of(identity(), &costs), identity()), Some(costs));
    }
    let first = "ensile rates 1\ndatabase 5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f\nrest 50000000000\n\
                 load_byte 2000 load_entry 500000\nreplay_byte 1600 replay_entry 600000 applied 1000\n";
    let expected = RecoveryCosts { replay: [1.6, 600.0, 1.0], ..assumed() };
    assert_eq!(parse(&with_checksum(first), identity()), Some(expected));
}

#[test]
fn what_is_cut_changed_or_of_another_database_says_nothing() {
    let text = text_of(identity(), &assumed());
    for (at, bytes) in changes(&text) {
        let bytes = bytes.map(|bytes| String::from_utf8(bytes).expect("it is ASCII"));
        assert_eq!(bytes.map(|text| parse(&text, identity())), [None, None], "byte {at}");
    }
    assert_eq!(parse(&text, Identity::draw()), None);
}

#[test]
fn what_was_learned_is_there_at_the_next_open() {
    let disk = SimDisk::new();
    assert_eq!(learn(&disk, identity(), &MeasuredRecovery::default()), RecoveryCosts::default());
    assert!(!disk.exists(RATES).expect("looks"), "nothing was measured");
    let first = learn(&disk, identity(), &measured(3));
    let again = learn(&disk, identity(), &MeasuredRecovery::default());
    assert!(again.is_measured);
    for (found, expected) in again.replay.iter().zip(first.replay) {
        assert!((found - expected).abs() < 1e-3, "{again:?}, and not {first:?}");
    }
    assert!(learn(&disk, identity(), &measured(6)).replay[0] > first.replay[0], "it goes on from there");
}
