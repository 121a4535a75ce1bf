//! The stock-level transaction (clause 2.8): number of low-stock items in a district's last twenty orders.
//!
//! Neighbours: [`super::terminal`] draws and runs the transaction, by default on a snapshot.

use std::ops::ControlFlow;

use ensile::{Error, Readable};
use ensile_base::random::Random;

use super::desk::Desk;
use super::keys::{self, DISTRICTS, LineNumber};
use super::tables::{Tables, missing};

/// Number of examined orders.
const ORDERS: u32 = 20;

/// Input of the transaction at the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub(crate) warehouse: u16,
    pub(crate) district: u8,
    pub(crate) threshold: i32,
}

impl Input {
    /// Draws an input (2.8.1).
    #[inline]
    pub(crate) fn draw(desk: &Desk<'_>, random: &mut Random) -> Self {
        Self {
            warehouse: desk.home(random),
            district: random.next_between(1, u64::from(DISTRICTS)) as u8,
            threshold: random.next_between(10, 20) as i32,
        }
    }
}

/// Stock rows fetched from memory at a time.
const ITEMS_TOGETHER: usize = 64;

/// Returns the number of distinct items below the threshold.
pub(crate) fn run(
    reader: &mut impl Readable,
    tables: &Tables,
    input: &Input,
    items: &mut Vec<u32>,
) -> Result<usize, Error> {
    let (warehouse, district) = (input.warehouse, input.district);
    let next = reader
        .get_with(&tables.district, &keys::district(warehouse, district), |row| row.next_order.get())?
        .ok_or_else(|| missing("district"))?;
    items.clear();
    let first = keys::order_line(warehouse, district, next.saturating_sub(ORDERS), 0);
    let lines = first..=(first.0, first.1, next - 1, LineNumber::MAX);
    reader.scan(&tables.order_line, lines, |_, line| {
        items.push(line.item.get());
        ControlFlow::Continue(())
    })?;
    // Duplicates are removed after the threshold: few items are below the threshold, so the removal costs less.
    let (mut low, mut all_there) = (0, true);
    for first in (0..items.len()).step_by(ITEMS_TOGETHER) {
        let count = ITEMS_TOGETHER.min(items.len() - first);
        let mut keys = [keys::stock(warehouse, 0); ITEMS_TOGETHER];
        for (key, item) in keys.iter_mut().zip(&items[first..]) {
            key.1 = *item;
        }
        reader.get_many_with(&tables.stock, &keys[..count], |at, row| match row {
            Some(row) if row.quantity.get() < input.threshold => {
                items[low] = keys[at].1;
                low += 1;
            }
            Some(_) => {}
            None => all_there = false,
        })?;
    }
    if !all_there {
        return Err(missing("stock"));
    }
    items.truncate(low);
    items.sort_unstable();
    items.dedup();
    Ok(items.len())
}
