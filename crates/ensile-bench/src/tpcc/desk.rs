//! The desk of a terminal: the source of drawn inputs of transactions.
//!
//! Neighbours: the five transactions draw their inputs here; a [`super::terminal`] has one desk.

use std::cell::Cell;

use ensile_base::random::Random;

use super::draw::{Constants, LAST_NAMES, last_name, nurand};
use super::flags::Flags;
use super::tables::{Scale, Tables};

/// The selection of a customer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selection {
    /// By number.
    Number(u32),
    /// By last name: the middle customer of this name.
    LastName([u8; 16]),
}

/// One desk.
pub(crate) struct Desk<'a> {
    pub(crate) scale: Scale,
    pub(crate) flags: &'a Flags,
    pub(crate) constants: Constants,
    tables: &'a Tables,
    worker: usize,
    workers: usize,
    writer: u16,
    history: Cell<u64>,
}

impl<'a> Desk<'a> {
    /// The desk of `worker`, one of `workers`.
    pub(crate) fn new(
        tables: &'a Tables,
        flags: &'a Flags,
        constants: Constants,
        (worker, workers): (usize, usize),
    ) -> Self {
        let (scale, writer) = (tables.scale, tables.next_writer());
        Self { scale, flags, constants, tables, worker, workers, writer, history: Cell::new(0) }
    }

    /// The home warehouse: the worker's own warehouse, or a random draw from the worker's several warehouses. With
    /// `any_home`, a random draw from all warehouses.
    #[inline]
    pub(crate) fn home(&self, random: &mut Random) -> u16 {
        let warehouses = usize::from(self.scale.warehouses);
        if self.flags.any_home {
            return random.next_between(1, warehouses as u64) as u16;
        }
        if warehouses <= self.workers {
            return (self.worker % warehouses) as u16 + 1;
        }
        let own = (warehouses - self.worker).div_ceil(self.workers);
        (self.worker + self.workers * random.next_below(own as u64) as usize) as u16 + 1
    }

    /// A random warehouse other than `than`.
    #[inline]
    pub(crate) fn other(&self, random: &mut Random, than: u16) -> u16 {
        let other = random.next_between(1, u64::from(self.scale.warehouses) - 1) as u16;
        if other >= than { other + 1 } else { other }
    }

    /// A customer number.
    #[inline]
    pub(crate) fn customer(&self, random: &mut Random) -> u32 {
        nurand(random, 1023, self.constants.customer, 1, u64::from(self.scale.customers)) as u32
    }

    /// A customer by last name (60 %) or by number.
    #[inline]
    pub(crate) fn selection(&self, random: &mut Random) -> Selection {
        if random.percent(60) {
            let names = u64::from(self.scale.customers.min(LAST_NAMES));
            Selection::LastName(last_name(
                nurand(random, 255, self.constants.last_name_run, 0, names - 1) as u32
            ))
        } else {
            Selection::Number(self.customer(random))
        }
    }

    /// This desk's number, and the number of its next history row.
    #[inline]
    pub(crate) fn next_history(&self) -> (u16, u64) {
        let number = self.history.get();
        self.history.set(number + 1);
        (self.writer, number)
    }

    /// The number of the next order of a district, if the number does not come from the district's row.
    #[inline]
    pub(crate) fn order_number(&self, warehouse: u16, district: u8) -> Option<u32> {
        self.flags.fast_ids.then(|| self.tables.next_order_id(warehouse, district))
    }
}
