//! A database that is dropped gives its memory back, whatever threads still keep of it. Alone in its process: the
//! process's memory is what is measured.
#![cfg(target_os = "linux")]

use std::sync::mpsc;

use ensile_engine::{Database, Readable, Result};

/// Bytes of memory that the process has in use.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("is there");
    line.trim().strip_suffix(" kB").expect("in kilobytes").parse::<u64>().expect("a number") << 10
}

/// What the rows of [`filled`] take at least.
const LOADED_BYTES: u64 = 64 << 20;

/// A database with rows in slabs and large ones that are not.
fn filled() -> Result<Database> {
    let db = Database::in_memory()?;
    let rows = db.table::<u64, Vec<u8>>("rows")?;
    for from in (0..48 << 10).step_by(1024) {
        db.run(|tx| (from..from + 1024).try_for_each(|key| tx.put(&rows, &key, &vec![1; 1000])))?;
    }
    db.run(|tx| (1 << 20..(1 << 20) + 16).try_for_each(|key| tx.put(&rows, &key, &vec![2; 1 << 20])))?;
    Ok(db)
}

#[test]
fn a_parked_thread_does_not_keep_the_memory_of_a_dropped_database() -> Result<()> {
    let db = filled()?;
    let (parked, is_parked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let parking = {
        let db = db.clone();
        move || -> Result<()> {
            let rows = db.table::<u64, Vec<u8>>("rows")?;
            db.run(|tx| tx.put(&rows, &7, &vec![3; 1000]))?;
            db.run(|tx| tx.delete(&rows, &8))?;
            assert_eq!(db.run(|tx| tx.get(&rows, &7))?, Some(vec![3; 1000]));
            drop(db);
            parked.send(()).expect("is waited for");
            // With a worker, its cache and its garbage in the thread's seat.
            may_go_on.recv().expect("is told");
            let other = Database::in_memory()?;
            let rows = other.table::<u64, u64>("rows")?;
            other.run(|tx| tx.put(&rows, &7, &7))
        }
    };
    std::thread::scope(move |scope| {
        let thread = scope.spawn(parking);
        is_parked.recv().expect("is told");
        let loaded = resident_bytes();
        assert!(loaded > LOADED_BYTES, "{loaded} bytes");
        let rows = db.table::<u64, Vec<u8>>("rows")?;
        db.close()?;
        assert!(resident_bytes() + LOADED_BYTES > loaded, "transactions that are open may still read");
        drop(db);
        let left = resident_bytes();
        // The thread drops what it kept, and works on.
        go_on.send(()).expect("waits");
        thread.join().expect("does not panic")?;
        assert!(left + LOADED_BYTES < loaded, "{left} bytes of {loaded} were left, with one thread parked");
        let refused = Database::in_memory()?.run(|tx| tx.get(&rows, &7));
        assert!(refused.is_err(), "a table of a dropped database");
        Ok(())
    })
}
