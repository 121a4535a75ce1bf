//! `ensile objects check` from outside: a folder alone, and with a program that knows the types of its objects.
//! `ensile verify` and `ensile inspect` of such a folder, whole and damaged, and its repair.
//! `ensile objects name`: whose a folder is. `ensile objects take-over`: what another machine ships.
//! `ensile backup` of a database whose process died.
//!
//! Not under a harness, as it is that program too: run with folders as arguments it checks them, in one line.
//!
//! Neighbours: `ensile_objects` tests what is found; here the exit codes and what is said.

mod outside;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use ensile::{Database, Durability};
use ensile_objects::{
    CheckpointPolicy, NotProvenReason, ObjectDurability, Objects, ObjectsBuilder, Persistent, SharedFolder,
    ShippingConfig, check_command, serde_codec,
};
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
fn ensile(folder: &Folder, line: &str) -> (Option<i32>, String) {
    let (output, stdout, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), line);
    (output.status.code(), stdout + &stderr)
}

fn check(folder: &Folder, line: &str) -> (Option<i32>, String) {
    ensile(folder, &format!("objects check {line}"))
}

/// Changes a byte of a file.
fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).expect("it is there");
    bytes[at] ^= 1;
    std::fs::write(file, bytes).expect("can be written");
}

/// What the objects are, by their numbers.
fn counts(folder: &Path) -> Vec<u64> {
    let counts = ObjectsBuilder::new(folder).open::<u64, Count>().expect("opens");
    let count = |key| counts.read(&key, |count| count.map_or(0, |count| count.0)).expect("reads");
    let found = (0..10).map(count).collect();
    counts.close().expect("closes");
    found
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
    let types = said.lines().find(|line| line.starts_with("  types: ")).expect("are shown");
    for shown in ["key \"u64\" (", "object \"Count\" of version 1 (", "operation \"Change\" of version 3 ("] {
        assert!(types.contains(&format!("{shown}fingerprint ")), "{types}");
    }
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

fn a_whole_folder_of_objects_is_whole_to_each_command() {
    let folder = Folder::new("objects-whole");
    record(&folder, "good", &Change::By(1));
    let (code, said) = ensile(&folder, "verify good");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("10 objects of a collection") && said.contains("good: whole up to epoch"),
        "{said}"
    );
    let (code, said) = ensile(&folder, "verify good --repair");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("repaired"), "{said}");
    let (code, said) = ensile(&folder, "inspect good");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("of objects 1, of operations 3") && !said.contains("tables:"), "{said}");
    for command in ["verify", "inspect"] {
        let (code, said) = ensile(&folder, &format!("{command} good --json"));
        assert_eq!(code, Some(0), "{said}");
        let facts: serde_json::Value = serde_json::from_str(&said).expect("is JSON");
        assert_eq!((&facts["examination"]["whole"], &facts["objects"]["named"]), (&true.into(), &10.into()));
    }
    // What is a database's only says so, and writes nothing.
    let (code, said) = ensile(&folder, "inspect good --changes");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("holds an application's own objects, not a database"), "{said}");
    for line in ["backup good backup", "restore backup again", "verify backup", "verify again"] {
        let (code, said) = ensile(&folder, line);
        assert_eq!(code, Some(0), "{line}: {said}");
    }
    assert_eq!(counts(&folder.0.join("again")), counts(&folder.0.join("good")));
    let (code, said) = ensile(&folder, "restore backup other --to-epoch 1 --archive good");
    assert!(code == Some(2) && said.contains("have no archive"), "{said}");
    assert_eq!(counts(&folder.0.join("good")), [0, 1, 2, 4, 0, 5, 6, 7, 8, 9]);
}

