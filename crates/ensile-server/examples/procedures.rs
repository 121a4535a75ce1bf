//! A server with a procedure of its own: clients move money between accounts by one call, which is one transaction.
//!
//! ```sh
//! cargo run --release -p ensile-server --example procedures -- ./data 127.0.0.1:6379
//! redis-cli MSET anna 100 bob 0
//! redis-cli FCALL transfer 2 anna bob 30
//! ```
//! `redis-cli SHUTDOWN` ends the server.
#![forbid(unsafe_code)]

use std::error::Error;

use ensile::prelude::*;
use ensile_server::{ProcedureCall, ProcedureError, ReplyValue, Server};

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "data".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:6379".to_owned()).parse()?;
    let db = Database::builder(folder).durability(Durability::Process).open()?;
    let server = Server::builder(db).procedure("transfer", transfer).build()?.listen(address)?;
    println!("{}", server.address());
    Ok(server.wait()?)
}

/// `FCALL transfer 2 FROM TO AMOUNT`: moves the amount, and replies the rest of the first account.
fn transfer(call: &mut ProcedureCall<'_, '_>) -> std::result::Result<ReplyValue, ProcedureError> {
    let (&[from, to], &[amount]) = (call.keys(), call.arguments()) else {
        return Err(ProcedureError::Reply("ERR transfer has two keys and an amount".to_owned()));
    };
    let rest = call.command(&[b"DECRBY", from, amount])?;
    if matches!(rest, ReplyValue::Integer(..0)) {
        // An error takes back the change before.
        return Err(ProcedureError::Reply("POOR the account has less".to_owned()));
    }
    call.command(&[b"INCRBY", to, amount])?;
    Ok(rest)
}
