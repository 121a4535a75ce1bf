//! `ensile backup` and `ensile restore` as processes of their own, beside one that has the database open (N16), and
//! killed while they copy.
//!
//! Neighbours: the durability crate tests the same copies call by call, with power cut at each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use ensile::checkpoint::{Schedule, Strategy};
use ensile::receipt::Epoch;
use ensile::{Database, Durability, Readable as _, Table, Tuning};
use serde_json::{Value, json};

use crate::outside::Folder;

/// Keys that are overwritten in turn.
const KEYS: u64 = 3000;
const ROW_BYTES: usize = 400;

fn ensile(folder: &Folder, line: &str) -> (Option<i32>, String, String) {
    let (output, stdout, stderr) = folder.run(env!("CARGO_BIN_EXE_ensile"), line);
    (output.status.code(), stdout, stderr)
}

/// A command that must succeed; its JSON document.
fn document(folder: &Folder, line: &str) -> Value {
    let (code, stdout, stderr) = ensile(folder, line);
    assert_eq!(code, Some(0), "{line}: {stdout}\n{stderr}");
    serde_json::from_str(&stdout).expect("one JSON document")
}

fn open(folder: &Folder, strategy: Strategy) -> Database {
    let builder = Database::builder(folder.0.join("data"))
        .durability(Durability::Relaxed)
        .epoch_interval(Duration::from_millis(2))
        .checkpoints(Schedule::on_demand())
        .tuning(Tuning { checkpoint_strategy: Some(strategy), ..Tuning::default() });
    builder.open().expect("opens")
}

fn table_of(db: &Database) -> Table<u64, Vec<u8>> {
    db.table("rows").expect("a table")
}

/// Which commit wrote each key: commit `at` writes `at` to the key `at % KEYS`.
fn row(at: u64) -> Vec<u8> {
    let mut row = vec![at as u8; ROW_BYTES];
    row[..8].copy_from_slice(&at.to_le_bytes());
    row
}

