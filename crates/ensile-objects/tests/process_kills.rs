//! Processes that are killed by SIGKILL, again and again, while threads of theirs change objects at the process-safe
//! level: what they acknowledged over a pipe is there, once and in order. `ENSILE_KILLS` says how many (30),
//! `ENSILE_SEED` draws others.
//!
//! The process that is killed is this test program once more, which runs one test of it.
#![cfg(not(any(loom, shuttle)))]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_objects::{CheckpointPolicy, CodecResult, ObjectDurability, Objects, ObjectsBuilder, Persistent};
use ensile_sim::environment::{count, number};

/// Where the process that is killed has its objects.
const FOLDER: &str = "ENSILE_KILLED_FOLDER";
const SEED: &str = "ENSILE_SEED";
const THREADS: usize = 3;
const KEYS: u64 = 5;
/// An acknowledgement: thread, key, and the number of the operation among those of this thread on this object.
const RECORD_BYTES: usize = 24;

/// Numbers of operations by thread: a lost, repeated or late one shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    last: [u64; THREADS],
    operations: u64,
    out_of_order: u64,
}

impl Persistent for Numbers {
    /// Thread and number.
    type Operation = (u64, u64);
    type Output = ();
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(numbers: &mut Option<Self>, (thread, number): &(u64, u64)) {
        let numbers = numbers.get_or_insert_default();
        let last = &mut numbers.last[*thread as usize];
        numbers.out_of_order += u64::from(*number != *last + 1);
        *last = *number;
        numbers.operations += 1;
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let words = self.last.iter().chain([&self.operations, &self.out_of_order]);
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn decode(_version: u16, bytes: &[u8]) -> CodecResult<Self> {
        let words: Vec<u64> = words(bytes);
        let [a, b, c, operations, out_of_order] = words[..] else { return Err("five words".into()) };
        Ok(Self { last: [a, b, c], operations, out_of_order })
    }

    fn encode_operation((thread, number): &(u64, u64), out: &mut Vec<u8>) {
        out.extend_from_slice(&thread.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        // Of several lengths, some of which end within a word.
        out.extend_from_slice(&[7; 37][..(number % 38) as usize]);
    }

    fn decode_operation(_version: u16, bytes: &[u8]) -> CodecResult<(u64, u64)> {
        let words = words(bytes.get(..16).ok_or("two words")?);
        Ok((words[0], words[1]))
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn open(folder: &Path) -> Objects<u64, Numbers> {
    let policy = CheckpointPolicy { log_bytes: Some(256 << 10), ..CheckpointPolicy::on_demand() };
    ObjectsBuilder::new(folder)
        .durability(ObjectDurability::Process)
        .loggers(2)
        .log_file_bytes(64 << 10)
        .epoch_interval(Duration::from_millis(3))
        .policy(&policy)
        .open()
        .expect("opens")
}

/// Does nothing unless it is the process that is to be killed.
#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let objects = open(&folder);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let objects = &objects;
            scope.spawn(move || change_for_ever(objects, thread));
        }
    });
}

fn change_for_ever(objects: &Objects<u64, Numbers>, thread: u64) {
    let mut random = Random::seeded(number(SEED, 0) * THREADS as u64 + thread);
    let found =
        |key| objects.read(&key, |found| found.map_or(0, |found: &Numbers| found.last[thread as usize]));
    let mut last: Vec<u64> = (0..KEYS).map(|key| found(key).expect("reads")).collect();
    loop {
        let key = random.below(KEYS);
        let operation = &mut last[key as usize];
        *operation += 1;
        objects.update(key, &(thread, *operation)).expect("is logged");
        let record = [thread, key, *operation].map(u64::to_le_bytes).concat();
        // One write of less than a pipe takes at once: all of it arrives, or nothing.
        std::io::stderr().write_all(&record).expect("the pipe is read");
    }
}

