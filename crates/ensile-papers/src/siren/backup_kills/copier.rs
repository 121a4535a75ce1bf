//! The killed process: an unchanged `ensile backup` that reports its stages on standard output.
//!
//! Neighbours: [`super`] starts the process, and examines the target.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use clap::{Args, value_parser};
use ensile::folder::{self, CopyOptions, CopyPhase, CopyProgress};
use ensile_base::clock::Clock;
use ensile_base::sync::sleep;
use ensile_bench::{Failure, Result};

/// Stage of a copier. The copier reports the stage before each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Stage {
    /// Leases the source, and examines the target.
    Opening = b'o',
    /// Copies pages.
    Copying = b'p',
    /// Writes the directory and the root, and syncs the files.
    Closing = b'q',
    Verifying = b'r',
    /// After verification: replaces the manifest, and gives free space back.
    Naming = b's',
    /// The copier has reported that the backup counts.
    Ended = b't',
}

impl Stage {
    /// The stages in which a copier is killed.
    pub(super) const KILLED: [Self; 6] =
        [Self::Opening, Self::Copying, Self::Closing, Self::Verifying, Self::Naming, Self::Ended];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Copying => "copying",
            Self::Closing => "closing",
            Self::Verifying => "verifying",
            Self::Naming => "manifest",
            Self::Ended => "behind the manifest",
        }
    }

    fn of(progress: &CopyProgress) -> Self {
        let CopyProgress { phase, bytes, bytes_total, pages, pages_total, .. } = *progress;
        match phase {
            CopyPhase::Copying if pages < pages_total => Self::Copying,
            CopyPhase::Copying => Self::Closing,
            CopyPhase::Verifying if bytes < bytes_total => Self::Verifying,
            CopyPhase::Verifying => Self::Naming,
            _ => Self::Opening,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::KILLED.into_iter().find(|stage| *stage as u8 == byte)
    }
}

/// `ensile-papers siren-backup-copier`.
#[derive(Clone, Debug, Args)]
pub struct CopierArguments {
    #[arg(long)]
    source: PathBuf,
    #[arg(long)]
    target: PathBuf,
    #[arg(long, value_parser = value_parser!(u64).range(1..=8))]
    keep: u64,
}

/// The end of a copier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// True if the kill ended the copier.
    pub(super) is_killed: bool,
    /// Last reported stage.
    pub(super) stage: Stage,
    /// Seconds since the first report.
    pub(super) seconds: f64,
}

/// Copies as a child process.
pub(crate) fn copy(arguments: &CopierArguments) -> Result<()> {
    let CopierArguments { source, target, keep } = arguments;
    say(Stage::Opening)?;
    let options = CopyOptions { keep: Some(*keep as usize), ..CopyOptions::default() };
    folder::backup(source, target, options, &mut |progress| match say(Stage::of(progress)) {
        Ok(()) => ControlFlow::Continue(()),
        // The listener is gone.
        Err(_) => ControlFlow::Break(()),
    })?;
    say(Stage::Ended)
}

fn say(stage: Stage) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(&[stage as u8])
        .and_then(|()| stdout.flush())
        .map_err(Failure::io("saying what it is at"))
}

/// Starts a copier, and kills it `moment` seconds after the first report. Without `moment` the copier runs to the end.
pub(super) fn run(source: &Path, target: &Path, keep: u64, moment: Option<f64>) -> Result<Course> {
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let mut command = Command::new(program);
    command.args(["siren-backup-copier", "--keep", &keep.to_string(), "--source"]).arg(source);
    let command = command.arg("--target").arg(target).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::io("starting the copier"))?;
    let pipe = child.stdout.take().expect("its standard output is a pipe");
    let course = heard(&mut child, pipe, moment);
    if course.is_err() {
        // The copier's reports are lost, so the copier need not go on. The copier may have ended.
        let _ = child.kill().and_then(|()| child.wait());
    }
    course
}

fn heard(child: &mut Child, mut pipe: ChildStdout, moment: Option<f64>) -> Result<Course> {
    let clock = Clock::machine();
    let mut first = [0];
    pipe.read_exact(&mut first).map_err(Failure::io("waiting for the copier's first word"))?;
    let begun = clock.nanos();
    std::thread::scope(|scope| {
        let clock = &clock;
        let listener = scope.spawn(move || {
            let (mut last, mut bytes) = (first[0], [0; 4096]);
            loop {
                match pipe.read(&mut bytes)? {
                    0 => return Ok((last, clock.nanos())),
                    read => last = bytes[read - 1],
                }
            }
        });
        if let Some(moment) = moment {
            sleep(Duration::from_secs_f64(moment));
            // SIGKILL: nothing that the copier still has in its hands is written. The copier may have ended by now.
            child.kill().map_err(Failure::io("killing the copier"))?;
        }
        let (last, ended) = listener
            .join()
            .expect("reading a pipe does not panic")
            .map_err(Failure::io("reading what the copier is at"))?;
        let status = child.wait().map_err(Failure::io("waiting for the copier"))?;
        let stage = Stage::from_byte(last).expect("it says stages");
        // A process has an exit code only if no signal ended the process.
        let is_killed = status.code().is_none();
        if !is_killed && !status.success() {
            return Err(Failure::Usage(format!("the copier failed while {}", stage.name())));
        }
        Ok(Course { is_killed, stage, seconds: (ended - begun) as f64 / 1e9 })
    })
}
