//! Rules that tie documents to the code: cited invariants are defined, cited limits exist, and examples name the crate
//! of applications.
//!
//! An invariant is a capital letter and one or two digits. A heading or bold words of `docs/internals/protocols/`
//! define an invariant by beginning with the name. A citation is the name in a comment; a name between back-quotes is
//! code and no citation.
//!
//! Neighbours: [`super`] lists these rules; the limits are `ensile-base`'s `limits` module.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::finding::Report;
use crate::source::Source;

/// Constants that documents may cite.
pub(super) struct Constants {
    limits: BTreeSet<String>,
    others: BTreeSet<String>,
}

impl Constants {
    const LIMITS: &str = "crates/ensile-base/src/limits.rs";

    /// Constants that the sources declare.
    pub(super) fn of(sources: &[Source<'_>]) -> Self {
        let mut constants = Self { limits: BTreeSet::new(), others: BTreeSet::new() };
        for source in sources {
            let names =
                if source.path == Self::LIMITS { &mut constants.limits } else { &mut constants.others };
            let declared = (0..source.code.len()).filter(|&at| source.text(at) == "const");
            names.extend(declared.map(|at| source.text(at + 1).to_owned()));
        }
        constants
    }
}

/// Documents cite limits by the constant: `.._MAX` and `.._MIN` stand in the limits module, other measures somewhere.
pub(super) fn limits(text: &str, constants: &Constants, report: &mut Report<'_>) {
    for (number, line) in text.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2) {
            let parts: Vec<&str> = name.split('_').collect();
            let is_constant =
                parts.len() > 1 && name.chars().all(|c| matches!(c, 'A'..='Z' | '0'..='9' | '_'));
            if !is_constant || constants.limits.contains(name) {
                continue;
            }
            let has_part = |wanted: [&str; 2]| parts.iter().any(|part| wanted.contains(part));
            if has_part(["MAX", "MIN"]) {
                report.add(
                    number + 1,
                    format!("`{name}` is not in ensile-base's limits.rs: cite a limit that is"),
                );
            } else if has_part(["BYTES", "BITS"]) && !constants.others.contains(name) {
                report.add(number + 1, format!("`{name}` is no constant of the workspace: cite one that is"));
            }
        }
    }
}

/// Invariants that the protocol documents define; `None` without a definition.
pub(super) fn invariants(documents: &[(String, String)]) -> Option<BTreeSet<String>> {
    let protocols = documents.iter().filter(|(path, _)| path.starts_with("docs/internals/protocols/"));
    let names: BTreeSet<String> =
        protocols.flat_map(|(_, text)| text.lines().flat_map(definitions)).collect();
    (!names.is_empty()).then_some(names)
}

/// Names at the head of a heading or of bold words.
pub(super) fn definitions(line: &str) -> Vec<String> {
    let heading = line.starts_with('#').then(|| line.trim_start_matches('#'));
    let bold = line.split("**").skip(1).step_by(2);
    heading
        .into_iter()
        .chain(bold)
        .filter_map(|words| names(words.split_whitespace().next()?).pop())
        .collect()
}

/// Comments cite only defined invariants.
pub(super) fn citations(source: &Source<'_>, facts: &Facts, report: &mut Report<'_>) {
    let Some(defined) = &facts.invariants else { return };
    for comment in &source.comments {
        for (offset, line) in comment.text.lines().enumerate() {
            for prose in line.split('`').step_by(2) {
                for name in names(prose).into_iter().filter(|name| !defined.contains(name)) {
                    let advice = format!(
                        "{name} is defined nowhere in docs/internals/protocols/ (in back-quotes if no invariant)"
                    );
                    report.add(comment.line + offset, advice);
                }
            }
        }
    }
}

/// Examples for applications use `ensile`, which re-exports the engine: applications do not have the engine.
pub(super) fn examples(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    let mut is_example = false;
    for (at, line) in source.lines.iter().enumerate() {
        let line = line.trim_start();
        // A macro's documentation may have its lines in attributes.
        let beginnings = ["///", "//!", "#[doc ="];
        let Some(text) = beginnings.iter().find_map(|beginning| line.strip_prefix(beginning)) else {
            is_example = false;
            continue;
        };
        let text = text.trim_start();
        if text.starts_with("```") {
            is_example = !is_example;
        } else if is_example && text.contains("ensile_engine") && !text.starts_with("# ") {
            let advice =
                "name `ensile`, and hide `# extern crate ensile_engine as ensile;` at the example's top";
            report.add(at + 1, advice);
        }
    }
}

/// Words of the form `E1` or `L12`.
fn names(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.'));
    let is_name = |word: &&str| {
        let digits = word.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or_default();
        matches!(digits.len(), 1 | 2) && digits.chars().all(|c| c.is_ascii_digit())
    };
    words.map(|word| word.trim_end_matches('.')).filter(is_name).map(str::to_owned).collect()
}
