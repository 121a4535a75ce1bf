//! The `ensile` command from outside: what it prints, JSON for programs, and exit codes.
//!
//! Neighbours: the engine tests what verification and repair find.

use std::path::PathBuf;
use std::process::{Command, Output};

use ensile::Readable as _;
use ensile::checkpoint::Strategy;

use crate::outside::Folder;

/// Runs `ensile` with the words of a line.
fn ensile(folder: &Folder, line: &str) -> (Output, String, String) {
    folder.run(env!("CARGO_BIN_EXE_ensile"), line)
}

#[test]
fn nonsense_ends_with_exit_code_2_and_a_reason() {
    let folder = Folder::new("usage");
    for (line, reason) in [
        ("verify", "<FOLDER>"),
        ("inspect data --changes --json", "cannot be used with"),
        ("verify data --without-missing-folders", "--repair"),
        ("verify data --picture-alone", "--repair"),
        ("bench ycsb", "unrecognized subcommand"),
    ] {
        let (output, _, stderr) = ensile(&folder, line);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(reason), "{line}: {stderr}");
    }
    let (output, stdout, _) = ensile(&folder, "--version");
    assert!(output.status.success() && stdout.starts_with("ensile "), "{stdout}");
}

/// A closed database with a hundred rows in its table, ten of them deleted.
fn database(folder: &Folder) {
    let db = ensile::Database::open(folder.0.join("data")).expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    for key in 0..100 {
        db.run(|tx| tx.put(&table, &key, &(key * key))).expect("commits");
    }
    for key in 0..10 {
        db.run(|tx| tx.delete(&table, &key).map(|_| ())).expect("commits");
    }
    db.close().expect("closes");
}

/// The only log file of that database.
fn log_file(folder: &Folder) -> PathBuf {
    let logs = std::fs::read_dir(folder.0.join("data/log0")).expect("its log's folder");
    let logs = logs.map(|file| file.expect("a name").path());
    let is_log = |path: &PathBuf| path.to_string_lossy().contains("/log-");
    logs.filter(is_log).min().expect("a log file")
}

#[test]
fn a_whole_folder_is_verified_and_explained() {
    let folder = Folder::new("verify");
    database(&folder);
    let (output, stdout, stderr) = ensile(&folder, "verify data");
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.starts_with("data: whole up to epoch "), "{stdout}");
    let (output, stdout, _) = ensile(&folder, "inspect data");
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    let table = stdout.lines().find(|line| line.contains("numbers")).expect("the table has a line");
    assert!(table.contains("90 rows") && table.contains("1440 B: u64 -> u64"), "{table}");
    for part in ["generations", "checkpoint", "MANIFEST", "log 0 of generation 1", "the catalogue"] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    let (_, stdout, _) = ensile(&folder, "inspect data --json");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert_eq!(document["examination"]["whole"], true);
    let tables = document["tables"].as_array().expect("tables");
    assert!(tables.iter().any(|table| table["name"] == "numbers" && table["rows"] == 90), "{document}");
}

#[test]
fn a_checkpoint_says_of_which_kind_it_is() {
    let kinds = [(Strategy::Fuzzy, "fuzzy"), (Strategy::Cycling, "cycling"), (Strategy::Pictures, "picture")];
    for (strategy, kind) in kinds {
        let folder = Folder::new(kind);
        let tuning = ensile::Tuning { checkpoint_strategy: Some(strategy), ..ensile::Tuning::default() };
        let db = ensile::Database::builder(folder.0.join("data")).tuning(tuning).open().expect("opens");
        let table = db.table::<u64, u64>("numbers").expect("a table");
        db.run(|tx| tx.put(&table, &1, &1)).expect("commits");
        let report = db.checkpoint().expect("is open").wait().expect("is installed");
        db.close().expect("closes");
        let (_, stdout, _) = ensile(&folder, "inspect data");
        let shown = format!("picture at the end of epoch {};", report.high.number());
        assert_eq!(stdout.contains(&shown), kind == "picture", "{stdout}");
        assert_eq!(
            stdout.contains("from table 0 the catalogue: checkpoint 1,"),
            kind == "cycling",
            "{stdout}"
        );
        let (output, stdout, stderr) = ensile(&folder, "verify data --json");
        assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
        let (_, stdout, _) = ensile(&folder, "inspect data --json");
        let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
        let checkpoint = &document["examination"]["checkpoint"];
        assert_eq!(checkpoint["kind"], kind, "{document}");
        let ranges = checkpoint["ranges"].as_array().expect("a list");
        assert_eq!(ranges.len(), if kind == "cycling" { 2 } else { 0 }, "{document}");
        let epoch = report.picture_epoch().map(|epoch| epoch.number());
        assert_eq!(checkpoint["picture_epoch"].as_u64(), epoch, "{document}");
    }
}

