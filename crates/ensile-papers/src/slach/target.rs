//! `slach target`: kills processes with a target for the recovery time, and measures the time of the next open.
//!
//! ```text
//! for each target   a folder; kills + 1 lives: open (measured), load that changes tenfold, killed at random
//! asked             each open <= 1.2 x target; checkpoints <= 1.5 x the fewest that would do
//! ```
//! *The fewest that would do* is the number of checkpoints of an oracle. The oracle knows the future log, and begins
//! each checkpoint as late as its own time allows. The victim's prediction gives the log. The figure shows the error of
//! the prediction beside: predicted just before the kill, against measured after the kill.
//!
//! Neighbours: [`victim`] is the process; [`fewest`] is pure.

pub(crate) mod victim;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use ensile_base::random::Random;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};

use super::arguments::SlachArguments;
use victim::TargetVictimArguments;

const FOLDER: &str = "slach-target";
/// Thresholds: ratio of an open to the target, and ratio of checkpoints to the fewest that would do.
const OF_TARGET_MAX: f64 = 1.2;
const OF_FEWEST_MAX: f64 = 1.5;
/// Range of the kill, in multiples of the target after the victim's beginning.
const KILLED_FROM: f64 = 0.5;
const KILLED_TO: f64 = 4.0;
/// Limit of an open, as a multiple of the target. A longer open is given up.
const GIVEN_UP: f64 = 20.0;
/// Time for the first life to make the objects.
const MAKING: Duration = Duration::from_secs(300);

const TIME: (&str, &str) = ("recovery time", "of the target");
const PREDICTED: (&str, &str) = ("predicted", "of the recovery time");
const LOADING: (&str, &str) = ("loading, predicted", "of the target");
const CHECKPOINTS: (&str, &str) = ("checkpoints, all lives", "of the fewest that would do");

/// A victim's report of one moment, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment {
    /// Time since the victim's beginning.
    at: f64,
    total: f64,
    loading: f64,
    replay: f64,
    checkpoint: f64,
    installed: u64,
}

/// A killed life.
#[derive(Debug, Default)]
struct Life {
    open_seconds: f64,
    moments: Vec<Moment>,
    refused: Option<String>,
}

/// Measures. False if a threshold is missed.
pub(super) fn target(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let mut progress = Progress::new(arguments.target.kills_of_target);
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    for &seconds in &arguments.target.seconds_of_target {
        let folder = fresh_folder(&arguments.data, FOLDER)?;
        let lives = lives(arguments, seconds, &folder, &mut progress)?;
        std::fs::remove_dir_all(&folder).map_err(Failure::io("removing the objects"))?;
        let measured = Measured::of(seconds, &lives);
        is_as_asked &= measured.is_as_asked();
        said += &measured.said();
        if let Some(refused) = lives.iter().find_map(|life| life.refused.as_ref()) {
            said += &format!("    refused: {refused}\n");
        }
        rows.extend(measured.rows());
    }
    progress.clear();
    let title =
        format!("Recovery times of killed processes, {} kills each", arguments.target.kills_of_target);
    let notes = vec![format!("asked: each at most {OF_TARGET_MAX} of the target")];
    let (name, drawn, horizontal) = ("target", TIME, "target (s)");
    Ok((Figure { name, title, drawn, notes, rows, horizontal, ..Figure::default() }, is_as_asked, said))
}

/// Results of the lives of one target.
struct Measured {
    seconds: f64,
    of_target: Vec<f64>,
    predicted: Vec<f64>,
    loading: Vec<f64>,
    checkpoints: u64,
    fewest: u64,
}

impl Measured {
    fn of(seconds: f64, lives: &[Life]) -> Self {
        let killed = || lives.iter().zip(&lives[1..]);
        let last = |life: &Life| life.moments.last().copied();
        let (mut checkpoints, mut fewest) = (0, 0);
        for life in &lives[..lives.len() - 1] {
            checkpoints += last(life).map_or(0, |moment| moment.installed);
            fewest += fewest_of(&life.moments, seconds * 1e3);
        }
        Self {
            seconds,
            of_target: killed().map(|(_, next)| next.open_seconds / seconds).collect(),
            predicted: killed()
                .filter_map(|(life, next)| Some(last(life)?.total / 1e3 / next.open_seconds))
                .collect(),
            loading: lives.iter().filter_map(|life| Some(last(life)?.loading / 1e3 / seconds)).collect(),
            checkpoints,
            fewest,
        }
    }

    fn of_fewest(&self) -> f64 {
        self.checkpoints as f64 / self.fewest.max(1) as f64
    }

    fn is_as_asked(&self) -> bool {
        self.of_target.iter().all(|share| *share <= OF_TARGET_MAX) && self.of_fewest() <= OF_FEWEST_MAX
    }

    fn said(&self) -> String {
        let worst = self.of_target.iter().copied().fold(0.0, f64::max);
        format!(
            "  target of {} s: the longest recovery took {worst:.2} of it, asked <= {OF_TARGET_MAX}; {} checkpoints, and {} \
             would do: {:.2}, asked <= {OF_FEWEST_MAX}\n",
            self.seconds,
            self.checkpoints,
            self.fewest,
            self.of_fewest()
        )
    }

