//! Lives and take-overs over an object store: that of the crate `object_store` in memory, through `SharedObjects`.

use object_store::memory::InMemory;

use super::rig::*;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// The store and the machines at one moment.
struct StoreMoment {
    bucket: InMemory,
    disk: SimDisk,
    at: String,
}

/// Keeps what there was before and behind each call that changes something.
#[derive(Debug)]
struct Bucket {
    objects: SharedObjects,
    memory: Arc<InMemory>,
    disk: SimDisk,
    moments: Arc<Mutex<Option<Vec<StoreMoment>>>>,
}

impl std::fmt::Debug for StoreMoment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.at)
    }
}

/// All there is below a prefix of this memory.
fn objects_in(memory: &Arc<InMemory>) -> SharedObjects {
    SharedObjects::new(Arc::clone(memory) as _, "shops/one").expect("a runtime")
}

impl Bucket {
    fn new(memory: InMemory, disk: &SimDisk) -> Arc<Self> {
        let memory = Arc::new(memory);
        Arc::new(Self { objects: objects_in(&memory), memory, disk: disk.clone(), moments: Arc::default() })
    }

    fn keep_moments(&self) {
        *self.moments.lock().expect("no panic") = Some(Vec::new());
    }

    fn take_moments(&self) -> Vec<StoreMoment> {
        self.moments.lock().expect("no panic").take().expect("they were kept")
    }

    fn keep(&self, what: &str) {
        if let Some(moments) = &mut *self.moments.lock().expect("no panic") {
            let at = format!("call {}, {what}", moments.len());
            moments.push(StoreMoment { bucket: self.memory.fork(), disk: self.disk.fork(), at });
        }
    }

    fn kept<T>(&self, what: &str, call: impl FnOnce() -> T) -> T {
        self.keep(&format!("before {what}"));
        let outcome = call();
        self.keep(&format!("behind {what}"));
        outcome
    }

    fn named(&self, folder: &str) -> Vec<String> {
        self.objects.list(folder).expect("lists").into_iter().map(|object| object.name).collect()
    }

    /// The objects of the one database that has put any.
    fn of_shipper(&self) -> Vec<SharedObject> {
        let mut text = vec![0; 1000];
        let manifest = self.named("manifests").pop().expect("one");
        let read = self.objects.read_at(&manifest, &mut text, 0).expect("reads").expect("is there");
        let text = String::from_utf8_lossy(&text[..read]);
        let line = text.lines().find_map(|line| line.strip_prefix("shipper ")).expect("a manifest says so");
        self.objects.list(line.split(' ').next().expect("an identity")).expect("lists")
    }
}

impl SharedStore for Bucket {
    fn place(&self) -> String {
        self.objects.place()
    }

    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError> {
        self.objects.list(folder)
    }

    fn read_at(&self, name: &str, bytes: &mut [u8], offset: u64) -> Result<Option<usize>, SharedStoreError> {
        self.objects.read_at(name, bytes, offset)
    }

