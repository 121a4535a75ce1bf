//! A judgement of a folder of objects without their types: every byte, the name, every mark, and the order of an
//! object's operations.
//!
//! Knowledge of the application is not judged: the decoding of an operation, and its effect.
//! [`Objects::check`](crate::Objects::check) judges both.
//!
//! Neighbours: the durability crate examines; `format` has the bodies; `folder` repairs damage; the `ensile` command
//! prints.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};
use ensile_durability::examination::{Examination, examine};
use ensile_durability::{Entry, EntryKind, Recoverable, Refused};

use crate::chunks::{Assembly, LACKS_PIECES};
use crate::collection::check::existing_disk;
use crate::error::ObjectsResult as Result;
use crate::format::{BodyForm, OF_CHECKPOINT, OF_LOG, ObjectBody};
use crate::framing::judge_each;
use crate::replay::{LANES, WaitingOperations};
use crate::shape::fnv_1a;

/// Contents of a folder, as far as known without its program.
#[derive(Debug)]
#[non_exhaustive]
pub struct FolderJudgement {
    /// Judgement of every byte.
    pub examination: Examination,
    /// Number of objects in checkpoint or log, removed objects included.
    pub named: u64,
    /// Number of objects in the checkpoint.
    pub loaded: u64,
    /// Number of log entries that a recovery would apply.
    pub operations: u64,
    /// Versions of objects in the folder: the program must know all of these versions.
    pub object_versions: Vec<u16>,
    /// Versions of operations in the folder.
    pub operation_versions: Vec<u16>,
    /// True if the objects are of an application that keeps its own objects, and not of a collection.
    pub has_calls: bool,
    /// Contradiction in the folder: two operations of an object have the same TID, an object stands in the checkpoint
    /// twice, or an object of the checkpoint lacks pieces.
    pub disorder: Option<String>,
}

impl FolderJudgement {
    /// True if the folder has no damage and no contradiction.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.examination.is_whole() && self.disorder.is_none()
    }
}

/// Judges the folder of a collection, or of an application that keeps its own objects. No process may have the folder
/// open. Nothing is changed.
///
/// # Errors
/// [`ObjectsError::Storage`](crate::ObjectsError::Storage) if the folder is in use, is a database's or no folder
/// of ours, or is unreadable.
pub fn judge_folder(folder: impl AsRef<Path>) -> Result<FolderJudgement> {
    let objects = NamedObjects::new();
    let examination = examine(&existing_disk(folder)?, &objects)?;
    let has_pieces = !objects.pieces.is_whole() && examination.is_whole();
    let seen = objects.seen.into_inner();
    let missing = has_pieces.then(|| LACKS_PIECES.to_owned());
    Ok(FolderJudgement {
        examination,
        named: objects.last.iter().map(|lane| lane.lock().len() as u64).sum(),
        loaded: seen.loaded,
        operations: seen.operations,
        object_versions: seen.object_versions.into_iter().collect(),
        operation_versions: seen.operation_versions.into_iter().collect(),
        has_calls: seen.has_calls,
        disorder: seen.disorder.or(missing),
    })
}

#[derive(Default)]
struct SeenEntries {
    loaded: u64,
    operations: u64,
    object_versions: BTreeSet<u16>,
    operation_versions: BTreeSet<u16>,
    has_calls: bool,
    disorder: Option<String>,
}

/// Objects by the bytes of their keys, each with the TID of its last operation.
type LastTids = HashMap<Box<[u8]>, Tid>;

/// Objects in checkpoint or log, in lanes by a hash of the key: neighbouring keys are in lanes of their own.
struct NamedObjects {
    last: Box<[Mutex<LastTids>]>,
    waiting: WaitingOperations<Box<[u8]>>,
    pieces: Assembly,
    seen: Mutex<SeenEntries>,
}

/// Reader of entries, for objects of any type.
pub(crate) fn verifier() -> impl ensile_durability::Recoverable {
    NamedObjects::new()
}

impl NamedObjects {
    fn new() -> Self {
        Self {
            last: (0..LANES).map(|_| Mutex::default()).collect(),
            waiting: WaitingOperations::new(),
            pieces: Assembly::default(),
            seen: Mutex::default(),
        }
    }

    fn disorder(&self, key: &[u8], what: &str) {
        let shown: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.seen.lock().disorder.get_or_insert_with(|| format!("object {shown} (its key in hex): {what}"));
    }

    fn load_one(&self, entry: &Entry<'_>) -> Result<(), Box<str>> {
        let body = ObjectBody::decode(entry.body)?;
        match body.form {
            BodyForm::Whole | BodyForm::Absent => {}
            BodyForm::Piece(place) => {
                if self.pieces.add(entry.tid, &body, place)?.is_none() {
                    return Ok(());
                }
            }
            _ => return Err(OF_LOG.into()),
        }
        let before = self.last[fnv_1a(body.key) as usize % LANES].lock().insert(body.key.into(), entry.tid);
        if before.is_some() {
            self.disorder(body.key, "it stands in the checkpoint twice");
        }
        let mut seen = self.seen.lock();
        seen.loaded += u64::from(body.form != BodyForm::Absent);
        seen.object_versions.extend((body.form != BodyForm::Absent).then_some(body.version));
        Ok(())
    }

    fn note(&self, body: &ObjectBody<'_>) -> Result<(), &'static str> {
        let mut seen = self.seen.lock();
        match body.form {
            BodyForm::Operation => drop(seen.operation_versions.insert(body.version)),
            BodyForm::Value => drop(seen.object_versions.insert(body.version)),
            BodyForm::Removal => {}
            BodyForm::Call(_) => {
                seen.has_calls = true;
                seen.operation_versions.insert(body.version);
            }
            _ => return Err(OF_CHECKPOINT),
        }
        Ok(())
    }
}

impl Recoverable for NamedObjects {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        judge_each(entries, |entry| {
            let body = ObjectBody::decode(entry.body)?;
            self.note(&body)?;
            self.waiting.keep(fnv_1a(body.key), entry.tid, body.key.into());
            Ok(())
        })
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        judge_each(entries, |entry| self.load_one(entry))
    }

    fn advance_watermark(&self, epoch: Epoch) {
        let mut before = LastTids::new();
        self.waiting.apply_below(
            epoch,
            |_, _| {},
            |tid, key| {
                let mut last = self.last[fnv_1a(&key) as usize % LANES].lock();
                let known = last.get(&key).copied().unwrap_or(Tid::ZERO);
                let previous = before.insert(key.clone(), tid);
                debug_assert!(previous <= Some(tid), "O4: operations come in the order of TIDs");
                if previous == Some(tid) {
                    self.disorder(&key, &format!("two of its operations have TID {tid}"));
                }
                if tid > known {
                    last.insert(key, tid);
                    self.seen.lock().operations += 1;
                }
            },
        );
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
