//! Rule for commands that run tests by name: a renamed test or module must not leave a command that runs nothing.
//!
//! The rule reads each `cargo test` with one package and a filter, in scripts, documents and planted bugs.
//!
//! Neighbours: [`super`] lists this rule; [`mod@crate::planted`] has the commands of the planted bugs.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use crate::source::Source;

pub(super) const RULE: &str = "test-commands";

/// Options of `cargo test` that take the next word.
const OPTIONS_WITH_VALUE: [&str; 6] =
    ["--features", "--profile", "--config", "--target", "--target-dir", "--jobs"];

/// The names of one file's tests: the paths of its modules, and its functions.
struct FileNames<'s> {
    modules: Vec<String>,
    functions: BTreeSet<&'s str>,
}

/// Names of the tests of all packages, by package and target. The target of unit tests is `--lib`.
pub(super) struct TestNames<'s> {
    targets: BTreeMap<(&'s str, &'s str), Vec<FileNames<'s>>>,
}

impl<'s> TestNames<'s> {
    pub(super) fn of(sources: &[Source<'s>]) -> Self {
        let mut targets: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for source in sources {
            let Some((package, target, path)) = target(source.path) else { continue };
            let functions =
                (1..source.code.len()).filter(|&at| source.text(at - 1) == "fn").map(|at| source.text(at));
            let inner = (0..source.code.len())
                .filter(|&at| source.text(at) == "mod" && source.text(at + 2) == "{")
                .map(|at| [&path, source.text(at + 1)].map(str::to_owned).join("::"));
            let modules = inner
                .chain([path.clone()])
                .map(|module| module.trim_start_matches("::").to_owned())
                .collect();
            targets
                .entry((package, target))
                .or_default()
                .push(FileNames { modules, functions: functions.collect() });
        }
        Self { targets }
    }

    /// Reports each command of `text` whose filter is in no test's name. `first_line` is the line of the text's begin.
    pub(super) fn check(&self, text: &str, first_line: usize, report: &mut Report<'_>) {
        for (at, line) in text.lines().enumerate() {
            for command in line.split("cargo test ").skip(1) {
                let command = command.split(['`', '|', '&', '"', '\'', '#', '>']).next().unwrap_or_default();
                let Some(selection) = Selection::of(command) else { continue };
                if !self.has(&selection) {
                    let Selection { package, filter, .. } = selection;
                    report.add(
                        first_line + at,
                        format!("`cargo test {command}` runs no test of {package}: no name has `{filter}`"),
                    );
                }
            }
        }
    }

    fn has(&self, selection: &Selection<'_>) -> bool {
        let files = self
            .targets
            .iter()
            .filter(|((package, target), _)| {
                *package == selection.package && selection.target.is_none_or(|wanted| wanted == *target)
            })
            .flat_map(|(_, files)| files);
        let (outer, last) = selection.filter.rsplit_once("::").unwrap_or(("", selection.filter));
        files.into_iter().any(|file| {
            let begins = |name: &&str| name.starts_with(last);
            let in_modules = file.modules.iter().any(|module| {
                module.contains(selection.filter)
                    || (module.ends_with(outer) && file.functions.iter().any(begins))
            });
            in_modules || (outer.is_empty() && file.functions.iter().any(|name| name.contains(last)))
        })
    }
}

/// The tests that a command runs.
struct Selection<'c> {
    package: &'c str,
    target: Option<&'c str>,
    filter: &'c str,
}

impl<'c> Selection<'c> {
    /// None if the command has several packages, no filter, or a filter that the shell or the reader fills in.
    fn of(command: &'c str) -> Option<Self> {
        let (mut packages, mut target, mut filter) = (Vec::new(), None, None);
        let mut words = command.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "--" | "\\" => break,
                "-p" | "--package" => packages.push(words.next()?),
                "--test" => target = words.next(),
                "--lib" => target = Some("--lib"),
                option if OPTIONS_WITH_VALUE.contains(&option) => _ = words.next()?,
                option if option.starts_with('-') => {}
                word => filter = filter.or(Some(word.trim_end_matches(['.', ',', ';', ')']))),
            }
        }
        let [package] = packages[..] else { return None };
        let is_name = |text: &str| {
            text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_:".contains(&b))
        };
        Some(Self { package, target, filter: filter.filter(|filter| is_name(filter))? })
    }
}

/// Package, target and module of the file at `path`.
fn target(path: &str) -> Option<(&str, &str, String)> {
    let (folder, inside) = path.split_once("/src/").or_else(|| path.split_once("/tests/"))?;
    let package = folder.rsplit('/').next()?;
    let mut segments = inside.trim_end_matches(".rs").split('/');
    let target = if path.contains("/src/") { "--lib" } else { segments.next()? };
    let module: Vec<&str> = segments.filter(|segment| !matches!(*segment, "mod" | "main" | "lib")).collect();
    Some((package, target, module.join("::")))
}

#[cfg(test)]
mod tests;
