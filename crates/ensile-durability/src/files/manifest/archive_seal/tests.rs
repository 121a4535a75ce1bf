//! What a manifest remembers of its archive, compared with older and newer lists (A2).
//!
//! Neighbours: the tests of [`super`]; lives are in `tests/durability/archives/put_back.rs`.

use ensile_base::Epoch;

use super::*;
use crate::files::manifest::generation::Generation;
use crate::samples;

fn generation(number: u64, salt: &str, is_ended: bool) -> Generation {
    let durable = is_ended.then_some(10 * number + 5);
    Generation { salt: samples::salt(salt), ..samples::generation(number, 10 * number, durable) }
}

/// With as many generations that have ended, and perhaps an open one behind them.
fn list(ended: u64, has_open: bool) -> ArchiveList {
    let open = has_open.then(|| generation(ended + 1, "1a2b3c4d", false));
    let generations = (1..=ended).map(|number| generation(number, "1a2b3c4d", true)).chain(open).collect();
    ArchiveList { database: samples::identity(), from: Epoch::ZERO, generations }
}

#[test]
fn its_line_is_read_as_it_is_written() {
    let seal = ArchiveSeal { ended: 2, crc: 0x5e6f_7a8b };
    assert_eq!(seal.to_string(), "archived 2 seal 5e6f7a8b");
    assert_eq!(ArchiveSeal::parse(&seal.to_string()), Some(seal));
    for other in ["archived 2", "archived two seal 5e6f7a8b", "archived 2 seal x", "archived 2 seal 1 more 2"]
    {
        assert_eq!(ArchiveSeal::parse(other), None, "{other}");
    }
}

#[test]
fn a2_a_list_goes_on_from_what_was_remembered_of_it_and_from_nothing_else() {
    for remembered in 0..4 {
        let seal = list(remembered, false).seal();
        assert_eq!(list(remembered, true).seal(), seal, "an open generation has no end yet");
        for ended in 0..6 {
            for has_open in [false, true] {
                let known = list(ended, has_open).check(seal);
                assert_eq!(known.is_ok(), ended >= remembered, "{ended} of {remembered}: {known:?}");
            }
        }
    }
    let mut other = list(3, true);
    other.generations[1] = generation(2, "1a2b3c4e", true);
    assert!(other.check(list(3, false).seal()).is_err_and(|why| why.contains("others")));
    assert!(other.check(list(1, false).seal()).is_ok(), "they agree up to there");
    let later = ArchiveList { from: Epoch::new(4), ..list(3, true) };
    assert!(later.check(list(0, false).seal()).is_err(), "another archive");
}
