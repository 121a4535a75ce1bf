//! States that keep no entry, for examinations that only judge.
//!
//! Neighbours: `validator`, `folder_repair` and `adoption_report` hand entries over.

use crate::{Entry, EntryKind, Recoverable, Refused};

/// State that takes entries of this kind and keeps nothing.
pub(super) struct NullState(pub(super) EntryKind);

impl Recoverable for NullState {
    fn entries(&self) -> EntryKind {
        self.0
    }

    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

/// State that has the knowledge of `self.0` about entries, and hands `self.0` no entry.
pub(super) struct KeyRules<'s>(pub(super) &'s dyn Recoverable);

impl Recoverable for KeyRules<'_> {
    fn entries(&self) -> EntryKind {
        self.0.entries()
    }

    fn replay(&self, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _section: u32, _entries: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        self.0.checkpoint_key(body)
    }
}
