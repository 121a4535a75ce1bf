//! Copies that are killed: `copies kill WAY KIND KILLS ENSILE [SEED]` kills owner and copier at random, and compares
//! each restored state with the acknowledged numbers. `ci/copies.sh` runs all ways and kinds.
//!
//! Ways: `backup`, `restore`, `restore-archive`, `take-over`. Kinds: `fuzzy`, `cycling`, `pictures`, `no-log`,
//! `objects`. `copies own` and `copies read` are the processes of the owner and of a reader ([`owner`]).
//!
//! Exit codes: 0 as it must be, 1 a finding, 2 not run.
#![forbid(unsafe_code)]

mod folders;
mod owner;
mod trial;

use std::process::ExitCode;

use owner::Kind;
use trial::{Trials, Way};

const USAGE: &str =
    "usage: copies kill WAY KIND KILLS ENSILE [SEED], copies own KIND DIR [PLACE], or copies read KIND DIR";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["own", kind, folder] => own(kind, folder, None),
        ["own", kind, folder, place] => own(kind, folder, Some(place)),
        ["read", kind, folder] => Kind::named(kind).and_then(|kind| owner::read(kind, folder)),
        ["kill", way, kind, kills, ensile] => kill(way, kind, (kills, "1"), ensile),
        ["kill", way, kind, kills, ensile, seed] => kill(way, kind, (kills, seed), ensile),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Owns the folder until the process is killed.
fn own(kind: &str, folder: &str, place: Option<&str>) -> owner::Result<bool> {
    owner::own(Kind::named(kind)?, folder, place).map(|()| true)
}

/// Runs the trials, and prints their counts. True if there is no finding.
fn kill(way: &str, kind: &str, (kills, seed): (&str, &str), ensile: &str) -> owner::Result<bool> {
    let (kills, seed) = (kills.parse()?, seed.parse()?);
    let mut trials = Trials::new(Way::named(way)?, Kind::named(kind)?, ensile, seed)?;
    let outcome = trials.run(kills);
    println!("{}", trials.counts());
    outcome
}
