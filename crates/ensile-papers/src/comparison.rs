//! Comparisons of two sides, with the work that each side did.
//!
//! Invariant: a value counts as held only if the sides of its comparison did comparable work.
//!
//! Neighbours: experiments compare and print; a comparison ends in an [`ensile_bench::verdict::Verdict`].

use ensile_bench::verdict::{Verdict, short};

/// Checks of the work of the two sides of a comparison.
#[derive(Debug)]
pub(crate) struct Comparison<'n> {
    sides: [&'n str; 2],
    reasons: Vec<String>,
}

impl<'n> Comparison<'n> {
    /// A comparison of these sides, without a check so far.
    pub(crate) fn of(sides: [&'n str; 2]) -> Self {
        Self { sides, reasons: Vec::new() }
    }

    /// Requires at least `least` of `work` on each side.
    pub(crate) fn each_at_least(mut self, what: &str, work: [f64; 2], least: f64) -> Self {
        for (side, work) in self.sides.into_iter().zip(work) {
            if work < least || work.is_nan() {
                let (work, least) = (short(work), short(least));
                self.reasons.push(format!("{side} has {work} {what}, at least {least} are needed"));
            }
        }
        self
    }

    /// Requires at most `most` times the work of the other side.
    pub(crate) fn alike(mut self, what: &str, work: [f64; 2], most: f64) -> Self {
        let (least, greatest) = (work[0].min(work[1]), work[0].max(work[1]));
        if greatest > least * most || work.iter().any(|work| work.is_nan()) {
            let [one, other] = self.sides;
            let [of_one, of_other] = work.map(short);
            self.reasons.push(format!(
                "{one} has {of_one} {what} and {other} {of_other}, at most {} times as many are comparable",
                short(most)
            ));
        }
        self
    }

    /// Requires `is_so`; `reason` is the text of the failure.
    pub(crate) fn only_if(mut self, is_so: bool, reason: &str) -> Self {
        if !is_so {
            self.reasons.push(reason.to_owned());
        }
        self
    }

    /// The verdict on a value; `holds` is true if the value keeps its limit.
    pub(crate) fn verdict(self, holds: bool) -> Verdict {
        if self.reasons.is_empty() {
            Verdict::of(holds)
        } else {
            Verdict::NotComparable(self.reasons.join("; "))
        }
    }
}

#[cfg(test)]
mod tests;
