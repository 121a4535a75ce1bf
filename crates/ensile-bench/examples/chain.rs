//! The victim of `ci/device.sh`: two threads that commit ascending numbers and print acknowledged numbers.
//!
//! `chain write DIR strict|relaxed|process` runs until a kill or the end of the log. `chain read DIR` opens the folder
//! again, and prints the last number and `proven` or `not-proven`. Every number has a row, and the commit of a number
//! reads the number before. Therefore a state with a gap, or with a wrong last number, never existed.
//!
//! Exit codes of `read`: 0 for a state that existed, 1 for a state that never existed, 2 for a failed open.
#![forbid(unsafe_code)]

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use ensile::prelude::*;
use ensile::{Durability, Table};

/// Committed numbers, with the committing thread.
type Rows = Table<u64, u64>;
/// The last number, in its only row.
type Last = Table<u8, u64>;

fn open(folder: &str, level: Durability) -> Result<(Database, Rows, Last)> {
    let db = Database::builder(folder).durability(level).open()?;
    let (rows, last) = (db.table("rows")?, db.table("last")?);
    Ok((db, rows, last))
}

/// Commits until the log ends.
fn commit((db, rows, last): (&Database, &Rows, &Last), thread: u64) -> Error {
    loop {
        let next = db.run(|tx| {
            let next = tx.get(last, &0)?.unwrap_or(0) + 1;
            tx.put(rows, &next, &thread)?;
            tx.put(last, &0, &next)?;
            Ok(next)
        });
        match next {
            // A closed standard output does not end the loop.
            Ok(next) => drop(writeln!(stdout().lock(), "{next}")),
            Err(error) => return error,
        }
    }
}

fn write(folder: &str, level: Durability) -> Result<()> {
    let (db, rows, last) = open(folder, level)?;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, rows, last) = (&db, &rows, &last);
            scope.spawn(move || eprintln!("{}", commit((db, rows, last), thread)));
        }
    });
    Ok(())
}

/// True if the state is one that existed.
fn read(folder: &str) -> Result<bool> {
    let (db, rows, last) = open(folder, Durability::Strict)?;
    let (numbers, end) = db.run(|tx| {
        let numbers: Vec<(u64, u64)> = tx.range(&rows, ..).collect::<Result<_>>()?;
        Ok((numbers, tx.get(&last, &0)?.unwrap_or(0)))
    })?;
    let is_not_proven = db.recovery_report().is_some_and(|report| report.not_proven.is_some());
    println!("{end} {}", if is_not_proven { "not-proven" } else { "proven" });
    Ok(numbers.iter().map(|(number, _)| *number).eq(1..=end))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["write", folder, "strict"] => write(folder, Durability::Strict).map(|()| true),
        ["write", folder, "relaxed"] => write(folder, Durability::Relaxed).map(|()| true),
        ["write", folder, "process"] => write(folder, Durability::Process).map(|()| true),
        ["read", folder] => read(folder),
        _ => {
            eprintln!("usage: chain write DIR strict|relaxed|process, or chain read DIR");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
