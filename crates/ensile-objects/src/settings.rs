//! What an application sets before it opens its objects, and the policy by which checkpoints begin.
//!
//! Neighbours: opens collections and applications; the durability crate has the meaning of most settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_durability::{
    AdaptiveThreshold, CheckpointConfig, DurabilityError, LogConfig, Shipping, ShippingConfig,
};

use crate::application::{Application, ApplicationLog};
use crate::collection::Objects;
use crate::collection::persistent::{ObjectKey, Persistent};
use crate::error::ObjectsResult as Result;
use crate::runtime::{KeyCheck, ObjectsSettings, OpenRuntime};

/// Why an application that keeps its own objects is not opened with the debug mode.
const CHECKS_COLLECTIONS: &str = "`check_operations` is for collections: open the application by `open_application_checked`, with \
     a fresh one that becomes the copy";

/// Why an application that keeps its own objects is not opened with a check of keys.
const KEYS_OF_COLLECTIONS: &str =
    "`accept_keys` is for collections: refuse an object that is not the application's in its call-backs";

/// When a result is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectDurability {
    /// Once it is durable: nothing that was returned is lost in a crash.
    #[default]
    Strict,
    /// At once: a crash may lose the last fraction of a second, of each object the newest operations.
    Relaxed,
    /// Once the operating system has it: nothing that was returned is lost when the process dies, however it dies. A
    /// crash of the machine loses what it loses of relaxed ones. It costs some tens of instructions more than those,
    /// and no system call. [`ObjectReceipt::durable`](crate::ObjectReceipt::durable) waits until it survives the
    /// machine, too.
    ///
    /// The folder's file system is to be ext4, XFS, F2FS or tmpfs, and the system Linux: the open fails elsewhere, and
    /// says so. Each log buffer takes its size on disk.
    Process,
    /// Nothing is logged. What is kept is what a checkpoint has, each object as it was at some moment of it, and a
    /// checkpoint begins only when it is asked for: no other reason for one comes about without a log. Everything else
    /// ends with the process, however that ends. A receipt is never durable:
    /// [`ObjectReceipt::durable`](crate::ObjectReceipt::durable) returns
    /// [`ObjectsError::NotLogged`](crate::ObjectsError::NotLogged). It is what logging is measured against (SLACH
    /// §6.2), and for data that can be made again.
    NoLog,
}

/// When checkpoints begin (SLACH §4): what is `None` asks for none. It may be changed while the objects are open.
///
/// ```
/// use std::time::Duration;
/// use ensile_objects::{AdaptiveThreshold, CheckpointPolicy};
/// // After 1 million operations while there is little to do, after 8 million while there is much; 56,000 requests a
/// // second are all that the service can do.
/// let adaptive = AdaptiveThreshold::of_ups(56_000);
/// let by_load = CheckpointPolicy { adaptive: Some(adaptive), ..CheckpointPolicy::on_demand() };
/// // No recovery takes more than five seconds.
/// let by_target = CheckpointPolicy { recovery_time: Some(Duration::from_secs(5)), ..CheckpointPolicy::on_demand() };
/// # let _ = (by_load, by_target);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// Bytes of log since the last one began.
    pub log_bytes: Option<u64>,
    /// Entries since the last one began, or since the open: logged operations, whole values and removals.
    pub log_records: Option<u64>,
    /// As by entries, by bytes or by time, with a number that follows the load (SLACH §4).
    /// [`AdaptiveThreshold::of_ups`] and [`of_his`](AdaptiveThreshold::of_his) are the paper's, by entries;
    /// [`of_capacity`](AdaptiveThreshold::of_capacity) is by bytes, [`of_time`](AdaptiveThreshold::of_time) by time.
    pub adaptive: Option<AdaptiveThreshold>,
    /// Time since the last one ended, put off while the log hardly grows.
    pub interval: Option<Duration>,
    /// In time for no recovery to take longer than this, as far as that is known: at what recoveries of this folder
    /// have cost, for what there is to load and to replay, with what operations take that are made now, and with what
    /// will be logged until the checkpoint is installed. [`CheckpointStats::recovery`](crate::CheckpointStats) shows
    /// the prediction and its rates; until a recovery was measured, costs are assumed.
    ///
    /// [`register_policy`](Objects::register_policy) refuses a target that is below what loading alone takes, with the
    /// figure. An open is never refused for it, and nothing stops when the objects outgrow it:
    /// [`CheckpointStats::unreachable`](crate::CheckpointStats) says so, and the log is kept as short as an eighth of
    /// the target allows.
    pub recovery_time: Option<Duration>,
}

