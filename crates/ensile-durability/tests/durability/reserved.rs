//! L6: an epoch that was ever shown, in memory too, is below the first epoch of every later life.

use std::task::{Context, Poll, Waker};

use ensile_base::limits::{EPOCHS_KEPT, EPOCHS_RESERVED_MIN};
use ensile_epoch::Advance;
use ensile_sim::Fault;

use crate::damage::examined;
use crate::prelude::*;

/// Reserves as little as there is: so an end can be reached.
fn slow(loggers: usize) -> LogConfig {
    LogConfig { epoch_interval: Duration::from_secs(3600), ..config(loggers) }
}

fn open(disk: &SimDisk) -> Rig {
    Rig::open(Arc::new(disk.mounted()), slow(2), Clock::manual()).expect("opens")
}

fn first_life() -> (SimDisk, Rig) {
    let disk = SimDisk::new();
    let rig = open(&disk);
    (disk, rig)
}

/// Epochs pass, as fast as they may, and nobody reserves more.
fn pass(rig: &Rig, epochs: u64) {
    for _ in 0..epochs {
        assert!(rig.advance());
    }
}

fn pass_to_end(rig: &Rig) {
    while rig.advance() {
        rig.log.hint_step();
    }
    assert_eq!(rig.epochs.try_advance(u64::MAX), Advance::AtLimit);
}

#[test]
fn l6_epochs_that_only_memory_showed_never_come_twice() {
    for end in [Survival::Nothing, Survival::Everything, Survival::Random] {
        let disk = SimDisk::new();
        let (mut shown, mut durable) = (Epoch::ZERO, Epoch::ZERO);
        for life in 0..5 {
            let rig = open(&disk);
            assert!(rig.first > shown, "life {life} begins at {}, {shown} was shown", rig.first);
            assert!(rig.log.durable_epoch() >= durable, "D went back, from {durable}");
            assert_eq!(rig.report.first_epoch, rig.first);
            let mut worker = rig.worker();
            rig.commit_epoch(&mut worker, life, b"kept");
            // D goes on without a write (L3), and a commit is shown that is not durable.
            pass(&rig, 1000);
            rig.step_all();
            durable = rig.log.durable_epoch();
            assert!(durable.number() > rig.first.number() + 990);
            let lost = worker.commit(&rig.epochs, 100 + life, b"lost").expect("runs");
            shown = rig.epochs.now();
            disk.crash_with(end, life);
            drop((worker, rig));
            let rig = open(&disk);
            assert_eq!(rig.rows.len() as u64, life + 1);
            assert!(rig.report.durable_epoch < lost.epoch() && lost.epoch() < rig.report.first_epoch);
            shown = shown.max(rig.epochs.now());
            disk.kill();
        }
    }
}

#[test]
fn l6_a_clean_close_gives_back_what_was_not_used_and_no_more() {
    let disk = SimDisk::new();
    let mut shown = Epoch::ZERO;
    for life in 0..20 {
        let rig = open(&disk);
        assert!(rig.first > shown);
        assert!(rig.first.number() <= shown.number() + 1, "life {life}: the rest was given back");
        if life % 2 == 0 {
            rig.worker().commit(&rig.epochs, life, b"row").expect("runs");
        }
        pass(&rig, 500);
        rig.step_all();
        rig.log.close().expect("closes");
        shown = rig.epochs.now();
        assert!(!rig.advance(), "E moves no more");
        drop(rig);
        if life % 3 == 0 {
            disk.crash(life);
        }
    }
    // A hint that says nothing gives nothing back.
    disk.lose("HINT");
    assert!(open(&disk).first.number() > shown.number() + EPOCHS_RESERVED_MIN / 2);
}

#[test]
fn l6_epochs_are_reserved_anew_before_half_of_them_is_used() {
    let (disk, rig) = first_life();
    let manifest = || disk.bytes("MANIFEST");
    let before = manifest();
    rig.log.reserved_epochs_step();
    assert_eq!(manifest(), before, "it is not time");
    pass(&rig, EPOCHS_RESERVED_MIN / 2 + 2 * EPOCHS_KEPT);
    rig.log.reserved_epochs_step();
    assert_ne!(manifest(), before);
    pass(&rig, EPOCHS_RESERVED_MIN / 2 + 2 * EPOCHS_KEPT);
    rig.log.hint_step();
    assert_eq!(rig.log.health(), Health::Running);
    let shown = rig.epochs.now();
    disk.crash(1);
    drop(rig);
    assert!(open(&disk).first > shown);
}

