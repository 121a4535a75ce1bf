//! The served database: tables, settings and figures that all loops share.
//!
//! Neighbours: `served_program` serves the database; `execution` carries requests out; `server` makes the database.

use std::sync::Arc;
use std::task::Waker;

use ensile::stats::Health;
use ensile::{Database, Error, Transaction};
use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, OnceLock, Ordering};
use ensile_resp::Request;
use ensile_serving::{ClientState, DurableEpoch, DurableEpochs, LogState, LoopParts, LoopPoll, ServiceCall};

use crate::access::{PASSWORD_BYTES_MAX, Password, User, UserNumber, Users, Verification};
use crate::appendfsync::Appendfsync;
use crate::blocking::{Wait, WaitingClients};
use crate::calendar::Calendar;
use crate::channels::{Channels, ClientSurvey, Letter, Listeners, LoopChannels, LoopMailBox, Subscriptions};
use crate::command_figures::{CommandFigures, LoopFigures};
use crate::contest::Contest;
use crate::disk_wait::DiskWait;
use crate::effects::{Effects, KeyFigures};
use crate::load_progress::LoadProgress;
use crate::model::{DATABASES, Model};
use crate::observed::Observed;
use crate::pending::{PendingCommit, PendingExec};
use crate::scripts::{LoopScripts, LuaState, Procedures, ScriptCache, ScriptTimes};
use crate::slow_log::SlowLog;
use crate::sweeper::Sweeper;

/// A request under way.
pub(crate) type ServedCall<'c> = ServiceCall<'c, ServedDatabase>;

/// A database behind redis' protocol.
#[derive(Debug)]
pub(crate) struct ServedDatabase {
    /// The tables, once the database is loaded.
    opened: OnceLock<OpenedTables>,
    /// True once the server has ended: a database that is loaded later is closed at once.
    has_ended: Mutex<bool>,
    pub(crate) progress: Arc<LoadProgress>,
    /// Seed for the hash of keys in a new database.
    hash_seed: u64,
    /// True if replies wait until they are durable.
    waits: AtomicBool,
    appendfsync: Mutex<Appendfsync>,
    password: Mutex<Option<Password>>,
    /// True if clients need a password.
    has_password: AtomicBool,
    /// True if clients must not remove the password.
    keeps_password: bool,
    users: Users,
    rolls_back: AtomicBool,
    /// Number of loops that have begun: each changes counts in a stripe of its own.
    stripes: AtomicU32,
    watches: WatchFigures,
    /// Calls and conflicts, by loop.
    figures: Mutex<Vec<Arc<LoopFigures>>>,
    channels: Arc<Channels>,
    waiting: Arc<WaitingClients>,
    slow_log: SlowLog,
    calendar: Calendar,
    /// Name of this run, which no other run has.
    run_id: String,
    /// Time of the start in milliseconds since 1970.
    begun_millis: u64,
    observed: Arc<Observed>,
    script_cache: ScriptCache,
    procedures: Procedures,
    script_times: ScriptTimes,
    /// Scripts of each loop.
    loop_scripts: Mutex<Vec<Arc<LoopScripts>>>,
}

/// A database that is loaded.
#[derive(Debug)]
struct OpenedTables {
    db: Database,
    model: Arc<Model>,
    /// True if the database has a log.
    has_log: bool,
    /// True if replies wait whatever `appendfsync` says.
    always_waits: bool,
    sweeper: Sweeper,
}

/// Numbers of `EXEC` behind a `WATCH` that replied nil.
#[derive(Debug, Default)]
pub(crate) struct WatchFigures {
    /// Because a watched key changed.
    pub(crate) conflicts: AtomicU64,
    /// Because the database ended the transaction to free memory.
    pub(crate) expired: AtomicU64,
}

/// State of a loop.
#[derive(Debug)]
pub(crate) struct LoopData {
    /// Stripe of the counts of keys that the loop changes.
    pub(crate) stripe: u32,
    /// Waker of the loop, for requests that are set aside.
    pub(crate) waker: Waker,
    /// Serves other connections of the loop during a script.
    pub(crate) poll: LoopPoll,
    /// Letters to the loop.
    pub(crate) mail: LoopMailBox,
    pub(crate) channels: LoopChannels,
    /// Clients of the loop that listen.
    pub(crate) listeners: Listeners,
    /// Effects of the run under way (J1).
    pub(crate) effects: Effects,
    /// Scripts of the loop, as other loops see them.
    pub(crate) scripts: Arc<LoopScripts>,
    /// The state of Lua, from the first script on.
    pub(crate) lua: Option<Box<LuaState>>,
    /// Begin of the first script of the request under way in milliseconds, of the steady clock.
    pub(crate) request_millis: Option<u64>,
    /// Calls and conflicts of the loop.
    pub(crate) figures: Arc<LoopFigures>,
    /// Number of the command under way.
    pub(crate) command: u16,
    /// Content id of each database as a request has read it last: a hint for prefetches.
    pub(crate) contents: [u32; DATABASES as usize],
    /// Transaction of the group's next request, with the group's keys fetched. `None` between groups.
    pub(crate) ahead: Option<Transaction<'static>>,
}

