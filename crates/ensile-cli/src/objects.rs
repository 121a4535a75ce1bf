//! `ensile objects check`: a folder of objects judged, and replayed by the program that knows their types.
//! `ensile objects take-over`: objects taken over from a shared store.
//!
//! Exit codes: 0 whole (and, with a program, what that says), or taken over; 1 damaged or contradicting itself, 2 if it
//! could not be told, or was not taken over.
//!
//! Neighbours: `ensile_objects` judges and takes over; an application's own binary replays, with
//! `ensile_objects::check_command`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::{Args, Subcommand};
use ensile_objects::{
    DurabilityError, FolderJudgement, ObjectsError, SharedFolder, SharedStore, judge_folder,
};

use crate::folder::take_over::{TakeOverArguments, ended, not_taken_over};
use crate::folder::{DAMAGED, FAILED, MEGABYTE, failed, passed_on, show};

/// `ensile objects`.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArguments {
    #[command(subcommand)]
    command: ObjectsCommand,
}

#[derive(Debug, Subcommand)]
enum ObjectsCommand {
    /// Judge a folder of objects, which no process has open: every byte, whose it is, every mark, the order of each
    /// object's operations. With a program of the application's, which knows the types, replay it as well.
    Check(CheckArguments),
    /// Take over objects that another machine ships to a shared folder, into an empty folder of this one. All of it is
    /// fetched and read before the shared folder is claimed; then the other machine ships nothing any more, and stops
    /// once it notices. A run that was killed is run again. Exit code 0: taken over; 1: something there is damaged, and
    /// nothing was claimed; 2: not taken over.
    TakeOver(TakeOverArguments),
}

#[derive(Debug, Args)]
struct CheckArguments {
    /// The objects' folder
    folder: PathBuf,
    /// A program that is run with the folder, and whose verdict is passed on: its main function is one line,
    /// `ensile_objects::check_command::<Key, Object>(std::env::args_os().skip(1))`
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &ObjectsArguments) -> ExitCode {
    match &arguments.command {
        ObjectsCommand::Check(arguments) => check(arguments),
        ObjectsCommand::TakeOver(arguments) => take_over(arguments),
    }
}

fn take_over(TakeOverArguments { store, folder, rate_mb }: &TakeOverArguments) -> ExitCode {
    let taken = SharedFolder::open(store).map_err(ObjectsError::from).and_then(|shared| {
        let shared: Arc<dyn SharedStore> = Arc::new(shared);
        ensile_objects::take_over(&shared, folder, rate_mb.map(|rate| rate * MEGABYTE))
    });
    match taken {
        Ok(report) => ended(folder, &report),
        Err(error) => {
            let is_damage = matches!(error, ObjectsError::Durability(DurabilityError::SharedDamaged { .. }));
            not_taken_over(store, &error.to_string(), is_damage)
        }
    }
}

fn check(CheckArguments { folder, program }: &CheckArguments) -> ExitCode {
    let found = match judge_folder(folder) {
        Ok(found) => found,
        Err(error) => return failed(folder, &error.to_string()),
    };
    show(&judgement(folder, &found));
    if !found.is_whole() {
        let is_unread = found.examination.damage.is_empty() && found.disorder.is_none();
        return ExitCode::from(if is_unread { FAILED } else { DAMAGED });
    }
    let Some(program) = program else { return ExitCode::SUCCESS };
    match Command::new(program).arg(folder).status() {
        Ok(status) => passed_on(status),
        Err(error) => failed(folder, &format!("{} cannot be run: {error}", program.display())),
    }
}

fn judgement(folder: &Path, found: &FolderJudgement) -> String {
    let state = if found.is_whole() { "whole" } else { "DAMAGED" };
    let of = if found.has_calls { "of an application's own" } else { "of a collection" };
    let versions = |versions: &[u16]| match versions {
        [] => "none".to_owned(),
        versions => versions.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut text = format!(
        "{}: {state}; {} objects {of}, {} of them in the checkpoint, {} operations to apply\n  versions: of objects {}, \
         of operations {}\n",
        folder.display(),
        found.named,
        found.loaded,
        found.operations,
        versions(&found.object_versions),
        versions(&found.operation_versions),
    );
    for damage in &found.examination.damage {
        let _ = writeln!(text, "  {} at byte {}: {}", damage.file, damage.offset, damage.detail);
    }
    for unread in &found.examination.unread {
        let _ = writeln!(text, "  {}: whether it is damaged is unknown", unread.detail);
    }
    if let Some(disorder) = &found.disorder {
        let _ = writeln!(text, "  {disorder}");
    }
    text
}
