//! Settings of `ensile serve`, and their sources.
//!
//! Invariants:
//! - A setting of the options counts before the environment, and the environment before the configuration file.
//! - Every parameter of [`PARAMETERS`] has one name, which the option, the variable and the file share.
//! - A start has a password, or an address on loopback.
//!
//! Neighbours: [`super::config_file`] has the file's lines; [`super::values`] reads values.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ensile_server::{AdminConfig, Appendfsync, ServerTls, TlsClients, User};
use ensile_serving::program::{duration_of, find_address};
use ensile_serving::{CLIENT_MEMORY_BYTES, KEEPALIVE_SECONDS};

use super::config_file::{ConfigLine, config_lines};
use super::tls_files::TlsFiles;
use super::values::{self, PasswordSource, Secret};

/// Redis' port.
const PORT: u16 = 6379;
/// Variable with the name of the configuration file.
const CONFIG_VARIABLE: &str = "ENSILE_CONFIG";

/// Settings of one source: the options, the environment, or the configuration file.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct GivenSettings {
    /// Folder of the database; a missing folder is made [default: data]
    #[arg(long, value_name = "DIR", value_parser = values::folder)]
    data: Option<PathBuf>,
    /// Port for clients; 0 is any free port [default: 6379]
    #[arg(long, value_parser = values::port)]
    port: Option<u16>,
    /// Port for clients with TLS; 0 is none. With a port here, `port 0` is no port for clients without TLS [default: 0]
    #[arg(long, value_name = "PORT", value_parser = values::port_or_none)]
    tls_port: Option<u16>,
    /// File with the server's certificate in PEM form, for tls-port
    #[arg(long, value_name = "FILE", value_parser = values::folder)]
    tls_cert_file: Option<PathBuf>,
    /// File with the private key of the certificate in PEM form
    #[arg(long, value_name = "FILE", value_parser = values::folder)]
    tls_key_file: Option<PathBuf>,
    /// File with certificates of the authorities whose certificates clients have, in PEM form
    #[arg(long, value_name = "FILE", value_parser = values::folder)]
    tls_ca_cert_file: Option<PathBuf>,
    /// yes: a client needs a certificate. optional: a client may have one. no: no client is asked [default: yes with
    /// tls-ca-cert-file, else no]
    #[arg(long, value_name = "yes|no|optional", value_parser = values::tls_clients)]
    tls_auth_clients: Option<TlsClients>,
    /// Address for clients. An address that other machines reach needs a password [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_parser = values::host)]
    bind: Option<String>,
    /// Threads that serve, with a loop each [default: one for each core]
    #[arg(long, value_parser = values::loops)]
    loops: Option<usize>,
    /// File whose first line is the password of clients
    #[arg(long = "requirepass-file", value_name = "FILE", value_parser = values::password_file)]
    password: Option<PasswordSource>,
    /// File with lines `user NAME RULE ..`, which the configuration file may have too
    #[arg(long, value_name = "FILE", value_parser = values::folder)]
    users: Option<PathBuf>,
    /// Unix socket for clients of this machine, beside the port
    #[arg(long, value_name = "PATH", value_parser = values::folder)]
    unixsocket: Option<PathBuf>,
    /// Permissions of the Unix socket's file, as 700 [default: as the umask says]
    #[arg(long, value_name = "MODE", value_parser = values::file_mode)]
    unixsocketperm: Option<u32>,
    /// Port on 127.0.0.1 for figures, health and the live page; 0 is any free port. It needs a password of its own
    #[arg(long, value_name = "PORT", value_parser = values::port)]
    admin_port: Option<u16>,
    /// File whose first line is the password of the admin port
    #[arg(long = "admin-password-file", value_name = "FILE", value_parser = values::password_file)]
    admin_password: Option<PasswordSource>,
    /// Users of the configuration file.
    #[arg(skip)]
    listed_users: Vec<User>,
    /// yes: log every change. no: log nothing; only checkpoints are durable, and the changes since the last checkpoint
    /// are lost when the process is killed [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = values::yes_or_no)]
    appendonly: Option<bool>,
    /// When replies are sent. always: once the result is on disk. everysec, no: at once; the death of the process loses
    /// nothing that was replied, a crash of the machine the last fraction of a second [default: always]
    #[arg(long, value_name = "always|everysec|no", value_parser = values::appendfsync)]
    appendfsync: Option<Appendfsync>,
    /// Largest memory of the data, as 4gb; 0 is no limit. At the limit writes get an OOM error, and reads and deletes
    /// go on [default: 0]
    #[arg(long, value_name = "BYTES", value_parser = values::memory_bytes)]
    maxmemory: Option<usize>,
    /// noeviction: nothing is evicted [default: noeviction]
    #[arg(long, value_name = "noeviction", value_parser = values::memory_policy)]
    maxmemory_policy: Option<()>,
    /// Largest memory of all clients' requests and replies together, as 1gb; 0 is no limit. Above the limit the client
    /// with the most memory is disconnected [default: 1gb]
    #[arg(long, value_name = "BYTES", value_parser = values::memory_bytes)]
    maxmemory_clients: Option<usize>,
    /// Disconnect a client after so many seconds without input; 0 is never [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = values::idle_seconds)]
    timeout: Option<u64>,
    /// Probe a client after so many seconds of silence; 0 is never [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = values::keepalive_seconds)]
    tcp_keepalive: Option<u64>,
    /// yes: an error within EXEC rolls the whole transaction back. no: the other commands keep their effect, as in
    /// redis [default: no]
    #[arg(long, value_name = "yes|no", value_parser = values::yes_or_no)]
    multi_rollback: Option<bool>,
    /// Milliseconds of a script after which other clients of its thread get BUSY [default: 5000]
    #[arg(long, value_name = "MILLISECONDS", value_parser = values::script_millis)]
    busy_reply_threshold: Option<Duration>,
    /// End a script with an error after so many milliseconds [default: 60000]
    #[arg(long, value_name = "MILLISECONDS", value_parser = values::script_millis)]
    script_time_limit: Option<Duration>,
    /// Note requests that take so many microseconds for SLOWLOG; -1 notes none [default: 10000]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true, value_parser = values::slow_micros)]
    slowlog_log_slower_than: Option<i64>,
    /// Keep so many slow requests [default: 128]
    #[arg(long, value_name = "NUMBER", value_parser = values::slow_requests)]
    slowlog_max_len: Option<u64>,
}