/// A request for a script or a procedure, within a transaction.
pub(crate) struct ScriptCall<'c, 'db> {
    pub(crate) server: &'c ServedDatabase,
    pub(crate) tx: &'c mut Transaction<'db>,
    pub(crate) loop_state: &'c mut LoopData,
    /// The client's user, whose rights each command needs.
    pub(crate) user: &'c User,
    pub(crate) request: Request<'c>,
    /// Number of the client's database.
    pub(crate) database: u32,
    /// Time of the attempt in milliseconds since 1970.
    pub(crate) now_millis: i64,
    /// Bytes of values that the commands of the script have copied.
    pub(crate) copied_bytes: usize,
}

/// State of a client.
#[derive(Debug, Default)]
pub(crate) struct ClientData {
    /// True if the client has given the password of its user.
    pub(crate) is_authenticated: bool,
    /// Number of the client's user; at first of the user `default`.
    pub(crate) user: UserNumber,
    /// A check of a password that the request waits for.
    pub(crate) verification: Option<Verification>,
    /// Bytes of values that the last command over data has copied.
    pub(crate) copied_bytes: usize,
    /// The keys that the next `EXEC` rests on.
    pub(crate) watch: Option<Watch>,
    /// Wait of the request that is set aside for keys.
    pub(crate) wait: Option<Wait>,
    /// The channels and patterns that the client listens to.
    pub(crate) subscriptions: Subscriptions,
    /// Losses of the request that is set aside.
    pub(crate) contest: Contest,
    /// Question to all loops that the request waits for.
    pub(crate) survey: Option<Arc<ClientSurvey>>,
    /// Wait of the request that is set aside for the disk.
    pub(crate) disk_wait: Option<DiskWait>,
    /// A command that waits for its commit.
    pub(crate) pending: Option<PendingCommit>,
    /// An `EXEC` that waits for its commit.
    pub(crate) pending_exec: Option<PendingExec>,
}

/// Watched keys of a client.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The transaction that has read the keys' rows.
    pub(crate) tx: Transaction<'static>,
    /// Earliest expiry of a watched key in milliseconds since 1970: from then on the key has changed.
    pub(crate) expiry_millis: Option<i64>,
    /// Number of read rows. A larger collection has several rows.
    pub(crate) rows: usize,
    /// Number of watched keys; a key counts as often as it is named.
    keys: usize,
    /// Length of all watched keys in bytes.
    key_bytes: usize,
}

/// Memory of an open transaction in bytes (W16).
const TRANSACTION_BYTES: usize = 4 << 10;
/// Memory of a watched key beside the key's own bytes, in bytes (W16).
const WATCHED_KEY_BYTES: usize = 64;
/// Memory of a read row in bytes (W16).
pub(crate) const WATCHED_ROW_BYTES: usize = 16;
/// Largest number of rows that the watched keys of a client have.
pub(crate) const WATCHED_ROWS_MAX: usize = 1 << 18;
/// Largest number of watched keys of a client.
const WATCHED_KEYS_MAX: usize = 1 << 16;
/// Largest length of all watched keys of a client in bytes.
const WATCHED_BYTES_MAX: usize = 1 << 20;

impl Watch {
    /// A watch without keys.
    pub(crate) fn new(tx: Transaction<'static>) -> Self {
        Self { tx, expiry_millis: None, rows: 0, keys: 0, key_bytes: 0 }
    }

