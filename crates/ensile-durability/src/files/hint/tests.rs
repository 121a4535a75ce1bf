//! The hint's text, and what a damaged hint says.

use ensile_sim::SimDisk;

use super::*;
use crate::samples::{changes, identity, text_example};

fn hint(closed: Vec<u64>, ended: Option<u64>) -> Hint {
    Hint {
        database: identity(),
        generation: 3,
        durable: Epoch::new(57),
        closed,
        ended: ended.map(Epoch::new),
    }
}

fn last() -> Hint {
    hint(vec![12, 7], Some(131))
}

#[test]
fn a_step_that_comes_after_the_close_does_not_write_over_the_last_hint() {
    let disk = SimDisk::new();
    let mut writer = HintWriter::create(&disk, last().database, 3).expect("creates");
    writer.close(Epoch::new(57), vec![12, 7], Epoch::new(131));
    writer.step(u64::MAX - 1, Epoch::new(57));
    assert_eq!(Hint::read(&disk).expect("reads"), Some(last()));
}

#[test]
fn the_documented_text_is_written_and_the_format_before_says_nothing() {
    let document = include_str!("../../../../../docs/internals/formats/hint.md");
    assert_eq!(text_example(document, 1), last().to_string());
    assert_eq!(Hint::parse(&last().to_string()), Some(last()));
    let without_log = hint(vec![], Some(131));
    assert_eq!(Hint::parse(&without_log.to_string()), Some(without_log));
    let body = "ensile hint 1\ngeneration 3 durable 57\n";
    assert_eq!(Hint::parse(&crate::files::text::with_checksum(body)), None);
}

#[test]
fn a_changed_or_cut_hint_says_nothing() {
    for hint in [hint(vec![], None), hint(vec![], Some(131)), last()] {
        for (at, bytes) in changes(&hint.to_string()) {
            let found = bytes.map(|bytes| std::str::from_utf8(&bytes).ok().and_then(Hint::parse));
            assert_eq!(found, [None, None], "changed at {at}, and cut to {at}");
        }
    }
}
