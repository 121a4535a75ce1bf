//! What a measured recovery becomes.

use std::time::Duration;

use ensile::recovery::{Phase, PhaseReport, Progress, RecoveryReport};

use super::{Measured, PER_CORE, Scene, progress_line, rows_of};

#[test]
fn rates_are_each_cores_and_parts_without_work_are_left_out() {
    let phase = |phase, seconds, entries| PhaseReport {
        phase,
        elapsed: Duration::from_secs(seconds),
        threads: 2,
        bytes: entries * 130,
        entries,
    };
    let phases =
        vec![phase(Phase::Scan, 1, 0), phase(Phase::Load, 3, 0), phase(Phase::Replay, 5, 20_000_000)];
    let mut report = RecoveryReport::default();
    report.phases = phases;
    let measured = Measured {
        open_seconds: 10.0,
        processor_seconds: 7.5,
        tables_seconds: 0.5,
        report,
        device: (4_000_000_000, 5.0),
        cached_share: 0.0,
        peak_bytes: 120_000_000,
    };
    let open = Box::new(|_: &ensile::Database| unreachable!("nothing is opened"));
    let scene = Scene {
        name: "ycsb",
        folder: "nowhere".into(),
        entry_bytes: Some(116),
        running_bytes: Some(90_000_000),
        open,
    };
    let rows = rows_of(&scene, 2, &[measured]);
    let value = |place: &str, metric: (&str, &str)| {
        let found = rows.iter().find(|row| {
            (row.place.to_string().as_str(), row.metric.as_str(), row.unit) == (place, metric.0, metric.1)
        });
        found.map(|row| row.median)
    };
    assert_eq!(value("log", PER_CORE), Some(232.0));
    assert_eq!(value("log", ("per core", "entries/s")), Some(2_000_000.0));
    assert_eq!(value("checkpoint", PER_CORE), None);
    assert_eq!(value("scan", ("time", "s")), Some(1.0));
    assert_eq!(value("after the last phase", ("share", "%")), Some(10.0));
    assert_eq!(value("memory", ("at most", "MB")), Some(120.0));
    assert_eq!(value("memory", ("of the process that was killed", "MB")), Some(90.0));
    assert_eq!(value("whole / device", ("ratio", "x")), Some(0.5));
}

#[test]
fn a_line_tells_rate_and_time_left() {
    let progress = Progress {
        phase: Phase::Replay,
        bytes_done: 500_000_000,
        bytes_total: 1_500_000_000,
        elapsed: Duration::from_secs(2),
    };
    assert_eq!(progress_line(&progress), "replay 500 of 1500 MB, 250 MB/s, 4 s left");
}