/// A setting by its name.
struct Parameter {
    name: &'static str,
    /// Environment variable.
    variable: &'static str,
    set: fn(&mut GivenSettings, &str) -> Result<(), String>,
}

/// All settings that a file or the environment may have.
const PARAMETERS: [Parameter; 31] = [
    parameter("data", "ENSILE_DATA", |given, text| put(&mut given.data, values::folder(text))),
    // Redis' name of the folder.
    parameter("dir", "ENSILE_DIR", |given, text| put(&mut given.data, values::folder(text))),
    parameter("port", "ENSILE_PORT", |given, text| put(&mut given.port, values::port(text))),
    parameter("tls-port", "ENSILE_TLS_PORT", |given, text| {
        put(&mut given.tls_port, values::port_or_none(text))
    }),
    parameter("tls-cert-file", "ENSILE_TLS_CERT_FILE", |given, text| {
        put(&mut given.tls_cert_file, values::folder(text))
    }),
    parameter("tls-key-file", "ENSILE_TLS_KEY_FILE", |given, text| {
        put(&mut given.tls_key_file, values::folder(text))
    }),
    parameter("tls-ca-cert-file", "ENSILE_TLS_CA_CERT_FILE", |given, text| {
        put(&mut given.tls_ca_cert_file, values::folder(text))
    }),
    parameter("tls-auth-clients", "ENSILE_TLS_AUTH_CLIENTS", |given, text| {
        put(&mut given.tls_auth_clients, values::tls_clients(text))
    }),
    parameter("bind", "ENSILE_BIND", |given, text| put(&mut given.bind, values::host(text))),
    parameter("loops", "ENSILE_LOOPS", |given, text| put(&mut given.loops, values::loops(text))),
    parameter("requirepass", "ENSILE_PASSWORD", |given, text| {
        put(&mut given.password, values::password(text))
    }),
    parameter("requirepass-file", "ENSILE_REQUIREPASS_FILE", |given, text| {
        put(&mut given.password, values::password_file(text))
    }),
    parameter("users", "ENSILE_USERS", |given, text| put(&mut given.users, values::folder(text))),
    parameter("unixsocket", "ENSILE_UNIXSOCKET", |given, text| {
        put(&mut given.unixsocket, values::folder(text))
    }),
    parameter("unixsocketperm", "ENSILE_UNIXSOCKETPERM", |given, text| {
        put(&mut given.unixsocketperm, values::file_mode(text))
    }),
    parameter("admin-port", "ENSILE_ADMIN_PORT", |given, text| {
        put(&mut given.admin_port, values::port(text))
    }),
    parameter("admin-password", "ENSILE_ADMIN_PASSWORD", |given, text| {
        put(&mut given.admin_password, values::password(text))
    }),
    parameter("admin-password-file", "ENSILE_ADMIN_PASSWORD_FILE", |given, text| {
        put(&mut given.admin_password, values::password_file(text))
    }),
    parameter("appendonly", "ENSILE_APPENDONLY", |given, text| {
        put(&mut given.appendonly, values::yes_or_no(text))
    }),
    parameter("appendfsync", "ENSILE_APPENDFSYNC", |given, text| {
        put(&mut given.appendfsync, values::appendfsync(text))
    }),
    parameter("maxmemory", "ENSILE_MAXMEMORY", |given, text| {
        put(&mut given.maxmemory, values::memory_bytes(text))
    }),
    parameter("maxmemory-policy", "ENSILE_MAXMEMORY_POLICY", |given, text| {
        put(&mut given.maxmemory_policy, values::memory_policy(text))
    }),
    parameter("maxmemory-clients", "ENSILE_MAXMEMORY_CLIENTS", |given, text| {
        put(&mut given.maxmemory_clients, values::memory_bytes(text))
    }),
    parameter("timeout", "ENSILE_TIMEOUT", |given, text| put(&mut given.timeout, values::idle_seconds(text))),
    parameter("tcp-keepalive", "ENSILE_TCP_KEEPALIVE", |given, text| {
        put(&mut given.tcp_keepalive, values::keepalive_seconds(text))
    }),
    parameter("multi-rollback", "ENSILE_MULTI_ROLLBACK", |given, text| {
        put(&mut given.multi_rollback, values::yes_or_no(text))
    }),
    parameter("busy-reply-threshold", "ENSILE_BUSY_REPLY_THRESHOLD", |given, text| {
        put(&mut given.busy_reply_threshold, values::script_millis(text))
    }),
    // Redis' earlier name of the threshold.
    parameter("lua-time-limit", "ENSILE_LUA_TIME_LIMIT", |given, text| {
        put(&mut given.busy_reply_threshold, values::script_millis(text))
    }),
    parameter("script-time-limit", "ENSILE_SCRIPT_TIME_LIMIT", |given, text| {
        put(&mut given.script_time_limit, values::script_millis(text))
    }),
    parameter("slowlog-log-slower-than", "ENSILE_SLOWLOG_LOG_SLOWER_THAN", |given, text| {
        put(&mut given.slowlog_log_slower_than, values::slow_micros(text))
    }),
    parameter("slowlog-max-len", "ENSILE_SLOWLOG_MAX_LEN", |given, text| {
        put(&mut given.slowlog_max_len, values::slow_requests(text))
    }),
];

