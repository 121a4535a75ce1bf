//! Before-images end to end: threads that write the same few keys all the time, and a log that tells a story without
//! gaps.
//!
//! The strong check is the chain: in the order of TIDs, each write of a key replaced what the write before it left. It
//! fails for an image that was read too early, too late, or torn; `a_chain_with_a_wrong_link_is_seen` shows that it
//! does.
//!
//! Neighbours: `crashes` and `shuttle_simulation` run with before-images too; the encoding's tests stand beside it.

use ensile_engine::folder::Before;
use ensile_engine::receipt::Tid;

use crate::own_folder::Folder;
use crate::prelude::*;

/// Few enough to collide all the time.
const KEYS: u64 = 6;
const THREADS: u64 = 3;
const TRANSACTIONS: u64 = 1500;
/// Lengths from nothing to several size classes; large ones do not fit a log buffer.
const BYTES_MAX: u64 = 600;
const LARGE_BYTES: usize = 600 << 10;

type Rows = BTreeMap<u64, Vec<u8>>;
/// What each key of each table has; `None`: it is absent.
type State = BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>>;

/// The tables that the threads write: one without indexes, where puts are blind, and one with.
struct Tables([Table<u64, Vec<u8>>; 2]);

impl Tables {
    fn open(db: &Database) -> Result<Self> {
        let indexed = db.define("indexed").index("by_length", 1, |_: &u64, row: &Vec<u8>| row.len() as u64);
        Ok(Self([db.table("plain")?, indexed.open()?]))
    }

    fn rows(&self, db: &Database) -> Result<[Rows; 2]> {
        let mut tx = db.begin();
        let [plain, indexed] = &self.0;
        Ok([tx.range(plain, ..).collect::<Result<_>>()?, tx.range(indexed, ..).collect::<Result<_>>()?])
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let bytes = if random.next_below(200) == 0 { LARGE_BYTES } else { random.next_below(BYTES_MAX) as usize };
    // A torn copy of two such values is neither.
    vec![random.next_u64() as u8; bytes]
}

/// A few writes of every kind, some of them of one key.
fn write(tx: &mut Transaction<'_>, tables: &Tables, random: &mut Random) -> Result<()> {
    for _ in 0..random.next_between(1, 5) {
        let table = &tables.0[random.next_below(2) as usize];
        let key = random.next_below(KEYS);
        match random.next_below(5) {
            0 | 1 => tx.put(table, &key, &value(random))?,
            2 => match tx.insert(table, &key, &value(random)) {
                Err(Error::KeyExists { .. }) => {}
                inserted => inserted?,
            },
            3 => drop(tx.delete(table, &key)?),
            _ => {
                let mut row = tx.get(table, &key)?.unwrap_or_default();
                row.truncate(BYTES_MAX as usize);
                row.extend_from_slice(&key.to_le_bytes());
                tx.put(table, &key, &row)?;
            }
        }
    }
    Ok(())
}

/// Lets threads write, and closes; the rows that are there then.
fn life(builder: Builder, seed: u64, checkpoint: bool) -> Result<[Rows; 2]> {
    let db = builder.open()?;
    let tables = Tables::open(&db)?;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, tables) = (&db, &tables);
            scope.spawn(move || {
                let mut random = Random::from_seed(seed * 1000 + thread);
                for at in 0..TRANSACTIONS {
                    db.run(|tx| write(tx, tables, &mut random)).expect("commits");
                    if checkpoint && thread == 0 && at == TRANSACTIONS / 2 {
                        db.checkpoint().expect("begun").wait().expect("installed");
                    }
                }
            });
        }
    });
    let rows = tables.rows(&db)?;
    db.close()?;
    Ok(rows)
}

/// A change of which everything is owned.
#[derive(Clone, Debug)]
struct Told {
    tid: Tid,
    write: usize,
    table: u32,
    name: Option<String>,
    key: Vec<u8>,
    /// `None`: not recorded.
    before: Option<Option<Vec<u8>>>,
    after: Option<Vec<u8>>,
}

fn told(folder: &Folder) -> Result<Vec<Told>> {
    let mut all: Vec<Told> = Vec::new();
    let found = folder::changes(folder.path(), &mut |change| {
        let folder::Change { tid, write, table, table_name, key, before, after } = *change;
        let before = match before {
            Before::NotRecorded => None,
            Before::Absent => Some(None),
            Before::Value(value) => Some(Some(value.to_vec())),
        };
        if let Some(last) = all.last() {
            let goes_on = tid == last.tid && write == last.write + 1;
            assert!(
                goes_on || tid >= last.tid && write == 0,
                "{tid} {write} behind {} {}",
                last.tid,
                last.write
            );
        }
        let (key, after) = (key.to_vec(), after.map(<[u8]>::to_vec));
        all.push(Told { tid, write, table, name: table_name.map(str::to_owned), key, before, after });
        ControlFlow::Continue(())
    })?;
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    let durable = found.durable_epoch.expect("something was written");
    assert!(all.iter().all(|change| change.tid.epoch() <= durable), "nothing above D is told");
    Ok(all)
}

/// What each key has after the changes; or the change that did not replace what the one before left. `begun`: nothing
/// is known of a key until its first change is told.
fn follow(changes: &[Told], begun: bool) -> std::result::Result<State, Told> {
    let mut now = State::new();
    for change in changes {
        let at = (change.table, change.key.clone());
        let known = now.get(&at).cloned().or_else(|| (!begun).then_some(None));
        if let (Some(known), Some(before)) = (known, &change.before)
            && known != *before
        {
            return Err(change.clone());
        }
        now.insert(at, change.after.clone());
    }
    Ok(now)
}

