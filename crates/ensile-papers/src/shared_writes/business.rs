//! TPC-C's transactions, one kind at a time, from two terminals of a small TPC-C database.
//!
//! Neighbours: [`super::alternation`] runs the transactions; [`ensile_bench::tpcc`] has the database.

use ensile_base::random::Random;
use ensile_bench::Result;
use ensile_bench::tpcc::draw::Constants;
use ensile_bench::tpcc::flags::{Flags, ReadMode};
use ensile_bench::tpcc::load;
use ensile_bench::tpcc::tables::{Scale, Tables};
use ensile_bench::tpcc::terminal::Terminal;

use super::alternation::{Does, Kind, Side, Stage, recorded};
use super::choices::Keys;
use super::manual_database::Driven;

/// A small scale. The rows of a warehouse still fill separate cache lines, and a district starts with undelivered
/// orders.
const SCALE: Scale = Scale { warehouses: 4, items: 1_000, customers: 300 };
/// Seed of the load and of the terminals' draws.
const SEED: u64 = 1;

/// Position of new-order in the mix.
const NEW_ORDER: usize = 0;
/// New-orders of a round. The delivery of a round takes as many orders, so a delivery always finds orders.
const NEW_ORDERS: usize = 10;

/// Transactions of a round: name, reads or writes, position in the mix, and read mode.
const TRANSACTIONS: [(&str, Does, usize, ReadMode); 7] = [
    ("new-order", Does::Writes, NEW_ORDER, ReadMode::Serializable),
    ("payment", Does::Writes, 1, ReadMode::Serializable),
    ("order-status", Does::Reads, 2, ReadMode::Serializable),
    ("order-status, snapshot", Does::Reads, 2, ReadMode::Snapshot),
    ("delivery", Does::Writes, 3, ReadMode::Serializable),
    ("stock-level", Does::Reads, 4, ReadMode::Serializable),
    ("stock-level, snapshot", Does::Reads, 4, ReadMode::Snapshot),
];

/// A loaded TPC-C database.
pub(super) struct Offices<'d> {
    driven: &'d Driven,
    tables: Tables,
    constants: Constants,
    flags: Vec<Flags>,
    keys: Keys,
}

impl<'d> Offices<'d> {
    pub(super) fn load(driven: &'d Driven, keys: Keys) -> Result<Self> {
        let tables = Tables::open(&driven.db, SCALE)?;
        let constants = Constants::seeded(SEED);
        driven.while_beating(|| load::load(&tables, constants, SEED, 1))?;
        driven.settle();
        let flags = TRANSACTIONS.iter().map(|&(_, _, place, mode)| {
            let mut mix = [0; 5];
            mix[place] = 1;
            Flags {
                mix,
                remote_items_per_million: 0,
                remote_payments: 0,
                order_status: mode,
                stock_level: mode,
                ..Flags::default()
            }
        });
        Ok(Self { driven, tables, constants, flags: flags.collect(), keys })
    }
}

impl Stage for Offices<'_> {
    fn kinds(&self) -> Vec<Kind> {
        let times = |place| if place == NEW_ORDER { NEW_ORDERS } else { 1 };
        TRANSACTIONS.iter().map(|&(name, does, place, _)| Kind { name, does, times: times(place) }).collect()
    }

    fn side(&self, side: usize) -> Side<'_> {
        // Home warehouses: the first and the last, the first two, or the same one. Remote accesses are off.
        let home = match self.keys {
            Keys::Apart => side * (usize::from(SCALE.warehouses) - 1),
            Keys::Neighbouring => side,
            Keys::Same => 0,
        };
        let place = (home, usize::from(SCALE.warehouses));
        let terminal = |flags| Terminal::new(&self.tables, flags, self.constants, place);
        let mut terminals: Vec<Terminal<'_>> = self.flags.iter().map(terminal).collect();
        let mut random = Random::from_seed(SEED + side as u64);
        Box::new(move |kind| recorded(|| terminals[kind].one(&mut random).map(drop)))
    }

    fn beat(&self) {
        self.driven.beat();
    }
}