#[test]
fn l6_power_fails_at_every_call_of_a_renewal() {
    let (disk, rig) = first_life();
    rig.commit_epoch(&mut rig.worker(), 1, b"row");
    pass(&rig, EPOCHS_RESERVED_MIN / 2 + 2 * EPOCHS_KEPT);
    disk.keep_moments();
    rig.log.reserved_epochs_step();
    // As far as E may go by now.
    let moments = disk.take_moments();
    assert!(moments.len() >= 4);
    let shown = rig.epochs.now();
    for moment in moments {
        for survival in Survival::ALL {
            let disk = moment.disk.fork();
            disk.crash_with(survival, moment.number);
            let next = open(&disk);
            assert!(next.first > shown, "call {}, {survival:?}", moment.number);
            assert_eq!(next.rows.len(), 1);
        }
    }
}

#[test]
fn l6_when_no_epochs_can_be_reserved_commits_are_refused_and_nobody_hangs() {
    let (disk, rig) = first_life();
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"row");
    disk.set_capacity(Some(disk.used_bytes()));
    pass(&rig, EPOCHS_RESERVED_MIN / 2 + 2 * EPOCHS_KEPT);
    rig.log.reserved_epochs_step();
    pass_to_end(&rig);
    let Health::EpochsEnded(why) = rig.log.health() else { panic!("{:?}", rig.log.health()) };
    assert!(why.contains("MANIFEST"), "{why}");
    let refused = worker.commit(&rig.epochs, 2, b"refused");
    assert!(matches!(refused, Err(DurabilityError::EpochsEnded(_))), "{refused:?}");
    rig.step_all();
    let shown = rig.epochs.now();
    assert!(rig.log.durable_epoch().next() >= shown, "what was committed is durable");

    let crashed = disk.fork();
    crashed.set_capacity(None);
    crashed.crash(1);
    assert!(open(&crashed).first > shown);

    // There is space again: it goes on by itself.
    disk.set_capacity(None);
    rig.clock.advance(Duration::from_secs(2));
    rig.log.reserved_epochs_step();
    assert_eq!(rig.log.health(), Health::Running);
    let tid = rig.commit_epoch(&mut worker, 2, b"row");
    assert!(rig.log.durable_epoch() >= tid.epoch());
    drop(worker);
    rig.log.close().expect("closes");
    assert_eq!(open(&disk).rows.len(), 2);
}

#[test]
fn l6_a_close_at_the_end_of_what_is_reserved_makes_everything_durable() {
    let (disk, rig) = first_life();
    let mut worker = rig.worker();
    while rig.epochs.now().number() < rig.first.number() + EPOCHS_RESERVED_MIN {
        assert!(rig.advance());
    }
    // Under way when commits are refused: reserved before, bound in the last epoch.
    worker.appender.reserve(100).expect("room");
    pass_to_end(&rig);
    worker.commit.bind(rig.epochs.now());
    let tid = worker.stamp(&rig.epochs);
    worker.appender.append(tid, |body| body.extend_from_slice(&[7; 20]));
    worker.appender.release();
    worker.commit.unbind();
    let shown = rig.epochs.now();
    assert_eq!(tid.epoch(), shown);
    // A caller that waits for it is told after a while.
    let mut waits = rig.log.durable(shown);
    let mut poll = || std::pin::pin!(&mut waits).poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    rig.step_all();
    rig.log.hint_step();
    assert!(poll().is_pending());
    rig.clock.advance(slow(2).full_wait);
    rig.log.hint_step();
    assert!(matches!(poll(), Poll::Ready(Err(DurabilityError::NotDurableYet(_)))));
    rig.log.close().expect("closes, although E stood still");
    assert!(rig.log.durable_epoch() >= shown);
    let last = rig.epochs.now();
    drop((worker, rig));
    assert!(open(&disk).first > last);
}

/// Even what is kept for a close is used up: a close that took long, while epochs went on.
fn without_kept_epochs(disk: &SimDisk) -> (Rig, Epoch) {
    let rig = open(disk);
    let mut worker = rig.worker();
    while rig.epochs.now().number() < rig.first.number() + EPOCHS_RESERVED_MIN {
        assert!(rig.advance());
    }
    worker.appender.reserve(100).expect("room");
    pass_to_end(&rig);
    rig.log.use_kept_epochs();
    while rig.advance() {}
    worker.commit.bind(rig.epochs.now());
    let tid = worker.stamp(&rig.epochs);
    worker.appender.append(tid, |body| body.extend_from_slice(&[7; 20]));
    worker.appender.release();
    worker.commit.unbind();
    (rig, tid.epoch())
}

#[test]
fn l6_a_close_without_any_epoch_left_reserves_a_few_more_and_ends() {
    for is_full in [false, true] {
        let disk = SimDisk::new();
        let (rig, last) = without_kept_epochs(&disk);
        if is_full {
            disk.set_capacity(Some(disk.used_bytes()));
        }
        rig.log.close().expect("what is kept on the disk does for a manifest");
        assert!(rig.log.durable_epoch() >= last);
        let shown = rig.epochs.now();
        drop(rig);
        disk.crash(1);
        assert!(open(&disk).first > shown, "L6");
    }
}

