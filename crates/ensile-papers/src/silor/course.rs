//! A finished run: the timeline of durable results, and looks at the database meanwhile.
//!
//! Neighbours: [`super::bench`] makes the runs, [`super::setup`] configures them; figures and rows are computed from
//! runs.

use std::fs;
use std::path::Path;

use ensile::Database;
use ensile_bench::machine::resident_bytes;
use ensile_bench::number::counted;
use ensile_bench::timeline::{Part, Timeline, seconds_at};

use super::setup::{Otherwise, Setup};

/// Number of steps at the beginning of a run that averages leave out: caches and pipelines fill.
const LEAD_IN_STEPS: usize = 10;
/// Time between two looks at the files on disk, which cost more than the rest, in seconds.
const FILES_EVERY: f64 = 0.1;
/// Time before a checkpoint in which memory without a checkpoint is sampled, in seconds: two snapshot intervals.
const BEFORE: f64 = 2.0;

/// The observations of one moment.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) second: f64,
    /// Resident memory of the process, in bytes.
    pub(super) resident: u64,
    /// Bytes written to the log so far.
    log_written: u64,
    /// Time of the last look at the log files, in seconds of the run, and their bytes on disk.
    log_on_disk: (f64, u64),
    /// True if a checkpoint was under way.
    is_running: bool,
    /// Number of checkpoints installed so far, and number of entries of the last.
    installed: u64,
    entries: u64,
}

impl Look {
    pub(super) fn at(nanos: u64, db: &Database, folder: &Path, before: Option<&Self>) -> Self {
        let second = nanos as f64 / 1e9;
        let stats = db.stats();
        let checkpoints = stats.checkpoints.unwrap_or_default();
        let log_on_disk = match before {
            Some(before) if second < before.log_on_disk.0 + FILES_EVERY => before.log_on_disk,
            _ => (second, log_bytes_in(folder)),
        };
        Self {
            second,
            resident: resident_bytes(),
            log_written: stats.log.map_or(0, |log| log.bytes),
            log_on_disk,
            is_running: checkpoints.running.is_some(),
            installed: checkpoints.installed,
            entries: checkpoints.last.map_or(0, |last| last.entries),
        }
    }
}

/// For each checkpoint under way: the first look, the last look, and the first look after the checkpoint.
fn begun(looks: &[Look]) -> impl Iterator<Item = (&Look, &Look, Option<&Look>)> {
    let runs = looks.chunk_by(|a, b| a.is_running == b.is_running).filter(|run| run[0].is_running);
    runs.map(|run| {
        let last = &run[run.len() - 1];
        (&run[0], last, looks.iter().find(|look| look.second > last.second))
    })
}

/// Number of checkpoints that began and were installed by now, with a later look at the files after the removal of
/// obsolete log.
pub(super) fn seen_whole(looks: &[Look]) -> usize {
    let is_whole = |last: &Look| looks.iter().any(|look| look.log_on_disk.0 > last.second + FILES_EVERY);
    begun(looks)
        .filter(|(first, last, after)| {
            after.is_some_and(|after| after.installed > first.installed) && is_whole(last)
        })
        .count()
}

/// Bytes of the log files in a database's folder, space set aside included. A file removed meanwhile counts nothing.
fn log_bytes_in(folder: &Path) -> u64 {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let is_log = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("log");
    let folders = list(folder).filter(is_log);
    folders
        .flat_map(|logs| list(&logs.path()))
        .filter_map(|file| file.metadata().ok())
        .map(|file| file.len())
        .sum()
}

/// A checkpoint written and installed while a run was watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    /// Begin and end, in seconds of the run.
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) entries: u64,
    /// Peak of resident memory during the checkpoint, above the peak of the time just before, in bytes.
    pub(super) extra_bytes: u64,
    /// Bytes of log written between the begin of the previous checkpoint and this begin; `None` for the first
    /// checkpoint.
    pub(super) log_between: Option<u64>,
    /// Bytes of log on disk after the removal of obsolete log.
    pub(super) log_kept: Option<u64>,
}

/// A run.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) setup: Setup,
    pub(super) timeline: Timeline,
    pub(super) looks: Vec<Look>,
    /// True if the run was ended early because the process held too much memory.
    pub(super) too_large: bool,
}

impl Course {
    /// System, workers and deviations of the run, in words.
    pub(super) fn label(&self) -> String {
        let Setup { system, workers, otherwise, .. } = self.setup;
        let more = if otherwise == Otherwise::No { String::new() } else { format!(", {otherwise}") };
        format!("{}, {}{more}", system.name(), counted(workers, "worker"))
    }

    /// The whole run without its lead-in.
    pub(super) fn whole(&self) -> Part {
        self.timeline.part(|step| step >= self.lead_in())
    }

    /// Bytes of log that a transaction left on average.
    pub(super) fn log_bytes_per_transaction(&self) -> f64 {
        let (Some(first), Some(last)) = (self.looks.first(), self.looks.last()) else { return 0.0 };
        (last.log_written - first.log_written) as f64 / self.timeline.part(|_| true).released.max(1) as f64
    }

    fn lead_in(&self) -> usize {
        LEAD_IN_STEPS.min(self.timeline.step_count() / 4)
    }

    /// Begin and end of the times with a checkpoint under way, in seconds, ended or not.
    pub(super) fn periods(&self) -> Vec<(f64, f64)> {
        let runs = self.looks.chunk_by(|a, b| a.is_running == b.is_running);
        let running = runs.filter(|run| run[0].is_running);
        running.map(|run| (run[0].second, run[run.len() - 1].second)).collect()
    }

    /// The steps with a checkpoint under way, and the steps between checkpoints.
    pub(super) fn inside_and_between(&self) -> (Part, Part) {
        let periods = self.periods();
        let is_inside = |step: usize| {
            let middle = f64::midpoint(seconds_at(step), seconds_at(step + 1));
            periods.iter().any(|(from, to)| (*from..*to).contains(&middle))
        };
        let counted = |step: usize| step >= self.lead_in();
        let inside = self.timeline.part(|step| counted(step) && is_inside(step));
        (inside, self.timeline.part(|step| counted(step) && !is_inside(step)))
    }

    /// Checkpoints that began and were installed in the run.
    pub(super) fn checkpoints(&self) -> Vec<Checkpoint> {
        let mut found = Vec::new();
        let mut begun_before: Option<u64> = None;
        for (first, last, after) in begun(&self.looks) {
            let log_between = begun_before.map(|written| first.log_written - written);
            begun_before = Some(first.log_written);
            let Some(after) = after.filter(|after| after.installed > first.installed) else { continue };
            found.push(Checkpoint {
                from: first.second,
                to: last.second,
                entries: after.entries,
                extra_bytes: self.extra_bytes(first.second, last.second),
                log_between,
                log_kept: self.log_kept(last.second),
            });
        }
        found
    }

    fn extra_bytes(&self, from: f64, to: f64) -> u64 {
        let most = |from: f64, to: f64| {
            let looks = self.looks.iter().filter(|look| (from..=to).contains(&look.second));
            looks.map(|look| look.resident).max().unwrap_or(0)
        };
        most(from, to).saturating_sub(most(from - BEFORE, from))
    }

    /// Bytes of log on disk at the first look at the files more than [`FILES_EVERY`] after `ended`, when the removal is
    /// done.
    fn log_kept(&self, ended: f64) -> Option<u64> {
        let settled = self.looks.iter().find(|look| look.log_on_disk.0 > ended + FILES_EVERY)?;
        Some(settled.log_on_disk.1)
    }
}
