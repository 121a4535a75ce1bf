//! How long writes and syncs take, by a clock that moves only when somebody waits.
//!
//! Neighbours: [`super`]; the simulator's disk is below.

use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_sim::SimDisk;

use super::{DeviceTime, LATE_NANOS, SlowDisk, SlowFiles, Speed};

const SPEED: Speed = Speed { bytes_per_s: 1_000_000, sync: Duration::from_millis(5), write: Duration::ZERO };

fn disk(files: SlowFiles) -> (SlowDisk, Clock) {
    let clock = Clock::manual();
    let slow = SlowDisk::over(Box::new(SimDisk::default()), files, SPEED, clock.clone());
    for folder in ["log0", "checkpoint0"] {
        slow.create_folder(folder).expect("the simulator's disk makes folders");
    }
    // Far from the clock's beginning, before which nobody can be late.
    clock.advance(Duration::from_secs(1));
    slow.slow_down(true);
    (slow, clock)
}

#[test]
fn all_files_together_get_what_the_device_takes() {
    let (disk, clock) = disk(SlowFiles::All);
    let [log, part] = ["log0/a", "checkpoint0/b"].map(|name| disk.create(name).expect("it is made"));
    let before = clock.nanos() - LATE_NANOS;
    for _ in 0..10 {
        log.write_at(&[1; 30_000], 0).expect("written");
        part.write_at(&[2; 70_000], 0).expect("written");
    }
    assert_eq!(clock.nanos() - before, 1_000_000_000, "a million bytes are a second's");
    assert_eq!(disk.written(), 1_000_000);
    log.sync_data().expect("synced");
    part.sync_all().expect("synced");
    disk.sync_folder("log0").expect("synced");
    assert_eq!(clock.nanos() - before, 1_015_000_000, "three syncs");
    let mut back = [0; 3];
    assert_eq!((part.read_at(&mut back, 69_997).expect("read"), back), (3, [2; 3]), "the bytes are below");
}

#[test]
fn files_on_another_device_cost_nothing_and_a_disk_that_is_not_slowed_down_neither() {
    let (disk, clock) = disk(SlowFiles::Checkpoints);
    let before = clock.nanos();
    let log = disk.create("log0/a").expect("it is made");
    log.write_at(&[1; 1_000], 0).and_then(|()| log.sync_data()).expect("written");
    disk.sync_folder("log0").expect("synced");
    assert_eq!((clock.nanos(), disk.written()), (before, 0));
    let part = disk.create("checkpoint0/b").expect("it is made");
    disk.slow_down(false);
    part.write_at(&[1; 1_000], 0).and_then(|()| part.sync_data()).expect("written");
    assert_eq!((clock.nanos(), disk.written()), (before, 1_000));
    disk.slow_down(true);
    let again = disk.open("checkpoint0/b").expect("it is there");
    again.write_at(&[1; 1_000], 0).expect("written");
    again.write_at(&[1; 19_000], 0).expect("written");
    assert_eq!(clock.nanos() - before + LATE_NANOS, 20_000_000, "a fiftieth of a second's bytes");
}

#[test]
fn who_comes_while_the_device_is_busy_waits_for_its_turn_and_idle_time_is_gone() {
    let mut time = DeviceTime { speed: SPEED, free_at: 0 };
    let late = LATE_NANOS;
    assert_eq!(time.write(1_000 + late, 1), 2_000, "a microsecond a byte, from as early as it may have come");
    assert_eq!(time.write(1_500 + late, 3), 5_000, "behind the first");
    assert_eq!(time.sync(4_000), 5_005_000, "behind both");
    assert_eq!(time.write(9_000_000 + late, 1), 9_001_000, "what was idle is not made up for");
    let mut fast =
        DeviceTime { speed: Speed { bytes_per_s: u64::MAX, sync: Duration::MAX, ..SPEED }, free_at: 0 };
    assert_eq!(fast.write(7 + late, u64::MAX), 1_000_000_007);
    assert_eq!(fast.sync(0), u64::MAX, "and nothing overflows");
    let mut hanging = DeviceTime { speed: Speed { write: Duration::from_secs(10), ..SPEED }, free_at: 0 };
    assert_eq!(hanging.write(late, 2), 10_000_002_000, "a write takes its time, and each byte");
    assert_eq!(hanging.write(late, 0), 20_000_002_000, "writes take their turns");
}

#[test]
fn what_is_no_log_is_counted_as_written_for_checkpoints() {
    let (disk, _) = disk(SlowFiles::AllButLogs);
    for (name, bytes) in [("log0/a", 1_000), ("checkpoint0/b", 200), ("MANIFEST.new", 30)] {
        disk.create(name).expect("it is made").write_at(&vec![1; bytes], 0).expect("written");
    }
    assert_eq!(disk.written(), 230);
}