/// The same for a folder whose changes must hold together, as rows of the two tables.
fn followed(changes: &[Told], begun: bool) -> [Rows; 2] {
    let now = follow(changes, begun).unwrap_or_else(|change| panic!("replaced something else: {change:?}"));
    let id = |name: &str| {
        changes.iter().find(|change| change.name.as_deref() == Some(name)).map(|change| change.table)
    };
    ["plain", "indexed"].map(|name| {
        let of_table = now.iter().filter(|((table, _), _)| Some(*table) == id(name));
        let row = |((_, key), row): (&(u32, Vec<u8>), &Option<Vec<u8>>)| {
            let key = u64::from_be_bytes(key.as_slice().try_into().expect("a key of eight bytes"));
            Some((key, row.clone()?))
        };
        of_table.filter_map(row).collect()
    })
}

fn reopened(folder: &Folder) -> Result<[Rows; 2]> {
    let db = folder.builder().open()?;
    Tables::open(&db)?.rows(&db)
}

#[test]
fn each_write_tells_what_the_write_before_it_left() -> Result<()> {
    for seed in 0..3 {
        let folder = Folder::new(&format!("before-chain-{seed}"));
        let rows = life(folder.builder().before_images(true), seed, false)?;
        let changes = told(&folder)?;
        assert!(changes.len() as u64 > THREADS * TRANSACTIONS, "{} changes", changes.len());
        assert!(changes.iter().all(|change| change.before.is_some()), "every write has its image");
        let deleted = changes.iter().filter(|change| change.after.is_none()).count();
        let came = changes.iter().filter(|change| change.before == Some(None)).count();
        assert!(deleted > 100 && came > 100, "{deleted} deletes, {came} keys that came");
        assert_eq!(followed(&changes, false), rows);
        assert_eq!(reopened(&folder)?, rows, "recovery brings the same state back");
    }
    Ok(())
}

#[test]
fn a_folder_may_have_them_in_some_lives_only() -> Result<()> {
    let folder = Folder::new("before-partly");
    let mut rows = [Rows::new(), Rows::new()];
    for (seed, before_images) in [(10, true), (11, false), (12, true)] {
        rows = life(folder.builder().before_images(before_images), seed, false)?;
    }
    let changes = told(&folder)?;
    let recorded = changes.iter().filter(|change| change.before.is_some()).count();
    assert!(recorded > changes.len() / 3 && recorded < changes.len(), "{recorded} of {}", changes.len());
    assert_eq!(followed(&changes, false), rows);
    assert_eq!(reopened(&folder)?, rows);
    assert!(folder::verify(folder.path())?.damage.is_empty());
    Ok(())
}

#[test]
fn behind_a_checkpoint_the_changes_go_on_without_a_gap() -> Result<()> {
    let folder = Folder::new("before-checkpoint");
    let rows = life(folder.builder().before_images(true), 20, true)?;
    let (found, _) = folder::inspect(folder.path())?;
    let low = found.checkpoint.expect("a checkpoint was made").low;
    let changes = told(&folder)?;
    assert!(changes.iter().all(|change| change.tid.epoch() >= low), "what it covers is left out");
    // All keys are written again and again, so each has a change behind it.
    assert_eq!(followed(&changes, true), rows);
    assert_eq!(reopened(&folder)?, rows);
    Ok(())
}

#[test]
fn without_them_a_log_is_as_it_always_was() -> Result<()> {
    let lengths = [false, true].map(|before_images| {
        let folder = Folder::new(&format!("before-off-{before_images}"));
        let db = folder.builder_with(1).before_images(before_images).open().expect("opens");
        let table = db.table::<u64, Vec<u8>>("plain").expect("a table");
        for round in 0..10u8 {
            db.run(|tx| tx.put(&table, &1, &vec![round; 100])).expect("commits");
        }
        db.close().expect("closes");
        let changes = told(&folder).expect("reads");
        let rows = changes.iter().filter(|change| change.name.as_deref() == Some("plain"));
        rows.map(|change| change.before.as_ref().map(|before| before.as_ref().map(Vec::len)))
            .collect::<Vec<_>>()
    });
    assert_eq!(lengths[0], [None; 10]);
    assert_eq!(lengths[1][..2], [Some(None), Some(Some(100))]);
    Ok(())
}

#[test]
fn a_chain_with_a_wrong_link_is_seen() -> Result<()> {
    let folder = Folder::new("before-planted");
    life(folder.builder().before_images(true), 30, false)?;
    let changes = told(&folder)?;
    // Not a key's first: with one left out, or with the image of another moment, the next does not follow.
    let middle = (changes.len() / 2..changes.len()).find(|at| {
        let later = |other: &&Told| (other.table, &other.key) == (changes[*at].table, &changes[*at].key);
        changes[*at].after != changes[*at].before.clone().flatten()
            && changes[at + 1..].iter().any(|other| later(&other))
    });
    let at = middle.expect("keys are written again and again");
    let mut lost = changes.clone();
    lost.remove(at);
    assert!(follow(&lost, false).is_err(), "a change that is not told");
    let mut late = changes.clone();
    late[at].before = Some(late[at].after.clone());
    assert!(follow(&late, false).is_err(), "an image read after the write");
    let mut absent = changes;
    let value =
        absent.iter().position(|change| matches!(change.before, Some(Some(_)))).expect("there are some");
    absent[value].before = Some(None);
    assert!(follow(&absent, false).is_err(), "a value told to be absent");
    Ok(())
}
