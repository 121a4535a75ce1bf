//! What the log says of a transaction is what it left of each key, whatever it did to the key before: random
//! transactions against maps, read back twice, from the log as it is told and from the database that recovery makes of
//! it.
//!
//! Neighbours: `before_images` has threads and chains of images; `log_entry` has the encoding itself.

use std::collections::BTreeSet;

use ensile_base::limits::{KEY_BYTES_MAX, LOG_BUFFER_BYTES};
use ensile_engine::folder::Before;
use ensile_engine::receipt::Tid;

use crate::own_folder::Folder;
use crate::prelude::*;

const TABLES: [&str; 3] = ["one", "another", "indexed"];

type Bytes = Vec<u8>;
type Rows = BTreeMap<Bytes, Bytes>;
type State = [Rows; TABLES.len()];
/// Table, key, and what the transaction left there.
type Left = (usize, Bytes, Option<Bytes>);

struct Tables([Table<Bytes, Bytes>; TABLES.len()]);

impl Tables {
    fn open(db: &Database) -> Result<Self> {
        let indexed = db.define(TABLES[2]).index("by_length", 1, |_: &Bytes, row: &Bytes| row.len() as u64);
        Ok(Self([db.table(TABLES[0])?, db.table(TABLES[1])?, indexed.open()?]))
    }

    /// All rows, which both directions of a transaction's scans and a snapshot's agree on.
    fn state(&self, db: &Database) -> Result<State> {
        let state = read(&mut db.begin(), self)?;
        assert!(read(&mut db.snapshot_latest()?, self)? == state, "a snapshot shows something else");
        Ok(state)
    }
}

fn read(reader: &mut impl Readable, tables: &Tables) -> Result<State> {
    let mut state = State::default();
    for (rows, table) in state.iter_mut().zip(&tables.0) {
        let forward = reader.range(table, ..).collect::<Result<Vec<_>>>()?;
        let mut reverse = reader.range(table, ..).rev().collect::<Result<Vec<_>>>()?;
        reverse.reverse();
        assert!(forward == reverse, "the directions differ");
        *rows = forward.into_iter().collect();
    }
    Ok(state)
}

#[derive(Clone, Debug)]
enum Step {
    Put(Bytes),
    Insert(Bytes),
    /// Cut to this length, then followed by this.
    Update(usize, Bytes),
    Delete,
    Get,
}

/// What one transaction does: table, key, step.
type Plan = Vec<(usize, Bytes, Step)>;

/// Few, so that they meet; of every length, with common beginnings that end where slices do.
fn key(random: &mut Random) -> Bytes {
    let length = match random.next_below(40) {
        0 => KEY_BYTES_MAX,
        1 => KEY_BYTES_MAX - 1,
        2..6 => 300,
        _ => [0, 1, 7, 8, 9, 16, 17, 24][random.next_below(8) as usize],
    };
    let mut key = vec![[0, b'k'][random.next_below(2) as usize]; length];
    if let Some(last) = key.last_mut() {
        *last = random.next_below(3) as u8;
    }
    key
}

fn value(random: &mut Random) -> Bytes {
    let most = [1, 4, 40, 40, 600, 600, 600, 9_000][random.next_below(8) as usize];
    let most = if random.next_below(300) == 0 { LOG_BUFFER_BYTES as u64 * 2 } else { most };
    let mut value = vec![0; random.next_below(most) as usize];
    random.fill(&mut value);
    value
}

/// Several steps for each of a few keys, mixed.
fn plan(random: &mut Random) -> Plan {
    let places: Vec<_> =
        (0..random.next_between(1, 6)).map(|_| (random.next_below(3) as usize, key(random))).collect();
    let step = |random: &mut Random| match random.next_below(10) {
        0..4 => Step::Put(value(random)),
        4 => Step::Insert(value(random)),
        5 | 6 => Step::Update(random.next_below(700) as usize, value(random)),
        7 | 8 => Step::Delete,
        _ => Step::Get,
    };
    (0..random.next_between(1, 14))
        .map(|_| {
            let (table, key) = places[random.next_below(places.len() as u64) as usize].clone();
            (table, key, step(random))
        })
        .collect()
}

/// What the steps told: a value, or an empty one for "yes".
type Told = Vec<Option<Bytes>>;

fn yes(is: bool) -> Option<Bytes> {
    is.then(Bytes::new)
}

