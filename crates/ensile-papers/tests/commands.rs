//! The `ensile-papers` command from outside: every experiment on a small scale, and exit codes.
//!
//! Neighbours: the modules' own tests.

#[path = "../../ensile-cli/tests/outside/mod.rs"]
mod outside;

use std::process::Output;

use outside::Folder;

/// Runs `ensile-papers` with the words of a line.
fn papers(folder: &Folder, line: &str) -> (Output, String, String) {
    folder.run(env!("CARGO_BIN_EXE_ensile-papers"), line)
}

#[test]
fn a_killed_service_has_all_that_it_replied_once_and_in_order() {
    let folder = Folder::new("papers-service-kills");
    for options in ["pht", "pht --loops 2 --clients 8", "ups", "his --kill-in-recovery 2"] {
        let line = format!("slach kills --kills 3 --life-ms 50 --service {options}");
        let (output, stdout, stderr) = papers(&folder, &line);
        assert!(output.status.success(), "{stdout}\n{stderr}");
        assert!(stdout.contains(" acknowledged, 0 lost, 0 twice or out of order: clean\n"), "{stdout}");
        assert!(!stdout.contains("  0 operations acknowledged"), "{stdout}");
    }
}

#[test]
fn an_open_load_tells_losses_and_responses_by_rate_and_writes() {
    let folder = Folder::new("papers-service-load");
    for service in ["pht --durability strict", "ups --no-log", "his"] {
        let small =
            "--rate 200,400 --writes 20,80 --load-seconds 0.2 --rounds 1 --objects 300 --connections 3";
        let (output, stdout, stderr) = papers(&folder, &format!("slach load --service {service} {small}"));
        assert!(output.status.success(), "{stdout}\n{stderr}");
        for said in
            ["20 % writes  200  loss (%)", "80 % writes  400  response, mean (ms)", "within 1000 ms of"]
        {
            assert!(stdout.contains(said), "{said}: {stdout}");
        }
        let csv = std::fs::read_to_string(folder.0.join("slach-results/load.csv")).expect("it was written");
        assert_eq!(csv.lines().filter(|line| line.contains(",loss,%,")).count(), 4, "{csv}");
    }
}

#[test]
fn a_figure_of_silo_is_three_files_and_says_what_was_left_out() {
    let folder = Folder::new("papers-silo");
    let line = "silo fig4 --records 1000 --seconds 0.02 --rounds 1 --workers 1 --out figures";
    let (output, stdout, stderr) = papers(&folder, line);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.starts_with("fig4: YCSB") && stdout.contains("memsilo"), "{stdout}");
    for extension in ["csv", "json", "svg"] {
        let file = folder.0.join(format!("figures/fig4.{extension}"));
        let text = std::fs::read_to_string(&file).expect("it was written");
        assert!(
            text.contains("ensile-papers silo fig4 --records 1000"),
            "the command is in {}",
            file.display()
        );
    }
    let variants = stdout.contains("memsilo+global-tid");
    let left_out =
        stderr.contains("memsilo+global-tid; for them: cargo build --release -p ensile-papers --features");
    assert!(variants != left_out, "{stdout}\n{stderr}");
}

#[test]
fn pictures_beside_updates_keep_one_version_of_a_row_and_say_what_was_held() {
    let folder = Folder::new("papers-siren");
    let small = "--rows 20000 --disk-mb 10 --ways lists,semi-fuzzy-on-device --device checkpoints --rounds 1 --out figures";
    for (figure, files) in [("table3", ["table3", "fig8"]), ("skew", ["skew", "skew"])] {
        let (output, stdout, stderr) = papers(&folder, &format!("siren {figure} {small} --updates 5000"));
        // A busy machine may not hold the rate, or not end the picture: then that is said, and the exit code is 1.
        let ended = !stdout.contains("GIVEN UP");
        let held = ended && !stdout.contains("NOT HELD");
        assert_eq!(output.status.code(), Some(i32::from(!held)), "{stdout}\n{stderr}");
        assert!(stdout.contains("lists: asked 5,000 updates/s, held "), "{stdout}");
        assert!(
            !ended || stdout.contains("20,001 entries, 0 of them displaced, for 20,000 rows\n"),
            "each row once: {stdout}"
        );
        assert!(!stdout.contains("MORE THAN ONE"), "{stdout}");
        for file in files {
            for extension in ["csv", "json", "svg"] {
                let path = folder.0.join(format!("figures/{file}.{extension}"));
                let text = std::fs::read_to_string(path).expect("it was written");
                assert!(text.contains(&format!("ensile-papers siren {figure} --rows 20000")), "{text}");
            }
        }
    }
    assert!(!folder.0.join("ensile-data").exists(), "the database is gone");
}

