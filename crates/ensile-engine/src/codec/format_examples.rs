//! The examples of `docs/internals/formats/rows.md`, for the tests that hold the code to the document.
//!
//! Neighbours: tests of `key`, `value` and the catalogue.

/// The examples of a section, in order: the text behind the bar, and the bytes before the bar.
pub(crate) fn examples(section: &str) -> Vec<(&'static str, Vec<u8>)> {
    let document = include_str!("../../../../docs/internals/formats/rows.md");
    let section = document.split(section).nth(1).expect("the section");
    let shown =
        section.split("```hex\n").nth(1).and_then(|rest| rest.split("```").next()).expect("its bytes");
    let example = |line: &'static str| {
        let (bytes, what) = line.split_once('|').expect("bytes and what they are");
        let byte = |pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits");
        (what.trim(), bytes.split_whitespace().map(byte).collect())
    };
    shown.lines().map(example).collect()
}
