//! A server on threads of its own, for programs that go on beside it.
//!
//! Neighbours: [`crate::Server::listen`] starts; `ensile-serving` has the loops.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ensile_serving::threads::{ServerConfig, ServerStop, ServerTls, TlsConfig, TransportChoice};
use ensile_serving::{CLIENT_MEMORY_BYTES, KEEPALIVE_SECONDS};

use crate::admin_port::{self, AdminConfig};
use crate::served_database::ServedDatabase;

/// A server that serves on threads of its own. The drop ends the server as [`RunningServer::stop`] does, and drops the
/// outcome.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    stop: ServerStop,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Address and handle of a server that listens.
struct Listening {
    address: SocketAddr,
    stop: ServerStop,
}

impl RunningServer {
    /// Starts a server with a loop for each processor.
    pub(crate) fn start(
        served: ServedDatabase,
        admin: Option<AdminConfig>,
        tls: Option<TlsConfig>,
        address: SocketAddr,
    ) -> io::Result<Self> {
        let config = ServerConfig {
            address,
            tls: tls.map(|config| ServerTls { config, beside: None }),
            unix: None,
            loops: std::thread::available_parallelism().map_or(1, usize::from),
            transport: TransportChoice::Auto,
            idle: None,
            keepalive: Some(Duration::from_secs(KEEPALIVE_SECONDS)),
            client_memory: Some(CLIENT_MEMORY_BYTES),
            ended: None,
            ending: || (),
            tell: |notice| eprintln!("ensile-server: {notice}"),
        };
        let (sender, listening) = mpsc::channel();
        let thread = std::thread::Builder::new().name("ensile-serve".to_owned()).spawn(move || {
            let (served, tell, mut port) = (Arc::new(served), config.tell, None);
            let watched = Arc::clone(&served);
            ensile_serving::threads::serve(served, config, |ready| {
                port = admin_port::open(admin.as_ref(), &watched, &ready, tell)?;
                let listening = Listening { address: ready.address, stop: ready.stop.clone() };
                sender.send(listening).map_err(io::Error::other)
            })
        })?;
        match listening.recv() {
            Ok(Listening { address, stop }) => Ok(Self { address, stop, thread: Some(thread) }),
            // The server has ended before it listens.
            Err(_) => {
                Err(join(thread).err().unwrap_or_else(|| io::Error::other("the server ended at its start")))
            }
        }
    }

    /// Address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server: everything becomes durable, clients get the replies that wait, and the database is closed.
    ///
    /// # Errors
    /// The reason why a loop ended early, or why not everything could be made durable.
    pub fn stop(mut self) -> io::Result<()> {
        self.stop.stop();
        self.thread.take().map_or(Ok(()), join)
    }

    /// Waits until a client's `SHUTDOWN` ends the server.
    ///
    /// # Errors
    /// As for [`stop`](Self::stop).
    pub fn wait(mut self) -> io::Result<()> {
        self.thread.take().map_or(Ok(()), join)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.stop();
            // The outcome is for callers of `stop`.
            let _ = join(thread);
        }
    }
}

fn join(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the server panicked; its panic was printed")))
}
