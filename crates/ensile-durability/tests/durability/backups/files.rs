//! Backups of databases without a picture: files, log included.

use ensile_base::limits::{EPOCHS_RESERVED_MIN, LEASE_SECONDS_MAX};

use super::*;

/// A database with log files and no picture in `data`.
fn filled(disk: &SimDisk, settings: CheckpointConfig, has_checkpoint: bool) -> (Life, Worker) {
    let (life, mut worker) = Life::with_worker(&disk.at("data"), 2, settings);
    for key in 0..30 {
        life.commit_epoch(&mut worker, key, Some(&[1; 500]));
        if key == 15 && has_checkpoint {
            life.checkpoint().expect("is installed");
        }
    }
    (life, worker)
}

/// The same on a new disk.
fn filled_disk(settings: CheckpointConfig, has_checkpoint: bool) -> (SimDisk, Life, Worker) {
    let disk = SimDisk::new();
    let (life, worker) = filled(&disk, settings, has_checkpoint);
    (disk, life, worker)
}

fn opened(disk: &SimDisk, folder: &str) -> Changes {
    Life::open(&at_rest(disk).at(folder), 2, settings()).expect("opens").found
}

#[test]
fn a_database_without_a_picture_is_copied_with_its_log() {
    for (settings, has_checkpoint) in [(settings(), true), (settings(), false), (pictures(), false)] {
        let (disk, life, mut worker) = filled_disk(settings, has_checkpoint);
        let durable = life.rig.log.durable_epoch();
        let state = life.store.present();
        let report = back_up(&disk, "backup", 1).expect("is made");
        assert!(report.epoch >= durable, "{report:?}");
        assert_eq!((report.pages, &report.kept[..]), (0, &[report.epoch][..]));
        assert_eq!(opened(&disk, "backup"), state);
        let text = manifest(&disk, "backup");
        assert!(text.contains(&format!("\nbackup of {}\n", report.parent)), "{text}");
        assert!(examined(&disk, "backup").is_whole());
        let again = restored(&disk, "backup", "restored", None).expect("is restored");
        assert_eq!((again.epoch, opened(&disk, "restored")), (report.epoch, state));
        let text = manifest(&disk, "restored");
        assert!(text.contains(&format!("\nrestored epoch {}\n", report.epoch)), "{text}");
        // The next one goes into the same folder.
        life.commit_epoch(&mut worker, 3, Some(&[2; 100]));
        let next = back_up(&disk, "backup", 1).expect("is made");
        assert_eq!(opened(&disk, "backup"), life.store.present());
        assert!(next.epoch > report.epoch && next.bytes_written < report.bytes_written / 4, "{next:?}");
    }
}

#[test]
fn commits_and_checkpoints_beside_a_copy_of_files_do_not_hurt_it() {
    let (disk, life, mut worker) = filled_disk(settings(), true);
    let options = CopyOptions::default();
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), options).expect("begins");
    let durable = life.rig.log.durable_epoch();
    let mut steps = 0;
    let report = loop {
        use ensile_durability::CopyStep;
        if let CopyStep::Ended(report) =
            copy.step_at(&crate::checkpoints::store::Framing, 0).expect("goes on")
        {
            break *report;
        }
        steps += 1;
        life.commit_epoch(&mut worker, steps % 30, Some(&[3; 300]));
        if steps % 4 == 0 {
            life.checkpoint().expect("is installed");
        }
    };
    assert!(report.epoch >= durable && steps > 10, "{steps}: {report:?}");
    assert_eq!(opened(&disk, "backup").len(), 30);
}

/// A database that remembers what was committed when.
pub(super) struct Remembered {
    pub(super) life: Life,
    worker: Worker,
    commits: Vec<(u64, Tid, Vec<u8>)>,
}

impl Remembered {
    /// With so many logs, whose files have this many bytes, and some rows that are durable.
    pub(super) fn open(disk: &SimDisk, loggers: usize, segment_bytes: u64) -> Self {
        Self::open_with(disk, (loggers, segment_bytes), settings())
    }

