//! `siren backup-kills` kills a process that backs up a database, at a random moment, again and again. Meanwhile this
//! process has the database open and writes to the database.
//!
//! ```text
//! fill -> one backup and one increment without a kill, to measure their durations
//! each run: picture -> the copier runs beside the next picture -> SIGKILL, unless the copier has ended
//!           -> verify the target, restore each picture that its manifest names, compare every row
//!           -> after half of the kills: a run without a kill, and the same checks
//! ```
//! After a run that has ended, the target is sometimes emptied, so that first backups are killed, too.
//!
//! Invariants: After a kill the target has its earlier backups or the new backup, whole, and the new backup only if the
//! copier had verified the backup. If a killed first backup does not count, the target reports that no backup is
//! present.
//!
//! Neighbours: [`copier`] is the killed process. [`history`] writes, and knows the rows of each epoch.

pub(crate) mod copier;
mod history;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use ensile::checkpoint::CheckpointReport;
use ensile::folder::{self, BackupFacts};
use ensile::receipt::Epoch;
use ensile::{Database, Durability, Error};
use ensile_base::random::Random;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::grouped;
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};
use ensile_durability::DurabilityError;

use super::arguments::SirenArguments;
use super::foreground::paced_options;
use super::results::Made;
use super::run::must_fit;
use super::strategy::Strategy;
use copier::{Course, Stage};
use history::History;

/// Folders of the database, the backup, and the restored database.
const FOLDERS: [&str; 3] = ["siren", "siren-backup", "siren-restored"];
const STRATEGY: Strategy = Strategy::SemiFuzzy;
/// Latest moment of a kill, in durations of the last run that ended. Above 1, so that kills also meet the end of a run.
const BEHIND_THE_END: f64 = 1.2;
/// Largest number of pictures that a target keeps; each run draws its number.
const KEEP_MAX: u64 = 2;
/// The target is emptied after one in this number of ended runs, on average.
const EMPTIED: u64 = 2;
/// Number of findings after which the experiment ends.
const FINDINGS_MAX: usize = 5;

const KILLS: (&str, &str) = ("kills", "1");

/// Kind of backup that a run makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Full,
    Increment,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Full, Self::Increment];

    fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Increment => "increment",
        }
    }
}

/// Newest backup in the target after a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Before,
    New,
}

impl Left {
    const ALL: [(Self, (&'static str, &'static str)); 3] = [
        (Self::Nothing, ("kills behind which there is no backup", "1")),
        (Self::Before, ("kills behind which the backup before is there", "1")),
        (Self::New, ("kills behind which the new backup is there", "1")),
    ];
}

/// A kill of a copier.
#[derive(Clone, Copy, Debug)]
struct Kill {
    kind: Kind,
    stage: Stage,
    left: Left,
}

/// Results of all runs.
#[derive(Debug, Default)]
struct Killed {
    kills: Vec<Kill>,
    /// Number of runs that ended before the moment of their kill.
    ended: u64,
    /// Number of runs without a kill.
    to_the_end: u64,
    /// Number of restored pictures.
    pictures: u64,
    /// Number of compared rows.
    rows: u64,
    findings: Vec<String>,
}

/// The database, its backup, and the state of the experiment.
struct Scene<'a> {
    arguments: &'a SirenArguments,
    db: &'a Database,
    history: &'a History,
    source: &'a Path,
    target: &'a Path,
    restored: &'a Path,
    random: Random,
    /// Epochs of the target's pictures, newest first.
    known: Vec<Epoch>,
    /// Duration of the last ended run of each kind, in seconds.
    seconds: [f64; 2],
    killed: Killed,
}

/// Guard that ends the writer when the guard is dropped, also after an error.
struct EndsWriter<'a>(&'a AtomicBool);

impl Drop for EndsWriter<'_> {
    fn drop(&mut self) {
        // Relaxed: the flag only ends a loop.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the experiment.
pub(super) fn run(arguments: &SirenArguments) -> Result<Made> {
    must_fit(arguments)?;
    let mut paths = Vec::new();
    for name in FOLDERS {
        paths.push(fresh_folder(&arguments.data, name)?);
    }
    let options = paced_options(arguments, STRATEGY, arguments.seed);
    let db = options.open(Database::builder(&paths[0]).durability(Durability::Relaxed))?;
    let killed = beside_a_writer(arguments, &db, &paths);
    db.close()?;
    for path in &paths {
        removed(path)?;
    }
    Ok(made(arguments, &killed?))
}

fn beside_a_writer(arguments: &SirenArguments, db: &Database, paths: &[PathBuf]) -> Result<Killed> {
    let history = History::filled(db, arguments.rows)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| history.go_on(db, &is_over));
        let ends_writer = EndsWriter(&is_over);
        let mut scene = Scene {
            arguments,
            db,
            history: &history,
            source: &paths[0],
            target: &paths[1],
            restored: &paths[2],
            random: Random::from_seed(arguments.seed),
            known: Vec::new(),
            seconds: [0.0; 2],
            killed: Killed::default(),
        };
        let outcome = scene.kill_all();
        drop(ends_writer);
        // The error of the writer comes first, because the early end of the writer may have caused the other error.
        writer.join().expect("writing does not panic")?;
        outcome.map(|()| scene.killed)
    })
}

