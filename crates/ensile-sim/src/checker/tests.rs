//! Each anomaly by a history made by hand, and histories that have none.
mod anomalies;
mod answers;
mod clean;
mod random;

use ensile_base::{Epoch, Tid};

use super::{Kind, Report, Summary, check_matching};
use crate::history::{History, Predicate, Recorder, Trace, Value};

/// A history told one transaction after the other.
struct Story {
    recorder: Recorder,
}

/// The TID of this epoch and sequence.
fn tid(epoch: u64, sequence: u64) -> Tid {
    let mut tid = Tid::first_of(Epoch::new(epoch));
    for _ in 0..sequence {
        tid = tid.successor().expect("a short story");
    }
    tid
}

/// Predicate `n` matches values whose tens are its argument.
fn matches(predicate: Predicate, value: Value) -> bool {
    value / 10 == predicate.argument
}

impl Story {
    fn new() -> Self {
        Self { recorder: Recorder::new(0) }
    }

    fn trace(&mut self, begin: u64, tell: impl FnOnce(&mut Trace)) -> Trace {
        let mut trace = self.recorder.begin(begin);
        tell(&mut trace);
        trace
    }

    /// A transaction that commits in epoch 1.
    fn commit(&mut self, time: (u64, u64), sequence: u64, tell: impl FnOnce(&mut Trace)) -> &mut Self {
        self.commit_as(time, Some(tid(1, sequence)), tell)
    }

    fn commit_as(&mut self, time: (u64, u64), tid: Option<Tid>, tell: impl FnOnce(&mut Trace)) -> &mut Self {
        let trace = self.trace(time.0, tell);
        self.recorder.commit(trace, tid, time.1);
        self
    }

    fn abort(&mut self, time: (u64, u64), tell: impl FnOnce(&mut Trace)) -> &mut Self {
        let trace = self.trace(time.0, tell);
        self.recorder.abort(trace, time.1);
        self
    }

    fn answer(&mut self, time: (u64, u64), tell: impl FnOnce(&mut Trace)) -> &mut Self {
        let trace = self.trace(time.0, tell);
        self.recorder.answer(trace, time.1);
        self
    }

    fn unknown(&mut self, time: (u64, u64), tell: impl FnOnce(&mut Trace)) -> &mut Self {
        let trace = self.trace(time.0, tell);
        self.recorder.unknown(trace, None, time.1);
        self
    }

    fn snapshot(&mut self, time: (u64, u64), boundary: u64, tell: impl FnOnce(&mut Trace)) -> &mut Self {
        let trace = self.trace(time.0, tell);
        self.recorder.snapshot(trace, Epoch::new(boundary), time.1);
        self
    }

    fn history(&mut self) -> History {
        History::merge([std::mem::replace(&mut self.recorder, Recorder::new(0))])
    }

    fn judge(&mut self) -> Result<Summary, Box<Report>> {
        check_matching(&self.history(), matches)
    }

    /// Must be found, be the only thing found, and be told with these words.
    fn is(&mut self, kind: Kind, words: &str) {
        let report = self.judge().expect_err("the anomaly is not seen");
        let found: Vec<Kind> = report.counts.keys().copied().collect();
        assert_eq!(found, [kind], "{report}");
        let told = report.to_string();
        assert!(told.contains(words), "{told}\nlacks: {words}");
    }

    fn passes(&mut self) -> Summary {
        self.judge().unwrap_or_else(|report| panic!("{report}"))
    }
}
