//! Commands for folders of objects:
//! - `ensile objects check` validates a folder, and replays it in a program that knows the types of the objects.
//! - `ensile verify` and `ensile inspect` examine a folder, and repair it.
//! - `ensile objects name` sets the name of the application that owns a folder.
//! - `ensile objects take-over` takes objects over from a shared store.
//!
//! Exit codes: 0 whole, named or taken over; 1 damaged or contradictory, or damage in the shared store; 2 if the check
//! failed, or nothing was named or taken over; 3 taken over, and the other machine had made more durable than it had
//! shipped. After a whole check with a program, the exit code is the program's.
//!
//! Neighbours: `ensile_objects` validates, repairs, names and takes over. An application's own binary replays, with
//! `ensile_objects::check_command`. `folder` has the texts that databases share.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::{Args, Subcommand};
use ensile_objects::folder::{
    ApplicationName, FolderJudgement, holds_objects, judge_folder, rename_application, repair,
};
use ensile_objects::{SharedFolder, SharedStore};
use serde_json::{Value, json};

use crate::folder::take_over::{TakeOverArguments, report_take_over};
use crate::folder::{
    CommandEnd, DAMAGED, InspectArguments, MEGABYTE, NO_BACKUP, VerifyArguments, after_repair, detail_lines,
    examination, exit_code, not_proven, of_objects, passed_on, refusal_lines, report_failure, run_program,
    show, show_json, unless_failed, verdict, what_to_do,
};

/// `ensile objects`.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArguments {
    #[command(subcommand)]
    command: ObjectsCommand,
}

#[derive(Debug, Subcommand)]
enum ObjectsCommand {
    /// Check a folder of objects that no process has open: every byte, the owner, every mark, and the order of each
    /// object's operations. With a program of the application, which knows the types, replay the operations as well.
    Check(CheckArguments),
    /// Name the application that owns a folder of objects, which no process has open. An open for another name, or
    /// without a name, is refused. Use this command if the application has a new name, or gives the folder to another
    /// part of the application; `ensile inspect` shows the name. Exit code 0: the folder has the name; 2: nothing was
    /// changed.
    Name(NameArguments),
    /// Take over objects that another machine ships to a shared folder, into an empty folder of this machine. A
    /// complete state is fetched and read before the shared folder is claimed; after the claim the other machine ships
    /// nothing, and stops once it notices. Run a killed take-over again. Exit code 0: taken over; 1: an object there is
    /// damaged, and the error says if the shared folder is claimed; 2: not taken over; 3: taken over, but the other
    /// machine had made later epochs durable than it had shipped.
    TakeOver(TakeOverArguments),
}

