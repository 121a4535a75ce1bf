//! An open to which the system grants too few threads fails as an error, and leaves nothing behind. Each attempt is a
//! process of its own, this test again, with an address space in which only a few stacks fit.
#![cfg(target_os = "linux")]

mod own_folder;

use std::path::Path;
use std::process::Command;

use ensile_engine::{Database, Error, ErrorKind, Readable, Result, Tuning};
use own_folder::Folder;

/// Set in the processes that try to open the folder that it names.
const FOLDER: &str = "ENSILE_REFUSED_THREADS_FOLDER";
const GIB: u64 = 1 << 30;
/// Of a thread of those processes, address space that nobody touches.
const STACK_BYTES: u64 = GIB;
/// The heartbeat, the loggers, a checkpointer.
const THREADS: u64 = 4;

/// Opens the folder, where there may be too few threads: then it can be opened without, by the same process.
fn attempt(folder: &Path) -> Result<()> {
    let tuning = Tuning { loggers: Some(2), recovery_threads: 4, ..Tuning::default() };
    let builder = Database::builder(folder).tuning(tuning);
    let db = match builder.clone().open() {
        Ok(db) => {
            println!("opened");
            db
        }
        Err(Error::Storage(refusal))
            if refusal.to_string().starts_with("not opened: the system starts no thread") =>
        {
            assert_eq!(refusal.kind(), ErrorKind::Retry);
            println!("refused: {refusal}");
            builder.without_threads().open()?
        }
        Err(error) => return Err(error),
    };
    let rows = db.table::<u64, u64>("rows")?;
    let read = db.run(|tx| {
        tx.set_durability(ensile_engine::Durability::Relaxed);
        tx.get(&rows, &7)
    });
    assert_eq!(read?, Some(7));
    db.close()
}

/// What an attempt says in a process that may have so much address space.
fn attempt_within(bytes: u64, folder: &Path) -> String {
    let this = std::env::current_exe().expect("has a path");
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -v {} && exec \"$0\" --nocapture --test-threads 1", bytes >> 10)]);
    limited.arg(this).env(FOLDER, folder).env("RUST_MIN_STACK", STACK_BYTES.to_string());
    let output = limited.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "within {bytes} bytes: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// Sanitizers map more than any limit that would leave a process without threads.
fn has_shadow_memory() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("is there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10 > 1024 * GIB
}

#[test]
fn an_open_without_enough_threads_is_refused_and_leaves_the_folder_free() -> Result<()> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return attempt(Path::new(&folder));
    }
    if has_shadow_memory() {
        return Ok(());
    }
    let folder = Folder::new("refused-threads");
    let db = folder.builder().open()?;
    let rows = db.table::<u64, u64>("rows")?;
    db.run(|tx| (0..1000).try_for_each(|key| tx.put(&rows, &key, &key)))?;
    db.close()?;
    // Room for the test's own thread and none of the database's, for one, and so on.
    let said: Vec<_> = (1..=THREADS + 2)
        .map(|stacks| attempt_within(stacks * STACK_BYTES + STACK_BYTES / 8 * 7, folder.path()))
        .collect();
    let refused = said.iter().filter(|said| said.contains("refused: ")).count() as u64;
    assert!(refused >= THREADS, "{said:#?}");
    assert!(said.last().is_some_and(|said| said.contains("opened")), "{said:#?}");
    Ok(())
}
