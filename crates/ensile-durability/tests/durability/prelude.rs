//! Names that most tests of this program need.

pub(crate) use std::collections::BTreeMap;
pub(crate) use std::sync::{Arc, Mutex};
pub(crate) use std::time::Duration;

pub(crate) use ensile_base::checksum::crc32c;
pub(crate) use ensile_base::clock::Clock;
pub(crate) use ensile_base::random::Random;
pub(crate) use ensile_base::{Epoch, Tid};
pub(crate) use ensile_disk::{Disk, Operation};
pub(crate) use ensile_durability::examination::{
    BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, Loss, Remedy, RepairOptions, Repaired,
    Role, examine, repair, repair_with, visit_log,
};
pub(crate) use ensile_durability::*;
pub(crate) use ensile_sim::{Moment, SimDisk, Survival};

pub(crate) use crate::checkpoints::store::*;
pub(crate) use crate::copies::{CopySteps as _, backup, restore, restore_to_epoch};
/// Not the one of a backup.
pub(crate) use crate::rig::ask;
pub(crate) use crate::rig::*;
