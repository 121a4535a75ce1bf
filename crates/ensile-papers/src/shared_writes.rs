//! `ensile-papers silo shared-writes`: cache lines that would limit scaling on many cores, counted on few cores.
//!
//! Two workers run every kind of transaction in turns on one database. The counting door of `ensile_base::sync` notes
//! the touched cache lines of a worker. A line travels between the cores if one worker writes the line and the hot path
//! of the second worker reads or writes the line. On 32 cores, transactions without shared keys would still wait for
//! the travelling lines. Three choices of keys tell the causes apart:
//!
//! | keys | shared lines |
//! |---|---|
//! | apart | lines of the engine: the workload shares nothing |
//! | neighbouring | records and leaves on one line: the workers own alternate keys |
//! | same | the rows: true sharing by the workload |
//!
//! ```text
//! counting       the cases, from choices, each on a fresh manual_database
//! alternation    two threads in turns, recorded      keys       single-key transactions
//! account        whose lines they were, by name      business   TPC-C
//! document       tables, CSV, JSON                     waits      strict results that are not durable yet
//! ```
//! Only a build with the feature `counted` can count, and the build is no measure of speed.
//!
//! Neighbours: [`crate::silo`] calls [`run`]; [`ensile_bench::tpcc`] has TPC-C's transactions.

#[cfg(feature = "counted")]
mod account;
#[cfg(feature = "counted")]
mod alternation;
#[cfg(feature = "counted")]
mod business;
#[cfg(feature = "counted")]
mod choices;
#[cfg(feature = "counted")]
mod counting;
#[cfg(feature = "counted")]
mod document;
#[cfg(feature = "counted")]
mod keys;
#[cfg(feature = "counted")]
mod manual_database;
#[cfg(all(test, feature = "counted"))]
mod tests;
#[cfg(feature = "counted")]
mod waits;

use std::path::Path;

use ensile_bench::Result;

/// Recorded transactions per kind.
#[cfg(feature = "counted")]
const ROUNDS: usize = 400;

/// Counts, prints the tables and writes the files. True if readers wrote only permitted shared lines: the count of
/// owners of an owned handle, and the list of waiters.
#[cfg(feature = "counted")]
pub(crate) fn run(data: &Path, out: &Path) -> Result<bool> {
    ensile_bench::figure::prepare(out)?;
    let _made = ensile_bench::system::MadeFolders::new([data]);
    let machine = ensile_bench::machine::Machine::look();
    let document = document::Document::new(machine, ROUNDS, counting::count_all(data, ROUNDS)?);
    print!("{}", document.tables());
    document.write(out)?;
    Ok(document.readers_share_what_they_may())
}

/// Returns a usage error that names the command with the feature.
#[cfg(not(feature = "counted"))]
pub(crate) fn run(_data: &Path, _out: &Path) -> Result<bool> {
    let words = "this build does not count: cargo run --release -p ensile-papers --features counted -- silo shared-writes";
    Err(ensile_bench::Failure::Usage(words.to_owned()))
}
