//! The counted cases: a fresh database for each. Epochs, garbage and log of the database move only on command.
//!
//! Neighbours: [`super::manual_database`] is the database; [`super::alternation`] runs a case; [`super::keys`],
//! [`super::business`] and [`super::waits`] are its workloads.

use std::path::Path;

use ensile_bench::Result;

use super::account::Case;
use super::alternation::{self, Stage};
use super::choices::{Keys, Setup, Workload};
use super::manual_database::Driven;
use super::{business, keys, waits};

/// Counts one case.
pub(super) fn count(
    workload: Workload,
    setup: Setup,
    keys: Keys,
    (data, rounds): (&Path, usize),
) -> Result<Case> {
    let driven = Driven::open(data, setup)?;
    let stage: Box<dyn Stage + '_> = match workload {
        Workload::SingleKeys => Box::new(keys::SingleKeys::load(&driven, keys)?),
        Workload::Tpcc => Box::new(business::Offices::load(&driven, keys)?),
        Workload::Waits => Box::new(waits::Waits::load(&driven)?),
    };
    let observed = alternation::run(&*stage, rounds)?;
    Ok(Case::new((workload, setup, keys), stage.kinds(), &observed))
}

const KEYS: &[Keys] = &[Keys::Apart, Keys::Neighbouring, Keys::Same];

/// Every case, in the order of the document.
const CASES: [(Workload, Setup, &[Keys]); 6] = [
    (Workload::SingleKeys, Setup::NoLog, KEYS),
    (Workload::SingleKeys, Setup::Logged, KEYS),
    (Workload::SingleKeys, Setup::GlobalTid, KEYS),
    (Workload::Waits, Setup::Logged, &[Keys::Apart]),
    (Workload::Tpcc, Setup::NoLog, KEYS),
    (Workload::Tpcc, Setup::Logged, KEYS),
];

/// Counts every case of this build.
pub(super) fn count_all(data: &Path, rounds: usize) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (workload, setup, keys) in CASES {
        for &keys in keys {
            cases.push(count(workload, setup, keys, (data, rounds))?);
        }
    }
    Ok(cases)
}
