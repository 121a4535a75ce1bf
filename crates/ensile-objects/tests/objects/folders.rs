//! Whose folder it is: a collection refuses a database's, and a database a collection's.

use std::sync::Arc;

use ensile_durability::{
    CopySource, DurabilityError, Entry, Log, LogConfig, OpenStore, Recoverable, Recovered, Refused, recover,
};
use ensile_epoch::{EpochConfig, Epochs};
use ensile_objects::{Objects, ObjectsBuilder, ObjectsResult};
use ensile_sim::SimDisk;

use crate::rig::{builder, checkpoint};
use crate::tally::{Change, Tally};

/// A state of values, as a database is.
struct Values;

impl Recoverable for Values {
    fn replay(&self, _: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }

    fn load(&self, _: u32, _: &[Entry<'_>]) -> Result<(), Refused> {
        Ok(())
    }
}

/// A life of a state of values, with an entry or without.
fn life_of_values(disk: &SimDisk, has_entry: bool) -> Result<(), DurabilityError> {
    let Recovered { report, store, log, .. } =
        recover(Arc::new(disk.mounted()), LogConfig::default(), &Values)?;
    let config =
        EpochConfig { first: report.first_epoch, snapshot_interval: std::time::Duration::from_secs(1) };
    let epochs = ensile_base::sync::Arc::new(Epochs::new(&config));
    let store = OpenStore::start(store, epochs.clone(), ensile_base::clock::Clock::manual())?;
    let log = Log::start(log, &store);
    if has_entry {
        let worker = epochs.register_worker();
        let mut appender = log.attach(worker.slot().clone());
        appender.reserve(5)?;
        worker.bind(epochs.now());
        appender.append(ensile_base::Tid::first_of(epochs.now()), |body| body.extend_from_slice(b"value"));
        appender.release();
        worker.unbind();
    }
    log.close()
}

#[test]
fn a_collection_refuses_a_folder_of_values_and_a_state_of_values_a_collections() {
    for has_entry in [true, false] {
        let disk = SimDisk::new();
        life_of_values(&disk, has_entry).expect("is new");
        let refused =
            builder(&disk, 1).open::<u64, Tally>().map(drop).expect_err("is a database's").to_string();
        assert!(
            refused.contains("holds a database's rows, not objects: open it with `Database::builder`"),
            "{refused}"
        );

        let disk = SimDisk::new();
        let objects: Objects<u64, Tally> = builder(&disk, 1).open().expect("is new");
        if has_entry {
            objects.submit(1, &Change::Toggle).expect("logs");
        }
        objects.close().expect("closes");
        let refused = life_of_values(&disk, false).expect_err("is a collection's").to_string();
        let advice = "holds an application's own objects, not a database: open it with `ObjectsBuilder`";
        assert!(refused.contains(advice) && refused.contains("ensile_objects_open"), "{refused}");
        let objects: Objects<u64, Tally> = builder(&disk, 1).open().expect("nothing was changed");
        assert_eq!(objects.read(&1, |tally| tally.is_some()).expect("reads"), has_entry);
    }
}

#[test]
fn i5_a_collection_is_opened_by_its_applications_name_alone() {
    let disk = SimDisk::new();
    let open = |name: Option<&str>| -> ObjectsResult<Objects<u64, Tally>> {
        let builder = builder(&disk, 1);
        name.map_or(builder.clone(), |name| builder.application_name(name)).open()
    };
    let refused = |name: Option<&str>| open(name).map(drop).expect_err("is refused").to_string();
    let said = refused(Some("prix \u{e9}"));
    assert!(said.contains("is no name of an application"), "{said}");
    assert!(disk.files().is_empty(), "nothing was made");
    // One of before the name: it gets it.
    let objects = open(None).expect("is new");
    objects.submit(1, &Change::Toggle).expect("logs");
    objects.close().expect("closes");
    let objects = open(Some("prices, partition 0 of 4")).expect("gets the name");
    checkpoint(&objects);
    objects.close().expect("closes");
    for (name, with) in [
        (Some("prices, partition 1 of 4"), "was opened for \"prices, partition 1 of 4\""),
        (Some("stock"), "was opened for \"stock\""),
        (None, "was opened without a name"),
    ] {
        let said = refused(name);
        assert!(
            said.contains("is the folder of \"prices, partition 0 of 4\"") && said.contains(with),
            "{said}"
        );
    }
    // Which of the two kinds it is comes first.
    let refused = life_of_values(&disk, false).expect_err("is a collection's").to_string();
    assert!(refused.contains("holds an application's own objects"), "{refused}");
    let objects = open(Some("prices, partition 0 of 4")).expect("is its own");
    assert!(objects.read(&1, |tally| tally.is_some()).expect("reads"));
    let of_values = SimDisk::new();
    life_of_values(&of_values, true).expect("is new");
    let named = crate::rig::builder(&of_values, 1).application_name("prices");
    let refused = named.open::<u64, Tally>().map(drop).expect_err("is a database's").to_string();
    assert!(refused.contains("holds a database's rows"), "{refused}");
    let manifest = String::from_utf8(of_values.bytes("MANIFEST")).expect("text");
    assert!(!manifest.contains("application"), "nothing was changed: {manifest}");
}

#[test]
fn loggers_and_checkpointers_have_the_folders_that_they_were_given_and_keep_them() {
    let place = std::env::temp_dir().join(format!("ensile-objects-folders-{}", std::process::id()));
    let elsewhere = |name: &str| place.join(name);
    let names = ["logs 1", "logs 2", "checkpoints"];
    names.iter().for_each(|name| std::fs::create_dir_all(elsewhere(name)).expect("a folder"));
    let settings = ObjectsBuilder::new("another").folder(elsewhere("main"));
    let objects: Objects<u64, Tally> = settings
        .clone()
        .log_folders([elsewhere("logs 1"), elsewhere("logs 2")])
        .checkpoint_folders([elsewhere("checkpoints")])
        .open()
        .expect("opens");
    objects.update(1, &Change::Toggle).expect("is durable");
    objects.checkpoint().wait().expect("is made");
    objects.close().expect("closes");
    for name in names {
        let has_files = std::fs::read_dir(elsewhere(name)).expect("is there").next().is_some();
        assert!(has_files, "{name} is empty");
    }
    let objects: Objects<u64, Tally> = settings.loggers(2).open().expect("opens by its links");
    assert!(objects.read(&1, |tally| tally.is_some()).expect("is there"));
    objects.close().expect("closes");
    std::fs::remove_dir_all(&place).expect("is removed");
}

/// Objects are copied as any database is.
#[test]
fn n24_a_collection_is_not_opened_in_the_folder_of_an_unfinished_copy() {
    let disk = SimDisk::new();
    let objects: Objects<u64, Tally> = builder(&disk.at("/data"), 1).open().expect("is new");
    let of = |folder: &str| -> Arc<dyn ensile_disk::Disk> { Arc::new(disk.at(folder).mounted()) };
    let options = ensile_durability::CopyOptions::default();
    let copied = CopySource::backup(&of("/data"), options).expect("looks");
    drop(copied.begin(&of("/copy")).expect("begins"));
    drop(objects);
    let refused = builder(&disk.at("/copy"), 1).open::<u64, Tally>().map(drop).expect_err("has not ended");
    let refused = refused.to_string();
    assert!(refused.contains("the first backup of database"), "{refused}");
    assert!(refused.contains("run it again, or remove the folder"), "{refused}");
}
