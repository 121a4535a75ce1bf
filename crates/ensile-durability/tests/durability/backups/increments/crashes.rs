//! Power fails, or the process is killed, at every call of an increment by files.

use ensile_base::limits::EPOCHS_RESERVED_MIN;

use super::super::back_up_picture;
use super::*;

/// The states of a backup, the oldest first.
type States = Vec<(Epoch, Changes)>;

/// Backs up, and looks at what a crash at each call leaves: the newest of `states`, or the new one, openable, and every
/// state that is named can be restored. The next run makes it whole from a third of these.
fn crashed_everywhere(disk: &SimDisk, life: &Life, keep: usize, states: &mut States) {
    disk.keep_moments();
    let report = back_up(disk, "backup", keep).expect("is made");
    let moments = disk.take_moments();
    let new = life.store.present();
    let old = states.last().expect("there is one").clone();
    states.push((report.epoch, new.clone()));
    let (mut olds, mut news) = (0, 0);
    for moment in &moments {
        for survival in Survival::ALL {
            let at = format!("call {} of {}, {survival:?}", moment.number, moments.len());
            let copy = crashed(moment, survival);
            let facts = examined(&copy, "backup");
            assert!(facts.is_whole(), "{at}: {facts:#?}");
            let Some(BackupFacts::Backup { epoch: Some(epoch), .. }) = facts.backup else { panic!("{at}") };
            let is_new = epoch == report.epoch;
            assert!(is_new || epoch == old.0, "{at}: {epoch}");
            olds += usize::from(!is_new);
            news += usize::from(is_new);
            let state = if is_new { &new } else { &old.1 };
            assert!(&opened(&copy, "backup") == state, "{at}: it opens as at {epoch}");
        }
    }
    assert!(olds > 0 && news > 0, "{olds} old, {news} new");
    for moment in moments.iter().step_by(3) {
        let copy = moment.disk.fork();
        copy.crash_with(Survival::Random, moment.number);
        let before = examined(&copy, "backup").backup;
        let again = back_up(&copy, "backup", keep).expect("is made");
        assert_eq!(again.epoch, report.epoch, "call {}, behind {before:?}", moment.number);
        assert!(opened(&copy, "backup") == new, "call {}", moment.number);
        assert!(examined(&copy, "backup").is_whole(), "call {}", moment.number);
        assert_eq!(again.kept, report.kept);
        let oldest = again.kept.last().expect("one");
        let (_, state) = states.iter().find(|(epoch, _)| epoch == oldest).expect("it was made");
        assert!(&restored_at(&copy, *oldest) == state, "call {}", moment.number);
    }
}

fn begun(disk: &SimDisk, settings: CheckpointConfig) -> (Life, Worker, States) {
    let (life, worker) = filled(disk, settings);
    let first = back_up(disk, "backup", 1).expect("is made");
    let states = vec![(first.epoch, life.store.present())];
    (life, worker, states)
}

#[test]
fn n21_a_crash_at_any_call_of_a_picture_with_its_log_leaves_the_old_state_or_the_new_one() {
    let disk = SimDisk::new();
    // The first state is the picture alone.
    let (life, mut worker) = filled(&disk, pictures());
    life.checkpoint().expect("is installed");
    let first = back_up_picture(&disk, "backup", 1).expect("is made");
    let mut states = vec![(first.epoch, life.store.present())];
    for keep in [1, 2] {
        (0..5).for_each(|key| put(&life, &mut worker, key, keep as u8));
        take_checkpoint(&life);
        (4..9).for_each(|key| put(&life, &mut worker, key, keep as u8));
        crashed_everywhere(&disk, &life, keep, &mut states);
    }
}

#[test]
fn n21_a_crash_at_any_call_of_an_increment_of_the_log_leaves_the_old_state_or_the_new_one() {
    let disk = SimDisk::new();
    let (life, mut worker, mut states) = begun(&disk, settings());
    for keep in [1, 2] {
        // Over the end of a file, so that there is a new one.
        (0..9).for_each(|key| put(&life, &mut worker, key, keep as u8));
        crashed_everywhere(&disk, &life, keep, &mut states);
    }
}

