//! A server's threads: a loop per thread, all at one address. The kernel spreads connections over the loops.
//!
//! Invariants:
//! - A loop that ends closes the objects. The close makes everything durable, and the loop sends the replies that wait
//!   for the close. Requests of other loops are refused from then on, until these loops end too.
//! - A loop that ends for any reason, a panic as well, ends the server. The server returns the reason.
//! - W11: the transport in use, and the reason, is reported before the address is.
//!
//! Neighbours: the commands `ensile-service` and `ensile serve`, and load generators, run servers;
//! [`crate::ServingLoop`] is a thread's work.

mod heap_trimmer;

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::panic_text;
use ensile_base::sync::{Mutex, Ordering, SignalFlag, sleep};
use ensile_net::{
    ListenAddress, LoopWakeUp, MachineTransport, NetLimits, UnixSocket, check_free, raise_descriptors_max,
};
pub use ensile_net::{TlsConfig, TransportChoice};

use heap_trimmer::HeapTrimmer;

use crate::figures::ServerFigures;
use crate::served_program::ServedProgram;
use crate::{LIMITS, ServingLoop, ServingState};

/// Stack of a loop's thread in bytes: a script may nest calls of C and of Rust.
const LOOP_STACK_BYTES: usize = 8 << 20;

/// Longest wait of a loop without traffic.
const WAIT: Duration = Duration::from_secs(1);

/// Longest wait for an address that another process has.
const TAKEN_WAIT: Duration = Duration::from_secs(2);
/// Pause between two checks of the address.
const TAKEN_PAUSE: Duration = Duration::from_millis(10);

const _: () = assert!(TAKEN_PAUSE.as_millis() < TAKEN_WAIT.as_millis(), "an address is checked again");

/// TLS of a server's clients.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// Certificate, key, and the check of clients.
    pub config: TlsConfig,
    /// Address for clients with TLS, beside [`ServerConfig::address`] for clients without. `None`: all clients of the
    /// server's address have TLS.
    pub beside: Option<SocketAddr>,
}

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address for clients; port 0 is any free port.
    pub address: SocketAddr,
    /// TLS of clients; `None` is no TLS.
    pub tls: Option<ServerTls>,
    /// Unix socket for clients beside the address, without TLS.
    pub unix: Option<UnixSocket>,
    /// Number of threads, with a loop each.
    pub loops: usize,
    /// Mechanism by which loops wait for sockets.
    pub transport: TransportChoice,
    /// Idle time after which a client without due replies is disconnected. `None`: never.
    pub idle: Option<Duration>,
    /// Silence after which the kernel probes a client. A client that does not answer is disconnected
    /// ([`NetLimits::keepalive`]). `None`: no client is probed.
    pub keepalive: Option<Duration>,
    /// Memory of the requests and replies of all clients together, in bytes (W16). `None` is no limit.
    pub client_memory: Option<usize>,
    /// Flag that ends the server as a client's request for the end does; a signal may set the flag.
    pub ended: Option<&'static SignalFlag>,
    /// Function that is called once when the server begins to end, before clients take their last replies. The loop
    /// waits for the function.
    pub ending: fn(),
    /// Receiver of notices for people as they happen, such as the stop of the log and the remedy. The function is
    /// called on a thread without other work, so no client waits while the function blocks, for example on a pipe
    /// without a reader.
    pub tell: fn(&str),
}

impl ServerConfig {
    /// Checks that a server could listen at this address, by this transport. The check comes before a service's folder
    /// is opened, so that a refused start has changed nothing in the folder.
    ///
    /// # Errors
    /// The system's error: choose another address, or another transport.
    pub fn check(&self) -> io::Result<()> {
        self.check_addresses()?;
        for address in self.addresses() {
            let at = |error: io::Error| {
                io::Error::new(error.kind(), format!("{address}: {error}; choose another address"))
            };
            free_soon(TAKEN_WAIT, || check_free(address)).map_err(at)?;
        }
        MachineTransport::new(self.transport).map(drop)
    }