/// True if no rate was found at which 5 % are lost. A busy machine may cause this; the output then says so.
fn found_no_capacity(output: &Output, stderr: &str) -> bool {
    output.status.code() == Some(2) && stderr.contains("requests a second loses ")
}

#[test]
fn processes_with_a_recovery_time_are_killed_and_thresholds_are_compared() {
    let folder = Folder::new("papers-slach");
    let target = "slach target --seconds-of-target 1 --kills-of-target 1 --objects-a-second 2000 --target-rate 1000 --out figures";
    let (output, stdout, stderr) = papers(&folder, target);
    // What a busy machine comes to is said, and not judged: only that it is measured.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{stdout}\n{stderr}");
    assert!(stdout.contains("target of 1 s: the longest recovery took"), "{stdout}\n{stderr}");
    assert!(
        stdout.contains("refused: ") && stdout.contains("cannot be kept: loading the checkpoint alone"),
        "{stdout}"
    );
    let adaptive =
        "slach adaptive --of-services ups --loads 10,90 --rounds 1 --seconds 0.2 --of-thresholds 0.001";
    let small = "--objects 500 --objects-max 1000 --time-out-ms 10 --out figures";
    let (output, stdout, stderr) = papers(&folder, &format!("{adaptive} {small}"));
    let mut files = vec!["target"];
    let is_measured = !found_no_capacity(&output, &stderr);
    if is_measured {
        assert!(matches!(output.status.code(), Some(0 | 1)), "{stdout}\n{stderr}");
        let capacity = "requests a second, at which 5 % are lost (later than 10 ms)";
        let compared = ["UPS, fixed 1,000", "UPS, fixed 8,000", "UPS at 10 %: replay", "UPS at 90 %: loss"];
        for said in compared.into_iter().chain([capacity]) {
            assert!(stdout.contains(said), "{said}: {stdout}\n{stderr}");
        }
        files.extend(["adaptive-cost", "adaptive-replay"]);
    }
    for file in files {
        for extension in ["csv", "json", "svg"] {
            assert!(folder.0.join(format!("figures/{file}.{extension}")).is_file(), "{file}.{extension}");
        }
    }
    // A command that fails may leave its folder.
    assert!(!is_measured || !folder.0.join("ensile-data").exists(), "the objects are gone");
}

#[test]
fn a_checkpoint_beside_full_load_and_the_replay_of_a_log_are_measured() {
    let folder = Folder::new("papers-slach-alone");
    let loss = "slach checkpoint-loss --data-mb 4 --between-seconds 0.1 --rounds 2 --out figures";
    let (output, stdout, stderr) = papers(&folder, loss);
    // What a busy machine comes to is said, and not judged: only that it is measured.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{stdout}\n{stderr}");
    for said in
        ["throughput lost while there is a checkpoint: ", "the checkpoint writes: ", "without a checkpoint"]
    {
        assert!(stdout.contains(said), "{said}: {stdout}\n{stderr}");
    }
    let replay = "slach replay --replayed 1000,3000 --replayed-objects 200 --rounds 2 --out figures";
    let (output, stdout, stderr) = papers(&folder, replay);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{stdout}\n{stderr}");
    for said in ["1,000 operations, one core: ", "3,000 operations, beside the objects: "] {
        assert!(stdout.contains(said), "{said}: {stdout}\n{stderr}");
    }
    let table =
        "slach table2 --objects 500 --load-seconds 0.1 --capacity-seconds 0.1 --capacity-timeout-ms 20";
    let (output, stdout, stderr) = papers(&folder, &format!("{table} --rounds 1 --out figures"));
    let mut files = vec!["checkpoint-loss", "checkpoint-loss-over-time", "replay"];
    let is_measured = !found_no_capacity(&output, &stderr);
    if is_measured {
        assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
        for said in ["UPS  reads at most", "HIS  writes at most", "HIS  writes back to back, over 0.95"] {
            // Columns are as wide as their widest name.
            let has = |line: &str| said.split_whitespace().all(|word| line.contains(word));
            assert!(stdout.lines().any(has), "{said}: {stdout}\n{stderr}");
        }
        files.push("table2");
    }
    for file in files {
        for extension in ["csv", "json", "svg"] {
            assert!(folder.0.join(format!("figures/{file}.{extension}")).is_file(), "{file}.{extension}");
        }
    }
    // A command that fails may leave its folder.
    assert!(!is_measured || !folder.0.join("ensile-data").exists(), "the objects are gone");
}