#[test]
fn l6_a_close_that_can_reserve_no_epoch_says_so_and_does_not_hang() {
    let disk = SimDisk::new();
    let (rig, last) = without_kept_epochs(&disk);
    disk.fail_calls(disk.calls().all + 1.., Fault::INPUT_OUTPUT);
    disk.record(true);
    let closed = rig.log.close();
    let Err(DurabilityError::OutcomeUnknown(why)) = closed else { panic!("{closed:?}") };
    disk.heal();
    assert!(rig.log.durable_epoch() < last, "{why}");
    assert!(why.contains("MANIFEST") && why.contains("durable up to epoch"), "{why}");
    let shown = rig.epochs.now();
    drop(rig);
    disk.crash(1);
    assert!(open(&disk).first > shown, "L6");
}

/// An open and an examination say that the manifest is an older one.
fn is_told(disk: &SimDisk) {
    let refused = Rig::open(Arc::new(disk.mounted()), slow(2), Clock::manual()).map(drop);
    let Err(DurabilityError::Damaged { file, detail, .. }) = refused else { panic!("{refused:?}") };
    assert!(file == "MANIFEST" && detail.contains("older one"), "{file}: {detail}");
    let found = examined(disk);
    assert!(found.damage.iter().any(|damage| damage.file == file && damage.detail == detail), "{found:?}");
    assert!(matches!(found.remedy, Some(Remedy::Copy(_))), "{found:?}");
}

#[test]
fn l6_an_older_manifest_that_is_put_back_is_told_where_anything_shows_an_epoch_that_it_does_not_reserve() {
    for closes in [true, false] {
        let (disk, rig) = first_life();
        let mut worker = rig.worker();
        rig.commit_epoch(&mut worker, 1, b"row");
        let older = disk.bytes("MANIFEST");
        for _ in 0..2 {
            pass(&rig, EPOCHS_RESERVED_MIN / 2 + 2 * EPOCHS_KEPT);
            rig.log.reserved_epochs_step();
        }
        if closes {
            // Nothing but the hint shows the epochs that passed.
            rig.log.close().expect("closes");
        } else {
            rig.commit_epoch(&mut worker, 2, b"row");
        }
        let shown = rig.epochs.now();
        drop((worker, rig));
        disk.kill();
        if !closes {
            disk.lose("HINT");
        }
        let newer = disk.bytes("MANIFEST");
        disk.put("MANIFEST", older);
        is_told(&disk);
        disk.kill();
        disk.put("MANIFEST", newer);
        assert!(open(&disk).first > shown, "with the right one");
    }
}

#[test]
fn l6_a_renewal_that_waited_while_the_log_ended_moves_no_limit() {
    let (disk, rig) = first_life();
    pass(&rig, EPOCHS_RESERVED_MIN / 2 + 2 * EPOCHS_KEPT);
    disk.stall(&[Operation::Rename]);
    std::thread::scope(|scope| {
        // The first has the manifest and waits for the disk; the second has looked whether the log has ended, and waits
        // for the first.
        scope.spawn(|| rig.log.reserved_epochs_step());
        await_stall(&disk);
        pass(&rig, EPOCHS_RESERVED_MIN / 4);
        scope.spawn(|| rig.log.reserved_epochs_step());
        std::thread::sleep(Duration::from_millis(100));
        rig.log.stop("a failed write");
        disk.fail_calls(disk.calls().all + 1.., Fault::INPUT_OUTPUT);
        disk.release();
    });
    disk.heal();
    pass_to_end(&rig);
    let shown = rig.epochs.now();
    disk.kill();
    assert!(open(&disk).first > shown, "E went beyond what the manifest reserves");
}

#[test]
fn l6_a_close_beside_a_renewal_takes_back_no_reserved_epoch() {
    let disk = SimDisk::new();
    let (rig, last) = without_kept_epochs(&disk);
    disk.stall(&[Operation::Rename]);
    std::thread::scope(|scope| {
        // The renewal has the manifest and waits for the disk; the close has worked out what it needs, and waits for
        // it.
        scope.spawn(|| rig.log.reserved_epochs_step());
        await_stall(&disk);
        let close = scope.spawn(|| rig.log.close());
        std::thread::sleep(Duration::from_millis(200));
        disk.release();
        close.join().expect("no panic").expect("closes");
    });
    assert!(rig.log.durable_epoch() >= last);
    let shown = rig.epochs.now();
    drop(rig);
    disk.crash(1);
    assert!(open(&disk).first > shown);
}
