//! Values with limits, and their verdicts: a line for each value, and one word for all values.
//!
//! Neighbours: every experiment with limits prints through [`Asked`].

use ensile_bench::verdict::{Judged, Verdict, short};

use crate::comparison::Comparison;

/// Lines so far, and the values with limits.
#[derive(Debug, Default)]
pub(super) struct Asked {
    said: String,
    judged: Vec<Judged>,
}

impl Asked {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a line without a limit.
    pub(super) fn note(&mut self, line: &str) {
        self.said += &format!("  {line}\n");
    }

    /// Judges a value against a minimum.
    pub(super) fn at_least(&mut self, what: &str, value: (f64, &str), limit: f64) {
        self.judge(what, value, &format!(">= {}", short(limit)), Verdict::of(value.0 >= limit));
    }

    /// Judges a value of two sides against a minimum.
    pub(super) fn compared_at_least(
        &mut self,
        what: &str,
        value: (f64, &str),
        limit: f64,
        sides: Comparison<'_>,
    ) {
        self.judge(what, value, &format!(">= {}", short(limit)), sides.verdict(value.0 >= limit));
    }

    /// Judges a value against a maximum.
    pub(super) fn at_most(&mut self, what: &str, value: (f64, &str), limit: f64) {
        self.judge(what, value, &format!("<= {}", short(limit)), Verdict::of(value.0 <= limit));
    }

    /// Judges a value of two sides against a maximum.
    pub(super) fn compared_at_most(
        &mut self,
        what: &str,
        value: (f64, &str),
        limit: f64,
        sides: Comparison<'_>,
    ) {
        self.judge(what, value, &format!("<= {}", short(limit)), sides.verdict(value.0 <= limit));
    }

    /// Adds a value with a verdict; `asked` describes the requirement.
    pub(super) fn judge(&mut self, what: &str, (value, unit): (f64, &str), asked: &str, verdict: Verdict) {
        let (what, unit, asked) = (what.to_owned(), unit.to_owned(), asked.to_owned());
        let judged = Judged { what, value, unit, asked, verdict };
        self.note(&judged.to_string());
        self.judged.push(judged);
    }

    /// The judged values so far.
    pub(super) fn judged(&self) -> Vec<Judged> {
        self.judged.clone()
    }

    /// The lines, and true if every value holds.
    pub(super) fn told(self) -> (String, bool) {
        let holds = self.judged.iter().all(|judged| judged.verdict.is_held());
        (self.said, holds)
    }
}

#[cfg(test)]
mod tests {
    use super::Asked;
    use crate::comparison::Comparison;

    #[test]
    fn one_value_that_misses_its_limit_is_told_and_fails_all() {
        let mut asked = Asked::new();
        asked.at_least("lookups", (4.25, "x"), 4.0);
        asked.at_most("loss", (3.0, " %"), 3.0);
        asked.note("noted");
        let (said, holds) = asked.told();
        assert_eq!(said, "  lookups: 4.25x, asked >= 4x: held\n  loss: 3 %, asked <= 3 %: held\n  noted\n");
        assert!(holds);
        let mut asked = Asked::new();
        asked.at_least("replay", (1_400_000.0, " a second"), 1_500_000.0);
        let (said, holds) = asked.told();
        assert_eq!(said, "  replay: 1,400,000 a second, asked >= 1,500,000 a second: NOT HELD\n");
        assert!(!holds);
    }

    #[test]
    fn a_value_within_its_limit_fails_all_if_its_sides_are_not_comparable() {
        let mut asked = Asked::new();
        let sides =
            Comparison::of(["PHT", "Berkeley DB"]).each_at_least("checkpoints", [0.0, 513_415.0], 3.0);
        asked.compared_at_most("loss", (0.0, " %"), 3.0, sides);
        let (said, holds) = asked.told();
        let reason = "PHT has 0 checkpoints, at least 3 are needed";
        assert_eq!(said, format!("  loss: 0 %, asked <= 3 %: NOT COMPARABLE: {reason}\n"));
        assert!(!holds);
    }
}
