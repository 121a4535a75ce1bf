//! The hint's text, and what a damaged hint says.

use ensile_sim::SimDisk;

use super::*;

fn hint(closed: Vec<u64>, ended: Option<u64>) -> Hint {
    let database = Identity::parse("5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f").expect("one");
    Hint { database, generation: 3, durable: Epoch::new(57), closed, ended: ended.map(Epoch::new) }
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
fn the_documented_text_is_the_one_that_is_written() {
    let document = include_str!("../../../../../docs/internals/formats/hint.md");
    let example = document.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(example.expect("an example"), last().to_string());
    assert_eq!(Hint::parse(&last().to_string()), Some(last()));
}

#[test]
fn a_close_without_a_log_says_where_e_stood_and_the_format_before_says_nothing() {
    let without_log = hint(vec![], Some(131));
    assert_eq!(Hint::parse(&without_log.to_string()), Some(without_log));
    let body = "ensile hint 1\ngeneration 3 durable 57\n";
    let text = format!("{body}crc32c {:08x}\n", ensile_base::checksum::crc32c(body.as_bytes()));
    assert_eq!(Hint::parse(&text), None);
}

#[test]
fn a_changed_or_cut_hint_says_nothing() {
    for hint in [hint(vec![], None), hint(vec![], Some(131)), last()] {
        let text = hint.to_string();
        for at in 0..text.len() {
            assert_eq!(Hint::parse(&text[..at]), None, "cut to {at}");
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(std::str::from_utf8(&bytes).ok().and_then(Hint::parse), None, "changed at {at}");
        }
    }
}
