//! Machines on one simulated disk: each with a folder of its own, and one folder that all of them see.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::checkpoints::ended::{check_listed, examined_at_rest};
use crate::prelude::*;

/// The folder that all machines see.
pub(super) const SHARED: &str = "shared";

/// What happens once.
#[derive(Default)]
struct Meanwhile(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Meanwhile")
    }
}

/// A shared store that can be out of reach.
#[derive(Debug)]
pub(super) struct Reached {
    store: Arc<dyn SharedStore>,
    is_unreachable: AtomicBool,
    is_full: AtomicBool,
    refuses_parts: AtomicBool,
    refuses_creations: AtomicBool,
    loses_answers: AtomicBool,
    /// What happens elsewhere while the next listing of manifests is on its way.
    meanwhile: Meanwhile,
    /// Listings that are given again and again.
    cached: Mutex<Option<BTreeMap<String, Vec<SharedObject>>>>,
}

impl Reached {
    pub(super) fn on(disk: &SimDisk) -> Arc<Self> {
        let disk: Arc<dyn Disk> = Arc::new(disk.at(SHARED).mounted());
        Self::to(Arc::new(<SharedFolder>::new(disk)))
    }

    pub(super) fn to(store: Arc<dyn SharedStore>) -> Arc<Self> {
        Arc::new(Self {
            store,
            is_unreachable: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            refuses_parts: AtomicBool::new(false),
            refuses_creations: AtomicBool::new(false),
            loses_answers: AtomicBool::new(false),
            meanwhile: Meanwhile::default(),
            cached: Mutex::default(),
        })
    }

    pub(super) fn set_unreachable(&self, is_unreachable: bool) {
        // Relaxed: one thread.
        self.is_unreachable.store(is_unreachable, Ordering::Relaxed);
    }

    /// Uploads and creations fail.
    pub(super) fn set_full(&self, is_full: bool) {
        // Relaxed: one thread.
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Uploads of checkpoints' files fail.
    pub(super) fn set_refuses_parts(&self, refuses: bool) {
        // Relaxed: one thread.
        self.refuses_parts.store(refuses, Ordering::Relaxed);
    }

    /// Creations fail, and uploads do not.
    pub(super) fn set_refuses_creations(&self, refuses: bool) {
        // Relaxed: one thread.
        self.refuses_creations.store(refuses, Ordering::Relaxed);
    }

    /// Creations are done, and fail.
    pub(super) fn set_loses_answers(&self, loses_answers: bool) {
        // Relaxed: one thread.
        self.loses_answers.store(loses_answers, Ordering::Relaxed);
    }

    /// The next listing of manifests takes so long that this happens meanwhile.
    pub(super) fn meanwhile(&self, happens: impl FnOnce() + Send + 'static) {
        *self.meanwhile.0.lock().expect("no panic") = Some(Box::new(happens));
    }

    /// Each listing is shown again from now on, as a network file system may show it.
    pub(super) fn set_caches_listings(&self, caches: bool) {
        *self.cached.lock().expect("no panic") = caches.then(BTreeMap::new);
    }

    fn has_room(&self) -> Result<&dyn SharedStore, SharedStoreError> {
        // Relaxed: one thread.
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(SharedStoreError::new("no space is left")),
            false => self.reach(),
        }
    }

    fn reach(&self) -> Result<&dyn SharedStore, SharedStoreError> {
        // Relaxed: one thread.
        match self.is_unreachable.load(Ordering::Relaxed) {
            true => Err(SharedStoreError::new("it is unreachable")),
            false => Ok(&*self.store),
        }
    }
}

impl SharedStore for Reached {
    fn place(&self) -> String {
        self.store.place()
    }

    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError> {
        let listed = self.reach()?.list(folder)?;
        let happens = (folder == "manifests").then(|| self.meanwhile.0.lock().expect("no panic").take());
        happens.flatten().into_iter().for_each(|happens| happens());
        let mut cached = self.cached.lock().expect("no panic");
        match &mut *cached {
            None => Ok(listed),
            Some(cached) => Ok(cached.entry(folder.to_owned()).or_insert(listed).clone()),
        }
    }

    fn read_at(&self, name: &str, bytes: &mut [u8], offset: u64) -> Result<Option<usize>, SharedStoreError> {
        self.reach()?.read_at(name, bytes, offset)
    }

