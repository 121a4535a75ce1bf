//! A loop of sockets and timers: a loop per thread, driven by steps, over a transport that a test can replace.
//!
//! The crate serves servers. A loop moves bytes and keeps order, and has no protocol: a codec such as `ensile-resp`
//! reads the bytes of [`NetLoop::parts`]. A reply may be *parked*: its place is reserved when the request is read, and
//! is filled when the result may be shown, for instance once the result is durable. Later replies wait, so a client
//! gets replies in the order of its requests.
//!
//! Promises, by the names of `docs/internals/protocols/net.md`: W1 (order), W2 (bounded memory), W3 (nobody waits
//! unheard), W4 (one client holds up no other), W5 (errors of accepting do not spin), W6 to W10 (operations in flight),
//! W13 and W14 (the last words are heard), W15 (no panic crosses), W16 (a limit over all loops). io_uring or epoll
//! waits for the machine's sockets ([`MachineTransport`], W11). A listener may take clients with TLS only (W20).
//!
//! ```
//! use ensile_base::clock::Clock;
//! use ensile_net::{ListenAddress, MachineTransport, NetEvent, NetLimits, NetLoop, TransportChoice};
//!
//! let transport = MachineTransport::new(TransportChoice::Auto)?;
//! println!("sockets by {}", transport.in_use());
//! let mut net = NetLoop::new(transport, Clock::machine(), NetLimits::default());
//! let address = net.listen(&ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address")))?;
//! # let ListenAddress::Tcp(address) = address else { unreachable!() };
//! # let mut client = std::net::TcpStream::connect(address)?;
//! # std::io::Write::write_all(&mut client, b"hello")?;
//! # let mut heard = false;
//! # while !heard {
//! net.step(std::time::Duration::from_millis(100))?;
//! while let Some(event) = net.next_event() {
//!     if let NetEvent::Received(connection) = event {
//!         // An echo: every byte is a request, which its reply repeats.
//!         let Some((received, replies)) = net.parts(connection) else { continue };
//!         replies.reply(|buffer| buffer.extend_from_slice(received));
//!         let bytes = received.len();
//!         net.consume(connection, bytes);
//! #       heard = true;
//!     }
//! }
//! # }
//! # net.step(std::time::Duration::ZERO)?;
//! # let mut echo = [0; 5];
//! # std::io::Read::read_exact(&mut client, &mut echo)?;
//! # assert_eq!(&echo, b"hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//!
//! Neighbours: `ensile-base` for clocks. Above, a server owns the thread that calls [`NetLoop::step`].
//!
//! `unsafe` is permitted only in `uring`'s modules of memory and of the kernel's queues.
#![deny(unsafe_code)]

mod connection;
mod epoll;
mod event;
mod limits;
mod memory;
mod net_loop;
mod replies;
#[cfg(any(
    feature = "simulation",
    all(
        feature = "io-uring",
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )
))]
mod ring_sockets;
mod service_manager;
#[cfg(feature = "simulation")]
pub mod simulation;
mod sockets;
mod timers;
mod tls;
mod transport;
mod transport_choice;
mod unix_socket;
#[cfg(all(
    feature = "io-uring",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod uring;

pub use connection::LentBytes;
pub use epoll::Epoll;
pub use event::{CloseReason, ConnectionId, NetEvent, TlsFailure};
pub use limits::NetLimits;
pub use memory::ConnectionMemory;
#[cfg(feature = "simulation")]
pub use net_loop::check::CheckedLoop;
pub use net_loop::{NetLoop, NetStats};
pub use replies::{ReplyQueue, ReplySlot};
pub use service_manager::notify_service_manager;
pub use sockets::{KEEPALIVE_PROBES, KEEPALIVE_SECONDS_MAX, check_free, raise_descriptors_max};
pub use timers::TimerId;
pub use tls::{TlsClients, TlsConfig, TlsConfigError, TlsPart, TlsPem};
#[cfg(feature = "simulation")]
pub use transport::TransportHoldings;
pub use transport::{ConnectionEnds, ListenAddress, LoopWakeUp, Readiness, SocketToken, Transport};
pub use transport_choice::{MachineTransport, TransportChoice};
pub use unix_socket::UnixSocket;
#[cfg(all(
    feature = "io-uring",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
pub use uring::IoUring;
