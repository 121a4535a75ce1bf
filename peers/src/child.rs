//! The process of one system: answers the driver's requests, one line of JSON for a request.
//!
//! The process has the memory of one system alone, and a kill of the process shows which commits survive. The driver
//! is [`crate::driver`].

use std::io::{BufRead as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::arguments::Arguments;
use crate::clock::Stopwatch;
use crate::failure::Result;
use crate::machine::resident_bytes;
use crate::measure::{Plan, Rate, measure};
use crate::rows::shuffled_keys;
use crate::store::{self, Facts, Level, Peer, Store};
use crate::workload::Workload;

/// A request to the process of a system.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Makes a database and loads the rows. Answered by [`Reply::Seconds`].
    Load,
    /// Ends the background work of the load.
    Settle,
    /// Opens the database and reads a row. Answered by [`Reply::Seconds`].
    Open(Level),
    /// Answered by [`Reply::Facts`].
    Facts,
    /// Runs a workload. Answered by [`Reply::Rate`].
    Measure { workload: Workload, seconds: f64, seed: u64 },
    /// Updates the rows `0..count`, once each.
    Update { count: u64 },
    /// Answered by [`Reply::Bytes`].
    Memory,
    /// Answered by [`Reply::Totals`].
    Totals,
    /// Closes the database cleanly.
    Close,
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Seconds(f64),
    Facts(Facts),
    Rate(Rate),
    Bytes(u64),
    Totals { rows: u64, counts: u64 },
    Failed(String),
}

/// Answers requests until the driver closes the pipe.
pub(crate) fn serve(peer: Peer, arguments: &Arguments) -> Result<()> {
    let mut child = Child { peer, arguments, store: None };
    for line in std::io::stdin().lock().lines() {
        let request = serde_json::from_str(&line?)?;
        let reply = child.answer(request).unwrap_or_else(|error| Reply::Failed(error.to_string()));
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&reply)?)?;
        out.flush()?;
    }
    Ok(())
}

struct Child<'a> {
    peer: Peer,
    arguments: &'a Arguments,
    store: Option<Box<dyn Store>>,
}

impl Child<'_> {
    fn answer(&mut self, request: Request) -> Result<Reply> {
        let folder: &Path = &self.arguments.data;
        let rows = self.arguments.rows;
        Ok(match request {
            Request::Load => {
                let keys = shuffled_keys(rows, self.arguments.seed);
                let watch = Stopwatch::start();
                self.store = Some(store::load(self.peer, folder, keys)?);
                Reply::Seconds(watch.seconds())
            }
            Request::Open(level) => {
                let watch = Stopwatch::start();
                let store = store::open(self.peer, folder, level)?;
                store.read(rows / 2)?;
                self.store = Some(store);
                Reply::Seconds(watch.seconds())
            }
            Request::Settle => {
                self.store()?.settle()?;
                Reply::Done
            }
            Request::Facts => Reply::Facts(self.store()?.facts()?),
            Request::Measure { workload, seconds, seed } => {
                Reply::Rate(measure(self.store()?, workload, Plan { rows, seconds, seed })?)
            }
            Request::Update { count } => {
                (0..count).try_for_each(|key| self.store()?.update(key))?;
                Reply::Done
            }
            Request::Memory => Reply::Bytes(resident_bytes()?),
            Request::Totals => {
                let (rows, counts) = self.store()?.totals()?;
                Reply::Totals { rows, counts }
            }
            Request::Close => {
                self.store.take().ok_or("no database is open")?.close()?;
                Reply::Done
            }
        })
    }

    fn store(&self) -> Result<&dyn Store> {
        Ok(&**self.store.as_ref().ok_or("no database is open")?)
    }
}
