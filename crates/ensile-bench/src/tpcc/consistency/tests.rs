//! The loader's counts, the transactions' effects, and every consistency condition against a planted violation.
//!
//! A checker that finds nothing proves nothing until it has been seen to find something: each condition is violated
//! alone as far as that is possible, and the test says which conditions must then be reported.
//!
//! Neighbours: [`super`].

use ensile::{Database, Readable, Transaction};
use ensile_base::random::Random;

use super::check;
use crate::tpcc::draw::Constants;
use crate::tpcc::flags::{Flags, ReadMode};
use crate::tpcc::keys::DISTRICTS;
use crate::tpcc::load::load;
use crate::tpcc::schema::{History, NewOrder};
use crate::tpcc::tables::{Scale, Tables};
use crate::tpcc::terminal::Terminal;

const SMALL: Scale = Scale { warehouses: 2, items: 50, customers: 20 };
const SEED: u64 = 9;

fn business() -> Tables {
    let db = Database::in_memory().expect("it opens");
    let tables = Tables::open(&db, SMALL).expect("tables open");
    load(&tables, Constants::seeded(SEED), SEED, 2).expect("it loads");
    // From here on snapshots show everything.
    drop(db.snapshot_latest().expect("a snapshot"));
    tables
}

fn flags(mix: [u64; 5]) -> Flags {
    Flags {
        mix,
        remote_items_per_million: 100_000,
        order_status: ReadMode::Serializable,
        stock_level: ReadMode::Serializable,
        ..Flags::default()
    }
}

fn run(tables: &Tables, flags: &Flags, transactions: usize) {
    let mut terminal = Terminal::new(tables, flags, Constants::seeded(SEED), (0, 1));
    let mut random = Random::from_seed(SEED);
    for _ in 0..transactions {
        terminal.one(&mut random).expect("it commits");
    }
    let mut requests = Vec::new();
    for _ in 0..transactions / 16 {
        terminal.many(&mut random, 16, &mut requests).expect("they commit");
    }
}

#[test]
fn the_loader_writes_what_the_specification_counts() {
    let db = Database::in_memory().expect("it opens");
    let tables = Tables::open(&db, SMALL).expect("tables open");
    let rows = load(&tables, Constants::seeded(SEED), SEED, 2).expect("it loads");
    let mut snapshot = db.snapshot_latest().expect("a snapshot");
    macro_rules! count {
        ($table:ident) => {
            snapshot.range(&tables.$table, ..).inspect(|row| assert!(row.is_ok())).count() as u64
        };
    }
    let districts = 2 * u64::from(DISTRICTS);
    assert_eq!((count!(warehouse), count!(district), count!(item), count!(stock)), (2, districts, 50, 100));
    assert_eq!(
        (count!(customer), count!(order), count!(history)),
        (districts * 20, districts * 20, districts * 20)
    );
    // Three tenths wait: 900 of 3,000.
    assert_eq!(count!(new_order), districts * 6);
    let lines = count!(order_line);
    assert!((districts * 20 * 5..=districts * 20 * 15).contains(&lines));
    assert_eq!((count!(stock_info), count!(customer_data)), (count!(stock), count!(customer)));
    assert_eq!(rows, 2 + districts + 50 + 2 * 100 + districts * (4 * 20 + 6) + lines);
}

#[test]
fn a_fresh_business_is_consistent_and_stays_so_under_every_mix() {
    let tables = business();
    let findings = check(&tables).expect("it is checked");
    assert!(findings.is_clean(), "{findings}");
    for mix in [[45, 43, 4, 4, 4], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]] {
        run(&tables, &flags(mix), 320);
        let findings = check(&tables).expect("it is checked");
        assert!(findings.is_clean(), "{mix:?}: {findings}");
    }
}

#[test]
fn snapshots_answer_order_status_and_stock_level() {
    let tables = business();
    let snapshots =
        Flags { order_status: ReadMode::Snapshot, stock_level: ReadMode::Snapshot, ..flags([1, 1, 5, 1, 5]) };
    run(&tables, &snapshots, 320);
    assert!(check(&tables).expect("it is checked").is_clean());
}

