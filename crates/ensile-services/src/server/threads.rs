//! A server's threads: a loop each, at one address among which the kernel deals connections out.
//!
//! Invariants:
//! - A loop that ends closes the objects, which makes everything durable, and sends the replies that wait for that.
//!   Another loop's requests are refused from then on, until it ends too.
//! - A loop that ends for whatever reason, a panic as well, ends the server, which returns that.
//! - W11: the transport in use, and why, is told before the address is.
//!
//! Neighbours: the `ensile-service` command and load generators run servers; [`super::ServiceLoop`] is a thread's work.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::panic_text;
use ensile_base::sync::{Mutex, Ordering, SignalFlag, sleep};
pub use ensile_net::TransportChoice;
use ensile_net::{ListenAddress, LoopWakeUp, MachineTransport, NetLimits, check_free, raise_descriptors_max};
use ensile_objects::ObjectDurability;

use super::{LIMITS, ServerState, ServiceLoop};
use crate::service::Service;

/// A loop without traffic looks up this often.
const WAIT: Duration = Duration::from_secs(1);

/// Longest wait for an address that another process has.
const TAKEN_WAIT: Duration = Duration::from_secs(2);
/// Pause between two questions for the address.
const TAKEN_PAUSE: Duration = Duration::from_millis(10);

/// How a server runs.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Where clients connect; port 0 is any free one.
    pub address: SocketAddr,
    /// With which the objects were opened. If it is strict, replies wait until they are durable.
    pub durability: ObjectDurability,
    /// Threads, with a loop each.
    pub loops: usize,
    /// How loops wait for their sockets.
    pub transport: TransportChoice,
    /// A client from which nothing came for this time, and to which no reply is owed, is disconnected. `None`: never.
    pub idle: Option<Duration>,
    /// A client that was silent for this time is asked by the kernel whether it is still there, and one that does not
    /// answer is disconnected ([`NetLimits::keepalive`]). `None`: none is asked.
    pub keepalive: Option<Duration>,
    /// What all clients may have together, in bytes: requests that have not come whole or wait, and replies that are
    /// not sent, beyond the first 64 KiB of each (W16). `None` is no limit.
    pub client_memory: Option<usize>,
    /// Once this is set, by a signal for instance, the server ends as if a client had asked for it.
    pub ended: Option<&'static SignalFlag>,
    /// Tells people what they are to know, when it happens: that the log has stopped, for instance, and what to do. It
    /// is called on a thread that does nothing else, so no client waits while it blocks, as on a pipe that nobody
    /// reads.
    pub tell: fn(&str),
}

impl ServerConfig {
    /// Looks whether a server could listen so: at this address, and by this transport. It is asked before a service's
    /// folder is opened, so that a start that is refused has changed nothing there.
    ///
    /// # Errors
    /// What the system says: choose another address, or another transport.
    pub fn check(&self) -> io::Result<()> {
        let at = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}; choose another address", self.address))
        };
        free_soon(TAKEN_WAIT, || check_free(self.address)).map_err(at)?;
        MachineTransport::new(self.transport).map(drop)
    }

    fn has_ended(&self) -> bool {
        // Relaxed: it carries nothing.
        self.ended.is_some_and(|ended| ended.load(Ordering::Relaxed))
    }
}

/// Descriptors that clients leave to the log, to checkpoints and to the loops themselves, or half of them where there
/// are fewer: a log that cannot make its next file goes on in the one that it has, and that grows.
const DESCRIPTORS_RESERVED: usize = 128;

/// What the connections of a loop may take, by the descriptors that this process may have.
fn limits(&ServerConfig { loops, idle, keepalive, .. }: &ServerConfig) -> NetLimits {
    let descriptors = raise_descriptors_max();
    let for_clients = descriptors - DESCRIPTORS_RESERVED.min(descriptors / 2);
    let connections_max = (for_clients / loops.max(1)).clamp(1, LIMITS.connections_max);
    NetLimits { connections_max, idle, keepalive, ..LIMITS }
}

/// A server that listens.
#[derive(Clone, Copy, Debug)]
pub struct ReadyServer<'s> {
    /// Where.
    pub address: SocketAddr,
    /// The transport of its sockets; if that is not the first choice, also why.
    pub transport: &'s str,
    /// What the life before had returned and nothing proves here, with what to do, if there is something (B4).
    pub not_proven: Option<&'s str>,
    /// That the folder had no name of an application, and which one it got with this start, if that is so (I5).
    pub name_given: Option<&'s str>,
    /// Why no checkpoint keeps the recovery time that was asked for, with the figure, if that is so.
    pub unreachable: Option<&'s str>,
    /// What all clients may have together, in bytes; `None` is no limit.
    pub client_memory: Option<usize>,
}

type MachineLoop<S> = ServiceLoop<MachineTransport, S>;

/// Where a loop listens, and what ends its wait; told once it does.
type Begun = io::Result<(SocketAddr, LoopWakeUp)>;

/// A thread that tells people: what they listen by may block for as long as nobody reads it.
struct Teller {
    /// Taken at the end: the thread ends with what was sent before.
    sender: Arc<Mutex<Option<mpsc::SyncSender<String>>>>,
    ended: mpsc::Receiver<()>,
}

