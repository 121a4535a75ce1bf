//! Transactions that use one list at once.

use ensile::{Database, Error, Transaction};

use super::{End, List};
use crate::effects::Effects;
use crate::model::elements::Access;
use crate::model::{Keyspace, Model};

const KEY: &[u8] = b"l";

/// Changes the list of [`KEY`] within a transaction.
fn change(tx: &mut Transaction<'_>, model: &Model, change: impl FnOnce(&mut List<'_, '_, '_>)) {
    let mut effects = Effects::default();
    let mut keyspace = Keyspace::new(tx, model, &mut effects, 0, 0, 0);
    let mut list = List::open(&mut keyspace, KEY, Access::Write).expect("a list");
    change(&mut list);
    list.finish().expect("a write");
}

/// A change of the list.
#[derive(Clone, Copy, Debug)]
enum Change {
    Push(End),
    /// A push whose reply has the number of items.
    PushAndCount(End),
    Pop(End),
    Set(i64),
}

impl Change {
    fn carry_out(self, list: &mut List<'_, '_, '_>) {
        match self {
            Self::Push(end) => list.push(end, b"new").expect("a write"),
            Self::PushAndCount(end) => {
                list.push(end, b"new").expect("a write");
                list.count().expect("a read");
            }
            Self::Pop(end) => assert!(list.pop(end).expect("a read").is_some(), "an item is there"),
            Self::Set(index) => assert!(list.set(index, b"new").expect("a write"), "an item is there"),
        }
    }
}

/// True if a change is lost that another change of a list of this many items with rows has overtaken.
fn is_lost(items: usize, overtaken: Change, overtaker: Change) -> bool {
    let db = Database::in_memory().expect("a new database");
    let model = Model::open(&db, 1).expect("new tables");
    let mut fill = db.begin_owned();
    change(&mut fill, &model, |list| list.push(End::Tail, &[7; 600]).expect("a write"));
    for _ in 1..items {
        change(&mut fill, &model, |list| list.push(End::Tail, b"item").expect("a write"));
    }
    fill.submit().expect("no other transaction");
    let (mut first, mut second) = (db.begin_owned(), db.begin_owned());
    change(&mut first, &model, |list| overtaken.carry_out(list));
    change(&mut second, &model, |list| overtaker.carry_out(list));
    second.submit().expect("the faster transaction");
    match first.submit() {
        Ok(_) => false,
        Err(Error::Conflict) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_push_and_a_pop_conflict_at_one_end_and_about_empty_lists_only() {
    use Change::{Pop, Push, PushAndCount, Set};
    use End::{Head, Tail};
    for (first, second) in [(Push(Head), Pop(Tail)), (Push(Head), Push(Tail)), (Pop(Head), Pop(Tail))] {
        assert!(!is_lost(9, first, second) && !is_lost(9, second, first), "{first:?}, {second:?}");
    }
    for (first, second) in [(Push(Head), Pop(Head)), (Pop(Tail), Pop(Tail)), (Pop(Head), Set(0))] {
        assert!(is_lost(9, first, second) && is_lost(9, second, first), "{first:?}, {second:?}");
    }
    // The number of items rests on both ends, and the pop rests on its own end.
    assert!(is_lost(9, PushAndCount(Head), Pop(Tail)) && !is_lost(9, Pop(Tail), PushAndCount(Head)));
    // The last item: the key goes, and a push would be lost with it.
    assert!(is_lost(1, Pop(Tail), Push(Head)) && is_lost(1, Push(Head), Pop(Tail)));
    assert!(is_lost(2, Pop(Head), Pop(Tail)) && is_lost(2, Pop(Tail), Pop(Head)));
}