#[derive(Debug, Args)]
struct CheckArguments {
    /// Folder of the objects
    folder: PathBuf,
    /// Program to run with the folder; its exit code is passed on. The program's main function is one line,
    /// `ensile_objects::check_command::<Key, Object>(std::env::args_os().skip(1))`
    #[arg(long)]
    program: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct NameArguments {
    /// Folder of the objects
    folder: PathBuf,
    /// Name of the application, such as "prices, partition 0 of 4"
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// Remove the name: the next open with a name sets that name
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &ObjectsArguments) -> CommandEnd {
    match &arguments.command {
        ObjectsCommand::Check(arguments) => check(arguments),
        ObjectsCommand::Name(arguments) => name(arguments),
        ObjectsCommand::TakeOver(arguments) => take_over(arguments),
    }
}

fn take_over(arguments: &TakeOverArguments) -> CommandEnd {
    let TakeOverArguments { store, folder, rate_mb, .. } = arguments;
    let taken = SharedFolder::open(store).and_then(|shared| {
        let shared: Arc<dyn SharedStore> = Arc::new(shared);
        ensile_objects::take_over(&shared, folder, rate_mb.map(|rate| rate * MEGABYTE))
    });
    report_take_over(arguments, taken.map_err(of_objects))
}

fn name(NameArguments { folder, name, none }: &NameArguments) -> CommandEnd {
    let name = name.as_deref().filter(|_| !none);
    let of =
        |name: Option<&str>| name.map_or_else(|| "nobody by name".to_owned(), |name| format!("{name:?}"));
    let renamed = unless_failed(folder, rename_application(folder, name))?;
    let (now, before) = (of(name), of(renamed.before.as_ref().map(ApplicationName::as_str)));
    let mut said = format!("{}: is of {now}; it was of {before}\n", folder.display());
    if renamed.is_to_be_shipped {
        said += "its shared folder has the name from before until the application was started again and has shipped: a \
                 take-over until then gets that one\n";
    }
    show(&said);
    Ok(ExitCode::SUCCESS)
}

fn check(CheckArguments { folder, program }: &CheckArguments) -> CommandEnd {
    let found = unless_failed(folder, judge_folder(folder))?;
    show(&judgement(folder, &found));
    match program {
        Some(program) if found.is_whole() => {
            run_program(folder, Command::new(program).arg(folder)).map(passed_on)
        }
        _ => Ok(code_of(&found)),
    }
}

/// True for a folder of objects. An unreadable folder counts as a database's: the examination of a database gives the
/// reason.
pub(crate) fn are_in(folder: &Path) -> bool {
    holds_objects(folder).unwrap_or(false)
}

/// `ensile verify` of a folder of objects. The output has a database's verdict, and the counts of the objects.
pub(crate) fn verify(arguments: &VerifyArguments) -> CommandEnd {
    let folder = &arguments.folder;
    let found = unless_failed(folder, judge_folder(folder))?;
    if arguments.json {
        show_json(&facts(folder, &found));
    } else {
        show(&objects_verdict(folder, &found, Some(arguments)));
    }
    if !arguments.repair || found.examination.is_whole() {
        return Ok(code_of(&found));
    }
    if let Some(done) = unless_failed(folder, repair(folder, arguments.options()))? {
        show(&after_repair(folder, &done, "the objects are as they were"));
    }
    // A cut mends damaged bytes. A contradiction between operations remains.
    let left = unless_failed(folder, judge_folder(folder))?;
    if !left.is_whole() {
        show(&objects_verdict(folder, &left, None));
    }
    Ok(code_of(&left))
}

/// `ensile inspect` of a folder of objects.
pub(crate) fn inspect(arguments: &InspectArguments) -> CommandEnd {
    let folder = &arguments.folder;
    if arguments.archive.is_some() {
        return Err(report_failure(folder, NO_BACKUP));
    }
    let found = unless_failed(folder, judge_folder(folder))?;
    if arguments.json {
        show_json(&facts(folder, &found));
    } else {
        show(&(detail_lines(&found.examination, &[]) + &objects_verdict(folder, &found, None)));
    }
    Ok(code_of(&found))
}

fn code_of(found: &FolderJudgement) -> ExitCode {
    if found.disorder.is_some() { ExitCode::from(DAMAGED) } else { exit_code(&found.examination) }
}

/// Counts of the objects, and the verdict.
fn objects_verdict(folder: &Path, found: &FolderJudgement, asked: Option<&VerifyArguments>) -> String {
    let objects = format!("{}\n", objects_summary(found));
    let bytes = match &found.disorder {
        Some(disorder) if found.examination.is_whole() => contradiction(folder, disorder),
        _ => verdict(folder, &found.examination, asked),
    };
    objects + &bytes
}

/// Verdict on a folder with whole bytes and contradictory operations.
fn contradiction(folder: &Path, disorder: &str) -> String {
    format!(
        "{}: DAMAGED; every byte is as it was written, and contradicts others\n  {disorder}\nwhat to do:\n  put a copy of the \
         folder in its place; a cut would not help\n",
        folder.display()
    )
}

/// The validation as JSON.
fn facts(folder: &Path, found: &FolderJudgement) -> Value {
    json!({
        "folder": folder, "examination": examination(&found.examination),
        "objects": {
            "named": found.named, "in_checkpoint": found.loaded, "operations": found.operations,
            "object_versions": found.object_versions, "operation_versions": found.operation_versions,
            "of": if found.has_calls { "application" } else { "collection" }, "disorder": found.disorder,
        },
    })
}

/// Number of the objects, their versions and types, and the application that owns them.
fn objects_summary(found: &FolderJudgement) -> String {
    let of = if found.has_calls { "of an application's own" } else { "of a collection" };
    let versions = |versions: &[u16]| match versions {
        [] => "none".to_owned(),
        versions => versions.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    };
    let application = &found.examination.application;
    let application =
        application.as_ref().map_or_else(String::new, |name| format!("\n  application: {name}"));
    let types = &found.examination.types;
    let types: Vec<_> = types.iter().map(|found| format!("{} {found}", found.role.name())).collect();
    let types = if types.is_empty() { String::new() } else { format!("\n  types: {}", types.join(", ")) };
    format!(
        "{} objects {of}, {} of them in the checkpoint, {} operations to apply\n  versions: of objects {}, of operations \
         {}{types}{application}",
        found.named,
        found.loaded,
        found.operations,
        versions(&found.object_versions),
        versions(&found.operation_versions),
    )
}

fn judgement(folder: &Path, found: &FolderJudgement) -> String {
    let state = if found.is_whole() { "whole" } else { "DAMAGED" };
    let mut text = format!("{}: {state}; {}\n", folder.display(), objects_summary(found));
    text += &not_proven(&found.examination);
    text += &refusal_lines(&found.examination);
    for damage in &found.examination.damage {
        let _ = writeln!(text, "  {} at byte {}: {}", damage.file, damage.offset, damage.detail);
    }
    for unread in &found.examination.unread {
        let _ = writeln!(text, "  {}: whether it is damaged is unknown", unread.detail);
    }
    if let Some(disorder) = &found.disorder {
        let _ = writeln!(text, "  {disorder}");
    }
    if !found.examination.is_whole() {
        text += &what_to_do(folder, &found.examination, None);
    }
    text
}