/// Notices that wait while nobody reads, at most. Later ones are dropped, and the next one that is told says how many.
const NOTICES_WAITING: usize = 64;

/// What is still to be told at the end is waited for this long: it may block.
const TELL_WAIT: Duration = Duration::from_secs(1);

impl Teller {
    fn start(tell: fn(&str)) -> io::Result<Self> {
        let ((sender, notices), (ending, ended)) =
            (mpsc::sync_channel::<String>(NOTICES_WAITING), mpsc::channel());
        std::thread::Builder::new().name("ensile-tell".to_owned()).spawn(move || {
            // Dropped at its end, also if that is a panic.
            let _ending: mpsc::Sender<()> = ending;
            for notice in &notices {
                // W15: one that panics, such as at an output that has gone, ends neither this thread nor those behind
                // it. The panic hook has reported it.
                let _ = catch_unwind(|| tell(&notice));
            }
        })?;
        Ok(Self { sender: Arc::new(Mutex::new(Some(sender))), ended })
    }

    /// What hands a notice over, and does not wait.
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
                // Nobody reads.
                Err(_) => *dropped += 1,
            }
        }
    }

    /// Waits until all is told, or for a moment.
    fn end(self) {
        drop(self.sender.lock().take());
        let _ = self.ended.recv_timeout(TELL_WAIT);
    }
}

/// Calls this when it goes, also if that is by a panic.
struct CallAtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for CallAtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Serves until a client asks for the end, or a loop fails. `ready` is told where it listens.
///
/// # Errors
/// What the system says of the address or of a wait; that a loop panicked, and why; or that not everything could be
/// made durable.
pub fn serve<S: Service>(
    service: Arc<S>,
    config: ServerConfig,
    ready: impl FnOnce(ReadyServer<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let teller = Teller::start(config.tell)?;
    let state = ServerState::new(service, config.durability, Clock::machine())
        .telling(teller.tell())
        .with_client_memory(config.client_memory);
    let (state, wake_ups) = (Arc::new(state), Mutex::new(Vec::new()));
    free_soon(TAKEN_WAIT, || check_free(config.address))?;
    let limits = limits(&config);
    let end_all = || {
        state.stop();
        wake_ups.lock().iter().for_each(LoopWakeUp::wake);
    };
    let served = std::thread::scope(|scope| {
        let (mut address, mut threads) = (config.address, Vec::new());
        let mut begun = Ok(());
        for _ in 0..config.loops.max(1) {
            let (tell, told) = mpsc::channel();
            let (state, end_all) = (&state, &end_all);
            threads.push(scope.spawn(move || {
                let _end = CallAtEnd(end_all);
                one_loop(state, ServerConfig { address, ..config }, limits, &tell)
            }));
            // The first finds the port, the others share it.
            match told.recv().map_err(io::Error::other).and_then(|begun| begun) {
                Ok((at, wake_up)) => {
                    address = at;
                    wake_ups.lock().push(wake_up);
                }
                Err(error) => begun = Err(error),
            }
        }
        let begun = begun.and_then(|()| {
            let (transport, unreachable) = (state.transports(), state.unreachable());
            let (not_proven, name_given) = (state.not_proven(), state.name_given());
            ready(ReadyServer {
                address,
                transport: &transport,
                not_proven: not_proven.as_deref(),
                name_given: name_given.as_deref(),
                unreachable: unreachable.as_deref(),
                client_memory: config.client_memory,
            })
        });
        if begun.is_err() {
            end_all();
        }
        threads.into_iter().fold(begun, |outcome, thread| outcome.and(thread.join().unwrap_or_else(panicked)))
    });
    teller.end();
    // A loop that has failed has not closed. A second close returns what the first has.
    served.and(state.service.kept().close().map_err(io::Error::other))
}

/// Asks until the address is free, for at most `wait`. The sockets of a killed process may keep the address until the
/// kernel has ended the io_uring of the process.
///
/// # Errors
/// The last answer of `check`.
fn free_soon(wait: Duration, check: impl Fn() -> io::Result<()>) -> io::Result<()> {
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

/// What the server returns of a loop that panicked.
fn panicked(panic: Box<dyn Any + Send>) -> io::Result<()> {
    let why = panic_text(&*panic).unwrap_or("without a text");
    Err(io::Error::other(format!("a loop panicked ({why}), which ends the server: start it again")))
}

/// A thread's work: a loop, from its first step to its last.
fn one_loop<S: Service>(
    state: &Arc<ServerState<S>>,
    config: ServerConfig,
    limits: NetLimits,
    tell: &mpsc::Sender<Begun>,
) -> io::Result<()> {
    let begin = || {
        let transport = MachineTransport::new(config.transport)?;
        state.add_transport(transport.in_use());
        let mut one: MachineLoop<S> = ServiceLoop::new(transport, Arc::clone(state), limits);
        let is_shared = config.loops > 1;
        let listen = if is_shared { ListenAddress::TcpShared } else { ListenAddress::Tcp };
        match one.listen(&listen(config.address))? {
            ListenAddress::Tcp(at) | ListenAddress::TcpShared(at) => Ok((one, at)),
            ListenAddress::Unix(_) => Err(io::Error::other("it listens elsewhere")),
        }
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
    // Replies that wait go out once everything is durable.
    let closed = state.service.kept().close();
    one.end()?;
    closed.map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