impl Default for CheckpointPolicy {
    /// After ten seconds, if the log has grown, or 4 GiB of log.
    fn default() -> Self {
        let CheckpointConfig { log_bytes, log_records, adaptive, interval, recovery_time, .. } =
            CheckpointConfig::default();
        Self { log_bytes, log_records, adaptive, interval, recovery_time }
    }
}

impl CheckpointPolicy {
    /// Checkpoints only when they are asked for.
    #[must_use]
    pub fn on_demand() -> Self {
        Self { log_bytes: None, log_records: None, adaptive: None, interval: None, recovery_time: None }
    }

    fn apply(&self, config: &mut CheckpointConfig) {
        let Self { log_bytes, log_records, adaptive, interval, recovery_time } = *self;
        (config.log_bytes, config.log_records, config.adaptive) = (log_bytes, log_records, adaptive);
        (config.interval, config.recovery_time) = (interval, recovery_time);
    }
}

/// Opens an application's objects in a folder, which is made if it is not there.
#[derive(Clone, Debug)]
pub struct ObjectsBuilder {
    settings: ObjectsSettings,
    is_checked: bool,
}

impl ObjectsBuilder {
    /// With the usual settings: strict, one logger, one checkpointer, epochs of 40 ms.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let settings = ObjectsSettings {
            folder: folder.into(),
            application: None,
            accepts: None,
            disk: None,
            clock: Clock::machine(),
            own_threads: true,
            is_strict: true,
            is_logged: true,
            recovery_threads: std::thread::available_parallelism().map_or(1, usize::from),
            log: LogConfig::default(),
            checkpoints: CheckpointConfig::default(),
            shipping: None,
        };
        Self { settings, is_checked: false }
    }

    /// The same settings for another folder.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.folder = folder.into();
        self
    }

    /// Whose folder it is: the application's name, and which part of it has this folder, such as a partition. A folder
    /// that has no name yet gets this one with the open, and keeps it, as all copies of it do. From then on nobody
    /// opens it for another name, nor without one: what another program's codecs make of the objects is found out too
    /// late.
    ///
    /// It is printable ASCII, without a space at either end, of at most
    /// [`NAME_BYTES_MAX`](crate::limits::NAME_BYTES_MAX) bytes; what is none is refused by the open. `ensile inspect`
    /// shows a folder's name; [`folder::rename_application`](crate::folder::rename_application) changes it, which
    /// `ensile objects name` does too. Looking at a folder, and its repair, ask for none.
    ///
    /// ```
    /// # use ensile_objects::{CodecResult, DurabilityError, Objects, ObjectsBuilder, ObjectsError, Persistent};
    /// # struct Price(u64);
    /// # impl Persistent for Price {
    /// #     type Operation = u64;
    /// #     type Output = ();
    /// #     const VERSION: u16 = 1;
    /// #     const OPERATION_VERSION: u16 = 1;
    /// #     fn apply(price: &mut Option<Self>, to: &u64) { *price = Some(Price(*to)) }
    /// #     fn encode(&self, out: &mut Vec<u8>) { out.extend_from_slice(&self.0.to_le_bytes()) }
    /// #     fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> { Self::decode_operation(1, bytes).map(Self) }
    /// #     fn encode_operation(to: &u64, out: &mut Vec<u8>) { out.extend_from_slice(&to.to_le_bytes()) }
    /// #     fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
    /// #         bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
    /// #     }
    /// # }
    /// # fn main() -> Result<(), ObjectsError> {
    /// # let folder = std::env::temp_dir().join(format!("ensile-name-doc-{}", std::process::id()));
    /// let of = |name: &str| ObjectsBuilder::new(&folder).application_name(name);
    /// let prices: Objects<u64, Price> = of("prices, partition 0 of 4").open()?;
    /// prices.update(1, &250)?;
    /// prices.close()?;
    ///
    /// let refused = of("prices, partition 1 of 4").open::<u64, Price>().map(drop);
    /// let Err(ObjectsError::Durability(DurabilityError::OtherApplication { found, .. })) = refused else {
    ///     panic!("it is another one's")
    /// };
    /// assert_eq!(&*found, "prices, partition 0 of 4");
    /// # std::fs::remove_dir_all(&folder).expect("it is there");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.settings.application = Some(name.into());
        self
    }

    /// Which keys a collection of this folder may have: `check` gets the bytes of a key's encoding, and says why it is
    /// none of this program's, or of this part of it. The open looks at each key that is in the folder, and where one
    /// is refused it fails with [`ObjectsError::OtherKeys`](crate::ObjectsError::OtherKeys): nothing was changed, and a
    /// folder without a name has none still. So a partition that is started with the folder of another one, which has
    /// no name yet, does not take it. Keys that come later are the program's to check. It is called from several
    /// threads.
    ///
    /// ```
    /// let builder = ensile_objects::ObjectsBuilder::new("data").accept_keys(|key| match key.first() {
    ///     Some(first) if first % 2 == 0 => Ok(()),
    ///     _ => Err("it belongs to partition 1, and this is partition 0".to_owned()),
    /// });
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn accept_keys(
        mut self,
        check: impl Fn(&[u8]) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.accepts = Some(KeyCheck(Arc::new(check)));
        self
    }

    /// Folders for the loggers' files, best on devices of their own: a logger for each. They are remembered by links in
    /// the main folder, so later opens need to say the number of loggers only.
    #[must_use]
    pub fn log_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.settings.log.folders = folders.into_iter().map(Into::into).collect();
        let count = self.settings.log.folders.len();
        self.loggers(count)
    }

    /// Folders for the checkpointers' files: a checkpointer for each. They are remembered as [those of the loggers
    /// ](Self::log_folders). An [`Application`] uses more than the first one only with
    /// [`slice_starts`](Application::slice_starts).
    #[must_use]
    pub fn checkpoint_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.settings.checkpoints.folders = folders.into_iter().map(Into::into).collect();
        let count = self.settings.checkpoints.folders.len();
        self.checkpointers(count.max(1))
    }

    /// When results are released.
    #[must_use]
    pub fn durability(mut self, durability: ObjectDurability) -> Self {
        self.settings.is_strict = durability == ObjectDurability::Strict;
        self.settings.is_logged = durability != ObjectDurability::NoLog;
        self.settings.log.process_safe = durability == ObjectDurability::Process;
        self
    }

    /// How many loggers write in parallel, each in files of its own: 1 or more.
    #[must_use]
    pub fn loggers(mut self, loggers: usize) -> Self {
        self.settings.log.loggers = loggers.max(1);
        self
    }

    /// How many checkpointers walk in parallel, each in files of its own. Objects of a collection are dealt out to all
    /// of them; those of an [`Application`] as its [`slice_starts`](Application::slice_starts) says, and to one without
    /// that.
    #[must_use]
    pub fn checkpointers(mut self, checkpointers: usize) -> Self {
        self.settings.checkpoints.checkpointers = checkpointers;
        self
    }

    /// When checkpoints begin.
    #[must_use]
    pub fn policy(mut self, policy: &CheckpointPolicy) -> Self {
        policy.apply(&mut self.settings.checkpoints);
        self
    }

    /// Most bytes a second that all checkpointers write together; without this as many as they can.
    #[must_use]
    pub fn checkpoint_bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.settings.checkpoints.bandwidth = Some(bytes_per_second);
        self
    }

    /// By how much the checkpointers' threads give way to the application's, 0 to 19: it is added to the niceness of
    /// the thread that opens, up to 19. 0 without this. A larger one is refused by the open.
    ///
    /// It is for responses that must not be late beside a checkpoint while the cores are not fully busy. Where they
    /// are, it costs: with 10 a checkpointer beside twenty busy threads on two cores gets 1 % of a core, so a
    /// checkpoint may take minutes. Meanwhile the log grows, and recovery takes longer. And an object is encoded under
    /// its lock: a checkpointer that loses its core in the midst of it keeps a call of that object waiting until it
    /// runs again. [`CheckpointStats::niceness_refused`](crate::CheckpointStats) says if the system refused it; a
    /// niceness of a single thread is Linux's only.
    ///
    /// ```
    /// let builder = ensile_objects::ObjectsBuilder::new("data").checkpoint_niceness(10);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn checkpoint_niceness(mut self, niceness: u8) -> Self {
        self.settings.checkpoints.niceness = niceness;
        self
    }

    /// The usual time between two epochs: how long a relaxed result may take to be durable. 1 ms at least.
    #[must_use]
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.settings.log.epoch_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Longest wait of a strict result for space on a full disk: 30 s by default. The caller then gets
    /// [`DurabilityError::NotDurableYet`](crate::DurabilityError::NotDurableYet). The operation stays, and becomes
    /// durable once there is space, so the caller must not repeat the operation.
    #[must_use]
    pub fn full_disk_wait(mut self, wait: Duration) -> Self {
        self.settings.log.full_wait = wait;
        self
    }

    /// A log begins a new file once its current one is this long.
    #[must_use]
    pub fn log_file_bytes(mut self, bytes: u64) -> Self {
        self.settings.log.segment_bytes = bytes;
        self
    }

    /// No threads of its own: logging and checkpoints are driven by the application's threads, through
    /// [`ApplicationLog::drive`] or [`Objects::drive`], for as long as the objects are open. It is for a process that
    /// has a loop already, or that may start no threads. Recovery takes place on the thread that opens, whatever
    /// [`recovery_threads`](Self::recovery_threads) says.
    ///
    /// *How often.* `drive` says for how long it has nothing to do: an epoch's interval at most, and no time at all
    /// while a checkpoint is written, a block or so a call. What is late makes results late, and lets the log grow, and
    /// no more.
    ///
    /// *What waits* drives meanwhile, so one thread alone waits for nobody. One that waits for a result, as strict
    /// updates do, drives the log. So does an operation that finds the log's buffers full, which take 64 MiB: it takes
    /// as long as writing them does. [`CheckpointHandle::wait`](crate::CheckpointHandle::wait) and `ship` drive
    /// everything; as with threads, they are called without a guard, and not in a call-back of a checkpoint. A loop
    /// that has more to do asks [`outcome`](crate::CheckpointHandle::outcome) between two calls of `drive` instead.
    /// Closing needs nobody else.
    ///
    /// A waker of [`durable_async`](crate::ObjectReceipt::durable_async) is called on a thread that drives, but never
    /// within an operation. There is no niceness, as there is no thread that it would be of.
    ///
    /// ```
    /// # use ensile_objects::{CodecResult, Objects, ObjectsBuilder, ObjectsError, Persistent};
    /// # struct Price(u64);
    /// # impl Persistent for Price {
    /// #     type Operation = u64;
    /// #     type Output = ();
    /// #     const VERSION: u16 = 1;
    /// #     const OPERATION_VERSION: u16 = 1;
    /// #     fn apply(price: &mut Option<Self>, to: &u64) { *price = Some(Price(*to)) }
    /// #     fn encode(&self, out: &mut Vec<u8>) { out.extend_from_slice(&self.0.to_le_bytes()) }
    /// #     fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> { Self::decode_operation(1, bytes).map(Self) }
    /// #     fn encode_operation(to: &u64, out: &mut Vec<u8>) { out.extend_from_slice(&to.to_le_bytes()) }
    /// #     fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
    /// #         bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
    /// #     }
    /// # }
    /// # fn main() -> Result<(), ObjectsError> {
    /// # let folder = std::env::temp_dir().join(format!("ensile-driven-doc-{}", std::process::id()));
    /// let prices: Objects<u64, Price> = ObjectsBuilder::new(&folder).without_threads().open()?;
    /// prices.update(1, &250)?; // strict: durable behind this
    /// let (_, receipt) = prices.submit(2, &99)?;
    /// let checkpoint = prices.checkpoint();
    /// // The process's loop: it does what else there is to do, and this.
    /// while !receipt.is_durable() || checkpoint.outcome().is_none() {
    ///     let pause = prices.drive().expect("it is open");
    ///     std::thread::sleep(pause); // or wait for sockets, no longer than this
    /// }
    /// assert_eq!(checkpoint.wait()?.entries, 2);
    /// prices.close()?;
    /// # std::fs::remove_dir_all(&folder).expect("it is there");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn without_threads(mut self) -> Self {
        self.settings.own_threads = false;
        self
    }

    /// How many threads recover; as many as the machine has without this.
    #[must_use]
    pub fn recovery_threads(mut self, threads: usize) -> Self {
        self.settings.recovery_threads = threads.max(1);
        self
    }

    /// Finished checkpoints and closed log files also go to a shared store, on a thread of their own, so that another
    /// machine can [take over](crate::take_over). Nothing waits for it. What is written reaches the store a few seconds
    /// later; [`ObjectsStats::shipping`](crate::ObjectsStats::shipping) has up to which epoch it is complete, and
    /// [`Objects::ship`](crate::Objects::ship) brings everything there now.
    ///
    /// Once another machine has taken over, nothing is shipped any more, and calls that change something get an error
    /// ([`WhenFenced`](crate::WhenFenced)).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use ensile_objects::{ObjectsBuilder, SharedFolder, ShippingConfig, WhenFenced};
    /// # let shared = std::env::temp_dir().join(format!("ensile-ship-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&shared).expect("a folder");
    /// # fn main_of(shared: &std::path::Path) -> Result<(), ensile_objects::DurabilityError> {
    /// let store = SharedFolder::open(shared)?; // a folder that both machines see
    /// let shipping = ShippingConfig { bytes_per_second: Some(50_000_000), ..ShippingConfig::new(Arc::new(store)) };
    /// let builder = ObjectsBuilder::new("data").ship_to(shipping);
    /// # drop(builder);
    /// # Ok(())
    /// # }
    /// # main_of(&shared).expect("is there");
    /// # std::fs::remove_dir_all(&shared).expect("it was there");
    /// ```
    #[must_use]
    pub fn ship_to(mut self, shipping: ShippingConfig) -> Self {
        self.settings.shipping = Some(shipping);
        self.settings.log.shipping.shipping = Shipping::On;
        self
    }

    /// Ends the shipping of a folder that ships: from this open on, it remembers no shared store. Without this, and
    /// without [`ship_to`](Self::ship_to), the open is refused: another machine may have taken over, and the folder
    /// learns of that from the store alone.
    ///
    /// A folder that remembers that it was fenced stays fenced, until `ensile adopt` makes it a folder of its own.
    #[must_use]
    pub fn stop_shipping(mut self) -> Self {
        self.settings.shipping = None;
        self.settings.log.shipping.shipping = Shipping::Stopped;
        self
    }

    /// Opens a fenced folder too: one whose database another machine has taken over. Such a folder is refused
    /// otherwise.
    ///
    /// What only this folder has can be read, and nothing is acknowledged: each change gets an error, unless the folder
    /// is opened with [`ship_to`](Self::ship_to) and [`WhenFenced::GoOn`](crate::WhenFenced::GoOn). To go on with the
    /// folder, make it a folder of its own by `ensile adopt`.
    #[must_use]
    pub fn open_fenced(mut self) -> Self {
        self.settings.log.shipping.opens_fenced = true;
        self
    }

    /// The debug mode of collections: each operation is also applied to a copy of its object, made from its bytes, and
    /// a call whose operation comes to something else there is an error. It costs the encoding of the whole object,
    /// four times.
    #[must_use]
    pub fn check_operations(mut self) -> Self {
        self.is_checked = true;
        self
    }

    /// Opens a collection. What is in the folder is loaded and replayed first, on several threads.
    ///
    /// # Errors
    /// [`ObjectsError::Durability`](crate::ObjectsError::Durability): the folder is damaged, in use, of a database, of
    /// [another application](Self::application_name), or has an object or operation that this program does not
    /// understand; [`ObjectsError::OtherKeys`](crate::ObjectsError::OtherKeys). Nothing was changed then.
    /// [`ObjectsError::NoThread`](crate::ObjectsError::NoThread).
    pub fn open<K: ObjectKey, T: Persistent>(self) -> Result<Objects<K, T>> {
        Objects::open(self.settings, self.is_checked)
    }

    /// Opens the log and the checkpoints of an application that keeps its own objects. What is in the folder is loaded
    /// and replayed into it first, by its call-backs. That takes [`OPEN_BYTES_EACH`](ApplicationLog::OPEN_BYTES_EACH)
    /// of memory for each object, beside the objects, whatever the log.
    ///
    /// # Errors
    /// As for [`open`](Self::open); [`ObjectsError::NotReplayed`](crate::ObjectsError::NotReplayed) and
    /// [`ObjectsError::Durability`](crate::ObjectsError::Durability) if a call-back says so, or panics; also with
    /// [`check_operations`](Self::check_operations) or [`accept_keys`](Self::accept_keys), which are for collections.
    /// Nothing was changed then.
    pub fn open_application<A: Application>(self, application: Arc<A>) -> Result<ApplicationLog> {
        ApplicationLog::open(self.for_application()?, application)
    }

    /// As [`open_application`](Self::open_application), in a debug mode, for tests: `fresh` is another application, as
    /// the program makes it before it has any object. It becomes a copy: what the application writes is loaded into it,
    /// and each operation is replayed on it when it is logged. A checkpoint compares what both write of each object
    /// under its guard. The first difference fails that checkpoint and all later ones, and
    /// [`ApplicationLog::difference`] has it. It finds operations that replay makes something else of, changes that
    /// were not logged, a guard that is not held, and what does not come back from an object's bytes.
    ///
    /// It takes the memory of a second application. An object that a checkpoint does not write is not compared.
    ///
    /// # Errors
    /// As for [`open_application`](Self::open_application); [`ObjectsError::NotDeterministic`
    /// ](crate::ObjectsError::NotDeterministic): an object does not come back from its bytes. That is seen behind the
    /// open, so the folder has been opened then, with a new life.
    pub fn open_application_checked<A: Application>(
        self,
        application: Arc<A>,
        fresh: A,
    ) -> Result<ApplicationLog> {
        ApplicationLog::open_checked(self.for_application()?, application, fresh)
    }

    /// The settings, unless they have what is of collections alone.
    fn for_application(self) -> Result<ObjectsSettings> {
        if self.is_checked {
            return Err(DurabilityError::Config(CHECKS_COLLECTIONS.into()).into());
        }
        if self.settings.accepts.is_some() {
            return Err(DurabilityError::Config(KEYS_OF_COLLECTIONS.into()).into());
        }
        Ok(self.settings)
    }
}

