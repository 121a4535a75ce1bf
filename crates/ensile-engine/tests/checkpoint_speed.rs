//! How fast a checkpoint writes while nobody else works, and what memory it takes: printed, and asserted loosely.
//!
//! `turn cargo test --release -p ensile-engine --test checkpoint_speed -- --ignored --nocapture`

use std::time::{Duration, Instant};

use ensile_engine::{Database, Durability, Result};

/// Resident memory, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident memory");
    1024 * line
        .split_whitespace()
        .nth(1)
        .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
        .expect("a number")
}

/// Processor time of this process, of all threads, in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    ticks as f64 / 100.0
}

#[test]
#[ignore = "a measurement, in release and on a quiet machine"]
fn a_checkpoint_of_ten_million_rows() -> Result<()> {
    let rows: u64 = std::env::var("ROWS").map_or(10_000_000, |rows| rows.parse().expect("a number"));
    let folder = std::env::var("FOLDER").unwrap_or_else(|_| "/tmp/ensile-checkpoint-speed".to_owned());
    let _ = std::fs::remove_dir_all(&folder);
    let db = Database::builder(&folder).durability(Durability::Relaxed).checkpoints_on_demand().open()?;
    let table = db.table::<u64, [u8; 100]>("rows")?;
    for first in (0..rows).step_by(1000) {
        db.run(|tx| {
            (first..first + 1000)
                .try_for_each(|key| tx.put(&table, &key.wrapping_mul(0x9e37_79b9_7f4a_7c15), &[7; 100]))
        })?;
    }
    std::thread::sleep(Duration::from_secs(2));
    let record_bytes = rows * 116;
    for round in 0..3 {
        let (before, begun, processor) = (resident_bytes(), Instant::now(), processor_seconds());
        let handle = db.checkpoint()?;
        let mut most = before;
        while handle.outcome().is_none() {
            std::thread::sleep(Duration::from_millis(20));
            most = most.max(resident_bytes());
        }
        let report = handle.wait()?;
        let (seconds, processor) = (begun.elapsed().as_secs_f64(), processor_seconds() - processor);
        println!(
            "round {round}: {} entries, {:.0} MB of files in {seconds:.2} s: {:.0} MB/s of record data, {:.2} s per GB; {processor:.2} s of processor time, {:.0} MB/s by it; {:.1} MiB more resident",
            report.entries,
            report.bytes as f64 / 1e6,
            record_bytes as f64 / 1e6 / seconds,
            seconds / (record_bytes as f64 / 1e9),
            record_bytes as f64 / 1e6 / processor,
            (most - before) as f64 / f64::from(1 << 20),
        );
        assert!(report.entries > rows);
    }
    db.close()?;
    drop(db);
    std::fs::remove_dir_all(&folder).expect("removes");
    Ok(())
}
