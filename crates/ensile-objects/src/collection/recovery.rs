//! Recovery of a collection: objects are loaded, then the later operations are applied again, in the order of TIDs
//! (O4).
//!
//! Invariants:
//! - O6, O8: as at first, an operation that panics poisons its object, a whole value or a removal ends the poison, and
//!   codecs and operations call no handle.
//! - Versions and bytes are judged when an entry is read, before anything is served.
//!
//! Neighbours: the durability crate calls from several threads; `shards` has the objects, `crate::replay` the waiting
//! operations.

use std::sync::Arc;

use ensile_base::sync::{MutexGuard, Ordering};
use ensile_base::{Epoch, Tid};
use ensile_durability::{DurabilityError, Entry, EntryKind, Recoverable, Refused, UserCode};

use super::cell::{CellState, ObjectCell};
use super::logged_change::{LoggedChange, apply_again, decode_logged_change, object_of};
use super::persistent::{CodecResult, ObjectKey, Persistent};
use super::shards::{KeyHash, SHARDS};
use super::state::ObjectsState;
use crate::apply_time::AppliedTime;
use crate::chunks::LACKS_PIECES;
use crate::error::{ObjectsError, ObjectsResult};
use crate::format::{BodyForm, OF_LOG, ObjectBody};
use crate::framing::judge_each;
use crate::replay::PrefetchStep;
use crate::runtime::{KeyCheck, ObjectState};

impl<K: ObjectKey, T: Persistent> Recoverable for ObjectsState<K, T> {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let _user_code = UserCode::begin();
        judge_each(entries, |entry| {
            let Some((key, change)) = decode_logged_change::<K, T>(entry.body)? else {
                let (found, by) = ("an application's own objects", "open_application");
                self.refused.lock().get_or_insert(ObjectsError::other_objects(found, by));
                return Ok(());
            };
            self.look_at_key(&key);
            let hash = self.shards.hash(&key);
            self.waiting.keep(hash.lane(), entry.tid, (hash, key, change));
            Ok(())
        })
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let _user_code = UserCode::begin();
        judge_each(entries, |entry| self.load_one(entry))
    }

    fn advance_watermark(&self, epoch: Epoch) {
        let _user_code = UserCode::begin();
        let prefetch = |step, (hash, _, _): &(KeyHash, K, LoggedChange<T>)| match step {
            PrefetchStep::Entry => self.shards.prefetch_slot(*hash),
            PrefetchStep::Object => self.shards.prefetch_cell(*hash),
        };
        self.waiting.apply_below(epoch, prefetch, |tid, (hash, key, change)| {
            let mut state = self.lock_cell(&key, hash);
            // O4: operations that the loaded state includes are skipped.
            if tid > state.tid {
                debug_assert!(tid.epoch() < epoch, "O4: later operations of the epoch may come");
                state.tid = tid;
                let place = std::ptr::from_ref(&*state).addr() as u64;
                self.replayed.measure(place, tid.bits(), || apply_again(&mut state, change, &self.poisoned));
            }
        });
    }
}

impl<K: ObjectKey, T: Persistent> ObjectState for ObjectsState<K, T> {
    fn applied_time(&self) -> &Arc<AppliedTime> {
        &self.applied
    }

    fn replayed_nanos(&self) -> u64 {
        self.replayed.total()
    }

    fn check_recovered(&self) -> ObjectsResult<()> {
        assert!(self.waiting.is_empty(), "L8: every epoch has passed");
        // Relaxed: the threads of the recovery were joined.
        let poisoned = self.poisoned.load(Ordering::Relaxed);
        let cells = || (0..SHARDS).flat_map(|shard| self.shards.from(shard, 0, u32::MAX));
        let poisoned_cells = || cells().filter(|(_, cell)| cell.lock().is_poisoned).count() as u64;
        debug_assert_eq!(poisoned, poisoned_cells(), "O6: an object is poisoned once");
        if let Some(refused) = self.refused.lock().take() {
            return Err(refused);
        }
        if self.pieces.is_whole() {
            return Ok(());
        }
        let detail = LACKS_PIECES.to_owned();
        Err(DurabilityError::Damaged { file: "MANIFEST".to_owned(), offset: 0, detail }.into())
    }
}

impl<K: ObjectKey, T: Persistent> ObjectsState<K, T> {
    /// Notes a key that the program does not accept: the recovery then fails before anything is changed.
    fn look_at_key(&self, key: &K) {
        let Some(KeyCheck(check)) = &self.accepts else { return };
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        if let Err(why) = check(&bytes) {
            let refusal = ObjectsError::other_keys(&bytes.escape_ascii().to_string(), &why);
            self.refused.lock().get_or_insert(refusal);
        }
    }

    /// Cell of this key, locked. No cell is removed during a recovery, so an existing or made cell stays.
    fn lock_cell(&self, key: &K, hash: KeyHash) -> MutexGuard<'_, CellState<K, T>> {
        let guess = self.shards.guess(hash).map(ObjectCell::lock).filter(|cell| cell.belongs_to(key));
        let state = guess.unwrap_or_else(|| self.shards.find_or_make(key, hash).lock());
        debug_assert!(state.key.is_some(), "no cell is removed during a recovery");
        state
    }

    fn load_one(&self, entry: &Entry<'_>) -> CodecResult<()> {
        let body = ObjectBody::decode(entry.body)?;
        let object = match body.form {
            BodyForm::Whole => Some(object_of(body.version, body.bytes)?),
            BodyForm::Absent => None,
            BodyForm::Piece(place) => {
                let Some(bytes) = self.pieces.add(entry.tid, &body, place)? else { return Ok(()) };
                Some(object_of(body.version, &bytes)?)
            }
            _ => return Err(OF_LOG.into()),
        };
        let key = K::decode(body.key)?;
        self.look_at_key(&key);
        let mut state = self.lock_cell(&key, self.shards.hash(&key));
        debug_assert!(!state.is_poisoned, "objects are loaded before operations are applied");
        if state.tid != Tid::ZERO {
            return Err("an object stands in the checkpoint twice".into());
        }
        (state.tid, state.object) = (entry.tid, object);
        Ok(())
    }
}
