//! Rule against large circles of files inside a top module. A file that uses a name of a file that leads back to it
//! cannot be read alone.
//!
//! A file uses another file if its code, tests excepted, names a path to an item that the other file defines. A
//! re-export counts as the file behind the re-export. A file does not use the items that it only re-exports.
//!
//! Neighbours: [`super`] lists this rule; [`super::circles`] is the rule for whole top modules.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::source::{Path, Source};

pub(super) const RULE: &str = "file-circles";

/// Number of files that a circle may have.
const FILES_MAX: usize = 3;

/// Path of a module below the crate's root.
type Module<'s> = Vec<&'s str>;

/// The modules of one crate that are files, and the names that each module imports.
struct Modules<'s> {
    files: BTreeMap<Module<'s>, &'s Source<'s>>,
    imports: BTreeMap<(Module<'s>, &'s str), Module<'s>>,
}

/// Line and name of the first use of a module.
struct FirstUse {
    line: usize,
    named: String,
}

/// Findings of all circles of files with more than [`FILES_MAX`] files.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        if let Some((package, _)) = source.path.split_once("/src/") {
            crates.entry(package).or_default().push(source);
        }
    }
    crates.values().flat_map(|files| Modules::of_crate(files).large_circles()).collect()
}

impl<'s> Modules<'s> {
    fn of_crate(sources: &[&'s Source<'s>]) -> Self {
        let files: BTreeMap<_, _> =
            sources.iter().filter_map(|source| Some((module(source.path)?, *source))).collect();
        let mut modules = Self { files, imports: BTreeMap::new() };
        let mut imports = BTreeMap::new();
        for (from, source) in &modules.files {
            for path in source.paths().into_iter().filter(|path| path.in_use && !source.in_test(path.line)) {
                let (Some(target), Some(name)) =
                    (modules.absolute(from, &path.segments), path.segments.last())
                else {
                    continue;
                };
                if target.len() > 1 && !path.renamed {
                    imports.insert((from.clone(), *name), target);
                }
            }
        }
        modules.imports = imports;
        modules
    }

    /// Path from the crate's root, if `segments` lead to a module of the crate.
    fn absolute(&self, from: &Module<'s>, segments: &[&'s str]) -> Option<Module<'s>> {
        let supers = segments.iter().take_while(|segment| **segment == "super").count();
        let (start, skipped) = match *segments.first()? {
            "crate" => (&from[..0], 1),
            "self" => (&from[..], 1),
            "super" => (&from[..from.len().checked_sub(supers)?], supers),
            first if segments.len() > 1 => {
                let child: Module<'s> = [&from[..], &[first]].concat();
                (self.files.contains_key(&child).then_some(&from[..])?, 0)
            }
            _ => return None,
        };
        Some([start, &segments[skipped..]].concat())
    }

    /// The module that defines the item at `path`. Follows at most `hops` imports.
    fn definer(&self, path: &[&'s str], hops: usize) -> Option<Module<'s>> {
        let length = (0..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(length);
        let import = rest.first().and_then(|name| self.imports.get(&(module.to_vec(), *name)));
        match import.filter(|target| hops > 0 && target[..] != path[..=length]) {
            Some(target) => self.definer(&[&target[..], &rest[1..]].concat(), hops - 1),
            None => Some(module.to_vec()),
        }
    }

    /// Uses among the files of each top module.
    fn uses(&self) -> BTreeMap<&Module<'s>, BTreeMap<Module<'s>, FirstUse>> {
        let mut found: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (from, source) in &self.files {
            let paths: Vec<_> =
                source.paths().into_iter().filter(|path| !source.in_test(path.line)).collect();
            let names: BTreeSet<&str> = paths
                .iter()
                .filter(|path| !path.in_use)
                .flat_map(|path| path.segments.iter().copied())
                .collect();
            let is_mere_re_export = |path: &Path<'_>| {
                path.in_use && !path.renamed && path.segments.last().is_some_and(|n| !names.contains(n))
            };
            // `pub(super)` names no item.
            let is_scope = |path: &Path<'_>| matches!(path.segments[..], ["super" | "self" | "crate"]);
            for path in paths.iter().filter(|path| !is_scope(path) && !is_mere_re_export(path)) {
                let to = self.absolute(from, &path.segments).and_then(|path| self.definer(&path, 4));
                let Some(to) = to.filter(|to| to != from && to.first() == from.first()) else { continue };
                let first = || FirstUse { line: path.line, named: path.segments.join("::") };
                found.entry(from).or_default().entry(to).or_insert_with(first);
            }
        }
        found
    }

    fn large_circles(&self) -> Vec<Finding> {
        let uses = self.uses();
        let mut reached: BTreeMap<&Module<'s>, BTreeSet<&Module<'s>>> = BTreeMap::new();
        for &from in uses.keys() {
            let mut open = vec![from];
            let found = reached.entry(from).or_default();
            while let Some(module) = open.pop() {
                let next = uses.get(module).into_iter().flat_map(BTreeMap::keys);
                open.extend(next.filter(|module| found.insert(module)));
            }
        }
        let comes_back =
            |from: &Module<'s>, to: &Module<'s>| reached.get(to).is_some_and(|r| r.contains(from));
        let mut findings = Vec::new();
        for (&from, used) in &uses {
            let circle = reached[from].iter().filter(|module| comes_back(from, module)).count();
            if circle <= FILES_MAX {
                continue;
            }
            for (to, first) in used.iter().filter(|(to, _)| comes_back(from, to)) {
                let advice = format!(
                    "uses `{}` of `{}`, in a circle of {circle} files: move the shared item down",
                    first.named,
                    to.join("::"),
                );
                let path = self.files[from].path.to_owned();
                findings.push(Finding { path, line: first.line, rule: RULE, advice });
            }
        }
        findings
    }
}

/// Path of the module in the file at `path`. None for the root of a crate.
fn module(path: &str) -> Option<Module<'_>> {
    let (_, inside) = path.split_once("/src/")?;
    let is_root = matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/");
    let segments = inside.trim_end_matches(".rs").split('/').filter(|segment| *segment != "mod");
    (!is_root).then(|| segments.collect())
}

#[cfg(test)]
mod tests;
