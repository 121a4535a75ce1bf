//! Rules of `unsafe`: few places, and always an argument.
//!
//! Neighbours: [`super`] lists these rules. clippy's `undocumented_unsafe_blocks` asks for the same comments in the
//! code that clippy sees; these rules also cover macros and every target.

use super::facts::Facts;
use super::finding::Report;
use super::places::lies_in;
use crate::lexer::Kind;
use crate::source::Source;

/// Places that may have `unsafe`, with the reasons.
const PLACES: &[(&str, &str)] = &[
    ("crates/ensile-memory/", "slabs hand out raw memory; prefetch hints; a box that two threads exchange"),
    ("crates/ensile-disk/src/process*", "a page that the kernel clears at fork"),
    ("crates/ensile-disk/src/mapped*", "a file's pages, written as words of memory"),
    ("crates/ensile-disk/src/real_disk/write_behind.rs", "a call of the C library"),
    ("crates/ensile-disk/src/real_disk/removed_file.rs", "a call of the C library"),
    (
        "crates/ensile-net/src/uring/",
        "memory that the kernel reads and writes while operations are in flight",
    ),
    ("crates/ensile-epoch/", "deferred frees, evidence that a pin is held, membarrier"),
    ("crates/ensile-index/", "nodes are shared memory reached by pointers"),
    ("crates/ensile-engine/tests/forked.rs", "`fork`"),
    ("crates/ensile-engine/src/record*", "records are overwritten in place under readers"),
    ("crates/ensile-engine/src/pictures/pending_removes*", "blocks that one list at a time owns"),
    ("crates/ensile-engine/src/pictures/table_pages*", "commits follow a published map under their pin"),
    ("crates/ensile-engine/src/garbage.rs", "frees what waited long enough"),
    ("crates/ensile-c/src/", "pointers that C passes, and call-backs into C"),
    ("crates/ensile-c/tests/", "calls the C interface as C does"),
];

/// Lines above an `unsafe` for the beginning of its argument, or for the end of a longer argument.
const SAFETY_LINES_ABOVE: usize = 6;

/// Item that an `unsafe` keyword opens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opens {
    /// A block, an impl, an `extern` block or an attribute: claims that a condition holds.
    Claim,
    /// A function or trait: asks its callers or implementers for a condition.
    Demand,
    /// A function pointer's type: neither.
    Type,
}

fn opens(source: &Source<'_>, at: usize) -> Opens {
    let mut next = at + 1;
    if source.text(next) == "extern" {
        next += 1 + usize::from(source.code.get(next + 1).is_some_and(|token| token.kind == Kind::Literal));
    }
    match source.text(next) {
        "fn" if source.text(next + 1) == "(" => Opens::Type,
        "fn" | "trait" => Opens::Demand,
        _ => Opens::Claim,
    }
}

fn occurrences(source: &Source<'_>) -> impl Iterator<Item = usize> {
    let is_unsafe = |at: &usize| source.code[*at].kind == Kind::Word && source.text(*at) == "unsafe";
    (0..source.code.len()).filter(is_unsafe)
}

/// Every claim has an argument in a `// SAFETY:` comment.
pub(super) fn safety_comment(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    for at in occurrences(source).filter(|&at| opens(source, at) == Opens::Claim) {
        let line = source.code[at].line;
        let argued =
            source.comments_near(line, SAFETY_LINES_ABOVE).any(|comment| comment.text.contains("SAFETY:"));
        if !argued {
            report.add(line, "argue in a `// SAFETY:` comment, on the line or above it, why this is sound");
        }
    }
}

/// Every demand has a `# Safety` section. Functions of a trait's impl inherit the trait's section.
pub(super) fn safety_section(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    let inherited = trait_impl_bodies(source);
    for at in occurrences(source).filter(|&at| opens(source, at) == Opens::Demand) {
        let line = source.code[at].line;
        let inherits = inherited.iter().any(|&(open, close)| open < at && at < close);
        let stated = source.comments_of_item(at).any(|comment| comment.text.contains("# Safety"));
        if !inherits && !stated && !source.in_test(line) {
            report
                .add(line, "state in a `# Safety` section of its documentation what the caller must ensure");
        }
    }
}

/// The brackets of every `impl Trait for Type { .. }`.
fn trait_impl_bodies(source: &Source<'_>) -> Vec<(usize, usize)> {
    let mut bodies = Vec::new();
    for at in (0..source.code.len()).filter(|&at| source.text(at) == "impl") {
        let starts_item = at == 0 || matches!(source.text(at - 1), "}" | "{" | ";" | "]" | "unsafe");
        let body = (at..source.code.len()).find(|&at| matches!(source.text(at), "{" | ";"));
        let Some(body) = body.filter(|_| starts_item) else { continue };
        if (at..body).any(|at| source.text(at) == "for" && source.text(at + 1) != "<") {
            bodies.push((body, source.partner(body)));
        }
    }
    bodies
}

/// `unsafe` stays in the permitted places.
pub(super) fn place(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if lies_in(source.path, PLACES) {
        return;
    }
    for at in occurrences(source).filter(|&at| opens(source, at) != Opens::Type) {
        let advice = "do it without `unsafe`, or through a floor that is permitted to (table in xtask's unsafety rules)";
        report.add(source.code[at].line, advice);
    }
}

/// Every root of a crate without permission forbids `unsafe`. A root of a crate with permission for some files denies
/// `unsafe`.
pub(super) fn lint(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    let Some((package, inside)) = source.path.split_once("/src/") else { return };
    let is_root =
        matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/") && !inside[4..].contains('/');
    if !is_root || lies_in(source.path, PLACES) {
        return;
    }
    let is_partly = PLACES.iter().any(|(place, _)| place.starts_with(&format!("{package}/")));
    let level = if is_partly { "deny" } else { "forbid" };
    let has = source.attributes().any(|(at, inside)| {
        source.text(at + 1) == "!"
            && source.text(inside) == level
            && (inside..source.partner(inside + 1)).any(|at| source.text(at) == "unsafe_code")
    });
    if !has {
        report.add(1, format!("say `#![{level}(unsafe_code)]` below the header"));
    }
}