    fn upload(&self, name: &str) -> Result<Box<dyn SharedUpload>, SharedStoreError> {
        let bucket = Self {
            objects: self.objects.clone(),
            memory: Arc::clone(&self.memory),
            disk: self.disk.clone(),
            moments: Arc::clone(&self.moments),
        };
        let upload = self.objects.upload(name)?;
        Ok(Box::new(KeptUpload { bucket, name: name.to_owned(), upload }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError> {
        self.kept(&format!("the creation of {name}"), || self.objects.create(name, bytes))
    }

    fn remove(&self, name: &str) -> Result<(), SharedStoreError> {
        self.kept(&format!("the removal of {name}"), || self.objects.remove(name))
    }

    fn list_unfinished(&self, folder: &str) -> Result<Vec<String>, SharedStoreError> {
        self.objects.list_unfinished(folder)
    }

    fn settle(&self, folder: &str) -> Result<(), SharedStoreError> {
        self.objects.settle(folder)
    }
}

#[derive(Debug)]
struct KeptUpload {
    bucket: Bucket,
    name: String,
    upload: Box<dyn SharedUpload>,
}

impl SharedUpload for KeptUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SharedStoreError> {
        self.upload.write(bytes)
    }

    fn finish(self: Box<Self>) -> Result<(), SharedStoreError> {
        let Self { bucket, name, upload } = *self;
        bucket.kept(&format!("the end of {name}"), || upload.finish())
    }
}

fn open(bucket: &Arc<Bucket>, folder: &str, settings: CheckpointConfig) -> Machine {
    let store = Reached::to(Arc::clone(bucket) as _);
    Machine::try_open_to(store, &bucket.disk.at(folder), 2, settings).expect("opens")
}

fn taken_over(bucket: &Arc<Bucket>, folder: &str) -> Result<TakeOverReport, DurabilityError> {
    run(begin_from(Arc::clone(bucket) as _, &bucket.disk.at(folder))?)
}

/// What was found by a machine that takes over into this folder.
fn found_by(bucket: &Arc<Bucket>, folder: &str, at: &str) -> (TakeOverReport, Seen) {
    let report = taken_over(bucket, folder).unwrap_or_else(|error| panic!("{at}: {error}"));
    (report, open(bucket, folder, settings()).found())
}

/// A database that ships three times, with a checkpoint, and removes what no manifest names.
fn lived(bucket: &Arc<Bucket>) -> (States, u64) {
    let mut machine = open(bucket, "a", settings());
    machine.write(0..12);
    machine.ship_all();
    let least = machine.shipper.stats().shipped_epoch.number();
    machine.write(12..18);
    machine.life.checkpoint().expect("is installed");
    machine.write(18..22);
    bucket.keep_moments();
    machine.ship_all();
    for _ in 0..2 {
        machine.life.rig.clock.advance(Duration::from_secs(1000));
        machine.ship_all();
    }
    (machine.states, least)
}

#[test]
fn h1_h3_a_machine_that_dies_at_any_call_of_an_object_store_is_taken_over_and_goes_on() {
    let bucket = Bucket::new(InMemory::new(), &SimDisk::new());
    let (states, least) = lived(&bucket);
    let (_, last) = states.iter().next_back().expect("one");
    let moments = bucket.take_moments();
    assert!(moments.len() > 30, "{} moments", moments.len());
    let is_at = |what: &str| moments.iter().any(|moment| moment.at.contains(what));
    assert!(is_at("creation") && is_at("removal") && is_at("checkpoint0/"), "{moments:?}");
    let (mut news, mut olds) = (0, 0);
    for StoreMoment { bucket, disk, at } in moments {
        disk.kill();
        let copy = Bucket::new(bucket.fork(), &disk.fork());
        let (report, found) = found_by(&copy, "b", &at);
        assert!(report.epoch.number() >= least, "{at}: {} of {least}", report.epoch);
        assert_eq!(&found, state_at(&states, report.epoch), "{at}");
        news += u64::from(report.epoch.number() > least);
        olds += u64::from(report.epoch.number() == least);
        // The next life goes on behind it.
        let copy = Bucket::new(bucket, &disk);
        let mut machine = open(&copy, "a", settings());
        assert_eq!(&machine.ship_all(), last, "{at}: all of it was durable");
        assert_eq!(machine.shipper.stats().fenced, None, "{at}");
        drop(machine);
        assert_eq!(&found_by(&copy, "b", &at).1, last, "{at}");
    }
    assert!(news > 0 && olds > 0, "{news} new, {olds} old");
}

#[test]
fn h6_h7_over_an_object_store_one_of_two_machines_goes_on() {
    let shipped = || {
        let bucket = Bucket::new(InMemory::new(), &SimDisk::new());
        let mut machine = open(&bucket, "a", settings());
        machine.write(0..20);
        machine.life.checkpoint().expect("is installed");
        machine.ship_all();
        (bucket, machine)
    };
    let begin =
        |bucket: &Arc<Bucket>| begin_from(Arc::clone(bucket) as _, &bucket.disk.at("b")).expect("begins");
    let whole = {
        let (bucket, _old) = shipped();
        let mut take_over = begin(&bucket);
        let mut steps = 0;
        while take_over.step(&Framing, 0).expect("goes on") == TakeOverStep::Worked {
            steps += 1;
        }
        steps
    };
    for at in (0..=whole).step_by(3).chain([whole]) {
        let (bucket, mut old) = shipped();
        let mut take_over = begin(&bucket);
        (0..at).for_each(|_| drop(take_over.step(&Framing, 0).expect("goes on")));
        old.write(20..30);
        let state = old.ship_all();
        let shipped = old.shipper.stats();
        let report = run(take_over).unwrap_or_else(|error| panic!("step {at}: {error}"));
        assert_eq!((report.epoch, report.term), (shipped.shipped_epoch, 2), "step {at}");
        old.write(0..5);
        old.close_files();
        assert!(!old.ship(), "step {at}: it is fenced");
        assert_eq!(old.shipper.stats().shipped_epoch, shipped.shipped_epoch);
        let mut new = open(&bucket, "b", settings());
        assert_eq!(new.found(), state, "step {at}");
        new.write(0..5);
        let state = new.ship_all();
        drop(new);
        let (report, found) = found_by(&bucket, "c", "the third machine");
        assert_eq!((report.term, found), (3, state), "step {at}");
    }
}

#[test]
fn h2_an_object_stores_answer_that_is_lost_is_no_second_manifest() {
    let bucket = Bucket::new(InMemory::new(), &SimDisk::new());
    let mut machine = open(&bucket, "a", settings());
    machine.write(0..20);
    machine.ship_all();
    machine.write(20..30);
    machine.close_files();
    machine.store.set_loses_answers(true);
    machine.step_after(50, SECOND);
    assert!(machine.error().contains("the answer was lost"));
    let manifests = bucket.named("manifests");
    machine.store.set_loses_answers(false);
    assert_eq!(machine.step_after(1, 2 * SECOND), ShipStep::Worked);
    assert_eq!(bucket.named("manifests"), manifests);
    // Out of reach for a while.
    machine.store.set_unreachable(true);
    machine.write(0..5);
    machine.close_files();
    machine.step_after(20, SECOND);
    assert!(machine.error().contains("unreachable"));
    machine.store.set_unreachable(false);
    machine.life.rig.clock.advance(2 * SECOND);
    let state = machine.ship_all();
    assert_eq!(machine.shipper.stats().fenced, None);
    drop(machine);
    assert_eq!(found_by(&bucket, "b", "at the end").1, state);
}

/// A checkpoint's file is put in parts, which are an object at their end.
#[test]
fn h1_a_file_that_an_object_store_gets_in_parts_is_joined() {
    let bucket = Bucket::new(InMemory::new(), &SimDisk::new());
    let one_file = CheckpointConfig { checkpointers: 1, files: 1, ..settings() };
    let mut machine = open(&bucket, "a", one_file.clone());
    machine.write_large(0..20);
    machine.life.checkpoint().expect("is installed");
    let state = machine.ship_all();
    let parts = bucket.of_shipper().into_iter().map(|object| object.name);
    let gone = &parts.into_iter().find(|name| name.contains("/ckpt-")).expect("one");
    let largest = bucket.of_shipper().into_iter().map(|object| object.bytes).max();
    assert!(largest.is_some_and(|bytes| bytes > 9 << 20), "{largest:?}");
    drop(machine);
    let report = taken_over(&bucket, "b").expect("takes over");
    assert!(report.bytes > 9 << 20, "{report:?}");
    assert_eq!(open(&bucket, "b", one_file).found(), state);
    // One that is gone is named.
    bucket.objects.remove(gone).expect("is removed");
    let error = taken_over(&bucket, "c").expect_err("is damaged");
    assert!(matches!(error, DurabilityError::SharedDamaged { .. }), "{error}");
    assert!(error.to_string().contains(gone) && error.to_string().contains("missing"), "{error}");
}