#[test]
fn n21_a_crash_beside_a_new_checkpoint_and_a_log_that_begins_later_leaves_a_whole_state() {
    let disk = SimDisk::new();
    let (life, mut worker, mut states) = begun(&disk, settings());
    for (round, keep) in [2, 1].into_iter().enumerate() {
        put_all(&life, &mut worker, 10 + round as u8);
        put_all(&life, &mut worker, 20 + round as u8);
        // Log files go that the backup never had.
        take_checkpoint(&life);
        put(&life, &mut worker, 5, 30 + round as u8);
        crashed_everywhere(&disk, &life, keep, &mut states);
    }
}

#[test]
fn n21_a_crash_beside_the_log_of_a_later_life_leaves_a_whole_state() {
    let disk = SimDisk::new();
    let (life, worker, mut states) = begun(&disk, settings());
    drop((worker, life));
    for round in 0..2_u8 {
        disk.crash(u64::from(round));
        // One more logger, whose folder the backup does not have.
        let (life, mut worker) = Life::with_worker(&disk.at("data"), 2 + usize::from(round), settings());
        (0..6).for_each(|key| put(&life, &mut worker, key, 40 + round));
        crashed_everywhere(&disk, &life, 2, &mut states);
    }
}

#[test]
fn n21_a_crash_beside_renewed_ranges_leaves_a_whole_state() {
    let disk = SimDisk::new();
    let (life, mut worker, mut states) = begun(&disk, cycling());
    put_all(&life, &mut worker, 50);
    let turn = life.turn();
    assert!(turn.turn.is_some_and(|turn| turn.taken < turn.ranges), "{turn:?}");
    put(&life, &mut worker, 7, 51);
    crashed_everywhere(&disk, &life, 2, &mut states);
}

#[test]
fn n21_a_crash_beside_the_first_backup_of_another_kind_leaves_a_whole_state() {
    for is_to_pictures in [true, false] {
        let disk = SimDisk::new();
        let (from, to) = if is_to_pictures { (settings(), pictures()) } else { (pictures(), settings()) };
        let (life, worker, mut states) = begun(&disk, from);
        // A backup of a picture has what that has.
        states[0].1 = opened(&disk, "backup");
        drop((worker, life));
        disk.crash(5);
        let (life, mut worker) = Life::with_worker(&disk.at("data"), 2, to);
        put_all(&life, &mut worker, 60);
        take_checkpoint(&life);
        crashed_everywhere(&disk, &life, 2, &mut states);
    }
}

#[test]
fn n21_what_a_run_that_was_dropped_has_added_to_a_log_says_nothing() {
    let disk = SimDisk::new();
    let slow = LogConfig { epoch_interval: Duration::from_secs(3600), ..config(2) };
    let rig = Rig::open(Arc::new(disk.at("data").mounted()), slow, Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"row");
    let first = back_up(&disk, "backup", 1).expect("is made");
    // Epochs beyond those that the backup's manifest reserves.
    for _ in 0..4 {
        (0..EPOCHS_RESERVED_MIN / 2).for_each(|_| assert!(rig.advance()));
        rig.log.reserved_epochs_step();
    }
    rig.commit_epoch(&mut worker, 2, b"row");
    let length = |name: &String| disk.at("backup").bytes(name).len();
    let logs: Vec<String> =
        disk.at("backup").files().into_iter().filter(|name| name.contains("/log-")).collect();
    let before: Vec<usize> = logs.iter().map(length).collect();
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    while copy.progress().phase != CopyPhase::Verifying {
        assert_eq!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked);
    }
    drop(copy);
    assert!(logs.iter().map(length).zip(&before).any(|(now, before)| now > *before), "blocks were added");
    let found = examined(&disk, "backup");
    assert!(found.is_whole(), "{found:#?}");
    assert_eq!(found.durable_epoch, Some(first.epoch));
    let opened = |disk: &SimDisk| {
        let disk: Arc<dyn ensile_disk::Disk> = Arc::new(super::at_rest(disk).at("backup").mounted());
        Rig::open(disk, config(2), Clock::manual()).expect("opens")
    };
    let old = opened(&disk);
    assert_eq!((old.rows.len(), old.report.durable_epoch), (1, first.epoch));
    let report = back_up(&disk, "backup", 1).expect("goes on");
    assert!(report.epoch.number() > first.epoch.number() + EPOCHS_RESERVED_MIN, "{report:?}");
    assert_eq!(opened(&disk).rows.len(), 2);
}
