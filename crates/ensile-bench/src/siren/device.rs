//! `siren device`: what the slow device comes to on this machine, so that a figure measured on it can be believed.
//!
//! A thread writes through the slow disk, then two do at once. Together they must get what was asked for.
//!
//! Neighbours: [`super::slow_disk`] is measured.

use ensile_base::clock::Clock;
use ensile_disk::{Disk, DiskError};

use super::Made;
use super::arguments::SirenArguments;
use super::run::{failed, slow_disk};
use super::slow_disk::SlowDisk;
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::system::fresh_folder;

/// Its folder, in the folder of all data.
const FOLDER: &str = "siren-device";
/// Bytes of a write, as a checkpoint has them.
const WRITE_BYTES: usize = 256 << 10;
/// Where a file begins anew.
const FILE_BYTES: u64 = 64 << 20;
/// How far from what was asked for the device may be, in percent.
const OFF_MAX: f64 = 2.0;

const RATE: (&str, &str) = ("written", "MB/s");
const OFF: (&str, &str) = ("off what was asked", "%");

/// One writer, and two.
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

/// Bytes a second that so many threads write, all together. Syncs are left out: a device takes them between writes.
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
