//! Rules against code that must not land: unfinished work, planted bugs in shipping code, and exceptions to lints
//! without a reason.
//!
//! Neighbours: [`super`] lists these rules.

use super::facts::Facts;
use super::finding::Report;
use crate::source::Source;

const WORDS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// No note to finish later and no macro for unwritten code: an issue keeps the note, a branch keeps the code.
pub(super) fn unfinished(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    for comment in &source.comments {
        for (offset, line) in comment.text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| WORDS.contains(word)) {
                report.add(comment.line + offset, format!("finish it, or file an issue and drop the {word}"));
            }
        }
    }
    for at in 0..source.code.len() {
        if MACROS.contains(&source.text(at)) && source.text(at + 1) == "!" && source.text(at + 2) != "=" {
            report.add(source.code[at].line, format!("`{}!` does not land", source.text(at)));
        }
    }
}

/// Shipping code has no trace of planted bugs: a bug stands in `planted/` and is planted in a copy.
pub(super) fn planted(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if !source.path.starts_with("crates/") {
        return;
    }
    for (number, line) in (1..).zip(source.lines.iter()) {
        if !source.in_test(number) && line.to_ascii_lowercase().contains("planted") {
            report.add(number, "a planted bug stands in `planted/`, and shipping code does not know of it");
        }
    }
}

/// Exceptions are `#[expect(.., reason = "..")]`, which fail once the exception is not needed. Ignored tests have a
/// reason.
pub(super) fn lints(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    for (at, inside) in source.attributes() {
        let end = source.partner(inside - 1);
        for word in inside..end {
            let line = source.code[word].line;
            let list_end = source.partner(word + 1);
            match (source.text(word), source.text(word + 1)) {
                ("allow", "(") => report.add(line, "say `#[expect(.., reason = \"..\")]` instead of `allow`"),
                ("expect", "(") if !(word..list_end).any(|at| source.text(at) == "reason") => {
                    report.add(line, "add `reason = \"..\"` to this `expect`");
                }
                ("ignore", after) if after != "=" && word == inside => {
                    report.add(source.code[at].line, "say why: `#[ignore = \"..\"]`");
                }
                _ => {}
            }
        }
    }
}