impl ApplicationLog {
    /// Checkpoints begin by this policy from now on (SLACH §3.2's `register_policy`).
    ///
    /// # Errors
    /// [`ObjectsError::Durability`](crate::ObjectsError::Durability) for settings that cannot work, such as a recovery
    /// time below what loading alone takes.
    pub fn register_policy(&self, policy: &CheckpointPolicy) -> Result<()> {
        register(self.runtime(), policy)
    }

    /// Brings all that is logged by now to the shared store, and waits for that, at most for so long. Then another
    /// machine that takes over has all of it. The epoch up to which the store is complete.
    ///
    /// # Errors
    /// [`ObjectsError::Durability`](crate::ObjectsError::Durability) where nothing is shipped, where another machine
    /// has taken over, or when the time is over: it goes on.
    pub fn ship(&self, timeout: Duration) -> Result<Epoch> {
        self.runtime().ship(timeout)
    }

    /// Ships nothing any more until the next open. It waits for nothing, and from another thread it ends the wait of a
    /// close for a shared store that does not answer. Without a shared store it does nothing.
    pub fn cancel_shipping(&self) {
        self.runtime().cancel_shipping();
    }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Checkpoints begin by this policy from now on.
    ///
    /// # Errors
    /// [`ObjectsError::Durability`](crate::ObjectsError::Durability) for settings that cannot work, such as a recovery
    /// time below what loading alone takes.
    pub fn register_policy(&self, policy: &CheckpointPolicy) -> Result<()> {
        register(self.runtime(), policy)
    }

