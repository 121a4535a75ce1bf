//! A server that listens while its database is loaded on a thread.
//!
//! ```text
//! listen -> LOADING to every request over data -> loaded: the same connections go on
//!                                                 failed: the server ends, with the error of the load
//! ```
//! Neighbours: [`crate::server`] builds; the `ensile` tool loads a folder.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ensile::Database;
use ensile_base::panic_text;
use ensile_base::sync::Mutex;
use ensile_serving::threads::{ListeningServer, ServerConfig, TlsConfig};

use crate::admin_port::{self, AdminConfig};
use crate::load_progress::LoadProgress;
use crate::served_database::ServedDatabase;

/// A database that is loaded.
#[derive(Debug)]
pub struct LoadedDatabase {
    /// The database.
    pub db: Database,
    /// True if every reply must wait until the reply is durable, as for
    /// [`always_durable`](crate::ServerBuilder::always_durable).
    pub always_durable: bool,
}

/// Reason why a server ended that loads its database.
#[derive(Debug)]
pub enum LoadingError<E> {
    /// The database was not loaded.
    NotLoaded(E),
    /// The server did not listen, or ended early.
    Ended(io::Error),
}

/// A server without its database.
#[derive(Debug)]
pub struct LoadingServer {
    pub(crate) served: Arc<ServedDatabase>,
    pub(crate) admin: Option<AdminConfig>,
    pub(crate) tls: Option<TlsConfig>,
}

impl LoadingServer {
    /// Serves as [`Server::serve`](crate::Server::serve), from now on. `load` loads the database on a thread of its
    /// own, and `loaded` is called behind the load with the address. A server that ends before does not wait for the
    /// load, so the process should end.
    ///
    /// # Errors
    /// The error of `load`, or an error of the server.
    pub fn serve<E: From<ensile::Error> + Send + 'static>(
        self,
        config: ServerConfig,
        ready: impl FnOnce(ListeningServer<'_>) -> io::Result<()>,
        load: impl FnOnce(&Arc<LoadProgress>) -> Result<LoadedDatabase, E> + Send + 'static,
        loaded: impl FnOnce(SocketAddr) -> io::Result<()> + Send + 'static,
    ) -> Result<(), LoadingError<E>> {
        let failure = Arc::new(Mutex::new(None));
        let (served, failed) = (Arc::clone(&self.served), Arc::clone(&failure));
        let (admin, tell, mut port) = (self.admin, config.tell, None);
        let begin = |server: ListeningServer<'_>| {
            let (address, stop) = (server.address, server.stop.clone());
            port = admin_port::open(admin.as_ref(), &served, &server, tell)?;
            ready(server)?;
            let work = move || {
                let LoadedDatabase { db, always_durable } =
                    load(&served.progress).map_err(LoadingError::NotLoaded)?;
                served.open(db, always_durable).map_err(|error| LoadingError::NotLoaded(error.into()))?;
                loaded(address).map_err(LoadingError::Ended)
            };
            let run = move || {
                let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
                    let why = panic_text(&*panic).unwrap_or("without a text");
                    Err(LoadingError::Ended(io::Error::other(format!("the load panicked ({why})"))))
                });
                if let Err(error) = outcome {
                    *failed.lock() = Some(error);
                    stop.stop();
                }
            };
            std::thread::Builder::new().name("ensile-load".to_owned()).spawn(run).map(drop)
        };
        let served = ensile_serving::threads::serve(self.served, config.with_tls(self.tls), begin);
        let failure = failure.lock().take();
        failure.map_or_else(|| served.map_err(LoadingError::Ended), Err)
    }
}
