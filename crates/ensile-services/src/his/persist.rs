//! What exists in the host service only so that it persists: a codec, and calls of the collection.
//!
//! Neighbours: [`super::host`] has objects and operations; `ensile-objects` keeps them.

use ensile_base::Epoch;
use ensile_objects::{Objects, ObjectsBuilder, ObjectsResult, Persistent, serde_codec};

use super::host::{HostInformation, HostOperation};
use crate::service::CallError;

/// All hosts.
pub(super) type Hosts = Objects<Vec<u8>, HostInformation>;

impl Persistent for HostInformation {
    type Operation = HostOperation;
    type Output = i64;
    serde_codec! { object 1, operation 1 }

    fn apply(host: &mut Option<Self>, operation: &HostOperation) -> i64 {
        operation.make(host)
    }
}

/// Opens the hosts of a folder.
pub(super) fn open(objects: ObjectsBuilder) -> ObjectsResult<Hosts> {
    objects.open()
}

/// Logs and makes a change, unless it is refused: what it replies, and the epoch that this rests on.
pub(super) fn change(
    hosts: &Hosts,
    host: &[u8],
    operation: &HostOperation,
) -> Result<(i64, Epoch), CallError> {
    let (changed, receipt) = hosts.submit_if(host.to_vec(), operation, |host| operation.check(host))?;
    let epoch = receipt.epoch();
    Ok((changed.map_err(|why| why.resting_on(epoch))?, epoch))
}

/// Shows hosts in their order, and the epoch that this rests on.
pub(super) fn look(
    hosts: &Hosts,
    keys: &[Vec<u8>],
    mut show: impl FnMut(Option<&HostInformation>),
) -> Result<Epoch, CallError> {
    Ok(hosts.look_many(keys, |_, host| show(host))?.epoch())
}
