//! The service in lives that end with SIGKILL: what it printed as durable is there, and nothing is there twice.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use ensile_base::random::Random;
use ensile_sim::environment::count;

use crate::build::{compile, empty_folder, package, run};

/// What came of some lives.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    /// Objects that were loaded from checkpoints.
    pub(crate) loaded: u64,
    /// Operations that were replayed.
    pub(crate) replayed: u64,
    /// Operations that were passed over, because their item does not exist.
    pub(crate) passed_over: u64,
    /// Changes that were printed as durable.
    pub(crate) acknowledged: u64,
}

/// Quantity at which the service withdraws an item, and begins anew with its next visit.
const WITHDRAWN_AT: u64 = 3;

/// Quantity of each item as the service has printed it as durable; 0 of an item that is not listed.
struct Ledger {
    quantities: BTreeMap<u64, u64>,
    withdrawn_at: u64,
    killed: Killed,
}

impl Ledger {
    fn new(withdrawn_at: u64) -> Self {
        Self { quantities: BTreeMap::new(), withdrawn_at, killed: Killed::default() }
    }

    /// Quantity that the next change leads to.
    fn next(&self, quantity: u64) -> u64 {
        if quantity == self.withdrawn_at { 0 } else { quantity + 1 }
    }

    /// Takes a line of the service. An item's price is set to the quantity that its next addition leads to; both are
    /// logged one after the other, and waited for together.
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("a number: {line}"));
        match words[0] {
            "loaded" => {
                self.killed.loaded += number(1);
                self.killed.replayed += number(3);
                self.killed.passed_over += number(5);
            }
            "recovered" => {
                let (id, price, quantity) = (number(1), number(2), number(3));
                let before = self.quantities.get(&id).copied().unwrap_or(0);
                assert!(
                    quantity == before || quantity == self.next(before),
                    "lost or twice: item {id} had {before}, at most one more change was logged: {quantity}"
                );
                let is_begun = quantity > 0 && price == quantity + 1;
                assert!(price == quantity || is_begun, "item {id}: price {price}, quantity {quantity}");
                self.quantities.insert(id, quantity);
            }
            "durable" => {
                let (id, quantity) = (number(1), number(2));
                let before = self.quantities.insert(id, quantity).unwrap_or(0);
                assert_eq!(quantity, self.next(before), "item {id}");
                self.killed.acknowledged += 1;
            }
            "checkpoint" => assert!(number(1) > 0, "{line}"),
            _ => panic!("not a line of the service: {line}"),
        }
    }
}

/// Lines that it prints once it is open.
const OPENED_LINES: u64 = 1001;

/// Lives of a service, each killed once it has printed some number of lines; then one more, which is killed once it has
/// recovered.
pub(crate) fn killed_lives(random: &mut Random, lives: u32, service: impl Fn() -> Command) -> Killed {
    let mut ledger = Ledger::new(WITHDRAWN_AT);
    for life in 0..=lives {
        let mut lines = match random.next_below(5) {
            _ if life == lives => OPENED_LINES,
            // In the middle of the open, or of what it prints then.
            0 => random.next_below(OPENED_LINES),
            _ => random.next_between(OPENED_LINES, 2500),
        };
        // However fast the machine is, some lives leave a checkpoint and a log behind it.
        let mut awaits_checkpoint = life % 4 == 1;
        let mut child = service().stdout(Stdio::piped()).spawn().expect("the service starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output")).lines();
        while awaits_checkpoint || lines > 0 {
            let line = output.next().expect("it runs until it is killed").expect("text");
            if awaits_checkpoint && line.starts_with("checkpoint ") {
                (awaits_checkpoint, lines) = (false, random.next_between(50, 200));
            }
            lines = lines.saturating_sub(1);
            ledger.take(&line);
        }
        child.kill().expect("is killed");
        // What was printed before the kill counts; a line is one write, so it is there or not.
        output.for_each(|line| ledger.take(&line.expect("text")));
        child.wait().expect("has ended");
    }
    ledger.killed
}

fn lives_of(example: &str) {
    let folder = empty_folder(example);
    let program = folder.join("service");
    compile(&package().join("examples").join(example), &program, ["-Wpedantic"]);
    let service = || {
        let mut command = Command::new(&program);
        command.arg(folder.join("items"));
        command
    };
    let lives = count("ENSILE_KILLS", 12) as u32;
    let killed = killed_lives(&mut Random::from_seed(7), lives, service);
    println!("{example}, {lives} kills: {killed:?}");
    assert!(killed.loaded > 0 && killed.replayed > 0 && killed.acknowledged > 1000, "{killed:?}");
    std::fs::remove_dir_all(&folder).expect("is removed");
}

#[test]
fn the_service_in_cpp_keeps_what_it_printed_through_kills() {
    lives_of("my_service.cpp");
}

#[test]
fn the_service_in_c_keeps_what_it_printed_through_kills() {
    lives_of("my_service.c");
}

#[test]
fn what_a_process_safe_service_logged_is_there_without_a_wait_after_kills() {
    let folder = empty_folder("process-safe");
    let program = folder.join("counters");
    compile(&package().join("tests/programs/process_safe.cpp"), &program, ["-Wpedantic"]);
    let mut ledger = Ledger::new(u64::MAX);
    let mut random = Random::from_seed(3);
    for _ in 0..12 {
        let mut command = Command::new(&program);
        let mut child = command.arg(folder.join("items")).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output")).lines();
        for _ in 0..random.next_below(4000) {
            ledger.take(&output.next().expect("it runs until it is killed").expect("text"));
        }
        child.kill().expect("is killed");
        output.for_each(|line| ledger.take(&line.expect("text")));
        child.wait().expect("has ended");
    }
    assert!(ledger.killed.replayed > 0 && ledger.killed.acknowledged > 5000, "{:?}", ledger.killed);
    std::fs::remove_dir_all(&folder).expect("is removed");
}

/// Runs it under the address sanitizer, which sees the library's allocations too.
fn sanitized(source: &Path, arguments: &[&str]) {
    let folder = empty_folder(&source.file_stem().expect("a name").to_string_lossy());
    let program = folder.join("program");
    compile(source, &program, ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    for _ in 0..2 {
        let mut command = Command::new(&program);
        command.arg(folder.join("items")).args(arguments).env("ASAN_OPTIONS", "detect_leaks=1");
        run(&mut command);
    }
    std::fs::remove_dir_all(&folder).expect("is removed");
}

#[test]
fn the_services_leak_nothing_and_touch_nothing_that_is_not_theirs() {
    sanitized(&package().join("examples/my_service.cpp"), &["100"]);
    sanitized(&package().join("examples/my_service.c"), &["100"]);
}
