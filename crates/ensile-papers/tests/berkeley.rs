//! `ensile-papers slach berkeley` on a small scale: the hash table beside Berkeley DB, of Debian's package
//! libdb5.3-dev.
//!
//! It is not part of a plain `cargo test`, which must pass without that. `ci/berkeley.sh` installs it and runs this;
//! without it the command says what it needs, and this fails.

#[path = "../../ensile-cli/tests/outside/mod.rs"]
mod outside;

use outside::Folder;

#[test]
#[ignore = "needs libdb5.3-dev: run by ci/berkeley.sh"]
fn both_sides_are_called_for_the_same_keys_and_every_ratio_is_told() {
    let folder = Folder::new("papers-berkeley");
    let small = "--sizes 30,10240 --keys 3000,200 --run-seconds 0.1 --checkpoint-interval 0.02 --rounds 2 --cache-mb 64 --out figures";
    let (output, stdout, stderr) =
        folder.run(env!("CARGO_BIN_EXE_ensile-papers"), &format!("slach berkeley {small}"));
    // What a busy machine comes to is said, and not judged: only that it is measured.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{stdout}\n{stderr}");
    for said in [
        "  30 B, 3,000 keys:\n",
        "  10 KB, 200 keys:\n",
        "  lookups, PHT / Berkeley DB: ",
        "  multi-gets of 16 / single gets of Berkeley DB: ",
        "  updates, PHT / Berkeley DB: ",
        "of the device's write rate: ",
        "  updates lost to checkpoints, Berkeley DB's ",
        "  pages found in the cache: 100 %, asked >= 99.9 %: held\n",
        "  resident memory, Berkeley DB's ",
    ] {
        assert!(stdout.contains(said), "{said}: {stdout}\n{stderr}");
    }
    for file in ["berkeley-lookups", "berkeley-updates"] {
        let csv = std::fs::read_to_string(folder.0.join(format!("figures/{file}.csv"))).expect("written");
        for row in
            ["PHT,30 B,lookups,", "Berkeley DB,10 KB,updates,", "\"Berkeley DB, checkpoints\",30 B,updates,"]
        {
            assert!(csv.contains(row), "{row}: {csv}");
        }
        let counts = csv.lines().filter(|line| line.contains(",checkpoints,in a run,"));
        let least = counts.map(|line| line.split(',').rev().nth(2).expect("the least of the rounds"));
        let least: Vec<f64> = least.map(|count| count.parse().expect("a number")).collect();
        assert!(least.len() == 4 && least.iter().all(|count| *count >= 3.0), "both sides, both sizes: {csv}");
        assert!(
            csv.contains("# updates lost to checkpoints, Berkeley DB's "),
            "verdicts are in the file: {csv}"
        );
        assert!(folder.0.join(format!("figures/{file}.svg")).is_file());
    }
    assert!(!folder.0.join("ensile-data").exists(), "the tables are gone");
}