    /// Brings all that is logged by now to the shared store, and waits for that, at most for so long. Then another
    /// machine that takes over has all of it. The epoch up to which the store is complete.
    ///
    /// # Errors
    /// [`ObjectsError::Durability`](crate::ObjectsError::Durability) where nothing is shipped, where another machine
    /// has taken over, or when the time is over: it goes on.
    pub fn ship(&self, timeout: Duration) -> Result<Epoch> {
        self.runtime().ship(timeout)
    }

    /// Ships nothing any more until the next open. It waits for nothing, and from another thread it ends the wait of a
    /// close for a shared store that does not answer. Without a shared store it does nothing.
    pub fn cancel_shipping(&self) {
        self.runtime().cancel_shipping();
    }
}

impl ApplicationLog {
    /// Of an application that was opened [`without_threads`](ObjectsBuilder::without_threads): takes each step of the
    /// log, of checkpoints and of shipping that is due. Returns for how long nothing is due behind that; `None` once it
    /// is closed, or its log has stopped. A checkpoint's call-back runs in here, so the caller holds no guard.
    ///
    /// One thread at a time drives the log, and one checkpoints: for another one that calls meanwhile less is due, or
    /// nothing, and neither is anything where there are threads of its own. It may be called in any call-back: it takes
    /// no step of what that is a part of.
    pub fn drive(&self) -> Option<Duration> {
        self.runtime().drive()
    }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// As [`ApplicationLog::drive`]. It is not called from within a look at an object or an operation: a checkpoint
    /// takes their locks.
    pub fn drive(&self) -> Option<Duration> {
        self.runtime().drive()
    }
}

