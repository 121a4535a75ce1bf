//! Every kept input again, and mutations of them: what the fuzz targets found stays found, on the stable toolchain.
//!
//! `ENSILE_FUZZ_ROUNDS` sets how many mutations each target gets, `ENSILE_FUZZ_SECONDS` for how long instead;
//! `ENSILE_FUZZ_SEED` which. A failure prints the input, to be kept in `fuzz/corpus/<target>`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_fuzz::{TARGETS, Target, mutate};

const ROUNDS: u64 = 300;
/// As `ROUNDS`, for targets with a server of their own for each input.
const SERVED_ROUNDS: u64 = 60;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

/// The kept inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it is listed").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("it can be read")).collect()
}

fn run((name, body): Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("target {name} failed on (in hex): {hex}");
        resume_unwind(panic);
    }
}

fn check(name: &str) {
    let target = *TARGETS.iter().find(|target| target.0 == name).expect("a target");
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "a target without a corpus");
    run(target, &[]);
    corpus.iter().for_each(|input| run(target, input));
    let (clock, seconds) = (Clock::machine(), setting("ENSILE_FUZZ_SECONDS"));
    let few = if matches!(name, "commands" | "sandbox") { SERVED_ROUNDS } else { ROUNDS };
    let rounds = if seconds.is_some() { u64::MAX } else { setting("ENSILE_FUZZ_ROUNDS").unwrap_or(few) };
    let end = clock.nanos() + Duration::from_secs(seconds.unwrap_or(u64::from(u32::MAX))).as_nanos() as u64;
    let mut random = Random::from_seed(setting("ENSILE_FUZZ_SEED").unwrap_or(1));
    let mut done = 0;
    while done < rounds && clock.nanos() < end {
        let mut draw = || &corpus[random.next_below(corpus.len() as u64) as usize];
        let (mut input, other) = (draw().clone(), draw());
        mutate(&mut input, other, &mut random);
        run(target, &input);
        done += 1;
    }
    println!("{name}: {} kept inputs, {done} mutations", corpus.len());
}

#[test]
fn key_order() {
    check("key_order");
}

#[test]
fn index() {
    check("index");
}

#[test]
fn log_blocks() {
    check("log_blocks");
}

#[test]
fn page_files() {
    check("page_files");
}

#[test]
fn recovery() {
    check("recovery");
}

#[test]
fn resp() {
    check("resp");
}

#[test]
fn commands() {
    check("commands");
}

#[test]
fn sandbox() {
    check("sandbox");
}

#[test]
fn every_target_has_its_test() {
    assert_eq!(
        TARGETS.map(|target| target.0),
        ["key_order", "index", "log_blocks", "page_files", "recovery", "resp", "commands", "sandbox"]
    );
}
