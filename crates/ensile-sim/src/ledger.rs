//! Promises of a database: transactions with their epochs, epochs announced as durable, and transactions discarded by
//! earlier recoveries. The ledger checks a recovery against the promises.
//!
//! A workload runs once. An event carries the number of earlier disk calls. A single run therefore gives the promises
//! at every call, wherever power fails (see [`Ledger::before`]).
//!
//! Neighbours: tests of the engine and of recovery fill the ledger; the ledger knows rows by number, and no tables.

use std::collections::BTreeMap;

use ensile_base::Epoch;

/// Rows by key.
pub type Rows = BTreeMap<u64, Vec<u8>>;

/// Keys that a transaction wrote, with their last rows; `None` for a delete.
pub type Writes = Vec<(u64, Option<Vec<u8>>)>;

#[derive(Clone, Debug)]
struct Commit {
    at: u64,
    epoch: Epoch,
    writes: Writes,
    /// Number of the disk call by which a recovery had discarded the transaction.
    void_at: Option<u64>,
}

#[derive(Clone, Debug)]
struct Promise {
    at: u64,
    epoch: Epoch,
    what: &'static str,
    /// Number of transactions at the time of the promise.
    commits: usize,
}

/// History of a database, in the order of its commits.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    commits: Vec<Commit>,
    promises: Vec<Promise>,
}

impl Ledger {
    /// Records a transaction that committed after the disk's call number `at`. Calls come in serial order. The last
    /// write of a key counts, and a delete counts only if there was a row before.
    pub fn commit(&mut self, at: u64, epoch: Epoch, writes: Writes) {
        let last: BTreeMap<_, _> = writes.into_iter().collect();
        let leaves_something = |(key, row): &(u64, Option<Vec<u8>>)| row.is_some() || self.holds(*key);
        let writes = last.into_iter().filter(leaves_something).collect();
        self.commits.push(Commit { at, epoch, writes, void_at: None });
    }

    /// Records an answer that rests on the epochs up to `epoch`; `what` names the answer.
    pub fn promise(&mut self, at: u64, epoch: Epoch, what: &'static str) {
        let is_news = self.promises.last().is_none_or(|last| (last.epoch, last.what) != (epoch, what));
        if is_news {
            self.promises.push(Promise { at, epoch, what, commits: self.commits.len() });
        }
    }

    /// Records that a recovery up to `durable` serves its state: later transactions are void for ever.
    pub fn recovered(&mut self, at: u64, durable: Epoch) {
        for commit in &mut self.commits {
            if commit.epoch > durable && commit.void_at.is_none() {
                commit.void_at = Some(at);
            }
        }
    }

    /// The ledger as of the disk's call number `call`.
    #[must_use]
    pub fn before(&self, call: u64) -> Self {
        let commits = self.commits.iter().filter(|commit| commit.at < call).map(|commit| {
            let void_at = commit.void_at.filter(|at| *at < call);
            Commit { void_at, ..commit.clone() }
        });
        let commits: Vec<_> = commits.collect();
        let promises = self
            .promises
            .iter()
            .filter(|promise| promise.at < call)
            .map(|promise| Promise { commits: promise.commits.min(commits.len()), ..promise.clone() });
        Self { promises: promises.collect(), commits }
    }

    /// The state after the valid transactions of epochs up to `durable`.
    #[must_use]
    pub fn state(&self, durable: Epoch) -> Rows {
        let mut rows = Rows::new();
        for commit in self.commits.iter().filter(|commit| commit.epoch <= durable && commit.void_at.is_none())
        {
            for (key, row) in &commit.writes {
                match row {
                    Some(row) => rows.insert(*key, row.clone()),
                    None => rows.remove(key),
                };
            }
        }
        rows
    }

    /// The state with every valid transaction.
    #[must_use]
    pub fn all(&self) -> Rows {
        self.state(Epoch::MAX)
    }

    fn holds(&self, key: u64) -> bool {
        let last = |commit: &Commit| {
            let written = commit.writes.iter().find(|(written, _)| *written == key);
            written.filter(|_| commit.void_at.is_none()).map(|(_, row)| row.is_some())
        };
        self.commits.iter().rev().find_map(last).unwrap_or(false)
    }

