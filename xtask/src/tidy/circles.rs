//! Rule against circles among the top modules of a crate: a reader of a module reads only the modules below.
//!
//! A top module is a file or folder directly under `src/`. A module uses another module if its code, tests excepted,
//! names a path into the other module: by `crate::`, by `super::` up to the root, or by a re-export of the root.
//!
//! Neighbours: [`super`] lists this rule; floors hold crates to the same order.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::source::{Path, Source};

pub(super) const RULE: &str = "circles";

/// Place of the first use of another module, and number of uses.
struct Use<'s> {
    path: &'s str,
    line: usize,
    named: String,
    count: usize,
}

/// Uses in one crate, by using and used module.
type Uses<'s> = BTreeMap<(&'s str, &'s str), Use<'s>>;

/// Findings of all uses that are part of a circle.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        if let Some((package, _)) = source.path.split_once("/src/") {
            crates.entry(package).or_default().push(source);
        }
    }
    crates.values().flat_map(|files| circles(&uses(files))).collect()
}

fn circles(uses: &Uses<'_>) -> Vec<Finding> {
    let modules: BTreeSet<&str> = uses.keys().flat_map(|&(from, to)| [from, to]).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        modules.iter().map(|&module| (module, reachable(uses, module))).collect();
    let comes_back = |(from, to): (&str, &str)| reached[to].contains(from);
    let inside = uses.iter().filter(|(pair, _)| comes_back(**pair));
    inside
        .map(|(&(from, to), first)| {
            let ring = modules.iter().filter(|&&module| comes_back((from, module)) && comes_back((module, from)));
            let advice = format!(
                "`{from}` uses `{to}` ({}, {} such), which leads back to it, in a ring of {}: untie one of them",
                first.named,
                first.count,
                ring.count()
            );
            Finding { path: first.path.to_owned(), line: first.line, rule: RULE, advice }
        })
        .collect()
}

/// Modules that `from` uses, directly or indirectly.
fn reachable<'s>(uses: &Uses<'s>, from: &'s str) -> BTreeSet<&'s str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let next = uses.keys().filter(|(user, _)| *user == module).map(|&(_, used)| used);
        open.extend(next.filter(|used| found.insert(*used)));
    }
    found
}

/// Uses among the modules of one crate.
fn uses<'s>(files: &[&'s Source<'s>]) -> Uses<'s> {
    let modules: BTreeSet<&str> = files.iter().filter_map(|file| top_module(file.path)).collect();
    let roots = files.iter().filter(|file| is_root(file.path));
    let mut exported: BTreeMap<&str, &str> = BTreeMap::new();
    for path in roots.flat_map(|root| root.paths()).filter(|path| path.in_use) {
        let named: Vec<&str> =
            path.segments.into_iter().skip_while(|s| matches!(*s, "crate" | "self")).collect();
        if let (Some(module), Some(name)) = (named.first().and_then(|name| modules.get(name)), named.last()) {
            exported.insert(name, module);
        }
    }
    let mut found = Uses::new();
    for file in files {
        let Some(from) = top_module(file.path) else { continue };
        for path in file.paths().into_iter().filter(|path| !file.in_test(path.line)) {
            let Some(first) = from_root(file.path, &path) else { continue };
            let used = modules.get(first).or_else(|| exported.get(first));
            let Some(&to) = used.filter(|used| **used != from) else { continue };
            let new = || Use { path: file.path, line: path.line, named: path.segments.join("::"), count: 0 };
            found.entry((from, to)).or_insert_with(new).count += 1;
        }
    }
    found
}

/// First name below the crate's root in a path from the root.
fn from_root<'p>(file: &str, path: &Path<'p>) -> Option<&'p str> {
    let skipped = match *path.segments.first()? {
        "crate" => 1,
        "super" => {
            let supers = path.segments.iter().take_while(|segment| **segment == "super").count();
            (supers == depth(file)).then_some(supers)?
        }
        _ => return None,
    };
    path.segments.get(skipped).copied()
}

/// Depth of a file in modules: 1 directly below the root.
fn depth(file: &str) -> usize {
    let inside = file.split_once("/src/").map_or("", |(_, inside)| inside);
    inside.split('/').filter(|part| *part != "mod.rs").count()
}

fn is_root(file: &str) -> bool {
    let inside = file.split_once("/src/").map_or("", |(_, inside)| inside);
    matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/")
}

fn top_module(file: &str) -> Option<&str> {
    let (_, inside) = file.split_once("/src/")?;
    let first = inside.split('/').next()?.trim_end_matches(".rs");
    (!is_root(file)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{Finding, check};
    use crate::source::Source;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let paths: Vec<String> = files.iter().map(|(name, _)| format!("crates/a/src/{name}")).collect();
        let sources: Vec<Source<'_>> =
            paths.iter().zip(files).map(|(path, (_, text))| Source::new(path, text)).collect();
        check(&sources).into_iter().map(|Finding { path, line, .. }| (path, line)).collect()
    }

    #[test]
    fn a_ring_of_three_is_found_at_each_of_its_uses() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use c::Third;\n"),
            ("a.rs", "use crate::b::B;\nuse crate::d;\n"),
            ("b/inner.rs", "\nfn f() { super::super::Third::new(); }\n"),
            ("c.rs", "\n\nuse super::a::{self, A};\n"),
            ("d.rs", "use crate::d::E;\nuse std::a;\n"),
        ];
        let wanted = [("a.rs", 1), ("b/inner.rs", 2), ("c.rs", 3)];
        let wanted: Vec<_> = wanted.map(|(name, line)| (format!("crates/a/src/{name}"), line)).into();
        assert_eq!(found(&files), wanted);
    }

    #[test]
    fn a_stair_has_none_and_tests_may_look_up() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "use crate::b::B;\nuse super::b::C;\n"),
            ("b.rs", "#[cfg(test)]\nmod tests {\nuse crate::a::A;\n}\n"),
            ("b/inner.rs", "use super::a::A;\n"),
            ("b/tests.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(found(&files), []);
    }
}
