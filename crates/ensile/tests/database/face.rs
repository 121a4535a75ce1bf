//! The face stays small: names at the root, settings of the builder and methods of reading are counted in the source.
//! And the tour of it runs.
//!
//! Neighbours: `src/lib.rs`; the engine's `open::builder` and `typed_api::read`.

#[path = "../../examples/tour.rs"]
mod tour;

const ROOT: &str = include_str!("../../src/lib.rs");
const BUILDER: &str = include_str!("../../../ensile-engine/src/open/builder.rs");
const READ: &str = include_str!("../../../ensile-engine/src/typed_api/read.rs");

/// Names at the root that every build has: re-exports, modules and macros.
fn root_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    let code: String =
        ROOT.lines().filter(|line| !line.starts_with("//")).map(|line| format!("{line}\n")).collect();
    let code: &'static str = code.leak();
    let top = code.split("\npub mod prelude").next().expect("the root comes first");
    for (at, found) in top.match_indices("pub use ensile_engine::{") {
        if top[..at].trim_end().ends_with(']')
            && top[..at].trim_end().lines().last().is_some_and(|line| line.starts_with("#[cfg"))
        {
            continue;
        }
        let list = &top[at + found.len()..];
        let list = list.split('}').next().expect("a list ends");
        names.extend(list.split(',').map(str::trim).filter(|name| !name.is_empty()));
    }
    names.push("prelude");
    names
}

fn settings() -> Vec<&'static str> {
    let lines: Vec<&str> = BUILDER.lines().collect();
    let settings = lines.windows(2).filter(|two| two[1].contains("(mut self") && !two[0].contains("#[cfg"));
    settings.filter_map(|two| two[1].trim().strip_prefix("pub fn ")).collect()
}

fn reads() -> Vec<&'static str> {
    let body =
        READ.split("pub trait Readable").nth(1).expect("it is there").split("\n}\n").next().expect("it ends");
    body.lines().filter_map(|line| line.strip_prefix("    fn ")).collect()
}

#[test]
fn the_root_has_at_most_30_names() {
    let names = root_names();
    assert!(names.contains(&"Database") && names.contains(&"composite_key"), "{names:?}");
    assert!(names.len() <= 30, "{}: {names:?}", names.len());
}

#[test]
fn the_builder_has_at_most_15_settings() {
    let settings = settings();
    assert!(settings.iter().any(|name| name.starts_with("durability")), "{settings:?}");
    assert!(settings.len() <= 15, "{}: {settings:?}", settings.len());
}

#[test]
fn readers_have_at_most_12_reads() {
    let reads = reads();
    assert!(reads.iter().any(|name| name.starts_with("get<")), "{reads:?}");
    assert!(reads.len() <= 12, "{}: {reads:?}", reads.len());
}

#[test]
fn the_tour_runs() -> ensile::Result<()> {
    tour::main()
}
