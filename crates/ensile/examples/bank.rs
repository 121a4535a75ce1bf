//! A bank on all cores: tellers move money at random, an auditor adds the money up meanwhile, and the sum stays the
//! same.
//!
//! Run: `cargo run --release --example bank`
#![forbid(unsafe_code)]

use std::thread;

use ensile::prelude::*;

const ACCOUNTS: u32 = 1000;
const OPENING_BALANCE: u64 = 100;
const TELLERS: u64 = 4;
const TRANSFERS: u64 = 50_000;
const AUDITS: u64 = 20;

/// Moves `amount`. Returns false if the balance is too small, or if both accounts are the same.
fn transfer(db: &Database, accounts: &Table<u32, u64>, from: u32, to: u32, amount: u64) -> Result<bool> {
    db.run(|tx| {
        let balance = tx.get(accounts, &from)?.unwrap_or(0);
        if balance < amount || from == to {
            return Ok(false);
        }
        tx.put(accounts, &from, &(balance - amount))?;
        tx.update(accounts, &to, |balance| *balance += amount)
    })
}

/// A teller's day. Returns the number of transfers with enough money.
fn work(db: &Database, accounts: &Table<u32, u64>, teller: u64) -> Result<u64> {
    let mut random = teller;
    let mut moved = 0;
    for _ in 0..TRANSFERS {
        // A linear congruential generator: the upper bits are random enough for a bank.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [from, to] = [random >> 33, random >> 13].map(|bits| (bits % u64::from(ACCOUNTS)) as u32);
        moved += u64::from(transfer(db, accounts, from, to, random >> 58)?);
    }
    Ok(moved)
}

/// Adds up all accounts as of one moment.
fn total(reader: &mut impl Readable, accounts: &Table<u32, u64>) -> Result<u64> {
    reader.range(accounts, ..).map(|row| row.map(|(_id, balance)| balance)).sum()
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let accounts = db.table::<u32, u64>("accounts")?;
    db.run(|tx| (0..ACCOUNTS).try_for_each(|id| tx.put(&accounts, &id, &OPENING_BALANCE)))?;

    let moved = thread::scope(|scope| {
        let tellers: Vec<_> = (1..=TELLERS)
            .map(|teller| {
                let (db, accounts) = (&db, &accounts);
                scope.spawn(move || work(db, accounts, teller))
            })
            .collect();
        for _ in 0..AUDITS {
            assert_eq!(total(&mut db.snapshot_latest()?, &accounts)?, u64::from(ACCOUNTS) * OPENING_BALANCE);
        }
        tellers.into_iter().map(|teller| teller.join().expect("no teller panics")).sum::<Result<u64>>()
    })?;

    assert_eq!(db.run(|tx| total(tx, &accounts))?, u64::from(ACCOUNTS) * OPENING_BALANCE);
    let stats = db.stats();
    println!(
        "{moved} transfers, {AUDITS} audits, {} commits, {} conflicts run again",
        stats.commits, stats.aborts
    );
    Ok(())
}