    /// The epoch of the last valid transaction that wrote a key of `keys`.
    #[must_use]
    pub fn written(&self, keys: &[u64]) -> Option<Epoch> {
        self.written_below(keys, Epoch::MAX)
    }

    /// As [`Ledger::written`], for epochs below `boundary`: a snapshot of the boundary that shows the keys rests on the
    /// returned epoch (R1).
    #[must_use]
    pub fn written_below(&self, keys: &[u64], boundary: Epoch) -> Option<Epoch> {
        let wrote = |commit: &&Commit| {
            commit.epoch < boundary
                && commit.void_at.is_none()
                && commit.writes.iter().any(|(key, _)| keys.contains(key))
        };
        self.commits.iter().rev().find(wrote).map(|commit| commit.epoch)
    }

    /// Number of transactions, void ones included.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.commits.len()
    }

    /// Checks the first epoch of a later process: the epoch must be above every epoch given to a transaction or
    /// announced (L6).
    ///
    /// # Errors
    /// The epoch that would come twice.
    pub fn judge_first(&self, first: Epoch) -> Result<(), String> {
        let committed = self.commits.iter().map(|commit| commit.epoch);
        let shown = committed.chain(self.promises.iter().map(|promise| promise.epoch)).max();
        match shown.filter(|shown| *shown >= first) {
            Some(shown) => Err(format!("epoch {shown} was shown, and this life begins at {first}")),
            None => Ok(()),
        }
    }

    /// Checks a recovery that reports `durable` and shows `rows`.
    ///
    /// # Errors
    /// The lost rows, or the rows that should not be there.
    pub fn judge(&self, durable: Epoch, rows: &Rows) -> Result<(), String> {
        let kept = self.state(durable);
        if *rows != kept {
            return Err(format!("not the state after epoch {durable}: {}", self.difference(&kept, rows)));
        }
        // An epoch that left no entry needs no mark, and may not come back although announced. Only the epoch's
        // transactions count.
        for Promise { at, epoch, what, commits } in &self.promises {
            let is_lost = |commit: &&Commit| {
                commit.void_at.is_none()
                    && !commit.writes.is_empty()
                    && commit.epoch <= *epoch
                    && commit.epoch > durable
            };
            if let Some(lost) = self.commits[..*commits].iter().find(is_lost) {
                return Err(format!(
                    "{what} at call {at} rests on epoch {epoch}; epoch {durable} came back, and a transaction of epoch {} \
                     is lost",
                    lost.epoch
                ));
            }
        }
        Ok(())
    }

    /// As [`Ledger::judge`], if an earlier recovery may have decided and died before its report. The rows shown give
    /// the earlier recovery's epoch, at most `durable`, which is returned.
    ///
    /// # Errors
    /// As [`Ledger::judge`].
    pub fn judge_undecided(&self, durable: Epoch, rows: &Rows) -> Result<Epoch, String> {
        let earlier = self.commits.iter().rev().map(|commit| commit.epoch.previous());
        let decided = [durable].into_iter().chain(earlier.filter(|epoch| *epoch < durable));
        let first = self.judge(durable, rows);
        for epoch in decided {
            if self.judge(epoch, rows).is_ok() {
                return Ok(epoch);
            }
        }
        first.map(|()| durable)
    }

    fn difference(&self, expected: &Rows, found: &Rows) -> String {
        let keys = expected.keys().chain(found.keys().filter(|key| !expected.contains_key(key)));
        let different: Vec<_> = keys.filter(|key| expected.get(key) != found.get(key)).collect();
        let tell = |key: &&u64| {
            let wrote = |row: Option<&Vec<u8>>| {
                let one = |commit: &&Commit| {
                    commit.writes.iter().any(|(written, value)| written == *key && value.as_ref() == row)
                };
                self.commits.iter().rfind(one).map_or("nobody".to_owned(), |commit| {
                    let void = if commit.void_at.is_some() { ", void" } else { "" };
                    format!("epoch {}{void}", commit.epoch)
                })
            };
            let (expected, found) = (expected.get(*key), found.get(*key));
            format!("row {key} is of {}, not of {}", wrote(found), wrote(expected))
        };
        let told: Vec<_> = different.iter().take(3).map(tell).collect();
        format!("{} rows differ: {}", different.len(), told.join("; "))
    }
}

#[cfg(test)]
mod tests;