const fn parameter(
    name: &'static str,
    variable: &'static str,
    set: fn(&mut GivenSettings, &str) -> Result<(), String>,
) -> Parameter {
    Parameter { name, variable, set }
}

fn put<T>(place: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *place = Some(value?);
    Ok(())
}

impl GivenSettings {
    /// Settings of the environment. Variables of other names are not looked at.
    ///
    /// # Errors
    /// A variable is empty, no text, or has an impossible value.
    fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let mut given = Self::default();
        for Parameter { variable: name, set, .. } in &PARAMETERS {
            let Some(text) = variable(name) else { continue };
            let text = text.into_string().map_err(|_| format!("{name}: the value is no text in UTF-8"))?;
            if text.is_empty() {
                return Err(format!("{name} is empty: give a value, or unset the variable"));
            }
            set(&mut given, &text).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(given)
    }

    /// Settings of a configuration file with this text. Of two lines with the same name the later line counts.
    ///
    /// # Errors
    /// A line has an unknown name or an impossible value. The text has the file, the line and the remedy.
    fn of_file(file: &Path, text: &str) -> Result<Self, String> {
        let at_line = |number: usize, why: &str| format!("{}:{number}: {why}", file.display());
        let mut given = Self::default();
        let lines = config_lines(text).map_err(|error| at_line(error.number, &error.reason))?;
        for ConfigLine { number, name, values } in &lines {
            if name == USER_LINE {
                given.listed_users.push(user_of(values).map_err(|why| at_line(*number, &why))?);
                continue;
            }
            let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == name) else {
                let nearest = nearest_name(name);
                return Err(at_line(
                    *number,
                    &format!("unknown name '{name}'; the nearest name is '{nearest}'"),
                ));
            };
            let [value] = &values[..] else {
                return Err(at_line(
                    *number,
                    &format!(
                        "'{name}' takes one value: quote a value with spaces, and give a comment its own line"
                    ),
                ));
            };
            (parameter.set)(&mut given, value)
                .map_err(|why| at_line(*number, &format!("'{name}': {why}")))?;
        }
        Ok(given)
    }

    /// These settings, completed by settings of a source that counts less.
    fn or(self, other: Self) -> Self {
        Self {
            data: self.data.or(other.data),
            port: self.port.or(other.port),
            tls_port: self.tls_port.or(other.tls_port),
            tls_cert_file: self.tls_cert_file.or(other.tls_cert_file),
            tls_key_file: self.tls_key_file.or(other.tls_key_file),
            tls_ca_cert_file: self.tls_ca_cert_file.or(other.tls_ca_cert_file),
            tls_auth_clients: self.tls_auth_clients.or(other.tls_auth_clients),
            bind: self.bind.or(other.bind),
            loops: self.loops.or(other.loops),
            password: self.password.or(other.password),
            users: self.users.or(other.users),
            unixsocket: self.unixsocket.or(other.unixsocket),
            unixsocketperm: self.unixsocketperm.or(other.unixsocketperm),
            admin_port: self.admin_port.or(other.admin_port),
            admin_password: self.admin_password.or(other.admin_password),
            listed_users: self.listed_users.into_iter().chain(other.listed_users).collect(),
            appendonly: self.appendonly.or(other.appendonly),
            appendfsync: self.appendfsync.or(other.appendfsync),
            maxmemory: self.maxmemory.or(other.maxmemory),
            maxmemory_policy: self.maxmemory_policy.or(other.maxmemory_policy),
            maxmemory_clients: self.maxmemory_clients.or(other.maxmemory_clients),
            timeout: self.timeout.or(other.timeout),
            tcp_keepalive: self.tcp_keepalive.or(other.tcp_keepalive),
            multi_rollback: self.multi_rollback.or(other.multi_rollback),
            busy_reply_threshold: self.busy_reply_threshold.or(other.busy_reply_threshold),
            script_time_limit: self.script_time_limit.or(other.script_time_limit),
            slowlog_log_slower_than: self.slowlog_log_slower_than.or(other.slowlog_log_slower_than),
            slowlog_max_len: self.slowlog_max_len.or(other.slowlog_max_len),
        }
    }
}

