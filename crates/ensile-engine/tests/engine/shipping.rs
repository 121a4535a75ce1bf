//! A database that ships its finished files to a shared folder or an object store, and a machine that takes over while
//! the first one is alive.

use std::path::PathBuf;

use ensile_durability::HangingStore;
use ensile_engine::folder::{SharedFolder, SharedObjects, SharedStore, ShippingConfig, take_over};

use crate::prelude::*;

/// Far longer than it takes.
const PATIENCE: Duration = Duration::from_secs(300);

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

    fn open(&self, machine: &str, strategy: Strategy) -> (Database, Table<u64, u64>) {
        self.open_with(machine, strategy, ShippingConfig::new(self.store()))
    }

    fn open_to(
        &self,
        store: &Arc<dyn SharedStore>,
        machine: &str,
        strategy: Strategy,
    ) -> (Database, Table<u64, u64>) {
        self.open_with(machine, strategy, ShippingConfig::new(Arc::clone(store)))
    }

    fn open_with(
        &self,
        machine: &str,
        strategy: Strategy,
        shipping: ShippingConfig,
    ) -> (Database, Table<u64, u64>) {
        let tuning = Tuning { checkpoint_strategy: Some(strategy), ..Tuning::default() };
        let database = Database::builder(self.0.join(machine))
            .checkpoints(Schedule::on_demand())
            .tuning(tuning)
            .ship_to(shipping)
            .open()
            .expect("opens");
        let table = database.table("numbers").expect("a table");
        (database, table)
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sum(database: &Database, table: &Table<u64, u64>) -> u64 {
    database
        .run(|tx| (0..100).try_fold(0, |sum, key| Ok(sum + tx.get(table, &key)?.unwrap_or(0))))
        .expect("reads")
}

fn takes_over_with(strategy: Strategy, name: &str) {
    let folders = Folders::new(name);
    takes_over_from(&folders.store(), &folders, strategy);
}

fn takes_over_from(store: &Arc<dyn SharedStore>, folders: &Folders, strategy: Strategy) {
    let (old, table) = folders.open_to(store, "a", strategy);
    for key in 0..100 {
        old.run(|tx| tx.put(&table, &key, &key)).expect("commits");
    }
    old.checkpoint().expect("begins").wait().expect("is installed");
    old.run(|tx| tx.put(&table, &3, &1000)).expect("commits");
    old.run(|tx| tx.delete(&table, &4)).expect("commits");
    let shipped = old.ship(PATIENCE).expect("is shipped");
    let expected = sum(&old, &table);
    let report = take_over(store, &folders.0.join("b"), None).expect("takes over");
    assert!(report.epoch >= shipped && report.term == 2, "{report:?}");
    let (new, new_table) = folders.open_to(store, "b", strategy);
    assert_eq!(sum(&new, &new_table), expected);
    // The old one installs nothing any more, and stops.
    let _ = old.run(|tx| tx.put(&table, &5, &77));
    let error = old.ship(PATIENCE).expect_err("is fenced");
    assert!(matches!(cause(&error), Some(DurabilityError::Fenced { .. })), "{error}");
    let stats = old.stats().shipping.expect("it ships");
    assert!(stats.fenced.is_some() && stats.shipped_epoch == report.epoch, "{stats:?}");
    let refused = old.run(|tx| tx.put(&table, &6, &1)).expect_err("its log has stopped").to_string();
    assert!(refused.contains("fenced"), "{refused}");
    drop(old);
    new.run(|tx| tx.put(&new_table, &5, &1)).expect("commits");
    new.ship(PATIENCE).expect("is shipped");
    assert_eq!(new.stats().shipping.map(|stats| stats.term), Some(2));
    new.close().expect("closes");
}

#[test]
fn another_machine_takes_over_with_fuzzy_or_cycling_checkpoints() {
    takes_over_with(Strategy::Fuzzy, "fuzzy");
    takes_over_with(Strategy::Cycling, "cycling");
}

#[test]
fn another_machine_takes_over_from_an_object_store() {
    let memory = Arc::new(object_store::memory::InMemory::new());
    let store: Arc<dyn SharedStore> = Arc::new(SharedObjects::new(memory, "shop").expect("a runtime"));
    takes_over_from(&store, &Folders::new("objects"), Strategy::Fuzzy);
}

#[test]
fn h6_a_fenced_database_is_refused_or_opened_to_be_read() {
    let folders = Folders::new("fenced");
    let (old, table) = folders.open("a", Strategy::Fuzzy);
    old.run(|tx| tx.put(&table, &1, &7)).expect("commits");
    old.ship(PATIENCE).expect("is shipped");
    take_over(&folders.store(), &folders.0.join("b"), None).expect("takes over");
    old.run(|tx| tx.put(&table, &2, &8)).expect("commits: the database does not know yet");
    old.ship(PATIENCE).expect_err("is fenced");
    drop(old);
    let builder = || Database::builder(folders.0.join("a"));
    for builder in [builder(), builder().stop_shipping()] {
        let refused = builder.open().expect_err("it is fenced");
        assert!(matches!(cause(&refused), Some(DurabilityError::FencedFolder { .. })), "{refused}");
    }
    let old = builder().open_fenced().open().expect("it is to be read");
    let table = old.table("numbers").expect("a table");
    assert_eq!(sum(&old, &table), 15, "the row that only this folder has, too");
    let refused = old.run(|tx| tx.put(&table, &3, &9)).expect_err("nothing is acknowledged").to_string();
    assert!(refused.contains("fenced"), "{refused}");
    let remembered = old.recovery_report().and_then(|report| report.shared_store.as_ref());
    assert!(remembered.is_some_and(|store| store.is_fenced));
    let health = old.health();
    assert!(!health.is_well() && health.fenced.is_some_and(|why| why.contains("taken over")));
    old.close().expect("nothing of this life could be lost");
}

#[test]
fn h8_a_database_that_ships_is_opened_with_its_store_or_stops_shipping() {
    let folders = Folders::new("stops");
    drop(folders.open("a", Strategy::Fuzzy));
    let builder = || Database::builder(folders.0.join("a"));
    let (database, _) = folders.open("a", Strategy::Fuzzy);
    database.ship(PATIENCE).expect("is shipped");
    drop(database);
    let refused = builder().open().expect_err("another machine may have taken over");
    assert!(matches!(cause(&refused), Some(DurabilityError::ShipsElsewhere { .. })), "{refused}");
    builder().stop_shipping().open().expect("ships no more").close().expect("closes");
    builder().open().expect("its folder remembers no store").close().expect("closes");
}

#[test]
fn what_cannot_be_shipped_is_refused_at_open() {
    let folders = Folders::new("refused");
    let tuning = Tuning { checkpoint_strategy: Some(Strategy::Pictures), ..Tuning::default() };
    let open = |builder: ensile_engine::Builder| builder.ship_to(ShippingConfig::new(folders.store())).open();
    let pictures = open(Database::builder(folders.0.join("a")).tuning(tuning)).expect_err("is refused");
    assert!(matches!(&pictures, Error::Misuse(why) if why.contains("pictures")), "{pictures}");
    let memory = open(Database::builder_in_memory()).expect_err("is refused");
    assert!(matches!(memory, Error::Misuse(_)), "{memory}");
    let no_log = open(Database::builder(folders.0.join("a")).without_log()).expect_err("is refused");
    assert!(no_log.to_string().contains("without a log"), "{no_log}");
    let plain = Database::open(folders.0.join("a")).expect("opens");
    let error = plain.ship(PATIENCE).expect_err("nothing is shipped");
    assert!(matches!(error, Error::Misuse(_)), "{error}");
    assert!(plain.stats().shipping.is_none());
    let error = take_over(&folders.store(), &folders.0.join("b"), Some(0)).expect_err("never ends");
    assert!(matches!(error, Error::Misuse(_)), "{error}");
}

#[test]
fn a_close_does_not_wait_for_a_store_that_hangs_and_says_what_was_not_shipped() {
    let folders = Folders::new("hangs");
    let store = HangingStore::new(folders.store());
    let wait = Duration::from_millis(200);
    let config = ShippingConfig { close_wait: wait, ..ShippingConfig::new(Arc::clone(&store) as _) };
    let (database, table) = folders.open_with("a", Strategy::Fuzzy, config);
    database.run(|tx| tx.put(&table, &7, &70)).expect("commits");
    while !store.is_waiting() {
        database.ship(Duration::from_millis(5)).expect_err("it hangs");
    }
    let error = database.close().expect_err("not all is shipped");
    let is_it = matches!(cause(&error), Some(DurabilityError::NotShipped { .. }));
    assert!(is_it && error.to_string().contains("has not returned"), "{error}");
    drop(database);
    // Everything is durable in the folder, and the next life ships it.
    let (database, table) = folders.open("a", Strategy::Fuzzy);
    assert_eq!(sum(&database, &table), 70);
    database.ship(PATIENCE).expect("is shipped");
    drop(database);
    store.let_go();
    take_over(&folders.store(), &folders.0.join("b"), None).expect("takes over");
    let (database, table) = folders.open("b", Strategy::Fuzzy);
    assert_eq!(sum(&database, &table), 70);
}

#[test]
#[cfg(target_os = "linux")]
fn the_thread_that_ships_gives_way() {
    use ensile_sim::process_threads::{all, own_niceness};

    let folders = Folders::new("gives-way");
    let open = folders.open("a", Strategy::Fuzzy);
    let wanted = ("ensile-ship".to_owned(), (own_niceness() + 5).min(19));
    // It does so as it begins, which may be in a moment.
    let gives_way = (0..PATIENCE.as_millis()).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        all().contains(&wanted)
    });
    assert!(gives_way, "{:?}, and {wanted:?} is wanted", all());
    drop(open);
}
