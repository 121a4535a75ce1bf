//! Random transactions against a sorted map, with a secondary index, commits and rollbacks, through every read.
//!
//! Neighbours: `reads`, `own_writes` and `secondary_indexes` have the cases that somebody thought of.

use std::collections::BTreeMap;

use ensile::prelude::*;
use proptest::collection::vec;
use proptest::prelude::*;

type Row = (u8, String);
type Rows = BTreeMap<String, Row>;

/// The row's encoding: its number, then its text.
#[derive(Debug, Clone, PartialEq)]
struct Note(Row);

impl Value for Note {
    fn encode(&self, out: &mut ValueBuffer<'_>) {
        out.push(self.0.0);
        out.extend_from_slice(self.0.1.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (number, text) = bytes.split_first().ok_or_else(|| CodecError::new("an empty note"))?;
        Ok(Self((*number, <String as Value>::decode(text)?)))
    }

    fn type_name() -> String {
        "note".to_string()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(String, Row),
    Insert(String, Row),
    Update(String, u8),
    Delete(String),
    Get(Vec<String>),
    Range(String, String),
    ByNumber(u8, u8),
    Commit,
    Rollback,
}

/// Few keys, so that they meet; long common beginnings and NULs, so that the index grows layers.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]{0,2}",
        3 => "commonbeginning[ab\0]{0,3}",
        1 => "commonbeginningcommonbeginning[ab]{0,2}",
    ]
}

fn row() -> impl Strategy<Value = Row> {
    (0..6u8, prop_oneof![Just(String::new()), "[xy]{1,4}", "x{300,400}"])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (key(), row()).prop_map(|(key, row)| Step::Put(key, row)),
        3 => (key(), row()).prop_map(|(key, row)| Step::Insert(key, row)),
        3 => (key(), 0..6u8).prop_map(|(key, number)| Step::Update(key, number)),
        4 => key().prop_map(Step::Delete),
        2 => vec(key(), 0..5).prop_map(Step::Get),
        3 => (key(), key()).prop_map(|(from, to)| Step::Range(from, to)),
        3 => (0..7u8, 0..7u8).prop_map(|(from, to)| Step::ByNumber(from, to)),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
    ]
}

struct World {
    db: Database,
    notes: Table<String, Note>,
    by_number: Index<u8, String, Note>,
}

impl World {
    fn open() -> Result<Self> {
        let db = Database::in_memory()?;
        let notes = db
            .define::<String, Note>("notes")
            .index_some("by_number", 1, |_key, note: &Note| (note.0.0 > 0).then_some(note.0.0))
            .open()?;
        let by_number = notes.index("by_number")?;
        Ok(Self { db, notes, by_number })
    }

    /// Does one step in the open transaction and in the map.
    fn step(&self, tx: &mut Transaction<'_>, rows: &mut Rows, step: &Step) -> Result<()> {
        let notes = &self.notes;
        match step {
            Step::Put(key, row) => {
                tx.put(notes, key, &Note(row.clone()))?;
                rows.insert(key.clone(), row.clone());
            }
            Step::Insert(key, row) => match tx.insert(notes, key, &Note(row.clone())) {
                Ok(()) => assert!(rows.insert(key.clone(), row.clone()).is_none()),
                Err(error) => {
                    assert!(matches!(error, Error::KeyExists { .. }), "{error:?}");
                    assert!(rows.contains_key(key));
                }
            },
            Step::Update(key, number) => {
                assert_eq!(tx.update(notes, key, |note| note.0.0 = *number)?, rows.contains_key(key));
                rows.entry(key.clone()).and_modify(|row| row.0 = *number);
            }
            Step::Delete(key) => assert_eq!(tx.delete(notes, key)?, rows.remove(key).is_some()),
            Step::Get(keys) => {
                let expected: Vec<Option<Note>> =
                    keys.iter().map(|key| rows.get(key).cloned().map(Note)).collect();
                assert_eq!(tx.get_many(notes, keys)?, expected);
                for (key, expected) in keys.iter().zip(&expected) {
                    assert_eq!(tx.get(notes, key)?.as_ref(), expected.as_ref());
                }
            }
            Step::Range(from, to) => self.compare_range(tx, rows, from, to)?,
            Step::ByNumber(from, to) => self.compare_index(tx, rows, *from, *to)?,
            Step::Commit | Step::Rollback => unreachable!("they end the transaction"),
        }
        Ok(())
    }

    fn compare_range(&self, reader: &mut impl Readable, rows: &Rows, from: &str, to: &str) -> Result<()> {
        let expected: Vec<(String, Note)> = rows
            .iter()
            .filter(|(key, _row)| (from..=to).contains(&key.as_str()))
            .map(|(key, row)| (key.clone(), Note(row.clone())))
            .collect();
        assert_eq!(reader.range(&self.notes, from..=to).collect::<Result<Vec<_>>>()?, expected);
        let mut reverse = reader.range(&self.notes, from..=to).rev().collect::<Result<Vec<_>>>()?;
        reverse.reverse();
        assert_eq!(reverse, expected);
        assert_eq!(reader.first(&self.notes, from..=to)?.as_ref(), expected.first());
        assert_eq!(reader.last(&self.notes, from..=to)?.as_ref(), expected.last());
        Ok(())
    }

    fn compare_index(&self, reader: &mut impl Readable, rows: &Rows, from: u8, to: u8) -> Result<()> {
        let mut expected: Vec<(String, Note)> = rows
            .iter()
            .filter(|(_key, row)| row.0 > 0 && (from..to).contains(&row.0))
            .map(|(key, row)| (key.clone(), Note(row.clone())))
            .collect();
        expected.sort_by(|one, two| (one.1.0.0, &one.0).cmp(&(two.1.0.0, &two.0)));
        assert_eq!(reader.range(&self.by_number, from..to).collect::<Result<Vec<_>>>()?, expected);
        let mut reverse = reader.range(&self.by_number, from..to).rev().collect::<Result<Vec<_>>>()?;
        reverse.reverse();
        assert_eq!(reverse, expected);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_transactions_agree_with_a_sorted_map(steps in vec(step(), 1..120)) {
        let world = World::open().expect("it opens");
        let mut committed = Rows::new();
        let mut rows = Rows::new();
        let mut tx = world.db.begin();
        for step in &steps {
            match step {
                Step::Commit => {
                    let _receipt = tx.commit().expect("nobody else writes");
                    committed.clone_from(&rows);
                    tx = world.db.begin();
                }
                Step::Rollback => {
                    tx.rollback();
                    rows.clone_from(&committed);
                    tx = world.db.begin();
                }
                step => world.step(&mut tx, &mut rows, step).expect("nobody else writes"),
            }
        }
        drop(tx);
        let mut snapshot = world.db.snapshot_latest().expect("snapshots are on");
        world.compare_range(&mut snapshot, &committed, "", "z").expect("snapshots do not conflict");
        world.compare_index(&mut snapshot, &committed, 0, 6).expect("snapshots do not conflict");
    }
}
