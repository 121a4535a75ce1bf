//! Random damages of many kinds to random databases, and the verdicts over them: an open serves the state at D, or an
//! earlier one and says so, or refuses; an examination says the same; a repair that reports success leaves a folder
//! that is whole.
//!
//! The ordinary tests draw a few hundred; `ENSILE_DAMAGES=<count>` draws as many as it says, and prints the table;
//! `ENSILE_DAMAGES_FROM=<seed>` begins at that seed.
//!
//! Neighbours: `matrix` damages a few folders everywhere; here the folders differ as well.

mod damages;
mod database;
mod judging;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use damages::{Damaging, Kind};
use database::Database;
use judging::{Fault, Judging, Outcome};

use crate::prelude::*;

/// Damages in the ordinary tests.
const SAMPLE: u64 = 600;
/// Damages to each database.
const DAMAGES_EACH: u64 = 60;
const THREADS: usize = 2;
/// Faults of each kind that are printed.
const SHOWN: usize = 4;

/// Outcomes and faults by kind of damage.
#[derive(Default)]
struct Table {
    outcomes: BTreeMap<(Kind, Outcome), u64>,
    faults: BTreeMap<(Fault, Kind), Vec<String>>,
    panics: Vec<String>,
}

impl Table {
    fn add(&mut self, other: Self) {
        for (key, count) in other.outcomes {
            *self.outcomes.entry(key).or_default() += count;
        }
        for (key, more) in other.faults {
            self.faults.entry(key).or_default().extend(more);
        }
        self.panics.extend(other.panics);
    }

    fn print(&self) {
        for kind in Kind::ALL {
            let own = self.outcomes.iter().filter(|((of, _), _)| *of == kind);
            let own: Vec<String> = own.map(|((_, outcome), count)| format!("{outcome:?} {count}")).collect();
            println!("{:<26} {}", format!("{kind:?}"), own.join(", "));
        }
        let all: u64 = self.outcomes.values().sum();
        println!("{all} damages, {} panics", self.panics.len());
        for ((fault, kind), all) in &self.faults {
            println!("{fault:?} after {kind:?}: {}", all.len());
            all.iter().take(SHOWN).for_each(|one| println!("    {one}"));
        }
        self.panics.iter().take(SHOWN).for_each(|one| println!("panic: {one}"));
    }
}

/// All damages to the database of one seed.
fn damage_all(seed: u64) -> Table {
    let mut table = Table::default();
    let (database, other) = (Database::build(seed), Database::build(seed + 1_000_000));
    let mut random = Random::from_seed(seed ^ 0x5eed);
    for at in 0..DAMAGES_EACH {
        let kind = Kind::ALL[((seed * DAMAGES_EACH + at) % Kind::ALL.len() as u64) as usize];
        let disk = database.disk.fork();
        let mut damaging = Damaging { database: &database, other: &other, disk: &disk, random: &mut random };
        let Some(what) = damaging.apply(kind) else { continue };
        let what = format!("seed {seed}, damage {at}: {what}");
        match catch_unwind(AssertUnwindSafe(|| Judging::of(&database, &disk))) {
            Ok((outcome, faults)) => {
                *table.outcomes.entry((kind, outcome)).or_default() += 1;
                for (fault, why) in faults {
                    table.faults.entry((fault, kind)).or_default().push(format!("{what}: {why}"));
                }
            }
            Err(_) => table.panics.push(what),
        }
    }
    table
}

#[test]
fn random_damages_are_served_examined_and_repaired_as_they_are() {
    let wish = std::env::var("ENSILE_DAMAGES").ok().and_then(|wish| wish.parse().ok());
    let from = std::env::var("ENSILE_DAMAGES_FROM").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let seeds = from + wish.unwrap_or(SAMPLE).div_ceil(DAMAGES_EACH);
    let next = AtomicU64::new(from);
    let one_thread = || {
        let mut table = Table::default();
        loop {
            // Relaxed: hands out numbers.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return table;
            }
            table.add(damage_all(seed));
        }
    };
    let mut table = Table::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one_thread)).collect();
        threads.into_iter().for_each(|thread| table.add(thread.join().expect("no panic")));
    });
    table.print();
    assert!(table.faults.is_empty() && table.panics.is_empty(), "see above");
}