/// A closed database with a picture of some rows, and more in the log behind it.
fn database_with_picture(folder: &Folder) {
    let tuning =
        ensile::Tuning { checkpoint_strategy: Some(Strategy::Pictures), ..ensile::Tuning::default() };
    let db = ensile::Database::builder(folder.0.join("data")).tuning(tuning).open().expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    let put = |keys: std::ops::Range<u64>| {
        keys.for_each(|key| db.run(|tx| tx.put(&table, &key, &key)).expect("commits"));
    };
    put(0..100);
    db.checkpoint().expect("is open").wait().expect("is installed");
    put(0..1);
    db.checkpoint().expect("is open").wait().expect("is installed");
    put(100..120);
    db.close().expect("closes");
}

#[test]
fn the_pages_of_a_picture_are_explained() {
    let folder = Folder::new("pages");
    database_with_picture(&folder);
    let (output, stdout, _) = ensile(&folder, "inspect data");
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    for part in ["numbers: 1 pages, 100 entries", "the catalogue: 1 pages", "of checkpoint 2: ", "/pages-1: "]
    {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    let (_, stdout, _) = ensile(&folder, "inspect data --json");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    let picture = &document["examination"]["checkpoint"]["picture"];
    let pages = |of: &str| -> u64 {
        let all = picture[of].as_array().expect("a list").iter();
        all.map(|one| one["pages"].as_u64().expect("a number")).sum()
    };
    assert_eq!((pages("tables"), pages("ages")), (2, 2), "{document}");
    let used: u64 = picture["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter_map(|file| file["used_bytes"].as_u64())
        .sum();
    assert_eq!(document["examination"]["checkpoint"]["bytes"].as_u64(), Some(used), "{document}");
}

#[test]
fn a_picture_is_kept_alone_where_no_cut_of_the_log_helps_and_that_is_asked_for() {
    let folder = Folder::new("alone");
    database_with_picture(&folder);
    for file in std::fs::read_dir(folder.0.join("data/log0")).expect("its log's folder") {
        let path = file.expect("a name").path();
        if path.to_string_lossy().contains("/log-") {
            let mut bytes = std::fs::read(&path).expect("a file");
            bytes[20] ^= 1;
            std::fs::write(&path, bytes).expect("writes");
        }
    }
    let (output, stdout, _) = ensile(&folder, "verify data");
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(
        stdout.contains("`ensile verify data --repair --picture-alone`: keeps everything up to"),
        "{stdout}"
    );
    let (output, _, stderr) = ensile(&folder, "verify data --repair");
    assert!(output.status.code() == Some(2) && stderr.contains("--picture-alone"), "{stderr}");
    let (_, stdout, _) = ensile(&folder, "verify data --json");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert!(
        document["examination"]["remedy"]["picture_alone"]["loss"]["durable_epoch"].is_u64(),
        "{document}"
    );
    let (output, stdout, stderr) = ensile(&folder, "verify data --repair --picture-alone");
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("are LOST"), "{stdout}");
    let db = ensile::Database::open(folder.0.join("data")).expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    let rows = db.begin().range(&table, ..).count();
    assert_eq!(rows, 100, "as the picture shows");
    db.close().expect("closes");
}

#[test]
fn a_folder_without_a_log_says_so() {
    let folder = Folder::new("without-log");
    let db = ensile::Database::builder(folder.0.join("data")).without_log().open().expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    db.run(|tx| tx.put(&table, &1, &1)).expect("commits");
    db.close().expect("closes");
    let (output, stdout, stderr) = ensile(&folder, "inspect data");
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("without a log; 0 entries") && stdout.contains("picture at"), "{stdout}");
    let (output, stdout, stderr) = ensile(&folder, "verify data");
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let (output, stdout, stderr) = ensile(&folder, "verify data --repair");
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let (_, stdout, _) = ensile(&folder, "inspect data --json");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    assert_eq!(document["examination"]["generations"][0]["logs"], 0, "{document}");
}