fn a_folder_says_whose_it_is_and_is_given_another_name() {
    let folder = Folder::new("objects-name");
    record(&folder, "data", &Change::By(1));
    let open = |name: &str| {
        ObjectsBuilder::new(folder.0.join("data")).application_name(name).open::<u64, Count>().map(drop)
    };
    let (code, said) = ensile(&folder, "inspect data");
    assert!(code == Some(0) && !said.contains("application:"), "{said}");
    open("counts, partition 0 of 2").expect("gets the name");
    for command in ["inspect", "verify", "objects check"] {
        let (code, said) = ensile(&folder, &format!("{command} data"));
        assert!(code == Some(0) && said.contains("application: counts, partition 0 of 2\n"), "{said}");
    }
    let (code, said) = ensile(&folder, "inspect data --json");
    assert_eq!(code, Some(0), "{said}");
    let facts: serde_json::Value = serde_json::from_str(&said).expect("is JSON");
    assert_eq!(facts["examination"]["application"], "counts, partition 0 of 2");
    let of_object = &facts["examination"]["types"][1];
    assert_eq!((&of_object["role"], &of_object["name"]), (&"object".into(), &"Count".into()));
    assert_eq!(of_object["fingerprint"].as_str().map(str::len), Some(16));
    let refused = open("counts").expect_err("is another one's").to_string();
    assert!(refused.contains("say so by `ensile objects name`"), "{refused}");
    let (code, said) = ensile(&folder, "objects name data counts");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is of \"counts\"; it was of \"counts, partition 0 of 2\""), "{said}");
    open("counts").expect("is its own");
    assert!(open("counts, partition 0 of 2").is_err());
    let (code, said) = ensile(&folder, "objects name data --none");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is of nobody by name; it was of \"counts\""), "{said}");
    assert_eq!(counts(&folder.0.join("data")), [0, 1, 2, 4, 0, 5, 6, 7, 8, 9]);
    for (line, why) in [
        ("objects name data", "required"),
        ("objects name data counts --none", "cannot be used with"),
        ("objects name nowhere counts", "nowhere"),
    ] {
        let (code, said) = ensile(&folder, line);
        assert!(code == Some(2) && said.contains(why), "{said}");
    }
}

fn a_damaged_log_is_cut_and_a_damaged_checkpoint_is_to_be_put_back() {
    let folder = Folder::new("objects-damaged");
    let open = |name: &str| -> Objects<u64, Count> {
        let builder = ObjectsBuilder::new(folder.0.join(name)).policy(&CheckpointPolicy::on_demand());
        builder.open().expect("opens")
    };
    for name in ["cut", "lost"] {
        let counts = open(name);
        // Each is durable before the next: an epoch and a block of its own.
        for key in 0..10 {
            counts.update(key, &Change::By(key + 1)).expect("logs");
        }
        if name == "lost" {
            counts.checkpoint().wait().expect("is installed");
        }
        counts.close().expect("closes");
    }
    let log = folder.0.join("cut/log0/log-1-0");
    let bytes = std::fs::metadata(&log).expect("is there").len();
    flip(&log, bytes as usize / 2);
    let (code, said) = check(&folder, "cut");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cut: DAMAGED") && said.contains("or `ensile verify cut --repair`: keeps"),
        "{said}"
    );
    let (code, said) = ensile(&folder, "verify cut --repair");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the objects are as they were at the end of epoch"), "{said}");
    let (code, said) = ensile(&folder, "verify cut");
    assert_eq!(code, Some(0), "{said}");
    let kept = counts(&folder.0.join("cut"));
    let first = kept.iter().position(|count| *count == 0).expect("some were given up");
    assert!(first > 0 && kept[first..].iter().all(|count| *count == 0), "{kept:?}");
    assert!((0..first).all(|key| kept[key] == key as u64 + 1), "{kept:?}");

    let parts = walk(&folder.0.join("lost"));
    let part = parts.iter().find(|path| path.to_string_lossy().contains("ckpt-")).expect("a checkpoint");
    let middle = std::fs::metadata(part).expect("is there").len() as usize / 2;
    flip(part, middle);
    let (code, said) = ensile(&folder, "verify lost --repair");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("put copies of these files in place") && said.contains("a cut would not help"),
        "{said}"
    );
    assert!(said.contains("no other file says what"), "{said}");
    flip(part, middle);
    assert_eq!(counts(&folder.0.join("lost")), (1..=10).collect::<Vec<_>>());
}

/// Beginning of a report of results that may be missing.
const LOSS: &str = "results above epoch ";

/// As a process that dies without a word: what it returned is in mapped buffers only.
fn record_and_die(folder: &Path) -> ! {
    let builder = ObjectsBuilder::new(folder).durability(ObjectDurability::Process);
    let counts = builder.epoch_interval(Duration::from_secs(3600)).open::<u64, Count>().expect("opens");
    for key in 0..10 {
        counts.update(key, &Change::By(key + 1)).expect("logs");
    }
    std::process::abort();
}

