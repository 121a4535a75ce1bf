//! A bad and a good sample for every rule: a rule that cannot fail holds nothing.
//!
//! The rule of floors has its samples beside it, in `floors.rs`; the lines of a bad sample that must be found are
//! marked by `~` at their end (and the mark is taken off before the rule looks).

use std::collections::BTreeSet;

use super::facts::Facts;
use super::{RULES, inspect};

/// What one rule must find, and must leave alone.
struct Sample {
    rule: &'static str,
    path: &'static str,
    bad: &'static str,
    good: &'static str,
}

const INDEX: &str = "crates/ensile-index/src/node.rs";
const ENGINE: &str = "crates/ensile-engine/src/commit.rs";

const SAMPLES: &[Sample] = &[
    Sample {
        rule: "header",
        path: ENGINE,
        bad: "//! One line.~\nfn a() {}\n",
        good: "//! Two.\n//!\n//! Lines.\n",
    },
    Sample {
        rule: "header",
        path: ENGINE,
        bad: "use a::b;~\n//! Late.\n//! Later.\n",
        good: "//! A.\n//! B.\n",
    },
    Sample {
        rule: "named-parameters",
        path: ENGINE,
        bad: "fn a(&self, (b, c): (u8, u8)) {}~\nfn d<F: Fn(u8)>((e, f): F) {}~\ntrait T { fn g(h: u8, (i, _): P); }~\n",
        good: "fn a(b: (u8, u8), c: impl Fn((u8, u8)) -> bool, d: HashMap<u8, (u8, u8)>) {}\nfn e(f: fn((u8, u8))) {}\n",
    },
    Sample {
        rule: "bare-names",
        path: ENGINE,
        bad: "fn found(a: u8) {}~\nimpl A { fn of(b: u8) -> Self {} }~\n",
        good: "fn found_rows(of: u8) {}\n#[cfg(test)]\nmod tests {\n    fn of() {}\n}\n",
    },
    Sample {
        rule: "tests-apart",
        path: ENGINE,
        bad: "fn a() {}~\n#[cfg(test)]\nmod tests {\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n}",
        good: "#[cfg(test)]\nmod tests {\n}",
    },
    Sample {
        rule: "ordering-reason",
        path: ENGINE,
        bad: "a.load(Ordering::Acquire);~\n/// Not a reason.\nb.store(1, Ordering::Relaxed);~\n",
        good: "// Acquire: partner is the store in `end`.\na.load(Ordering::Acquire);\nb.cmp(&c) == Ordering::Less;\n",
    },
    Sample {
        rule: "ordering-reason",
        path: ENGINE,
        bad: "// Far.\n\n\n\n\n\n\nassert!(a.load(\nOrdering::SeqCst) == \"// no\");~\n",
        good: "assert!(a.load(Ordering::SeqCst)); // One total order with `scan`.\n#[cfg(test)]\nmod t { fn f() { a.load(Ordering::Relaxed); } }\n",
    },
    Sample {
        rule: "ordering-reason",
        path: ENGINE,
        bad: "use crate::sync::{fence, Ordering::{self, Relaxed}};~\nuse a::sync::Ordering as O;~\nuse a::atomic::Ordering::*;~\n",
        good: "use ensile_base::sync::{fence, Ordering};\nuse std::cmp::Ordering as Order;\nuse std::cmp::Ordering::*;\n",
    },
    Sample {
        rule: "atomics-door",
        path: ENGINE,
        bad: "use std::sync::{Arc, atomic::AtomicU64};~\nlet a = core::sync::atomic::AtomicU8::new(0);~\nuse loom::thread;~\n",
        good: "use std::sync::Arc;\nuse ensile_base::sync::AtomicU64;\n#[cfg(loom)]\nconst A: u8 = 0;\n#[cfg(test)]\nuse std::sync::atomic::AtomicU8;\n",
    },
    Sample {
        rule: "lock-door",
        path: ENGINE,
        bad: "use std::sync::{Arc, Mutex};~\nlet a = std::sync::OnceLock::new();~\n",
        good: "use ensile_base::sync::{Mutex, OnceLock};\nuse std::sync::{Arc, Weak};\n#[cfg(test)]\nuse std::sync::Mutex;\n",
    },
    Sample {
        rule: "file-door",
        path: ENGINE,
        bad: "use std::{fs, io};~\nlet a = std::fs::File::open(b);~\nrustix::fs::fsync(c);~\n",
        good: "use std::io;\nlet fs = 1; // std::fs\n#[cfg(test)]\nuse std::fs;\n",
    },
    Sample {
        rule: "socket-door",
        path: ENGINE,
        bad: "use std::net::{SocketAddr, TcpStream};~\nlet a = std::os::unix::net::UnixListener::bind(b);~\nrustix::net::listen(c);~\n",
        good: "use std::net::SocketAddr;\nlet net = 1; // std::net::TcpStream\n#[cfg(test)]\nuse std::net::TcpStream;\n",
    },
    Sample {
        rule: "thread-door",
        path: ENGINE,
        bad: "std::thread::spawn(f);~\nlet b = thread::Builder::new();~\nuse std::thread::{self, scope};~\n",
        good: "use std::thread;\nthread::yield_now();\n#[test]\nfn t() { std::thread::spawn(f); }\n",
    },
    Sample {
        rule: "safety-comment",
        path: INDEX,
        bad: "let a = unsafe { b() };~\nunsafe impl Send for A {}~\n#[unsafe(no_mangle)]~\nmod a {}\n",
        good: "// SAFETY: the pin stands.\nlet a = unsafe { b() };\nlet f: unsafe fn(u8) = g;\nlet s = \"unsafe {\";\n",
    },
    Sample {
        rule: "safety-comment",
        path: INDEX,
        bad: "// SAFETY: far.\n\n\n\n\n\n\nlet a = unsafe { b() };~\n",
        good: "// SAFETY: long,\n// 2\n// 3\n// 4\n// 5\n// 6\n// 7\n// 8\nlet a = unsafe { b() };\n",
    },
    Sample {
        rule: "safety-section",
        path: INDEX,
        bad: "/// Reads.\n#[inline]\npub unsafe fn a() {}~\npub(crate) const unsafe extern \"C\" fn b() {}~\nunsafe trait T {}~\n",
        good: "/// Reads.\n///\n/// # Safety\n/// A pin stands.\n#[inline]\npub(crate) const unsafe fn a() {}\nunsafe impl GlobalAlloc for A { unsafe fn alloc() {} }\n",
    },
    Sample {
        rule: "unsafe-place",
        path: ENGINE,
        bad: "// SAFETY: argued, but not here.\nunsafe { a() };~\n",
        good: "let f: unsafe fn() = a;\n// unsafe { }\n",
    },
    Sample {
        rule: "unsafe-lint",
        path: "crates/ensile-durability/src/lib.rs",
        bad: "//! Header.~\n#![deny(unsafe_code)]\n#![forbid(missing_docs)]\n",
        good: "//! Header.\n#![forbid(missing_docs, unsafe_code)]\n",
    },
    Sample {
        rule: "unsafe-lint",
        path: "crates/ensile-engine/src/lib.rs",
        bad: "//! Only the record module may.~\n",
        good: "//! Only the record module may.\n#![deny(unsafe_code)]\n",
    },
    Sample {
        rule: "unfinished",
        path: ENGINE,
        bad: "// TODO later~\n/* a\nFIXME */~\nfn a() { todo!() }~\nlet b = dbg!(c);~\nunimplemented!();~\n// XXX~\n/// HACK~\n",
        good: "// The to-do list of TODOS\nlet todo = \"TODO\";\nif todo != b {}\n",
    },
    Sample {
        rule: "planted",
        path: ENGINE,
        bad: "if !is_planted(Bug::LocksInWriteOrder) {~\n}\n#[cfg(planted)]~\n// A planted bug.~\n",
        good: "fn a() {}\n#[cfg(test)]\nmod t { fn f() { panic!(\"planted\"); } }\n",
    },
    Sample {
        rule: "lint-exception",
        path: ENGINE,
        bad: "#[allow(dead_code)]~\nfn a() {}\n#![cfg_attr(test, allow(b))]~\n#[expect(c)]~\n#[ignore]~\nfn d() {}\n",
        good: "#[expect(a, reason = \"b\")]\n#[ignore = \"needs a disk of 1 TB\"]\nfn allow() { allow(1); c.expect(\"d\"); }\n",
    },
    Sample {
        rule: "invariant",
        path: ENGINE,
        bad: "//! Holds E9~.\n// See (E1, Q1).~\n",
        good: "//! Holds E1 and L1-L2's reason; `T0` and x86 are code, U+0000, v1.2 and §4.1 no names.\nlet Q1 = \"Q2\";\n",
    },
    Sample {
        rule: "columns",
        path: ENGINE,
        bad: "//! A comment that goes on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on.~\n",
        good: "//! A comment that ends.\n// https://a.b/ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\n",
    },
    Sample {
        rule: "said-here",
        path: ENGINE,
        bad: "// Relaxed: as above.~\na(Ordering::Relaxed);\n// SAFETY: See above.~\n",
        good: "// Relaxed: a figure.\n// Works as above.\n#[cfg(test)]\nmod t {\n// Relaxed: as above.\n}\n",
    },
    Sample {
        rule: "plain-words",
        path: ENGINE,
        bad: "//! For who~\n//! reads so many bytes.~\n/// Room; who locks it waits.~\n/* A lock.\n Whoever has it.~ */\n",
        good: "// The bytes of a caller who waits, and for whom; so many that `for who` is a word: not somewhoever.\nlet a = \"for who waits\";\n",
    },
    Sample {
        rule: "doc-example",
        path: ENGINE,
        bad: "//! ```\n//! use ensile_engine::A;~\n//! ```\n/// ```no_run\n/// ensile_engine::a!();~\n    /// #[b = \"ensile_engine\"]~\n#[doc = concat!(\"use ensile_engine::\", a!())]~\n/// ```\n",
        good: "//! Users of ensile_engine.\n/// ```\n/// # extern crate ensile_engine as ensile;\n/// use ensile::A;\n/// ```\n/// See ensile_engine.\nuse ensile_engine::A;\n",
    },
];