    fn upload(&self, name: &str) -> Result<Box<dyn SharedUpload>, SharedStoreError> {
        // Relaxed: one thread.
        if self.refuses_parts.load(Ordering::Relaxed) && name.contains("/ckpt-") {
            return Err(SharedStoreError::new("it takes no part"));
        }
        self.has_room()?.upload(name)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError> {
        // Relaxed: one thread.
        if self.refuses_creations.load(Ordering::Relaxed) {
            return Err(SharedStoreError::new("it takes no manifest"));
        }
        let created = self.has_room()?.create(name, bytes)?;
        // Relaxed: one thread.
        match self.loses_answers.load(Ordering::Relaxed) {
            true => Err(SharedStoreError::new("the answer was lost")),
            false => Ok(created),
        }
    }

    fn remove(&self, name: &str) -> Result<(), SharedStoreError> {
        self.reach()?.remove(name)
    }

    fn list_unfinished(&self, folder: &str) -> Result<Vec<String>, SharedStoreError> {
        self.reach()?.list_unfinished(folder)
    }

    fn settle(&self, folder: &str) -> Result<(), SharedStoreError> {
        self.reach()?.settle(folder)
    }
}

/// What a state is, in short: the TID and the length of each value.
pub(super) type Seen = Vec<(u64, String, usize)>;

pub(super) fn seen(state: &Changes) -> Seen {
    let of = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, |value| value.len() + value[0] as usize);
    state.iter().map(|(key, (tid, value))| (*key, tid.to_string(), of(value))).collect()
}

/// The states that were there, by the epochs from which on they were.
pub(super) type States = BTreeMap<u64, Seen>;

/// The state at the end of this epoch.
pub(super) fn state_at(states: &States, epoch: Epoch) -> &Seen {
    states.range(..=epoch.number()).next_back().expect("there is one from the beginning on").1
}

/// A database that ships.
pub(super) struct Machine {
    pub(super) shipper: Arc<Shipper>,
    worker: Worker,
    pub(super) life: Life,
    pub(super) store: Arc<Reached>,
    /// Of this life, and of those before if it was opened again.
    pub(super) states: States,
    writes: u64,
}

pub(super) fn shipping(store: &Arc<Reached>) -> ShippingConfig {
    ShippingConfig::new(Arc::clone(store) as Arc<dyn SharedStore>)
}

/// A log with short files, of a database that ships.
pub(super) fn shipping_log(loggers: usize, opens_fenced: bool) -> LogConfig {
    let shipping = ShippingOpen { shipping: Shipping::On, opens_fenced };
    LogConfig { shipping, segment_bytes: 4096, ..config(loggers) }
}

impl Machine {
    pub(super) fn open(disk: &SimDisk, folder: &str, loggers: usize, settings: CheckpointConfig) -> Self {
        Self::try_open(disk, folder, loggers, settings).expect("opens")
    }

    pub(super) fn try_open(
        disk: &SimDisk,
        folder: &str,
        loggers: usize,
        settings: CheckpointConfig,
    ) -> Result<Self, DurabilityError> {
        Self::try_open_to(Reached::on(disk), &disk.at(folder), loggers, settings)
    }

    /// The first life of `a` on a new disk.
    pub(super) fn first(loggers: usize, settings: CheckpointConfig) -> (SimDisk, Self) {
        let disk = SimDisk::new();
        let machine = Self::open(&disk, "a", loggers, settings);
        (disk, machine)
    }

    /// One that ships to this store.
    pub(super) fn try_open_to(
        store: Arc<Reached>,
        folder: &SimDisk,
        loggers: usize,
        settings: CheckpointConfig,
    ) -> Result<Self, DurabilityError> {
        Self::of_life(store, Life::open_with(folder, shipping_log(loggers, false), settings)?)
    }

    /// One whose folder may be fenced.
    pub(super) fn open_fenced(disk: &SimDisk, folder: &str) -> Self {
        let life = Life::open_with(&disk.at(folder), shipping_log(1, true), settings()).expect("opens");
        Self::of_life(Reached::on(disk), life).expect("starts")
    }

    /// One that ships to this store, once it is open.
    pub(super) fn of_life(store: Arc<Reached>, life: Life) -> Result<Self, DurabilityError> {
        let shipper = Shipper::start(&life.rig.store, &life.rig.log, shipping(&store))?;
        let worker = life.rig.worker();
        let states = States::from([(life.rig.first.number() - 1, seen(&life.found))]);
        Ok(Self { shipper, worker, life, store, states, writes: 0 })
    }

