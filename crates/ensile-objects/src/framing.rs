//! Judgement of entries one by one, and a state that judges the form of entries and keeps no entry.
//!
//! Neighbours: recoveries judge their entries; repairs and copies of folders verify with the state; `format` has the
//! forms.

use ensile_durability::{Entry, EntryKind, Recoverable, Refused};

use crate::format::{OF_CHECKPOINT, OF_LOG, ObjectBody};

/// Takes entries apart and keeps nothing: a repair and a copy show entries twice.
pub(crate) struct ObjectFraming;

impl Recoverable for ObjectFraming {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        judge_each(entries, |entry| check_form(entry, true, OF_CHECKPOINT))
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        judge_each(entries, |entry| check_form(entry, false, OF_LOG))
    }
}

/// Judges the entries one by one. The first fault refuses the entries.
pub(crate) fn judge_each<'e>(
    entries: &'e [Entry<'e>],
    mut judge: impl FnMut(&'e Entry<'e>) -> Result<(), Box<str>>,
) -> Result<(), Refused> {
    let mut numbered = entries.iter().enumerate();
    numbered.try_for_each(|(at, entry)| judge(entry).map_err(|why| Refused { entry: at, detail: why.into() }))
}

/// Checks that an entry is of the log, or of a checkpoint.
fn check_form(entry: &Entry<'_>, is_of_log: bool, otherwise: &str) -> Result<(), Box<str>> {
    let form = ObjectBody::decode(entry.body)?.form;
    if form.is_of_log() == is_of_log { Ok(()) } else { Err(otherwise.into()) }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::{Epoch, Tid};
    use ensile_durability::{Entry, Recoverable as _};

    use super::ObjectFraming;
    use crate::format::{BodyForm, ObjectBody, PiecePlace};

    #[test]
    fn an_entry_in_the_wrong_place_is_refused_and_shown_twice_one_is_not() {
        let body = |form| {
            let mut out = Vec::new();
            ObjectBody { form, version: 1, key: b"key", bytes: b"bytes" }.encode(&mut out);
            out
        };
        let piece = body(BodyForm::Piece(PiecePlace { total: 9, offset: 0 }));
        let (call, whole) = (body(BodyForm::Call(None)), body(BodyForm::Whole));
        let entry = |body| [Entry { tid: Tid::first_of(Epoch::new(3)), body }];
        for _ in 0..2 {
            assert_eq!(ObjectFraming.replay(&entry(&call)), Ok(()));
            assert_eq!(ObjectFraming.load(0, &entry(&whole)), Ok(()));
            assert_eq!(ObjectFraming.load(0, &entry(&piece)), Ok(()));
        }
        for result in [
            ObjectFraming.replay(&entry(&whole)),
            ObjectFraming.load(0, &entry(&call)),
            ObjectFraming.load(0, &entry(b"x")),
        ] {
            assert!(result.is_err());
        }
    }
}