fn facts() -> Facts {
    let invariants = super::documents::invariants(&[(
        "docs/internals/protocols/a.md".to_owned(),
        "# E1: binding\n- **L1 Marks.** Words, not **bold L9**.\n**L2**\n".to_owned(),
    )]);
    Facts { invariants }
}

/// The lines that `rule` finds in `text`.
fn found(rule: &str, path: &str, text: &str) -> Vec<usize> {
    let findings = inspect(&[(path.to_owned(), text.to_owned())], &[], &facts());
    let lines: BTreeSet<usize> = findings.iter().filter(|f| f.rule == rule).map(|f| f.line).collect();
    lines.into_iter().collect()
}

#[test]
fn every_bad_sample_is_found_line_by_line_and_no_good_one() {
    for Sample { rule, path, bad, good } in SAMPLES {
        let marked = |line: &str| line.contains('~');
        let wanted: Vec<usize> =
            bad.lines().enumerate().filter(|(_, line)| marked(line)).map(|(at, _)| at + 1).collect();
        assert!(!wanted.is_empty(), "{rule}: mark what must be found");
        assert_eq!(found(rule, path, &bad.replace('~', "")), wanted, "{rule}: {bad}");
        assert_eq!(found(rule, path, good), Vec::<usize>::new(), "{rule}: {good}");
    }
}

