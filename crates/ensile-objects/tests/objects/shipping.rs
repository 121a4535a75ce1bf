//! Objects that are shipped to a shared folder or an object store, taken over by another machine while the first one is
//! alive: on the simulated disk step by step, and with threads in real folders.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{DurabilityError, HangingStore};
use ensile_objects::{
    CheckpointPolicy, ObjectDurability, Objects, ObjectsBuilder, SharedFolder, SharedObjects, SharedStore,
    ShipStep, ShippingConfig, WhenFenced, take_over,
};
use ensile_sim::SimDisk;

use crate::cause;
use crate::rig::{Life, Tallies, builder};
use crate::tally::{Change, Tally};

fn shared(disk: &SimDisk) -> ShippingConfig {
    let disk: Arc<dyn Disk> = Arc::new(disk.at("/shared").mounted());
    ShippingConfig::new(Arc::new(SharedFolder::new(disk)))
}

fn open(disk: &SimDisk, folder: &str) -> Life {
    let clock = Clock::manual();
    let builder = builder(&disk.at(folder), 1).manual_clock(clock.clone()).ship_to(shared(disk));
    Life { objects: builder.open().expect("opens"), clock, loggers: 1 }
}

fn ship(life: &Life) {
    for _ in 0..1000 {
        match life.objects.ship_step().expect("it ships") {
            ShipStep::Worked => {}
            ShipStep::Paced(wait) => life.clock.advance(wait),
            ShipStep::Idle | ShipStep::Stopped => return,
        }
    }
    panic!("shipping does not end: {:?}", life.objects.stats().shipping);
}

#[test]
fn files_that_are_closed_are_shipped_and_the_figures_say_so() {
    let disk = SimDisk::new();
    let life = open(&disk, "/a");
    for key in 0..40 {
        life.objects.update(key, &Change::Grow(2000)).expect("is logged");
        life.settle();
    }
    life.checkpoint().expect("is installed");
    // A file is closed behind the checkpoint, as the shipper asks for.
    ship(&life);
    life.settle();
    ship(&life);
    let stats = life.objects.stats().shipping.expect("it ships");
    assert!(
        stats.files > 2 && stats.manifest > 0 && stats.shipped_epoch > ensile_base::Epoch::FIRST,
        "{stats:?}"
    );
    life.objects.update(3, &Change::Add(7)).expect("is logged");
    life.settle();
    life.checkpoint().expect("is installed");
    // A file is closed behind the checkpoint, as the shipper asks for.
    ship(&life);
    life.settle();
    ship(&life);
    let later = life.objects.stats().shipping.expect("it ships");
    assert!(later.files > stats.files && later.last_error.is_none(), "{later:?}");
}

struct Folders(PathBuf);

impl Folders {
    fn new(name: &str) -> Self {
        let base = std::env::var_os("ENSILE_TEST_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = base.join(format!("ensile-ship-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("shared")).expect("makes");
        Self(folder)
    }

    fn store(&self) -> Arc<dyn SharedStore> {
        Arc::new(SharedFolder::open(&self.0.join("shared")).expect("is there"))
    }

    fn open(&self, machine: &str, when_fenced: WhenFenced) -> Tallies {
        self.open_with(machine, ShippingConfig { when_fenced, ..ShippingConfig::new(self.store()) })
    }