fn perform(tx: &mut Transaction<'_>, tables: &Tables, plan: &Plan) -> Result<Told> {
    let mut told = Told::new();
    for (table, key, step) in plan {
        let table = &tables.0[*table];
        told.push(match step {
            Step::Put(value) => tx.put(table, key, value).map(|()| None)?,
            Step::Insert(value) => match tx.insert(table, key, value) {
                Err(Error::KeyExists { .. }) => None,
                inserted => inserted.map(|()| yes(true))?,
            },
            Step::Update(cut, more) => yes(tx.update(table, key, |row| {
                row.truncate(*cut);
                row.extend_from_slice(more);
            })?),
            Step::Delete => yes(tx.delete(table, key)?),
            Step::Get => tx.get(table, key)?,
        });
    }
    Ok(told)
}

/// The same in the maps; and what it left behind, which is what the log must say.
fn simulate(state: &mut State, plan: &Plan) -> (Told, BTreeSet<Left>) {
    let (before, mut written, mut told) = (state.clone(), BTreeSet::new(), Told::new());
    for (table, key, step) in plan {
        let rows = &mut state[*table];
        let is_there = rows.contains_key(key);
        let writes = match step {
            Step::Put(_) => true,
            Step::Insert(_) => !is_there,
            Step::Update(..) | Step::Delete => is_there,
            Step::Get => false,
        };
        if writes {
            written.insert((*table, key.clone()));
        }
        told.push(match step {
            Step::Put(value) => {
                rows.insert(key.clone(), value.clone());
                None
            }
            Step::Insert(value) => {
                rows.entry(key.clone()).or_insert_with(|| value.clone());
                yes(!is_there)
            }
            Step::Update(cut, more) => yes(rows
                .get_mut(key)
                .map(|row| {
                    row.truncate(*cut);
                    row.extend_from_slice(more);
                })
                .is_some()),
            Step::Delete => yes(rows.remove(key).is_some()),
            Step::Get => rows.get(key).cloned(),
        });
    }
    let left = written.into_iter().map(|(table, key)| {
        let after = state[table].get(&key).cloned();
        (table, key, after)
    });
    // What was absent and is absent again leaves no trace.
    (told, left.filter(|(table, key, after)| after.is_some() || before[*table].contains_key(key)).collect())
}

struct World {
    db: Database,
    tables: Tables,
    state: State,
    /// What each transaction left that committed and left anything.
    committed: Vec<BTreeSet<Left>>,
}

impl World {
    fn expect(&mut self, plan: &Plan, told: &Told) {
        let (expected, left) = simulate(&mut self.state, plan);
        assert!(*told == expected, "{plan:?} was told {told:?}");
        self.committed.extend((!left.is_empty()).then_some(left));
    }

    fn commit(&mut self, plan: &Plan) -> Result<()> {
        let told = self.db.run(|tx| perform(tx, &self.tables, plan))?;
        self.expect(plan, &told);
        Ok(())
    }

    /// Ends in every way that a transaction can end.
    fn step(&mut self, random: &mut Random) -> Result<()> {
        let plan_now = plan(random);
        match random.next_below(10) {
            0 => drop(perform(&mut self.db.begin(), &self.tables, &plan_now)?),
            1 => {
                let failed = self.db.run(|tx| {
                    perform(tx, &self.tables, &plan_now)?;
                    Err::<(), _>(Error::Misuse("given up".to_owned()))
                });
                assert!(matches!(failed, Err(Error::Misuse(_))));
            }
            2 | 3 => {
                // Another one commits in between: it aborts with its placeholders set, or comes behind.
                let (db, mut before) = (self.db.clone(), self.state.clone());
                let mut tx = db.begin();
                let told = perform(&mut tx, &self.tables, &plan_now)?;
                self.commit(&plan(random))?;
                match tx.submit() {
                    Ok(_) => {
                        // One that wrote nothing may stand where it read, before the other.
                        let (told_before, left) = simulate(&mut before, &plan_now);
                        if !(left.is_empty() && told == told_before) {
                            self.expect(&plan_now, &told);
                        }
                    }
                    Err(error) => assert!(matches!(error, Error::Conflict), "{error}"),
                }
            }
            4 => {
                let plans: Vec<Plan> = (0..random.next_between(2, 40)).map(|_| plan(random)).collect();
                let announce = |plan: &Plan, prefetch: &mut ensile_engine::Prefetch<'_>| {
                    plan.iter().for_each(|(table, key, _)| prefetch.key(&self.tables.0[*table], key));
                };
                let db = self.db.clone();
                let results = db.run_batch(&plans, announce, |tx, plan| perform(tx, &self.tables, plan));
                for (plan, result) in plans.iter().zip(results) {
                    self.expect(plan, &result?.0);
                }
            }
            _ => self.commit(&plan_now)?,
        }
        Ok(())
    }
}

