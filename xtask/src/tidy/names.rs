//! Rules of names: a type's name means one thing in the shipping crates, so a reader need not search for the right
//! type. An alias that keeps the name of its type is no second meaning: `type Held = lower::Held<u8>;`.
//!
//! The name of a function is no bare participle, preposition or pronoun, so a reader need not open the function.
//!
//! Neighbours: [`super`] lists this rule; readers judge the words.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::finding::{Finding, Report};
use super::places::lies_in;
use crate::lexer::Kind;
use crate::source::Source;

pub(super) const RULE: &str = "type-names";

/// Places that do not ship, and places with the types of another build.
const ELSEWHERE: &[(&str, &str)] = &[
    ("crates/ensile-bench/", "workloads and peers"),
    ("crates/ensile-papers/", "experiments"),
    ("crates/ensile-fuzz/", "bodies of fuzz targets"),
    ("crates/ensile-sim/", "the simulator"),
    ("crates/ensile-base/src/sync/", "the door's types have std's names, whichever build they are for"),
    ("xtask/", "house-keeping"),
];

/// Names with more than one definition, with the reasons. At most [`EXCEPTIONS_MAX`].
const EXCEPTIONS: &[(&str, &str)] = &[];
const EXCEPTIONS_MAX: usize = 5;
const _: () = assert!(EXCEPTIONS.len() <= EXCEPTIONS_MAX);

/// Participles, prepositions and pronouns that are the whole name of no function.
const BARE_NAMES: &str = "\
    above after all along among announced any applied archived around arrived at before beginning begun behind \
    below beside between both built bumped by called carried changed checked chosen cleared closed comparing \
    completed consumed copied counted covered crawled created creating damaged decided deleted delimited \
    demanded done dropped each encoded ended exchanged existing expected expired explained failed failing fenced \
    filled found gathered given gone heading held hidden in inserted installed it its joined judged kept known \
    lacking left lengthened lent listed listening loaded locked logged lost made mapped marked measured merged \
    merging met missing moved named near none noted of off on one opened opening other others out over own paced \
    padded panicked parked parting passed pinned poisoned prefaulted published reached reading received \
    recovered recycled refused registered removed renewed replaced replayed reserved restored retired returned \
    scanned searched seeded seen sent serving settled sharing shipped shortened shown simulated since sized \
    spent staged started stated superseded synced taken telling that these this to told typed unarchived \
    unauthenticated unchanged unchecked under unescaped unfinished unhooked unlinked unlisted unloaded unlocked \
    unopened unremoved until upcoming uploaded verified waiting walked wanted watched weighed whose widened with \
    within without written";

/// The name of a function says its result or its effect.
pub(super) fn bare_names(source: &Source<'_>, _: &Facts, report: &mut Report<'_>) {
    if !source.path.contains("/src/") || source.is_test || lies_in(source.path, ELSEWHERE) {
        return;
    }
    for (at, token) in source.code.iter().enumerate() {
        let is_function = token.kind == Kind::Word && token.text == "fn" && !source.in_test(token.line);
        if let Some(name) = source.code.get(at + 1).filter(|name| is_function && name.kind == Kind::Word)
            && BARE_NAMES.split_ascii_whitespace().any(|word| word == name.text)
        {
            let advice = format!("`{}` is a bare word: name the result, or the effect", name.text);
            report.add(token.line, advice);
        }
    }
}

/// Findings of a repeated name: the first definition and every further definition.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut names: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    let ships = |source: &&Source<'_>| {
        source.path.contains("/src/") && !source.is_test && !lies_in(source.path, ELSEWHERE)
    };
    for source in sources.iter().filter(ships) {
        for (name, line) in definitions(source) {
            let places = names.entry(name).or_default();
            // Two definitions in one file are the same type, for two kinds of build.
            if !places.iter().any(|(path, _)| *path == source.path) {
                places.push((source.path, line));
            }
        }
    }
    names.retain(|name, places| places.len() > 1 && !EXCEPTIONS.iter().any(|(known, _)| known == name));
    let finding = |name: &str, places: &[(&str, usize)], at: usize| {
        let (path, line) = places[at];
        let (other, _) = places[(at + 1) % places.len()];
        let advice = format!(
            "`{name}` is defined {} times, also in {other}: say in the name what it is of",
            places.len()
        );
        Finding { path: path.to_owned(), line, rule: RULE, advice }
    };
    names.iter().flat_map(|(name, places)| (0..places.len()).map(|at| finding(name, places, at))).collect()
}

