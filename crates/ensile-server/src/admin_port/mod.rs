//! The admin port: figures for Prometheus, health, and a live page, by HTTP, read only.
//!
//! Invariants:
//! - The port is on loopback, and every request needs the password.
//! - A request names this machine in `Host`, so a foreign page cannot read figures through a browser.
//! - The port changes nothing, and no client of the database waits for the port.
//!
//! Neighbours: [`crate::Server`] starts the port; `figures` has the figures, `answer` the replies.

mod answer;
mod figures;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ensile_serving::threads::{FiguresNow, ListeningServer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use crate::access::Password;
use crate::served_database::ServedDatabase;

/// Largest number of connections at once. Further connections wait.
const CONNECTIONS_MAX: usize = 32;
/// Longest wait for the head of a request, and longest life of a connection without a request.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// Longest life of a connection.
const CONNECTION_LIFE: Duration = Duration::from_secs(600);
/// Largest head of a request in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Pause after a refused accept, such as without a free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Address and password of the admin port.
#[derive(Clone)]
pub struct AdminConfig {
    /// Address on loopback; port 0 is any free port.
    pub address: SocketAddr,
    /// Password of every request, by basic authentication. The user's name is any.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for AdminConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminConfig").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The sources of the answers.
pub(crate) struct AdminSource {
    pub(crate) served: Arc<ServedDatabase>,
    /// Figures of the server's loops at this moment.
    pub(crate) figures: FiguresNow,
    pub(crate) password: Password,
}

/// A running admin port. Its drop ends the port.
pub(crate) struct AdminPort {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Opens the admin port of a server that listens, if the port is wanted, and tells the address.
///
/// # Errors
/// As for [`AdminPort::start`].
pub(crate) fn open(
    config: Option<&AdminConfig>,
    served: &Arc<ServedDatabase>,
    server: &ListeningServer<'_>,
    tell: fn(&str),
) -> io::Result<Option<AdminPort>> {
    let Some(config) = config else { return Ok(None) };
    let port = AdminPort::start(config, Arc::clone(served), Arc::clone(server.figures))?;
    tell(&format!("admin port: http://{}/", port.address));
    Ok(Some(port))
}

impl AdminPort {
    /// Opens the port, and serves on a thread of its own.
    ///
    /// # Errors
    /// The address is not on loopback, the password is empty, or the system's error for the address.
    fn start(config: &AdminConfig, served: Arc<ServedDatabase>, figures: FiguresNow) -> io::Result<Self> {
        let refused = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if !config.address.ip().is_loopback() {
            return refused("the admin port is on loopback only: give 127.0.0.1 or ::1");
        }
        let Some(password) = Password::new(&config.password) else {
            return refused("the admin port needs a password");
        };
        let at = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("admin port {}: {error}; choose another address", config.address),
            )
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(config.address)).map_err(at)?;
        let address = listener.local_addr()?;
        let source = Arc::new(AdminSource { served, figures, password });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("ensile-admin".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, source) => {}
                }
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for AdminPort {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}

/// Accepts connections, until the port ends.
async fn accept(listener: TcpListener, source: Arc<AdminSource>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let source = Arc::clone(&source);
                tokio::spawn(async move {
                    serve(stream, &source).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves a connection. An error of the connection ends the connection only.
fn serve<'s>(stream: TcpStream, source: &'s Arc<AdminSource>) -> impl Future<Output = ()> + use<'s> {
    let service = service_fn(|request| {
        let reply = answer::answer(source, &request);
        async move { Ok::<_, Infallible>(reply) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT).max_buf_size(HEAD_BYTES_MAX);
    async move {
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let _ = tokio::time::timeout(CONNECTION_LIFE, connection).await;
    }
}
