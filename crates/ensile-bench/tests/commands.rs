//! The `ensile-bench` command from outside: the main job on a small scale, JSON for programs, and exit codes.
//!
//! Neighbours: the modules' own tests.

#[path = "../../ensile-cli/tests/outside/mod.rs"]
mod outside;

use std::process::Output;

use outside::Folder;

/// Runs `ensile-bench` with the words of a line.
fn bench(folder: &Folder, line: &str) -> (Output, String, String) {
    folder.run(env!("CARGO_BIN_EXE_ensile-bench"), line)
}

#[test]
fn a_killed_business_recovers_with_everything_that_it_acknowledged() {
    let folder = Folder::new("bench-crash");
    let line = "tpcc --crash-after 0.3 --repeat 2 --lives 2 --kill-in-recovery 2 --items 200 --customers 30 \
                --threads 2";
    let (output, stdout, stderr) = bench(&folder, line);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.ends_with("verdict: clean\n"), "{stdout}");
    assert_eq!(stdout.lines().count(), 6, "four kills, the folder, the verdict: {stdout}");
    let left = folder.0.join("ensile-data/tpcc-crash");
    assert!(
        stdout.contains("the database stays in ensile-data/tpcc-crash\n") && left.join("MANIFEST").exists()
    );
}

#[test]
fn a_killed_business_recovers_from_pictures_with_and_without_a_log() {
    let folder = Folder::new("bench-crash-pictures");
    let recovers = |kept_by: &str, seconds: f64| {
        let line = format!(
            "tpcc --crash-after {seconds} --lives 2 --kill-in-recovery 1 --checkpoint-ms 50 --items 200 --customers 30 {kept_by}"
        );
        let (output, stdout, stderr) = bench(&folder, &line);
        assert!(output.status.success(), "{kept_by}: {stdout}\n{stderr}");
        assert!(
            stdout.ends_with("verdict: clean\n") && !stdout.contains(": 0 orders"),
            "{kept_by}: {stdout}"
        );
        // Without a log nothing is replayed.
        let replays =
            stdout.lines().filter(|line| line.starts_with("kill ") && !line.contains(": 0 entries ("));
        assert!(kept_by == "--picture-checkpoints" || replays.count() == 0, "{stdout}");
        let left =
            std::fs::read_to_string(folder.0.join("ensile-data/tpcc-crash/MANIFEST")).expect("is there");
        left.lines().any(|line| line.starts_with("picture "))
    };
    for kept_by in ["--picture-checkpoints", "--no-log"] {
        // On a slow machine a life may end before its first picture is installed.
        assert!([0.3, 3.0, 30.0].into_iter().any(|seconds| recovers(kept_by, seconds)), "{kept_by}");
    }
}

#[test]
fn a_victim_is_killed_after_its_first_acknowledgement_however_slow_the_machine_is() {
    let folder = Folder::new("bench-at-once");
    // An epoch takes longer than that, so nothing is acknowledged by then.
    let (output, stdout, stderr) = bench(&folder, "tpcc --crash-after 0.01 --items 200 --customers 30");
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.ends_with("verdict: clean\n") && !stdout.contains(": 0 orders"), "{stdout}");
}

#[test]
fn programs_get_one_json_document() {
    let folder = Folder::new("bench-json");
    let small = "--seconds 0.05 --rounds 1 --json";
    for line in [
        "ycsb --records 1000 --threads 2 --batch 4",
        "ycsb --records 1000 --threads 2 --systems memsilo,memsilo-processes",
        "tpcc --items 200 --customers 30 --check",
        "tpcc --items 200 --customers 30 --check --no-announce --no-stock-info --threads 2 --systems memsilo-processes",
        "snapshots --records 10000 --snapshot-ms 20",
        "limits contended --records 100 --seconds 0.05 --json",
    ] {
        let options = if line.starts_with("limits") { "" } else { small };
        let (_, stdout, stderr) = bench(&folder, &format!("{line} {options}"));
        assert!(
            stdout.starts_with("{\n  \"machine\": {") && stdout.ends_with("}\n"),
            "{line}: {stdout}\n{stderr}"
        );
    }
}

#[test]
fn a_figure_that_could_not_be_written_is_not_measured() {
    let folder = Folder::new("bench-unwritable");
    let (output, stdout, stderr) = bench(&folder, "recovery log --records 1000 --rounds 1 --out /proc/nope");
    assert_eq!((output.status.code(), &*stdout), (Some(1), ""), "{stderr}");
    assert!(stderr.starts_with("ensile-bench: ") && stderr.contains("/proc/nope"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "nothing was loaded: {stderr}");
}

#[test]
fn nonsense_ends_with_exit_code_2_and_a_reason() {
    let folder = Folder::new("bench-usage");
    for (line, reason) in [
        ("ycsb --records 0", "0 is not in 1.."),
        ("ycsb --systems oracle", "possible values"),
        ("ycsb --workload e --systems key-value --records 10", "key-value cannot scan"),
        ("ycsb --value-bytes 7", "sizes are [8, 30, 100, 1000, 10000]"),
        ("tpcc --systems btreemap", "btreemap has no transactions"),
        ("tpcc --systems silo,silo", "names silo twice"),
        ("silo fig4 --records 1000", "--release -p ensile-papers -- silo"),
        ("slach --help", "--release -p ensile-papers -- silo"),
    ] {
        let (output, _, stderr) = bench(&folder, line);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(reason), "{line}: {stderr}");
    }
    assert_eq!(
        std::fs::read_dir(&folder.0).expect("ours").count(),
        0,
        "what is refused leaves nothing behind"
    );
    let (output, stdout, _) = bench(&folder, "--version");
    assert!(output.status.success() && stdout.starts_with("ensile-bench "), "{stdout}");
}
