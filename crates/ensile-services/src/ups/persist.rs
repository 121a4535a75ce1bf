//! What exists in the URL service only so that it persists: a codec, and calls of the collection.
//!
//! Neighbours: [`super::properties`] has objects and operations; `ensile-objects` keeps them.

use ensile_base::Epoch;
use ensile_objects::{Objects, ObjectsBuilder, ObjectsResult, Persistent, serde_codec};

use super::properties::{UrlOperation, UrlProperties};
use crate::service::CallError;

/// All URLs of a process.
pub(super) type Urls = Objects<Vec<u8>, UrlProperties>;

impl Persistent for UrlProperties {
    type Operation = UrlOperation;
    type Output = i64;
    serde_codec! { object 1, operation 1 }

    fn apply(url: &mut Option<Self>, operation: &UrlOperation) -> i64 {
        operation.make(url)
    }
}

/// Opens the URLs of a folder.
pub(super) fn open(objects: ObjectsBuilder) -> ObjectsResult<Urls> {
    objects.open()
}

/// Logs and makes a change, unless it is refused: what it replies, and the epoch that this rests on.
pub(super) fn change(urls: &Urls, url: &[u8], operation: &UrlOperation) -> Result<(i64, Epoch), CallError> {
    let (changed, receipt) = urls.submit_if(url.to_vec(), operation, |url| operation.check(url))?;
    let epoch = receipt.epoch();
    Ok((changed.map_err(|why| why.resting_on(epoch))?, epoch))
}

/// Shows urls in their order, and the epoch that this rests on.
pub(super) fn look(
    urls: &Urls,
    keys: &[Vec<u8>],
    mut show: impl FnMut(Option<&UrlProperties>),
) -> Result<Epoch, CallError> {
    Ok(urls.look_many(keys, |_, url| show(url))?.epoch())
}
