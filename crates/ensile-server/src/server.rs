//! The server: a database behind redis' protocol, its settings, and its life.
//!
//! Neighbours: [`crate::served_database`] is served; [`crate::running`] serves on threads of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ensile::Database;
use ensile_base::random::Random;
use ensile_serving::threads::{ListeningServer, ServerConfig, TlsConfig};

use crate::access::{Password, User};
use crate::admin_port::{self, AdminConfig};
use crate::appendfsync::Appendfsync;
use crate::calendar::Calendar;
use crate::running::RunningServer;
use crate::running_load::LoadingServer;
use crate::scripts::{ProcedureCall, ProcedureError, Procedures, ReplyValue, ScriptTimes, millis_of};
use crate::served_database::{ServedDatabase, ServedSettings};
use crate::slow_log::{SLOW_REQUESTS, SLOW_REQUESTS_MAX, SLOWER_THAN_MICROS};

/// Settings of a server.
#[derive(Debug)]
pub struct ServerBuilder {
    db: Option<Database>,
    /// True if replies wait until they are durable, whatever `appendfsync` says.
    always_waits: bool,
    admin: Option<AdminConfig>,
    /// TLS of all clients.
    tls: Option<TlsConfig>,
    settings: ServedSettings,
}

impl ServerBuilder {
    /// Sets the moment at which replies go out. Clients change it with `CONFIG SET appendfsync`.
    #[must_use]
    pub fn appendfsync(mut self, appendfsync: Appendfsync) -> Self {
        self.settings.appendfsync = appendfsync;
        self
    }

    /// Makes every reply wait until the reply is durable, whatever `appendfsync` says. A database with a log that is
    /// not process-safe needs `true`: the death of the process could lose results that were replied at once.
    #[must_use]
    pub fn always_durable(mut self, always: bool) -> Self {
        self.always_waits = always;
        self
    }

    /// Sets the password that clients give with `AUTH`; an empty password is none.
    #[must_use]
    pub fn password(mut self, password: &[u8]) -> Self {
        self.settings.password = Password::new(password);
        self
    }

    /// Sets the users beside the user `default`, or with a `default` of other rights. Clients name a user by
    /// `AUTH name password`.
    #[must_use]
    pub fn users(mut self, users: Vec<User>) -> Self {
        self.settings.users = users;
        self
    }

    /// Refuses the removal of the password by `CONFIG SET requirepass ""`: for a server that other machines reach.
    #[must_use]
    pub fn keep_password(mut self, keeps: bool) -> Self {
        self.settings.keeps_password = keeps;
        self
    }

    /// Sets the effect of an error within `EXEC`: with `true` the whole transaction is rolled back, else the other
    /// commands keep their effect, as in redis.
    #[must_use]
    pub fn multi_rollback(mut self, rolls_back: bool) -> Self {
        self.settings.rolls_back = rolls_back;
        self
    }

    /// Sets the time of a script after which other clients of the same loop get `BUSY`, redis' `busy-reply-threshold`.
    /// The default is five seconds.
    #[must_use]
    pub fn busy_reply_threshold(self, time: Duration) -> Self {
        self.settings.script_times.set_busy_millis(millis_of(time));
        self
    }

    /// Sets the longest time of a script. A longer script ends with an error, and has no effect. The default is a
    /// minute.
    #[must_use]
    pub fn script_time_limit(self, longest: Duration) -> Self {
        self.settings.script_times.set_millis_max(millis_of(longest).max(1));
        self
    }

    /// Sets the time in microseconds from which a request is slow and stands in `SLOWLOG`; -1 notes no request. The
    /// default is 10,000.
    #[must_use]
    pub fn slowlog_log_slower_than(mut self, micros: i64) -> Self {
        self.settings.slow_micros = micros;
        self
    }

    /// Sets the number of slow requests that `SLOWLOG` keeps, [`SLOW_REQUESTS_MAX`](crate::SLOW_REQUESTS_MAX) at most.
    /// The default is 128.
    #[must_use]
    pub fn slowlog_max_len(mut self, requests: u64) -> Self {
        self.settings.slow_requests = requests.min(SLOW_REQUESTS_MAX);
        self
    }

