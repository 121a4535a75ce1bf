//! Planted bugs: a bug is a change that somebody could make by mistake, with the command that must fail for the bug.
//!
//! `planted/` is the catalogue and `docs/results/planted.csv` the table of sightings. A bug is stale if it has no row,
//! or if bug, command or surrounding function has changed since. A run plants stale bugs, so a run goes on at the end
//! of an earlier run.
//!
//! Neighbours: [`mod@crate::tidy`] checks the catalogue; `ci/planted.sh` and `.ci/run` run this.

mod candidates;
mod catalogue;
mod copy;
mod items;
mod place;
mod record;
mod renamed;
mod results;
mod run;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

pub(crate) use candidates::texts;
use candidates::{Candidate, candidates, readable, refused, stale};
#[cfg(test)]
pub(crate) use catalogue::Edit;
pub(crate) use catalogue::{Bug, Unreadable, read};
pub(crate) use place::Tree;
use results::Results;
use run::{Outcome, Settings, is_hunt};

pub(crate) const USAGE: &str = "       cargo xtask planted [--all] [--unasserted] [--seconds N] [NAME..]
       cargo xtask planted list
       cargo xtask planted record ROOM DIFF
       cargo xtask planted renamed EARLIER-CHECKOUT";

/// Time of the simulation's hunt for a bug without `ENSILE_SECONDS`, in seconds.
const HUNT_SECONDS: u64 = 60;

/// Runs the command. True if nothing is left to mend.
pub(crate) fn command(root: &Path, arguments: &[&str]) -> io::Result<bool> {
    match arguments {
        ["list"] => list(root),
        ["renamed", earlier] => renamed::carry(root, Path::new(earlier)),
        ["record", room, diff] => record::record(root, room, Path::new(diff)).map(|()| true),
        _ => plant(root, arguments),
    }
}

/// Prints the size of the catalogue, and the stale bugs.
fn list(root: &Path) -> io::Result<bool> {
    let (bugs, texts) = (readable(root)?, texts(root)?);
    let tree = Tree::new(&texts);
    let stale = stale(&candidates(&tree, &bugs)?, &Results::of(root, false))?;
    let patches = bugs.iter().filter(|bug| bug.file.ends_with(".patch")).count();
    for name in &stale {
        println!("planted: {name} is stale");
    }
    println!("planted: {} bugs, {patches} of them patches, {} stale", bugs.len(), stale.len());
    Ok(true)
}

fn plant(root: &Path, arguments: &[&str]) -> io::Result<bool> {
    let (mut is_all, mut is_unasserted, mut limit, mut names) = (false, false, None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--all" => is_all = true,
            "--unasserted" => is_unasserted = true,
            "--seconds" => {
                let seconds = rest.next().and_then(|value| value.parse().ok());
                limit = Some(Duration::from_secs(
                    seconds.ok_or_else(|| refused("--seconds takes a whole number"))?,
                ));
            }
            option if option.starts_with('-') => {
                return Err(refused(&format!("{option} is no option\nusage:\n{USAGE}")));
            }
            name => names.push(name),
        }
    }
    let (bugs, texts) = (readable(root)?, texts(root)?);
    let tree = Tree::new(&texts);
    let results = Results::of(root, is_unasserted);
    results.retain(|name| bugs.iter().any(|bug| bug.name == name))?;
    let mut candidates = candidates(&tree, &bugs)?;
    candidates.retain(|Candidate { bug, .. }| {
        (names.is_empty() || names.iter().any(|name| bug.name.contains(name)))
            && (!is_unasserted || is_hunt(bug))
    });
    if candidates.is_empty() {
        return Err(refused("no planted bug has such a name"));
    }
    if !is_all {
        let stale = stale(&candidates, &results)?;
        candidates.retain(|candidate| stale.contains(&candidate.bug.name));
    }
    let hunt_seconds =
        std::env::var("ENSILE_SECONDS").ok().and_then(|value| value.parse().ok()).unwrap_or(HUNT_SECONDS);
    let by_path: BTreeMap<&str, &str> =
        texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let settings = Settings { is_unasserted, limit, hunt_seconds };
    let outcome = run::run(root, &by_path, candidates, &results, &settings)?;
    for name in &outcome.unseen {
        println!("planted: {name} is not seen: mend its test, or remove it if it breaks nothing");
    }
    for name in &outcome.unbuilt {
        println!("planted: {name} does not build: write its replacement anew for the present code");
    }
    let Outcome { seen, unseen, unbuilt, left } = outcome;
    println!("planted: {seen} seen, {} not seen, {} not built, {left} left", unseen.len(), unbuilt.len());
    Ok(unseen.is_empty() && unbuilt.is_empty())
}
