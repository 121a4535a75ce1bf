//! Rules of atomics and locks: one door that model checkers can stand behind, and a reason beside every ordering.
//!
//! Neighbours: [`super`] lists these rules; the door is `ensile-base`'s `sync` module.

use super::facts::Facts;
use super::finding::Report;
use super::places::lies_in;
use crate::source::Source;

/// Places that may name std's (or a model checker's) atomics, with the reasons.
const DOORS: &[(&str, &str)] = &[
    ("crates/ensile-base/src/sync.rs", "the one door"),
    ("crates/ensile-base/src/sync/", "the one door"),
    ("crates/ensile-sim/src/schedules.rs", "drives shuttle"),
    (
        "crates/ensile-disk/src/mapped_file.rs",
        "the kernel has the words in a file, which no model checker has",
    ),
    ("crates/ensile-disk/src/process.rs", "the kernel clears the word, which no model checker has"),
    ("crates/ensile-net/src/uring/memory.rs", "the kernel reads the word, which no model checker has"),
    ("crates/ensile-epoch/src/asymmetric_fence.rs", "compiler_fence, which model checkers do not have"),
];

/// Places that may name std's locks, with the reasons.
const LOCK_DOORS: &[(&str, &str)] = &[
    ("crates/ensile-base/src/sync.rs", "the one door"),
    ("crates/ensile-base/src/sync/", "the one door"),
    ("crates/ensile-fuzz/", "bodies of fuzz targets: no model checker runs them"),
    ("crates/ensile-sim/src/schedules.rs", "drives shuttle"),
];

/// Locks that the door has in place of std's locks.
const LOCKS: [&str; 10] = [
    "Condvar",
    "LazyLock",
    "Mutex",
    "MutexGuard",
    "Once",
    "OnceLock",
    "PoisonError",
    "RwLock",
    "RwLockReadGuard",
    "RwLockWriteGuard",
];

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Lines above an ordering for its reason.
const REASON_LINES_ABOVE: usize = 6;

/// Every memory ordering has a comment with the reason and the partner.
pub(super) fn ordering_reason(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if !source.path.starts_with("crates/") {
        return;
    }
    let mut last_line = 0;
    for path in source.paths().iter().filter(|path| !source.in_test(path.line)) {
        let [.., parent, ordering] = path.segments[..] else { continue };
        let is_atomic = path.segments.iter().any(|segment| matches!(*segment, "atomic" | "sync"));
        if path.in_use && is_atomic && ordering == "Ordering" && path.renamed {
            report.add(path.line, "do not rename the atomics' `Ordering`: write it in full where it is used");
        }
        if parent != "Ordering" || !(ORDERINGS.contains(&ordering) || (ordering == "*" && is_atomic)) {
            continue;
        }
        if path.in_use {
            report
                .add(path.line, "import `Ordering`, not its variants: write `Ordering::..` where it is used");
        } else if path.line != last_line && !has_reason(source, path.line) {
            last_line = path.line;
            let advice = "say in a `//` comment here, or in the 6 lines above, why this order is enough, and its partner";
            report.add(path.line, advice);
        }
    }
}

fn has_reason(source: &Source<'_>, line: usize) -> bool {
    let is_documentation = |text: &str| text.starts_with("///") || text.starts_with("//!");
    source
        .comments_near(line, REASON_LINES_ABOVE)
        .any(|comment| comment.text.starts_with("//") && !is_documentation(comment.text))
}

/// Atomics are named through the door only, so that the shipped types are the model-checked types.
pub(super) fn door(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if lies_in(source.path, DOORS) {
        return;
    }
    for path in source.paths() {
        let outside = match path.segments[..] {
            ["std" | "core", "sync", "atomic", ..] => true,
            ["loom" | "shuttle", ..] => path.segments.len() > 1 || path.in_use,
            _ => false,
        };
        if outside && !source.in_test(path.line) {
            report.add(
                path.line,
                "take it from `ensile_base::sync`, the one door to atomics and model checkers",
            );
        }
    }
}

/// Locks are named through the door only: model checkers see the locks, and no code speaks of std's poison.
pub(super) fn lock_door(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if lies_in(source.path, LOCK_DOORS) {
        return;
    }
    for path in source.paths() {
        let ["std" | "core", "sync", name, ..] = path.segments[..] else { continue };
        if LOCKS.contains(&name) && !source.in_test(path.line) {
            report.add(path.line, format!("take `{name}` from `ensile_base::sync`, the one door to locks"));
        }
    }
}