impl Scene<'_> {
    fn kill_all(&mut self) -> Result<()> {
        let asked = self.arguments.kills;
        let mut progress = Progress::new(asked);
        for _ in Kind::ALL {
            self.run_to_the_end()?;
        }
        self.empty_target()?;
        while self.killed.kills.len() < asked && self.killed.findings.len() < FINDINGS_MAX {
            let is_killed = self.run_and_kill()?;
            if is_killed && self.random.next_below(2) == 0 {
                self.run_to_the_end()?;
            }
            let has_ended = !is_killed || self.killed.kills.last().is_some_and(|kill| kill.left == Left::New);
            if has_ended && self.random.next_below(EMPTIED) == 0 {
                self.empty_target()?;
            }
            let Killed { kills, ended, .. } = &self.killed;
            progress.update(&format!("{} of {asked} kills, {ended} had ended before", kills.len()));
        }
        // The last run shows that a backup goes on from the remains of the last kill.
        self.run_to_the_end()?;
        progress.clear();
        Ok(())
    }

    fn kind(&self) -> Kind {
        if self.known.is_empty() { Kind::Full } else { Kind::Increment }
    }

    /// Runs the copier and kills the copier at a random moment. False if the copier ended before the kill.
    fn run_and_kill(&mut self) -> Result<bool> {
        let kind = self.kind();
        let moment = self.random.unit() * BEHIND_THE_END * self.seconds[kind as usize];
        let (course, least) = self.run_once(Some(moment))?;
        let before = std::mem::take(&mut self.known);
        self.known = self.look()?;
        let (newest, is_new) = (self.known.first().copied(), self.known.first() != before.first());
        let left = match newest {
            None => Left::Nothing,
            Some(_) if is_new => Left::New,
            Some(_) => Left::Before,
        };
        let said = format!("{} of {least} or later, at {}", kind.name(), course.stage.name());
        if is_new && newest < Some(least) || !is_new && self.known != before {
            self.found(format!("{said}: the target has {:?} behind {before:?}", self.known));
        }
        if is_new && course.stage < Stage::Naming || !is_new && course.stage == Stage::Ended {
            self.found(format!("{said}: the target has {:?}, behind {before:?}", self.known));
        }
        if course.is_killed {
            self.killed.kills.push(Kill { kind, stage: course.stage, left });
        } else {
            self.killed.ended += 1;
            self.seconds[kind as usize] = course.seconds;
        }
        Ok(course.is_killed)
    }

    /// Runs the copier to its end without a kill.
    fn run_to_the_end(&mut self) -> Result<()> {
        let kind = self.kind();
        let (course, least) = self.run_once(None)?;
        let before = std::mem::take(&mut self.known);
        self.known = self.look()?;
        if self.known.first() < Some(&least) {
            self.found(format!(
                "a run to the end, of {least} or later: the target has {:?} behind {before:?}",
                self.known
            ));
        }
        self.seconds[kind as usize] = course.seconds;
        self.killed.to_the_end += 1;
        Ok(())
    }

    /// Runs the copier beside a picture. Also returns the epoch of the newest picture before the run.
    fn run_once(&mut self, moment: Option<f64>) -> Result<(Course, Epoch)> {
        let picture = self.db.checkpoint()?.wait()?;
        let least = picture_epoch(&picture)?;
        // The next picture is written and installed beside the copy.
        self.db.checkpoint()?;
        let keep = 1 + self.random.next_below(KEEP_MAX);
        Ok((copier::run(self.source, self.target, keep, moment)?, least))
    }

    /// Verifies the target, restores each picture and compares the rows. Returns the epochs of the pictures, with a log
    /// or without a log, newest first.
    fn look(&mut self) -> Result<Vec<Epoch>> {
        let epochs = match folder::verify(self.target) {
            Ok(found) if !found.is_whole() => {
                let damage = found.damage.first().map(|damage| format!("{damage:?}"));
                self.found(format!("the target is damaged: {}", damage.unwrap_or_default()));
                return Ok(Vec::new());
            }
            Ok(found) => match found.backup {
                Some(BackupFacts::Backup { mut pictures, logged_pictures, .. }) => {
                    pictures.extend(logged_pictures);
                    pictures.sort_unstable_by_key(|epoch| Reverse(*epoch));
                    pictures
                }
                _ => Vec::new(),
            },
            Err(Error::Storage(why))
                if matches!(
                    why.cause(),
                    DurabilityError::NoDatabase { .. } | DurabilityError::Unfinished { .. }
                ) =>
            {
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        if epochs.is_empty() {
            self.look_for_none()?;
        }
        for &epoch in &epochs {
            let restored = folder::restore(self.target, self.restored, Some(epoch))?;
            let differs_at = self.compared(epoch)?;
            if restored.epoch != epoch || differs_at.is_some() {
                let at = restored.epoch;
                self.found(format!(
                    "the picture of {epoch} is restored as {at}, and differs at {differs_at:?}"
                ));
            }
            fresh_folder(&self.arguments.data, FOLDERS[2])?;
        }
        Ok(epochs)
    }

    /// Checks that a restore from a target without a backup reports the missing backup.
    fn look_for_none(&mut self) -> Result<()> {
        use DurabilityError::{NoDatabase, NotABackup, Unfinished};
        match folder::restore(self.target, self.restored, None) {
            Err(Error::Storage(why))
                if matches!(why.cause(), NoDatabase { .. } | NotABackup { .. } | Unfinished { .. }) => {}
            other => self.found(format!("the target has no backup, and a restore of it says {other:?}")),
        }
        fresh_folder(&self.arguments.data, FOLDERS[2])?;
        Ok(())
    }

    /// Returns the first key of the restored database whose row differs from the row at the end of this epoch.
    fn compared(&mut self, epoch: Epoch) -> Result<Option<u64>> {
        let (options, history) = (paced_options(self.arguments, STRATEGY, self.arguments.seed), self.history);
        let restored = self.restored;
        // A thread of its own opens the database, so that the thread-local state of the database ends with the thread.
        let compared = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let other = options.open_at(restored, Durability::Relaxed)?;
                let compared = history.differs_at(&other, epoch);
                other.close()?;
                compared
            });
            looks.join().expect("comparing does not panic")
        });
        let (differs_at, rows) = compared?;
        (self.killed.pictures, self.killed.rows) = (self.killed.pictures + 1, self.killed.rows + rows);
        Ok(differs_at)
    }

    fn empty_target(&mut self) -> Result<()> {
        fresh_folder(&self.arguments.data, FOLDERS[1])?;
        self.known.clear();
        Ok(())
    }

    fn found(&mut self, finding: String) {
        let number = self.killed.kills.len() + 1;
        self.killed.findings.push(format!("kill {number}: {finding}"));
    }
}