#[test]
fn every_rule_has_a_sample() {
    let measured = ["file-length", "function-length"];
    for (rule, _) in RULES {
        let has = measured.contains(rule) || SAMPLES.iter().any(|sample| sample.rule == *rule);
        assert!(has, "no sample for {rule}");
    }
}

#[test]
fn long_files_are_found_and_their_tests_do_not_count() {
    let own = "const A: u8 = 0;\n".repeat(1_000);
    let tests = format!("#[cfg(test)]\nmod t {{\n{}}}\n", "\n".repeat(500));
    assert!(found("file-length", ENGINE, &format!("{own}{tests}")).is_empty());
    assert_eq!(found("file-length", ENGINE, &format!("{own}\n")), [1_000]);
    assert!(found("file-length", "crates/a/src/b/tests.rs", &own.repeat(2)).is_empty());
    assert_eq!(found("file-length", "crates/a/src/b/tests.rs", &own.repeat(3)), [2_000]);
}

#[test]
fn long_functions_are_found_and_tests_may_be_long() {
    let function = |inside: usize| format!("fn a(\n) {{\n{}}}\n", "b();\n".repeat(inside));
    assert!(found("function-length", ENGINE, &function(67)).is_empty());
    assert_eq!(found("function-length", ENGINE, &function(68)), [1]);
    assert!(found("function-length", ENGINE, &format!("#[test]\n{}", function(68))).is_empty());
    assert_eq!(
        found("function-length", ENGINE, &format!("macro_rules! m {{ () => {{\n{}}} }}", function(68))),
        [2]
    );
}