    /// The same with checkpoints of this kind.
    fn open_with(disk: &SimDisk, (loggers, segment_bytes): (usize, u64), settings: CheckpointConfig) -> Self {
        let log = LogConfig { segment_bytes, ..config(loggers) };
        let life = Life::open_with(&disk.at("data"), log, settings).expect("opens");
        let worker = life.rig.worker();
        let mut database = Self { life, worker, commits: Vec::new() };
        (0..10).for_each(|key| database.put(key, vec![1; 60_000]));
        database
    }

    pub(super) fn put(&mut self, key: u64, value: Vec<u8>) {
        let tid = self.life.commit(&mut self.worker, key, Some(&value));
        self.commits.push((key, tid, value));
        self.life.rig.settle();
        // As each logger's thread does behind a step: the next file is made before it is needed.
        let log = &self.life.rig.log;
        (0..log.loggers()).for_each(|logger| log.logger_prepare(logger));
    }

    /// The copy is what the database was at the end of an epoch at which this one was durable.
    pub(super) fn assert_is_a_state(&self, disk: &SimDisk, (report, durable): (&CopyReport, Epoch)) {
        assert!(report.epoch >= durable, "{report:?} is before {durable}");
        let found = examined(disk, "backup");
        assert!(found.is_whole(), "{found:?}");
        let upto = self.commits.iter().filter(|(_, tid, _)| tid.epoch() <= report.epoch);
        let state: Changes = upto.map(|(key, tid, value)| (*key, (*tid, Some(value.clone())))).collect();
        assert_eq!(opened(disk, "backup"), state);
        restored(disk, "backup", "restored", None).expect("is restored");
        assert_eq!(opened(disk, "restored"), state);
    }
}

/// Steps to the end of a copy of files, with `between` behind each step; what it says, and how many steps it took.
fn stepped(disk: &SimDisk, mut between: impl FnMut(u64)) -> Result<(CopyReport, u64), DurabilityError> {
    let mut copy = backup(&of(disk, "data"), &of(disk, "backup"), CopyOptions::default())?;
    for step in 0.. {
        if let CopyStep::Ended(report) = copy.step_at(&Framing, 0)? {
            return Ok((*report, step));
        }
        between(step);
    }
    unreachable!("it has ended")
}

#[test]
fn n20_a_copier_that_is_overtaken_in_a_log_file_reads_its_end_again() {
    // A log whose file is half full has its next one ready, without a block, when the copy begins.
    for (loggers, segment_bytes) in [(1, 64 << 20), (3, 64 << 20), (1, 1 << 20), (3, 1 << 20)] {
        let disk = SimDisk::new();
        let mut database = Remembered::open(&disk, loggers, segment_bytes);
        let durable = database.life.rig.log.durable_epoch();
        // The first step reads 1 MiB of a log file, which ends in zeros; then blocks go over them, and further.
        let copied = stepped(&disk, |step| {
            let puts = if step < 4 { 20 } else { 0 };
            (0..puts).for_each(|key| database.put(key, vec![2 + step as u8; 60_000]));
        });
        let (report, _) = copied.expect("is made");
        database.assert_is_a_state(&disk, (&report, durable));
    }
}

#[test]
fn n20_logs_that_are_copied_one_behind_the_other_end_together() {
    for segment_bytes in [4096, 64 << 20] {
        let disk = SimDisk::new();
        let mut database = Remembered::open(&disk, 3, segment_bytes);
        let durable = database.life.rig.log.durable_epoch();
        // The first log is read when none of this is in it, the last one when it is. Small files do not even have it.
        let copied = stepped(&disk, |step| database.put(step % 30, vec![3; 300]));
        let (report, steps) = copied.expect("is made");
        assert!(steps > 6, "{steps}");
        database.assert_is_a_state(&disk, (&report, durable));
    }
}

