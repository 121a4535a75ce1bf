//! A finding of a rule, and the report that collects the findings of one rule in one file.
//!
//! Neighbours: every rule writes findings; [`super::run`] prints the findings.

/// A place that breaks a rule, and the advice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) rule: &'static str,
    pub(super) advice: String,
}

/// Findings of one rule in one file.
pub(super) struct Report<'r> {
    pub(super) rule: &'static str,
    pub(super) path: &'r str,
    pub(super) findings: &'r mut Vec<Finding>,
}

impl Report<'_> {
    /// Adds a finding at `line` (from 1).
    pub(super) fn add(&mut self, line: usize, advice: impl Into<String>) {
        let finding = Finding { path: self.path.to_owned(), line, rule: self.rule, advice: advice.into() };
        self.findings.push(finding);
    }
}