    /// The process is killed, and the database opened again.
    pub(super) fn killed(self, disk: &SimDisk, folder: &str, loggers: usize) -> Self {
        let Self { mut states, writes, .. } = self;
        disk.kill();
        let mut machine = Self::open(disk, folder, loggers, settings());
        states.append(&mut machine.states);
        Self { states, writes, ..machine }
    }

    pub(super) fn restart_shipper(&mut self, config: ShippingConfig) {
        self.shipper = Shipper::start(&self.life.rig.store, &self.life.rig.log, config).expect("starts");
    }

    /// Commits rows of a kilobyte, an epoch each, so that files are closed; false once the log takes no more.
    pub(super) fn write(&mut self, keys: std::ops::Range<u64>) -> bool {
        for key in keys {
            if self.worker.appender.check().is_err() {
                return false;
            }
            self.writes += 1;
            let value = (!self.writes.is_multiple_of(7)).then(|| vec![self.writes as u8; 1000]);
            let tid = self.life.commit(&mut self.worker, key % 48, value.as_deref());
            self.states.insert(tid.epoch().number(), seen(&self.life.store.present()));
            self.life.rig.settle();
        }
        true
    }

    /// Commits a row in the epoch that is open, which stays open.
    pub(super) fn write_now(&mut self, key: u64) -> Epoch {
        self.writes += 1;
        let tid = self.life.commit(&mut self.worker, key, Some(&[self.writes as u8; 1000]));
        self.states.insert(tid.epoch().number(), seen(&self.life.store.present()));
        tid.epoch()
    }

    /// Commits rows of half a megabyte.
    pub(super) fn write_large(&mut self, keys: std::ops::Range<u64>) {
        for key in keys {
            self.writes += 1;
            self.life.commit(&mut self.worker, key, Some(&vec![self.writes as u8; 500_000]));
            self.life.rig.settle();
        }
    }

    /// Steps so often, each a while after the one before.
    pub(super) fn step_after(&self, times: u32, pause: std::time::Duration) -> ShipStep {
        let mut last = ShipStep::Idle;
        for _ in 0..times {
            self.life.rig.clock.advance(pause);
            last = self.shipper.step();
        }
        last
    }

    /// What its shipping says that went wrong.
    pub(super) fn error(&self) -> String {
        self.shipper.stats().last_error.expect("is told").to_string()
    }

    /// Installs a checkpoint, and lets checkpointers remove what it covers.
    pub(super) fn checkpoint_and_settle(&self) {
        self.life.checkpoint().expect("is installed");
        self.settle_steps();
    }

    /// Ends its life, and is taken over with this state.
    pub(super) fn end_taken_over(self, disk: &SimDisk, state: &Seen) {
        self.end(disk);
        assert_taken_over(disk, "b", state);
    }

    /// Closes the files that are written.
    pub(super) fn close_files(&self) {
        self.shipper.request();
        (0..4).for_each(|_| self.life.rig.settle());
    }

    /// Lets checkpointers remove what they may.
    pub(super) fn settle_steps(&self) {
        for _ in 0..4 {
            self.life.rig.clock.advance(std::time::Duration::from_secs(2));
            self.life.step_all();
        }
    }

    /// Ships what there is; false once nothing is shipped any more.
    pub(super) fn ship(&self) -> bool {
        for _ in 0..10_000 {
            match self.shipper.step() {
                ShipStep::Worked => {}
                ShipStep::Idle => return true,
                ShipStep::Paced(wait) => {
                    self.life.rig.clock.advance(wait);
                }
                ShipStep::Stopped => return false,
            }
        }
        panic!("shipping does not end: {:?}", self.shipper.stats());
    }

    /// Ships all that was committed: the state.
    pub(super) fn ship_all(&mut self) -> Seen {
        self.life.rig.settle();
        self.close_files();
        assert!(self.ship(), "{:?}", self.shipper.stats());
        seen(&self.life.store.present())
    }

