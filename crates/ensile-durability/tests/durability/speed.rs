//! What an append costs, and a strict commit against the disk's own sync: printed, with loose bounds that catch
//! mistakes and not noise. `cargo test --release -p ensile-durability speed -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_disk::{Disk, RealDisk};
use ensile_durability::{LogConfig, Step};
use ensile_sim::SimDisk;

use crate::rig::{Folder, Rig};

fn percentile(samples: &mut [u64], percent: usize) -> u64 {
    samples.sort_unstable();
    samples[(samples.len() * percent / 100).min(samples.len() - 1)]
}

#[test]
#[ignore = "a measurement"]
fn an_append_costs_little() {
    let disk = SimDisk::new();
    let rig = Rig::open(Arc::new(disk), LogConfig::default(), Clock::machine()).expect("recovers");
    let mut worker = rig.worker();
    let body = [7u8; 130];
    let mut best = u64::MAX;
    for _ in 0..40 {
        // Fewer than fill a buffer, so that this is the path without a hand-over.
        const APPENDS: u64 = 3000;
        worker.commit(&rig.epochs, 1, b"changes the buffer").expect("runs");
        let tid = worker.stamp(&rig.epochs);
        let start = rig.clock.nanos();
        for _ in 0..APPENDS {
            worker.appender.reserve(body.len()).expect("runs");
            worker.appender.append(tid, |out| out.extend_from_slice(std::hint::black_box(&body)));
            worker.appender.release();
        }
        best = best.min((rig.clock.nanos() - start) * 10 / APPENDS);
        // The logger gives the buffer back, its pages touched.
        std::thread::sleep(Duration::from_millis(1));
        rig.settle();
    }
    println!("reserve + append + release of 130 bytes: {}.{} ns", best / 10, best % 10);
    assert!(cfg!(debug_assertions) || best < 1000, "{best} tenths of a nanosecond");
}

#[test]
#[ignore = "a measurement"]
fn a_strict_commit_costs_about_one_sync() {
    let folder = Folder::new("strict");
    let disk = Arc::new(RealDisk::open(folder.path()).expect("a folder"));
    let clock = Clock::machine();

    let file = disk.create("raw").expect("creates");
    file.preallocate(8 << 20).expect("preallocates");
    file.sync_all().expect("syncs");
    let mut raw: Vec<u64> = (0..2000)
        .map(|index| {
            let start = clock.nanos();
            file.write_at(&[1; 320], index * 320).expect("writes");
            file.sync_data().expect("syncs");
            clock.nanos() - start
        })
        .collect();

    let rig = Rig::open(disk, LogConfig::default(), clock.clone()).expect("recovers");
    let mut strict = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while rig.log.logger_step(0) != Step::Stopped {
                rig.log.logger_wait(0, Duration::from_millis(40));
            }
        });
        let mut worker = rig.worker();
        for key in 0..2000 {
            let start = clock.nanos();
            let tid = worker.commit(&rig.epochs, key, &[1; 130]).expect("runs");
            rig.log.wait_durable(tid.epoch()).expect("durable");
            strict.push(clock.nanos() - start);
        }
        rig.log.close().expect("closes");
    });
    let (raw50, strict50) = (percentile(&mut raw, 50), percentile(&mut strict, 50));
    println!(
        "write + fdatasync: p50 {} us, p99 {} us; strict commit: p50 {} us, p99 {} us; {:?}",
        raw50 / 1000,
        percentile(&mut raw, 99) / 1000,
        strict50 / 1000,
        percentile(&mut strict, 99) / 1000,
        rig.log.stats()
    );
    assert!(strict50 <= 2 * raw50 + 1_000_000, "raw {raw50} ns, strict {strict50} ns");
}