    /// Counts the keys that are watched further.
    ///
    /// # Errors
    /// The keys are beyond a limit, and were not counted. The text has the limit.
    pub(crate) fn count(&mut self, keys: usize, key_bytes: usize) -> Result<(), String> {
        let (keys, key_bytes) = (self.keys + keys, self.key_bytes + key_bytes);
        if keys > WATCHED_KEYS_MAX || key_bytes > WATCHED_BYTES_MAX {
            return Err(format!(
                "WATCH of too many keys: {WATCHED_KEYS_MAX} keys of {WATCHED_BYTES_MAX} bytes together are watched at most"
            ));
        }
        (self.keys, self.key_bytes) = (keys, key_bytes);
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        debug_assert!(
            self.keys <= WATCHED_KEYS_MAX && self.key_bytes <= WATCHED_BYTES_MAX,
            "the count refuses more"
        );
        TRANSACTION_BYTES + WATCHED_KEY_BYTES * self.keys + self.key_bytes + WATCHED_ROW_BYTES * self.rows
    }
}

impl ClientState for ClientData {
    fn memory_bytes(&self) -> usize {
        let replies = self.pending.as_ref().map_or(0, PendingCommit::memory_bytes)
            + self.pending_exec.as_ref().map_or(0, PendingExec::memory_bytes);
        let has_pending = self.pending.is_some() || self.pending_exec.is_some();
        let transaction = if has_pending { TRANSACTION_BYTES } else { 0 };
        let verification = self.verification.as_ref().map_or(0, Verification::memory_bytes);
        replies
            + transaction
            + verification
            + self.subscriptions.memory_bytes()
            + self.wait.as_ref().map_or(0, Wait::memory_bytes)
            + self.watch.as_ref().map_or(0, Watch::memory_bytes)
    }
}

/// Settings of a served database.
#[derive(Debug)]
pub(crate) struct ServedSettings {
    pub(crate) appendfsync: Appendfsync,
    /// Password of clients; `None` lets every client in.
    pub(crate) password: Option<Password>,
    /// True if clients must not remove the password.
    pub(crate) keeps_password: bool,
    pub(crate) users: Vec<User>,
    /// True if an error within `EXEC` rolls the whole transaction back.
    pub(crate) rolls_back: bool,
    pub(crate) calendar: Calendar,
    /// Seed for the hash of keys in a new database.
    pub(crate) hash_seed: u64,
    pub(crate) procedures: Procedures,
    pub(crate) script_times: ScriptTimes,
    /// Time in microseconds from which a request is slow; negative for no request.
    pub(crate) slow_micros: i64,
    /// Number of slow requests that are kept.
    pub(crate) slow_requests: u64,
}

/// A new name of a run, in redis' form.
fn new_run_id() -> String {
    let digits = format!("{:032x}{:032x}", Random::unique_128(), Random::unique_128());
    digits[..RUN_ID_DIGITS].to_owned()
}

/// Length of the name of a run.
const RUN_ID_DIGITS: usize = 40;

impl ServedDatabase {
    /// A server whose database is loaded later.
    ///
    /// # Errors
    /// No client could give the password, or two users have one name.
    pub(crate) fn new(settings: ServedSettings) -> ensile::Result<Self> {
        let ServedSettings {
            appendfsync,
            password,
            keeps_password,
            users,
            rolls_back,
            calendar,
            hash_seed,
            procedures,
            script_times,
            slow_micros,
            slow_requests,
        } = settings;
        if password.as_ref().is_some_and(|password| !password.is_givable()) {
            return Err(Error::Misuse(format!(
                "the password is too long for clients: give {PASSWORD_BYTES_MAX} bytes at most"
            )));
        }
        let users = Users::new(users)?;
        if users.have_hashes() && !calendar.is_manual() {
            users.verifier.start()?;
        }
        Ok(Self {
            opened: OnceLock::new(),
            has_ended: Mutex::new(false),
            progress: Arc::new(LoadProgress::new()),
            hash_seed,
            observed: Arc::new(Observed::new()),
            waits: AtomicBool::new(false),
            appendfsync: Mutex::new(appendfsync),
            has_password: AtomicBool::new(password.is_some()),
            keeps_password,
            users,
            password: Mutex::new(password),
            rolls_back: AtomicBool::new(rolls_back),
            stripes: AtomicU32::new(0),
            watches: WatchFigures::default(),
            figures: Mutex::new(Vec::new()),
            channels: Arc::default(),
            waiting: Arc::new(WaitingClients::default()),
            slow_log: SlowLog::new(slow_micros, slow_requests),
            run_id: new_run_id(),
            begun_millis: calendar.millis(),
            calendar,
            script_cache: ScriptCache::default(),
            procedures,
            script_times,
            loop_scripts: Mutex::new(Vec::new()),
        })
    }