/// Name of a line with a user.
const USER_LINE: &str = "user";

/// The user of a line `user NAME RULE ..`.
fn user_of(values: &[String]) -> Result<User, String> {
    let (name, rules) =
        values.split_first().ok_or("give `user NAME RULE ..`, as `user app on #HASH ~app:* +@all`")?;
    User::new(name, rules)
}

/// The users of a file with this text.
fn users_of(file: &Path, text: &str) -> Result<Vec<User>, String> {
    let at_line = |number: usize, why: &str| format!("{}:{number}: {why}", file.display());
    let lines = config_lines(text).map_err(|error| at_line(error.number, &error.reason))?;
    let users = lines.iter().map(|ConfigLine { number, name, values }| match name.as_str() {
        USER_LINE => user_of(values).map_err(|why| at_line(*number, &why)),
        _ => Err(at_line(*number, "a file of users has lines `user NAME RULE ..` only")),
    });
    users.collect()
}

/// Checks that other machines cannot reach the server without a password.
fn check_open_users(address: SocketAddr, has_password: bool, users: &[User]) -> Result<(), String> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let default = users.iter().find(|user| user.name() == "default");
    if !has_password && default.is_none_or(User::is_open) {
        return Err(format!(
            "other machines reach {address}, and no password is set: set one by --requirepass-file FILE, by ENSILE_PASSWORD \
             or by requirepass in the configuration file; or turn the user off, `user default off`; or listen on this \
             machine only, --bind 127.0.0.1"
        ));
    }
    match users.iter().find(|user| user.name() != "default" && user.is_open()) {
        Some(open) => Err(format!(
            "other machines reach {address}, and the user '{}' has no password: give #HASH, with a hash of `ensile \
             hash-password`",
            open.name()
        )),
        None => Ok(()),
    }
}