#[test]
fn ups_is_loaded_with_and_without_logging_and_beside_checkpoints() {
    let folder = Folder::new("papers-slach-ups");
    let small = "--objects 500 --load-seconds 0.1 --slice-seconds 0.05 --rounds 2 --capacity-seconds 0.1 \
                 --capacity-timeout-ms 20 --out figures";
    let checkpoints = "--data-mb 2 --between-seconds 0.2 --paced-mb 20";
    for (line, said) in [
        (
            "figure6 --writes 50 --loads 20,60".to_owned(),
            ["base, 50 % writes  20  loss (%)", "log, 50 % writes   60  response, p99 (ms)"],
        ),
        (
            "logging --writes 20,50".to_owned(),
            ["in process, 20 % writes, relaxed, of nothing logged: ", "over loopback, 50 %"],
        ),
        (
            format!("response {checkpoints}"),
            ["mean response at 60 % beside a checkpoint", "p99 response at 80 %"],
        ),
        (
            format!("response {checkpoints} --capacity 4321"),
            ["capacity: 4,321 requests/s, as it was said (--capacity)", "p99 response at 60 %"],
        ),
        (
            format!("figure7 {checkpoints}"),
            ["with a checkpoint     100  throughput (requests/s)", "whole run             100  lost (%)"],
        ),
    ] {
        let (output, stdout, stderr) = papers(&folder, &format!("slach {line} {small}"));
        if found_no_capacity(&output, &stderr) {
            return;
        }
        // What a busy machine comes to is said, and not judged: only that it is measured.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{stdout}\n{stderr}");
        for said in said {
            assert!(stdout.contains(said), "{said}: {stdout}\n{stderr}");
        }
    }
    let files = [
        "figure6-loss",
        "figure6-response",
        "logging",
        "response",
        "response-over-time",
        "figure7-over-time",
    ];
    for file in files {
        assert!(folder.0.join(format!("figures/{file}.svg")).is_file(), "{file}");
    }
    assert!(!folder.0.join("ensile-data").exists(), "the objects are gone");
}

#[test]
fn commits_beside_a_picture_are_timed_whether_it_is_written_or_hangs() {
    let folder = Folder::new("papers-siren-beside");
    let small = "--rows 20000 --seconds 0.5 --hang 0.2 --rounds 1 --ways lists,semi-fuzzy --out figures";
    for (figure, said) in [
        ("foreground", "semi-fuzzy, throughput: "),
        ("hang", "asked: the device hangs all the time, and commits displace versions"),
    ] {
        let (output, stdout, stderr) = papers(&folder, &format!("siren {figure} {small}"));
        // A busy machine may end no picture, or displace no version: then that is said, and the exit code is 1.
        let held = !stdout.contains("NOT HELD");
        assert_eq!(output.status.code(), Some(i32::from(!held)), "{stdout}\n{stderr}");
        assert!(stdout.contains(said) && stdout.contains("longest relaxed commit"), "{stdout}");
        for way in ["lists", "semi-fuzzy"] {
            let has_ended = stdout.contains(&format!("  {way}: a picture takes "));
            let is_whole = !stdout.contains(&format!("  {way}: asked: a full picture in each run: NOT HELD"));
            assert!(!has_ended || is_whole, "a picture that ends has all rows: {stdout}");
        }
        let text = std::fs::read_to_string(folder.0.join(format!("figures/{figure}.csv"))).expect("written");
        for (way, side) in [("lists", "without"), ("lists", "within"), ("semi-fuzzy", "within")] {
            assert!(text.contains(&format!("{way},{side},\"relaxed commit, p99.9\",ms,")), "{text}");
            // Strict ones have runs of their own, which are timed on both sides too.
            let strict = format!("\"{way}, strict\",{side},\"strict commit, p99.9\",ms,");
            assert_eq!(text.contains(&strict), figure == "foreground", "{text}");
        }
        let bounded = "strict, strict commit, p99.9: ";
        assert_eq!(stdout.contains(bounded), figure == "foreground", "{stdout}");
    }
    assert!(!folder.0.join("ensile-data").exists(), "the databases are gone");
}