/// What the log says that each transaction left of each key; with images, they are what was there.
fn logged(folder: &Folder) -> Result<Vec<BTreeSet<Left>>> {
    let mut all: BTreeMap<Tid, BTreeSet<Left>> = BTreeMap::new();
    let mut state = State::default();
    let found = folder::changes(folder.path(), &mut |change| {
        let table = TABLES.iter().position(|name| Some(*name) == change.table_name);
        if let Some(table) = table {
            let (key, after) = (change.key.to_vec(), change.after.map(<[u8]>::to_vec));
            let before = state[table].remove(&key);
            match change.before {
                Before::NotRecorded => {}
                Before::Absent => assert!(before.is_none(), "told to be absent"),
                Before::Value(value) => assert!(before.as_deref() == Some(value), "another value is told"),
            }
            if let Some(after) = &after {
                state[table].insert(key.clone(), after.clone());
            }
            let is_new = all.entry(change.tid).or_default().insert((table, key, after));
            assert!(is_new, "a key is written twice");
        }
        ControlFlow::Continue(())
    })?;
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    Ok(all.into_values().collect())
}

#[test]
fn the_log_says_what_each_transaction_left_whatever_it_wrote_before() -> Result<()> {
    for seed in 0..4 {
        let folder = Folder::new(&format!("logged-model-{seed}"));
        let mut random = Random::from_seed(seed);
        let (mut state, mut committed) = (State::default(), Vec::new());
        for life in 0..3 {
            let with_images = (seed + life) % 3 == 0;
            let db = folder.builder().before_images(with_images).open()?;
            let tables = Tables::open(&db)?;
            assert!(tables.state(&db)? == state, "recovery made something else of it");
            let mut world = World { db, tables, state, committed };
            for _ in 0..150 {
                world.step(&mut random)?;
            }
            assert!(world.tables.state(&world.db)? == world.state);
            world.db.close()?;
            (state, committed) = (world.state, world.committed);
        }
        let mut told = logged(&folder)?;
        told.sort();
        committed.sort();
        assert_eq!(told.len(), committed.len());
        for (told, committed) in told.iter().zip(&committed) {
            assert!(told == committed, "the log says {told:?} of what left {committed:?}");
        }
    }
    Ok(())
}

/// One byte more or less decides whether an entry fits the buffer: what was reserved is what is appended, to the byte.
fn fill_a_buffer(with_images: bool) -> Result<()> {
    let folder = Folder::new(&format!("logged-fit-{with_images}"));
    let db = folder.builder().before_images(with_images).open()?;
    let table = db.table::<Bytes, Bytes>("rows")?;
    let small: Vec<Bytes> = (0..20u8).map(|key| vec![key; usize::from(key)]).collect();
    // Heads of writes and of images.
    let head = if with_images { 14 } else { 10 };
    let written: usize = small.iter().map(|key| key.len() + head).sum();
    // Frames, headers and padding take up to so much of a buffer.
    for spare in (0..160).step_by(3) {
        let long = vec![spare as u8; LOG_BUFFER_BYTES - written - 64 - spare];
        db.run(|tx| tx.delete(&table, &b"the long one"[..]))?;
        db.run(|tx| {
            tx.put(&table, &b"the long one"[..], &b"short at first"[..])?;
            small.iter().try_for_each(|key| tx.put(&table, key, &[][..]))?;
            tx.put(&table, &b"the long one"[..], &long)
        })?;
        assert!(db.run(|tx| tx.get(&table, &b"the long one"[..]))? == Some(long));
    }
    db.close()
}

/// With and without before-images.
#[test]
fn entries_that_just_fit_a_log_buffer_are_as_long_as_was_reserved() -> Result<()> {
    [false, true].into_iter().try_for_each(fill_a_buffer)
}
