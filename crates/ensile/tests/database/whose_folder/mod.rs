//! Whose folder it is: every way in which a database once lost its files, or took another one's, on the machine's own
//! files.
//!
//! Conditions I1 to I3 (`docs/internals/protocols/store.md`). In each case an open is refused before anything is
//! changed, by an error that says what to do, or it works; the original's files stay as they are, byte for byte.
//!
//! Neighbours: `adopted` has copies that were adopted, `copies` folders that were copied, moved and linked, `leased`
//! readers beside it, `missing` what is missing; a child process of the same tests opens where a second process
//! matters.

mod adopted;
mod copies;
mod leased;
mod missing;
mod two;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ensile::checkpoint::Schedule;
use ensile::prelude::*;
use ensile::{Builder, Tuning};
use ensile_durability::DurabilityError;

/// Names the folder that a child process is to open.
const CHILD: &str = "ENSILE_TEST_CHILD_FOLDER";

fn builder(path: &Path) -> Builder {
    tuned(path, Tuning::default())
}

fn tuned(path: &Path, tuning: Tuning) -> Builder {
    let builder = Database::builder(path).checkpoints(Schedule::on_demand());
    builder.tuning(Tuning { checkpoint_files: 1, ..tuning })
}

/// Puts rows `keys`, each with the value `value`.
fn put(db: &Database, keys: std::ops::Range<u32>, value: &str) -> Result<()> {
    let table = db.table::<u32, String>("rows")?;
    db.run(|tx| keys.clone().try_for_each(|key| tx.put(&table, &key, &value.to_owned())))?;
    Ok(())
}

/// All rows.
fn rows(db: &Database) -> Result<BTreeMap<u32, String>> {
    let table = db.table::<u32, String>("rows")?;
    db.run(|tx| tx.range(&table, ..).collect::<Result<_>>())
}

/// What `put` puts.
fn of(keys: std::ops::Range<u32>, value: &str) -> BTreeMap<u32, String> {
    keys.map(|key| (key, value.to_owned())).collect()
}

/// A database with ten rows in the folder, closed; with a checkpoint of five of them if asked for.
fn made(builder: Builder, value: &str, checkpoint: bool) -> Result<()> {
    let db = builder.open()?;
    put(&db, 0..5, value)?;
    if checkpoint {
        db.checkpoint()?.wait()?;
    }
    put(&db, 5..10, value)?;
    db.close()
}

/// Why an open is refused.
fn refused(builder: Builder) -> DurabilityError {
    match builder.open() {
        Err(Error::Storage(why)) => why.into(),
        Err(other) => panic!("refused otherwise: {other}"),
        Ok(_) => panic!("it opened"),
    }
}

/// Every file below `path` with its bytes, links followed; empty ones of the lock left out, which an open may make.
fn tree(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("listed") {
            let path = entry.expect("listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "LOCK" && name != "LEASES") {
                let bytes = fs::read(&path).unwrap_or_default();
                files.insert(path, bytes);
            }
        }
    }
    files
}

/// `cp -a`: links stay links.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(done.success(), "cp -a");
}

/// Opens the folder in another process; what that says.
fn open_in_a_child(path: &Path) -> String {
    let tests = std::env::current_exe().expect("this binary");
    let mut command = Command::new(tests);
    command.args(["--exact", "whose_folder::the_child_process_opens_what_it_is_told_to", "--nocapture"]);
    let output = command.env(CHILD, path).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_child_process_opens_what_it_is_told_to() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    match builder(Path::new(&path)).open() {
        Ok(_) => println!("child: opened"),
        Err(error) => println!("child: {error}"),
    }
}
