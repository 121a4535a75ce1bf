//! `siren device`: measured rate of the slow device on this machine. The measurement validates figures of the device.
//!
//! A thread writes through the slow disk, then two threads write at once. The total rate must be the requested rate.
//!
//! Neighbours: [`super::slow_disk`] is measured.

use ensile_base::clock::Clock;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};
use ensile_disk::{Disk, DiskError};

use super::arguments::SirenArguments;
use super::results::Made;
use super::run::{failed, slow_disk};
use super::slow_disk::SlowDisk;

/// The folder of the experiment, within the folder of all data.
const FOLDER: &str = "siren-device";
/// Bytes of a write, as in a checkpoint.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes of a file; the next write begins at the front again.
const FILE_BYTES: u64 = 64 << 20;
/// Limit of the device's deviation from the requested rate, in percent.
const OFF_MAX: f64 = 2.0;

const RATE: (&str, &str) = ("written", "MB/s");
const OFF: (&str, &str) = ("off what was asked", "%");

/// One writer, then two.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    let speed = arguments.speed();
    let path = fresh_folder(&arguments.data, FOLDER)?;
    let disk = slow_disk(&path, (arguments.device, speed), &Clock::machine())?;
    disk.slow_down(true);
    let (mut rows, mut said, mut held) = (Vec::new(), String::new(), true);
    for writers in [1, 2] {
        let rate = written_per_s(&disk, writers, arguments.seconds).map_err(failed)?;
        let asked = speed.bytes_per_s as f64;
        let off = (rate / asked - 1.0) * 100.0;
        held &= off.abs() <= OFF_MAX;
        said += &format!(
            "  asked: {:.1} MB/s; held with {writers}: {:.1} MB/s, {off:+.2} %{}\n",
            asked / 1e6,
            rate / 1e6,
            if off.abs() <= OFF_MAX { "" } else { ": NOT HELD" }
        );
        let place = || Place::Bar(format!("writers: {writers}"));
        rows.push(Row::new("slow device", place(), RATE, vec![rate / 1e6]));
        rows.push(Row::new("slow device", place(), OFF, vec![off]));
    }
    std::fs::remove_dir_all(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    let title = format!("A device of {} MB/s, on the disk of this machine", arguments.slow_mb());
    let figure = Figure { name: "device", title, drawn: RATE, rows, ..Figure::default() };
    Ok(Made(vec![figure], held, said))
}

/// Total bytes a second of `writers` writing threads. Syncs are left out: a device takes syncs between writes.
fn written_per_s(disk: &SlowDisk, writers: usize, seconds: f64) -> Result<f64, DiskError> {
    let (clock, before) = (Clock::machine(), disk.written());
    let begun = clock.nanos();
    let end = begun + (seconds * 1e9) as u64;
    let write = |writer: usize| {
        let file = disk.create(&format!("checkpoint-{writer}"))?;
        let bytes = vec![writer as u8 + 1; WRITE_BYTES];
        let mut offset = 0;
        while clock.nanos() < end {
            file.write_at(&bytes, offset)?;
            offset = (offset + bytes.len() as u64) % FILE_BYTES;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let write = &write;
        let writing: Vec<_> = (0..writers).map(|writer| scope.spawn(move || write(writer))).collect();
        writing.into_iter().try_for_each(|writer| writer.join().expect("writing does not panic"))
    })?;
    Ok((disk.written() - before) as f64 / ((clock.nanos() - begun) as f64 / 1e9))
}