    /// Opens the tables of the loaded database. Requests over data are carried out from then on.
    ///
    /// # Errors
    /// The database has tables of these names with other types, or the server has ended, or has a database.
    pub(crate) fn open(&self, db: Database, always_waits: bool) -> ensile::Result<()> {
        let has_ended = self.has_ended.lock();
        if *has_ended {
            db.close()?;
            return Err(Error::Closed);
        }
        let model = Arc::new(Model::open(&db, self.hash_seed)?);
        let sweeper = Sweeper::start(
            db.clone(),
            Arc::clone(&model),
            Arc::clone(&self.observed),
            self.calendar.clone(),
        )?;
        let has_log = db.has_log();
        let appendfsync = self.appendfsync.lock();
        let waits = has_log && (always_waits || *appendfsync == Appendfsync::Always);
        // Relaxed: a setting, which the tables publish.
        self.waits.store(waits, Ordering::Relaxed);
        debug_assert!(
            has_log || !waits,
            "a database without a log makes nothing durable that a reply could wait for"
        );
        let set = self.opened.set(OpenedTables { db, model, has_log, always_waits, sweeper });
        set.map_err(|_| Error::Misuse("the server has a database".to_owned()))
    }

    /// True once the database is loaded.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    /// The tables. Every request over data comes once the database is loaded.
    #[inline]
    fn tables(&self) -> &OpenedTables {
        self.opened.get().unwrap_or_else(|| unreachable!("requests over data are refused while it is loaded"))
    }

    #[inline]
    pub(crate) fn db(&self) -> &Database {
        &self.tables().db
    }

    #[inline]
    pub(crate) fn model(&self) -> &Model {
        &self.tables().model
    }

    pub(crate) fn now_millis(&self) -> i64 {
        self.calendar.signed_millis()
    }

    /// Time since the start in seconds.
    pub(crate) fn uptime_seconds(&self) -> u64 {
        self.calendar.millis().saturating_sub(self.begun_millis) / 1000
    }

    /// The log of slow requests.
    #[inline]
    pub(crate) fn slow_log(&self) -> &SlowLog {
        &self.slow_log
    }

    /// Name of this run: 40 hexadecimal digits.
    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// State of a new loop, with a stripe of its own. The loop counts this number of commands.
    pub(crate) fn new_loop(&self, parts: LoopParts<Letter>, commands: usize) -> LoopData {
        let LoopParts { mail, waker, poll } = parts;
        let figures = Arc::new(LoopFigures::new(commands));
        self.figures.lock().push(Arc::clone(&figures));
        let scripts = Arc::new(LoopScripts::default());
        self.loop_scripts.lock().push(Arc::clone(&scripts));
        LoopData {
            figures,
            command: 0,
            // Relaxed: `fetch_add` gives each number once.
            stripe: self.stripes.fetch_add(1, Ordering::Relaxed),
            waker,
            poll,
            channels: LoopChannels::new(&self.channels, &mail),
            mail,
            listeners: Listeners::default(),
            effects: Effects::default(),
            scripts,
            lua: None,
            request_millis: None,
            contents: std::array::from_fn(|number| number as u32),
            ahead: None,
        }
    }

    /// Calls and conflicts of each command since the start, by the command's number.
    pub(crate) fn command_figures(&self, commands: usize) -> Vec<CommandFigures> {
        let mut sums = vec![CommandFigures::default(); commands];
        self.figures.lock().iter().for_each(|one| one.add_to(&mut sums));
        sums
    }

    /// Looks at keys, and removals of expired keys, since the start.
    pub(crate) fn key_figures(&self) -> KeyFigures {
        let swept = self.opened.get().map_or(0, |opened| opened.sweeper.expired_keys());
        let swept = KeyFigures { expired: swept, ..KeyFigures::default() };
        self.figures.lock().iter().fold(swept, |sum, one| sum.plus(one.keys()))
    }

    /// The clients that wait for keys.
    pub(crate) fn waiting_clients(&self) -> &Arc<WaitingClients> {
        &self.waiting
    }

    /// The channels and the numbers of their listeners.
    pub(crate) fn channels(&self) -> &Channels {
        &self.channels
    }

    pub(crate) fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    pub(crate) fn script_cache(&self) -> &ScriptCache {
        &self.script_cache
    }

    pub(crate) fn procedures(&self) -> &Procedures {
        &self.procedures
    }

    /// Times of scripts.
    pub(crate) fn script_times(&self) -> &ScriptTimes {
        &self.script_times
    }

    /// Ends the running scripts of all loops. False if no script runs.
    pub(crate) fn kill_scripts(&self) -> bool {
        self.loop_scripts.lock().iter().filter(|scripts| scripts.kill()).count() > 0
    }

