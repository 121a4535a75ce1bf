//! Spans of logs and generations, and the ranges that they make.

use super::*;

fn span((after, to): (u64, u64)) -> EpochSpan {
    EpochSpan { after: Epoch::new(after), to: Epoch::new(to) }
}

fn generation(first: u64, durable: Option<u64>, logs: &[&[(u64, u64)]]) -> GenerationSpans {
    let logs: Vec<Vec<_>> = logs.iter().map(|log| log.iter().copied().map(span).collect()).collect();
    GenerationSpans::from_log_spans(Epoch::new(first), durable.map(Epoch::new), &logs)
}

fn found(from: u64, generations: &[GenerationSpans]) -> Vec<(u64, u64)> {
    let ranges = ranges(Epoch::new(from), generations);
    ranges.iter().map(|range| (range.after.number(), range.to.number())).collect()
}

#[test]
fn a_generation_has_what_all_of_its_logs_have() {
    let of = |logs: &[&[(u64, u64)]]| generation(61, Some(70), logs).spans;
    assert_eq!(of(&[&[(60, 64), (67, 70)], &[(60, 69)]]), [span((60, 64)), span((67, 69))]);
    assert_eq!(of(&[&[(60, 75)], &[(60, 90)]]), [span((60, 70))], "what is above D is discarded");
    assert_eq!(of(&[&[(60, 70)], &[]]), [], "a log of which nothing is here");
    assert_eq!(of(&[&[(60, 62)], &[(63, 70)]]), []);
}

#[test]
fn ranges_go_over_the_ends_of_generations_and_over_no_gap() {
    let whole = generation(61, Some(66), &[&[(60, 66)]]);
    let open = generation(80, None, &[&[(79, 85)], &[(79, 84)]]);
    assert_eq!(found(60, &[whole.clone(), open.clone()]), [(60, 84)]);
    let cut = generation(61, Some(66), &[&[(60, 65)]]);
    assert_eq!(found(60, &[cut, open.clone()]), [(60, 65), (79, 84)], "the end is missing");
    let late = generation(80, None, &[&[(81, 85)]]);
    assert_eq!(found(60, &[whole.clone(), late]), [(60, 66), (81, 85)], "the beginning is missing");
    let none = generation(70, Some(72), &[&[]]);
    assert_eq!(found(60, &[whole.clone(), none, open.clone()]), [(60, 66), (79, 84)]);
    let torn = generation(61, Some(66), &[&[(60, 62), (64, 66)]]);
    assert_eq!(found(60, &[torn, open]), [(60, 62), (64, 84)]);
    assert_eq!(found(60, &[]), []);
}

#[test]
fn an_archive_that_was_begun_later_needs_no_file_from_before() {
    // A checkpoint covered all up to 64, and file 0 was gone.
    let generation = generation(61, Some(70), &[&[(63, 70)]]);
    assert_eq!(found(64, &[generation]), [(64, 70)]);
}