    /// Registers a procedure, which clients call by `FCALL name numkeys key .. argument ..`. A later procedure of the
    /// same name replaces the procedure.
    ///
    /// A call is one transaction. The server calls the procedure again after a conflict, and a procedure that returns
    /// an error has no effect.
    ///
    /// ```
    /// use ensile_server::{ProcedureError, ReplyValue, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder(ensile::Database::in_memory()?).procedure("transfer", |call| {
    ///     let &[from, to] = call.keys() else { return Err(ProcedureError::Reply("ERR two keys".to_owned())) };
    ///     let &[sum] = call.arguments() else { return Err(ProcedureError::Reply("ERR a sum".to_owned())) };
    ///     let left = call.command(&[b"DECRBY", from, sum])?;
    ///     if matches!(left, ReplyValue::Integer(..0)) {
    ///         return Err(ProcedureError::Reply("POOR the account has less".to_owned()));
    ///     }
    ///     call.command(&[b"INCRBY", to, sum])
    /// });
    /// server.build()?.listen("127.0.0.1:0".parse()?)?.stop()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn procedure<F>(mut self, name: &str, procedure: F) -> Self
    where
        F: Fn(&mut ProcedureCall<'_, '_>) -> Result<ReplyValue, ProcedureError> + Send + Sync + 'static,
    {
        self.settings.procedures.insert(name, Arc::new(procedure));
        self
    }

    /// Sets the port for figures, health and the live page; `None` opens no port. The server's notices have the
    /// address.
    #[must_use]
    pub fn admin_port(mut self, admin: Option<AdminConfig>) -> Self {
        self.admin = admin;
        self
    }

    /// Lets clients with TLS in only, at the address of [`Server::listen`]. [`Server::serve`] has the setting in its
    /// configuration, which counts before this one. The setting needs the feature `tls`.
    ///
    /// ```no_run
    /// use ensile_server::{Server, TlsClients, TlsConfig, TlsPem};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (certificates, key) = (std::fs::read("server.crt")?, std::fs::read("server.key")?);
    /// let tls = TlsConfig::from_pem(&TlsPem {
    ///     certificates: &certificates,
    ///     key: &key,
    ///     client_authorities: None,
    ///     clients: TlsClients::NotAsked,
    /// })?;
    /// let db = ensile::Database::in_memory()?;
    /// let server = Server::builder(db).tls(Some(tls)).build()?.listen("127.0.0.1:6380".parse()?)?;
    /// # server.stop()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn tls(mut self, tls: Option<TlsConfig>) -> Self {
        self.tls = tls;
        self
    }

    /// Opens the tables of the served database.
    ///
    /// # Errors
    /// The database has tables of these names with other types, the password is longer than
    /// [`PASSWORD_BYTES_MAX`](crate::PASSWORD_BYTES_MAX), or two users have one name.
    pub fn build(self) -> ensile::Result<Server> {
        let (admin, tls) = (self.admin.clone(), self.tls.clone());
        Ok(Server { served: self.open()?, admin, tls })
    }

    /// Makes a server whose database is loaded while the server listens.
    ///
    /// # Errors
    /// As for [`build`](Self::build), but for the tables.
    pub fn build_loading(self) -> ensile::Result<LoadingServer> {
        let served = Arc::new(ServedDatabase::new(self.settings)?);
        Ok(LoadingServer { served, admin: self.admin, tls: self.tls })
    }

    pub(crate) fn open(self) -> ensile::Result<ServedDatabase> {
        let served = ServedDatabase::new(self.settings)?;
        if let Some(db) = self.db {
            served.open(db, self.always_waits)?;
        }
        Ok(served)
    }

    /// Sets the seed for the hash of keys in a new database.
    #[cfg(feature = "simulation")]
    pub(crate) fn hash_seed(mut self, seed: u64) -> Self {
        self.settings.hash_seed = seed;
        self
    }

    /// Sets the source of the time.
    #[cfg(feature = "simulation")]
    pub(crate) fn calendar(mut self, calendar: Calendar) -> Self {
        self.settings.calendar = calendar;
        self
    }
}

