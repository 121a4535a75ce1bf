//! A database without a log (SIREN §5): what its receipts wait for, what it refuses, its close, and what an open finds.

use ensile_durability::Health;
use ensile_engine::checkpoint::CheckpointStep;
use ensile_sim::Fault;

use crate::prelude::*;

/// A database that its test drives.
struct Driven {
    db: Database,
    table: Table<u64, Vec<u8>>,
    clock: Clock,
}

impl Driven {
    fn open(disk: &SimDisk) -> Self {
        Self::open_with(disk, Builder::without_log)
    }

    fn open_with(disk: &SimDisk, settings: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = Clock::manual();
        let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).manual_clock(clock.clone());
        let db =
            settings(builder.checkpoints(Schedule::on_demand()).without_threads()).open().expect("opens");
        let table = db.table("rows").expect("a table");
        Self { db, table, clock }
    }

    fn put(&self, key: u64, value: &[u8]) -> Result<()> {
        self.db.run(|tx| tx.put(&self.table, &key, &value.to_vec()))
    }

    fn keys(&self) -> Vec<u64> {
        self.db
            .run(|tx| tx.range(&self.table, ..).map(|row| row.map(|(key, _)| key)).collect())
            .expect("reads")
    }

    fn beat(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
    }

    /// So many beats, with steps of the checkpointer in between.
    fn pass(&self, beats: usize) {
        for _ in 0..beats {
            self.beat();
            while self.db.checkpoint_step(0) == Some(CheckpointStep::Worked) {}
        }
    }

    /// Beats until a picture that is asked for now is installed.
    fn picture(&self) {
        let handle = self.db.checkpoint().expect("is open");
        while handle.outcome().is_none() {
            self.pass(1);
        }
        handle.outcome().expect("it has ended").expect("is installed");
    }
}

#[test]
fn n18_a_receipt_waits_for_a_picture_and_says_which() -> Result<()> {
    let builder = Database::builder("unused").disk(Arc::new(SimDisk::new())).without_log();
    let db = builder.checkpoints(Schedule::on_demand()).open()?;
    let table = db.table::<u64, u64>("rows")?;
    let mut receipts = Vec::new();
    for key in 0..10 {
        receipts.push(db.submit(|tx| tx.put(&table, &key, &key))?.1);
    }
    assert!(receipts.iter().all(|receipt| !receipt.is_durable()));
    for receipt in &receipts {
        let report = receipt.durable_in()?.expect("a picture of this life");
        assert!(report.picture_epoch() >= Some(receipt.epoch()) && receipt.is_durable());
    }
    let stats = db.stats().checkpoints.expect("it has checkpoints");
    assert!(stats.installed <= 2, "all that wait share one: {}", stats.installed);
    assert!(db.run(|tx| tx.get(&table, &3))? == Some(3));
    // What is read waits alike, and is durable already.
    let ((), read) = db.submit(|tx| tx.get(&table, &3).map(drop))?;
    assert!(read.is_durable() && read.durable_in()?.is_some());
    drop(receipts);
    drop(read);
    db.close()
}

#[test]
fn a_database_has_a_log_on_a_disk_alone_and_not_without_one() -> Result<()> {
    let on_disk = || Database::builder("unused").disk(Arc::new(SimDisk::new()));
    assert!(on_disk().open()?.has_log());
    assert!(!on_disk().without_log().open()?.has_log());
    assert!(!Database::in_memory()?.has_log());
    Ok(())
}

#[test]
fn a_future_waits_for_a_picture_and_hears_of_one_that_fails() {
    let disk = SimDisk::new();
    let driven = Driven::open(&disk);
    driven.picture();
    let ((), receipt) = driven.db.submit(|tx| tx.put(&driven.table, &1, &vec![1])).expect("commits");
    let mut context = Context::from_waker(Waker::noop());
    let mut future = Box::pin(receipt.durable_async());
    assert!(future.as_mut().poll(&mut context).is_pending());
    disk.fail_calls(disk.calls().all + 1.., Fault::INPUT_OUTPUT);
    driven.pass(20);
    match future.as_mut().poll(&mut context) {
        Poll::Ready(Err(Error::Storage(why))) => {
            assert!(matches!(why.cause(), DurabilityError::NotDurableYet(_)), "{why}");
        }
        found => panic!("{found:?}"),
    }
    assert_eq!(driven.db.health().log, Some(Health::Running));
    disk.heal();
    driven.put(2, &[2]).expect("commits go on");
    let mut future = Box::pin(receipt.durable_async());
    assert!(future.as_mut().poll(&mut context).is_pending());
    // The pause behind a failure.
    driven.pass(60);
    assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
}

#[test]
fn a_strict_transaction_is_refused_before_it_takes_effect() {
    let disk = SimDisk::new();
    let driven = Driven::open(&disk);
    let strict = driven.db.run(|tx| {
        tx.set_durability(Durability::Strict);
        tx.put(&driven.table, &1, &vec![1])
    });
    assert!(matches!(strict, Err(Error::Misuse(_))), "{strict:?}");
    let mut open = driven.db.begin();
    open.put(&driven.table, &1, &vec![1]).expect("is open");
    open.set_durability(Durability::Strict);
    assert!(matches!(open.commit().map(drop), Err(Error::Misuse(_))));
    driven.db.run(|tx| tx.get(&driven.table, &1)).expect("relaxed by default");
    assert_eq!(driven.keys(), []);
}