/// The same of a database.
fn commit_and_die(folder: &Path) -> ! {
    let builder = Database::builder(folder).durability(Durability::Process);
    let db = builder.epoch_interval(Duration::from_secs(3600)).open().expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    for key in 0..10 {
        db.run(|tx| tx.put(&table, &key, &key)).expect("commits");
    }
    std::process::abort();
}

fn b4_a_backup_that_lacks_what_a_killed_process_had_returned_ends_with_a_code_of_its_own(program: &str) {
    let folder = Folder::new("backup-killed");
    let die = Command::new(program).args([COMMITS_AND_DIES, "data"]).current_dir(&folder.0).status();
    assert!(!die.expect("starts").success(), "it dies");
    let (code, said) = ensile(&folder, "backup data backup");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("not in the backup: ") && said.contains("Then back the folder up again"), "{said}");
    let (output, stdout, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), "backup data backup --json");
    assert_eq!((output.status.code(), &*stderr), (Some(3), ""), "{stdout}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("is JSON");
    assert_eq!(report["not_proven"]["reason"], "not_opened", "{report}");
    // It is a backup, and a restore from it lacks nothing of it.
    let (code, said) = ensile(&folder, "verify backup");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = ensile(&folder, "restore backup restored");
    assert_eq!(code, Some(0), "{said}");
    // An open takes it.
    Database::open(folder.0.join("data")).expect("opens").close().expect("closes");
    let (code, said) = ensile(&folder, "backup data backup");
    assert!(code == Some(0) && !said.contains("not in the backup"), "{said}");
}

fn what_a_removed_mapped_buffer_held_is_given_up_by_a_repair(program: &str) {
    let folder = Folder::new("objects-buffer");
    for name in ["kept", "removed"] {
        let status =
            Command::new(program).args([DIES, name]).current_dir(&folder.0).status().expect("starts");
        assert!(!status.success(), "it dies");
    }
    assert_eq!(counts(&folder.0.join("kept")), (1..=10).collect::<Vec<_>>());
    let buffers: Vec<_> = walk(&folder.0.join("removed"))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("buffer")))
        .collect();
    assert!(!buffers.is_empty(), "what was returned is in buffers");
    buffers.iter().for_each(|buffer| std::fs::remove_file(buffer).expect("is removed"));
    let refused = ObjectsBuilder::new(folder.0.join("removed")).open::<u64, Count>().map(drop);
    let refused = refused.expect_err("what was returned is lost").to_string();
    assert!(refused.contains("give up what its buffers held by `ensile verify DIR --repair`"), "{refused}");
    let (code, said) = check(&folder, "removed");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("or `ensile verify removed --repair`: keeps"), "{said}");
    let (code, said) = ensile(&folder, "verify removed --repair");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("repaired, and read once more from end to end"), "{said}");
    assert_eq!(counts(&folder.0.join("removed")), [0; 10]);
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for path in walk(from) {
        let to = to.join(path.strip_prefix(from).expect("it is below"));
        std::fs::create_dir_all(to.parent().expect("it is below")).expect("a folder");
        std::fs::copy(&path, to).expect("is copied");
    }
}