#[test]
fn permissions_hold_where_the_tables_say_and_nowhere_else() {
    let unsafe_block = "// SAFETY: a.\nunsafe { a() }\n";
    for path in [INDEX, "crates/ensile-engine/src/record.rs", "crates/ensile-engine/src/record/read.rs"] {
        assert!(found("unsafe-place", path, unsafe_block).is_empty(), "{path}");
    }
    let atomics = "use std::sync::atomic::AtomicU8;\n";
    assert!(found("atomics-door", "crates/ensile-base/src/sync.rs", atomics).is_empty());
    assert_eq!(found("atomics-door", "crates/ensile-base/src/clock.rs", atomics), [1]);
    assert!(found("file-door", "crates/ensile-disk/src/lib.rs", "use std::fs;\n").is_empty());
    assert!(
        found("thread-door", "crates/ensile-engine/src/database/threads.rs", "thread::spawn(a);\n")
            .is_empty()
    );
    assert!(found("unsafe-lint", "crates/ensile-index/src/lib.rs", "").is_empty());
    assert_eq!(found("unsafe-lint", "crates/ensile-cli/src/main.rs", ""), [1]);
}

#[test]
fn a_module_declared_for_tests_is_test_code() {
    let files = [
        ("crates/ensile-index/src/lib.rs", "//! A.\n//! B.\n#[cfg(test)]\nmod oracle;\nmod node;\n"),
        ("crates/ensile-index/src/oracle.rs", "//! A.\n//! B.\nuse std::fs;\n"),
        ("crates/ensile-index/src/node.rs", "//! A.\n//! B.\nuse std::fs;\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()));
    let findings = inspect(&files, &[], &facts());
    let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["crates/ensile-index/src/node.rs"]);
}

#[test]
fn without_protocol_documents_no_citation_is_judged() {
    let files = [(ENGINE.to_owned(), "//! E9.\n//! B.\n".to_owned())];
    assert!(inspect(&files, &[], &Facts::default()).is_empty());
    let headings_only = [("docs/internals/protocols/a.md".to_owned(), "# Commit\n".to_owned())];
    assert!(super::documents::invariants(&headings_only).is_none());
}

#[test]
fn documents_cite_limits_that_exist() {
    let limits = "//! A.\n//! B.\npub const KEY_BYTES_MAX: usize = 1;\n";
    let node = "//! A.\n//! B.\nconst LINE_BYTES: usize = 64;\nconst NODE_KEYS_MAX: usize = 15;\n";
    let files = [("crates/ensile-base/src/limits.rs", limits), (INDEX, node)]
        .map(|(path, text)| (path.to_owned(), text.to_owned()));
    let document = "`KEY_BYTES_MAX`, `LINE_BYTES`, `CARGO_TARGET_DIR`\n`VALUE_BYTES_MAX`\n`NODE_KEYS_MAX`\n`PAGE_BYTES`\n";
    let documents = [("docs/internals/formats/log.md".to_owned(), document.to_owned())];
    let lines: Vec<usize> =
        inspect(&files, &documents, &facts()).iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [2, 3, 4]);
}
