//! Processes that are killed by SIGKILL, again and again, while their threads change objects at the process-safe level:
//! every change that was acknowledged over a pipe survives, once and in order. `ENSILE_KILLS` is the number of kills
//! (30), and `ENSILE_SEED` draws other moments.
//!
//! A killed process is this test program once more, which runs one of its tests.
#![cfg(not(any(loom, shuttle)))]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ensile_base::random::Random;
use ensile_base::sync::sleep;
use ensile_objects::{
    Application, ApplicationLog, CallBackResult, CheckpointPolicy, CodecResult, ObjectDurability, ObjectLife,
    ObjectWriter, Objects, ObjectsBuilder, Persistent,
};
use ensile_sim::environment::{count, number};

/// Folder of the killed process.
const FOLDER: &str = "ENSILE_KILLED_FOLDER";
const SEED: &str = "ENSILE_SEED";
const THREADS: usize = 3;
const KEYS: u64 = 5;
/// Bytes of an acknowledgement: thread, key, and the operation's number among the thread's operations on the object.
const RECORD_BYTES: usize = 24;

/// Numbers of operations by thread: a lost, repeated or late operation shows.
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
        // Of several lengths, and not only of whole words.
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

fn builder(folder: &Path, checkpoint_bytes: u64) -> ObjectsBuilder {
    let policy = CheckpointPolicy { log_bytes: Some(checkpoint_bytes), ..CheckpointPolicy::on_demand() };
    ObjectsBuilder::new(folder)
        .durability(ObjectDurability::Process)
        .loggers(2)
        .log_file_bytes(64 << 10)
        .epoch_interval(Duration::from_millis(3))
        .policy(&policy)
}

fn open(folder: &Path) -> Objects<u64, Numbers> {
    builder(folder, 256 << 10).open().expect("opens")
}

/// Has no effect, except in the process that a test kills.
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
    let mut random = Random::from_seed(number(SEED, 0) * THREADS as u64 + thread);
    let found =
        |key| objects.read(&key, |found| found.map_or(0, |found: &Numbers| found.last[thread as usize]));
    let mut last: Vec<u64> = (0..KEYS).map(|key| found(key).expect("reads")).collect();
    loop {
        let key = random.next_below(KEYS);
        let operation = &mut last[key as usize];
        *operation += 1;
        objects.update(key, &(thread, *operation)).expect("is logged");
        acknowledge([thread, key, *operation]);
    }
}

fn acknowledge(record: [u64; RECORD_BYTES / 8]) {
    // A write of a few bytes: the pipe takes the whole record, or nothing.
    std::io::stderr().write_all(&record.map(u64::to_le_bytes).concat()).expect("the pipe is read");
}

/// Last step of an object: made, changed up to this step, removed, made again. A missing object has step 0.
const LAST_STEP: u64 = 3;

fn next_step(step: u64) -> u64 {
    (step + 1) % (LAST_STEP + 1)
}

/// Steps of objects; each thread has objects of its own. A call-back refuses an operation that does not follow the
/// object's step.
struct Steps(Vec<Mutex<u64>>);

impl Steps {
    fn open(folder: &Path) -> (Arc<Self>, ApplicationLog) {
        let steps = Arc::new(Self((0..THREADS as u64 * KEYS).map(|_| Mutex::new(0)).collect()));
        let log = builder(folder, 32 << 10).mark_lives().open_application(Arc::clone(&steps)).expect("opens");
        (steps, log)
    }

    fn at(&self, object: u64) -> u64 {
        *self.0[object as usize].lock().expect("nothing panics")
    }
}

impl Application for Steps {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        out.ckpt_each(from..self.0.len() as u64, |object, bytes| {
            let step = self.0[object as usize].lock().expect("nothing panics");
            bytes.extend_from_slice(&step.to_le_bytes());
            Ok((*step > 0).then_some(step))
        })
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        *self.0[object as usize].lock().expect("nothing panics") = words(bytes)[0];
        Ok(())
    }

    fn replay_one(&self, object: u64, to: u32, _: &[&[u8]]) -> CallBackResult {
        let mut step = self.0[object as usize].lock().expect("nothing panics");
        if next_step(*step) != u64::from(to) {
            return Err(format!("a step from {step} to {to}").into());
        }
        *step = to.into();
        Ok(())
    }
}

/// Has no effect, except in the process that a test kills.
#[test]
fn the_application_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let (steps, log) = Steps::open(&folder);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (steps, log) = (&steps, &log);
            scope.spawn(move || step_for_ever(steps, log, thread));
        }
    });
}