#[test]
fn n20_what_the_hint_showed_is_in_the_copy_or_there_is_none() {
    let disk = SimDisk::new();
    let database = Remembered::open(&disk, 1, 64 << 20);
    database.life.rig.log.close().expect("closes");
    drop(database);
    let source = at_rest(&disk);
    let data = source.at("data");
    let log = first_log(&data);
    let bytes = data.bytes(&log);
    let headers = headers(&bytes);
    // It ends in its midst, behind a whole block.
    data.put(&log, bytes[..headers[headers.len() / 2]].to_vec());
    let error = stepped(&source, |_| {}).expect_err("what was durable is not in it");
    assert!(error.to_string().contains(&log), "{error}");
}

/// Where the blocks of a log file begin, and its bytes.
fn headers(bytes: &[u8]) -> Vec<usize> {
    let magic = b"EnsB";
    bytes.windows(magic.len()).enumerate().filter(|(_, at)| at == magic).map(|(at, _)| at).collect()
}

fn first_log(disk: &SimDisk) -> String {
    let is_first = |name: &String| name.starts_with("log0/log-");
    disk.files().into_iter().find(is_first).expect("a log has a file")
}

#[test]
fn n20_what_a_block_of_the_log_itself_shows_is_in_the_copy_or_there_is_none() {
    let disk = SimDisk::new();
    let mut database = Remembered::open(&disk, 2, 64 << 20);
    let data = disk.at("data");
    let log = first_log(&data);
    let begin = headers(&data.bytes(&log)).len();
    // Logger 1 stands still, so nothing of this is durable, and no block shows a D. But the mark that a later block of
    // log 0 repeats shows that those before it were synced.
    for key in 20..24 {
        let life = &database.life;
        life.commit(&mut database.worker, key, Some(&[4; 500]));
        life.rig.advance();
        for _ in 0..3 {
            life.rig.log.logger_step(0);
        }
    }
    let header = headers(&data.bytes(&log))[begin];
    data.flip(&log, header as u64 + 8, 1);
    let error = stepped(&disk, |_| {}).expect_err("a copy of a damaged log is no backup");
    assert!(error.to_string().contains(&log), "{error}");
}

#[test]
fn n20_a_payload_that_was_read_while_it_was_written_is_read_again() {
    let disk = SimDisk::new();
    let database = Remembered::open(&disk, 1, 64 << 20);
    let durable = database.life.rig.log.durable_epoch();
    let backup = disk.at("backup");
    let mut flipped = None;
    let copied = stepped(&disk, |_| {
        let is_there = backup.files().iter().any(|name| name.starts_with("log0/log-"));
        if flipped.is_none() && is_there {
            let log = first_log(&backup);
            // In the midst of a row. Blocks behind it show that it was synced, so no walk over headers looks at it.
            let bytes = backup.bytes(&log);
            let at = headers(&bytes);
            let row =
                at.windows(2).find(|row| row[1] - row[0] > 60_000).expect("a row, and a block behind it");
            let torn = row[0] + 30_000;
            let file = backup.mounted().open(&log).expect("is there");
            file.write_at(&[!bytes[torn]], torn as u64).expect("is written");
            flipped = Some(log);
        }
    });
    let (report, _) = copied.expect("the source is whole");
    assert!(flipped.is_some(), "the copy was in steps");
    database.assert_is_a_state(&disk, (&report, durable));
}

/// What a busy database does within the time that a lease is kept: commits, and checkpoints that remove the log behind
/// them; the last one beyond the limit.
pub(super) fn outlast_the_lease(database: &mut Remembered, value: u8) {
    for round in 0..6 {
        (0..12).for_each(|key| database.put(key, vec![value; 700 + round]));
        if round % 2 == 1 {
            let life = &database.life;
            life.checkpoint().expect("is installed");
            life.rig.clock.advance(Duration::from_secs(LEASE_SECONDS_MAX / 2 + 1));
            (0..2).for_each(|checkpointer| _ = life.step(checkpointer));
        }
    }
    (0..12).for_each(|key| database.put(key, vec![value; 600]));
}

/// How many files of logs the copy has, and how many the database.
fn log_files(disk: &SimDisk, folder: &str) -> Vec<String> {
    let files = disk.at(folder).files();
    files.into_iter().filter(|name| name.starts_with("log") && name.contains("/log-")).collect()
}