fn register(runtime: &OpenRuntime, policy: &CheckpointPolicy) -> Result<()> {
    runtime.reschedule(|config| policy.apply(config))
}

/// What a test drives itself: the disk, the clock, and the steps that threads would take.
#[cfg(feature = "simulation")]
mod simulation {
    use std::sync::Arc;

    use ensile_base::clock::Clock;
    use ensile_disk::Disk;
    use ensile_durability::{CheckpointStep, LoggerStep, ShipStep};

    use super::{ApplicationLog, ObjectKey, Objects, ObjectsBuilder, Persistent};

    impl ObjectsBuilder {
        /// Another disk than the machine's.
        #[must_use]
        pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
            self.settings.disk = Some(disk);
            self
        }

        /// Another clock than the machine's.
        #[must_use]
        pub fn manual_clock(mut self, clock: Clock) -> Self {
            self.settings.clock = clock;
            self
        }
    }

    /// Steps of an application that was opened [`without_threads`](ObjectsBuilder::without_threads).
    impl ApplicationLog {
        /// One tick of the heartbeat.
        pub fn heartbeat_step(&self) {
            self.runtime().heartbeat_step();
        }

        /// One step of a logger.
        pub fn logger_step(&self, logger: usize) -> LoggerStep {
            self.runtime().logger_step(logger)
        }

        /// One step of a checkpointer.
        pub fn checkpoint_step(&self, checkpointer: usize) -> CheckpointStep {
            self.runtime().checkpoint_step(checkpointer)
        }

        /// One step of the shipper, if there is one.
        pub fn ship_step(&self) -> Option<ShipStep> {
            self.runtime().shipping.as_ref().map(|shipping| shipping.step())
        }
    }

    /// Steps of objects that were opened [`without_threads`](ObjectsBuilder::without_threads).
    impl<K: ObjectKey, T: Persistent> Objects<K, T> {
        /// One tick of the heartbeat.
        pub fn heartbeat_step(&self) {
            self.runtime().heartbeat_step();
        }

        /// One step of a logger.
        pub fn logger_step(&self, logger: usize) -> LoggerStep {
            self.runtime().logger_step(logger)
        }

        /// One step of a checkpointer.
        pub fn checkpoint_step(&self, checkpointer: usize) -> CheckpointStep {
            self.runtime().checkpoint_step(checkpointer)
        }

        /// One step of the shipper, if there is one.
        pub fn ship_step(&self) -> Option<ShipStep> {
            self.runtime().shipping.as_ref().map(|shipping| shipping.step())
        }
    }
}
