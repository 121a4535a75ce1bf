//! The `ensile` command: what operators do with a database's folder.
//!
//! Neighbours: `folder` and `objects` have the commands; benchmarks are in a binary of their own, `ensile-bench`.
#![forbid(unsafe_code)]

mod folder;
mod objects;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Ensile: an in-memory database, serializable on all cores, durable at in-memory speed.
#[derive(Debug, Parser)]
#[command(name = "ensile", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  ensile verify data                      is every byte of this database whole?
  ensile inspect data                     which files, epochs and tables are in it?
  ensile inspect data --changes           what its log has changed, as lines of JSON
  ensile backup data /backups/data        back it up while it is open, and again what has changed
  ensile restore /backups/data again      make a new database from a backup
  ensile take-over /shared data           take over a database that another machine ships
  ensile adopt copy                       make a copied folder a database of its own
  ensile lease data -- ls -l data         run a command that reads its files while it is open
  ensile objects take-over /shared data   take over objects that another machine ships
  ensile objects check data --program P   replay a folder of objects against a program of yours";

#[derive(Debug, Subcommand)]
enum Command {
    /// Read every byte of the folder of a database or of objects, or of an archive, without opening it, and say whether
    /// it is whole. Exit code 0: whole; 1: damaged; 2: it cannot be told.
    Verify(folder::VerifyArguments),
    /// Explain a database's folder: generations, checkpoint, files, tables and their sizes. Of objects: how many, and
    /// their versions. Of an archive: which epochs a backup can be brought to, and what is missing. Of a backup: which
    /// epochs `restore --to-epoch` has from it, and with --archive by that.
    Inspect(folder::InspectArguments),
    /// Back a database up, which may be open, into a folder that is a database by itself. A second backup into the same
    /// folder writes what that lacks: with pictures pages that have changed; otherwise the log since, and a new
    /// checkpoint, or the ranges that it has renewed. One that fails or is killed leaves the one before. Exit code 0:
    /// made and verified; 1: the database is damaged; 2: not made; 3: made and verified, but the backup lacks epochs
    /// that were durable when it began, or results of a process-safe process that was killed. The output tells both.
    Backup(folder::backup::BackupArguments),
    /// Make a new database from a backup. Exit code 0: made and verified; 1: the backup is damaged; 2: not made; 3:
    /// made and verified, but the backup lacks epochs that were durable when it began.
    Restore(folder::backup::RestoreBackupArguments),
    /// Make a new database that is as the one with this archive was at the end of an epoch. The archive must have been
    /// begun with the database; `ensile inspect` of it says which epochs can be had.
    RestoreArchive(folder::archive::RestoreArguments),
    /// Take over a database that another machine ships to a shared folder, into an empty folder of this one. All of it
    /// is fetched and read before the shared folder is claimed; then the other machine ships nothing any more, and
    /// stops once it notices. A run that was killed is run again. Exit code 0: taken over; 1: an object there is
    /// damaged, and nothing was claimed; 2: not taken over; 3: taken over, but the other machine had made later epochs
    /// durable than it had shipped.
    TakeOver(folder::take_over::TakeOverArguments),
    /// Make a database's folder, or that of objects, which was copied, restored or moved one of its own: an open
    /// refuses it until then. The original must not share folders with it. A copy of a process-safe life that was not
    /// closed is read first: where it proves less than that had returned, it is not adopted, and what would be lost is
    /// said. Exit code 0: adopted; 2: nothing was changed.
    Adopt(folder::AdoptArguments),
    /// Run a command that reads a database's files while a process may have it open. Files that a checkpoint makes
    /// obsolete are kept meanwhile, for a minute at most. Exit code: the command's; 3 if it succeeded and files were
    /// removed all the same.
    Lease(folder::lease::LeaseArguments),
    /// What is done with a folder of an application's own objects.
    Objects(objects::ObjectsArguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Verify(arguments) if objects::are_in(&arguments.folder) => objects::verify(&arguments),
        Command::Verify(arguments) => folder::verify(&arguments),
        Command::Inspect(arguments) if !arguments.changes && objects::are_in(&arguments.folder) => {
            objects::inspect(&arguments)
        }
        Command::Inspect(arguments) => folder::inspect(&arguments),
        Command::Backup(arguments) => folder::backup::backup(&arguments),
        Command::Restore(arguments) => folder::backup::restore(&arguments),
        Command::RestoreArchive(arguments) => folder::archive::restore(&arguments),
        Command::TakeOver(arguments) => folder::take_over::run(&arguments),
        Command::Adopt(arguments) => folder::adopt(&arguments),
        Command::Lease(arguments) => folder::lease::run(&arguments),
        Command::Objects(arguments) => objects::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_sound_and_its_help_names_every_command() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        let names = [
            "verify",
            "inspect",
            "backup",
            "restore",
            "restore-archive",
            "take-over",
            "adopt",
            "lease",
            "objects",
        ];
        for name in names {
            assert!(help.contains(name), "{name} in {help}");
        }
    }
}
