//! What is run: YCSB (single-key transactions) and TPC-C (an order-entry business).
//!
//! Neighbours: [`crate::driver`] runs them, [`crate::system`] opens what they run on.

pub(crate) mod tpcc;
pub(crate) mod ycsb;
