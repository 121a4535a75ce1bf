//! What the writer of backups that are killed knows of its rows.
//!
//! Neighbours: [`super`].

use ensile::Database;
use ensile::receipt::Epoch;
use ensile_base::sync::Mutex;

use super::{History, STREAMS, TABLE};

/// A database behind so many transactions, in which a row is changed besides by `change`.
fn differs(transactions: u64, change: impl Fn(&Database)) -> (Option<u64>, u64) {
    let db = Database::in_memory().expect("it opens");
    let history = History::filled(&db, 40 * STREAMS).expect("it is filled");
    let table = db.table(TABLE).expect("a table");
    (history.length..transactions).for_each(|at| history.write(&db, &table, at).expect("it commits"));
    change(&db);
    let last = history.epochs.lock().last().expect("something was committed").0;
    // What comes later is not looked for.
    history.epochs.lock().push((Epoch::MAX, transactions + 1));
    history.differs_at(&db, last).expect("it can be read")
}

#[test]
fn a_row_that_is_missing_left_or_changed_is_found() {
    let rows = 40 * STREAMS;
    assert_eq!(differs(40, |_| {}), (None, rows), "all were put");
    let (none, left) = differs(40 * 9 + 11, |_| {});
    assert!(none.is_none() && left < rows && left > rows / 2, "some are deleted: {left}");
    for key in [0, 39, 40, rows / 2 + 3, rows - 1] {
        let at = |change: &dyn Fn(&Database)| differs(40, change).0;
        let table = |db: &Database| db.table::<u64, Vec<u8>>(TABLE).expect("a table");
        assert_eq!(at(&|db| _ = db.run(|tx| tx.delete(&table(db), &key)).expect("it commits")), Some(key));
        assert_eq!(
            at(&|db| db.run(|tx| tx.put(&table(db), &key, &vec![1; 5])).expect("it commits")),
            Some(key)
        );
    }
    let more = differs(40, |db| {
        let table = db.table::<u64, Vec<u8>>(TABLE).expect("a table");
        db.run(|tx| tx.put(&table, &rows, &vec![1; 5])).expect("it commits");
    });
    assert_eq!(more, (Some(rows), rows), "a row that nobody put");
}

#[test]
fn an_epoch_has_what_was_committed_up_to_its_end() {
    let history = History { length: 10, epochs: Mutex::default() };
    let epoch = Epoch::new;
    history.epochs.lock().extend([(epoch(3), 4), (epoch(5), 12), (epoch(6), 13)]);
    let at = |number| history.transactions(epoch(number));
    assert_eq!([at(2), at(3), at(4), at(5)], [0, 4, 4, 12]);
    assert_eq!(history.expected(4, 4), None, "its first transaction is the fifth");
    assert_eq!(history.expected(3, 4), history.row(3, 0));
    assert_eq!(history.expected(11, 12), history.row(11, 1), "it has come round");
    assert_eq!(history.expected(12, 12), history.row(2, 1));
}
