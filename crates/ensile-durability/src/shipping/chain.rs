//! The chain of numbered manifests in a shared store: the newest manifest, and the next manifest, installed by one
//! machine.
//!
//! Invariants:
//! - H2: older manifests are removed, so a caller that was away for long may find its number free again: a larger
//!   number exists then, and the caller's manifest does not count.
//! - After a lost answer the caller offers the same text again, and compares the stored text with its own.
//!
//! Neighbours: the shipper and a take-over install; `files::shared_manifest` has the text.

use super::shared_store::{Creation, SharedStore};
use crate::DurabilityError;
use crate::files::shared_manifest::{
    MANIFESTS, SHARED_MANIFEST_BYTES_MAX, SharedManifest, UnusableShared, manifest_name, manifest_number,
};

/// Number of attempts to read the newest manifest, because older manifests are removed while the next manifests are
/// installed.
const LOOKS_MAX: u32 = 100;

/// Result of installing a manifest.
#[derive(Debug)]
pub(crate) enum Installed {
    /// The caller's manifest is the newest.
    Ours,
    /// Another manifest is the newest.
    Lost(Box<SharedManifest>),
}

/// Error for a store that cannot be used, with the reason.
pub(crate) fn unusable(store: &dyn SharedStore, error: impl ToString) -> DurabilityError {
    DurabilityError::SharedStore { place: store.place().into(), detail: error.to_string().into() }
}

/// Error for an object that differs from its manifest.
pub(crate) fn damaged_object_error(store: &dyn SharedStore, object: &str, why: &str) -> DurabilityError {
    DurabilityError::SharedDamaged { place: store.place().into(), object: object.into(), detail: why.into() }
}

/// Error for a listing that omits an object created before the listing began: larger numbers may be missing too.
pub(crate) fn unlisted_manifest_error(store: &dyn SharedStore, number: u64) -> DurabilityError {
    let detail = format!(
        "its listing does not show manifest {number}, which is there: listings come from a cache. Mount a network file \
         system so that they do not (NFS: lookupcache=none and a short acdirmax)"
    );
    unusable(store, detail)
}

/// Numbers of the existing manifests.
pub(crate) fn numbers(store: &dyn SharedStore) -> Result<Vec<u64>, DurabilityError> {
    let listed = store.list(MANIFESTS).map_err(|error| unusable(store, error))?;
    Ok(listed.iter().filter_map(|object| manifest_number(&object.name)).collect())
}

/// The newest manifest; `None` without any manifest.
///
/// # Errors
/// [`DurabilityError::SharedStore`], [`DurabilityError::SharedDamaged`], [`DurabilityError::Unknown`].
pub(crate) fn newest(store: &dyn SharedStore) -> Result<Option<SharedManifest>, DurabilityError> {
    for _ in 0..LOOKS_MAX {
        let Some(number) = numbers(store)?.into_iter().max() else { return Ok(None) };
        // A manifest that is gone was no longer the newest.
        if let Some(manifest) = read(store, number)? {
            return Ok(Some(manifest));
        }
    }
    Err(unusable(store, "its manifests are removed faster than they can be read"))
}

/// The manifest of this number; `None` if missing.
fn read(store: &dyn SharedStore, number: u64) -> Result<Option<SharedManifest>, DurabilityError> {
    let name = manifest_name(number);
    let Some(bytes) = read_whole(store, &name)? else { return Ok(None) };
    match SharedManifest::parse(&bytes) {
        Ok(manifest) if manifest.number == number => Ok(Some(manifest)),
        Ok(_) => Err(damaged_object_error(store, &name, "it is the manifest of another number")),
        Err(UnusableShared::Damaged(why)) => Err(damaged_object_error(store, &name, why)),
        Err(UnusableShared::Newer) => Err(DurabilityError::Unknown {
            file: name,
            offset: 0,
            detail: "a newer version of Ensile made it",
        }),
    }
}

/// Reads a whole manifest object; `None` if missing.
fn read_whole(store: &dyn SharedStore, name: &str) -> Result<Option<Vec<u8>>, DurabilityError> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        let read =
            store.read_at(name, &mut piece, all.len() as u64).map_err(|error| unusable(store, error))?;
        let Some(read) = read else { return Ok(None) };
        all.extend_from_slice(&piece[..read]);
        if read < piece.len() {
            return Ok(Some(all));
        }
        if all.len() as u64 > SHARED_MANIFEST_BYTES_MAX {
            return Err(damaged_object_error(store, name, "it is too long to be a manifest"));
        }
    }
}

/// Installs this manifest. After a failure the same manifest may be installed again.
///
/// # Errors
/// As for [`newest`], and for a listing that omits the manifest; the manifest may then count or not.
pub(crate) fn install(
    store: &dyn SharedStore,
    manifest: &SharedManifest,
) -> Result<Installed, DurabilityError> {
    assert!(manifest.is_whole(), "H1: {manifest:?}");
    let (name, text) = (manifest_name(manifest.number), manifest.to_string());
    debug_assert_eq!(SharedManifest::parse(text.as_bytes()).as_ref(), Ok(manifest));
    let created = store.create(&name, text.as_bytes()).map_err(|error| unusable(store, error))?;
    let is_there = match created {
        Creation::Created => true,
        // The name may come from an attempt whose answer was lost.
        Creation::Taken => read_whole(store, &name)?.is_some_and(|found| found == text.as_bytes()),
    };
    let newest = newest(store)?;
    match newest {
        Some(newest) if newest.number < manifest.number => {
            Err(unlisted_manifest_error(store, manifest.number))
        }
        Some(newest) if !is_there || newest.number > manifest.number => Ok(Installed::Lost(Box::new(newest))),
        Some(_) => Ok(Installed::Ours),
        None => Err(damaged_object_error(store, &name, "it is gone, and nothing has followed it")),
    }
}
