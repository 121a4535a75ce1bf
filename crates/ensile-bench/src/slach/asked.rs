//! What is asked of a measured value, and whether it holds: a line for each, and one word for all.
//!
//! Neighbours: every experiment that has limits says them through this.

use crate::number::grouped;

/// Lines so far, and whether all that was asked for holds.
#[derive(Debug)]
pub(super) struct Asked {
    said: String,
    holds: bool,
}

impl Asked {
    pub(super) fn new() -> Self {
        Self { said: String::new(), holds: true }
    }

    /// Something that nothing is asked of.
    pub(super) fn note(&mut self, line: &str) {
        self.said += &format!("  {line}\n");
    }

    /// A value that is to reach a limit.
    pub(super) fn at_least(&mut self, what: &str, (value, unit): (f64, &str), limit: f64) {
        self.judge(what, (value, unit), &format!(">= {}", short(limit)), value >= limit);
    }

    /// A value that is to keep below a limit.
    pub(super) fn at_most(&mut self, what: &str, (value, unit): (f64, &str), limit: f64) {
        self.judge(what, (value, unit), &format!("<= {}", short(limit)), value <= limit);
    }

    /// A value of which something is asked in words.
    pub(super) fn judge(&mut self, what: &str, (value, unit): (f64, &str), asked: &str, holds: bool) {
        let not = if holds { "" } else { ": NOT HELD" };
        self.note(&format!("{what}: {}{unit}, asked {asked}{unit}{not}", short(value)));
        self.holds &= holds;
    }

    /// The lines, and whether all holds.
    pub(super) fn told(self) -> (String, bool) {
        (self.said, self.holds)
    }
}

/// A number with as many digits as mean something, without zeros behind them.
fn short(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        return grouped(value);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::Asked;

    #[test]
    fn one_value_that_misses_its_limit_is_told_and_fails_all() {
        let mut asked = Asked::new();
        asked.at_least("lookups", (4.25, "x"), 4.0);
        asked.at_most("loss", (3.0, " %"), 3.0);
        asked.note("noted");
        let (said, holds) = asked.told();
        assert_eq!(said, "  lookups: 4.25x, asked >= 4x\n  loss: 3 %, asked <= 3 %\n  noted\n");
        assert!(holds);
        let mut asked = Asked::new();
        asked.at_least("replay", (1_400_000.0, " a second"), 1_500_000.0);
        let (said, holds) = asked.told();
        assert_eq!(said, "  replay: 1,400,000 a second, asked >= 1,500,000 a second: NOT HELD\n");
        assert!(!holds);
    }
}