/// A copy whose files are removed while it is made ends with a state that was durable. `behind`: removed once the copy
/// has files of this log; `None`: again and again.
fn outlasted(settings: &CheckpointConfig, loggers: usize, behind: Option<&String>) {
    let disk = SimDisk::new();
    let mut database = Remembered::open_with(&disk, (loggers, 4096), settings.clone());
    if settings.strategy == pictures().strategy {
        database.life.checkpoint().expect("is installed");
    }
    let first = back_up(&disk, "backup", 2).expect("is made");
    (0..20).for_each(|key| database.put(key, vec![2; 900]));
    let (durable, before) = (database.life.rig.log.durable_epoch(), log_files(&disk, "data"));
    let copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default());
    let mut copy = copy.expect("begins");
    let had = log_files(&disk, "backup").len();
    let is_behind = |disk: &SimDisk| {
        let now = log_files(disk, "backup");
        behind.is_none_or(|log| now.len() > had && now.iter().any(|name| name.starts_with(log)))
    };
    // A picture that the database never ceases to change has no end: its pages are read once.
    let rounds_max = if settings.strategy == pictures().strategy { 2 } else { u64::MAX };
    let mut rounds = 0;
    let report = loop {
        if let CopyStep::Ended(report) = copy.step_at(&Framing, 0).expect("goes on") {
            break *report;
        }
        // It goes on all the time, for longer than a lease is kept once, or again and again.
        let is_due = rounds < 1 || (behind.is_none() && rounds < rounds_max);
        if copy.progress().phase == CopyPhase::Copying && is_due && is_behind(&disk) {
            rounds += 1;
            outlast_the_lease(&mut database, 3 + (rounds % 100) as u8);
        } else {
            database.put(30, vec![4; 300]);
        }
    };
    drop(copy);
    assert!(rounds > 0 && database.life.rig.log.stats().leases_overrun > 0, "{rounds}, {behind:?}");
    let now = log_files(&disk, "data");
    assert!(!before.iter().any(|name| now.contains(name)), "{before:?}: {now:?}");
    database.assert_is_a_state(&disk, (&report, durable));
    assert!(report.epoch > first.epoch, "{report:?} behind {first:?}");
    // The next one follows on it.
    back_up(&disk, "backup", 1).expect("is made");
    assert_eq!(opened(&disk, "backup"), database.life.store.present());
}

#[test]
fn n20_a_copy_of_files_that_outlasts_its_lease_ends_with_a_state_that_was_durable() {
    for settings in [settings(), pictures()] {
        for loggers in [1, 2, 3] {
            let logs: Vec<String> = (0..loggers).map(|logger| format!("log{logger}/log-")).collect();
            // Files are removed before anything is read, behind each log, and as the logs are read again.
            for behind in logs.iter().map(Some).chain([None]) {
                outlasted(&settings, loggers, behind);
            }
        }
    }
}