#[test]
fn pictures_are_compared_with_fuzzy_checkpoints_at_a_pace_that_is_said() {
    let folder = Folder::new("papers-siren-against-fuzzy");
    for (pace, said) in
        [("", "checkpoints are written as fast as this machine's disk\n"), ("--disk-mb 50", "at 50 MB/s\n")]
    {
        let small = "--rows 20000 --seconds 0.5 --rounds 1 --ways semi-fuzzy --out figures";
        let (output, stdout, stderr) = papers(&folder, &format!("siren against-fuzzy {small} {pace}"));
        let held = !stdout.contains("NOT HELD");
        assert_eq!(output.status.code(), Some(i32::from(!held)), "{stdout}\n{stderr}");
        assert!(stdout.contains("  semi-fuzzy / fuzzy (SiloR): ") && stdout.contains(said), "{stdout}");
        let text = std::fs::read_to_string(folder.0.join("figures/against-fuzzy.csv")).expect("written");
        // A run in which no version was displaced has no such figure.
        let has_displaced = text.lines().any(|line| {
            line.contains("displaced versions in a checkpoint")
                && line.starts_with("semi-fuzzy,")
                && line.split(',').rev().nth(3).and_then(|count| count.parse::<f64>().ok()) > Some(0.0)
        });
        let is_told = stdout.contains("processor time of clients, more than fuzzy: ");
        assert_eq!(is_told, has_displaced, "{stdout}\n{text}");
        assert_eq!(text.contains("ns a displaced version"), has_displaced, "{text}");
    }
    assert!(!folder.0.join("ensile-data").exists(), "the databases are gone");
}

#[test]
fn figure_9_compares_pictures_with_undo_and_redo() {
    let folder = Folder::new("papers-siren-fig9");
    let small = "--rows 20000 --seconds 0.5 --clients 1,2 --disk-mb 1000 --rounds 1 --out figures";
    let (output, stdout, stderr) = papers(&folder, &format!("siren fig9 {small}"));
    let held = !stdout.contains("NOT HELD");
    assert_eq!(output.status.code(), Some(i32::from(!held)), "{stdout}\n{stderr}");
    for commit in ["relaxed", "strict"] {
        let ratio = format!("semi-fuzzy, {commit} / fuzzy, undo and redo, {commit}");
        assert!(stdout.contains(&ratio), "{stdout}");
    }
    let processor =
        "semi-fuzzy, relaxed: processor time / fuzzy, undo and redo, relaxed: processor time, 2 clients: ";
    assert!(stdout.contains(processor), "{stdout}");
    assert!(stdout.contains("no log / fuzzy, undo and redo, relaxed, 1 client: "), "{stdout}");
    let text = std::fs::read_to_string(folder.0.join("figures/fig9.csv")).expect("written");
    let log_bytes = |system: &str| -> f64 {
        let names = [format!("\"{system}\",1,log,"), format!("{system},1,log,")];
        let line = text.lines().find(|line| names.iter().any(|name| line.starts_with(name)));
        let line = line.unwrap_or_else(|| panic!("{system}: {text}"));
        line.split(',').rev().nth(3).and_then(|median| median.parse().ok()).expect("a median")
    };
    // Rows of 300 bytes: the log has each update's new row, or both. By how much is not judged.
    let (redo, undo) = (log_bytes("semi-fuzzy, relaxed"), log_bytes("fuzzy, undo and redo, relaxed"));
    assert!(undo > redo, "{redo} {undo}");
    assert_eq!(log_bytes("no log"), 0.0);
}

