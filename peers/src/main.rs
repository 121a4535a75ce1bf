//! `ensile-peers`: Ensile beside LMDB, redb, fjall, RocksDB and SQLite, with the best ordinary settings of each system.
//!
//! `driver` runs the rounds and prints. Every system runs in its own process (`child`), behind one trait (`store`).
//! `bash ci/peers.sh` installs the libraries and runs the program.

mod arguments;
mod child;
mod clock;
mod driver;
mod failure;
mod machine;
mod measure;
mod report;
mod rows;
mod store;
mod workload;

use std::process::ExitCode;

use crate::arguments::Arguments;
use crate::failure::Result;

fn main() -> ExitCode {
    let arguments = Arguments::complete();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ensile-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(peer) = arguments.child {
        return child::serve(peer, arguments);
    }
    let report = driver::run(arguments)?;
    println!("\n{}", report.markdown());
    if let Some(folder) = &arguments.out {
        report.write(folder)?;
    }
    Ok(())
}