#[test]
fn who_stops_reading_ends_no_command_with_an_error() {
    let folder = Folder::new("closed");
    database(&folder);
    for line in ["verify data", "inspect data", "inspect data --json", "inspect data --changes"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ensile"));
        let output = command.args(line.split(' ')).current_dir(&folder.0).stdout(writer).output();
        let output = output.expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{line}");
    }
}

#[test]
fn the_changes_in_a_log_are_lines_of_json() {
    let folder = Folder::new("changes");
    for before_images in [false, true] {
        let builder = ensile::Database::builder(folder.0.join("data")).before_images(before_images);
        let db = builder.open().expect("opens");
        let table = db.table::<u32, u8>("numbers").expect("a table");
        db.run(|tx| tx.put(&table, &7, &1)).expect("commits");
        db.run(|tx| tx.put(&table, &8, &u8::from(before_images)).and(tx.put(&table, &7, &2)))
            .expect("commits");
        db.run(|tx| tx.delete(&table, &7).map(drop)).expect("commits");
        db.close().expect("closes");
    }
    let files = || std::fs::read_dir(folder.0.join("data/log0")).expect("listed").count();
    let (before, (output, stdout, stderr)) = (files(), ensile(&folder, "inspect data --changes"));
    assert_eq!((output.status.code(), files()), (Some(0), before), "{stderr}");
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    assert!(lines.is_sorted_by_key(|line| (line["tid"].as_u64(), line["write"].as_u64())), "{stdout}");
    let of_table = lines.iter().filter(|line| line["table"] == "numbers");
    let seen: Vec<String> = of_table
        .map(|line| format!("{} {:?} {}", line["key"], line.get("before"), line["after"]).replace('"', ""))
        .collect();
    let expected = [
        "00000007 None 01",
        "00000008 None 00",
        "00000007 None 02",
        "00000007 None null",
        "00000007 Some(Null) 01",
        "00000008 Some(String(00)) 01",
        "00000007 Some(String(01)) 02",
        "00000007 Some(String(02)) null",
    ];
    assert_eq!(seen, expected, "{stdout}");
    let (_, stdout, _) = ensile(&folder, "inspect data");
    let table = stdout.lines().find(|line| line.contains("numbers")).expect("the table has a line");
    assert!(table.ends_with("u32 -> u8, 4 before-images in the log"), "{table}");
    let log = log_file(&folder);
    let mut bytes = std::fs::read(&log).expect("the log");
    bytes[100] ^= 1;
    std::fs::write(&log, &bytes).expect("a flipped bit");
    let (output, stdout, stderr) = ensile(&folder, "inspect data --changes");
    assert_eq!((output.status.code(), &*stdout), (Some(1), ""), "{stderr}");
    assert!(stderr.starts_with("data: DAMAGED"), "{stderr}");
}

#[test]
fn a_damaged_folder_is_told_and_repaired_when_asked_for() {
    let folder = Folder::new("repair");
    database(&folder);
    let log = log_file(&folder);
    let mut bytes = std::fs::read(&log).expect("the log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&log, &bytes).expect("a flipped bit");
    let (output, stdout, stderr) = ensile(&folder, "verify data");
    assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
    assert!(stdout.starts_with("data: DAMAGED") && stdout.contains("log0/log-1-0"), "{stdout}");
    assert!(
        stdout.contains("at byte ") && stdout.contains("`ensile verify data --repair`: keeps everything"),
        "{stdout}"
    );
    assert_eq!(std::fs::read(&log).expect("the log"), bytes, "looking changes nothing");
    let (_, stdout, _) = ensile(&folder, "verify data --json");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON document");
    let entries = document["examination"]["remedy"]["cut"]["entries"].as_u64().expect("what would be lost");
    let (output, stdout, stderr) = ensile(&folder, "verify data --repair");
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("are LOST") && stdout.contains("data/repaired-1"), "{stdout}");
    assert!(folder.0.join("data/repaired-1/MANIFEST").exists());
    let (output, stdout, _) = ensile(&folder, "verify data");
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    let db = ensile::Database::open(folder.0.join("data")).expect("it is whole again");
    let table = db.table::<u64, u64>("numbers").expect("its table");
    let rows =
        db.run(|tx| Ok((0..100).filter(|key| tx.get(&table, key).is_ok_and(|row| row.is_some())).count()));
    let rows = rows.expect("reads") as u64;
    assert!(rows > 10 && rows < 100 && entries > 10, "{rows} rows, {entries} entries given up");
    db.run(|tx| tx.put(&table, &1_000, &1)).expect("it goes on");
}

