//! A replicated state machine with its log elsewhere (SIREN §5): Ensile keeps the state without a log.
//!
//! The machine applies a command in a transaction that also writes the command's index. After a crash the state is the
//! whole state behind one command, and has the index of the command. The machine asks for the later commands again. A
//! picture is taken now and then, and at every close. Run the example twice: the second run goes on at the end of the
//! first run.
//!
//! Run: `cargo run --release --example state_machine`
#![forbid(unsafe_code)]

use std::path::Path;

use ensile::checkpoint::Schedule;
use ensile::prelude::*;

/// A command of the replicated log: the peers have agreed on the command.
#[derive(Clone, Debug)]
enum Command {
    Deposit { account: u64, amount: u64 },
    Transfer { from: u64, to: u64, amount: u64 },
}

/// The replicated log. A real log asks its peers. A real log keeps the commands behind the last index that every peer
/// has in a picture.
fn command(index: u64) -> Command {
    match index % 3 {
        0 => Command::Transfer { from: index % 7, to: index % 5, amount: 3 },
        _ => Command::Deposit { account: index % 7, amount: index },
    }
}

struct StateMachine {
    db: Database,
    accounts: Table<u64, u64>,
    /// One row: the index of the last applied command.
    applied: Table<u8, u64>,
}

impl StateMachine {
    fn open(folder: &Path) -> Result<Self> {
        let db = Database::builder(folder)
            .without_log()
            // A picture whenever a megabyte has changed; nothing waits for a picture.
            .checkpoints(Schedule::on_demand().log_bytes(1 << 20))
            .open()?;
        let (accounts, applied) = (db.table("accounts")?, db.table("applied")?);
        Ok(Self { db, accounts, applied })
    }

    /// Index of the last command in the state.
    fn applied(&self) -> Result<u64> {
        self.db.run(|tx| Ok(tx.get(&self.applied, &0)?.unwrap_or(0)))
    }

    /// Applies a command, and notes the index in the same transaction. A command that was applied before changes
    /// nothing.
    fn apply(&self, index: u64, command: &Command) -> Result<()> {
        self.db.run(|tx| {
            if index <= tx.get(&self.applied, &0)?.unwrap_or(0) {
                return Ok(());
            }
            match *command {
                Command::Deposit { account, amount } => {
                    let balance = tx.get(&self.accounts, &account)?.unwrap_or(0);
                    tx.put(&self.accounts, &account, &(balance + amount))?;
                }
                Command::Transfer { from, to, amount } => {
                    let balance = tx.get(&self.accounts, &from)?.unwrap_or(0);
                    let moved = amount.min(balance);
                    tx.put(&self.accounts, &from, &(balance - moved))?;
                    let balance = tx.get(&self.accounts, &to)?.unwrap_or(0);
                    tx.put(&self.accounts, &to, &(balance + moved))?;
                }
            }
            tx.put(&self.applied, &0, &index)
        })
    }

    /// Index that no crash takes back: the replicated log may drop the commands up to this index.
    fn durable_index(&self) -> Result<u64> {
        let (index, receipt) = self.db.submit(|tx| Ok(tx.get(&self.applied, &0)?.unwrap_or(0)))?;
        receipt.durable()?;
        Ok(index)
    }
}

/// Runs the machine in this folder up to the command with index `last`. Returns the sum of all accounts.
fn run(folder: &Path, last: u64) -> Result<u64> {
    let machine = StateMachine::open(folder)?;
    let applied = machine.applied()?;
    println!("the state is that behind command {applied}");
    for index in applied + 1..=last {
        machine.apply(index, &command(index))?;
    }
    println!("up to command {} nothing can be lost", machine.durable_index()?);
    let sum = machine.db.run(|tx| {
        tx.range(&machine.accounts, ..).map(|row| row.map(|(_account, balance)| balance)).sum::<Result<u64>>()
    })?;
    machine.db.close()?;
    Ok(sum)
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join("ensile-state-machine");
    let last = 1000;
    let sum = run(&folder, last)?;
    assert_eq!(sum, run(&folder, last)?, "it goes on where it ended");
    println!("all accounts: {sum}");
    Ok(())
}