    fn rows(self) -> Vec<Row> {
        let place = Place::At(self.seconds);
        let of_fewest = vec![self.of_fewest()];
        [
            (TIME, self.of_target),
            (PREDICTED, self.predicted),
            (LOADING, self.loading),
            (CHECKPOINTS, of_fewest),
        ]
        .into_iter()
        .map(|(metric, values)| Row::new("objects", place.clone(), metric, values))
        .collect()
    }
}

/// Number of checkpoints of an oracle that knows the future log: each checkpoint begins as late as possible, and takes
/// the time of the life's last checkpoint.
fn fewest_of(moments: &[Moment], target: f64) -> u64 {
    let Some(last) = moments.last() else { return 0 };
    let most = target - last.loading;
    // Total log, in milliseconds of replay. A fall of the replay at the installation of a checkpoint is no log.
    let mut logged = vec![moments[0].replay];
    for pair in moments.windows(2) {
        let more = if pair[0].installed == pair[1].installed { pair[1].replay - pair[0].replay } else { 0.0 };
        logged.push(logged[logged.len() - 1] + more.max(0.0));
    }
    // The first moment with an installed checkpoint, for a checkpoint that begins at the moment `begun`.
    let installed =
        |begun: usize| moments.partition_point(|moment| moment.at < moments[begun].at + last.checkpoint);
    let (mut base, mut look, mut fewest) = (0.0, 0, 0);
    while look + 1 < moments.len() {
        // A checkpoint that begins at the next moment is too late if its log exceeds the limit.
        let Some(behind) = logged.get(installed(look + 1)) else { break };
        if behind - base > most {
            (base, fewest, look) = (logged[look], fewest + 1, installed(look).max(look + 1));
        } else {
            look += 1;
        }
    }
    fewest
}

/// Consecutive lives in a folder, killed except the last.
fn lives(
    arguments: &SlachArguments,
    seconds: f64,
    folder: &Path,
    progress: &mut Progress,
) -> Result<Vec<Life>> {
    let mut random = Random::from_seed(arguments.seed);
    let objects = (arguments.target.objects_a_second as f64 * seconds) as u64;
    let mut lives = Vec::new();
    for number in 0..=arguments.target.kills_of_target as u64 {
        let share = KILLED_FROM + (KILLED_TO - KILLED_FROM) * random.next_below(1_000) as f64 / 1e3;
        let killed = if number == arguments.target.kills_of_target as u64 { 0.0 } else { share * seconds };
        progress.say(&format!(
            "target of {seconds} s, kill {number} of {}: after {killed:.1} s",
            arguments.target.kills_of_target
        ));
        let words = TargetVictimArguments::words(
            folder,
            [(seconds * 1e3) as u64, objects, arguments.target.target_rate, arguments.seed + number],
        );
        let most = Duration::from_secs_f64(GIVEN_UP * seconds) + MAKING;
        lives.push(life(&words, Duration::from_secs_f64(killed), most)?);
    }
    Ok(lives)
}

/// Starts a victim, and kills it `killed` after the victim is ready.
fn life(words: &[String], killed: Duration, most: Duration) -> Result<Life> {
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::io("starting a victim"))?;
    let pipe = child.stdout.take().expect("its standard output is a pipe");
    let (ready, is_ready) = mpsc::channel();
    std::thread::scope(|scope| {
        let listener = scope.spawn(move || {
            let mut life = Life::default();
            for line in BufReader::new(pipe).lines().map_while(std::result::Result::ok) {
                if hear(&mut life, &line) {
                    // A send fails only if the process ends: the receiver lives as long as the process.
                    let _ = ready.send(());
                }
            }
            life
        });
        let waited = is_ready.recv_timeout(most);
        if waited.is_ok() {
            std::thread::sleep(killed);
        }
        let is_alive = end(&mut child)?;
        let life = listener.join().expect("reading a pipe does not panic");
        match (waited, is_alive) {
            (Ok(()), true) => Ok(life),
            (Err(mpsc::RecvTimeoutError::Timeout), _) => {
                Err(Failure::Usage(format!("a victim was not ready after {most:?}")))
            }
            _ => Err(Failure::Usage("a victim ended before it was killed".to_owned())),
        }
    })
}

/// SIGKILL: nothing that the victim still has in its hands is written. True if the victim was alive.
fn end(child: &mut Child) -> Result<bool> {
    let is_alive = matches!(child.try_wait(), Ok(None));
    child.kill().and_then(|()| child.wait()).map_err(Failure::io("killing a victim"))?;
    Ok(is_alive)
}

/// Parses a line; true if the victim is ready. The last line may be cut.
fn hear(life: &mut Life, line: &str) -> bool {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    match what {
        "open" => life.open_seconds = rest.parse::<f64>().map_or(0.0, |nanos| nanos / 1e9),
        "refused" => life.refused = Some(rest.to_owned()),
        "at" => {
            let numbers: Vec<f64> = rest.split(' ').filter_map(|number| number.parse().ok()).collect();
            if let [at, total, loading, replay, checkpoint, installed] = *numbers {
                let installed = installed as u64;
                life.moments.push(Moment { at, total, loading, replay, checkpoint, installed });
            }
        }
        _ => {}
    }
    what == "ready"
}

#[cfg(test)]
mod tests;
