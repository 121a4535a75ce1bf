//! Access to a database for measurements only, without the properties of transactions.
//!
//! In builds with the feature `laboratory` only.
//!
//! Neighbours: the bench is the user; index and records do the work, and `variants` has the switches.

mod exclusive_access;
mod key_value;

pub use exclusive_access::{Exclusive, ExclusiveRows};
pub use key_value::KeyValue;

use crate::open::builder::Builder;
pub use crate::variants::Variants;

impl Builder {
    /// Runs parts of the engine in another variant than the shipped variant, to measure the difference.
    pub fn variants(mut self, variants: Variants) -> Self {
        self.settings.switches.variants = variants;
        self
    }
}