#[test]
fn n20_a_log_that_is_damaged_before_files_that_were_removed_is_not_cut() {
    for is_cut in [false, true] {
        let disk = SimDisk::new();
        let mut database = Remembered::open(&disk, 2, 64 << 10);
        (0..20).for_each(|key| database.put(key, vec![2; 900]));
        let data = disk.at("data");
        let mut copy =
            backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
        // The file that is open as the copy begins loses what was durable then.
        let is_open = |name: &String| name.starts_with("log0/") && !name.contains("-to-");
        let open = log_files(&disk, "data").into_iter().filter(is_open);
        let log = open.max_by_key(|name| headers(&data.bytes(name)).len()).expect("one is open");
        let at = headers(&data.bytes(&log));
        let torn = at[at.len() / 2] as u64;
        let file = data.mounted().open(&log).expect("is there");
        let mut error = None;
        outlast_the_lease(&mut database, 3);
        assert!(!log_files(&disk, "data").contains(&log), "it was closed, and removed");
        match is_cut {
            true => file.set_len(torn + 100).expect("is cut"),
            false => file.write_at(&[0xff; 8], torn + 8).expect("is written"),
        }
        while error.is_none() {
            error = match copy.step_at(&Framing, 0) {
                Ok(CopyStep::Ended(report)) => panic!("a copy of a damaged log is no backup: {report:?}"),
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
        }
        let said = error.expect("it has ended");
        assert!(said.contains(&log), "{said}");
    }
}

#[test]
fn n20_a_log_that_is_damaged_in_the_source_is_not_cut() {
    let disk = SimDisk::new();
    let mut database = Remembered::open(&disk, 2, 64 << 20);
    let data = disk.at("data");
    let log = first_log(&data);
    // In the header of a block in its midst: a payload is checked where it is replayed.
    let header = headers(&data.bytes(&log))[4];
    data.flip(&log, header as u64 + 8, 1);
    let error = stepped(&disk, |step| database.put(step % 30, vec![3; 300]));
    let error = error.expect_err("a copy of a damaged log is no backup");
    assert!(matches!(error, DurabilityError::TargetFailed { .. }), "{error}");
    assert!(error.to_string().contains(&log), "{error}");
}

#[test]
fn a_crash_at_any_call_of_a_copy_of_files_leaves_nothing_or_all_of_it() {
    let (disk, life, _worker) = filled_disk(settings(), true);
    let state = life.store.present();
    disk.keep_moments();
    run(backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins"))
        .expect("is made");
    let (mut whole, mut none) = (0, 0);
    for moment in disk.take_moments() {
        for survival in Survival::ALL {
            let at = format!("call {}, {survival:?}", moment.number);
            let copy = crashed(&moment, survival);
            let files = copy.at("backup").files();
            let is_there =
                files.contains(&"MANIFEST".to_owned()) && manifest(&copy, "backup").contains("state created");
            if is_there {
                whole += 1;
                assert_eq!(opened(&copy, "backup"), state, "{at}");
            } else {
                none += 1;
                back_up(&copy, "backup", 1).expect("begins anew");
                assert_eq!(opened(&copy, "backup"), state, "{at}");
            }
        }
    }
    assert!(whole > 0 && none > 0, "{whole} whole, {none} not");
}

/// A database whose only checkpoint file is large, with a log behind it.
fn large(disk: &SimDisk) -> (Life, Worker) {
    let settings = CheckpointConfig { checkpointers: 1, files: 1, ..settings() };
    let (life, mut worker) = filled(disk, settings, false);
    (0..60).for_each(|key| _ = life.commit(&mut worker, key, Some(&[4; 60_000])));
    life.rig.settle();
    life.checkpoint().expect("is installed");
    (0..9).for_each(|key| _ = life.commit(&mut worker, key, Some(&[5; 9_000])));
    life.rig.settle();
    (life, worker)
}

#[test]
fn n12_a_copy_of_files_is_verified_in_steps_and_dropped_at_each_of_them() {
    let disk = SimDisk::new();
    let (life, _worker) = large(&disk);
    let (mut steps, mut largest) = (0, 0);
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    let bytes = loop {
        let before = copy.progress();
        if let CopyStep::Ended(report) = copy.step_at(&Framing, 0).expect("goes on") {
            let (read, all) = (before.bytes, before.bytes_total);
            assert!(read <= all && read > all * 9 / 10, "{read} of {all}");
            break report.bytes;
        }
        let now = copy.progress();
        if before.phase == CopyPhase::Verifying {
            assert!(
                now.bytes >= before.bytes && now.bytes_total == before.bytes_total,
                "{before:?}, {now:?}"
            );
            largest = largest.max(now.bytes - before.bytes);
            steps += 1;
        }
        // Nothing counts before the last step.
        assert!(manifest(&disk, "backup").contains("state creating"), "{now:?}");
    };
    assert!(steps > 12 && largest < bytes / 3, "{steps} steps, the largest of {largest} of {bytes} bytes");
    assert_eq!(opened(&disk, "backup"), life.store.present());
    for at in 0..steps {
        let copy = disk.fork();
        let begun = backup(&of(&copy, "data"), &of(&copy, "cancelled"), CopyOptions::default());
        let mut begun = begun.expect("begins");
        while begun.progress().phase != CopyPhase::Verifying {
            assert_eq!(begun.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked);
        }
        (0..at).for_each(|_| assert_eq!(begun.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked));
        drop(begun);
        assert!(manifest(&copy, "cancelled").contains("state creating"), "at {at}");
        if at == steps / 2 {
            back_up(&copy, "cancelled", 1).expect("begins anew");
            assert_eq!(opened(&copy, "cancelled"), life.store.present());
        }
    }
}

#[test]
fn a_copy_of_files_keeps_its_rate_as_it_copies_and_as_it_verifies() {
    let disk = SimDisk::new();
    let (_life, _worker) = large(&disk);
    let options = CopyOptions { bytes_per_second: Some(1_000_000), keep: Some(1) };
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), options).expect("begins");
    let (clock, mut verified) = (Clock::manual(), 0);
    let report = loop {
        match copy.step_at(&Framing, clock.nanos()).expect("goes on") {
            CopyStep::Worked => verified = copy.progress().bytes,
            CopyStep::Paced(wait) => clock.advance(wait),
            CopyStep::Ended(report) => break *report,
        }
    };
    let seconds = (report.bytes_written + verified) as f64 / 1_000_000.0;
    let taken = Duration::from_nanos(clock.nanos()).as_secs_f64();
    assert!((seconds * 0.9..seconds * 1.1).contains(&taken), "{taken} s of {seconds} s");
    assert!(verified > report.bytes_written * 9 / 10, "{verified} of {report:?}");
}