/// Commits numbers from the length of `epochs` on while `more` says so; the epoch of each.
fn write(db: &Database, epochs: &mut Vec<Epoch>, more: impl Fn(u64) -> bool) {
    let table = table_of(db);
    while more(epochs.len() as u64) {
        let at = epochs.len() as u64;
        let ((), receipt) = db.submit(|tx| tx.put(&table, &(at % KEYS), &row(at))).expect("commits");
        epochs.push(receipt.epoch());
        // A copy that is slow must not find a log that grows faster than it is copied.
        if at % 64 == 63 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The database in `name` has what the commits up to the end of this epoch wrote, and nothing else.
fn assert_is_state_at(folder: &Folder, name: &str, epochs: &[Epoch], epoch: u64) {
    let db = Database::open_existing(folder.0.join(name)).expect("opens");
    let table = table_of(&db);
    let found: Vec<(u64, Vec<u8>)> =
        db.run(|tx| tx.range(&table, ..).collect()).expect("all rows can be read");
    let commits = epochs.iter().take_while(|of| of.number() <= epoch).count() as u64;
    let newest = |key: u64| (commits - 1 - key) / KEYS * KEYS + key;
    let expected: Vec<_> = (0..KEYS.min(commits)).map(|key| (key, row(newest(key)))).collect();
    assert_eq!(found.len(), expected.len(), "{name} at epoch {epoch}, of {commits} commits");
    let different = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert!(
        different.is_none(),
        "{name} at epoch {epoch}, of {commits} commits: {:?}",
        different.map(|at| at.0.0)
    );
    db.close().expect("closes");
}

/// Says when it is dropped, by a test that fails too, that writers are to end.
struct EndsWriters<'a>(&'a AtomicBool);

impl Drop for EndsWriters<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn another_process_backs_up_a_database_that_is_open_and_written_to() {
    for strategy in [Strategy::Pictures, Strategy::Fuzzy, Strategy::Cycling] {
        let folder = Folder::new(&format!("backup-{strategy:?}"));
        let db = open(&folder, strategy);
        let mut epochs = Vec::new();
        write(&db, &mut epochs, |at| at < KEYS);
        db.checkpoint().expect("is open").wait().expect("is installed");
        let is_over = AtomicBool::new(false);
        let takes_pictures = strategy == Strategy::Pictures;
        let copies = thread::scope(|scope| {
            let writer = scope.spawn(|| write(&db, &mut epochs, |_| !is_over.load(Ordering::Relaxed)));
            let ends_writers = EndsWriters(&is_over);
            let mut copies: Vec<Value> = Vec::new();
            for round in 1..=4 {
                copies.push(document(&folder, "backup data backup --json --keep 4"));
                assert_eq!(
                    copies.last().map(|copied| copied["kept"].as_array().map(Vec::len)),
                    Some(Some(round))
                );
                // What the copy before held must not stay.
                db.checkpoint().expect("is open").wait().expect("is installed");
            }
            drop(ends_writers);
            writer.join().expect("does not panic");
            copies
        });
        for (round, copied) in copies.iter().enumerate() {
            let epoch = copied["epoch"].as_u64().expect("an epoch");
            assert_eq!(copied["pages"].as_u64() > Some(0), takes_pictures, "{copied}");
            let name = format!("restored-{round}");
            let restored = document(&folder, &format!("restore backup {name} --json --at {epoch}"));
            assert_eq!(restored["parent"], copied["database"]);
            assert_is_state_at(&folder, &name, &epochs, epoch);
        }
        assert_is_explained(&folder, takes_pictures, &copies);
        db.close().expect("closes");
    }
}

#[test]
fn n21_a_backup_from_outside_has_all_that_was_durable_when_it_began() {
    for strategy in [Strategy::Pictures, Strategy::Fuzzy, Strategy::Cycling] {
        let folder = Folder::new(&format!("backup-acknowledged-{strategy:?}"));
        let db = open(&folder, strategy);
        let mut epochs = Vec::new();
        write(&db, &mut epochs, |at| at < 200);
        db.checkpoint().expect("is open").wait().expect("is installed");
        write(&db, &mut epochs, |at| at < 600);
        let table = table_of(&db);
        let ((), last) = db.submit(|tx| tx.put(&table, &600, &row(600))).expect("commits");
        epochs.push(last.epoch());
        last.durable().expect("is acknowledged");
        let assert_has_all = |backup: &str, epochs: &[Epoch]| {
            let copied = document(&folder, &format!("backup data {backup} --json"));
            let epoch = copied["epoch"].as_u64().expect("an epoch");
            assert!(
                Some(epoch) >= epochs.last().map(|last| last.number()),
                "{strategy:?}, {backup}: {copied}"
            );
            assert!(copied["durable"].as_u64() <= Some(epoch), "{strategy:?}, {backup}: {copied}");
            let restored = document(&folder, &format!("restore {backup} {backup}-again --json"));
            assert_eq!(
                (restored["epoch"].as_u64(), restored["durable"].as_u64()),
                (Some(epoch), Some(epoch))
            );
            assert_is_state_at(&folder, &format!("{backup}-again"), epochs, epoch);
        };
        assert_has_all("open", &epochs);
        db.close().expect("closes");
        assert_has_all("closed", &epochs);
        // Its picture is of the life before.
        let db = open(&folder, strategy);
        write(&db, &mut epochs, |at| at < 700);
        db.close().expect("closes");
        assert_has_all("next-life", &epochs);
    }
}

/// `verify` and `inspect` say whose backup it is, and that the last one was restored. In `copies` is what each run
/// said; number 3 was restored as `restored-3`.
fn assert_is_explained(folder: &Folder, takes_pictures: bool, copies: &[Value]) {
    // The last run says what it keeps.
    let said = &copies[3];
    let (of, epoch) = (said["parent"].as_str().expect("an identity"), &said["epoch"]);
    for command in ["verify", "inspect"] {
        let (code, stdout, _) = ensile(folder, &format!("{command} backup"));
        assert_eq!(code, Some(0), "{stdout}");
        let kept = said["kept"].as_array().expect("a list");
        let kept: Vec<String> = kept.iter().map(Value::to_string).collect();
        let what = match takes_pictures {
            true => format!("pictures and the logs behind them at the epochs {}", kept.join(", ")),
            false => format!("copies of its files at the epochs {}", kept.join(", ")),
        };
        let line = format!("a backup of database {of}, as it was at the end of epoch {epoch}: {what}\n");
        assert!(stdout.contains(&line), "{line}: {stdout}");
        assert_eq!(stdout.contains(" % free or of older pictures\n"), takes_pictures && command == "inspect");
        let found = document(folder, &format!("{command} backup --json"));
        let none = json!([]);
        let (pictures, files) = if takes_pictures { (&said["kept"], &none) } else { (&none, &said["kept"]) };
        let expected = json!({
            "kind": "backup", "of": of, "epoch": epoch, "pictures": [], "logged_pictures": pictures, "files": files,
        });
        assert_eq!(found["examination"]["backup"], expected);
        let (_, stdout, _) = ensile(folder, &format!("{command} restored-3"));
        let (from, epoch) = (copies[3]["database"].as_str().expect("an identity"), &copies[3]["epoch"]);
        assert!(
            stdout.contains(&format!("restored from {from}, as that was at the end of epoch {epoch}\n")),
            "{stdout}"
        );
        let found = document(folder, &format!("{command} restored-3 --json"));
        let expected = json!({ "kind": "restored", "from": from, "epoch": epoch });
        assert_eq!(found["examination"]["backup"], expected);
    }
}

/// Starts a backup, of at most this many megabytes a second.
fn slow_backup(folder: &Folder, target: &str, megabytes: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ensile"))
        .args(["backup", "data", target, "--rate-mb", megabytes])
        .current_dir(&folder.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// Starts a backup, and kills it after that time, or as soon as it has changed something. Whether it had ended by then.
fn kill_backup(folder: &Folder, behind: Option<Duration>) -> bool {
    let before = contents(&folder.0.join("backup"));
    // What is killed at its first change has most of its time still before it.
    let mut copier = slow_backup(folder, "backup", if behind.is_some() { "10" } else { "1" });
    match behind {
        Some(behind) => thread::sleep(behind),
        None => {
            while copier.try_wait().expect("is a child of this process").is_none()
                && contents(&folder.0.join("backup")) == before
            {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    copier.kill().expect("is a child of this process");
    copier.wait().expect("has ended").success()
}

/// The files of a folder and those in it, but for locks: how long they are, and when they were changed.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    // What is being removed or renamed is passed over.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            found.extend(contents(&entry.path()));
        } else if entry.file_name() != "LOCK" && entry.file_name() != "LEASES" {
            let changed = metadata.modified().expect("this system knows");
            found.insert(entry.path(), (metadata.len(), changed));
        }
    }
    found
}

/// Copies a folder and those in it.
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("can be made");
    for entry in std::fs::read_dir(from).expect("is there") {
        let entry = entry.expect("a name");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a kind").is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).expect("can be copied")),
        }
    }
}

#[test]
fn a_copier_that_is_killed_leaves_a_backup_that_opens_with_the_state_of_its_epoch() {
    let folder = Folder::new("backup-kills");
    let db = open(&folder, Strategy::Pictures);
    let mut epochs = Vec::new();
    write(&db, &mut epochs, |at| at < KEYS);
    let picture = || db.checkpoint().expect("is open").wait().expect("is installed");
    picture();
    let first = document(&folder, "backup data backup --json");
    let mut newest = first["epoch"].as_u64().expect("an epoch");
    let (mut killed, mut done, mut round) = (0, 0, 0);
    while round < 11 || killed == 0 {
        assert!(round < 30, "{done} ended before they were killed");
        let end = epochs.len() as u64 + KEYS / 2;
        write(&db, &mut epochs, |at| at < end);
        let epoch = picture().picture_epoch().expect("a picture").number();
        let behind = (1..11).contains(&round).then(|| Duration::from_millis(5 + 23 * round));
        let is_done = kill_backup(&folder, behind);
        (killed, done) = (killed + u64::from(!is_done), done + u64::from(is_done));
        let copy = format!("copy-{round}");
        copy_folder(&folder.0.join("backup"), &folder.0.join(&copy));
        let (code, stdout, stderr) = ensile(&folder, &format!("verify {copy}"));
        assert_eq!(code, Some(0), "{stdout}\n{stderr}");
        let name = format!("restored-{round}");
        let restored = document(&folder, &format!("restore backup {name} --json"));
        let found = restored["epoch"].as_u64().expect("an epoch");
        assert!(found == epoch || !is_done && found == newest, "{found}: {newest} or {epoch}, {is_done}");
        newest = found;
        assert_is_state_at(&folder, &name, &epochs, found);
        // What it left opens too, once it is known to be a copy.
        let (code, _, stderr) = ensile(&folder, &format!("adopt {copy}"));
        assert_eq!(code, Some(0), "{stderr}");
        assert_is_state_at(&folder, &copy, &epochs, found);
        for name in [&copy, &name] {
            std::fs::remove_dir_all(folder.0.join(name)).expect("it was there");
        }
        round += 1;
    }
    let last = document(&folder, "backup data backup --json");
    assert!(last["epoch"].as_u64() >= Some(newest), "{last}");
    let epoch = last["epoch"].as_u64().expect("an epoch");
    assert_is_state_at(&folder, "backup", &epochs, epoch);
    db.close().expect("closes");
}

#[test]
fn a_copier_of_files_that_is_killed_leaves_a_backup_that_opens_with_the_state_of_its_epoch() {
    let folder = Folder::new("backup-files-kills");
    let db = open(&folder, Strategy::Fuzzy);
    let mut epochs = Vec::new();
    write(&db, &mut epochs, |at| at < KEYS);
    let checkpoint = || db.checkpoint().expect("is open").wait().expect("is installed");
    checkpoint();
    let first = document(&folder, "backup data backup --json");
    let mut newest = first["epoch"].as_u64().expect("an epoch");
    let (mut killed, mut done, mut round) = (0, 0, 0);
    while round < 8 || killed == 0 {
        assert!(round < 30, "{done} ended before they were killed");
        let end = epochs.len() as u64 + KEYS / 2;
        write(&db, &mut epochs, |at| at < end);
        if round % 2 == 0 {
            checkpoint();
        }
        let behind = (1..8).contains(&round).then(|| Duration::from_millis(5 + 37 * round));
        let is_done = kill_backup(&folder, behind);
        (killed, done) = (killed + u64::from(!is_done), done + u64::from(is_done));
        let copy = format!("copy-{round}");
        copy_folder(&folder.0.join("backup"), &folder.0.join(&copy));
        let (code, stdout, stderr) = ensile(&folder, &format!("verify {copy}"));
        assert_eq!(code, Some(0), "{stdout}\n{stderr}");
        let name = format!("restored-{round}");
        let restored = document(&folder, &format!("restore backup {name} --json"));
        let found = restored["epoch"].as_u64().expect("an epoch");
        assert!(found >= newest, "{found} is before {newest}");
        newest = found;
        assert_is_state_at(&folder, &name, &epochs, found);
        let (code, _, stderr) = ensile(&folder, &format!("adopt {copy}"));
        assert_eq!(code, Some(0), "{stderr}");
        assert_is_state_at(&folder, &copy, &epochs, found);
        for name in [&copy, &name] {
            std::fs::remove_dir_all(folder.0.join(name)).expect("it was there");
        }
        round += 1;
    }
    db.close().expect("closes");
    // Nobody has it open.
    let last = document(&folder, "backup data backup --json");
    let epoch = last["epoch"].as_u64().expect("an epoch");
    assert_is_state_at(&folder, "backup", &epochs, epoch);
}

#[test]
fn what_is_refused_says_why_and_a_backup_is_explained() {
    let folder = Folder::new("backup-refused");
    let db = open(&folder, Strategy::Pictures);
    let mut epochs = Vec::new();
    write(&db, &mut epochs, |at| at < KEYS);
    db.checkpoint().expect("is open").wait().expect("is installed");
    let (code, stdout, stderr) = ensile(&folder, "backup data backup --rate-mb 1000");
    assert_eq!(code, Some(0), "{stderr}");
    let epoch =
        document(&folder, "verify backup --json")["examination"]["backup"]["epoch"].as_u64().expect("one");
    assert!(
        stdout.starts_with("backup: database ") && stdout.contains(&format!("at the end of epoch {epoch};"))
    );
    assert_eq!(stderr, "", "progress is for terminals");
    let none = format!("no state at the end of epoch 1, but of {epoch}");
    for (line, why) in [
        ("backup data", "<BACKUP>"),
        ("backup data backup --rate-mb 0", "--rate-mb"),
        ("backup data backup --keep 0", "--keep"),
        ("backup nothing backup", "nothing"),
        ("backup data data", "outside"),
        ("restore backup data", "in use"),
        ("restore backup restored --at 1", none.as_str()),
        ("restore backup restored --at 18446744073709551615", "--at"),
        ("restore backup backup", "backup"),
    ] {
        let (code, stdout, stderr) = ensile(&folder, line);
        assert_eq!(code, Some(2), "{line}: {stdout}\n{stderr}");
        assert!(stderr.contains(why), "{line}: {stderr}");
    }
    db.close().expect("closes");
    let (code, _, stderr) = ensile(&folder, "restore data restored");
    assert!(code == Some(2) && stderr.contains("it is no backup"), "{stderr}");
    let (_, stdout, _) = ensile(&folder, "verify data");
    assert!(!stdout.contains("backup of") && !stdout.contains("restored"), "{stdout}");
    assert_eq!(document(&folder, "verify data --json")["examination"]["backup"], Value::Null);
    let (code, stdout, stderr) = ensile(&folder, "restore backup restored");
    assert!(
        code == Some(0) && stdout.contains(&format!("at the end of epoch {epoch};")),
        "{stdout}\n{stderr}"
    );
    assert_is_state_at(&folder, "restored", &epochs, epoch);
    // A damaged backup is named, with an exit code of its own, and so is a damaged database.
    for (line, folder_name) in [("restore backup another", "backup"), ("backup data elsewhere", "data")] {
        damage_pages(&folder.0.join(folder_name));
        let (code, _, stderr) = ensile(&folder, line);
        assert!(code == Some(1) && stderr.contains("damaged at byte"), "{line}: {code:?} {stderr}");
    }
}

#[test]
fn an_inspection_of_a_copied_backup_prints_what_it_found() {
    let folder = Folder::new("backup-copied");
    let db = open(&folder, Strategy::Fuzzy);
    write(&db, &mut Vec::new(), |at| at < KEYS);
    db.close().expect("closes");
    let (code, _, stderr) = ensile(&folder, "backup data backup");
    assert_eq!(code, Some(0), "{stderr}");
    copy_folder(&folder.0.join("backup"), &folder.0.join("copied"));
    let (code, stdout, stderr) = ensile(&folder, "inspect copied");
    assert!(code == Some(0) && stdout.contains("copied: whole up to epoch "), "{stdout}{stderr}");
    assert!(stdout.contains("the epochs of `ensile restore --to-epoch` are unknown: "), "{stdout}");
    let found = document(&folder, "inspect copied --json");
    assert_eq!((&found["restorable_epochs"], found["examination"].is_object()), (&Value::Null, true));
    assert!(found["restorable_unknown"].as_str().is_some_and(|why| why.contains("copied")), "{found}");
    // An archive that was asked about is an error; what was found is printed all the same.
    let (code, stdout, stderr) = ensile(&folder, "inspect copied --archive data");
    assert!(code == Some(2) && stdout.contains("copied: whole") && !stderr.is_empty(), "{stdout}{stderr}");
}

#[test]
fn what_is_looked_for_in_a_wrong_place_leaves_no_folder_behind() {
    let folder = Folder::new("backup-nowhere");
    let db = open(&folder, Strategy::Fuzzy);
    write(&db, &mut Vec::new(), |at| at < 10);
    db.checkpoint().expect("is open").wait().expect("is installed");
    document(&folder, "backup data backup --json");
    db.close().expect("closes");
    std::fs::create_dir(folder.0.join("empty")).expect("can be made");
    for line in [
        "restore nothing new",
        "restore empty new",
        "restore data new",
        "restore backup new --at 1",
        "restore backup new --to-epoch 999999999",
        "restore backup new --to-epoch 999999999 --archive nothing",
        "restore backup new --to-epoch 999999999 --archive data",
        "backup nothing new",
        "backup empty new",
        "restore-archive nothing new --to-epoch 1",
        "restore-archive data new --to-epoch 1",
        "take-over nothing new",
        "take-over empty new",
        "objects take-over nothing new",
        "objects take-over empty new",
    ] {
        let (code, stdout, stderr) = ensile(&folder, line);
        assert_eq!(code, Some(2), "{line}: {stdout}\n{stderr}");
        for name in ["new", "nothing"] {
            assert!(!folder.0.join(name).exists(), "{line}: it leaves the folder {name}: {stderr}");
        }
    }
}

#[test]
fn n24_a_first_backup_that_is_killed_is_no_database_to_any_command_and_goes_on() {
    let folder = Folder::new("backup-first-killed");
    let db = open(&folder, Strategy::Pictures);
    let mut epochs = Vec::new();
    write(&db, &mut epochs, |at| at < KEYS);
    db.checkpoint().expect("is open").wait().expect("is installed");
    let first = folder.0.join("first");
    // It takes some seconds at that rate.
    let begin = || {
        let mut copier = slow_backup(&folder, "first", "1");
        while !first.join("MANIFEST").exists() {
            thread::sleep(Duration::from_millis(1));
        }
        copier.kill().expect("is a child of this process");
        copier.wait().expect("has ended").success()
    };
    // It may have ended, and may have written its last manifest before it was killed.
    while begin() || ensile(&folder, "verify first").0 == Some(0) {
        std::fs::remove_dir_all(&first).expect("it was there");
    }
    let commands = [
        "verify first",
        "verify first --repair",
        "inspect first",
        "inspect first --changes",
        "adopt first",
        "lease first -- true",
        "restore first new",
        "backup first new",
    ];
    for line in commands {
        let (code, stdout, stderr) = ensile(&folder, line);
        assert_eq!(code, Some(2), "{line}: {stdout}{stderr}");
        assert!(stderr.contains("has not ended") && stderr.contains("run it again, or remove"), "{stderr}");
    }
    let error = Database::open(&first).map(drop).expect_err("it is none").to_string();
    assert!(error.contains("the first backup of database") && error.contains("run it again"), "{error}");
    let epoch = document(&folder, "backup data first --json")["epoch"].as_u64().expect("an epoch");
    db.close().expect("closes");
    assert_is_state_at(&folder, "first", &epochs, epoch);
}

#[test]
fn a_backup_says_which_states_it_has_no_more() {
    let folder = Folder::new("backup-keep");
    let db = open(&folder, Strategy::Pictures);
    let mut epochs = Vec::new();
    let mut next = |line: &str| {
        let end = epochs.len() as u64 + 10;
        write(&db, &mut epochs, |at| at < end);
        db.checkpoint().expect("is open").wait().expect("is installed");
        document(&folder, line)
    };
    let first = next("backup data backup --json --keep 2");
    let second = next("backup data backup --json --keep 2");
    assert_eq!(
        (&second["kept"], &second["dropped"]),
        (&json!([second["epoch"], first["epoch"]]), &json!([]))
    );
    // As many as there are.
    let third = next("backup data backup --json");
    assert_eq!(third["kept"], json!([third["epoch"], second["epoch"]]));
    assert_eq!(third["dropped"], json!([first["epoch"]]));
    let (code, stdout, stderr) = ensile(&folder, "backup data backup --keep 1");
    assert_eq!(code, Some(0), "{stderr}");
    let said = format!("the backup has dropped the states at the end of the epochs {}", second["epoch"]);
    assert!(stdout.contains(&said), "{stdout}");
    db.close().expect("closes");
}

/// Changes a byte in each block of the page file of a folder.
fn damage_pages(folder: &Path) {
    let checkpoints = folder.join("checkpoint0");
    let names = std::fs::read_dir(checkpoints).expect("is there").map(|entry| entry.expect("a name").path());
    let is_pages = |path: &PathBuf| path.to_string_lossy().contains("/pages-");
    let pages = names.into_iter().find(is_pages).expect("a page file");
    let mut bytes = std::fs::read(&pages).expect("can be read");
    for at in (8192 + 200..bytes.len()).step_by(4096) {
        bytes[at] ^= 1;
    }
    std::fs::write(&pages, bytes).expect("can be written");
}
