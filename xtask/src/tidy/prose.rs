//! Rules of readable prose: lines of a screen's width, a reason where a reader needs the reason, and no phrase that a
//! reader must translate first.
//!
//! Neighbours: [`super`] lists these rules.

use super::facts::Facts;
use super::finding::Report;
use crate::source::Source;

/// Most columns of a line of prose.
const COLUMNS_MAX: usize = 120;

/// Beginnings of comments that argue for an ordering or for `unsafe`.
const REASONS: [&str; 6] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst", "SAFETY"];

/// Phrases that point at a reason elsewhere instead of giving the reason.
const POINTERS: [&str; 3] = ["as above", "see above", "as below"];

/// Phrases that readers stumble over. The number has a name, or is "this many"; the person is "a thread that ..".
const STUMBLES: [&str; 8] = [
    "so many bytes",
    "so many rows",
    "so many entries",
    " for who ",
    " of who ",
    " by who ",
    "; who ",
    " whoever ",
];

/// Comments are at most [`COLUMNS_MAX`] wide, except tables and blocks of code.
pub(super) fn comment_columns(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    let (mut is_code, mut last_line) = (false, 0);
    for comment in &source.comments {
        // A block of code ends with its comment at the latest.
        is_code &= comment.line == last_line + 1;
        last_line = comment.last_line;
        let begins = comment.text.trim_start_matches(['/', '!']).trim_start();
        if begins.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || begins.starts_with('|') {
            continue;
        }
        for line in comment.line..=comment.last_line {
            let columns = source.lines.get(line - 1).map_or(0, |text| text.chars().count());
            if columns > COLUMNS_MAX && !is_one_word(source.lines[line - 1]) {
                report.add(line, format!("{columns} columns, {COLUMNS_MAX} at most: wrap the comment"));
            }
        }
    }
}

/// Documents are at most [`COLUMNS_MAX`] wide, except tables and blocks of code.
pub(super) fn document_columns(text: &str, report: &mut Report<'_>) {
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        let begins = line.trim_start();
        if begins.starts_with("```") {
            is_code = !is_code;
        }
        let columns = line.chars().count();
        let is_prose = !is_code && !begins.starts_with('|') && !is_one_word(line);
        if is_prose && columns > COLUMNS_MAX {
            report.add(at + 1, format!("{columns} columns, {COLUMNS_MAX} at most: wrap the line"));
        }
    }
}

/// True if the line cannot be wrapped: an address, a long name.
fn is_one_word(line: &str) -> bool {
    let marks = ["//", "///", "//!", "-", "*"];
    line.split_whitespace().filter(|word| !marks.contains(word)).count() <= 1
}

/// A reason for an ordering or for `unsafe` stands at the place of use.
pub(super) fn said_here(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    for comment in &source.comments {
        let text = comment.text.trim_start_matches('/').trim_start();
        let argues = REASONS.iter().any(|reason| text.starts_with(reason));
        let points = POINTERS.iter().any(|pointer| text.to_lowercase().contains(pointer));
        if argues && points && !source.in_test(comment.line) {
            report.add(
                comment.line,
                "say the reason here: one that stands elsewhere is not read with the code",
            );
        }
    }
}

/// Comments have none of the [`STUMBLES`].
pub(super) fn plain_comments(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    for comment in &source.comments {
        plain_lines(comment.text, comment.line, report);
    }
}

/// Documents have none of the [`STUMBLES`].
pub(super) fn plain_document(text: &str, report: &mut Report<'_>) {
    plain_lines(text, 1, report);
}

fn plain_lines(text: &str, first: usize, report: &mut Report<'_>) {
    for (at, line) in text.lines().enumerate() {
        let padded = format!(" {} ", line.trim_matches(['/', '!', ' ']).to_lowercase());
        for phrase in STUMBLES.iter().filter(|phrase| padded.contains(*phrase)) {
            report.add(first + at, format!("`{}`: say who does it, or how many there are", phrase.trim()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS_MAX, comment_columns, document_columns};
    use crate::source::Source;
    use crate::tidy::facts::Facts;
    use crate::tidy::finding::Report;

    #[test]
    fn comments_wrap_but_for_tables_code_and_addresses() {
        let wide = "word ".repeat(COLUMNS_MAX / 5 + 1);
        let long = "x".repeat(COLUMNS_MAX + 1);
        let text = format!(
            "//! {wide}\n//! ```text\n//! {wide}\n//! ```\n//! | {wide} |\n//! {long}\n\n/// ```\n\n// {wide}\n"
        );
        let mut findings = Vec::new();
        let mut report = Report { rule: "columns", path: "a.rs", findings: &mut findings };
        comment_columns(&Source::new("a.rs", &text), &Facts::default(), &mut report);
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 10]);
    }

    #[test]
    fn documents_wrap_but_for_tables_code_and_addresses() {
        let wide = "word ".repeat(COLUMNS_MAX / 5 + 1);
        let text =
            format!("{wide}\n| {wide} |\n```\n{wide}\n```\n- {wide}\n{}\n", "x".repeat(COLUMNS_MAX + 1));
        let mut findings = Vec::new();
        document_columns(&text, &mut Report { rule: "columns", path: "a.md", findings: &mut findings });
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 6]);
    }
}
