//! Persistence of the URL service: a codec, and calls of the collection.
//!
//! Neighbours: [`super::properties`] has objects and operations; `ensile-objects` keeps the objects.

use ensile_objects::{Objects, ObjectsBuilder, ObjectsResult, Persistent, serde_codec};

use super::properties::{UrlOperation, UrlProperties};
use crate::service::{CallError, CallResult, RestsOn};

/// URLs of a process.
pub(crate) type Urls = Objects<Vec<u8>, UrlProperties>;

impl Persistent for UrlProperties {
    type Operation = UrlOperation;
    type Output = i64;
    serde_codec! { object 1, operation 1 }

    fn apply(url: &mut Option<Self>, operation: &UrlOperation) -> i64 {
        operation.make(url)
    }
}

pub(super) fn open(objects: ObjectsBuilder, name: String) -> ObjectsResult<Urls> {
    objects.application_name(name).open()
}

/// Logs and makes a change, unless the check refuses the change. Returns the reply.
pub(super) fn change(
    urls: &Urls,
    url: &[u8],
    operation: &UrlOperation,
    rests: &RestsOn,
) -> Result<i64, CallError> {
    let (changed, receipt) = urls.submit_if(url.to_vec(), operation, |url| operation.check(url))?;
    rests.note(receipt.epoch());
    changed
}

/// Shows URLs in the order of `keys`.
pub(super) fn look(
    urls: &Urls,
    keys: &[Vec<u8>],
    rests: &RestsOn,
    mut show: impl FnMut(Option<&UrlProperties>),
) -> CallResult {
    rests.note(urls.look_many(keys, |_, url| show(url))?.epoch());
    Ok(())
}
