//! The verdict sees what it is there to see: an acknowledged order that is gone, short of a line, or of another amount.
//!
//! Neighbours: [`super`]; the whole cycle of kill and recovery is tested through the `ensile-bench` command.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use ensile::checkpoint::Schedule;
use ensile::{Database, Readable};

use super::victim::{Acknowledged, schedule};
use super::{KeptBy, missing_orders, victim};
use crate::command::Bench;
use crate::tpcc::draw::Constants;
use crate::tpcc::keys::LineNumber;
use crate::tpcc::load::load;
use crate::tpcc::tables::{Scale, Tables};

/// The command line.
#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    bench: Bench,
}

fn parsed(words: impl IntoIterator<Item = OsString>) -> Bench {
    Line::try_parse_from([OsString::from("ensile-bench")].into_iter().chain(words)).expect("it parses").bench
}

#[test]
fn the_victim_makes_checkpoints_at_the_interval_that_was_asked_for_and_otherwise_as_a_database_does() {
    let usual = Schedule::default();
    let asked = usual.clone().interval(Duration::from_millis(7));
    for (line, expected) in
        [("tpcc --crash-after 1", usual), ("tpcc --crash-after 1 --checkpoint-ms 7", asked)]
    {
        let Bench::Tpcc(arguments) = parsed(line.split(' ').map(OsString::from)) else { panic!("{line}") };
        let command = victim(&arguments, Path::new("folder"), 0).expect("this program is there");
        let words = command.get_args().map(OsStr::to_owned);
        let Bench::TpccVictim(arguments) = parsed(words) else { panic!("{command:?}") };
        assert_eq!(schedule(&arguments), expected, "{line}");
    }
}

#[test]
fn the_victims_orders_are_kept_by_what_was_asked_for() {
    for (options, kept_by) in [
        ("", KeptBy::Log),
        (" --picture-checkpoints", KeptBy::LogAndPictures),
        (" --no-log", KeptBy::Pictures),
        (" --picture-checkpoints --no-log", KeptBy::Pictures),
    ] {
        let line = format!("tpcc --crash-after 1{options}");
        let Bench::Tpcc(arguments) = parsed(line.split(' ').map(OsString::from)) else { panic!("{line}") };
        assert_eq!(KeptBy::of(arguments.picture_checkpoints, arguments.no_log), kept_by, "{line}");
        let command = victim(&arguments, Path::new("folder"), 0).expect("this program is there");
        let Bench::TpccVictim(arguments) = parsed(command.get_args().map(OsStr::to_owned)) else {
            panic!("{command:?}")
        };
        assert_eq!(KeptBy::of(arguments.picture_checkpoints, arguments.no_log), kept_by, "{line}");
    }
}

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