/// The admin port, if its port is given.
fn admin_of(port: Option<u16>, password: Option<PasswordSource>) -> Result<Option<AdminConfig>, String> {
    let password = password.map_or(Ok(None), PasswordSource::read)?;
    match (port, password) {
        (None, _) => Ok(None),
        (Some(port), Some(password)) => Ok(Some(AdminConfig {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            password: password.bytes().to_vec(),
        })),
        (Some(_), None) => Err("admin-port needs a password: set one by --admin-password-file FILE, by \
             ENSILE_ADMIN_PASSWORD, or by admin-password in the configuration file"
            .to_owned()),
    }
}

/// The known name with the fewest changes to this name.
fn nearest_name(name: &str) -> &'static str {
    let names = PARAMETERS.iter().map(|parameter| parameter.name).chain([USER_LINE]);
    names.min_by_key(|known| edit_distance(name, known)).unwrap_or_default()
}

/// Number of characters to insert, remove or replace between two words.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // Distances of the beginning of `from` to each beginning of `to`.
    let mut distances: Vec<usize> = (0..=to.len()).collect();
    for (at, character) in from.chars().enumerate() {
        let mut diagonal = distances[0];
        distances[0] = at + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = distances[column + 1];
            distances[column + 1] = replaced.min(diagonal + 1).min(distances[column] + 1);
        }
    }
    distances[to.len()]
}

/// Settings of a start.
#[derive(Debug)]
pub(super) struct ServeSettings {
    /// Folder of the database.
    pub(super) data: PathBuf,
    /// Address for clients: without TLS, unless `tls` says that all clients have TLS.
    pub(super) address: SocketAddr,
    /// TLS of clients.
    pub(super) tls: Option<ServerTls>,
    pub(super) loops: usize,
    /// Password of clients; `None` lets every client in.
    pub(super) password: Option<Secret>,
    /// Users beside the user `default`, or with another one.
    pub(super) users: Vec<User>,
    /// File of the Unix socket.
    pub(super) unix_socket: Option<PathBuf>,
    /// Permissions of the socket's file; `None` leaves the system's.
    pub(super) unix_socket_mode: Option<u32>,
    /// The admin port; `None` opens no port.
    pub(super) admin: Option<AdminConfig>,
    /// True if the database has a log.
    pub(super) appendonly: bool,
    pub(super) appendfsync: Appendfsync,
    /// Memory of the data in bytes; `None` is no limit.
    pub(super) memory: Option<u64>,
    /// Memory of all clients together in bytes; `None` is no limit.
    pub(super) client_memory: Option<usize>,
    /// Idle time after which a client is disconnected.
    pub(super) idle: Option<Duration>,
    /// Silence after which a client is probed.
    pub(super) keepalive: Option<Duration>,
    /// True if an error within `EXEC` rolls the transaction back.
    pub(super) multi_rollback: bool,
    /// Time of a script after which others get `BUSY`; `None` leaves the server's default, as in the next three.
    pub(super) busy_time: Option<Duration>,
    /// Longest time of a script.
    pub(super) script_time: Option<Duration>,
    /// Time in microseconds from which a request is slow; negative for no request.
    pub(super) slow_micros: Option<i64>,
    /// Number of slow requests that are kept.
    pub(super) slow_requests: Option<u64>,
}

