//! `ensile-bench silo shared-writes`: what would hurt on many cores, counted on few.
//!
//! Two workers run in turns on one database, every kind of transaction, while the counting door of `ensile_base::sync`
//! notes which cache lines each touches. A line that one writes and the other's hot path reads or writes has to travel
//! between their cores: on 32 cores, that is what transactions which share nothing would still wait for. Three choices
//! of keys tell whose doing it is:
//!
//! | keys | what is shared then |
//! |---|---|
//! | apart | nothing by the workload: what is left is the engine's doing |
//! | neighbouring | no key, but every other one is the other's: records and leaves that lie on one line |
//! | same | the rows themselves: the workload's doing, true sharing |
//!
//! ```text
//! counting       a database for each case, its beats driven from here
//! alternation    two threads in turns, recorded      keys       single-key transactions
//! account        whose lines they were, by name      business   TPC-C
//! document       tables, CSV, JSON                     waits      strict results that are not durable yet
//! ```
//! Only a build with the feature `counted` can count; it is no measure of speed. With `experiments` besides, the
//! variant whose TIDs come from one counter is counted too.
//!
//! Neighbours: [`crate::silo`] calls it; [`crate::tpcc`] gives the business.

#[cfg(feature = "counted")]
mod account;
#[cfg(feature = "counted")]
mod alternation;
#[cfg(feature = "counted")]
mod business;
#[cfg(feature = "counted")]
mod counting;
#[cfg(feature = "counted")]
mod document;
#[cfg(feature = "counted")]
mod keys;
#[cfg(all(test, feature = "counted"))]
mod tests;
#[cfg(feature = "counted")]
mod waits;

use std::path::Path;

use crate::failure::Result;

/// Recorded transactions of each kind.
#[cfg(feature = "counted")]
const ROUNDS: usize = 400;

/// Counts, writes its files, prints, and answers whether readers wrote only the shared lines that they may: none, the
/// owners' count of an owned handle, or the list of waiters.
#[cfg(feature = "counted")]
pub(crate) fn run(data: &Path, out: &Path) -> Result<bool> {
    crate::figure::prepare(out)?;
    let _made = crate::system::MadeFolders::new([data]);
    let machine = crate::machine::Machine::look();
    let document = document::Document::new(machine, ROUNDS, counting::count_all(data, ROUNDS)?);
    print!("{}", document.tables());
    document.write(out)?;
    Ok(document.readers_share_what_they_may())
}

/// Says what to build.
#[cfg(not(feature = "counted"))]
pub(crate) fn run(_data: &Path, _out: &Path) -> Result<bool> {
    let words = "this build does not count: cargo run --release -p ensile-bench --features counted,experiments -- silo shared-writes";
    Err(crate::failure::Failure::Usage(words.to_owned()))
}