fn picture_epoch(report: &CheckpointReport) -> Result<Epoch> {
    report.picture_epoch().ok_or_else(|| Failure::Usage("a checkpoint was no picture".to_owned()))
}

fn removed(path: &Path) -> Result<()> {
    std::fs::remove_dir_all(path).map_err(Failure::io(format!("removing {}", path.display())))
}

/// Makes the rows of the figure, and the text with the findings.
fn made(arguments: &SirenArguments, killed: &Killed) -> Made {
    let Killed { kills, ended, to_the_end, pictures, rows: compared, findings } = killed;
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let at = |stage: Stage| kills.iter().filter(move |kill| (kill.kind, kill.stage) == (kind, stage));
        for stage in Stage::KILLED {
            let place = || Place::Bar(stage.name().to_owned());
            rows.push(Row::new(kind.name(), place(), KILLS, vec![at(stage).count() as f64]));
            for (left, metric) in Left::ALL {
                let count = at(stage).filter(|kill| kill.left == left).count();
                if count > 0 {
                    rows.push(Row::new(kind.name(), place(), metric, vec![count as f64]));
                }
            }
        }
    }
    let mut said = format!(
        "  {} kills, and {ended} runs that had ended before; {to_the_end} runs to the end between them; {} pictures were \
         restored, and {} rows compared: {}\n",
        kills.len(),
        grouped(*pictures as f64),
        grouped(*compared as f64),
        if findings.is_empty() { "each had the state of its epoch" } else { "NOT AS IT MUST BE" }
    );
    for finding in findings {
        said += &format!("  {finding}\n");
    }
    let title = format!(
        "What a backup was at when it was killed: {} kills, {} rows of {} bytes",
        kills.len(),
        grouped(history::rows_of(arguments.rows) as f64),
        history::VALUE_BYTES
    );
    let figure = Figure { name: "backup-kills", title, drawn: KILLS, rows, ..Figure::default() };
    let is_as_asked = findings.is_empty() && kills.len() == arguments.kills;
    Made(vec![figure], is_as_asked, said)
}
