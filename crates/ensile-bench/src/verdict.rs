//! Verdicts on measured values: held, not held, or not comparable.
//!
//! Neighbours: experiments judge; [`crate::figure`] writes verdicts beside the rows.

use std::fmt;

use serde::Serialize;

use crate::number::grouped;

/// The verdict on a value with a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "snake_case")]
pub enum Verdict {
    /// The value keeps its limit.
    Held,
    /// The value misses its limit.
    NotHeld,
    /// The sides did different work, for this reason.
    NotComparable(String),
}

impl Verdict {
    /// The verdict on a value without a second side.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Held } else { Self::NotHeld }
    }

    /// True if the value keeps its limit.
    pub fn is_held(&self) -> bool {
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
pub struct Judged {
    /// Name of the value.
    pub what: String,
    /// The measured value.
    pub value: f64,
    /// Unit of the value.
    pub unit: String,
    /// Words of the limit.
    pub asked: String,
    #[serde(flatten)]
    /// Verdict on the value.
    pub verdict: Verdict,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, unit, asked, verdict } = self;
        write!(f, "{what}: {}{unit}, asked {asked}{unit}: {verdict}", short(*value))
    }
}

/// A number with its significant digits, without trailing zeros.
pub fn short(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        return grouped(value);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
