//! Kinds of the errors where a wrong kind would mislead a program.

use std::io;
use std::sync::Arc;

use ensile_base::{Epoch, Tid};
use ensile_disk::Operation;

use super::*;
use crate::{DurabilityError, EntryKind};

fn disk(kind: io::ErrorKind) -> DurabilityError {
    DiskError::io(Operation::Write, "log0/log-1-0".as_ref(), kind.into()).into()
}

#[test]
fn a_result_that_may_be_committed_is_never_to_be_repeated() {
    let text = || Arc::<str>::from("why");
    let unproven = DurabilityError::NotProven { durable: Epoch::ZERO, reason: text() };
    for (error, kind) in [
        (DurabilityError::OutcomeUnknown(text()), ErrorKind::Reopen),
        (DurabilityError::NotDurableYet(text()), ErrorKind::FreeSpace),
        (unproven, ErrorKind::FreeSpace),
        (DurabilityError::Removed(text()), ErrorKind::Restore),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn what_was_not_done_is_told_from_what_cannot_be_done() {
    let text = || Arc::<str>::from("why");
    let not_shipped =
        DurabilityError::NotShipped { shipped: Epoch::ZERO, wanted: Epoch::ZERO, why: "".into() };
    for (error, kind) in [
        (DurabilityError::DiskFull(text()), ErrorKind::FreeSpace),
        (DurabilityError::NoRoomToOpen(text()), ErrorKind::FreeSpace),
        (disk(io::ErrorKind::StorageFull), ErrorKind::FreeSpace),
        (disk(io::ErrorKind::NotFound), ErrorKind::WrongFolder),
        (disk(io::ErrorKind::PermissionDenied), ErrorKind::Retry),
        (DurabilityError::EpochsEnded(text()), ErrorKind::Retry),
        (DurabilityError::CheckpointFailed(text()), ErrorKind::Retry),
        (DurabilityError::Cancelled, ErrorKind::Retry),
        (DurabilityError::InUse { path: "LOCK".into() }, ErrorKind::Retry),
        (not_shipped, ErrorKind::Retry),
        (DurabilityError::Stopped(text()), ErrorKind::Reopen),
        (DurabilityError::Forked, ErrorKind::Reopen),
        (DurabilityError::Closed(text()), ErrorKind::Closed),
        (DurabilityError::InCallBack, ErrorKind::FixCall),
        (DurabilityError::TooLarge { bytes: 2, limit: 1 }, ErrorKind::FixCall),
        (DurabilityError::config("why"), ErrorKind::FixCall),
        (DurabilityError::TooSlow { detail: "why".into() }, ErrorKind::FixCall),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn a_folder_that_is_another_one_is_told_from_a_damaged_one() {
    let folder = || std::path::PathBuf::from("data");
    let newer = DurabilityError::Replay {
        file: "log".into(),
        offset: 0,
        tid: Tid::first_of(Epoch::ZERO),
        detail: "".into(),
    };
    for (error, kind) in [
        (DurabilityError::damaged_file("log0/log-1-0", 7, "why"), ErrorKind::Restore),
        (DiskError::Removed { path: folder() }.into(), ErrorKind::Restore),
        (DurabilityError::newer("log0/log-1-0", 7), ErrorKind::WrongFolder),
        (newer, ErrorKind::WrongFolder),
        (DurabilityError::not_ours("log0/log-1-0", 1, 2), ErrorKind::WrongFolder),
        (DurabilityError::NoDatabase { folder: folder() }, ErrorKind::WrongFolder),
        (DurabilityError::DatabaseExists { folder: folder() }, ErrorKind::WrongFolder),
        (DurabilityError::NotADatabase { folder: folder(), detail: "".into() }, ErrorKind::WrongFolder),
        (
            DurabilityError::OtherEntries { folder: folder(), found: EntryKind::Values },
            ErrorKind::WrongFolder,
        ),
        (DurabilityError::Unfinished { folder: folder(), what: "a backup".into() }, ErrorKind::WrongFolder),
        (DurabilityError::NotMounted { folder: "log0".into(), place: folder() }, ErrorKind::WrongFolder),
        (DurabilityError::TakenOver { detail: "".into() }, ErrorKind::WrongFolder),
        (DurabilityError::Fenced { detail: "".into() }, ErrorKind::WrongFolder),
        (DurabilityError::NotInArchive { folder: folder(), detail: "".into() }, ErrorKind::FixCall),
        (DurabilityError::TargetFailed { folder: folder(), detail: "".into() }, ErrorKind::Retry),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn a_wrapped_error_keeps_text_source_kind_and_cause() {
    use std::error::Error as _;

    let inner = disk(io::ErrorKind::PermissionDenied);
    let error = StorageError::from(inner.clone());
    assert_eq!(error.to_string(), inner.to_string());
    assert_eq!(error.kind(), inner.kind());
    assert!(error.source().is_some(), "the system's error");
    assert!(matches!(error.cause(), DurabilityError::Disk(_)));
    let opened = DurabilityError::NotOpened { kind: ErrorKind::WrongFolder, text: "another one's".into() };
    let opened = StorageError::from(opened);
    assert_eq!((opened.kind(), opened.to_string().as_str()), (ErrorKind::WrongFolder, "another one's"));
}