#[test]
fn l6_epochs_that_are_reserved_beside_a_copy_of_files_are_reserved_in_it() {
    let disk = SimDisk::new();
    let slow = LogConfig { epoch_interval: Duration::from_secs(3600), ..config(2) };
    let rig = Rig::open(Arc::new(disk.at("data").mounted()), slow, Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"row");
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    let first = rig.epochs.now();
    for _ in 0..4 {
        (0..EPOCHS_RESERVED_MIN / 2).for_each(|_| assert!(rig.advance()));
        rig.log.reserved_epochs_step();
    }
    assert!(rig.epochs.now().number() > first.number() + EPOCHS_RESERVED_MIN);
    rig.commit_epoch(&mut worker, 2, b"row");
    let report = loop {
        if let CopyStep::Ended(report) = copy.step_at(&Framing, 0).expect("goes on") {
            break *report;
        }
    };
    assert!(report.epoch.number() > first.number() + EPOCHS_RESERVED_MIN, "{report:?}");
    assert!(examined(&disk, "backup").is_whole());
}

#[test]
fn what_a_killed_copy_of_files_has_left_is_in_no_backup_of_pages() {
    let (disk, life, _worker) = filled_disk(pictures(), false);
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    while !disk.at("backup").files().iter().any(|name| name.starts_with("log1/log-")) {
        assert_eq!(copy.step_at(&Framing, 0).expect("goes on"), CopyStep::Worked);
    }
    drop(copy);
    // Its log goes on with deletes, which the files of before do not have.
    let mut worker = life.rig.worker();
    (0..20).for_each(|key| _ = life.commit(&mut worker, key, None));
    life.rig.settle();
    back_up_checkpoint(&disk, &life);
    assert!(examined(&disk, "backup").is_whole());
    assert_eq!(opened(&disk, "backup"), life.store.present());
    back_up(&disk, "backup", 1).expect("is there");
    restored(&disk, "backup", "restored", None).expect("is restored");
    assert_eq!(opened(&disk, "restored"), life.store.present());
}

/// The rest of this life, with files of 64 KiB: commits that fill several files of the first log.
fn fill_files(database: &mut Remembered, value: u8) {
    (0..12).for_each(|key| database.put(key, vec![value; 30_000]));
}

