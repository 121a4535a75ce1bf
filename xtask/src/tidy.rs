//! The rules of the tree, and the walk that applies them.
//!
//! A rule is a function from a file (or from the workspace's manifests) to findings; [`RULES`] is the list. A finding
//! is printed as `file:line: rule: advice`. Every rule has a bad and a good sample in `tidy/tests.rs`.
//!
//! Neighbours: [`crate::source`] takes the files apart; `docs/internals/checks.md` states the rules in prose.

mod assertions;
mod atomics;
mod circles;
mod documents;
mod doors;
mod exceptions;
mod facts;
mod file_circles;
mod finding;
mod floors;
mod names;
mod patches;
mod places;
mod prose;
mod shape;
mod test_commands;
mod unsafety;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::files::read_tree;
use crate::planted;
use crate::source::Source;
use facts::Facts;
use finding::{Finding, Report};

type Check = fn(&Source<'_>, &Facts, &mut Report<'_>);

/// Rules that look at one Rust file at a time.
const RULES: &[(&str, Check)] = &[
    ("header", shape::header),
    ("file-length", shape::file_length),
    ("tests-apart", shape::tests_apart),
    ("function-length", shape::function_length),
    ("named-parameters", shape::named_parameters),
    ("bare-names", names::bare_names),
    ("ordering-reason", atomics::ordering_reason),
    ("atomics-door", atomics::door),
    ("lock-door", atomics::lock_door),
    ("file-door", doors::files),
    ("socket-door", doors::sockets),
    ("thread-door", doors::threads),
    ("safety-comment", unsafety::safety_comment),
    ("safety-section", unsafety::safety_section),
    ("unsafe-place", unsafety::place),
    ("unsafe-lint", unsafety::lint),
    ("unfinished", exceptions::unfinished),
    ("planted", exceptions::planted),
    ("lint-exception", exceptions::lints),
    ("invariant", documents::citations),
    ("doc-example", documents::examples),
    ("columns", prose::comment_columns),
    ("said-here", prose::said_here),
    ("plain-words", prose::plain_comments),
];

/// Rules of the whole tree, and of files in other languages.
const OTHER_RULES: [&str; 8] = [
    "floors",
    "limits",
    "patches",
    circles::RULE,
    file_circles::RULE,
    names::RULE,
    assertions::RULE,
    test_commands::RULE,
];

/// Rules that the tree does not keep yet. Findings of these rules are counted and do not fail; `tidy RULE` shows the
/// findings.
const WAITING: &[&str] = &[];

/// Checks the tree under `root` and prints the findings, of the rule `only` if given. True without a finding.
pub(crate) fn run(root: &Path, only: Option<&str>) -> io::Result<bool> {
    let mut texts = Vec::new();
    for folder in ["crates", "xtask"] {
        read_tree(root, folder, ".rs", &mut texts)?;
    }
    let mut documents = Vec::new();
    read_tree(root, "docs", ".md", &mut documents)?;
    for name in ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"] {
        if let Ok(text) = fs::read_to_string(root.join(name)) {
            documents.push((name.to_owned(), text));
        }
    }
    let facts = Facts { invariants: documents::invariants(&documents) };
    let mut findings = inspect(&texts, &documents, &facts);
    findings.extend(floors::check(root)?);
    let (bugs, unreadable) = planted::read(root)?;
    patches::check_unreadable(&unreadable, &mut findings);
    let planted_texts = planted::texts(root)?;
    patches::check(&bugs, &planted::Tree::new(&planted_texts), &facts, &mut findings);
    patches::check_names(&documents, &bugs, &mut findings);
    let sources = sources(&texts);
    let test_names = test_commands::TestNames::of(&sources);
    for bug in &bugs {
        let mut report = Report { rule: test_commands::RULE, path: &bug.file, findings: &mut findings };
        test_names.check(&bug.command, bug.line, &mut report);
    }
    read_tree(root, "ci", ".sh", &mut documents)?;
    for (path, text) in &documents {
        test_names.check(text, 1, &mut Report { rule: test_commands::RULE, path, findings: &mut findings });
    }
    let (few, figures) = assertions::check(&sources);
    findings.extend(few);
    if facts.invariants.is_none() {
        println!("tidy: rule `invariant` waits: docs/internals/protocols/ names no invariant yet");
    }
    println!("tidy: assertions a function: {figures}");
    let files = texts.len() + documents.len();
    Ok(report(findings, files, only))
}

/// Prints the findings, of the rule `only` if given. True without a finding.
fn report(mut findings: Vec<Finding>, files: usize, only: Option<&str>) -> bool {
    findings.sort();
    let is_waiting = |finding: &Finding| only.is_none() && WAITING.contains(&finding.rule);
    let (waiting, mut findings): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_waiting);
    findings.retain(|finding| only.is_none_or(|rule| finding.rule == rule));
    for Finding { path, line, rule, advice } in &findings {
        println!("{path}:{line}: {rule}: {advice}");
    }
    for rule in WAITING {
        let count = waiting.iter().filter(|finding| finding.rule == *rule).count();
        println!("tidy: rule `{rule}` waits: {count} findings (`cargo xtask tidy {rule}` shows them)");
    }
    let rules = RULES.len() + OTHER_RULES.len();
    println!("tidy: {files} files, {rules} rules, {} findings", findings.len());
    findings.is_empty()
}

/// Files as sources. The modules of a `#[cfg(test)] mod` are marked as tests.
fn sources(texts: &[(String, String)]) -> Vec<Source<'_>> {
    let mut sources: Vec<Source<'_>> = texts.iter().map(|(path, text)| Source::new(path, text)).collect();
    let test_modules: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        let declared = |module: &String| {
            source.path == module || (module.ends_with('/') && source.path.starts_with(module))
        };
        if test_modules.iter().any(declared) {
            source.set_test();
        }
    }
    sources
}

/// Findings of the rules that read files.
fn inspect(texts: &[(String, String)], documents: &[(String, String)], facts: &Facts) -> Vec<Finding> {
    let sources = sources(texts);
    let mut findings = circles::check(&sources);
    findings.extend(file_circles::check(&sources));
    findings.extend(names::check(&sources));
    for source in &sources {
        for &(rule, check) in RULES {
            check(source, facts, &mut Report { rule, path: source.path, findings: &mut findings });
        }
    }
    let constants = documents::Constants::of(&sources);
    for (path, text) in documents {
        documents::limits(text, &constants, &mut Report { rule: "limits", path, findings: &mut findings });
        prose::document_columns(text, &mut Report { rule: "columns", path, findings: &mut findings });
        prose::plain_document(text, &mut Report { rule: "plain-words", path, findings: &mut findings });
    }
    findings
}
