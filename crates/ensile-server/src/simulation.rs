//! A server whose sockets, clock and steps a test drives.
//!
//! In builds with the feature `simulation` only: applications have [`RunningServer`](crate::RunningServer).
//!
//! Neighbours: `server` builds servers; the tests of this crate play clients.

use std::cell::RefMut;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ensile::Database;
use ensile_base::clock::Clock;
use ensile_net::ListenAddress;
use ensile_net::simulation::SimulatedTransport;
use ensile_serving::command::CommandInfo;
use ensile_serving::{LIMITS, ServingLoop, ServingState, all_commands};

use crate::ServerBuilder;
use crate::access::is_harmless_command;
use crate::calendar::Calendar;
use crate::served_database::ServedDatabase;

/// Time of a simulated server at the begin of its clock, in milliseconds since 1970.
pub const BEGIN_MILLIS: u64 = 1_700_000_000_000;

/// Descriptions of all commands.
pub fn command_infos() -> impl Iterator<Item = &'static CommandInfo> {
    all_commands::<ServedDatabase>()
}

/// True if a user with prefixes may send a command without keys, whatever the arguments are. The name has the
/// subcommand behind a bar.
#[must_use]
pub fn is_harmless(name: &str) -> bool {
    is_harmless_command(name)
}

/// Longest wait of a step of the loop. The simulated sockets move the clock by it.
const STEP_WAIT: Duration = Duration::from_micros(200);

/// A server with one loop over simulated sockets.
#[derive(Debug)]
pub struct SimulatedServer {
    served: Arc<ServedDatabase>,
    one_loop: ServingLoop<SimulatedTransport, ServedDatabase>,
}

impl ServerBuilder {
    /// Opens the tables of the served database, and serves by steps. `clock` is manual; `seed` draws the behaviour of
    /// the sockets, and the hash of keys.
    ///
    /// # Errors
    /// The database has tables of these names with other types.
    pub fn build_simulated(self, clock: &Clock, seed: u64) -> ensile::Result<SimulatedServer> {
        let calendar = Calendar::of_clock(BEGIN_MILLIS, clock.clone());
        let served = Arc::new(self.calendar(calendar).hash_seed(seed).open()?);
        let state = Arc::new(ServingState::new(Arc::clone(&served), clock.clone()));
        let mut one_loop = ServingLoop::new(SimulatedTransport::new(clock.clone(), seed), state, LIMITS);
        let address = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let listening = one_loop.listen(&address);
        debug_assert!(listening.is_ok(), "a simulated listener is never refused");
        Ok(SimulatedServer { served, one_loop })
    }
}

impl SimulatedServer {
    /// True once the server has its database.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.served.is_open()
    }

    /// Gives a server without a database its database.
    ///
    /// # Errors
    /// The database has tables of these names with other types.
    pub fn load(&self, db: Database) -> ensile::Result<()> {
        self.served.open(db, false)
    }

    /// Takes a step of the loop. False if a client has asked for the server's end.
    pub fn step(&mut self) -> bool {
        let stepped = self.one_loop.step(STEP_WAIT);
        debug_assert!(stepped.is_ok(), "the wait of simulated sockets does not fail");
        self.served.users().verifier.step();
        stepped.unwrap_or(false)
    }

    /// Takes steps of the sweeper until nothing more is to be removed.
    ///
    /// # Errors
    /// The error of a step's transaction.
    pub fn sweep(&self) -> ensile::Result<()> {
        while !self.served.sweeper().step()? {}
        Ok(())
    }

    /// The sockets, for a test that plays the clients.
    pub fn transport_mut(&mut self) -> RefMut<'_, SimulatedTransport> {
        self.one_loop.transport_mut()
    }

    /// Number of replies that wait until they are durable.
    #[must_use]
    pub fn deferred_count(&self) -> usize {
        self.one_loop.deferred_count()
    }

    /// The served database.
    #[must_use]
    pub fn database(&self) -> &Database {
        self.served.db()
    }
}