    /// Refuses one address for clients with TLS and without: loops share addresses, so the system would not refuse.
    fn check_addresses(&self) -> io::Result<()> {
        let tls = self.tls.as_ref().and_then(|tls| tls.beside);
        match tls.filter(|tls| *tls == self.address && tls.port() > 0) {
            None => Ok(()),
            Some(both) => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!("{both} is for clients with TLS and without: give them two ports"),
            )),
        }
    }

    /// All addresses for clients.
    fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let tls = self.tls.as_ref().and_then(|tls| tls.beside);
        std::iter::once(self.address).chain(tls)
    }

    /// The configuration at these addresses.
    fn with_addresses(&self, at: LoopAddresses) -> Self {
        let mut config = Self { address: at.address, ..self.clone() };
        debug_assert!(
            at.tls.is_none() || config.tls.is_some(),
            "W20: an address for TLS has a configuration"
        );
        if let Some(tls) = &mut config.tls {
            tls.beside = at.tls;
        }
        config
    }

    /// The configuration with TLS for all clients, if the configuration has no TLS of its own.
    #[must_use]
    pub fn with_tls(self, tls: Option<TlsConfig>) -> Self {
        let tls = self.tls.or(tls.map(|config| ServerTls { config, beside: None }));
        Self { tls, ..self }
    }

    fn has_ended(&self) -> bool {
        // Relaxed: the flag guards no data.
        self.ended.is_some_and(|ended| ended.load(Ordering::Relaxed))
    }
}

/// Descriptors that clients leave to the log, to checkpoints and to the loops themselves; half of all descriptors if
/// there are fewer. A log that cannot make its next file goes on in its current file, and the file grows.
const DESCRIPTORS_RESERVED: usize = 128;

/// Limits of a loop's connections, from the descriptors that this process may have.
fn limits(&ServerConfig { loops, idle, keepalive, .. }: &ServerConfig) -> NetLimits {
    let descriptors = raise_descriptors_max();
    let for_clients = descriptors - DESCRIPTORS_RESERVED.min(descriptors / 2);
    let connections_max = (for_clients / loops.max(1)).clamp(1, LIMITS.connections_max);
    debug_assert!(
        connections_max == 1 || connections_max * loops <= for_clients,
        "clients leave the log its descriptors"
    );
    NetLimits { connections_max, idle, keepalive, ..LIMITS }
}

/// Figures of a server at the moment of a call.
pub type FiguresNow = Arc<dyn Fn() -> ServerFigures + Send + Sync>;

/// A server that listens.
#[derive(Clone, Copy)]
pub struct ListeningServer<'s> {
    /// Address of the listener.
    pub address: SocketAddr,
    /// Address of the listener for clients with TLS, if it is another one.
    pub tls_address: Option<SocketAddr>,
    /// Transport of the sockets; for a second choice also the reason.
    pub transport: &'s str,
    /// Memory of all clients together, in bytes; `None` is no limit.
    pub client_memory: Option<usize>,
    /// Handle that ends the server.
    pub stop: &'s ServerStop,
    /// Figures of the server, for any thread.
    pub figures: &'s FiguresNow,
}

impl std::fmt::Debug for ListeningServer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListeningServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Ends a server from any thread, as a client's request for the end does.
#[derive(Clone)]
pub struct ServerStop(Arc<dyn Fn() + Send + Sync>);

impl ServerStop {
    fn of_loops<S: ServedProgram>(
        state: &Arc<ServingState<S>>,
        wake_ups: &Arc<Mutex<Vec<LoopWakeUp>>>,
    ) -> Self {
        let (state, wake_ups) = (Arc::clone(state), Arc::clone(wake_ups));
        Self(Arc::new(move || {
            state.stop();
            wake_ups.lock().iter().for_each(LoopWakeUp::wake);
        }))
    }

    /// Ends the server: the server makes everything durable, and sends the replies that wait.
    pub fn stop(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for ServerStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerStop")
    }
}

type MachineLoop<S> = ServingLoop<MachineTransport, S>;

/// Addresses of a loop and its wake-up, sent once the loop listens.
type Begun = io::Result<(LoopAddresses, LoopWakeUp)>;

/// Addresses of a loop's listeners.
#[derive(Clone, Copy)]
struct LoopAddresses {
    address: SocketAddr,
    tls: Option<SocketAddr>,
}

/// A thread that tells people notices: a notice may block until it has a reader.
struct Teller {
    /// Taken at the end: the thread ends after the notices sent before.
    sender: Arc<Mutex<Option<mpsc::SyncSender<String>>>>,
    ended: mpsc::Receiver<()>,
}

/// Largest number of notices that wait without a reader. Later notices are dropped, and the next notice reports the
/// number of dropped notices.
const NOTICES_WAITING: usize = 64;

