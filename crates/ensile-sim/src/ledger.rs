//! What a database promised: transactions with their epochs, what was announced as durable, what earlier recoveries
//! discarded; and the verdict on what a recovery brings back.
//!
//! A life is run once, and each event stands with the number of disk calls made before it; so one run tells what had
//! been promised at every call, wherever power fails (see [`Ledger::before`]).
//!
//! Neighbours: tests of the engine and of recovery fill it; it knows rows by number, and nothing of tables.

use std::collections::BTreeMap;

use ensile_base::Epoch;

/// Rows by key.
pub type Rows = BTreeMap<u64, Vec<u8>>;

/// What a transaction left of each key that it wrote.
pub type Writes = Vec<(u64, Option<Vec<u8>>)>;

#[derive(Clone, Debug)]
struct Commit {
    at: u64,
    epoch: Epoch,
    writes: Writes,
    /// The call by which a recovery had discarded it.
    void_at: Option<u64>,
}

#[derive(Clone, Debug)]
struct Promise {
    at: u64,
    epoch: Epoch,
    what: &'static str,
    /// How many transactions there were.
    commits: usize,
}

/// All that happened to a database, in the order of its commits.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    commits: Vec<Commit>,
    promises: Vec<Promise>,
}

impl Ledger {
    /// A transaction committed, after the disk's call number `at`. To be told in serial order. Of each key the last
    /// write counts, and a delete only if there was a row before.
    pub fn commit(&mut self, at: u64, epoch: Epoch, writes: Writes) {
        let last: BTreeMap<_, _> = writes.into_iter().collect();
        let leaves_something = |(key, row): &(u64, Option<Vec<u8>>)| row.is_some() || self.holds(*key);
        let writes = last.into_iter().filter(leaves_something).collect();
        self.commits.push(Commit { at, epoch, writes, void_at: None });
    }

    /// Somebody was told something that rests on everything up to `epoch`; `what` says what.
    pub fn promise(&mut self, at: u64, epoch: Epoch, what: &'static str) {
        let is_news = self.promises.last().is_none_or(|last| (last.epoch, last.what) != (epoch, what));
        if is_news {
            self.promises.push(Promise { at, epoch, what, commits: self.commits.len() });
        }
    }

    /// A recovery up to `durable` serves its state: what it left out is void for ever.
    pub fn recovered(&mut self, at: u64, durable: Epoch) {
        for commit in &mut self.commits {
            if commit.epoch > durable && commit.void_at.is_none() {
                commit.void_at = Some(at);
            }
        }
    }

    /// What had happened when the disk's call number `call` was made.
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

    /// The state after every transaction of an epoch up to `durable` that counts.
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

    /// The state with every transaction that counts.
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

    /// The epoch of the last transaction that wrote one of these keys, and counts.
    #[must_use]
    pub fn written(&self, keys: &[u64]) -> Option<Epoch> {
        self.written_below(keys, Epoch::MAX)
    }

    /// As [`Ledger::written`], of an epoch below this boundary: what a snapshot of it rests on that shows these keys
    /// (R1).
    #[must_use]
    pub fn written_below(&self, keys: &[u64], boundary: Epoch) -> Option<Epoch> {
        let wrote = |commit: &&Commit| {
            commit.epoch < boundary
                && commit.void_at.is_none()
                && commit.writes.iter().any(|(key, _)| keys.contains(key))
        };
        self.commits.iter().rev().find(wrote).map(|commit| commit.epoch)
    }

    /// How many transactions there are, void ones included.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.commits.len()
    }

    /// The verdict on where a later life begins: above every epoch that was given to a transaction or announced (L6).
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

    /// The verdict on a recovery that says it went up to `durable` and shows `rows`.
    ///
    /// # Errors
    /// What is lost, or there and should not be.
    pub fn judge(&self, durable: Epoch, rows: &Rows) -> Result<(), String> {
        let kept = self.state(durable);
        if *rows != kept {
            return Err(format!("not the state after epoch {durable}: {}", self.difference(&kept, rows)));
        }
        // An epoch that left no entry anywhere needs no mark, so an announced epoch itself may not come back: what
        // counts is what it left.
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

    /// As [`Ledger::judge`], where a recovery before this one may have decided and not lived to tell: its epoch, at
    /// most `durable`, is found by what is shown, and returned.
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