#[test]
fn figure_9_on_the_slow_disk_has_whole_turns_of_a_checkpoint_and_its_pause() {
    let folder = Folder::new("papers-siren-fig9-slow");
    let slow = "--disk-mb 100 --checkpoint-updates 20000";
    let small = "--rows 5000 --seconds 0.05 --clients 2 --rounds 1 --out figures";
    let (output, stdout, stderr) = papers(&folder, &format!("siren fig9-one-disk {small} {slow}"));
    let held = !stdout.contains("NOT HELD");
    assert_eq!(output.status.code(), Some(i32::from(!held)), "{stdout}\n{stderr}");
    assert!(
        stdout.contains("semi-fuzzy, relaxed, 2 clients: ") && stdout.contains("asked <= 1.5"),
        "{stdout}"
    );
    let text = std::fs::read_to_string(folder.0.join("figures/fig9-one-disk.csv")).expect("written");
    assert!(text.contains("a checkpoint every 20,000"), "{text}");
    assert!(text.contains("one disk of 100 MB/s, 1 ms a sync"), "a sync takes what is usual there: {text}");
}

#[test]
fn increments_write_the_pages_that_were_dirty() {
    let folder = Folder::new("papers-siren-increments");
    let small = "--rows 20000 --rounds 1 --increments 12 --dirty 1,10 --out figures";
    let (output, stdout, stderr) = papers(&folder, &format!("siren increments {small}"));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stderr.contains("Increments: about "), "{stderr}");
    let text = |name: &str| std::fs::read_to_string(folder.0.join(name)).expect("written");
    let (costs, files) = (text("figures/increments.csv"), text("figures/increments-files.csv"));
    let median = |text: &str, begin: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(begin));
        let line = line.unwrap_or_else(|| panic!("{begin}: {text}"));
        line.split(',').rev().nth(3).and_then(|median| median.parse().ok()).expect("a median")
    };
    let [one, ten] = ["increment,1 % of pages,written,", "increment,10 % of pages,written,"]
        .map(|line| median(&costs, line));
    // A directory is small beside many pages only; but ten times the pages are surely more bytes.
    assert!(one > 1.0 && one < ten && ten > 10.0 && ten < 20.0, "{one} {ten}");
    let most = median(&files, "increments of 1 %,12,page files at most,");
    assert!((1.0..3.0).contains(&most), "{most}");
    assert!(median(&files, "increments of 1 % / a full picture,12,ratio,") > 0.0);
    assert!(!folder.0.join("ensile-data").exists(), "the databases are gone");
}

#[test]
fn a_backup_is_made_beside_ycsb_and_what_is_restored_is_the_database() {
    let folder = Folder::new("papers-siren-backup");
    let small = "--rows 20000 --seconds 0.5 --rounds 1 --page-bytes 4096 --out figures";
    let (output, stdout, stderr) = papers(&folder, &format!("siren backup {small}"));
    // The throughput on a busy machine is said, and not judged.
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("  round 1: restored: all 20,000 rows as at the end of epoch "), "{stdout}");
    assert!(stdout.contains("throughput within / without: "), "{stdout}");
    let text = std::fs::read_to_string(folder.0.join("figures/backup.csv")).expect("written");
    let median = |begin: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(begin));
        let line = line.unwrap_or_else(|| panic!("{begin}: {text}"));
        line.split(',').rev().nth(3).and_then(|median| median.parse().ok()).expect("a median")
    };
    // One of a hundred pages, and what a small backup has around its pages.
    let bytes = median("backup,increment,written,% of the full backup's bytes,");
    assert!(bytes > 1.0 && bytes < 10.0, "{bytes}");
    // 20,000 rows of 108 bytes at least.
    assert!(median("backup,within,written,MB,") > 2.16);
    for extension in ["json", "svg"] {
        assert!(folder.0.join(format!("figures/backup.{extension}")).exists(), "{extension}");
    }
    assert!(!folder.0.join("ensile-data").exists(), "the databases are gone");
}

#[test]
fn what_killed_copiers_leave_is_compared_with_the_state_of_its_epoch() {
    let folder = Folder::new("papers-siren-backup-kills");
    let small = "--rows 5000 --kills 8 --page-bytes 4096 --out figures";
    let (output, stdout, stderr) = papers(&folder, &format!("siren backup-kills {small}"));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("\n  8 kills, and "), "{stdout}");
    assert!(stdout.contains(" rows compared: each had the state of its epoch\n"), "{stdout}");
    let text = std::fs::read_to_string(folder.0.join("figures/backup-kills.csv")).expect("written");
    let kills = text.lines().filter(|line| line.contains(",kills,1,"));
    let counts = kills.map(|line| line.split(',').rev().nth(3).and_then(|count| count.parse::<f64>().ok()));
    assert_eq!(counts.map(|count| count.expect("a count")).sum::<f64>(), 8.0, "{text}");
    for extension in ["json", "svg"] {
        assert!(folder.0.join(format!("figures/backup-kills.{extension}")).exists(), "{extension}");
    }
    assert!(!folder.0.join("ensile-data").exists(), "the databases are gone");
}