const _: () = assert!(NOTICES_WAITING > 0, "W15: a notice is handed over without a wait");

/// Longest wait at the end for the remaining notices: a notice may block.
const TELL_WAIT: Duration = Duration::from_secs(1);

impl Teller {
    fn start(tell: fn(&str)) -> io::Result<Self> {
        let ((sender, notices), (ending, ended)) =
            (mpsc::sync_channel::<String>(NOTICES_WAITING), mpsc::channel());
        std::thread::Builder::new().name("ensile-tell".to_owned()).spawn(move || {
            // Dropped at the thread's end, a panic included.
            let _ending: mpsc::Sender<()> = ending;
            for notice in &notices {
                // W15: a notice that panics, such as at an output that has gone, ends neither this thread nor later
                // notices. The panic hook has reported the panic.
                let _ = catch_unwind(|| tell(&notice));
            }
        })?;
        Ok(Self { sender: Arc::new(Mutex::new(Some(sender))), ended })
    }

    /// Returns a function that hands a notice over without a wait.
    fn tell(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let (sender, dropped) = (Arc::clone(&self.sender), Mutex::new(0));
        move |notice| {
            let (sender, mut dropped) = (sender.lock(), dropped.lock());
            let Some(sender) = &*sender else { return };
            let before = match *dropped {
                0 => String::new(),
                count => format!(" ({count} notices before it found nobody who read them)"),
            };
            match sender.try_send(format!("{notice}{before}")) {
                Ok(()) => *dropped = 0,
                // The queue has no reader.
                Err(_) => *dropped += 1,
            }
        }
    }

    /// Waits until every notice is told, for [`TELL_WAIT`] at most.
    fn end(self) {
        drop(self.sender.lock().take());
        let _ = self.ended.recv_timeout(TELL_WAIT);
    }
}