#[test]
fn settings_that_need_a_log_are_refused_without_one() {
    let disk = SimDisk::new();
    let refused = |settings: &dyn Fn(Builder) -> Builder| {
        let builder = Database::builder("unused").disk(Arc::new(disk.mounted())).without_threads();
        match settings(builder).open().map(drop) {
            Err(Error::Misuse(why)) => why,
            found => panic!("{found:?}"),
        }
    };
    let strategy = |strategy| Tuning { checkpoint_strategy: Some(strategy), ..Tuning::default() };
    let loggers = |loggers| Tuning { loggers: Some(loggers), ..Tuning::default() };
    // Each names the setting to leave out.
    let refusals: [(&dyn Fn(Builder) -> Builder, &str); 8] = [
        (&|builder| builder.tuning(strategy(Strategy::Fuzzy)), "leave Tuning::checkpoint_strategy out"),
        (&|builder| builder.tuning(strategy(Strategy::Cycling)), "leave Tuning::checkpoint_strategy out"),
        (&|builder| builder.durability(Durability::Strict), "leave Durability::Strict out"),
        (&|builder| builder.durability(Durability::Process), "leave Durability::Process out"),
        (&|builder| builder.tuning(loggers(2)), "leave Tuning::loggers"),
        (&|builder| builder.log_folders(["elsewhere"]), "Builder::log_folders out"),
        (&|builder| builder.archive("elsewhere"), "leave Builder::archive out"),
        (&|builder| builder.before_images(true), "leave Builder::before_images out"),
    ];
    for (settings, way_out) in &refusals {
        let why = refused(&|builder| settings(builder.without_log()));
        assert!(why.contains(way_out), "{why}");
    }
    assert!(refused(&|builder| builder.tuning(loggers(0))).contains("Builder::without_log"));
    for (builder, way_out) in [
        (Database::builder_in_memory().without_log(), "leave Builder::without_log out"),
        (Database::builder_in_memory().archive("elsewhere"), "leave Builder::archive out"),
    ] {
        match builder.open().map(drop) {
            Err(Error::Misuse(why)) => assert!(why.contains(way_out), "{why}"),
            found => panic!("{found:?}"),
        }
    }
    assert!(disk.files().is_empty(), "nothing was made");
}

#[test]
fn n18_a_close_takes_a_last_picture_and_one_without_says_which_epochs_go() {
    let disk = SimDisk::new();
    for (key, is_taken) in [(1, true), (2, false), (3, true)] {
        let driven = Driven::open(&disk);
        assert_eq!(driven.keys(), [&[][..], &[1], &[1]][key as usize - 1]);
        let ((), receipt) = driven.db.submit(|tx| tx.put(&driven.table, &key, &vec![1])).expect("commits");
        let epoch = receipt.epoch();
        drop(receipt);
        if is_taken {
            driven.db.close().expect("closes");
            assert!(driven.db.durable_epoch() >= epoch);
        } else {
            let lost = driven.db.close_without_picture().expect("closes").expect("a put");
            assert!(lost.contains(&epoch), "{lost:?} with {epoch}");
            assert_eq!(driven.db.durable_epoch().next(), *lost.start());
        }
        drop(driven);
        disk.crash(key);
    }
    let driven = Driven::open(&disk);
    assert_eq!(driven.keys(), [1, 3]);
    assert_eq!(driven.db.close_without_picture().expect("closes"), None, "nothing has changed");
}

#[test]
fn a_close_whose_picture_fails_says_up_to_which_epoch_the_database_is_durable() {
    let disk = SimDisk::new();
    let driven = Driven::open(&disk);
    driven.put(1, &[1]).expect("commits");
    disk.fail_calls(disk.calls().all + 1.., Fault::INPUT_OUTPUT);
    let error = driven.db.close().expect_err("the disk fails").to_string();
    assert!(error.contains(&format!("durable up to epoch {}", driven.db.durable_epoch())), "{error}");
}

#[test]
fn bytes_that_have_changed_begin_a_picture_and_reads_do_not() {
    let disk = SimDisk::new();
    let schedule = Schedule::on_demand().log_bytes(4096);
    let driven = Driven::open_with(&disk, |builder| builder.without_log().checkpoints(schedule));
    let installed = || driven.db.stats().checkpoints.expect("it has checkpoints").installed;
    for _ in 0..50 {
        assert_eq!(driven.keys(), []);
        driven.pass(1);
    }
    assert_eq!(installed(), 0);
    for key in 0..50 {
        driven.put(key, &[1; 100]).expect("commits");
    }
    driven.pass(20);
    assert_eq!(installed(), 1);
    driven.pass(20);
    assert_eq!(installed(), 1, "nothing has changed since");
}

