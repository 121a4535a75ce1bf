//! `ensile objects check`: a folder of objects judged, and replayed by the program that knows their types.
//!
//! Exit codes: 0 whole (and, with a program, what that says), 1 damaged or contradicting itself, 2 if it could not be
//! told.
//!
//! Neighbours: `ensile_objects` judges; an application's own binary replays, with `ensile_objects::check_command`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, Subcommand};
use ensile_objects::{FolderJudgement, judge_folder};

use crate::folder::{DAMAGED, FAILED, failed, passed_on, show};

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
    let ObjectsCommand::Check(CheckArguments { folder, program }) = &arguments.command;
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