fn step_for_ever(steps: &Steps, log: &ApplicationLog, thread: u64) {
    let mut random = Random::from_seed(number(SEED, 0) * THREADS as u64 + thread);
    loop {
        let key = random.next_below(KEYS);
        let object = thread * KEYS + key;
        let mut step = steps.0[object as usize].lock().expect("nothing panics");
        let life = match *step {
            0 => ObjectLife::Creation,
            LAST_STEP => ObjectLife::Removal,
            _ => ObjectLife::Change,
        };
        let to = next_step(*step);
        log.change_life(object, life, to as u32, &[&[7; 80]], || *step = to).expect("is logged");
        drop(step);
        acknowledge([thread, key, to]);
    }
}

fn spawn(test: &str, folder: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Lets a test run for a moment, after its first acknowledgement or from its start, and kills the process. Returns the
/// acknowledgements.
fn live_and_die(test: &str, folder: &Path, random: &mut Random) -> Vec<u8> {
    let (from_its_start, micros) = (random.percent(30), random.next_below(40_000));
    let mut child = spawn(test, folder, random.next_below(1 << 32));
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

/// Last acknowledged number, by thread and key.
type Last = [[u64; KEYS as usize]; THREADS];

fn note(last: &mut Last, acknowledged: &[u8]) {
    for record in words(acknowledged).chunks_exact(3) {
        let of = &mut last[record[0] as usize][record[1] as usize];
        assert!(record[2] > *of, "acknowledged in order");
        *of = record[2];
    }
}

/// Opens, judges and closes: no acknowledged operation is lost, and no operation is repeated or out of order. Returns
/// the number of entries that only buffers had.
fn judge(folder: &Path, last: &mut Last, (kill, lives): (u64, u64)) -> u64 {
    let objects = open(folder);
    for key in 0..KEYS {
        let found = objects.read(&key, |found| found.cloned()).expect("reads").unwrap_or_default();
        assert_eq!(found.out_of_order, 0, "kill {kill}, object {key}: {found:?}");
        assert_eq!(found.operations, found.last.iter().sum::<u64>(), "kill {kill}, object {key}: {found:?}");
        for (thread, of) in last.iter_mut().enumerate() {
            let (acknowledged, there) = (of[key as usize], found.last[thread]);
            // Each life since the last look had an operation in flight, with an unknown outcome.
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

/// An empty folder of this process.
fn empty_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ensile-kills-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn o10_an_application_whose_objects_come_and_go_opens_after_each_kill_and_has_what_it_acknowledged() {
    let folder = empty_folder("application");
    let seed = number(SEED, 1);
    let mut random = Random::from_seed(seed);
    let (least, mut kills, mut acknowledged, mut passed_over) = (count("ENSILE_KILLS", 30), 0, 0, 0);
    let mut last: Last = Default::default();
    let is_enough =
        |acknowledged: u64, passed_over: u64| acknowledged > 20 * least && passed_over > least / 8;
    // Further kills on a slow machine, on which a life does little.
    while kills < least || !is_enough(acknowledged, passed_over) && kills < 10 * least {
        for record in
            words(&live_and_die("the_application_that_is_killed", &folder, &mut random)).chunks_exact(3)
        {
            let of = &mut last[record[0] as usize][record[1] as usize];
            assert_eq!(record[2], next_step(*of), "kill {kills}: acknowledged in order");
            (*of, acknowledged) = (record[2], acknowledged + 1);
        }
        kills += 1;
        let (steps, log) = Steps::open(&folder);
        for (object, of) in (0..).zip(last.iter_mut().flatten()) {
            let there = steps.at(object);
            // Each thread had a change in flight, with an unknown outcome.
            assert!(
                there == *of || there == next_step(*of),
                "kill {kills}, object {object}: step {of} was acknowledged, {there} is there"
            );
            *of = there;
        }
        passed_over += log.recovery().passed_over_entries;
        log.close().expect("closes");
    }
    println!("seed {seed}, {kills} kills: {acknowledged} acknowledged, {passed_over} passed over");
    assert!(is_enough(acknowledged, passed_over), "{acknowledged} acknowledged, {passed_over} passed over");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn what_was_acknowledged_survives_sigkill_once_and_in_order() {
    let folder = empty_folder("collection");
    let seed = number(SEED, 1);
    let mut random = Random::from_seed(seed);
    let (mut last, mut taken): (Last, u64) = Default::default();
    let (least, mut kills, mut looks, mut lives) = (count("ENSILE_KILLS", 30), 0, 0, 0);
    let operations = |last: &Last| last.iter().flatten().sum::<u64>();
    let is_enough = |last: &Last, taken: u64| operations(last) > 20 * least && taken > least / 8;
    // Further kills on a slow machine, on which a life does little.
    while kills < least || !is_enough(&last, taken) && kills < 10 * least {
        note(&mut last, &live_and_die("the_process_that_is_killed", &folder, &mut random));
        (kills, lives) = (kills + 1, lives + 1);
        // Some killed processes are recovered by a process that is killed, too.
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