/// A database behind redis' protocol.
#[derive(Debug)]
pub struct Server {
    served: ServedDatabase,
    admin: Option<AdminConfig>,
    tls: Option<TlsConfig>,
}

impl Server {
    /// Begins the settings of a server for this database.
    ///
    /// ```
    /// use ensile_server::Server;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = ensile::Database::in_memory()?;
    /// let server = Server::builder(db).password(b"secret").build()?.listen("127.0.0.1:0".parse()?)?;
    /// println!("redis-cli -p {} -a secret", server.address().port());
    /// server.stop()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn builder(db: Database) -> ServerBuilder {
        ServerBuilder { db: Some(db), ..Self::builder_of_loading() }
    }

    /// Begins the settings of a server that loads its database while the server listens
    /// ([`build_loading`](ServerBuilder::build_loading)).
    #[must_use]
    pub fn builder_of_loading() -> ServerBuilder {
        let settings = ServedSettings {
            appendfsync: Appendfsync::default(),
            password: None,
            keeps_password: false,
            users: Vec::new(),
            rolls_back: false,
            calendar: Calendar::of_machine(),
            hash_seed: Random::unique_128() as u64,
            procedures: Procedures::default(),
            script_times: ScriptTimes::default(),
            slow_micros: SLOWER_THAN_MICROS,
            slow_requests: SLOW_REQUESTS,
        };
        ServerBuilder { db: None, always_waits: false, admin: None, tls: None, settings }
    }

    /// Serves on threads of its own, until [`RunningServer::stop`] or a client's `SHUTDOWN`.
    ///
    /// # Errors
    /// The system's error for the address or for the admin port.
    pub fn listen(self, address: SocketAddr) -> io::Result<RunningServer> {
        RunningServer::start(self.served, self.admin, self.tls, address)
    }

    /// Serves on this thread and on a thread for each further loop, until a client asks for the end, `config.ended` is
    /// set, or a loop fails. The database is closed then. `ready` gets the address.
    ///
    /// # Errors
    /// The system's error for the address or for a wait; the panic of a loop, with its text; or not everything could be
    /// made durable.
    pub fn serve(
        self,
        config: ServerConfig,
        ready: impl FnOnce(ListeningServer<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (served, tell, mut port) = (Arc::new(self.served), config.tell, None);
        let watched = Arc::clone(&served);
        ensile_serving::threads::serve(served, config.with_tls(self.tls), |server| {
            port = admin_port::open(self.admin.as_ref(), &watched, &server, tell)?;
            ready(server)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ensile::{Builder, Database, Durability};
    use ensile_serving::ServedProgram as _;
    use ensile_sim::SimDisk;

    use super::{Server, ServerBuilder};
    use crate::appendfsync::Appendfsync;

    fn on_disk() -> Builder {
        Database::builder("unused").disk(Arc::new(SimDisk::new()))
    }

    #[test]
    fn replies_wait_if_a_log_and_the_settings_want_it() {
        let process_safe = || on_disk().durability(Durability::Process);
        let everysec = |server: ServerBuilder| server.appendfsync(Appendfsync::Everysec);
        let always = |server: ServerBuilder| server.appendfsync(Appendfsync::Always);
        type Choose = fn(ServerBuilder) -> ServerBuilder;
        let cases: [(Builder, Choose, bool); 5] = [
            (process_safe(), always, true),
            (process_safe(), everysec, false),
            (on_disk(), |server| server.appendfsync(Appendfsync::Everysec).always_durable(true), true),
            (on_disk().without_log(), always, false),
            (Database::builder_in_memory(), always, false),
        ];
        for (number, (builder, choose, waits)) in cases.into_iter().enumerate() {
            let db = builder.open().expect("it opens");
            let served = choose(Server::builder(db)).build().expect("new tables").served;
            assert_eq!(served.waits_for_durability(), waits, "case {number}");
            served.set_appendfsync(Appendfsync::No);
            assert_eq!(served.waits_for_durability(), number == 2, "case {number}");
        }
    }
}
