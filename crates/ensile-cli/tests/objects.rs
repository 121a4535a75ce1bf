//! `ensile objects check` from outside: a folder alone, and with a program that knows the types of its objects.
//! `ensile objects take-over`: what another machine ships.
//!
//! Not under a harness, as it is that program too: run with folders as arguments it checks them, in one line.
//!
//! Neighbours: `ensile_objects` tests what is found; here the exit codes and what is said.

mod outside;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ensile_objects::{ObjectsBuilder, Persistent, SharedFolder, ShippingConfig, check_command, serde_codec};
use serde::{Deserialize, Serialize};

use outside::Folder;

/// How often something happened.
#[derive(Serialize, Deserialize)]
struct Count(u64);

#[derive(Serialize, Deserialize)]
enum Change {
    By(u64),
    /// By what the process says, which is another number in another one.
    ByProcess,
}

impl Persistent for Count {
    type Operation = Change;
    type Output = u64;
    serde_codec! { object 1, operation 3 }

    fn apply(count: &mut Option<Self>, change: &Change) -> u64 {
        let count = count.get_or_insert(Self(0));
        count.0 += match change {
            Change::By(by) => *by,
            Change::ByProcess => next(),
        };
        count.0
    }
}

fn next() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn record(folder: &Folder, name: &str, last: &Change) {
    let counts = ObjectsBuilder::new(folder.0.join(name)).open::<u64, Count>().expect("opens");
    for key in 0..10 {
        counts.update(key, &Change::By(key)).expect("logs");
    }
    counts.checkpoint().wait().expect("is installed");
    counts.update(3, last).expect("logs");
    counts.remove(4).expect("logs").durable().expect("is durable");
    counts.close().expect("closes");
}

/// The exit code, and all that is said.
fn check(folder: &Folder, line: &str) -> (Option<i32>, String) {
    let (output, stdout, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), &format!("objects check {line}"));
    (output.status.code(), stdout + &stderr)
}

fn a_folder_is_judged_alone_and_replayed_by_its_program(program: &str) {
    let folder = Folder::new("objects");
    record(&folder, "good", &Change::By(1));
    let (code, said) = check(&folder, "good");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("good: whole; 10 objects of a collection, 10 of them in the checkpoint, 2 operations"),
        "{said}"
    );
    assert!(said.contains("of objects 1, of operations 3"), "{said}");
    let (code, said) = check(&folder, &format!("good --program {program}"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("good: whole; 9 objects, replayed twice"), "{said}");

    record(&folder, "moody", &Change::ByProcess);
    let (code, said) = check(&folder, "moody");
    assert_eq!(code, Some(0), "what the operation does is not known here: {said}");
    let (code, said) = check(&folder, &format!("moody --program {program}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("NOT as it should be") && said.contains("object 3: byte 0"), "{said}");

    let (code, said) = check(&folder, &format!("nothing --program {program}"));
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = check(&folder, "good --program ./nothing");
    assert_eq!(code, Some(2), "{said}");

    let log = folder.0.join("good/log0/log-1-1");
    let mut bytes = std::fs::read(&log).expect("it is there");
    bytes[200] ^= 1;
    std::fs::write(&log, bytes).expect("can be written");
    let (code, said) = check(&folder, &format!("good --program {program}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("good: DAMAGED") && !said.contains("replayed twice"), "{said}");
}

fn a_database_is_refused() {
    let folder = Folder::new("objects-database");
    let db = ensile::Database::builder(folder.0.join("data")).open().expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    db.run(|tx| tx.put(&table, &1, &2)).expect("commits");
    db.close().expect("closes");
    // One that was opened and has nothing is one of rows, too.
    ensile::Database::builder(folder.0.join("empty")).open().expect("opens").close().expect("closes");
    for name in ["data", "empty"] {
        let (code, said) = check(&folder, name);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("holds a database's rows, not objects"), "{said}");
    }
}

fn another_machine_takes_over() {
    let folder = Folder::new("objects-take-over");
    let shared = folder.0.join("shared");
    std::fs::create_dir_all(&shared).expect("makes");
    let open = |name: &str| {
        let store = SharedFolder::open(&shared).expect("is there");
        let builder = ObjectsBuilder::new(folder.0.join(name)).ship_to(ShippingConfig::new(Arc::new(store)));
        builder.open::<u64, Count>().expect("opens")
    };
    let take_over = |line: &str| {
        let line = format!("objects take-over {line}");
        let (output, stdout, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), &line);
        (output.status.code(), stdout + &stderr)
    };
    let (code, said) = take_over("shared again");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("nothing was ever shipped there"), "{said}");
    let counts = open("data");
    for key in 0..10 {
        counts.update(key, &Change::By(key)).expect("logs");
    }
    let shipped = counts.ship(Duration::from_secs(300)).expect("is shipped");
    let (code, said) = take_over("shared again");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("in term 2") && said.contains(&format!("end of epoch {}:", shipped.number())),
        "{said}"
    );
    let again = open("again");
    for key in 0..10 {
        assert_eq!(again.read(&key, |count| count.map(|count| count.0)).expect("reads"), Some(key));
    }
    drop(again);
    // What is damaged is named, and nothing is claimed.
    let (code, said) = take_over("shared again");
    assert_eq!(code, Some(2), "{said}");
    for entry in walk(&shared).into_iter().filter(|path| path.to_string_lossy().contains("log0")) {
        std::fs::write(entry, b"short").expect("writes");
    }
    let (code, said) = take_over("shared third");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is damaged"), "{said}");
    drop(counts);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("lists").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn main() -> ExitCode {
    let folders: Vec<_> = std::env::args_os().skip(1).collect();
    // A harness's own options are not folders: `cargo test` hands them to this one too.
    if folders.iter().any(|folder| std::path::Path::new(folder).is_dir()) {
        return check_command::<u64, Count>(folders);
    }
    let program = std::env::current_exe().expect("it is a file");
    a_folder_is_judged_alone_and_replayed_by_its_program(program.to_str().expect("its name is text"));
    a_database_is_refused();
    another_machine_takes_over();
    println!("3 passed, 0 failed");
    ExitCode::SUCCESS
}
