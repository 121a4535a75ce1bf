//! Rules of the shape of a file: a header that introduces the file, a length that a reader can hold, and named
//! parameters.
//!
//! Neighbours: [`super`] lists these rules.

use super::facts::Facts;
use super::finding::Report;
use crate::lexer::Kind;
use crate::source::Source;

/// Least number of `//!` lines at the beginning of a file. A file of tests needs only one line.
const HEADER_LINES_MIN: usize = 2;
const TEST_HEADER_LINES_MIN: usize = 1;
/// Most lines of a file without its tests.
const FILE_LINES_MAX: usize = 1_000;
/// Most lines of a file with its tests, or of a file of tests.
const TEST_FILE_LINES_MAX: usize = 2_000;
/// Most lines of tests inside the tested file.
const INLINE_TEST_LINES_MAX: usize = 45;
/// Most lines of a function from `fn` to the closing bracket.
const FUNCTION_LINES_MAX: usize = 70;

/// Every file opens with `//!`: subject, invariants, neighbours.
pub(super) fn header(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    let opening = source.lines.iter().take_while(|line| line.starts_with("//!"));
    let lines_min = if source.is_test { TEST_HEADER_LINES_MIN } else { HEADER_LINES_MIN };
    if opening.filter(|line| line.trim().len() > "//!".len()).count() < lines_min {
        let advice =
            "open with a `//!` header of two lines or more: what this is, its invariants, its neighbours";
        report.add(1, advice);
    }
}

/// Files stay short enough to be read whole.
pub(super) fn file_length(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    let (all, own) = (source.lines.len(), source.lines_without_tests());
    if own > FILE_LINES_MAX {
        report.add(
            FILE_LINES_MAX,
            format!("{own} lines without tests, {FILE_LINES_MAX} at most: divide the file"),
        );
    }
    if all > TEST_FILE_LINES_MAX {
        report.add(
            TEST_FILE_LINES_MAX,
            format!("{all} lines, {TEST_FILE_LINES_MAX} at most: divide the tests"),
        );
    }
}

/// Tests of `x.rs` stand in `x/tests.rs`, unless the tests are few.
pub(super) fn tests_apart(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    let lines = source.lines.len() - source.lines_without_tests();
    if !source.is_test && lines > INLINE_TEST_LINES_MAX {
        let advice =
            format!("{lines} lines of tests, {INLINE_TEST_LINES_MAX} at most: move them to a file of tests");
        report.add(source.lines_without_tests(), advice);
    }
}

/// Functions fit a screen; tests may run longer.
pub(super) fn function_length(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    for function in source.functions() {
        let lines = function.last_line - function.line + 1;
        if lines > FUNCTION_LINES_MAX && !source.in_test(function.line) {
            let name = function.name;
            report.add(
                function.line,
                format!("`{name}` has {lines} lines, {FUNCTION_LINES_MAX} at most: name its steps"),
            );
        }
    }
}

/// Each parameter of a function has a name: no tuple pattern, except in tests, the bench and the papers.
pub(super) fn named_parameters(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if ["crates/ensile-bench/", "crates/ensile-papers/"].iter().any(|place| source.path.starts_with(place)) {
        return;
    }
    for (at, token) in source.code.iter().enumerate() {
        let is_named = source.code.get(at + 1).is_some_and(|next| next.kind == Kind::Word);
        let is_function = token.kind == Kind::Word && token.text == "fn" && is_named;
        if is_function && !source.in_test(token.line) && has_tuple_parameter(source, at) {
            let name = source.text(at + 1);
            let advice = format!("`{name}` takes a tuple: name its values by a struct, or by parameters");
            report.add(token.line, advice);
        }
    }
}

/// True if a parameter of the function with its `fn` at `at` is a tuple pattern.
fn has_tuple_parameter(source: &Source<'_>, at: usize) -> bool {
    let (mut open, mut generics) = (at + 1, 0_usize);
    while open < source.code.len() && (source.text(open) != "(" || generics > 0) {
        match source.text(open) {
            "<" => generics += 1,
            ">" => generics = generics.saturating_sub(1),
            ";" | "{" => return false,
            _ => {}
        }
        open += 1;
    }
    let (mut next, mut begins) = (open + 1, true);
    while next < source.partner(open) {
        match source.text(next) {
            "(" if begins => return true,
            "(" | "[" | "{" => next = source.partner(next),
            "<" => generics += 1,
            ">" => generics = generics.saturating_sub(1),
            _ => {}
        }
        begins = source.text(next) == "," && generics == 0;
        next += 1;
    }
    false
}
