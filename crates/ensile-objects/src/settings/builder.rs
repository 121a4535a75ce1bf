//! The builder that opens collections and applications.
//!
//! Neighbours: `crate::runtime` opens the folder; the durability crate defines most settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_durability::{CheckpointConfig, LogConfig, Shipping, ShippingConfig};

use super::policy::CheckpointPolicy;
use crate::application::{Application, ApplicationLog};
use crate::collection::Objects;
use crate::collection::persistent::{ObjectKey, Persistent, stated_types};
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::runtime::{KeyCheck, ObjectsSettings};

/// Moment at which a result is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectDurability {
    /// Once the result is durable: a crash loses no returned result.
    #[default]
    Strict,
    /// At once: a crash may lose the last fraction of a second, the newest operations of every object.
    Relaxed,
    /// Once the operating system has the result: a death of the process, however it dies, loses no returned result. A
    /// crash of the machine loses as much as with relaxed results. A result costs some tens of instructions more than a
    /// relaxed result, and no system call. [`ObjectReceipt::durable`](crate::ObjectReceipt::durable) waits until the
    /// result also survives the machine.
    ///
    /// The folder must be on ext4, XFS, F2FS or tmpfs, and the system must be Linux; elsewhere the open fails with an
    /// error. Every log buffer takes its size on disk.
    Process,
    /// Nothing is logged. Only checkpoints persist, with the state of every object at a moment of the checkpoint. A
    /// checkpoint begins only on demand: without a log, no other trigger occurs. The rest ends with the process,
    /// however the process ends. A receipt is never durable: [`ObjectReceipt::durable`](crate::ObjectReceipt::durable)
    /// returns [`ObjectsError::NotLogged`](crate::ObjectsError::NotLogged). After a failed change of an application's
    /// own object no checkpoint is made, so every further change is refused
    /// ([`PoisonedUnlogged`](crate::ObjectsError::PoisonedUnlogged)). This level is the baseline for the cost of
    /// logging (SLACH §6.2), and suits data that the application can make again.
    NoLog,
}

/// Opens an application's objects in a folder. A missing folder is created.
#[derive(Clone, Debug)]
pub struct ObjectsBuilder {
    pub(super) settings: ObjectsSettings,
    is_checked: bool,
}

impl ObjectsBuilder {
    /// Creates a builder with the usual settings: strict, one logger, one checkpointer, epochs of 40 ms.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let settings = ObjectsSettings {
            folder: folder.into(),
            application: None,
            accepts: None,
            marks_lives: false,
            opens_poisoned: false,
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