#[test]
fn deletes_are_unhooked_though_no_picture_is_taken() {
    let disk = SimDisk::new();
    let driven = Driven::open(&disk);
    for key in 0..100 {
        driven.put(key, &[1; 100]).expect("commits");
    }
    for key in 0..100 {
        driven.db.run(|tx| tx.delete(&driven.table, &key)).expect("commits");
    }
    // Boundaries pass, and the heartbeat frees what the worker leaves.
    driven.pass(40);
    let stats = driven.db.stats();
    assert_eq!(stats.checkpoints.expect("it has checkpoints").installed, 0);
    assert_eq!(stats.garbage_things, 0, "{} bytes wait", stats.garbage_version_bytes);
}

#[test]
fn n19_an_absence_whose_record_is_gone_waits_for_its_delete() {
    let disk = SimDisk::new();
    let driven = Driven::open(&disk);
    driven.put(1, &[1]).expect("commits");
    driven.put(2, &[1]).expect("commits");
    driven.picture();
    let (_, deleted) = driven.db.submit(|tx| tx.delete(&driven.table, &1)).expect("commits");
    driven.pass(40);
    assert_eq!(driven.db.stats().garbage_things, 0, "its record is gone");
    assert!(!deleted.is_durable());
    let (found, one) = driven.db.submit(|tx| tx.get(&driven.table, &1)).expect("reads");
    let ((), both) =
        driven.db.submit(|tx| tx.range(&driven.table, ..).try_for_each(|row| row.map(drop))).expect("reads");
    let (other, present) = driven.db.submit(|tx| tx.get(&driven.table, &2)).expect("reads");
    assert!(found.is_none() && other.is_some());
    // What rests on the absence is not durable before the delete is: a crash brings the row back.
    assert!(!one.is_durable() && one.epoch() >= deleted.epoch(), "{one:?}");
    assert!(!both.is_durable() && both.epoch() >= deleted.epoch(), "{both:?}");
    assert!(present.is_durable(), "{present:?}");
    let crashed = disk.fork();
    crashed.crash(7);
    assert_eq!(Driven::open(&crashed).keys(), [1, 2]);
    driven.picture();
    assert!(one.is_durable() && both.is_durable() && deleted.is_durable());
    disk.crash(7);
    assert_eq!(Driven::open(&disk).keys(), [2]);
}

/// A commit that failed has left a placeholder where the deleted record was: it knows of no delete.
#[test]
fn n19_an_absence_that_a_placeholder_shows_waits_for_the_delete_before_it() {
    let disk = SimDisk::new();
    let driven = Driven::open(&disk);
    driven.put(1, &[1]).expect("commits");
    driven.put(2, &[1]).expect("commits");
    driven.picture();
    let (_, deleted) = driven.db.submit(|tx| tx.delete(&driven.table, &1)).expect("commits");
    driven.pass(40);
    assert_eq!(driven.db.stats().garbage_things, 0, "its record is gone");
    let mut failing = driven.db.begin();
    assert!(failing.get(&driven.table, &2).expect("reads").is_some());
    failing.put(&driven.table, &1, &vec![2]).expect("is kept");
    driven.put(2, &[2]).expect("commits");
    assert!(matches!(failing.submit(), Err(Error::Conflict)));
    let (found, one) = driven.db.submit(|tx| tx.get(&driven.table, &1)).expect("reads");
    assert!(found.is_none() && !one.is_durable() && one.epoch() >= deleted.epoch(), "{one:?}");
    driven.picture();
    assert!(one.is_durable());
}

#[test]
fn n18_levels_and_strategies_change_between_opens_and_nothing_durable_is_lost() {
    let disk = SimDisk::new();
    let fuzzy = |builder: Builder| builder.durability(Durability::Relaxed);
    let pictures = |builder: Builder| {
        let checkpoint_strategy = Some(Strategy::Pictures);
        builder.durability(Durability::Relaxed).tuning(Tuning { checkpoint_strategy, ..Tuning::default() })
    };
    let settings: [&dyn Fn(Builder) -> Builder; 3] = [&fuzzy, &pictures, &|builder| builder.without_log()];
    let mut expected = Vec::new();
    for key in 0..27 {
        // Each level behind each other one, with a checkpoint of its own or without.
        let level = [key % 3, key / 3 % 3, key / 9 % 3].into_iter().sum::<u64>() as usize % 3;
        let driven = Driven::open_with(&disk, settings[level]);
        assert_eq!(driven.keys(), expected, "life {key}");
        driven.put(key, &[1; 50]).expect("commits");
        if key % 2 == 0 {
            let handle = driven.db.checkpoint().expect("is open");
            while handle.outcome().is_none() {
                driven.pass(1);
                if level < 2 {
                    driven.db.logger_step(0);
                }
            }
        }
        driven.put(1000 + key, &[1; 50]).expect("commits");
        driven.db.close().expect("closes");
        expected.extend([key, 1000 + key]);
        expected.sort_unstable();
        drop(driven);
        disk.crash(key);
    }
}