fn spawn(folder: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Lets it run for a moment, behind its first acknowledgement or from its start, and kills it. What it acknowledged.
fn live_and_die(folder: &Path, random: &mut Random) -> Vec<u8> {
    let (from_its_start, micros) = (random.percent(30), random.below(40_000));
    let mut child = spawn(folder, random.below(1 << 32));
    let mut pipe = child.stderr.take().expect("a pipe");
    let mut acknowledged = Vec::new();
    if !from_its_start {
        let mut first = [0; RECORD_BYTES];
        pipe.read_exact(&mut first).expect("it acknowledges something");
        acknowledged.extend_from_slice(&first);
    }
    let heard = std::thread::scope(|scope| {
        let listener = scope.spawn(move || {
            let mut heard = Vec::new();
            pipe.read_to_end(&mut heard).map(|_| heard)
        });
        sleep(Duration::from_micros(micros));
        child.kill().and_then(|()| child.wait()).expect("it is killed");
        listener.join().expect("no panic")
    });
    acknowledged.extend(heard.expect("the pipe is read"));
    assert!(acknowledged.len().is_multiple_of(RECORD_BYTES), "{}", String::from_utf8_lossy(&acknowledged));
    acknowledged
}

/// The last acknowledged number of each thread and key.
type Last = [[u64; KEYS as usize]; THREADS];

fn note(last: &mut Last, acknowledged: &[u8]) {
    for record in words(acknowledged).chunks_exact(3) {
        let of = &mut last[record[0] as usize][record[1] as usize];
        assert!(record[2] > *of, "acknowledged in order");
        *of = record[2];
    }
}

/// Opens, judges and closes: nothing acknowledged is lost, nothing is there twice or out of order. How many entries
/// only buffers had.
fn judge(folder: &Path, last: &mut Last, (kill, lives): (u64, u64)) -> u64 {
    let objects = open(folder);
    for key in 0..KEYS {
        let found = objects.read(&key, |found| found.cloned()).expect("reads").unwrap_or_default();
        assert_eq!(found.out_of_order, 0, "kill {kill}, object {key}: {found:?}");
        assert_eq!(found.operations, found.last.iter().sum::<u64>(), "kill {kill}, object {key}: {found:?}");
        for (thread, of) in last.iter_mut().enumerate() {
            let (acknowledged, there) = (of[key as usize], found.last[thread]);
            // In each life since the last look one was in flight, whose outcome is unknown.
            assert!(
                (acknowledged..=acknowledged + lives).contains(&there),
                "kill {kill}, object {key}, thread {thread}: {acknowledged} acknowledged, {there} there"
            );
            of[key as usize] = there;
        }
    }
    let taken = objects.recovery().taken_entries;
    objects.close().expect("closes");
    taken
}

#[test]
fn what_was_acknowledged_survives_sigkill_once_and_in_order() {
    let folder = std::env::temp_dir().join(format!("ensile-kills-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let seed = number(SEED, 1);
    let mut random = Random::seeded(seed);
    let (mut last, mut taken): (Last, u64) = Default::default();
    let (least, mut kills, mut looks, mut lives) = (count("ENSILE_KILLS", 30), 0, 0, 0);
    let operations = |last: &Last| last.iter().flatten().sum::<u64>();
    let is_enough = |last: &Last, taken: u64| operations(last) > 20 * least && taken > least / 8;
    // More of them where the machine is so slow that little is done in a life.
    while kills < least || !is_enough(&last, taken) && kills < 10 * least {
        note(&mut last, &live_and_die(&folder, &mut random));
        (kills, lives) = (kills + 1, lives + 1);
        // Now and then a killed process is recovered by one that is killed too.
        if kills >= least || random.percent(60) {
            taken += judge(&folder, &mut last, (kills, lives));
            (looks, lives) = (looks + 1, 0);
        }
    }
    let operations = operations(&last);
    println!(
        "seed {seed}, {kills} kills, {looks} looks: {operations} operations, {taken} of which only buffers had"
    );
    assert!(is_enough(&last, taken), "{operations} operations, {taken} from buffers");
    std::fs::remove_dir_all(&folder).expect("removed");
}