/// Calls the function at its drop, a panic included.
struct CallAtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for CallAtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Serves until a client asks for the end, `ended` is set, or a loop fails. `ready` gets the address.
///
/// # Errors
/// The system's error for the address or for a wait; the panic of a loop, with its text; or not everything could be
/// made durable.
pub fn serve<S: ServedProgram>(
    service: Arc<S>,
    config: ServerConfig,
    ready: impl FnOnce(ListeningServer<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let teller = Teller::start(config.tell)?;
    let state = ServingState::new(service, Clock::machine())
        .with_notice_handler(teller.tell())
        .with_client_memory(config.client_memory)
        .with_end_flag(config.ended);
    let (state, wake_ups) = (Arc::new(state), Arc::new(Mutex::new(Vec::<LoopWakeUp>::new())));
    config.check_addresses()?;
    for address in config.addresses() {
        free_soon(TAKEN_WAIT, || check_free(address))?;
    }
    let limits = limits(&config);
    let counts = Arc::clone(&state);
    let _trimmer = HeapTrimmer::start(move |least| counts.take_fallen_bytes(least).is_some())?;
    let stop = ServerStop::of_loops(&state, &wake_ups);
    let end_all = || stop.stop();
    let served = std::thread::scope(|scope| {
        let tls = config.tls.as_ref().and_then(|tls| tls.beside);
        let (mut at, mut threads) = (LoopAddresses { address: config.address, tls }, Vec::new());
        let mut begun = Ok(());
        for _ in 0..config.loops.max(1) {
            let (tell, told) = mpsc::channel();
            let (state, end_all) = (&state, &end_all);
            let config = config.with_addresses(at);
            let work = move || {
                let _end = CallAtEnd(end_all);
                one_loop(state, &config, limits, &tell)
            };
            let spawned = loop_thread().spawn_scoped(scope, work).map(|thread| threads.push(thread));
            // The first loop finds the port, further loops share the port.
            match spawned.and_then(|()| told.recv().map_err(io::Error::other)?) {
                Ok((bound, wake_up)) => {
                    at = bound;
                    wake_ups.lock().push(wake_up);
                }
                Err(error) => begun = Err(error),
            }
        }
        debug_assert!(
            begun.is_err() || wake_ups.lock().len() == threads.len(),
            "W14: the end wakes every loop"
        );
        let begun = begun.and_then(|()| {
            let transport = state.transports();
            let counted = Arc::clone(&state);
            let figures: FiguresNow = Arc::new(move || counted.figures());
            ready(ListeningServer {
                address: at.address,
                tls_address: at.tls,
                transport: &transport,
                client_memory: config.client_memory,
                stop: &stop,
                figures: &figures,
            })
        });
        if begun.is_err() {
            end_all();
        }
        threads
            .into_iter()
            .fold(begun, |outcome, thread| outcome.and(thread.join().unwrap_or_else(loop_panic_error)))
    });
    teller.end();
    // A failed loop has not closed. A second close returns the result of the first.
    served.and(state.service.durable_epochs().close().map_err(io::Error::other))
}

/// Binds a Unix socket, for [`ServerConfig::unix`]. The file of a killed server is replaced, once the kernel has ended
/// the sockets of that server.
///
/// # Errors
/// The system's error: another server listens there, or another file is there.
pub fn bind_unix_socket(path: &Path) -> io::Result<UnixSocket> {
    free_soon(TAKEN_WAIT, || UnixSocket::bind(path))
}

/// Properties of a loop's thread.
fn loop_thread() -> std::thread::Builder {
    std::thread::Builder::new().name("ensile-loop".to_owned()).stack_size(LOOP_STACK_BYTES)
}

/// Checks until the address is free, for at most `wait`. The sockets of a killed process may keep the address until the
/// kernel has ended the io_uring of the process.
///
/// # Errors
/// The last error of `check`.
fn free_soon<R>(wait: Duration, check: impl Fn() -> io::Result<R>) -> io::Result<R> {
    let clock = Clock::machine();
    loop {
        match check() {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && clock.nanos() < wait.as_nanos() as u64 =>
            {
                sleep(TAKEN_PAUSE);
            }
            answer => return answer,
        }
    }
}

/// Error of the server for a loop that panicked.
fn loop_panic_error(panic: Box<dyn Any + Send>) -> io::Result<()> {
    let why = panic_text(&*panic).unwrap_or("without a text");
    Err(io::Error::other(format!("a loop panicked ({why}), which ends the server: start it again")))
}

/// Listens at the addresses of a configuration.
fn listen_at_all<S: ServedProgram>(
    one: &mut MachineLoop<S>,
    config: &ServerConfig,
) -> io::Result<LoopAddresses> {
    let listen = if config.loops > 1 { ListenAddress::TcpShared } else { ListenAddress::Tcp };
    let mut listen_at = |address, tls: Option<&TlsConfig>| {
        let bound = match tls {
            None => one.listen(&listen(address))?,
            Some(tls) => one.listen_tls(&listen(address), tls.clone())?,
        };
        match bound {
            ListenAddress::Tcp(at) | ListenAddress::TcpShared(at) => Ok(at),
            ListenAddress::Unix(_) | ListenAddress::UnixShared(_) => {
                Err(io::Error::other("it listens elsewhere"))
            }
        }
    };
    let Some(ServerTls { config: tls, beside }) = &config.tls else {
        return Ok(LoopAddresses { address: listen_at(config.address, None)?, tls: None });
    };
    let of_address = beside.is_none().then_some(tls);
    let address = listen_at(config.address, of_address)?;
    let tls = beside.map(|beside| listen_at(beside, Some(tls))).transpose()?;
    debug_assert_ne!(Some(address), tls, "W20: no client without TLS gets to the address of TLS");
    Ok(LoopAddresses { address, tls })
}

/// Work of a thread: a loop, from its first step to its last.
fn one_loop<S: ServedProgram>(
    state: &Arc<ServingState<S>>,
    config: &ServerConfig,
    limits: NetLimits,
    tell: &mpsc::Sender<Begun>,
) -> io::Result<()> {
    let begin = || -> io::Result<_> {
        let transport = MachineTransport::new(config.transport)?;
        state.add_transport(transport.in_use());
        let mut one: MachineLoop<S> = ServingLoop::new(transport, Arc::clone(state), limits);
        if let Some(socket) = &config.unix {
            one.listen(&ListenAddress::UnixShared(socket.clone()))?;
        }
        let at = listen_at_all(&mut one, config)?;
        Ok((one, at))
    };
    let mut one = match begin() {
        Ok((one, at)) => {
            let _ = tell.send(Ok((at, one.wake_up())));
            one
        }
        Err(error) => {
            let _ = tell.send(Err(error));
            return Ok(());
        }
    };
    while one.step(WAIT)? && !config.has_ended() {}
    if state.begins_to_end() {
        (config.ending)();
    }
    // Waiting replies go out once everything is durable.
    let closed = state.service.durable_epochs().close();
    one.end()?;
    closed.map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