    /// Memory of the states of Lua of all loops in bytes.
    pub(crate) fn lua_bytes(&self) -> usize {
        self.loop_scripts.lock().iter().map(|scripts| scripts.lua_bytes()).sum()
    }

    /// True if replies wait until they are durable.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        // Relaxed: a setting.
        self.waits.load(Ordering::Relaxed)
    }

    pub(crate) fn has_log(&self) -> bool {
        self.tables().has_log
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn sweeper(&self) -> &Sweeper {
        &self.tables().sweeper
    }

    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    pub(crate) fn watches(&self) -> &WatchFigures {
        &self.watches
    }

    /// True if an error within `EXEC` rolls the whole transaction back.
    pub(crate) fn rolls_back(&self) -> bool {
        // Relaxed: a setting; the next `EXEC` of any loop sees it soon.
        self.rolls_back.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rolls_back(&self, rolls_back: bool) {
        // Relaxed: see `rolls_back`.
        self.rolls_back.store(rolls_back, Ordering::Relaxed);
    }

    pub(crate) fn appendfsync(&self) -> Appendfsync {
        *self.appendfsync.lock()
    }

    pub(crate) fn set_appendfsync(&self, appendfsync: Appendfsync) {
        let mut setting = self.appendfsync.lock();
        *setting = appendfsync;
        let OpenedTables { has_log, always_waits, .. } = self.tables();
        let waits = *has_log && (*always_waits || appendfsync == Appendfsync::Always);
        // Relaxed: a setting. A reply under way goes out under the old or the new setting.
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// True if clients need a password.
    pub(crate) fn has_password(&self) -> bool {
        // Relaxed: a setting. The password itself is under its lock.
        self.has_password.load(Ordering::Relaxed)
    }

    /// True if a client must be authenticated: a password is set, or the user `default` is off or has a hash.
    #[inline]
    pub(crate) fn needs_authentication(&self) -> bool {
        self.has_password() || !self.users.get(0).is_open()
    }

    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    /// True if clients must not remove the password.
    pub(crate) fn keeps_password(&self) -> bool {
        self.keeps_password
    }

    /// Looks at the password, under its lock.
    pub(crate) fn with_password<R>(&self, look: impl FnOnce(Option<&Password>) -> R) -> R {
        look(self.password.lock().as_ref())
    }

    pub(crate) fn set_password(&self, password: &[u8]) {
        debug_assert!(!self.keeps_password || !password.is_empty(), "other machines reach the server");
        let mut setting = self.password.lock();
        *setting = Password::new(password);
        // Relaxed: see `has_password`.
        self.has_password.store(setting.is_some(), Ordering::Relaxed);
    }

    /// Counts an `EXEC` behind a `WATCH` that replies nil.
    pub(crate) fn count_watch_loss(&self, error: &Error) {
        let figure =
            if matches!(error, Error::Expired) { &self.watches.expired } else { &self.watches.conflicts };
        // Relaxed: a figure for people.
        figure.fetch_add(1, Ordering::Relaxed);
    }
}

impl DurableEpochs for ServedDatabase {
    #[inline]
    fn is_durable(&self, epoch: Epoch) -> bool {
        self.opened.get().is_none_or(|opened| opened.db.durable_epoch() >= epoch)
    }

    fn durable(&self, epoch: Epoch) -> DurableEpoch {
        let durable = self.opened.get().map(|opened| opened.db.durable(epoch));
        Box::pin(async {
            match durable {
                Some(durable) => durable.await.map_err(|error| error.to_string()),
                None => Ok(()),
            }
        })
    }

    fn newest_epoch(&self) -> Epoch {
        self.opened.get().map_or(Epoch::ZERO, |opened| opened.db.epoch())
    }

    fn log_state(&self) -> LogState {
        let Some(opened) = self.opened.get() else { return LogState::Running };
        match opened.db.health().log {
            None | Some(Health::Running) => LogState::Running,
            Some(Health::Full(why)) => LogState::Full(why),
            Some(Health::EpochsEnded(why)) => LogState::EpochsEnded(why),
            Some(Health::Poisoned(why)) => LogState::Poisoned(why),
            Some(Health::Removed(why)) => LogState::Removed(why),
            // The server has closed the database itself, or this process is a fork.
            Some(_) => LogState::Closed,
        }
    }

    fn close(&self) -> Result<(), String> {
        *self.has_ended.lock() = true;
        self.users.verifier.stop();
        let Some(opened) = self.opened.get() else { return Ok(()) };
        opened.sweeper.stop();
        opened.db.close().map_err(|error| error.to_string())
    }
}