fn b4_a_copy_of_a_killed_process_is_told_by_each_command_and_adopted_on_request(program: &str) {
    let folder = Folder::new("objects-copied");
    let status = Command::new(program).args([DIES, "data"]).current_dir(&folder.0).status().expect("starts");
    assert!(!status.success(), "it dies");
    for command in ["verify", "inspect", "objects check"] {
        let (code, said) = ensile(&folder, &format!("{command} data"));
        assert!(
            code == Some(0) && said.contains("in this boot the next open keeps all up to epoch"),
            "{said}"
        );
        assert!(!said.contains("not proven"), "{said}");
    }
    copy(&folder.0.join("data"), &folder.0.join("copy"));
    for command in ["verify", "inspect", "objects check"] {
        let (code, said) = ensile(&folder, &format!("{command} copy"));
        assert!(code == Some(0) && said.contains(&format!("not proven: {LOSS}")), "{said}");
        assert!(said.contains("buffer-1-"), "the files are named: {said}");
        assert!(
            said.contains("open the original in its place, on the same machine and before a reboot"),
            "{said}"
        );
        assert!(said.contains("an open refuses it:"), "{said}");
    }
    let (code, said) = ensile(&folder, "verify copy --json");
    assert_eq!(code, Some(0), "{said}");
    let facts: serde_json::Value = serde_json::from_str(&said).expect("is JSON");
    let left = &facts["examination"]["not_proven"];
    assert!(left["reason"] == "copied" && !left["files"].as_array().expect("a list").is_empty(), "{left}");
    let (code, said) = ensile(&folder, "adopt copy");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains(&format!("not adopted: {LOSS}")) && said.contains("ensile adopt --without-buffers"),
        "{said}"
    );
    // The open is refused as before.
    assert!(ObjectsBuilder::new(folder.0.join("copy")).open::<u64, Count>().map(drop).is_err());
    let (code, said) = ensile(&folder, "adopt --without-buffers copy");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("copy: is now database") && said.contains(&format!("given up: {LOSS}")), "{said}");
    assert!(
        !said.contains("open the original in its place"),
        "what to do is said before it is agreed to: {said}"
    );
    let copied = ObjectsBuilder::new(folder.0.join("copy")).open::<u64, Count>().expect("opens");
    let left = copied.recovery().not_proven.clone().expect("is told");
    assert!(!left.files.is_empty() && left.reason == NotProvenReason::Copied, "{left:?}");
    copied.close().expect("closes");
    assert_eq!(counts(&folder.0.join("copy")), [0; 10]);
    // The original has all, and a copy of it that was closed.
    assert_eq!(counts(&folder.0.join("data")), (1..=10).collect::<Vec<_>>());
    copy(&folder.0.join("data"), &folder.0.join("again"));
    let (code, said) = ensile(&folder, "adopt again");
    assert!(code == Some(0) && !said.contains("given up"), "{said}");
    assert_eq!(counts(&folder.0.join("again")), (1..=10).collect::<Vec<_>>());
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
    // The shipper goes on in the background, and may have shipped a later epoch by then.
    let complete = said.split_once("end of epoch ").and_then(|(_, behind)| behind.split(';').next());
    let complete: u64 = complete.expect("it is told").parse().expect("a number");
    assert!(said.contains("in term 2") && complete >= shipped.number(), "{shipped:?}: {said}");
    assert!(said.contains("application: it had no name when this was shipped\n"), "{said}");
    let again = open("again");
    for key in 0..10 {
        assert_eq!(again.read(&key, |count| count.map(|count| count.0)).expect("reads"), Some(key));
    }
    drop(again);
    // Its shared folder is not known to the command that names it.
    let (code, said) = ensile(&folder, "objects name again counts");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("its shared folder has the name from before until"), "{said}");
    let (code, said) = ensile(&folder, "objects name again --none");
    assert_eq!(code, Some(0), "{said}");
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

/// How this program is told to be the process that dies.
const DIES: &str = "--record-and-die";
const COMMITS_AND_DIES: &str = "--commit-and-die";

fn main() -> ExitCode {
    let folders: Vec<_> = std::env::args_os().skip(1).collect();
    match &folders[..] {
        [flag, folder] if flag == DIES => record_and_die(Path::new(folder)),
        [flag, folder] if flag == COMMITS_AND_DIES => commit_and_die(Path::new(folder)),
        _ => {}
    }
    // A harness's own options are not folders: `cargo test` hands them to this one too.
    if folders.iter().any(|folder| std::path::Path::new(folder).is_dir()) {
        return check_command::<u64, Count>(folders);
    }
    let program = std::env::current_exe().expect("it is a file");
    let program = program.to_str().expect("its name is text");
    a_folder_is_judged_alone_and_replayed_by_its_program(program);
    a_whole_folder_of_objects_is_whole_to_each_command();
    a_folder_says_whose_it_is_and_is_given_another_name();
    a_damaged_log_is_cut_and_a_damaged_checkpoint_is_to_be_put_back();
    what_a_removed_mapped_buffer_held_is_given_up_by_a_repair(program);
    b4_a_copy_of_a_killed_process_is_told_by_each_command_and_adopted_on_request(program);
    b4_a_backup_that_lacks_what_a_killed_process_had_returned_ends_with_a_code_of_its_own(program);
    a_database_is_refused();
    another_machine_takes_over();
    println!("9 passed, 0 failed");
    ExitCode::SUCCESS
}
