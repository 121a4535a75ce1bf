//! The verdict sees what it is there to see: an acknowledged order that is gone, short of a line, or of another amount.
//!
//! Neighbours: [`super`]; the whole cycle of kill and recovery is tested through the `ensile-bench` command.

use ensile::{Database, Readable};

use super::missing_orders;
use super::victim::Acknowledged;
use crate::tpcc::draw::Constants;
use crate::tpcc::keys::LineNumber;
use crate::tpcc::load::load;
use crate::tpcc::tables::{Scale, Tables};

#[test]
fn lost_and_changed_orders_are_told() {
    let db = Database::in_memory().expect("it opens");
    let tables = Tables::open(&db, Scale { warehouses: 1, items: 20, customers: 10 }).expect("tables open");
    load(&tables, Constants::seeded(1), 1, 1).expect("it loads");
    let mut snapshot = db.snapshot_latest().expect("a snapshot");
    let row = snapshot.get(&tables.order, &(1, 1, 10)).expect("it reads").expect("it is there");
    let amount: i64 = snapshot
        .range(&tables.order_line, (1, 1, 10, 0)..=(1, 1, 10, LineNumber::MAX))
        .map(|line| i64::from(line.expect("it reads").1.amount.get()))
        .sum();
    let whole = Acknowledged {
        warehouse: 1.into(),
        district: 1,
        line_count: row.line_count,
        order: 10.into(),
        amount: amount.into(),
    };
    let told = |orders: &[Acknowledged]| missing_orders(&db, &tables, orders).expect("it reads");
    assert!(told(&[whole]).is_empty());
    let gone = Acknowledged { order: 11.into(), ..whole };
    let shorter = Acknowledged { line_count: row.line_count + 1, ..whole };
    let dearer = Acknowledged { amount: (amount + 1).into(), ..whole };
    assert_eq!(told(&[whole, gone, shorter, dearer]).len(), 3);
    let many = told(&vec![gone; 100]);
    assert_eq!(many.len(), super::TOLD_MAX + 1);
    assert!(many[super::TOLD_MAX].starts_with("100 acknowledged orders"));
}
