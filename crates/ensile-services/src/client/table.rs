//! A client of the hash table.
//!
//! Neighbours: [`super::RespClient`] sends and receives; [`crate::pht`] is the service.

use std::net::ToSocketAddrs;

use ensile_resp::Reply;

use super::{ClientResult, RespClient, all_of, integer_of, value_of};

/// A client of the hash table, [`crate::pht`].
///
/// A call returns a [`ClientError`](super::ClientError) if the connection fails, or if the server refuses the request.
#[derive(Debug)]
pub struct TableClient(RespClient);

impl TableClient {
    /// Connects to a server.
    pub fn connect(address: impl ToSocketAddrs) -> ClientResult<Self> {
        RespClient::connect(address).map(Self)
    }

    /// The connection, for other commands.
    pub fn connection(&mut self) -> &mut RespClient {
        &mut self.0
    }

    /// Value of a key, if present.
    pub fn get(&mut self, key: &[u8]) -> ClientResult<Option<Vec<u8>>> {
        self.0.call(&[&b"GET"[..], key], value_of)
    }

    /// Values, in the order of their keys, in one round trip.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> ClientResult<Vec<Option<Vec<u8>>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let arguments: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys.iter().copied()).collect();
        self.0.call(&arguments, |reply| all_of(reply, value_of))
    }

    /// Sets a value.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> ClientResult<()> {
        self.0.call(&[&b"SET"[..], key, value], is_ok)?;
        Ok(())
    }

    /// Sets a value if the stored value is `expected`; with `None`, if no value is stored. True if the value was set.
    pub fn compare_and_set(
        &mut self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> ClientResult<bool> {
        match expected {
            Some(expected) => self.0.call(&[&b"SET"[..], key, value, b"IFEQ", expected], is_ok),
            None => self.0.call(&[&b"SET"[..], key, value, b"NX"], is_ok),
        }
    }

    /// Deletes an element. True if the element was present.
    pub fn delete(&mut self, key: &[u8]) -> ClientResult<bool> {
        Ok(self.0.call(&[&b"DEL"[..], key], integer_of)? == 1)
    }

    /// Adds to a whole number; an absent number counts as zero. Returns the sum.
    pub fn increment(&mut self, key: &[u8], by: i64) -> ClientResult<i64> {
        self.0.call(&[&b"INCRBY"[..], key, by.to_string().as_bytes()], integer_of)
    }

    /// Takes a step of a scan. Returns the cursor to go on from, and keys. Cursor zero begins the scan; a returned zero
    /// ends the scan.
    pub fn scan(&mut self, cursor: u64, count: usize) -> ClientResult<(u64, Vec<Vec<u8>>)> {
        let (cursor, count) = (cursor.to_string(), count.to_string());
        self.0.call(&["SCAN", &cursor, "COUNT", &count], |reply| {
            let Reply::Array(mut parts) = reply else { return None };
            let Reply::Bulk(next) = parts.next()? else { return None };
            let keys = all_of(parts.next()?, value_of)?.into_iter().flatten().collect();
            Some((std::str::from_utf8(next).ok()?.parse().ok()?, keys))
        })
    }

    /// Requests the server's end, after everything is durable.
    pub fn shut_down(&mut self) -> ClientResult<()> {
        self.0.shut_down()
    }
}

/// True for `OK`, false for null: the condition did not hold.
fn is_ok(reply: Reply<'_>) -> Option<bool> {
    match reply {
        Reply::Simple(b"OK") => Some(true),
        Reply::Null => Some(false),
        _ => None,
    }
}
