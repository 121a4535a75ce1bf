//! Knowledge of the rules beside the examined file.
//!
//! Neighbours: [`super::run`] collects the facts; rules read the facts.

use std::collections::BTreeSet;

/// Knowledge of the rules beside the examined file.
#[derive(Default)]
pub(super) struct Facts {
    /// Names of the invariants that `docs/internals/protocols/` defines; `None` without a definition.
    pub(super) invariants: Option<BTreeSet<String>>,
}