#[test]
fn a_damaged_mark_of_a_folder_is_exit_code_1_for_each_command_that_looks() {
    let folder = Folder::new("mark");
    database(&folder);
    let mark = folder.0.join("data/log0/FOLDER");
    let mut bytes = std::fs::read(&mark).expect("the mark");
    bytes[30] ^= 1;
    std::fs::write(&mark, &bytes).expect("a flipped bit");
    for line in ["verify data", "inspect data", "inspect data --changes"] {
        let (output, stdout, stderr) = ensile(&folder, line);
        assert_eq!(output.status.code(), Some(1), "{line}: {stdout}{stderr}");
        let said = stdout + &stderr;
        assert!(said.contains("DAMAGED") && said.contains("log0/FOLDER at byte 0"), "{line}: {said}");
    }
    assert_eq!(std::fs::read(&mark).expect("the mark"), bytes, "looking changes nothing");
}

#[test]
fn a_missing_log_folder_is_given_up_only_by_a_repair_that_is_told_so() {
    let folder = Folder::new("missing");
    database(&folder);
    let (log, aside) = (folder.0.join("data/log0"), folder.0.join("aside"));
    std::fs::rename(&log, &aside).expect("moves");
    let (output, stdout, stderr) = ensile(&folder, "verify data");
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(
        stdout.contains("is its device mounted") && stdout.contains("--without-missing-folders"),
        "{stdout}"
    );
    let (output, stdout, stderr) = ensile(&folder, "verify data --repair");
    assert_eq!(output.status.code(), Some(2), "{stdout}{stderr}");
    assert!(
        stderr.contains("is its device mounted") && !folder.0.join("data/repaired-1").exists(),
        "{stderr}"
    );
    std::fs::rename(&aside, &log).expect("moves back");
    let (output, stdout, _) = ensile(&folder, "verify data");
    assert_eq!(output.status.code(), Some(0), "nothing was cut: {stdout}");
    std::fs::rename(&log, &aside).expect("moves");
    let (output, stdout, stderr) = ensile(&folder, "verify data --repair --without-missing-folders");
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("are LOST"), "{stdout}");
    ensile::Database::open(folder.0.join("data")).expect("it is whole again");
}

#[test]
fn a_folder_that_cannot_be_judged_is_exit_code_2() {
    let folder = Folder::new("judged");
    std::fs::create_dir(folder.0.join("empty")).expect("a folder");
    let db = ensile::Database::open(folder.0.join("used")).expect("opens");
    for (line, reason) in
        [("verify nowhere", "No such file"), ("verify empty", "no database is in"), ("inspect used", "use")]
    {
        let (output, _, stderr) = ensile(&folder, line);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(reason), "{line}: {stderr}");
    }
    assert_eq!(
        std::fs::read_dir(folder.0.join("empty")).expect("it is there").count(),
        0,
        "nothing is left in it"
    );
    drop(db);
}

/// A closed database whose log folder is a link to another one.
fn database_with_a_link(folder: &Folder) -> PathBuf {
    let device = folder.0.join("device");
    let db = ensile::Database::builder(folder.0.join("data")).log_folders([&device]).open().expect("opens");
    let table = db.table::<u64, u64>("numbers").expect("a table");
    db.run(|tx| tx.put(&table, &1, &1)).expect("commits");
    db.close().expect("closes");
    device
}

#[test]
fn a_link_that_leads_nowhere_is_told_as_an_open_tells_it() {
    let folder = Folder::new("dangling");
    let device = database_with_a_link(&folder);
    std::fs::rename(&device, folder.0.join("elsewhere")).expect("renames");
    let opened = ensile::Database::open(folder.0.join("data")).expect_err("its log is elsewhere").to_string();
    assert!(opened.contains("log0 is a link to") && opened.contains("mount its device"), "{opened}");
    for line in ["verify data", "verify data --repair", "inspect data", "inspect data --changes"] {
        let (output, stdout, stderr) = ensile(&folder, line);
        assert_eq!((output.status.code(), &*stdout), (Some(2), ""), "{line}: {stderr}");
        assert_eq!(stderr, format!("ensile: data: {opened}\n"), "{line}");
    }
}

