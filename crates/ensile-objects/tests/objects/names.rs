//! What calls return, and the limits that their documentation cites, can be named by this crate alone.

use ensile_objects::folder::{EntryKind, Examination, Loss, Remedy};
use ensile_objects::limits::{KEY_BYTES_MAX, OBJECT_BYTES_MAX, TRANSACTION_BYTES_MAX};
use ensile_objects::{
    CheckpointProgress, CheckpointStats, Epoch, ObjectReceipt, ObjectsError, ObjectsStats, RecoveryReport,
    Tid, TornTail,
};
use ensile_sim::SimDisk;

use crate::rig::Life;
use crate::tally::Change;

const _: () = assert!(KEY_BYTES_MAX < TRANSACTION_BYTES_MAX && TRANSACTION_BYTES_MAX <= OBJECT_BYTES_MAX);

/// What an application keeps of figures and receipts.
struct Kept {
    durable: Epoch,
    running: Option<CheckpointProgress>,
    tails: Vec<TornTail>,
}

fn kept(
    ObjectsStats { durable_epoch, checkpoints, .. }: ObjectsStats,
    report: &RecoveryReport,
    receipt: &ObjectReceipt<'_>,
) -> Kept {
    let CheckpointStats { running, .. } = checkpoints;
    Kept { durable: durable_epoch.max(receipt.epoch()), running, tails: report.torn_tails.clone() }
}

/// What a repair would give up.
fn given_up(found: &Examination) -> Option<&Loss> {
    assert_ne!(found.entries, Some(EntryKind::Values));
    match found.remedy.as_ref()? {
        Remedy::Cut(loss) | Remedy::PictureAlone { loss, .. } => Some(loss),
        Remedy::Copy(_) | Remedy::Marks(_) => None,
    }
}

fn entry_of(error: &ObjectsError) -> Option<Tid> {
    match error {
        ObjectsError::NotReplayed { tid, .. } => Some(*tid),
        _ => None,
    }
}

#[test]
fn what_calls_return_and_their_limits_have_names_here() {
    let life = Life::open(&SimDisk::new());
    let (_, receipt) = life.objects.submit(1, &Change::Add(1)).expect("logs");
    let kept = kept(life.objects.stats(), life.objects.recovery(), &receipt);
    assert_eq!((kept.durable, kept.tails.len(), kept.running.is_none()), (receipt.epoch(), 0, true));
    assert!(given_up(&Examination::default()).is_none());
    assert!(entry_of(&ObjectsError::NotLogged).is_none());
}