    fn open_with(&self, machine: &str, shipping: ShippingConfig) -> Tallies {
        ObjectsBuilder::new(self.0.join(machine))
            .durability(ObjectDurability::Relaxed)
            .policy(&CheckpointPolicy::on_demand())
            .epoch_interval(Duration::from_millis(2))
            .ship_to(shipping)
            .open()
            .expect("opens")
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(300);

fn sums(objects: &Objects<u64, Tally>) -> Vec<(u64, u64)> {
    let mut sums = Vec::new();
    objects.for_each(|key, tally| sums.push((*key, tally.operations))).expect("is open");
    sums.sort_unstable();
    sums
}

#[test]
fn another_machine_takes_over_while_the_old_one_is_alive_which_is_fenced_then() {
    let folders = Folders::new("alive");
    takes_over_from(&folders.store(), &folders);
}

#[test]
fn another_machine_takes_over_from_an_object_store() {
    let memory = Arc::new(object_store::memory::InMemory::new());
    let store: Arc<dyn SharedStore> = Arc::new(SharedObjects::new(memory, "tallies").expect("a runtime"));
    takes_over_from(&store, &Folders::new("objects"));
}

fn takes_over_from(store: &Arc<dyn SharedStore>, folders: &Folders) {
    let open = |machine: &str| folders.open_with(machine, ShippingConfig::new(Arc::clone(store)));
    let old = open("a");
    for key in 0..50 {
        old.update(key, &Change::Add(key)).expect("is logged");
    }
    let before = old.ship(PATIENCE).expect("is shipped");
    old.checkpoint().wait().expect("is installed");
    for key in 0..20 {
        old.update(key, &Change::Add(1)).expect("is logged");
    }
    let shipped = old.ship(PATIENCE).expect("is shipped");
    assert!(shipped > before);
    let expected = sums(&old);
    let report = take_over(store, &folders.0.join("b"), None).expect("takes over");
    // The old one may ship on in the background until it is fenced.
    assert!(report.epoch >= shipped && report.term == 2, "{report:?} behind {shipped:?}");
    let new = open("b");
    assert_eq!(sums(&new), expected);
    // What the old one acknowledges is not shipped, and it stops once it notices.
    let _ = old.update(7, &Change::Add(1_000_000));
    let error = old.ship(PATIENCE).expect_err("is fenced");
    assert!(matches!(cause(&error), Some(DurabilityError::Fenced { .. })), "{error}");
    let stats = old.stats().shipping.expect("ships");
    assert_eq!((stats.shipped_epoch, stats.fenced.is_some()), (report.epoch, true));
    let refused = old.update(8, &Change::Add(1)).expect_err("its log has stopped").to_string();
    assert!(refused.contains("fenced") && refused.contains(&report.database), "{refused}");
    // The new one ships on, and a third takes over from it.
    new.update(9, &Change::Add(5)).expect("is logged");
    new.ship(PATIENCE).expect("is shipped");
    let expected = sums(&new);
    drop(new);
    let report = take_over(store, &folders.0.join("c"), None).expect("takes over");
    assert_eq!(report.term, 3);
    assert_eq!(sums(&open("c")), expected);
}

#[test]
fn without_a_store_nothing_is_shipped_and_a_missing_folder_is_named() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    assert!(life.objects.stats().shipping.is_none() && life.objects.ship_step().is_none());
    let error = life.objects.ship(PATIENCE).expect_err("nowhere").to_string();
    assert!(error.contains("ship_to"), "{error}");
    let folders = Folders::new("missing");
    let error = SharedFolder::open(&folders.0.join("nowhere")).expect_err("is missing").to_string();
    assert!(error.contains("mount its device"), "{error}");
    let error =
        take_over(&folders.store(), &folders.0.join("b"), Some(0)).expect_err("never ends").to_string();
    assert!(error.contains("never ends"), "{error}");
}

#[test]
fn a_close_does_not_wait_for_a_store_that_hangs_and_says_what_was_not_shipped() {
    let folders = Folders::new("hangs");
    let store = HangingStore::new(folders.store());
    let wait = Duration::from_millis(200);
    let config = ShippingConfig { close_wait: wait, ..ShippingConfig::new(Arc::clone(&store) as _) };
    for is_closed in [true, false] {
        let objects = folders.open_with("a", config.clone());
        objects.update(1, &Change::Add(5)).expect("is logged");
        while !store.is_waiting() {
            objects.ship(Duration::from_millis(5)).expect_err("it hangs");
        }
        if is_closed {
            let error = objects.close().expect_err("not all is shipped");
            let is_it = matches!(cause(&error), Some(DurabilityError::NotShipped { .. }));
            let text = error.to_string();
            assert!(is_it && text.contains("has not returned") && text.contains("durable here"), "{text}");
            assert_eq!(objects.close().expect_err("as before").to_string(), text);
        }
        // The drop of the last handle waits no longer.
        drop(objects);
        store.let_go();
        while store.is_waiting() {
            std::thread::yield_now();
        }
        store.hang();
    }
    // Everything is durable in the folder, and the next life ships it.
    let objects = folders.open("a", WhenFenced::Stop);
    assert_eq!(sums(&objects), [(1, 2)]);
    objects.ship(PATIENCE).expect("is shipped");
    let expected = sums(&objects);
    drop(objects);
    take_over(&folders.store(), &folders.0.join("b"), None).expect("takes over");
    assert_eq!(sums(&folders.open("b", WhenFenced::Stop)), expected);
}

#[test]
fn a_close_that_waits_for_a_store_that_hangs_is_cancelled_by_another_thread() {
    let folders = Folders::new("cancelled");
    let store = HangingStore::new(folders.store());
    let config = ShippingConfig { close_wait: PATIENCE, ..ShippingConfig::new(Arc::clone(&store) as _) };
    let objects = folders.open_with("a", config);
    objects.update(1, &Change::Add(5)).expect("is logged");
    while !store.is_waiting() {
        objects.ship(Duration::from_millis(5)).expect_err("it hangs");
    }
    let error = std::thread::scope(|scope| {
        let closing = scope.spawn(|| objects.close());
        objects.cancel_shipping();
        closing.join().expect("no panic").expect_err("not all is shipped").to_string()
    });
    assert!(error.contains("has not returned"), "{error}");
    let told = objects.stats().shipping.and_then(|stats| stats.last_error).expect("is told");
    assert!(told.contains("cancelled"), "{told}");
    store.let_go();
    drop(objects);
    assert_eq!(sums(&folders.open("a", WhenFenced::Stop)), [(1, 1)]);
}

/// Nothing is logged in this life, so no log gets a mark.
#[test]
fn behind_an_open_without_a_change_all_is_shipped_soon() {
    let folders = Folders::new("unchanged");
    for has_checkpoint in [false, true] {
        let objects = folders.open("a", WhenFenced::Stop);
        objects.update(1, &Change::Add(5)).expect("is logged");
        if has_checkpoint {
            objects.checkpoint().wait().expect("is installed");
        }
        drop(objects);
        let objects = folders.open("a", WhenFenced::Stop);
        objects.ship(PATIENCE).expect("is shipped");
        let expected = sums(&objects);
        drop(objects);
        let machine = format!("b{has_checkpoint}");
        take_over(&folders.store(), &folders.0.join(&machine), None).expect("takes over");
        assert_eq!(sums(&folders.open(&machine, WhenFenced::Stop)), expected);
        // For the next round it is the machine that ships.
        let _ = std::fs::remove_dir_all(folders.0.join("a"));
        std::fs::remove_dir_all(folders.0.join("shared")).expect("is there");
        std::fs::create_dir_all(folders.0.join("shared")).expect("makes");
    }
}

#[test]
fn a_store_of_a_database_makes_no_folder_that_of_a_take_over() {
    let folders = Folders::new("kind");
    let objects = folders.open("a", WhenFenced::Stop);
    objects.update(1, &Change::Add(5)).expect("is logged");
    objects.ship(PATIENCE).expect("is shipped");
    // Its state's entries are called those of a database.
    let manifest = folders.0.join("shared/manifests/manifest-1");
    let text = std::fs::read_to_string(&manifest)
        .expect("is there")
        .replace(" entries operations ", " entries values ");
    let body = &text[..text.find("crc32c ").expect("the last line")];
    let next = body.replace(" number 1 ", " number 999 ");
    let crc = ensile_base::checksum::crc32c(next.as_bytes());
    std::fs::write(folders.0.join("shared/manifests/manifest-999"), format!("{next}crc32c {crc:08x}\n"))
        .expect("is written");
    let error = take_over(&folders.store(), &folders.0.join("b"), None).expect_err("is refused").to_string();
    assert!(error.contains("use `ensile take-over`"), "{error}");
    assert!(!folders.0.join("b/MANIFEST").exists(), "nothing is begun there");
}

#[test]
#[cfg(target_os = "linux")]
fn the_thread_that_ships_gives_way() {
    use ensile_sim::process_threads::{all, own_niceness};

    let folders = Folders::new("gives-way");
    let open = folders.open("a", WhenFenced::Stop);
    let wanted = ("ensile-obj-ship".to_owned(), (own_niceness() + 5).min(19));
    // It does so as it begins, which may be in a moment.
    let gives_way = (0..PATIENCE.as_millis()).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        all().contains(&wanted)
    });
    assert!(gives_way, "{:?}, and {wanted:?} is wanted", all());
    drop(open);
}