#[test]
fn checkpoints_by_ranges_are_run_beside_whole_ones() {
    let folder = Folder::new("papers-siren-cycling");
    let small = "--rows 20000 --disk-mb 10 --updates 2000 --rounds 1 --seconds 1 --ranges 4 --out figures";
    let (_, stdout, stderr) = papers(&folder, &format!("siren cycling {small}"));
    for system in ["whole", "cycling"] {
        assert!(
            stdout.contains(&format!("{system}: asked: 2,000 updates/s, two rounds; held: ")),
            "{stdout}\n{stderr}"
        );
    }
    let text = std::fs::read_to_string(folder.0.join("figures/cycling.csv")).expect("written");
    for metric in ["log that a recovery replays, peak", "log on disk, mean", "an open,"] {
        assert_eq!(text.matches(metric).count(), 2, "{metric}: {text}");
    }
    assert!(text.contains("cycling / whole"), "{text}");
    assert!(!folder.0.join("ensile-data").exists(), "the databases are gone");
}

#[test]
fn what_a_commit_costs_is_counted_in_processes_of_their_own() {
    let folder = Folder::new("papers-siren-cost");
    for load in ["ycsb", "tpcc"] {
        for setup in ["in-memory", "fuzzy", "before", "behind"] {
            let line = format!(
                "siren-cost-run --load {load} --setup {setup} --records 500 --transactions 50 --page-bytes 16384 \
                 --data ensile-data --seed 1 --epoch 0.01"
            );
            let (output, stdout, stderr) = papers(&folder, &line);
            assert!(
                output.status.success() && stdout.trim().parse::<u64>().is_ok(),
                "{line}: {stdout}\n{stderr}"
            );
            let (_, stdout, stderr) = papers(&folder, &format!("{line} --says-entries"));
            let entries =
                stdout.trim().parse::<u64>().unwrap_or_else(|_| panic!("{line}: {stdout}\n{stderr}"));
            // Without a log there are none.
            assert_eq!(entries > 0, setup != "in-memory", "{line}: {entries}");
        }
    }
}

#[test]
fn a_figure_that_could_not_be_written_is_not_measured() {
    let folder = Folder::new("papers-unwritable");
    let siren = "siren table3 --rows 1000 --ways lists";
    for figure in ["silo fig4 --workers 1", "silor fig1 --records 1000", siren] {
        let (output, stdout, stderr) = papers(&folder, &format!("{figure} --rounds 1 --out /proc/nope"));
        assert_eq!((output.status.code(), &*stdout), (Some(1), ""), "{stderr}");
        assert!(stderr.starts_with("ensile-papers: ") && stderr.contains("/proc/nope"), "{figure}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "nothing was loaded: {stderr}");
    }
}

#[test]
fn nonsense_ends_with_exit_code_2_and_a_reason() {
    let folder = Folder::new("papers-usage");
    for (line, reason) in [
        ("silo fig12", "possible values"),
        ("silo fig8 --warehouses 65", "65 is not in 1..=64"),
        ("silo space --records 99999999999", "do not fit into the memory that is free; "),
        ("silo fig4 --records 99999999999", "do not fit into the memory that is free; "),
        ("silo fig7 --tmpfs .", "is in no memory file system"),
        ("siren table4", "possible values"),
        ("siren table3 --ways pages", "possible values"),
        ("siren table3 --rows 99", "99 is not in 100.."),
        (
            "siren skew --rows 4294967296 --row-bytes 65536 --out .",
            "do not fit into the memory that is free: --rows",
        ),
    ] {
        let (output, _, stderr) = papers(&folder, line);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(reason), "{line}: {stderr}");
    }
    assert_eq!(
        std::fs::read_dir(&folder.0).expect("ours").count(),
        0,
        "what is refused leaves nothing behind"
    );
    let (output, stdout, _) = papers(&folder, "--version");
    assert!(output.status.success() && stdout.starts_with("ensile-papers "), "{stdout}");
}