/// The loaded lines have a district's letters, and so have those of orders that read them.
#[test]
fn lines_of_orders_that_read_no_stock_info_have_none() {
    for (announce, stock_info) in [(false, false), (true, false), (true, true)] {
        let tables = business();
        let loaded = |tables: &Tables| {
            let mut snapshot = tables.db.snapshot_latest().expect("a snapshot");
            let lines = snapshot.range(&tables.order_line, ..).map(|row| row.expect("a line").1);
            lines.map(|line| line.district_info == [0; 24]).collect::<Vec<_>>()
        };
        let before = loaded(&tables);
        assert!(!before.contains(&true));
        run(&tables, &Flags { announce, stock_info, ..flags([1, 0, 0, 0, 0]) }, 32);
        let after = loaded(&tables);
        let empty = after.iter().filter(|empty| **empty).count();
        assert!(after.len() > before.len());
        assert_eq!(empty, if stock_info { 0 } else { after.len() - before.len() });
        assert!(check(&tables).expect("it is checked").is_clean());
    }
}

/// Plants something and tells which conditions are violated.
fn violated(plant: impl Fn(&mut Transaction<'_>, &Tables) -> ensile::Result<()>) -> Vec<usize> {
    let tables = business();
    tables.db.run(|tx| plant(tx, &tables)).expect("it can be planted");
    check(&tables).expect("it is checked").violated()
}

#[test]
fn money_that_goes_astray_is_found() {
    // Warehouse's money: against its districts (1) and against history (8).
    let found = violated(|tx, tables| tx.update(&tables.warehouse, &1, |row| row.ytd += 1).map(|_| ()));
    assert_eq!(found, [1, 8]);
    let found = violated(|tx, tables| tx.update(&tables.district, &(2, 3), |row| row.ytd += 1).map(|_| ()));
    assert_eq!(found, [1, 9]);
    let found = violated(|tx, tables| {
        let ((key, row), _) = (tx.first(&tables.history, ..)?.expect("history"), ());
        tx.put(&tables.history, &key, &History { amount: (row.amount.get() + 1).into(), ..row })
    });
    assert_eq!(found, [8, 9, 10]);
    let found =
        violated(|tx, tables| tx.update(&tables.customer, &(1, 1, 1), |row| row.balance += 1).map(|_| ()));
    assert_eq!(found, [10, 12]);
    let found = violated(|tx, tables| {
        tx.update(&tables.customer, &(1, 1, 1), |row| row.ytd_payment += 1).map(|_| ())
    });
    assert_eq!(found, [12]);
}

#[test]
fn orders_that_go_astray_are_found() {
    let last = SMALL.customers;
    let found =
        violated(|tx, tables| tx.update(&tables.district, &(1, 1), |row| row.next_order += 1).map(|_| ()));
    assert_eq!(found, [2]);
    // A hole in the queue of new orders.
    let found = violated(|tx, tables| tx.delete(&tables.new_order, &(1, 1, last - 2)).map(|_| ()));
    assert_eq!(found, [3, 5, 11]);
    // A delivered order that waits again, in place of one that waits.
    let found = violated(|tx, tables| {
        tx.put(&tables.new_order, &(1, 1, SMALL.delivered()), &NewOrder { waiting: 1 })
    });
    assert_eq!(found, [5, 11]);
    let found =
        violated(|tx, tables| tx.update(&tables.order, &(1, 1, last), |row| row.line_count += 1).map(|_| ()));
    assert_eq!(found, [4, 6]);
    let found = violated(|tx, tables| tx.delete(&tables.order_line, &(1, 1, last, 1)).map(|_| ()));
    assert_eq!(found, [4, 6]);
    let found = violated(|tx, tables| {
        tx.update(&tables.order_line, &(1, 1, 1, 1), |row| row.delivery_date = 0.into()).map(|_| ())
    });
    assert_eq!(found, [7]);
    // The last order vanishes with its lines.
    let found = violated(|tx, tables| {
        tx.delete(&tables.order, &(1, 1, last))?;
        (1..=15).try_for_each(|line| tx.delete(&tables.order_line, &(1, 1, last, line)).map(|_| ()))
    });
    assert_eq!(found, [2, 11]);
    let found = violated(|tx, tables| {
        tx.update(&tables.customer, &(1, 1, 1), |row| row.delivery_count += 1).map(|_| ())
    });
    assert_eq!(found, [11]);
}
