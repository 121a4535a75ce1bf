//! Persistence of the host service: a codec, and calls of the collection.
//!
//! Neighbours: [`super::host`] has objects and operations; `ensile-objects` keeps the objects.

use ensile_objects::{Objects, ObjectsBuilder, ObjectsResult, Persistent, serde_codec};

use super::host::{HostInformation, HostOperation};
use crate::service::{CallError, CallResult, RestsOn};

/// Hosts of a process.
pub(crate) type Hosts = Objects<Vec<u8>, HostInformation>;

impl Persistent for HostInformation {
    type Operation = HostOperation;
    type Output = i64;
    serde_codec! { object 1, operation 1 }

    fn apply(host: &mut Option<Self>, operation: &HostOperation) -> i64 {
        operation.make(host)
    }
}

pub(super) fn open(objects: ObjectsBuilder, name: &str) -> ObjectsResult<Hosts> {
    objects.application_name(name).open()
}

/// Logs and makes a change, unless the check refuses the change. Returns the reply.
pub(super) fn change(
    hosts: &Hosts,
    host: &[u8],
    operation: &HostOperation,
    rests: &RestsOn,
) -> Result<i64, CallError> {
    let (changed, receipt) = hosts.submit_if(host.to_vec(), operation, |host| operation.check(host))?;
    rests.note(receipt.epoch());
    changed
}

/// Shows hosts in the order of `keys`.
pub(super) fn look(
    hosts: &Hosts,
    keys: &[Vec<u8>],
    rests: &RestsOn,
    mut show: impl FnMut(Option<&HostInformation>),
) -> CallResult {
    rests.note(hosts.look_many(keys, |_, host| show(host))?.epoch());
    Ok(())
}