#[test]
fn a_link_to_a_log_folder_is_no_file_and_a_stranger_that_cannot_be_read_disturbs_nobody() {
    let folder = Folder::new("links");
    let _device = database_with_a_link(&folder);
    std::os::unix::fs::symlink("nowhere", folder.0.join("data/notes")).expect("links");
    let (output, stdout, stderr) = ensile(&folder, "inspect data");
    assert!(output.status.success(), "{stdout}{stderr}");
    let files: Vec<&str> = stdout.lines().filter(|line| line.trim_start().starts_with("log0")).collect();
    assert!(files.iter().all(|line| line.trim_start().starts_with("log0/")), "{stdout}");
    assert!(stdout.contains("notes") && stdout.contains("not the database's"), "{stdout}");
}

#[test]
fn bytes_behind_a_log_file_are_cut_and_nothing_is_lost() {
    let folder = Folder::new("behind");
    for _ in 0..2 {
        // The first life's file stays, and is no log's last.
        let tuning = ensile::Tuning { log_file_bytes: 64 << 10, ..ensile::Tuning::default() };
        let db = ensile::Database::builder(folder.0.join("data")).tuning(tuning).open().expect("opens");
        let table = db.table::<u64, Vec<u8>>("rows").expect("a table");
        for key in 0..200 {
            db.run(|tx| tx.put(&table, &key, &vec![7; 2_000])).expect("commits");
        }
        db.close().expect("closes");
    }
    let names = std::fs::read_dir(folder.0.join("data/log0")).expect("its log's folder");
    let mut names = names.map(|file| file.expect("a name").path());
    let closed = names.find(|path| path.to_string_lossy().contains("log-1-0-to-")).expect("closed");
    let mut bytes = std::fs::read(&closed).expect("reads");
    bytes.extend_from_slice(&[7; 100]);
    std::fs::write(&closed, bytes).expect("writes");
    let (output, stdout, _) = ensile(&folder, "verify data --repair");
    assert!(output.status.success() && stdout.contains("everything is kept"), "{stdout}");
    let (output, stdout, _) = ensile(&folder, "verify data");
    assert!(output.status.success() && stdout.contains("whole up to epoch"), "{stdout}");
    let db = ensile::Database::open(folder.0.join("data")).expect("opens");
    let table = db.table::<u64, Vec<u8>>("rows").expect("a table");
    let rows = db.run(|tx| (0..200).map(|key| tx.get(&table, &key)).collect::<Result<Vec<_>, _>>());
    assert!(rows.expect("reads").iter().all(Option::is_some));
}

#[test]
fn a_copy_is_verified_refused_and_adopted() {
    let folder = Folder::new("adopt");
    let (original, copied) = (folder.0.join("a"), folder.0.join("b"));
    let db = ensile::Database::open(&original).expect("opens");
    let table = db.table::<u32, u32>("rows").expect("opens");
    db.run(|tx| tx.put(&table, &1, &2)).expect("commits");
    db.close().expect("closes");
    let copy = Command::new("cp").arg("-a").args([&original, &copied]).status().expect("cp runs");
    assert!(copy.success(), "cp -a");
    let (output, stdout, _) = ensile(&folder, "verify b");
    assert!(output.status.success() && stdout.contains("an open refuses it"), "{stdout}");
    assert!(ensile::Database::open(&copied).is_err());
    let (output, stdout, stderr) = ensile(&folder, "adopt b");
    assert!(output.status.success() && stdout.contains("is now database"), "{stdout}{stderr}");
    let db = ensile::Database::open_existing(&copied).expect("it is a database of its own");
    let table = db.table::<u32, u32>("rows").expect("opens");
    assert_eq!(db.run(|tx| tx.get(&table, &1)).expect("reads"), Some(2));
    let (output, _, stderr) = ensile(&folder, "adopt b");
    assert!(!output.status.success() && stderr.contains("in use"), "{stderr}");
}

#[test]
fn a_command_runs_under_a_lease_and_its_exit_code_is_handed_on() {
    let folder = Folder::new("lease");
    let db = ensile::Database::open(folder.0.join("a")).expect("opens");
    let table = db.table::<u32, u32>("rows").expect("opens");
    db.run(|tx| tx.put(&table, &1, &2)).expect("commits");
    let (output, stdout, stderr) = ensile(&folder, "lease a -- cat a/MANIFEST");
    assert!(output.status.success() && stdout.starts_with("ensile manifest"), "{stdout}{stderr}");
    let (output, _, stderr) = ensile(&folder, "lease a -- test 1 = 2");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let (output, _, stderr) = ensile(&folder, "lease a -- there-is-no-such-command");
    assert!(output.status.code() == Some(2) && stderr.contains("cannot be run"), "{stderr}");
    let (output, _, stderr) = ensile(&folder, "lease nowhere -- true");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    db.close().expect("closes");
}