    /// Uses the same settings for another folder.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.folder = folder.into();
        self
    }

    /// Name of the application, and of its part in this folder, such as a partition. A folder without a name gets this
    /// name at the open and keeps it, as do all copies of the folder. From then on, an open with another name, or with
    /// no name, is refused: the damage done by another program's codecs would be found too late.
    ///
    /// The name is printable ASCII without a space at either end, of at most
    /// [`NAME_BYTES_MAX`](crate::limits::NAME_BYTES_MAX) bytes; the open refuses an invalid name. `ensile inspect`
    /// shows a folder's name; [`folder::rename_application`](crate::folder::rename_application) and `ensile objects
    /// name` change the name. Inspection and repair of a folder need no name.
    ///
    /// ```
    /// # use ensile_objects::{ErrorKind, Objects, ObjectsBuilder, ObjectsError};
    #[doc = include_str!("../price.txt")]
    /// # fn main() -> Result<(), ObjectsError> {
    /// # let folder = std::env::temp_dir().join(format!("ensile-name-doc-{}", std::process::id()));
    /// let of = |name: &str| ObjectsBuilder::new(&folder).application_name(name);
    /// let prices: Objects<u64, Price> = of("prices, partition 0 of 4").open()?;
    /// prices.update(1, &250)?;
    /// prices.close()?;
    ///
    /// let refused = of("prices, partition 1 of 4").open::<u64, Price>().map(drop);
    /// assert_eq!(refused.expect_err("it is another one's").kind(), ErrorKind::WrongFolder);
    /// # std::fs::remove_dir_all(&folder).expect("it is there");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.settings.application = Some(name.into());
        self
    }

    /// Check of the keys that a collection of this folder may have: `check` gets the bytes of a key's encoding, and
    /// returns the reason if the key is not of this program, or not of this part. The open checks every key in the
    /// folder. At a refused key, the open fails with [`ErrorKind::WrongFolder`](crate::ErrorKind::WrongFolder): nothing
    /// was changed, and a folder without a name still has no name. A partition started with the unnamed folder
    /// of another partition therefore does not take the folder. The program checks later keys itself. Several threads
    /// call `check`.
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

    /// Declares that the application marks the operations that create or remove an object:
    /// [`ApplicationLog::log_life`]. [`ApplicationLog::log`] then marks a change of an existing object. Recovery passes
    /// over the changes and removals of an object that does not exist, so the call-backs need not accept an operation
    /// on an unknown object. [`RecoveryReport::passed_over_entries`](crate::RecoveryReport) counts the operations.
    ///
    /// For recovery an object exists if the checkpoint has its bytes, and after its
    /// [creation](crate::ObjectLife::Creation). The application therefore marks the creation of every object, and a
    /// checkpoint writes every existing object: otherwise changes would be passed over. An open that would lose changes
    /// in this way fails ([`ErrorKind::FixCall`](crate::ErrorKind::FixCall)): open without the declaration, take a
    /// checkpoint, and from then on log each creation with its mark. The [debug mode](Self::open_application_checked)
    /// names such a change as it is logged. An application whose objects always exist needs no marks.
    ///
    /// An existing folder can get the declaration. Entries that were logged without the declaration are always
    /// replayed, so call-backs accept unknown objects until the first checkpoint of a program with the declaration. An
    /// open without the declaration replays marked entries, too, and its call-backs accept unknown objects. A program
    /// built before this setting existed refuses a folder with marked entries.
    #[must_use]
    pub fn mark_lives(mut self) -> Self {
        self.settings.marks_lives = true;
        self
    }

    /// Opens an application although call-backs fail: an object whose load or replay fails or panics is poisoned, and
    /// the open goes on. Later operations on the object are not replayed. By default a failing call-back fails the
    /// open.
    ///
    /// The object may be half changed, so the application must not show the object
    /// ([`is_poisoned`](ApplicationLog::is_poisoned)). [`ApplicationLog::log`] refuses the object, no checkpoint is
    /// made, and the log keeps all operations: an open by a mended program replays the operations. Until then, the
    /// application can use all other objects. Every poisoned object is counted; the reasons are kept for 1000 of them.
    #[must_use]
    pub fn open_poisoned(mut self) -> Self {
        self.settings.opens_poisoned = true;
        self
    }

    /// Folders for the loggers' files, best on separate devices, with a logger for every folder. Links in the main
    /// folder remember the folders, so later opens need only the number of loggers.
    #[must_use]
    pub fn log_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.settings.log.folders = folders.into_iter().map(Into::into).collect();
        let count = self.settings.log.folders.len();
        self.loggers(count)
    }

    /// Folders for the checkpointers' files, with a checkpointer for every folder. Links in the main folder remember
    /// the folders, as with [the loggers](Self::log_folders). An [`Application`] uses more than the first folder only
    /// with [`slice_starts`](Application::slice_starts).
    #[must_use]
    pub fn checkpoint_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.settings.checkpoints.folders = folders.into_iter().map(Into::into).collect();
        let count = self.settings.checkpoints.folders.len();
        self.checkpointers(count.max(1))
    }

    /// Moment at which results are released.
    #[must_use]
    pub fn durability(mut self, durability: ObjectDurability) -> Self {
        self.settings.is_strict = durability == ObjectDurability::Strict;
        self.settings.is_logged = durability != ObjectDurability::NoLog;
        self.settings.log.process_safe = durability == ObjectDurability::Process;
        self
    }

    /// Number of loggers that write in parallel, each in files of its own: 1 or more.
    #[must_use]
    pub fn loggers(mut self, loggers: usize) -> Self {
        self.settings.log.loggers = loggers.max(1);
        self
    }

    /// Number of checkpointers that walk in parallel, each in files of its own. Objects of a collection are spread over
    /// the checkpointers. Objects of an [`Application`] are spread by [`slice_starts`](Application::slice_starts);
    /// without that method, one checkpointer writes them.
    #[must_use]
    pub fn checkpointers(mut self, checkpointers: usize) -> Self {
        self.settings.checkpoints.checkpointers = checkpointers;
        self
    }

    /// Triggers of checkpoints.
    #[must_use]
    pub fn policy(mut self, policy: &CheckpointPolicy) -> Self {
        policy.apply(&mut self.settings.checkpoints);
        self
    }

    /// Largest rate of all checkpointers together, in bytes a second; unlimited by default.
    #[must_use]
    pub fn checkpoint_bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.settings.checkpoints.bandwidth = Some(bytes_per_second);
        self
    }

    /// Niceness of the checkpointers' threads relative to the opening thread, 0 to 19: the value is added to the
    /// opener's niceness, up to 19. The default is 0. The open refuses a larger value.
    ///
    /// A niceness helps if responses must not be late beside a checkpoint and the cores are not fully busy. On fully
    /// busy cores it is costly: with 10, a checkpointer beside twenty busy threads on two cores gets 1 % of a core, so
    /// a checkpoint may take minutes. Meanwhile the log grows, and recovery takes longer. A checkpointer also encodes
    /// an object under the object's lock: if the checkpointer loses its core meanwhile, calls of the object wait until
    /// the checkpointer runs again. [`CheckpointStats::niceness_refused`](crate::CheckpointStats) reports a refusal by
    /// the system. Only Linux has a niceness for single threads.
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

    /// Usual time between two epochs, at least 1 ms. A relaxed result may take this long to be durable.
    #[must_use]
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.settings.log.epoch_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Longest wait of a strict result for space on a full disk: 30 s by default. The caller then gets
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage) of the kind
    /// [`FreeSpace`](crate::ErrorKind::FreeSpace). The operation stays, and becomes durable once there is space, so the
    /// caller must not repeat the operation.
    #[must_use]
    pub fn full_disk_wait(mut self, wait: Duration) -> Self {
        self.settings.log.full_wait = wait;
        self
    }

    /// Length in bytes at which a log begins a new file.
    #[must_use]
    pub fn log_file_bytes(mut self, bytes: u64) -> Self {
        self.settings.log.segment_bytes = bytes;
        self
    }

    /// Starts no threads: the application's threads drive logging and checkpoints through [`ApplicationLog::drive`] or
    /// [`Objects::drive`] while the objects are open. The setting suits a process that already has a loop, or that may
    /// start no threads. Recovery runs on the opening thread, and [`recovery_threads`](Self::recovery_threads) has no
    /// effect.
    ///
    /// *Frequency.* `drive` returns the time until the next step is due: at most an epoch's interval, and zero while a
    /// checkpoint is written, about a block per call. A late call makes results late and lets the log grow, and has no
    /// other effect.
    ///
    /// *Waiting calls* drive while they wait, so a single thread never waits for another thread. A call that waits for
    /// a result, as strict updates do, drives the log. An operation that finds the log's buffers full (64 MiB) also
    /// drives the log, and takes as long as the write of the buffers.
    /// [`CheckpointHandle::wait`](crate::CheckpointHandle::wait) and `ship` drive everything; as with threads, call
    /// both without a guard, and not in a call-back of a checkpoint. A loop with other work reads
    /// [`outcome`](crate::CheckpointHandle::outcome) between two calls of `drive` instead. A close needs no other
    /// thread.
    ///
    /// A waker of [`durable_async`](crate::ObjectReceipt::durable_async) is called on a driving thread, but never
    /// within an operation. Without threads, the niceness has no effect.
    ///
    /// ```
    /// # use ensile_objects::{Objects, ObjectsBuilder, ObjectsError};
    #[doc = include_str!("../price.txt")]
    /// # fn main() -> Result<(), ObjectsError> {
    /// # let folder = std::env::temp_dir().join(format!("ensile-driven-doc-{}", std::process::id()));
    /// let prices: Objects<u64, Price> = ObjectsBuilder::new(&folder).without_threads().open()?;
    /// prices.update(1, &250)?; // strict: durable behind this
    /// let (_, receipt) = prices.submit(2, &99)?;
    /// let checkpoint = prices.checkpoint();
    /// // The loop of the process, between its other work.
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

    /// Number of threads that recover; by default as many as the machine runs in parallel.
    #[must_use]
    pub fn recovery_threads(mut self, threads: usize) -> Self {
        self.settings.recovery_threads = threads.max(1);
        self
    }

    /// Also copies finished checkpoints and closed log files to a shared store, on a separate thread, so that another
    /// machine can [take over](crate::take_over). Nothing waits for the copy. Changes reach the store a few seconds
    /// later; [`ObjectsStats::shipping`](crate::ObjectsStats::shipping) has the epoch up to which the store is
    /// complete, and [`Objects::ship`](crate::Objects::ship) completes the store now.
    ///
    /// Once another machine has taken over, shipping ends, and calls that change something get an error
    /// ([`WhenFenced`](crate::WhenFenced)).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use ensile_objects::{ObjectsBuilder, SharedFolder, ShippingConfig, WhenFenced};
    /// # let shared = std::env::temp_dir().join(format!("ensile-ship-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&shared).expect("a folder");
    /// # fn main_of(shared: &std::path::Path) -> ensile_objects::ObjectsResult<()> {
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

    /// Ends the shipping of a folder that ships: from this open on, the folder remembers no shared store. Without this
    /// setting, and without [`ship_to`](Self::ship_to), the open is refused: another machine may have taken over, and
    /// the folder can learn of the take-over from the store alone.
    ///
    /// A folder that remembers a fence stays fenced, until `ensile adopt` makes it a folder of its own.
    #[must_use]
    pub fn stop_shipping(mut self) -> Self {
        self.settings.shipping = None;
        self.settings.log.shipping.shipping = Shipping::Stopped;
        self
    }

    /// Also opens a fenced folder, whose database another machine has taken over. By default the open refuses a fenced
    /// folder.
    ///
    /// Data that only this folder has can be read, and nothing is acknowledged: every change gets an error, unless the
    /// folder is opened with [`ship_to`](Self::ship_to) and [`WhenFenced::GoOn`](crate::WhenFenced::GoOn). To go on
    /// with the folder, make it a folder of its own by `ensile adopt`.
    #[must_use]
    pub fn open_fenced(mut self) -> Self {
        self.settings.log.shipping.opens_fenced = true;
        self
    }

    /// Debug mode of collections: every operation is also applied to a copy of its object, made from the object's
    /// bytes. A call whose operation has another outcome on the copy returns an error. The mode costs four encodings of
    /// the whole object per call.
    #[must_use]
    pub fn check_operations(mut self) -> Self {
        self.is_checked = true;
        self
    }

    /// Opens a collection. First loads and replays the contents of the folder, on several threads.
    ///
    /// # Errors
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage) if the folder is damaged or in use; if the folder
    /// belongs to a database or to [another application](Self::application_name); if the folder has keys or objects of
    /// another program or type, or an object or operation that this program does not understand. Nothing was changed
    /// then. The same error if the system refuses a thread. [`ObjectsError::Misuse`](crate::ObjectsError::Misuse) for
    /// settings that cannot work, also with [`mark_lives`](Self::mark_lives) or [`open_poisoned`](Self::open_poisoned),
    /// which are for applications.
    pub fn open<K: ObjectKey, T: Persistent>(mut self) -> Result<Objects<K, T>> {
        if self.settings.marks_lives || self.settings.opens_poisoned {
            let why = "`mark_lives` and `open_poisoned` are for an application that keeps its own objects: a collection \
                       knows which objects exist, and poisons an object whose operation panics";
            return Err(ObjectsError::Misuse(why.into()));
        }
        self.settings.log.types = stated_types::<K, T>();
        Objects::open(self.settings, self.is_checked)
    }

    /// Opens the log and the checkpoints of an application that keeps its own objects. First loads and replays the
    /// contents of the folder into the application, by its call-backs. Recovery takes
    /// [`OPEN_BYTES_EACH`](ApplicationLog::OPEN_BYTES_EACH) of memory for every object, beside the objects, for any
    /// length of log.
    ///
    /// # Errors
    /// As for [`open`](Self::open); [`ObjectsError::NotReplayed`](crate::ObjectsError::NotReplayed) and
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage) if a call-back returns an error or panics;
    /// [`ObjectsError::Misuse`](crate::ObjectsError::Misuse) also with [`check_operations`](Self::check_operations) or
    /// [`accept_keys`](Self::accept_keys), which are for collections. Nothing was changed then.
    pub fn open_application<A: Application>(self, application: Arc<A>) -> Result<ApplicationLog> {
        ApplicationLog::open(self.for_application()?, application, None)
    }

    /// As [`open_application`](Self::open_application), in a debug mode for tests: `fresh` is a second application, as
    /// the program makes it before the first object. `fresh` becomes a copy: the bytes that the application writes are
    /// loaded into the copy, and every logged operation is replayed on it. A checkpoint compares the bytes that both
    /// write of an object, under the object's guard. The first difference fails the checkpoint and all later
    /// checkpoints, and [`ApplicationLog::difference`] has the difference. The mode finds operations with another
    /// outcome at replay, changes without a log entry, a guard that is not held, and state that does not come back from
    /// an object's bytes.
    ///
    /// The mode needs as much memory as a second copy of the application. An object that a checkpoint does not write is
    /// not compared.
    ///
    /// # Errors
    /// As for [`open_application`](Self::open_application);
    /// [`ObjectsError::NotDeterministic`](crate::ObjectsError::NotDeterministic): an object does not come back from its
    /// bytes. The comparison comes after the open, so the folder has been opened then, with a new life.
    pub fn open_application_checked<A: Application>(
        self,
        application: Arc<A>,
        fresh: A,
    ) -> Result<ApplicationLog> {
        ApplicationLog::open(self.for_application()?, application, Some(fresh))
    }

    /// Settings, or an error if a setting is for collections alone.
    fn for_application(self) -> Result<ObjectsSettings> {
        if self.is_checked {
            let why = "`check_operations` is for collections: open the application by `open_application_checked`, with a \
                       fresh one that becomes the copy";
            return Err(ObjectsError::Misuse(why.into()));
        }
        if self.settings.accepts.is_some() {
            let why = "`accept_keys` is for collections: refuse an object that is not the application's in its call-backs";
            return Err(ObjectsError::Misuse(why.into()));
        }
        Ok(self.settings)
    }
}