/// Steps until the copy has begun all files that these logs had at the beginning, and none of another log.
fn step_until_logs_are_copied(disk: &SimDisk, copy: &mut CopyRun, logs: &[&str]) {
    let of = |folder: &str| {
        let files = log_files(disk, folder);
        files.iter().filter(|name| logs.iter().any(|log| name.starts_with(log))).count()
    };
    while of("backup") < of("data") {
        let step = copy.step_at(&Framing, 0).expect("goes on");
        assert!(matches!(step, CopyStep::Worked), "{step:?}");
    }
    assert_eq!(log_files(disk, "backup").len(), of("data"), "they come first");
}

#[test]
fn n20_a_source_that_begins_another_life_beside_its_copy_removes_what_the_copy_lacks() {
    for is_closed in [true, false] {
        let disk = SimDisk::new();
        let mut database = Remembered::open(&disk, 2, 64 << 10);
        let durable = database.life.rig.log.durable_epoch();
        let mut copy =
            backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
        step_until_logs_are_copied(&disk, &mut copy, &["log0/"]);
        // The second log, which is read later, shows what the first one has in files that are not opened yet.
        fill_files(&mut database, 3);
        let Remembered { life, worker, commits } = database;
        if is_closed {
            life.rig.log.close().expect("closes");
        }
        drop((worker, life));
        let log = LogConfig { segment_bytes: 64 << 10, ..config(2) };
        let life = Life::open_with(&disk.at("data"), log, settings()).expect("opens");
        let mut database = Remembered { worker: life.rig.worker(), life, commits };
        outlast_the_lease(&mut database, 4);
        let is_of_first_life = |name: &String| name.contains("/log-1-");
        assert!(!log_files(&disk, "data").iter().any(is_of_first_life), "no log file of it is needed");
        let report = run(copy).unwrap_or_else(|error| panic!("closed {is_closed}: {error}"));
        database.assert_is_a_state(&disk, (&report, durable));
    }
}

#[test]
fn n20_damage_of_a_log_is_said_though_another_ends_before_files_that_were_removed() {
    let disk = SimDisk::new();
    let mut database = Remembered::open(&disk, 3, 64 << 10);
    let data = disk.at("data");
    let mut copy = backup(&of(&disk, "data"), &of(&disk, "backup"), CopyOptions::default()).expect("begins");
    step_until_logs_are_copied(&disk, &mut copy, &["log0/", "log1/"]);
    // The first log has all rows. The second one has the marks of all epochs, in one file, and is damaged behind what
    // was copied of it, before the end of what can be had of the first one.
    let second =
        log_files(&disk, "data").into_iter().find(|name| name.starts_with("log1/")).expect("is there");
    let copied = headers(&data.bytes(&second)).len();
    fill_files(&mut database, 3);
    let header = headers(&data.bytes(&second))[copied];
    data.flip(&second, header as u64 + 8, 1);
    database.life.checkpoint().expect("is installed");
    database.life.rig.clock.advance(Duration::from_secs(LEASE_SECONDS_MAX + 1));
    (0..2).for_each(|checkpointer| _ = database.life.step(checkpointer));
    assert!(database.life.rig.log.stats().leases_overrun > 0, "files of the first log were removed");
    let error = run(copy).expect_err("a copy of a damaged log is no backup");
    assert!(error.to_string().contains(&second), "{error}");
}

/// It shows a larger D than this database has had.
#[test]
fn n20_the_hint_of_another_database_says_nothing_of_this_ones_logs() {
    let (disk, life, _worker) = filled_disk(settings(), false);
    let other = Life::open(&disk.at("other"), 1, settings()).expect("opens");
    (0..5000).for_each(|_| assert!(other.rig.advance()));
    other.rig.settle();
    other.rig.log.close().expect("closes");
    assert!(other.rig.log.durable_epoch() > life.rig.log.durable_epoch());
    disk.at("data").put("HINT", disk.at("other").bytes("HINT"));
    let report = back_up(&disk, "backup", 1).expect("is made");
    assert_eq!(report.epoch, life.rig.log.durable_epoch());
    assert_eq!(opened(&disk, "backup"), life.store.present());
}
