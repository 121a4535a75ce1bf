//! The `ensile` command: a server for redis clients, and an operator's tool for the folders of databases and objects.
//!
//! Neighbours: `serve`, `folder` and `objects` have the commands; the binaries `ensile-bench` and `ensile-papers` have
//! the benchmarks.
#![forbid(unsafe_code)]

mod folder;
mod objects;
#[cfg(feature = "serve")]
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Ensile: an in-memory database, serializable on all cores, durable at in-memory speed.
#[derive(Debug, Parser)]
#[command(name = "ensile", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: ToolCommand,
}

const EXAMPLES: &str = "Examples:
  ensile serve --data data --port 6379    serve a database to redis clients
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
enum ToolCommand {
    /// Serve a database to redis clients. Every command, and MULTI with EXEC, is a serializable transaction on all
    /// cores, durable before the reply. `redis-cli` and the client libraries of redis connect.
    #[cfg(feature = "serve")]
    Serve(Box<serve::ServeCommand>),
    /// Hash a password, the first line of standard input, for a line `user NAME on #HASH ..` of `ensile serve`.
    #[cfg(feature = "serve")]
    HashPassword,
    /// Read every byte of a folder of a database, of objects or of an archive, without opening the folder, and report
    /// damage. Exit code 0: whole, or repaired; 1: damaged; 2: it cannot be told.
    Verify(folder::VerifyArguments),
    /// Explain a database's folder: generations, checkpoint, files, tables and their sizes. For objects: their number
    /// and versions. For an archive: the epochs that a backup can be brought to, and missing files. For a backup: the
    /// epochs that `restore --to-epoch` can restore, with --archive also by the archive.
    Inspect(folder::InspectArguments),
    /// Back up a database, which may be open, into a folder that is a database by itself. A second backup into the same
    /// folder writes the missing parts only: changed pages of pictures, or else the newer log and a new checkpoint, or
    /// the checkpoint's renewed ranges. A failed or killed backup leaves the earlier backup. Exit code 0: made and
    /// verified; 1: the database is damaged; 2: not made; 3: made and verified, but the backup lacks epochs that were
    /// durable when it began, or results of a killed process-safe process. The output reports both.
    Backup(folder::backup::BackupArguments),
    /// Make a new database from a backup. Exit code 0: made and verified; 1: the backup is damaged; 2: not made; 3:
    /// made and verified, but the backup lacks epochs that were durable when it began.
    Restore(folder::backup::RestoreBackupArguments),
    /// Make a new database from an archive, as the archived database was at the end of an epoch. The archive must have
    /// begun with the database; `ensile inspect` of the archive prints the possible epochs.
    RestoreArchive(folder::archive::RestoreArguments),
    /// Take over a database that another machine ships to a shared folder, into an empty folder of this machine. A
    /// complete state is fetched and read before the shared folder is claimed; after the claim the other machine ships
    /// nothing, and stops once it notices. Run a killed take-over again. Exit code 0: taken over; 1: an object there is
    /// damaged, and the error says if the shared folder is claimed; 2: not taken over; 3: taken over, but the other
    /// machine had made later epochs durable than it had shipped.
    TakeOver(folder::take_over::TakeOverArguments),
    /// Give a copied, restored or moved folder of a database or of objects an identity of its own; an open refuses the
    /// folder until then. The original must not share folders with the copy. A copy of an unclosed process-safe process
    /// is read first: if the copy proves less than the process had returned, the copy is not adopted, and the error
    /// names the loss. Exit code 0: adopted; 2: nothing was changed.
    Adopt(folder::adopt::AdoptArguments),
    /// Run a command that reads a database's files while a process may have the database open. Files that a checkpoint
    /// makes obsolete are kept meanwhile, for a minute at most. Exit code: the command's; 3 if the command succeeded,
    /// but files were removed meanwhile.
    Lease(folder::lease::LeaseArguments),
    /// Check, name or take over a folder of an application's own objects.
    Objects(objects::ObjectsArguments),
}

fn main() -> ExitCode {
    let end = match Arguments::parse().command {
        #[cfg(feature = "serve")]
        ToolCommand::Serve(arguments) => return serve::run(*arguments),
        #[cfg(feature = "serve")]
        ToolCommand::HashPassword => return serve::print_hash(),
        ToolCommand::Verify(arguments) if objects::are_in(&arguments.folder) => objects::verify(&arguments),
        ToolCommand::Verify(arguments) => folder::verify(&arguments),
        ToolCommand::Inspect(arguments) if !arguments.changes && objects::are_in(&arguments.folder) => {
            objects::inspect(&arguments)
        }
        ToolCommand::Inspect(arguments) => folder::inspect(&arguments),
        ToolCommand::Backup(arguments) => folder::backup::backup(&arguments),
        ToolCommand::Restore(arguments) => folder::backup::restore(&arguments),
        ToolCommand::RestoreArchive(arguments) => folder::archive::restore(&arguments),
        ToolCommand::TakeOver(arguments) => folder::take_over::run(&arguments),
        ToolCommand::Adopt(arguments) => folder::adopt::adopt(&arguments),
        ToolCommand::Lease(arguments) => folder::lease::run(&arguments),
        ToolCommand::Objects(arguments) => objects::run(&arguments),
    };
    end.unwrap_or_else(|code| code)
}

#[cfg(test)]
mod tests;
