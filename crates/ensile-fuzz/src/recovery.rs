//! Target: recovery of a whole database from a damaged folder. The folder has a closed generation, and an open
//! generation that stopped in the middle of a write. An input is a list of damages.
//!
//! Invariants: an open ends without a panic. An open fails, or shows exactly the state after the reported epoch. The
//! reported epoch is not below the durable epoch of the manifest.
//!
//! Neighbours: `Database::open` on the simulated disk; `log_blocks` covers damage under right checksums.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_disk::Disk;
use ensile_engine::receipt::Epoch;
use ensile_engine::{Database, Durability, Error, Readable, Result, Table, Tuning};
use ensile_sim::SimDisk;

use crate::input::Input;

type State = BTreeMap<u64, Vec<u8>>;
/// Epoch, key and new row of a write; `None` for a delete.
type Write = (Epoch, u64, Option<Vec<u8>>);

const KEYS: u64 = 30;
const LOGGERS: usize = 2;
/// Kept bytes of the space that is set aside behind the last block.
const SPACE_BYTES: usize = 200;
/// Most damages of an input.
const DAMAGES_MAX: usize = 40;

/// The folder before the damage.
struct Folder {
    files: Vec<(String, Vec<u8>)>,
    /// Writes, in the order of the commits.
    history: Vec<Write>,
    /// D of the closed generation.
    closed: Epoch,
}

fn open(disk: &SimDisk, clock: &Clock) -> Result<(Database, Table<u64, Vec<u8>>)> {
    let db = Database::builder("unused")
        .disk(Arc::new(disk.clone()))
        .manual_clock(clock.clone())
        .durability(Durability::Relaxed)
        .tuning(Tuning { loggers: Some(LOGGERS), recovery_threads: 1, ..Tuning::default() })
        .without_threads()
        .open()?;
    let rows = db
        .define::<u64, Vec<u8>>("rows")
        .index("by_length", 1, |_: &u64, row: &Vec<u8>| row.len() as u64)
        .open()?;
    Ok((db, rows))
}

/// Runs transactions, and makes some of the transactions durable.
fn live(disk: &SimDisk, random: &mut Random, history: &mut Vec<Write>, close: bool) -> Result<()> {
    let clock = Clock::manual();
    let (db, rows) = open(disk, &clock)?;
    for _ in 0..12 {
        for _ in 0..random.next_between(1, 3) {
            let mut row = vec![0; random.next_below(60) as usize];
            random.fill(&mut row);
            let key = random.next_below(KEYS);
            let row = (!random.percent(25)).then_some(row);
            let ((), receipt) = db.submit(|tx| match &row {
                Some(row) => tx.put(&rows, &key, row),
                None => tx.delete(&rows, &key).map(drop),
            })?;
            history.push((receipt.epoch(), key, row));
        }
        clock.advance(Duration::from_millis(40));
        db.heartbeat_step();
        (0..LOGGERS).for_each(|logger| {
            db.logger_step(logger);
        });
    }
    if close {
        db.close()?;
    } else {
        disk.kill();
    }
    Ok(())
}

fn build() -> Result<Folder> {
    let (disk, mut random, mut history) = (SimDisk::new(), Random::from_seed(1), Vec::new());
    live(&disk, &mut random, &mut history, true)?;
    let closed = history.iter().map(|write| write.0).max().unwrap_or(Epoch::ZERO);
    live(&disk, &mut random, &mut history, false)?;
    let mut names = vec!["MANIFEST".to_owned(), "HINT".to_owned()];
    for folder in folders() {
        let files = disk.list(&folder).map_err(ensile_durability::DurabilityError::from)?;
        names.extend(files.into_iter().map(|name| format!("{folder}/{name}")));
    }
    let file = |name: String| {
        let mut bytes = disk.bytes(&name);
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        bytes.truncate(used + SPACE_BYTES);
        // Only the logs have space behind the last block.
        if !name.contains('/') {
            bytes.truncate(used);
        }
        (name, bytes)
    };
    Ok(Folder { files: names.into_iter().map(file).collect(), history, closed })
}

/// Folders of the logs.
fn folders() -> impl Iterator<Item = String> {
    (0..LOGGERS).map(|logger| format!("log{logger}"))
}

fn folder() -> &'static Folder {
    static FOLDER: OnceLock<Folder> = OnceLock::new();
    FOLDER.get_or_init(|| build().expect("a database on a disk that works"))
}

fn damage(files: &mut [(String, Vec<u8>)], input: &mut Input<'_>) {
    let (what, which) = (input.choice(8), input.choice(files.len()));
    let (at, value) = (usize::from(input.u16()), input.byte());
    let other = files[usize::from(value) % files.len()].1.clone();
    let bytes = &mut files[which].1;
    if bytes.is_empty() {
        return;
    }
    let at = at % bytes.len();
    let to = (at + 8 * (usize::from(value) + 1)).min(bytes.len());
    match what {
        0..=2 => bytes[at] ^= value.max(1),
        3 => bytes[at..to].fill(0),
        4 => bytes.truncate(at),
        5 => {
            let from = at.min(other.len());
            let piece = other[from..(from + to - at).min(other.len())].to_vec();
            bytes[at..at + piece.len()].copy_from_slice(&piece);
        }
        6 => {
            let piece = bytes[at..to].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => drop(bytes.drain(at..to)),
    }
}

/// The state after every write of an epoch up to `durable`.
fn state_after(history: &[Write], durable: Epoch) -> State {
    let mut state = State::new();
    for (_, key, row) in history.iter().filter(|write| write.0 <= durable) {
        match row {
            Some(row) => state.insert(*key, row.clone()),
            None => state.remove(key),
        };
    }
    state
}

/// A damage is five bytes: kind, file, place and value.
pub fn recovery(data: &[u8]) {
    let mut input = Input::new(data);
    let Folder { files, history, closed } = folder();
    let mut files = files.clone();
    for _ in 0..DAMAGES_MAX {
        if input.is_empty() {
            break;
        }
        damage(&mut files, &mut input);
    }
    let disk = SimDisk::new();
    folders().for_each(|folder| disk.create_folder(&folder).expect("a new disk"));
    for (name, bytes) in &files {
        let file = disk.create(name).expect("a new disk");
        file.write_at(bytes, 0).expect("a new disk");
    }
    let (db, rows) = match open(&disk, &Clock::manual()) {
        Ok(opened) => opened,
        Err(Error::Storage(error)) => {
            assert!(!data.is_empty(), "a whole folder is refused: {error}");
            return;
        }
        Err(other) => panic!("damage below is damage of the log: {other}"),
    };
    let durable = db.recovery_report().expect("there is a log").durable_epoch;
    assert!(durable >= *closed, "{closed} was durable when the first generation was closed");
    let shown: State =
        db.begin().range(&rows, ..).collect::<Result<_>>().expect("rows decode after their checksums");
    assert_eq!(shown, state_after(history, durable), "not the state after epoch {durable}");
    let by_length = rows.index::<u64>("by_length").expect("it was defined");
    let mut indexed: Vec<(u64, Vec<u8>)> =
        db.begin().range(&by_length, ..).collect::<Result<_>>().expect("rows decode");
    indexed.sort_unstable();
    assert!(indexed.into_iter().eq(shown), "the index shows other rows");
}