/// Types that a file defines: name and line.
fn definitions<'s>(source: &Source<'s>) -> Vec<(&'s str, usize)> {
    let bodies = bodies_with_associated_types(source);
    let is_associated = |at: usize| bodies.iter().any(|&(open, close)| open < at && at < close);
    (0..source.code.len())
        .filter(|&at| source.code[at].kind == Kind::Word && !source.in_test(source.code[at].line))
        .filter(|&at| source.code.get(at + 1).is_some_and(|name| name.kind == Kind::Word))
        .filter(|&at| match source.text(at) {
            "struct" | "enum" | "trait" => true,
            "union" => matches!(source.text(at + 2), "{" | "<"),
            "type" => !is_associated(at) && !is_own_name(source, at),
            _ => false,
        })
        .map(|at| (source.text(at + 1), source.code[at].line))
        .collect()
}

/// True if the alias at `at` has the name of the type that it stands for.
fn is_own_name(source: &Source<'_>, at: usize) -> bool {
    let name = source.text(at + 1);
    let end = (at..source.code.len()).find(|&end| matches!(source.text(end), ";" | "<")).unwrap_or(at);
    source.text(at + 2) == "=" && end > at + 3 && source.text(end - 1) == name
}

/// Brackets of every `impl` and `trait`.
fn bodies_with_associated_types(source: &Source<'_>) -> Vec<(usize, usize)> {
    let opens = |at: &usize| match source.text(*at) {
        "impl" => *at == 0 || matches!(source.text(at - 1), "}" | "{" | ";" | "]" | "unsafe"),
        "trait" => true,
        _ => false,
    };
    let bodies = (0..source.code.len()).filter(opens).filter_map(|at| {
        let body = (at..source.code.len()).find(|&at| matches!(source.text(at), "{" | ";"))?;
        Some((body, source.partner(body)))
    });
    bodies.collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source::Source;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let sources: Vec<Source<'_>> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        check(&sources).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn a_name_that_two_files_define_is_found_in_both() {
        let files = [
            ("crates/a/src/b.rs", "struct Own;\npub(crate) enum Held {}\n"),
            ("crates/c/src/d.rs", "pub trait Held<T> {}\nfn f(held: Held) {}\ntype Rows = u8;\n"),
            ("crates/c/src/e.rs", "union Rows { a: u8 }\ntype Held = a::Own<Held>;\n"),
        ];
        let wanted = [
            ("crates/a/src/b.rs", 2),
            ("crates/c/src/d.rs", 1),
            ("crates/c/src/e.rs", 2),
            ("crates/c/src/d.rs", 3),
            ("crates/c/src/e.rs", 1),
        ];
        let wanted: Vec<_> = wanted.map(|(path, line)| (path.to_owned(), line)).into();
        assert_eq!(found(&files), wanted);
    }

    #[test]
    fn tests_associated_types_and_what_does_not_ship_may_repeat_a_name() {
        let files = [
            ("crates/a/src/b.rs", "struct Held;\n#[cfg(test)]\nmod tests {\nstruct Map;\n}\nstruct Map;\n"),
            ("crates/a/src/c.rs", "impl A for B { type Held = u8; }\ntrait C { type Map; }\n"),
            ("crates/a/src/c/tests.rs", "struct Held;\n"),
            ("crates/a/tests/d.rs", "struct Held;\n"),
            ("crates/ensile-bench/src/d.rs", "struct Held;\n"),
            ("crates/a/src/e.rs", "#[cfg(a)]\nstruct Kernel;\n#[cfg(not(a))]\nstruct Kernel;\n"),
            ("crates/c/src/b.rs", "pub type Held = a::Held<u8>;\npub type Map = a::Map;\n"),
        ];
        assert_eq!(found(&files), []);
    }
}