    /// Ships all, and ends its life: the shared store has what the newest manifest names and nothing else, and nothing
    /// is missing here of what the life took.
    pub(super) fn end(mut self, disk: &SimDisk) {
        for _ in 0..3 {
            self.ship_all();
            // Longer than the grace.
            self.life.rig.clock.advance(std::time::Duration::from_secs(601));
        }
        let stats = self.shipper.stats();
        assert_eq!((stats.waiting_files, stats.waiting_bytes), (0, 0), "{stats:?}");
        assert_eq!((&stats.last_error, &stats.fenced), (&None, &None), "{stats:?}");
        let (text, newest) = (newest_manifest(disk), format!("manifests/manifest-{}", stats.manifest));
        // An object of a file that has several says its range behind the file's name, which has one dot.
        let file_of = |name: &str| name.match_indices('.').nth(1).map_or(name.len(), |(dot, _)| dot);
        let is_named = |name: &String| {
            let is_whole = !name.ends_with(".new");
            *name == newest || is_whole && text.contains(&format!(" {} ", &name[..file_of(name)]))
        };
        let there = disk.at(SHARED).files();
        assert_eq!(
            there.iter().find(|name| !is_named(name)),
            None,
            "an object that no manifest names: {text}"
        );
        let Self { shipper, worker, life, .. } = self;
        // A step that has ended on another thread is not waited for.
        std::thread::scope(|scope| scope.spawn(|| shipper.step()).join().expect("no panic"));
        shipper.end().expect("no step is under way");
        drop((shipper, worker));
        life.rig.settle();
        life.end();
    }

    /// What recovery found.
    pub(super) fn found(&self) -> Seen {
        seen(&self.life.found)
    }
}

/// A database `a` with a checkpoint, all of which is shipped.
pub(super) fn shipped() -> (SimDisk, Machine) {
    let (disk, mut machine) = Machine::first(1, settings());
    machine.write(0..20);
    machine.life.checkpoint().expect("is installed");
    machine.ship_all();
    (disk, machine)
}

/// Takes over into this folder, which has nothing else then.
pub(super) fn taken_over(disk: &SimDisk, folder: &str) -> Result<TakeOverReport, DurabilityError> {
    let report = run(begin(disk, folder)?)?;
    check_listed(&examined_at_rest(&disk.at(folder)));
    Ok(report)
}

/// Takes over into this folder, which has this state then.
pub(super) fn assert_taken_over(disk: &SimDisk, folder: &str, state: &Seen) {
    taken_over(disk, folder).expect("takes over");
    assert_eq!(&Machine::open(disk, folder, 1, settings()).found(), state);
}

/// Begins to.
pub(super) fn begin(disk: &SimDisk, folder: &str) -> Result<TakeOver, DurabilityError> {
    begin_from(Reached::on(disk), &disk.at(folder))
}

/// Begins to, from this store.
pub(super) fn begin_from(store: Arc<dyn SharedStore>, folder: &SimDisk) -> Result<TakeOver, DurabilityError> {
    TakeOver::begin(&store, &(Arc::new(folder.mounted()) as Arc<dyn Disk>), None)
}

/// Steps to the end.
pub(super) fn run(mut run: TakeOver) -> Result<TakeOverReport, DurabilityError> {
    loop {
        if let TakeOverStep::Ended(report) = run.step(&Framing, 0)? {
            return Ok(report);
        }
    }
}

/// Steps until nothing is to be done, and at each new manifest looks at what a take-over finds there: S never goes
/// back, and the state is the one of that epoch. How many manifests there were.
pub(super) fn ship_watched(disk: &SimDisk, machine: &Machine, mut least: Epoch) -> u64 {
    let (mut manifest, mut seen) = (machine.shipper.stats().manifest, 0);
    for step in 0..2000 {
        let last = machine.step_after(1, std::time::Duration::from_millis(100));
        let stats = machine.shipper.stats();
        if stats.manifest > manifest {
            (manifest, seen) = (stats.manifest, seen + 1);
            assert!(stats.shipped_epoch >= least, "step {step}: {} behind {least}", stats.shipped_epoch);
            least = stats.shipped_epoch;
            let copy = copy_at_rest(disk);
            let report =
                taken_over(&copy, "watched").unwrap_or_else(|error| panic!("manifest {manifest}: {error}"));
            assert_eq!(report.epoch, least);
            let found = Machine::open(&copy, "watched", 1, settings()).found();
            assert_eq!(&found, state_at(&machine.states, least), "manifest {manifest}, epoch {least}");
        }
        if last == ShipStep::Idle {
            return seen;
        }
    }
    panic!("shipping does not end: {:?}", machine.shipper.stats());
}

/// The objects of the shared store.
pub(super) fn objects(disk: &SimDisk) -> Vec<String> {
    disk.at(SHARED).files().into_iter().filter(|name| !name.ends_with(".new")).collect()
}

/// The text of the newest manifest.
pub(super) fn newest_manifest(disk: &SimDisk) -> String {
    let number = |name: &String| name.strip_prefix("manifests/manifest-")?.parse::<u64>().ok();
    let newest = objects(disk).iter().filter_map(number).max().expect("there is one");
    String::from_utf8(disk.at(SHARED).bytes(&format!("manifests/manifest-{newest}"))).expect("text")
}
