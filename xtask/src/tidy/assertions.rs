//! Assertions for a function, in the rooms that write and read bytes or change state: held by a ratchet.
//!
//! The rule counts `assert!`, `assert_eq!`, `assert_ne!`, the `debug_assert` forms and the assertions in constants,
//! outside tests, over functions with a body. Every room has a least figure, in hundredths. tidy says when the figure
//! can be raised.
//!
//! Neighbours: [`super`] runs this rule beside the rules that read one file.

use super::finding::Finding;
use crate::source::Source;

pub(super) const RULE: &str = "assertions";

/// Figure that every room is to reach, in hundredths.
const WANTED: usize = 50;

/// A room: name, parts of paths, and least number of assertions in a hundred functions.
struct Room {
    name: &'static str,
    places: &'static [&'static str],
    least: usize,
}

const ROOMS: &[Room] = &[
    Room {
        name: "transaction",
        places: &[
            "ensile-engine/src/transaction",
            "ensile-engine/src/commit/",
            "ensile-engine/src/sets",
            "ensile-engine/src/formats",
        ],
        least: 50,
    },
    Room {
        name: "record",
        places: &[
            "ensile-engine/src/record",
            "ensile-engine/src/pictures/loaded_pages",
            "ensile-engine/src/pictures/page_bounds",
            "ensile-engine/src/pictures/page_map",
            "ensile-engine/src/pictures/pending_removes",
            "ensile-engine/src/pictures/table_pages",
        ],
        least: 50,
    },
    Room {
        name: "log",
        places: &[
            "ensile-durability/src/log",
            "ensile-durability/src/buffers",
            "ensile-durability/src/files/log/next_file",
        ],
        least: 50,
    },
    Room {
        name: "checkpoint",
        places: &[
            "ensile-durability/src/checkpoint",
            "ensile-durability/src/files/checkpoint",
            "ensile-durability/src/files/picture",
        ],
        least: 50,
    },
    Room {
        name: "recovery",
        places: &["ensile-durability/src/recovery", "ensile-durability/src/files/log/file_chain"],
        least: 50,
    },
    Room { name: "objects", places: &["ensile-objects/src"], least: 25 },
    Room {
        name: "store",
        places: &[
            "ensile-durability/src/store",
            "ensile-durability/src/files/archive_list",
            "ensile-durability/src/files/hint",
            "ensile-durability/src/files/manifest",
            "ensile-durability/src/files/mark",
            "ensile-durability/src/files/names",
            "ensile-durability/src/files/rates",
            "ensile-durability/src/files/shared_manifest",
            "ensile-durability/src/files/text",
        ],
        least: 26,
    },
    Room { name: "backup", places: &["ensile-durability/src/backup"], least: 26 },
    Room { name: "shipping", places: &["ensile-durability/src/shipping"], least: 26 },
    Room { name: "services", places: &["ensile-services/src/", "ensile-serving/src/"], least: 27 },
    Room { name: "server", places: &["ensile-server/src/"], least: 8 },
    Room { name: "net", places: &["ensile-net/src/"], least: 27 },
];

const MACROS: [&str; 6] =
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// Assertions and functions of one room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    assertions: usize,
    functions: usize,
}

impl Count {
    fn of<'s>(sources: impl Iterator<Item = &'s Source<'s>>) -> Self {
        let mut count = Self::default();
        for source in sources.filter(|source| !source.is_test) {
            count.functions += source.functions().iter().filter(|one| !source.in_test(one.line)).count();
            let asserts = (0..source.code.len()).filter(|&at| {
                MACROS.contains(&source.text(at))
                    && source.text(at + 1) == "!"
                    && !source.in_test(source.code[at].line)
            });
            count.assertions += asserts.count();
        }
        count
    }

    /// Number of assertions in a hundred functions.
    fn hundredths(self) -> usize {
        (self.assertions * 100).checked_div(self.functions).unwrap_or(0)
    }
}

/// Findings for rooms below the least figure or without functions, and a text with the figures of every room.
pub(super) fn check(sources: &[Source<'_>]) -> (Vec<Finding>, String) {
    let (mut findings, mut figures) = (Vec::new(), Vec::new());
    for room in ROOMS {
        let inside = |source: &&Source<'_>| room.places.iter().any(|place| source.path.contains(place));
        let count = Count::of(sources.iter().filter(inside));
        findings.extend(judge(room, count));
        let (whole, least) = (count.hundredths(), room.least);
        let raise = if whole > least && least < WANTED {
            format!(", ratchet {least}: raise it")
        } else {
            String::new()
        };
        figures.push(format!("{} {}/{} = 0.{whole:02}{raise}", room.name, count.assertions, count.functions));
    }
    (findings, figures.join("; "))
}

fn judge(room: &Room, count: Count) -> Option<Finding> {
    let advice = if count.functions == 0 {
        format!("no file of `{}` is found: mend the table of rooms in xtask's assertions.rs", room.name)
    } else if count.hundredths() < room.least {
        format!(
            "{} assertions in {} functions, at least {} in a hundred: assert what these functions rest on",
            count.assertions, count.functions, room.least
        )
    } else {
        return None;
    };
    Some(Finding { path: room.places[0].to_owned(), line: 1, rule: RULE, advice })
}

#[cfg(test)]
mod tests {
    use super::{Count, Room, judge};
    use crate::source::Source;

    const ROOM: Room = Room { name: "a", places: &["a/src/b"], least: 50 };

    fn count(text: &str) -> Count {
        let source = Source::new("crates/a/src/b.rs", text);
        Count::of(std::iter::once(&source))
    }

    #[test]
    fn one_assertion_in_three_functions_is_too_few() {
        let few = count(
            "fn a() { assert!(b); }\nfn c() {}\nfn d() {}\n#[cfg(test)]\nmod t { fn e() { assert!(f); } }\n",
        );
        assert_eq!(few, Count { assertions: 1, functions: 3 });
        assert!(judge(&ROOM, few).is_some());
        assert!(judge(&ROOM, Count::default()).is_some(), "a room that is nowhere");
    }

    #[test]
    fn every_kind_of_assertion_counts() {
        let enough = count(
            "const _: () = assert!(a);\nfn a() { debug_assert_eq!(b, c); }\nfn d() { assert_ne!(e, f); }\n",
        );
        assert_eq!(enough, Count { assertions: 3, functions: 2 });
        assert!(judge(&ROOM, enough).is_none());
    }
}
