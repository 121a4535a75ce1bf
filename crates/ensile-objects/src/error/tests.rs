//! Kinds of the errors of objects, and the errors that stay values.

use super::{DurabilityError, Epoch, ErrorKind, ObjectsError};

fn of(error: DurabilityError) -> ObjectsError {
    error.into()
}

#[test]
fn each_error_has_the_kind_of_the_callers_next_action() {
    let (object, why) = (|| "1".into(), || "why".into());
    let poisoned = ObjectsError::Poisoned { object: object() };
    let different = ObjectsError::NotDeterministic { object: object(), difference: why() };
    let newest = Epoch::new(7);
    for (error, kind) in [
        (poisoned, ErrorKind::Internal),
        (different, ErrorKind::Internal),
        (ObjectsError::PoisonedUntilOpen { object: 1, why: why() }, ErrorKind::Reopen),
        (ObjectsError::PoisonedUnlogged { object: 1, why: why() }, ErrorKind::Reopen),
        (ObjectsError::KeyTooLong { bytes: 2, limit: 1 }, ErrorKind::FixCall),
        (ObjectsError::NotLogged, ErrorKind::FixCall),
        (ObjectsError::no_object(), ErrorKind::FixCall),
        (ObjectsError::other_receipt(newest.next(), newest), ErrorKind::FixCall),
        (ObjectsError::no_creation(1), ErrorKind::FixCall),
        (ObjectsError::other_keys("1", "why"), ErrorKind::WrongFolder),
        (ObjectsError::other_objects("a collection's objects", "open"), ErrorKind::WrongFolder),
        (ObjectsError::no_thread(&std::io::ErrorKind::WouldBlock.into()), ErrorKind::Retry),
        (of(DurabilityError::TooLarge { bytes: 2, limit: 1 }), ErrorKind::FixCall),
        (of(DurabilityError::OutcomeUnknown("why".into())), ErrorKind::Reopen),
        (of(DurabilityError::Closed("why".into())), ErrorKind::Closed),
        (of(DurabilityError::NotDurableYet("why".into())), ErrorKind::FreeSpace),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn a_case_that_a_program_acts_on_stays_a_value_with_its_text() {
    let full = DurabilityError::DiskFull("why".into());
    let in_call_back = DurabilityError::InCallBack;
    assert_eq!(of(full.clone()).to_string(), full.to_string());
    assert_eq!(of(in_call_back.clone()).to_string(), in_call_back.to_string());
    assert!(matches!(of(full), ObjectsError::DiskFull(_)));
    assert!(matches!(of(in_call_back), ObjectsError::InCallBack));
    assert!(matches!(of(DurabilityError::Config("why".into())), ObjectsError::Misuse(_)));
    // It is logged, so it is no `DiskFull`: a program that repeats such an operation would make it twice.
    assert!(matches!(of(DurabilityError::NotDurableYet("why".into())), ObjectsError::Storage(_)));
}
