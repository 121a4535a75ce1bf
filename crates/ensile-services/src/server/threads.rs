//! A service's server on threads of its own.
//!
//! Neighbours: the `ensile-service` command and load generators run servers; `ensile_serving::threads` has the threads.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ensile_objects::ObjectDurability;
pub use ensile_serving::threads::{ServerConfig, TransportChoice};

use super::ObjectService;
use crate::service::Service;

/// A server that listens.
#[derive(Clone, Copy, Debug)]
pub struct ReadyServer<'s> {
    /// Address of the listener.
    pub address: SocketAddr,
    /// Transport of the sockets; for a second choice also the reason.
    pub transport: &'s str,
    /// Results that the life before returned and that nothing proves here, with the remedy; `None` without such results
    /// (B4).
    pub not_proven: Option<&'s str>,
    /// Notice that the folder had no name of an application, with the name from this start; `None` for a named folder
    /// (I5).
    pub name_given: Option<&'s str>,
    /// Reason why no checkpoint keeps the requested recovery time, with the figure; `None` if checkpoints keep the
    /// time.
    pub unreachable: Option<&'s str>,
    /// Memory of all clients together, in bytes; `None` is no limit.
    pub client_memory: Option<usize>,
}

/// Serves a service whose objects were opened with `durability`, until a client asks for the end, `ended` is set, or a
/// loop fails. With strict durability, replies wait until they are durable. `ready` gets the address.
///
/// # Errors
/// The system's error for the address or for a wait; the panic of a loop, with its text; or not everything could be
/// made durable.
pub fn serve<S: Service>(
    service: Arc<S>,
    durability: ObjectDurability,
    config: ServerConfig,
    ready: impl FnOnce(ReadyServer<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let served = Arc::new(ObjectService { service: Arc::clone(&service), durability });
    ensile_serving::threads::serve(served, config, |at| {
        let objects = service.persistent_objects();
        let not_proven = objects.recovery().not_proven.as_ref().map(ToString::to_string);
        let name_given = objects.recovery().name_given.as_ref().map(ToString::to_string);
        let unreachable = objects.stats().checkpoints.unreachable;
        ready(ReadyServer {
            address: at.address,
            transport: at.transport,
            not_proven: not_proven.as_deref(),
            name_given: name_given.as_deref(),
            unreachable: unreachable.as_deref(),
            client_memory: at.client_memory,
        })
    })
}
