//! Verdicts on measured values: held, not held, or not comparable.
//!
//! Invariant: a value counts as held only if the sides of its comparison did comparable work.
//!
//! Experiments compare and print; [`crate::figure`] writes verdicts beside the rows.

use std::fmt;

use serde::Serialize;

use crate::number::grouped;

/// The verdict on a value with a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "snake_case")]
pub(crate) enum Verdict {
    Held,
    NotHeld,
    /// The sides did different work, for this reason.
    NotComparable(String),
}

impl Verdict {
    /// The verdict on a value without a second side.
    pub(crate) fn of(holds: bool) -> Self {
        if holds { Self::Held } else { Self::NotHeld }
    }

    /// True if the value keeps its limit.
    pub(crate) fn is_held(&self) -> bool {
        *self == Self::Held
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("held"),
            Self::NotHeld => f.write_str("NOT HELD"),
            Self::NotComparable(reason) => write!(f, "NOT COMPARABLE: {reason}"),
        }
    }
}

/// A value, the words of its limit, and its verdict.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Judged {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) asked: String,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, unit, asked, verdict } = self;
        write!(f, "{what}: {}{unit}, asked {asked}{unit}: {verdict}", short(*value))
    }
}

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

/// A number with its significant digits, without trailing zeros.
pub(crate) fn short(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        return grouped(value);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