impl ServeSettings {
    /// Collects the settings of all sources: options, environment, and the configuration file of the option or of the
    /// environment.
    ///
    /// # Errors
    /// The reason in words, with the source and the remedy.
    pub(super) fn collect(options: GivenSettings, config: Option<PathBuf>) -> Result<Self, String> {
        let environment = GivenSettings::of_environment(|name| std::env::var_os(name))?;
        let file = match config.or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from)) {
            None => GivenSettings::default(),
            Some(path) => {
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| format!("the configuration file {}: {error}", path.display()))?;
                GivenSettings::of_file(&path, &text)?
            }
        };
        Self::new(options.or(environment).or(file))
    }

    /// Completes settings by the defaults.
    fn new(given: GivenSettings) -> Result<Self, String> {
        let host = given.bind.as_deref().unwrap_or("127.0.0.1");
        let address_of = |port: u16| {
            find_address((host, port))
                .map_err(|why| format!("bind {host}: {why}; give an address of this machine, as 127.0.0.1"))
        };
        if given.tls_port.is_none() && (given.tls_cert_file.is_some() || given.tls_auth_clients.is_some()) {
            return Err(
                "the settings of TLS need a port: give tls-port PORT, or tls-port 0 for no TLS".to_owned()
            );
        }
        let (port, tls_port) = (given.port.unwrap_or(PORT), given.tls_port.filter(|port| *port > 0));
        let files = TlsFiles {
            certificate: given.tls_cert_file,
            key: given.tls_key_file,
            authority: given.tls_ca_cert_file,
            clients: given.tls_auth_clients,
        };
        let (address, tls) = match tls_port {
            None => (address_of(port)?, None),
            // As in redis: a port of zero is closed.
            Some(tls_port) if port == 0 => {
                (address_of(tls_port)?, Some(ServerTls { config: files.read()?, beside: None }))
            }
            Some(tls_port) => {
                let beside = Some(address_of(tls_port)?);
                (address_of(port)?, Some(ServerTls { config: files.read()?, beside }))
            }
        };
        let password = given.password.map_or(Ok(None), PasswordSource::read)?;
        let mut users = given.listed_users;
        if let Some(file) = &given.users {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("the users' file {}: {error}", file.display()))?;
            users.extend(users_of(file, &text)?);
        }
        check_open_users(address, password.is_some(), &users)?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            data: given.data.unwrap_or_else(|| "data".into()),
            address,
            tls,
            loops: given.loops.unwrap_or_else(cores),
            password,
            users,
            admin: admin_of(given.admin_port, given.admin_password)?,
            unix_socket: given.unixsocket,
            unix_socket_mode: given.unixsocketperm,
            appendonly: given.appendonly.unwrap_or(true),
            appendfsync: given.appendfsync.unwrap_or_default(),
            memory: given.maxmemory.filter(|bytes| *bytes > 0).map(|bytes| bytes as u64),
            client_memory: Some(given.maxmemory_clients.unwrap_or(CLIENT_MEMORY_BYTES))
                .filter(|bytes| *bytes > 0),
            idle: duration_of(given.timeout.unwrap_or(0)),
            keepalive: duration_of(given.tcp_keepalive.unwrap_or(KEEPALIVE_SECONDS)),
            multi_rollback: given.multi_rollback.unwrap_or(false),
            busy_time: given.busy_reply_threshold,
            script_time: given.script_time_limit,
            slow_micros: given.slowlog_log_slower_than,
            slow_requests: given.slowlog_max_len,
        })
    }
}

#[cfg(test)]
mod tests;
